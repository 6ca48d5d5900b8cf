//! The address to listen on, in the form of Go's `net.Listen`.

use std::{fmt, io, str::FromStr};

use thiserror::Error;
use tokio::net::TcpListener;

/// `HOST:PORT`, `:PORT` for every address of the node, or `0` to listen nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindAddress(String);

/// A text that is no address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no address to listen on: use HOST:PORT, :PORT, or 0 to listen nowhere")]
pub struct BindAddressError(String);

/// An address on which the agent cannot listen.
#[derive(Debug, Error)]
#[error("{flag} {address}: listen")]
pub struct BindError {
    pub flag: &'static str,
    pub address: BindAddress,
    #[source]
    pub source: io::Error,
}

impl BindAddress {
    /// Returns whether the agent listens nowhere.
    pub fn is_off(&self) -> bool {
        matches!(self.0.as_str(), "" | "0")
    }

    /// Listens on the address; an error names `flag`.
    pub async fn listen(&self, flag: &'static str) -> Result<TcpListener, BindError> {
        let listener = match self.0.strip_prefix(':') {
            // An IPv6 socket serves IPv4 as well; a node without IPv6 gets an IPv4 socket.
            Some(port) => match TcpListener::bind(format!("[::]:{port}")).await {
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
                    TcpListener::bind(format!("0.0.0.0:{port}")).await
                }
                listener => listener,
            },
            None => TcpListener::bind(&self.0).await,
        };
        listener.map_err(|source| BindError { flag, address: self.clone(), source })
    }
}

impl FromStr for BindAddress {
    type Err = BindAddressError;

    fn from_str(text: &str) -> Result<Self, BindAddressError> {
        let address = Self(text.to_owned());
        let is_address = text.rsplit_once(':').is_some_and(|(host, port)| {
            let plain = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
            plain && port.parse::<u16>().is_ok()
        });
        if is_address || address.is_off() {
            Ok(address)
        } else {
            Err(BindAddressError(text.to_owned()))
        }
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_as_by_go() {
        for text in [":8081", "127.0.0.1:8080", "[::1]:0", "localhost:80", "0", ""] {
            assert_eq!(text.parse::<BindAddress>().unwrap().to_string(), text);
        }
        for text in ["8081", ":", ":http", ":70000", "::1:80", "host"] {
            let error = text.parse::<BindAddress>().unwrap_err().to_string();
            assert!(error.contains("HOST:PORT"), "{error}");
        }
    }

    #[tokio::test]
    async fn an_address_in_use_is_an_error_that_names_the_flag() {
        let first = ":0".parse::<BindAddress>().unwrap().listen("--x").await.unwrap();
        let taken = format!(":{}", first.local_addr().unwrap().port());
        let error = taken.parse::<BindAddress>().unwrap().listen("--x").await.unwrap_err();
        assert_eq!(error.to_string(), format!("--x {taken}: listen"));
        assert_eq!(error.source.kind(), io::ErrorKind::AddrInUse);
    }
}
