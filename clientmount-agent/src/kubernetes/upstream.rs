//! Decides from flags and environment whether the agent uses a coordinator or the API itself. Pure.

use std::path::PathBuf;

use apiclient::{Address, Credentials};
use clap::{ArgMatches, parser::ValueSource};
use thiserror::Error;

use super::KubernetesArgs;

/// Where a value was given, in rising order of priority.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    #[default]
    None,
    Environment,
    CommandLine,
}

/// Where the coordinator and the API were named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlagSources {
    /// Where `--coordinator` was given.
    coordinator: Source,
    /// Where `--api` was given.
    api: Source,
    /// Where the API's host, port, token or certificate was given. If they were given in several places, the place of
    /// the highest priority.
    service: Source,
    /// The flag that was given in the place `service`.
    service_flag: &'static str,
    /// Whether the program was started under the name of the Go daemon.
    as_clientmountd: bool,
}

/// The source of the node's ClientMounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    Coordinator,
    Api,
}

/// The API that the flags name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiUpstream {
    pub address: Address,
    /// Token and CA files, for an address `https://HOST:PORT`; other addresses name their own credentials.
    pub credentials: Option<Credentials>,
    /// Text about flags that are not used; the agent logs it at its start.
    pub note: Option<String>,
}

/// Flags that are incomplete, or that name two sources of ClientMounts, or the API twice.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum UpstreamError {
    #[error(
        "{coordinator} and {api} name two sources of this node's ClientMounts: give only one of them, the coordinator's or the API's"
    )]
    Both { coordinator: &'static str, api: &'static str },
    #[error("--api and {0} name the API twice: give one of them")]
    TwoAddresses(&'static str),
    /// Only the host or only the port was given.
    #[error("{flag} ({value:?}) without {missing}: give both, or neither to use a kubeconfig")]
    Half { flag: &'static str, value: String, missing: &'static str },
    #[error(
        "--kubernetes-service-host {host:?} and --kubernetes-service-port {port:?} make no address: give a host name or an IP address, and a port from 1 to 65535"
    )]
    Address { host: String, port: String },
    #[error("{flag} is missing: name the {what} (or set {variable})")]
    Credentials { flag: &'static str, what: &'static str, variable: &'static str },
}

const HOST: &str = "--kubernetes-service-host";
const PORT: &str = "--kubernetes-service-port";
const TOKEN: &str = "--service-token-file";
const CERTIFICATE: &str = "--service-cert-file";

impl FlagSources {
    /// Reads the sources from a command line and its environment.
    pub fn read(matches: &ArgMatches, as_clientmountd: bool) -> Self {
        let source = |id| match matches.value_source(id) {
            Some(ValueSource::CommandLine) => Source::CommandLine,
            // A variable that is set and empty counts as not set.
            Some(ValueSource::EnvVariable) if !is_empty(matches, id) => Source::Environment,
            _ => Source::None,
        };
        let flags = [
            ("kubernetes_service_host", HOST),
            ("kubernetes_service_port", PORT),
            ("service_token_file", TOKEN),
            ("service_cert_file", CERTIFICATE),
        ];
        let strongest =
            flags.map(|(id, flag)| (source(id), flag)).into_iter().max_by_key(|source| source.0);
        let (service, service_flag) = strongest.unwrap_or_default();
        Self {
            coordinator: source("coordinator"),
            api: source("api"),
            service,
            service_flag,
            as_clientmountd,
        }
    }

    /// Chooses the source. The command line has priority over the environment, which Kubernetes sets in every pod.
    pub fn choice(&self) -> Result<Choice, UpstreamError> {
        use Source::{CommandLine, Environment, None};
        let both = |coordinator, api| Err(UpstreamError::Both { coordinator, api });
        let api_flag = if self.api == CommandLine { "--api" } else { self.service_flag };
        match (self.coordinator, self.api.max(self.service)) {
            (CommandLine, CommandLine) => both("--coordinator", api_flag),
            (Environment, Environment) if self.api == Environment => {
                both("WARREN_COORDINATOR", "WARREN_API")
            }
            (CommandLine | Environment, None | Environment) => Ok(Choice::Coordinator),
            (_, CommandLine) | (None, Environment) => Ok(Choice::Api),
            (None, None) if self.as_clientmountd => Ok(Choice::Api),
            (None, None) => Ok(Choice::Coordinator),
        }
    }
}

fn is_empty(matches: &ArgMatches, id: &str) -> bool {
    matches.get_raw(id).is_some_and(|mut values| values.all(std::ffi::OsStr::is_empty))
}

