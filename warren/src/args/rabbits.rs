//! Arguments of the verb `rabbit`.

use std::time::Duration;

use clap::{Args, Subcommand};

use super::{parse_timeout, workflow::Hosts};

#[derive(Debug, Subcommand)]
pub(crate) enum RabbitVerb {
    /// Show each rabbit: status, free bytes, jobs, and why jobs cannot use it
    List(Rabbits),
    /// Show one rabbit: its status, drives, links, agent and jobs
    Show {
        /// Name of the rabbit
        rabbit: String,
    },
    /// Show the size, allocated and free bytes of each rabbit, and their sums
    Df(Rabbits),
    /// Show the workflows and persistent storage that have bytes on rabbits
    Jobs(Rabbits),
    /// Give no new storage to jobs on rabbits; storage that is there stays
    Disable {
        /// Rabbits, as in rabbit-[1-3,8]
        #[arg(required = true, value_name = "HOSTLIST")]
        rabbits: Vec<Hosts>,
        /// Why, for those who look later; the object also keeps who and when
        #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        reason: String,
    },
    /// Disable rabbits, and show the jobs that still have storage there
    Drain {
        /// Rabbits, as in rabbit-[1-3,8]
        #[arg(required = true, value_name = "HOSTLIST")]
        rabbits: Vec<Hosts>,
        /// Why, for those who look later; the object also keeps who and when
        #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        reason: String,
        /// End only when no job has storage there
        #[arg(long)]
        when_idle: bool,
        /// With --when-idle: give up after this time, as in `90s` or `5h`
        #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = parse_timeout)]
        timeout: Duration,
    },
    /// Propose which rabbits to drain, because drives wear out or they or their links have errors
    Advise {
        /// Disable at most so many of the proposed rabbits
        #[arg(long, value_name = "NUMBER", num_args = 0..=1, default_missing_value = "1")]
        act: Option<usize>,
    },
    /// Let jobs use rabbits again
    Enable {
        /// Rabbits, as in rabbit-[1-3,8]
        #[arg(required = true, value_name = "HOSTLIST")]
        rabbits: Vec<Hosts>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Rabbits {
    /// Only these rabbits, as in rabbit-[1-3,8]
    #[arg(value_name = "HOSTLIST")]
    pub rabbits: Vec<Hosts>,
}
