//! The programs, and what of their pages is written by hand.

use clap::{Command, CommandFactory};

/// One program.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) command: Command,
    /// Of the manual: 1 for what anybody runs, 8 for daemons.
    pub(crate) section: &'static str,
    /// Its last sections, as roff.
    pub(crate) last: &'static str,
}

/// All that are installed.
pub(crate) fn all() -> [Program; 4] {
    [
        Program {
            name: "clientmount-agent",
            command: clientmount_agent::config::Args::command(),
            section: "8",
            last: include_str!("../../../docs/man/clientmount-agent.last"),
        },
        Program {
            name: "rabbit-agent",
            command: rabbit_agent::config::Args::command(),
            section: "8",
            last: include_str!("../../../docs/man/rabbit-agent.last"),
        },
        Program {
            name: "coordinator",
            command: coordinator::config::CommandLine::command(),
            section: "8",
            last: include_str!("../../../docs/man/coordinator.last"),
        },
        Program {
            name: "warren",
            command: warren::command(),
            section: "1",
            last: include_str!("../../../docs/man/warren.last"),
        },
    ]
}