/// Returns the API that the flags name, with its credentials.
pub fn api_upstream(flags: &KubernetesArgs) -> Result<ApiUpstream, UpstreamError> {
    let host = text(flags.kubernetes_service_host.as_ref());
    let port = text(flags.kubernetes_service_port.as_ref());
    let address = match (&flags.api, host, port) {
        // Kubernetes sets both variables in every pod, so --api has priority.
        (Some(api), None, None) | (Some(api), Some(_), Some(_)) => api.clone(),
        (Some(_), Some(_), None) => return Err(UpstreamError::TwoAddresses(HOST)),
        (Some(_), None, Some(_)) => return Err(UpstreamError::TwoAddresses(PORT)),
        (None, Some(host), Some(port)) => server(host, port)?,
        (None, Some(host), None) => return Err(half(HOST, host, PORT)),
        (None, None, Some(port)) => return Err(half(PORT, port, HOST)),
        (None, None, None) => Address::Kubeconfig(None),
    };
    let (token, ca) =
        (text(flags.service_token_file.as_ref()), text(flags.service_cert_file.as_ref()));
    if !matches!(address, Address::Server(_)) {
        let unused = token.or(ca).map(|_| {
            format!("{TOKEN} and {CERTIFICATE} are not used: {address} has credentials of its own")
        });
        return Ok(ApiUpstream { address, credentials: None, note: unused });
    }
    let file = |value: Option<&str>, flag, what, variable| {
        value.map(PathBuf::from).ok_or(UpstreamError::Credentials { flag, what, variable })
    };
    let credentials = Credentials {
        token: file(
            token,
            TOKEN,
            "file with the bearer token",
            "DWS_CLIENT_MOUNT_SERVICE_TOKEN_FILE",
        )?,
        ca: file(
            ca,
            CERTIFICATE,
            "file with the CA certificates",
            "DWS_CLIENT_MOUNT_SERVICE_CERT_FILE",
        )?,
    };
    Ok(ApiUpstream { address, credentials: Some(credentials), note: None })
}

fn text(value: Option<&String>) -> Option<&str> {
    value.map(String::as_str).filter(|value| !value.is_empty())
}

fn half(flag: &'static str, value: &str, missing: &'static str) -> UpstreamError {
    UpstreamError::Half { flag, value: value.to_owned(), missing }
}

fn server(host: &str, port: &str) -> Result<Address, UpstreamError> {
    let bracketed = host.contains(':') && !host.starts_with('[');
    let url = if bracketed {
        format!("https://[{host}]:{port}")
    } else {
        format!("https://{host}:{port}")
    };
    url.parse().map_err(|_| UpstreamError::Address { host: host.to_owned(), port: port.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(
        coordinator: Source,
        api: Source,
        service: Source,
        as_clientmountd: bool,
    ) -> FlagSources {
        FlagSources { coordinator, api, service, service_flag: HOST, as_clientmountd }
    }

    #[test]
    fn the_source_of_higher_priority_is_used_and_two_sources_of_equal_priority_are_refused() {
        use Source::{CommandLine as Line, Environment as Env, None as No};
        let (coordinator, api) = (Some(Choice::Coordinator), Some(Choice::Api));
        for (wanted, parts) in [
            (coordinator, sources(No, No, No, false)),
            (api, sources(No, No, No, true)),
            (api, sources(No, No, Env, false)),
            (api, sources(No, Env, No, false)),
            (api, sources(No, Line, No, false)),
            (api, sources(Env, No, Line, false)),
            (coordinator, sources(Env, No, No, true)),
            (coordinator, sources(Env, No, Env, false)),
            (coordinator, sources(Line, Env, Env, true)),
            (None, sources(Line, No, Line, false)),
            (None, sources(Line, Line, No, false)),
            (None, sources(Env, Env, No, false)),
        ] {
            assert_eq!(parts.choice().ok(), wanted, "{parts:?}");
        }
        let error = sources(Line, No, Line, false).choice().unwrap_err().to_string();
        assert!(error.contains("--coordinator and --kubernetes-service-host"), "{error}");
    }

    fn flags(host: &str, port: &str) -> KubernetesArgs {
        KubernetesArgs {
            kubernetes_service_host: Some(host.to_owned()),
            kubernetes_service_port: Some(port.to_owned()),
            service_token_file: Some("/t".to_owned()),
            service_cert_file: Some("/c".to_owned()),
            ..KubernetesArgs::default()
        }
    }

    #[test]
    fn host_and_port_make_an_address() {
        for (host, port, address) in [
            ("api.example.org", "6443", "https://api.example.org:6443"),
            ("10.0.0.1", "443", "https://10.0.0.1:443"),
            ("2001:db8::1", "6443", "https://[2001:db8::1]:6443"),
            ("[2001:db8::1]", "6443", "https://[2001:db8::1]:6443"),
            ("", "", "kubeconfig"),
        ] {
            assert_eq!(api_upstream(&flags(host, port)).unwrap().address.to_string(), address);
        }
        assert!(api_upstream(&flags("", "")).unwrap().note.is_some(), "the files are not used");
    }

    #[test]
    fn a_missing_or_invalid_flag_is_named_in_the_error() {
        let error_of = |flags: KubernetesArgs| api_upstream(&flags).unwrap_err().to_string();
        let missing = |change: fn(&mut KubernetesArgs)| {
            let mut flags = flags("h", "1");
            change(&mut flags);
            error_of(flags)
        };
        for (error, part) in [
            (
                error_of(flags("h", "")),
                "--kubernetes-service-host (\"h\") without --kubernetes-service-port",
            ),
            (
                error_of(flags("", "1")),
                "--kubernetes-service-port (\"1\") without --kubernetes-service-host",
            ),
            (error_of(flags("h", "x")), "--kubernetes-service-port \"x\""),
            (error_of(flags("h/x", "1")), "--kubernetes-service-host \"h/x\""),
            (missing(|flags| flags.service_token_file = None), "--service-token-file is missing"),
            (
                missing(|flags| flags.service_cert_file = Some(String::new())),
                "--service-cert-file is missing",
            ),
        ] {
            assert!(error.contains(part), "{error}");
        }
        let mut both = flags("h", "");
        both.api = Some(Address::InCluster);
        assert!(error_of(both).contains("--api and --kubernetes-service-host"));
    }
}
