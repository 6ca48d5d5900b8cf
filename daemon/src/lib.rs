//! What Warren's daemons do alike: log, stop on signals, tell systemd.

mod logging;
mod stop;

pub use logging::{LoggingError, start_logging};
pub use stop::{StopError, stopped, tell_ready, tell_stopping};
