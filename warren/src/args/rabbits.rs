//! Arguments of the verb `rabbit`.

use clap::{Args, Subcommand};

use super::workflow::Hosts;

#[derive(Debug, Subcommand)]
pub(crate) enum RabbitVerb {
    /// Show each rabbit: status, free bytes, jobs, and why jobs cannot use it
    List(Rabbits),
    /// Show the workflows that have storage on rabbits
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
