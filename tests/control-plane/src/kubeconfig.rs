use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anyhow::Context;
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::json;

use crate::Certified;

/// What a client proves itself with.
#[derive(Debug, Clone)]
pub enum Login {
    /// A client certificate.
    Certificate(Certified),
    /// A bearer token.
    Token(String),
    /// A file that holds a bearer token.
    TokenFile(std::path::PathBuf),
}

/// Writes a kubeconfig for `server`, which `authority` (PEM) vouches for. JSON is YAML.
///
/// # Errors
/// When it cannot be written.
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
