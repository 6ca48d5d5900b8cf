//! Arguments of the verb `flux`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::workflow::Hosts;

#[derive(Debug, Subcommand)]
pub(crate) enum FluxVerb {
    /// Write the rabbit mapping: the bytes and computes of each rabbit
    Rabbitmapping(RabbitMapping),
    /// Add rabbits to an R: the resource graph of Flux's scheduler Fluxion
    Jgf(Jgf),
    /// Show rabbits, rabbits of computes and jobs, or computes of rabbits, as a host list
    Getrabbit(GetRabbit),
}

/// Where the output goes.
#[derive(Debug, Args)]
pub(crate) struct Destination {
    /// Write nothing: say how this file differs from the cluster; exit status 1 if it does
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
    /// Write this file, which is replaced as a whole, instead of standard output
    #[arg(short, long, value_name = "FILE", conflicts_with = "check")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct RabbitMapping {
    /// Write many lines, indented by this number of spaces
    #[arg(short, long, value_name = "SPACES", value_parser = clap::value_parser!(u8).range(..=16))]
    pub indent: Option<u8>,
    /// Count the bytes of Servers that no job of Flux made, such as other storage of the site, as free
    #[arg(long)]
    pub ignore_external_allocations: bool,
    #[command(flatten)]
    pub destination: Destination,
}

#[derive(Debug, Args)]
pub(crate) struct Jgf {
    /// Rabbit mapping [default: the cluster's]
    #[arg(value_name = "MAPPING")]
    pub mapping: Option<PathBuf>,
    /// R of the Flux instance (RFC 20), or - for standard input [default: with --check its file, else -]
    #[arg(short, long, value_name = "FILE")]
    pub resources: Option<PathBuf>,
    /// Ssds of each rabbit; Flux gives a job whole ssds [default: those of the graph in R, else 36]
    #[arg(short, long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub chunks: Option<u32>,
    /// Name of the cluster [default: that of the graph in R, else this host's name without digits]
    #[arg(long, value_name = "NAME")]
    pub cluster_name: Option<String>,
    /// Flux's setting resource.exclude: ranks as in 0-3,5, or a host list; rabbits stay
    #[arg(long, value_name = "SET", default_value = "", hide_default_value = true)]
    pub exclude: String,
    /// Accept an R that lacks computes of the mapping
    #[arg(long)]
    pub no_validate: bool,
    /// Write the graph alone: the value of `scheduling`
    #[arg(long)]
    pub only_sched: bool,
    #[command(flatten)]
    pub destination: Destination,
}

#[derive(Debug, Args)]
pub(crate) struct GetRabbit {
    /// Rabbits whose computes are wanted, as in rabbit-[1-3,8]
    #[arg(value_name = "HOSTLIST")]
    pub rabbits: Vec<Hosts>,
    /// Computes whose rabbits are wanted
    #[arg(short, long, value_name = "HOSTLIST", num_args = 1..)]
    pub computes: Vec<Hosts>,
    /// Jobs of Flux whose rabbits are wanted, decimal or F58
    #[arg(short, long, value_name = "JOBID", num_args = 1..)]
    pub jobids: Vec<String>,
    /// Rabbit mapping [default: the cluster's]
    #[arg(long, value_name = "FILE")]
    pub mapping: Option<PathBuf>,
}
