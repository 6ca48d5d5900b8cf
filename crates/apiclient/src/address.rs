use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use hyper::{
    Uri,
    http::uri::{Authority, Scheme},
};
use thiserror::Error;

/// Address of a Kubernetes API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// `unix://<path>`: the socket of a local server.
    Unix(PathBuf),
    /// `kubeconfig:<path>`, or `kubeconfig`: the file that `$KUBECONFIG` names, or else `~/.kube/config`.
    Kubeconfig(Option<PathBuf>),
    /// `in-cluster`: the pod's service account.
    InCluster,
    /// `https://<host>:<port>`, with a token and a CA from files.
    Server(Authority),
}

/// Error: the text is no address of an API.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not an API address: use unix:///path/to/api.sock, https://HOST:PORT, kubeconfig:/path, or in-cluster"
)]
pub struct AddressError(String);

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let absolute = |path: &str| Path::new(path).is_absolute().then(|| PathBuf::from(path));
        let address = if text == "in-cluster" {
            Some(Self::InCluster)
        } else if text == "kubeconfig" {
            Some(Self::Kubeconfig(None))
        } else if let Some(path) = text.strip_prefix("unix://") {
            absolute(path).map(Self::Unix)
        } else if let Some(path) = text.strip_prefix("kubeconfig:") {
            absolute(path).map(|path| Self::Kubeconfig(Some(path)))
        } else {
            server(text).map(Self::Server)
        };
        address.ok_or_else(|| AddressError(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Kubeconfig(None) => f.write_str("kubeconfig"),
            Self::Kubeconfig(Some(path)) => write!(f, "kubeconfig:{}", path.display()),
            Self::InCluster => f.write_str("in-cluster"),
            Self::Server(authority) => write!(f, "https://{authority}"),
        }
    }
}

fn server(text: &str) -> Option<Authority> {
    let uri: Uri = text.parse().ok()?;
    let bare = uri.scheme() == Some(&Scheme::HTTPS) && uri.path() == "/" && uri.query().is_none();
    let authority = uri.authority().filter(|authority| !authority.as_str().contains('@'))?;
    authority.port_u16().filter(|port| bare && *port != 0)?;
    Some(authority.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_printed_as_it_was_written() {
        for text in [
            "unix:///run/warren/api.sock",
            "kubeconfig",
            "kubeconfig:/etc/kube/config",
            "in-cluster",
            "https://api.example.org:6443",
            "https://10.0.0.1:6443",
            "https://[2001:db8::1]:6443",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_text_that_is_no_address_is_refused_with_the_accepted_forms() {
        for text in [
            "",
            "unix://run/api.sock",
            "http://localhost:6443",
            "https://localhost",
            "https://localhost:0",
            "https://me@localhost:6443",
            "https://localhost:6443/prefix",
            "kubeconfig:config",
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("unix:///path") && error.contains(text), "{error}");
        }
    }
}
