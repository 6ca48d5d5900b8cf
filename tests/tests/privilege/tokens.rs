//! Tests of tokens: they expire, the node itself renews them, and an administrator revokes them.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, ensure};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tests::{
    cluster::PATIENCE,
    program::{command, plant, until},
};

use crate::{
    ask::Ask,
    identities::HOUR,
    installed::{Installed, run, tree},
};

/// Decodes the payload of a JSON web token.
fn payload(token: &str) -> anyhow::Result<Value> {
    let encoded = token.split('.').nth(1).context("no JSON web token")?;
    Ok(serde_json::from_slice(&URL_SAFE_NO_PAD.decode(encoded)?)?)
}

/// The file with an agent's token. The script renew-token replaces the token in it.
struct TokenFile<'a> {
    installed: &'a Installed,
    file: PathBuf,
}

impl<'a> TokenFile<'a> {
    fn new(installed: &'a Installed, token: &str) -> anyhow::Result<Self> {
        let folder = installed.directory.path().join("client-mount");
        fs::create_dir_all(&folder)?;
        let holder = Self { installed, file: folder.join("service.token") };
        holder.write(token)?;
        Ok(holder)
    }

    fn write(&self, token: &str) -> anyhow::Result<()> {
        fs::write(&self.file, token)?;
        Ok(fs::set_permissions(&self.file, fs::Permissions::from_mode(0o640))?)
    }

    fn token(&self) -> anyhow::Result<String> {
        Ok(fs::read_to_string(&self.file)?)
    }

