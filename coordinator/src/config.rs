//! The configuration of a coordinator, parsed from its command line.

mod command_line;
mod limits;
mod workflows;

use std::net::SocketAddr;
use std::path::PathBuf;

use apiclient::Address;
use thiserror::Error;
use workflow::Settings;

pub use command_line::{CommandLine, Standalone, Task};
pub use limits::LimitsFileError;

/// The Kubernetes API that the coordinator works on.
#[derive(Clone, Debug)]
pub enum Backend {
    /// The embedded API, served by this process.
    Standalone(Standalone),
    /// The API of a cluster.
    Cluster(Address),
}

/// Address and PEM files of the listener with mutual TLS.
#[derive(Clone, Debug)]
pub struct Tls {
    pub listen: SocketAddr,
    /// The coordinator's certificate chain.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Certificates of the authorities that sign the nodes' certificates.
    pub authority: PathBuf,
    /// Names of operators' certificates, whose holders may list all nodes and act for every user.
    pub operators: Vec<String>,
}

/// The checked configuration of a coordinator.
#[derive(Clone, Debug)]
pub struct Config {
    pub backend: Backend,
    /// Path of the unix socket for agents and operators.
    pub socket: PathBuf,
    /// Path of the unix socket of the gRPC service `Workloads`, for every user.
    pub workloads: Option<PathBuf>,
    /// Uids of the users that may act for every user, each with the name of its workload manager.
    pub managers: Vec<(u32, String)>,
    /// The listener for agents on other hosts.
    pub tls: Option<Tls>,
    /// Address of the listener for probes and metrics.
    pub http: Option<SocketAddr>,
    /// Listener of the admission webhooks, which a cluster's API server calls before it stores an object.
    pub webhook: Option<Webhook>,
    /// The settings of the workflow engine; `None` where it does not run.
    pub workflows: Option<Settings>,
}

/// Address and PEM files of the admission webhooks' listener.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub listen: SocketAddr,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Flags that are well formed but cannot be used together.
#[derive(Debug, Error)]
pub enum InvalidConfig {
    #[error(
        "this coordinator was built without the embedded API: name the cluster with --kubeconfig or --in-cluster, or install one that was built with the feature `standalone`"
    )]
    NotStandalone,
    #[error(
        "--socket and another socket option (--api-socket or --workloads-socket) both name {0}: give them different paths"
    )]
    SameSocket(PathBuf),
    #[error(transparent)]
    Limits(#[from] LimitsFileError),
}

impl TryFrom<CommandLine> for Config {
    type Error = InvalidConfig;

