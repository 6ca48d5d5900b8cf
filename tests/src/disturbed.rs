//! A job with a control plane that no other test uses, so that the test may disturb it.

use std::{future::Future, path::PathBuf};

use anyhow::Context;
use control_plane::{ControlPlane, Login, Settings};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
use kube::{
    Api, Client,
    api::{ObjectMeta, Patch, PatchParams},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::{
    cluster::Link,
    fixture::Fixture,
    server::{RealServer, Server, install_crds},
};

/// The user name of Warren's daemons. This user is no member of `system:masters`, because a server never throttles
/// members of that group.
pub const DAEMONS: &str = "warren-daemons";
/// Another user with the same rights: for a test that keeps the server busy, or that must tell the coordinator from the
/// other daemons in the audit log.
pub const ANOTHER: &str = "another";

/// A control plane, and the programs that a test starts on it.
#[derive(Debug)]
pub struct Disturbed {
    /// The servers of the control plane.
    pub plane: ControlPlane,
    /// Async runtime for requests that the test itself sends to the server.
    runtime: Runtime,
    directory: TempDir,
}

impl Disturbed {
    /// Starts a control plane with these CRDs.
    ///
    /// # Errors
    /// When the control plane does not come up in time.
    pub fn new(crds: &[Value]) -> anyhow::Result<Self> {
        let directory =
            TempDir::with_prefix_in("warren-test-", "/var/tmp").context("make a directory")?;
        let plane = ControlPlane::start(directory.path(), Settings::default())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let disturbed = Self { plane, runtime, directory };
        disturbed.write_daemons_kubeconfig()?;
        let client = disturbed.client()?;
        disturbed.runtime.block_on(async {
            let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
            // Applies the objects instead of creating them: the API server repeats a write to etcd if etcd's answer
            // takes too long, and would refuse a second creation.
            let field_manager = PatchParams::apply("tests");
            let everything = Patch::Apply(everything_for_daemons());
            bindings.patch(DAEMONS, &field_manager, &everything).await?;
            install_crds(&client, crds).await
        })?;
        Ok(disturbed)
    }

    /// Writes a kubeconfig for the daemons, with a new certificate of the current authority.
    ///
    /// # Errors
    /// When the kubeconfig cannot be written.
    pub fn write_daemons_kubeconfig(&self) -> anyhow::Result<()> {
        self.kubeconfig_of(DAEMONS).map(drop)
    }

    /// Writes a kubeconfig with a new certificate for this user, and returns its path.
    ///
    /// # Errors
    /// When the kubeconfig cannot be written.
    pub fn kubeconfig_of(&self, user: &str) -> anyhow::Result<PathBuf> {
        let login = Login::Certificate(self.plane.client_certificate(user, None)?);
        let path = self.directory.path().join(format!("{user}.kubeconfig"));
        self.plane.kubeconfig_for(&path, &login)?;
        Ok(path)
    }

    /// Returns this control plane as the server of a fixture.
    #[must_use]
    pub fn server(&self) -> Server {
        let daemons = self.directory.path().join(format!("{DAEMONS}.kubeconfig"));
        Server::Real(RealServer::own(self.plane.kubeconfig(), daemons))
    }

    /// Starts a job on the control plane.
    ///
    /// # Errors
    /// When a program does not start or connect.
    pub fn fixture(&self, computes: u8, file_system: &'static str) -> anyhow::Result<Fixture> {
        self.fixture_by(Link::of_this_run(), computes, file_system)
    }

    /// Starts a job whose computes get their ClientMounts over this link.
    ///
    /// # Errors
    /// The errors of [`Disturbed::fixture`].
    pub fn fixture_by(
        &self,
        link: Link,
        computes: u8,
        file_system: &'static str,
    ) -> anyhow::Result<Fixture> {
        Fixture::on(self.server(), link, computes, file_system)
    }

    /// Returns a client of the administrator.
    ///
    /// # Errors
    /// When the client cannot be created.
    pub fn client(&self) -> anyhow::Result<Client> {
        self.runtime.block_on(self.plane.client())
    }

    /// Sends a request of the test itself to the server, and waits for the answer.
    pub fn wait<T>(&self, request: impl Future<Output = T>) -> T {
        self.runtime.block_on(request)
    }
}

fn everything_for_daemons() -> ClusterRoleBinding {
    let user = |name: &str| Subject {
        kind: "User".to_owned(),
        name: name.to_owned(),
        ..Subject::default()
    };
    ClusterRoleBinding {
        metadata: ObjectMeta { name: Some(DAEMONS.to_owned()), ..ObjectMeta::default() },
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: "cluster-admin".to_owned(),
        },
        subjects: Some(vec![user(DAEMONS), user(ANOTHER)]),
    }
}
