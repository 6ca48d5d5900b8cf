//! Parts that Warren's daemons have in common: logs, exit codes, listeners,
//! connections, signals, systemd notifications.

pub mod accept;
mod blocking;
mod go_flags;
mod listen;
mod logging;
pub mod pages;
mod run;
mod stop;
mod timer;
mod vital;
mod zap;

pub use blocking::blocking;
pub use causes::chain;
pub use go_flags::{GoFlag, translate};
pub use listen::{ListenError, Listening, inherit_or_listen, listen, listen_open};
pub use logging::{LoggingError, start_logging};
pub use run::{End, LogArgs, Threads, run};
pub use stop::{Signals, StopError, notify_ready, notify_stopping};
pub use timer::sleep_until;
pub use vital::{vital, vital_now};
pub use zap::ZapArgs;