    fn try_from(line: CommandLine) -> Result<Self, InvalidConfig> {
        let CommandLine { api, standalone, nodes, workflows, .. } = line;
        let backend = match api.kubeconfig {
            Some(kubeconfig) => Backend::Cluster(Address::Kubeconfig(Some(kubeconfig))),
            None if api.in_cluster => Backend::Cluster(Address::InCluster),
            None if cfg!(not(feature = "standalone")) => return Err(InvalidConfig::NotStandalone),
            None => Backend::Standalone(standalone),
        };
        let api_socket = match &backend {
            Backend::Standalone(standalone) => Some(&standalone.api_socket),
            Backend::Cluster(_) => None,
        };
        if [api_socket, nodes.workloads_socket.as_ref()].contains(&Some(&nodes.socket)) {
            return Err(InvalidConfig::SameSocket(nodes.socket));
        }
        let identity = nodes.certificate.zip(nodes.key);
        let webhook = nodes.webhook_listen.zip(identity.clone());
        let webhook =
            webhook.map(|(listen, (certificate, key))| Webhook { listen, certificate, key });
        let operators = nodes.operator;
        let tls = nodes.listen.zip(identity).zip(nodes.ca);
        let tls = tls.map(|((listen, (certificate, key)), authority)| Tls {
            listen,
            certificate,
            key,
            authority,
            operators,
        });
        let workflows = workflows.settings(matches!(backend, Backend::Standalone(_)))?;
        Ok(Self {
            backend,
            socket: nodes.socket,
            workloads: nodes.workloads_socket,
            managers: nodes.wlm_user,
            tls,
            http: nodes.http_listen,
            webhook,
            workflows,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::path::Path;

    use clap::{CommandFactory, Parser};
    use daemon::Threads;

    use super::command_line::MOST_THREADS;
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Config, String> {
        let line = CommandLine::try_parse_from(std::iter::once(&"coordinator").chain(arguments))
            .map_err(|error| error.to_string())?;
        Config::try_from(line).map_err(|error| error.to_string())
    }

    #[test]
    fn command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[cfg(not(feature = "standalone"))]
    #[test]
    fn without_the_embedded_api_a_cluster_must_be_named() {
        let text = parse(&["--data-dir", "/d"]).unwrap_err();
        assert!(
            text.contains("without the embedded API") && text.contains("--in-cluster"),
            "{text}"
        );
        assert!(parse(&["--in-cluster"]).is_ok());
        let text = crate::restore(Path::new("/d"), Path::new("/f")).unwrap_err().to_string();
        assert!(text.contains("without the embedded API"), "{text}");
    }

    #[cfg(feature = "standalone")]
    #[test]
    fn the_kubeconfig_is_written_into_the_data_directory_by_default() {
        let config = parse(&["--data-dir", "/d"]).unwrap();
        let Backend::Standalone(standalone) = config.backend else {
            panic!("{:?}", config.backend)
        };
        assert_eq!(standalone.kubeconfig(), PathBuf::from("/d/kubeconfig"));
        assert!(config.tls.is_none());
    }

    #[test]
    fn a_global_directory_has_a_name_and_an_absolute_path() {
        for (value, words) in [
            ("/home", "write NAME=PATH"),
            ("Home=/home", "\"Home\" is no name"),
            ("home=home", "\"home\" is no absolute path"),
            ("home=/", "\"/\" is no absolute path"),
            ("home=/home/../etc", "\"/home/../etc\" is no absolute path"),
        ] {
            let refusal = parse(&["--workflows", "--global", value]).unwrap_err();
            assert!(refusal.contains(words), "{value}: {refusal}");
        }
        let config = parse(&["--workflows", "--global", "home=/home/,lus=/lus/a"]).unwrap();
        let directories = config.workflows.unwrap().directories;
        let expected = [("/home", "home"), ("/lus/a", "lus")];
        assert!(
            directories.iter().map(|(path, name)| (&**path, &**name)).eq(expected),
            "{directories:?}"
        );
    }

    #[test]
    fn data_dir_may_stand_before_or_after_the_subcommand_restore() {
        for arguments in
            [["restore", "/f", "--data-dir", "/d"], ["--data-dir", "/d", "restore", "/f"]]
        {
            let line = std::iter::once(&"coordinator").chain(&arguments);
            let line = CommandLine::try_parse_from(line).unwrap();
            assert_eq!(line.data_dir(), Path::new("/d"));
            assert!(matches!(line.task, Some(Task::Restore { file }) if file == Path::new("/f")));
        }
    }

    #[cfg(feature = "standalone")]
    #[test]
    fn invalid_or_incompatible_flags_are_refused_with_a_remedy() {
        for (arguments, part) in [
            (&["--api-listen", "0.0.0.0:6443"][..], "127.0.0.1"),
            (&["--api-socket", "/s", "--socket", "/s"], "different paths"),
            (&["--workloads-socket", "/s", "--socket", "/s"], "different paths"),
            (&["--workloads-socket", "/w", "--wlm-user", "nobody-has-this-name"], "no such user"),
            (&["--workloads-socket", "/w", "--wlm-user", "slurm-1=0"], "MANAGER=USER"),
            (&["--workloads-socket", "/w", "--wlm-user", "user=0"], "MANAGER=USER"),
            (&["--workloads-socket", "/w", "--wlm-user", "4294967290"], "MANAGER=USER"),
            (&["--wlm-user", "0"], "--workloads-socket"),
            (&["--listen", "0.0.0.0:7000"], "--certificate"),
            (&["--kubeconfig", "/k", "--in-cluster"], "cannot be used"),
        ] {
            let text = parse(arguments).unwrap_err();
            assert!(text.contains(part), "{text}");
        }
    }

    #[cfg(feature = "standalone")]
    #[test]
    fn workflows_are_driven_on_the_embedded_api_or_on_request() {
        let driven = |arguments: &[&str]| parse(arguments).unwrap().workflows;
        assert_eq!(driven(&["--mount-root", "/m/"]).unwrap().mount_root, "/m");
        assert!(driven(&["--workflows=false"]).is_none());
        assert!(driven(&["--in-cluster"]).is_none());
        assert!(driven(&["--in-cluster", "--workflows"]).is_some());
    }

    #[test]
    fn an_invalid_image_or_domain_is_refused_with_a_remedy() {
        let parse_flag = |flag: &str, value: &str| {
            let argument = format!("{flag}={value}");
            parse(&["--in-cluster", "--workflows", "--container-namespace=default", &argument])
        };
        for value in ["", " ", "a b"] {
            let text = parse_flag("--podhelper-image", value).unwrap_err();
            assert!(text.contains("--podhelper-image"), "{text}");
            assert!(text.contains("such as registry.example/podhelper:1, or leave"), "{text}");
        }
        for value in ["", "a..b", "Site", "-a"] {
            let text = parse_flag("--cluster-domain", value).unwrap_err();
            assert!(text.contains("write the cluster's, such as cluster.local"), "{text}");
        }
        let containers = |flag: &str, value: &str| {
            parse_flag(flag, value).unwrap().workflows.unwrap().containers.unwrap()
        };
        let image = containers("--podhelper-image", "registry.example/podhelper:1");
        assert_eq!(image.podhelper_image.as_deref(), Some("registry.example/podhelper:1"));
        assert_eq!(containers("--cluster-domain", "site.example.").cluster_domain, "site.example");
    }

    #[test]
    fn the_flag_threads_sets_the_number_of_threads() {
        let threads = |arguments: &[&str]| {
            let arguments = std::iter::once(&"coordinator").chain(arguments);
            CommandLine::try_parse_from(arguments).map(|line| line.threads())
        };
        let Threads::Many(by_default) = threads(&[]).unwrap() else { panic!("only one thread") };
        assert!(by_default <= MOST_THREADS);
        let three = NonZeroUsize::new(3).unwrap();
        assert_eq!(threads(&["--threads", "3"]).unwrap(), Threads::Many(three));
        assert!(threads(&["--threads", "0"]).is_err());
    }

    #[test]
    fn flags_of_mutual_tls_fill_its_configuration() {
        let config = parse(&[
            "--in-cluster",
            "--listen",
            "0.0.0.0:7000",
            "--certificate",
            "/c",
            "--key",
            "/k",
            "--ca",
            "/a",
            "--operator",
            "ops,root",
        ])
        .unwrap();
        assert_eq!(config.tls.unwrap().operators, ["ops", "root"]);
        assert!(matches!(config.backend, Backend::Cluster(Address::InCluster)));
    }
}
