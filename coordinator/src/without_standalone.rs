//! Replaces `standalone` and `restore` in a coordinator that was built without the embedded API.

use std::convert::Infallible;
use std::future::Ready;
use std::net::SocketAddr;
use std::path::Path;

use daemon::End;
use kube::Client;
use thiserror::Error;

use crate::admission::Workflows;
use crate::config::{InvalidConfig, Standalone, Tls};

pub(crate) use std::convert::Infallible as TlsError;

/// The error of a coordinator that cannot serve the API itself.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct StandaloneError(InvalidConfig);

/// The error of a coordinator that cannot restore a store.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct RestoreFailed(InvalidConfig);

/// Fails: this coordinator has no store.
pub fn restore(_: &Path, _: &Path) -> Result<End, RestoreFailed> {
    Err(RestoreFailed(InvalidConfig::NotStandalone))
}

/// The embedded API, which this build does not have: no value of this type exists.
#[derive(Debug)]
pub(crate) struct Embedded(Infallible);

impl Embedded {
    pub(crate) async fn open(
        _: &Standalone,
        _: Option<&Tls>,
        _: Workflows,
    ) -> Result<Self, StandaloneError> {
        Err(StandaloneError(InvalidConfig::NotStandalone))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        match self.0 {}
    }

    pub(crate) fn client(&self) -> Client {
        match self.0 {}
    }

    pub(crate) fn serve<S>(self, _: S) -> (Ready<()>, Ready<Result<(), TlsError>>) {
        match self.0 {}
    }
}
