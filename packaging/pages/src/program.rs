//! The programs with manual pages, and the sections of those pages that are written by hand.

use clap::{Command, CommandFactory};

/// An installed program and what its manual pages are made from.
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) command: Command,
    /// Section of the manual: 1 for commands of users, 8 for daemons.
    pub(crate) section: &'static str,
    /// Last sections of the program's page, as roff.
    pub(crate) last: &'static str,
}

/// Returns all programs that the packages install.
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
