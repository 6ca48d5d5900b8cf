//! The coordinator as a cluster's validating webhook: its certificate, and what an administrator tells the API server.

use std::{
    ffi::OsString,
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
};

use anyhow::Context;
use base64::{Engine, prelude::BASE64_STANDARD};
use control_plane::Authority;
use serde_json::{Value, json};

/// The name of its configuration on the API server.
pub const CONFIGURATION: &str = "warren";

/// A port of loopback and a certificate for it.
#[derive(Debug)]
pub struct Webhook {
    authority: Authority,
    port: u16,
    directory: PathBuf,
}

impl Webhook {
    /// Chooses a port that is free now, and writes `tls.crt`, `tls.key` and `ca.crt` into the directory.
    ///
    /// # Errors
    /// When no port is free, or a file cannot be written.
    pub fn new(directory: &Path) -> anyhow::Result<Self> {
        let authority = Authority::new("warren")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let certified = authority.server()?;
        for (name, text) in [
            ("tls.crt", certified.certificate.as_str()),
            ("tls.key", &certified.key),
            ("ca.crt", authority.certificate()),
        ] {
            fs::write(directory.join(name), text).with_context(|| format!("write {name}"))?;
        }
        Ok(Self { authority, port, directory: directory.to_owned() })
    }

    /// The coordinator's arguments.
    #[must_use]
    pub fn arguments(&self) -> Vec<OsString> {
        let listen = format!("127.0.0.1:{}", self.port);
        let mut arguments =
            ["--listen", "127.0.0.1:0", "--webhook-listen", &listen].map(OsString::from).to_vec();
        for (flag, name) in [("--certificate", "tls.crt"), ("--key", "tls.key"), ("--ca", "ca.crt")]
        {
            arguments.extend([flag.into(), self.directory.join(name).into_os_string()]);
        }
        arguments
    }

    /// The ValidatingWebhookConfiguration by which the API server asks it about these kinds, named by their plurals.
    #[must_use]
    pub fn configuration(&self, plurals: &[&str]) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": CONFIGURATION},
            "webhooks": [{
                "name": "changes.dataworkflowservices.github.io",
                "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
                "clientConfig": {
                    "url": format!("https://127.0.0.1:{}/admit", self.port),
                    "caBundle": BASE64_STANDARD.encode(self.authority.certificate())
                },
                "rules": [{
                    "apiGroups": ["dataworkflowservices.github.io"], "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE"], "resources": plurals
                }]
            }]
        })
    }
}