    /// Runs the script renew-token, with the directory `before` first in PATH.
    fn renew(&self, words: &[&str], before: Option<&Path>) -> anyhow::Result<String> {
        let mut argv = command(tree("packaging/kubernetes/renew-token"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = before.map_or(path.clone(), |folder| format!("{}:{path}", folder.display()));
        argv.args(words)
            .env("PATH", path)
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .env("KUBERNETES_SERVICE_PORT", self.installed.plane.port().to_string())
            .env("DWS_CLIENT_MOUNT_SERVICE_TOKEN_FILE", &self.file)
            .env("DWS_CLIENT_MOUNT_SERVICE_CERT_FILE", self.installed.plane.authority_file())
            .env("WARREN_TOKEN_LIFETIME", "3600");
        run(argv, "")
    }

    /// Runs the script renew-token, which must fail and leave the file unchanged. Returns the script's error.
    fn renew_fails(&self, words: &[&str]) -> anyhow::Result<String> {
        let before = self.token()?;
        let why = self.renew(words, None).err().context("renew-token succeeded")?;
        ensure!(self.token()? == before, "a failure changed the token");
        self.has_no_other_files()?;
        Ok(format!("{why:#}"))
    }

    /// Checks that the directory has no file but the token.
    fn has_no_other_files(&self) -> anyhow::Result<()> {
        let folder = self.file.parent().context("no folder")?;
        ensure!(
            fs::read_dir(folder)?.count() == 1,
            "there are other files beside the token in {}",
            folder.display()
        );
        Ok(())
    }
}

/// Returns a request for the list of ClientMounts. Each compute sends this request.
fn list_request() -> Ask {
    Ask {
        verb: "list",
        resource: "dataworkflowservices.github.io/clientmounts",
        namespace: Some("compute-1".to_owned()),
        name: None,
    }
}

/// Sends [`list_request`] with this token, and returns the HTTP status.
async fn list_status(installed: &Installed, token: &str) -> anyhow::Result<u16> {
    Ok(list_request().send(&installed.client(token).await?, &json!({})).await?.code)
}

#[tokio::test]
async fn a_node_renews_its_own_token_and_the_file_is_replaced_as_a_whole() -> anyhow::Result<()> {
    let installed = Installed::start("direct", &["compute-1"])?;
    installed.identities("apply", &["compute-1"])?;
    let first = installed.plane.token("warren-nodes", "compute-1", HOUR / 6).await?;
    let holder = TokenFile::new(&installed, &first)?;
    holder.renew(&[], None)?;
    ensure!(holder.token()? == first, "a token was renewed before half of its life");

    // Installs a curl that records its arguments, and then executes the real curl.
    let spy = tempfile::tempdir()?;
    let script = format!(
        "#!/bin/sh\nprintf '%s ' \"$@\" >{0}/argv\nPATH=${{PATH#*:}} exec curl \"$@\"\n",
        spy.path().display()
    );
    plant(&spy.path().join("curl"), &script)?;
    holder.renew(&["--now"], Some(spy.path()))?;
    let argv = fs::read_to_string(spy.path().join("argv"))?;
    ensure!(argv.contains("/serviceaccounts/compute-1/token") && !argv.contains(&first), "{argv}");

    let second = holder.token()?;
    let (old, new) = (payload(&first)?, payload(&second)?);
    let lifetime = |payload: &Value| {
        payload["exp"].as_i64().zip(payload["iat"].as_i64()).map(|(end, start)| end - start)
    };
    ensure!(lifetime(&old) == Some(600) && lifetime(&new) == Some(3600), "{old} {new}");
    ensure!(
        old["sub"] == new["sub"] && new["sub"] == "system:serviceaccount:warren-nodes:compute-1"
    );
    let mode = fs::metadata(&holder.file)?.permissions().mode() & 0o777;
    ensure!(mode == 0o640, "{mode:o}");
    holder.has_no_other_files()?;
    ensure!(list_status(&installed, &second).await? == 200);
    Ok(())
}

#[tokio::test]
async fn a_revoked_token_is_refused_and_the_script_prints_the_remedy() -> anyhow::Result<()> {
    let installed = Installed::start("direct", &["compute-1"])?;
    installed.identities("apply", &["compute-1"])?;
    let old = installed.plane.token("warren-nodes", "compute-1", HOUR).await?;
    let holder = TokenFile::new(&installed, &old)?;
    ensure!(list_status(&installed, &old).await? == 200);

    installed.kubectl(&["delete", "rolebinding", "compute-1", "-n", "warren-nodes"])?;
    let why = until("the right to renew to be gone", PATIENCE, || holder.renew_fails(&["--now"]))?;
    ensure!(why.contains("may not create tokens for itself"), "{why}");

    installed.identities("delete", &["compute-1"]).err().context("the binding was there still")?;
    let gone = async {
        // Waits, since the server caches its decision on a token for some seconds.
        while list_status(&installed, &old).await? != 401 {
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
        anyhow::Ok(())
    };
    tokio::time::timeout(PATIENCE, gone).await??;
    // The file may have a newer token if the script renewed the token before the server removed the right.
    until("the token to be refused", PATIENCE, || {
        let why = holder.renew_fails(&["--now"])?;
        ensure!(why.contains("no longer accepts this token"), "{why}");
        Ok(())
    })?;

    // Creates the account again: tokens of the deleted account stay invalid for the new account of the same name.
    installed.identities("apply", &["compute-1"])?;
    let new = installed.plane.token("warren-nodes", "compute-1", HOUR).await?;
    ensure!(list_status(&installed, &old).await? == 401);
    ensure!(list_status(&installed, &new).await? == 200);
    Ok(())
}

#[tokio::test]
async fn renew_token_names_the_fault_of_a_token() -> anyhow::Result<()> {
    let installed = Installed::start("direct", &[])?;
    let holder = TokenFile::new(&installed, "")?;
    let forged = |claims: Value| format!("e30.{}.e30", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let subject = "system:serviceaccount:warren-nodes:compute-1";
    for (token, why) in [
        (String::new(), "not the token of a service account"),
        ("no token".to_owned(), "no JSON web token"),
        (forged(json!({"sub": "admin", "iat": 1, "exp": 2})), "not the token of a service account"),
        (forged(json!({"sub": subject})), "never expires"),
        // More than half of this token's lifetime is over, so the script requests a new token. The server refuses the
        // request because the signature is forged.
        (
            forged(json!({"sub": subject, "iat": 1_000_000, "exp": 2_000_000})),
            "no longer accepts this token",
        ),
    ] {
        holder.write(&token)?;
        let message = holder.renew_fails(&[])?;
        ensure!(message.contains(why), "{token:?}: {message}");
    }
    let message = holder.renew_fails(&["--later"])?;
    ensure!(message.contains("usage: renew-token"), "{message}");
    Ok(())
}

/// The script quotes names that YAML would read as numbers or booleans. If a name is not valid for a namespace, the
/// script prints nothing at all.
#[test]
fn node_identities_prints_all_nodes_or_only_an_error() -> anyhow::Result<()> {
    let printed = |words: &[&str]| {
        let mut argv = command(tree("packaging/kubernetes/node-identities"));
        argv.args(words);
        run(argv, "")
    };
    let objects: Vec<Value> = serde_saphyr::from_multiple(&printed(&["0x10", "true", "1e5"])?)?;
    let accounts: Vec<_> = objects
        .iter()
        .filter(|object| object["kind"] == "ServiceAccount")
        .map(|object| object["metadata"]["name"].clone())
        .collect();
    ensure!(accounts == [json!("0x10"), json!("true"), json!("1e5")], "{accounts:?}");
    for (words, why) in [
        (&["good", "Bad"][..], "'Bad' cannot name a namespace"),
        (&["good", "a\nb"], "cannot name a namespace"),
        (&["--role", "king", "a"], "neither compute nor rabbit"),
        (&["--role"], "neither compute nor rabbit"),
        (&["--force", "a"], "unknown option"),
        (&["--namespace", "A", "a"], "--namespace: 'A'"),
        (&[], "usage: node-identities"),
    ] {
        let message = format!("{:#}", printed(words).err().with_context(|| format!("{words:?}"))?);
        ensure!(message.contains(why), "{words:?}: {message}");
    }
    Ok(())
}
