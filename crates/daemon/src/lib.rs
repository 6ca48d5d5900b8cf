//! What Warren's daemons do alike: log, run to an exit code, listen, accept, stop on signals, tell systemd.

pub mod accept;
mod blocking;
mod chain;
mod go_flags;
mod listen;
mod logging;
pub mod pages;
mod run;
mod stop;
mod vital;
mod zap;

pub use blocking::blocking;
pub use chain::chain;
pub use go_flags::{GoFlag, translate};
pub use listen::{ListenError, listen};
pub use logging::{LoggingError, start_logging};
pub use run::{End, LogArgs, Threads, run};
pub use stop::{Signals, StopError, tell_ready, tell_stopping};
pub use vital::{vital, vital_now};
pub use zap::ZapArgs;
