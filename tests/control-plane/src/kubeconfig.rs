use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;

use crate::Certified;

/// Credentials of a client.
#[derive(Debug, Clone)]
pub enum Login {
    /// Client certificate and its key.
    Certificate(Certified),
    /// Bearer token, stored in the kubeconfig.
    Token(String),
    /// File with a bearer token; the client reads the file again after the token in it was renewed.
    TokenFile(std::path::PathBuf),
}

/// Writes a kubeconfig for the server at the URL `server`; `authority` is the PEM of the CA that signed the server's
/// certificate. The file is JSON, which is valid YAML.
///
/// # Errors
/// When the file cannot be written.
pub fn write_kubeconfig(
    path: &Path,
    server: &str,
    authority: &str,
    login: &Login,
) -> anyhow::Result<()> {
    let user = match login {
        Login::Certificate(own) => json!({
            "client-certificate-data": STANDARD.encode(&own.certificate),
            "client-key-data": STANDARD.encode(&own.key),
        }),
        Login::Token(token) => json!({"token": token}),
        Login::TokenFile(file) => json!({"tokenFile": file}),
    };
    let cluster =
        json!({"server": server, "certificate-authority-data": STANDARD.encode(authority)});
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
    });
    fs::write(path, config.to_string()).with_context(|| format!("write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).context("protect a kubeconfig")
}
