//! The certificate of the coordinator as a cluster's webhook, and the objects with which an
//! administrator registers the webhook.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use base64::{Engine, prelude::BASE64_STANDARD};
use control_plane::{Authority, free_port};
use serde_json::{Value, json};

/// A port of 127.0.0.1, and a certificate for that address.
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
        let port = free_port()?;
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

    /// Returns the coordinator's arguments for the webhook.
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

    /// Returns the packaged objects, changed so that the API server calls this coordinator, at its address, to fill
    /// in and check Workflows.
    ///
    /// # Errors
    /// When a packaged file cannot be read.
    pub fn packaged(&self) -> anyhow::Result<Vec<Value>> {
        let mut objects = packaged()?;
        for webhook in objects.iter_mut().filter_map(|object| object.get_mut("webhooks")) {
            for webhook in webhook.as_array_mut().into_iter().flatten() {
                let client = &mut webhook["clientConfig"];
                let path = client["service"]["path"].as_str().context("path")?;
                *client = json!({
                    "url": format!("https://127.0.0.1:{}{path}", self.port),
                    "caBundle": BASE64_STANDARD.encode(self.authority.certificate()),
                });
            }
        }
        Ok(objects)
    }
}

/// Returns the packaged webhooks and admission policies of the engine.
///
/// # Errors
/// When a file cannot be read.
pub fn packaged() -> anyhow::Result<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/kubernetes");
    let mut objects: Vec<Value> = Vec::new();
    for file in [
        "engine/webhook.yaml",
        "engine/workflow-changes.yaml",
        "workflow-status/workflow-status.yaml",
    ] {
        let text = fs::read_to_string(folder.join(file)).with_context(|| format!("read {file}"))?;
        objects.extend(serde_saphyr::from_multiple::<Value>(&text).context("decode YAML")?);
    }
    objects.retain(|object| object["kind"] != "Service");
    Ok(objects)
}
