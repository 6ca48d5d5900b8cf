//! A rabbit on another host than the standalone coordinator: its certificate is all that it has. It needs neither a socket
//! of the coordinator's host nor the administrator's kubeconfig.

use std::{fs, path::Path};

use anyhow::{Context, ensure};
use control_plane::free_port;
use serde_json::Value;
use tests::{
    cluster::PATIENCE,
    fixture::Fixture,
    gate,
    program::{binary, command, plant, until},
    server::Server,
    workflow::{AFTER_PROPOSAL, Flow},
};

const RABBIT: &str = "rabbit-1";

/// The certificates of a site, in a directory.
struct Site<'a> {
    directory: &'a Path,
}

impl Site<'_> {
    /// Creates the certificates of hosts with `warren ca`.
    fn certify(&self, hosts: &[&str]) -> anyhow::Result<()> {
        for words in [&["init"][..], &[&["issue"], hosts].concat()] {
            let mut warren = command(binary("warren")?);
            warren.arg("ca").args(words).arg("--directory").arg(self.directory);
            let output = warren.output().context("run warren ca")?;
            ensure!(output.status.success(), "warren ca {words:?}: {output:?}");
        }
        Ok(())
    }

    fn path(&self, file: &str) -> String {
        self.directory.join(file).display().to_string()
    }

    /// Writes a program that starts an agent with addresses over TLS in place of the sockets.
    fn starter(&self, node: &str, coordinator: u16, api: u16) -> anyhow::Result<()> {
        let script = format!(
            "#!/bin/sh\nfor word; do shift; case $word in\n\
             unix://*coordinator.sock) word=https://localhost:{coordinator} ;;\n\
             unix://*api.sock) word=https://localhost:{api} ;;\nesac; set -- \"$@\" \"$word\"; done\n\
             exec \"$@\" --ca '{}' --certificate '{}' --key '{}'\n",
            self.path("ca.crt"),
            self.path(&format!("{node}.crt")),
            self.path(&format!("{node}.key")),
        );
        plant(&self.directory.join(format!("start-{node}")), &script)
    }

    /// Returns the kubeconfig of a node.
    fn kubeconfig(&self, node: &str, api: u16) -> anyhow::Result<String> {
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: node\n\
             clusters: [{{name: node, cluster: {{server: 'https://localhost:{api}', certificate-authority: '{}'}}}}]\n\
             users: [{{name: node, user: {{client-certificate: '{}', client-key: '{}'}}}}]\n\
             contexts: [{{name: node, context: {{cluster: node, user: node}}}}]\n",
            self.path("ca.crt"),
            self.path(&format!("{node}.crt")),
            self.path(&format!("{node}.key")),
        );
        let path = self.directory.join(format!("{node}.kubeconfig"));
        fs::write(&path, text).context("write")?;
        Ok(path.display().to_string())
    }
}

#[test]
fn a_rabbit_with_nothing_but_its_certificate_serves_jobs_and_reads_nothing_of_others()
-> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::with_engine_on(Server::Embedded, 2)?;
    let certificates = tempfile::tempdir()?;
    let site = Site { directory: certificates.path() };
    site.certify(&["localhost", RABBIT, "compute-[1-2]"])?;
    let (coordinator, api) = (free_port()?, free_port()?);
    for node in [RABBIT, "compute-1", "compute-2"] {
        site.starter(node, coordinator, api)?;
    }
    let cluster = &mut fixture.run.cluster;
    for node in [RABBIT, "compute-1", "compute-2", "coordinator"] {
        cluster.stop_one(node)?;
    }
    let at = |port: u16| format!("127.0.0.1:{port}");
    cluster.start_coordinator_with(&[
        ("WARREN_COORDINATOR_LISTEN", &at(coordinator)),
        ("WARREN_API_LISTEN_RABBITS", &at(api)),
        ("WARREN_CERTIFICATE", &site.path("localhost.crt")),
        ("WARREN_KEY", &site.path("localhost.key")),
        ("WARREN_CA", &site.path("ca.crt")),
    ])?;
    for node in [RABBIT, "compute-1", "compute-2"] {
        cluster.start_by(node, &certificates.path().join(format!("start-{node}")));
        cluster.start_node(node)?;
    }
    let mut flow = Flow::on(fixture, "elsewhere")?;
    until("every node to be connected", PATIENCE, || {
        let known: Value = serde_json::from_str(&flow.fixture.run.prints(&["nodes", "--json"])?)?;
        let nodes = known["nodes"].as_array().context("a list")?;
        ensure!(nodes.iter().all(|node| node["connected"] == true), "{known}");
        Ok(())
    })?;
    flow.create(&["#DW jobdw type=xfs capacity=320MiB name=scratch"])?;
    flow.wait("Proposal", "Completed")?;
    flow.fill_computes()?;
    for state in AFTER_PROPOSAL {
        let workflow = flow.reach(state)?;
        if state == "PreRun" {
            let path = workflow["status"]["env"]["DW_JOB_scratch"].as_str().context("a path")?;
            flow.run_on("compute-2", &format!("echo hello > {path}/greeting"))?;
            refuses_what_is_not_its_own(&flow, &site, api)?;
        }
    }
    flow.delete()?;
    flow.end()
}

/// Makes requests with the rabbit's certificate.
fn refuses_what_is_not_its_own(flow: &Flow, site: &Site<'_>, api: u16) -> anyhow::Result<()> {
    let run = &flow.fixture.run;
    let own = site.kubeconfig(RABBIT, api)?;
    let with =
        |words: &[&str]| run.prints(&[&["--server", &format!("kubeconfig:{own}")], words].concat());
    let listed = with(&["get", "nnfnodestorages", "-n", RABBIT])?;
    ensure!(listed.contains("xfs-0"), "{listed}");
    for words in [
        &["get", "workflows", "-n", "default"][..],
        &["get", "nnfnodestorages", "-n", "rabbit-2"],
        &["get", "secrets", "-n", "default"],
        &["delete", "nnfnodestorage", "default-elsewhere-0-xfs-0", "-n", RABBIT],
    ] {
        let refused = with(words).err().with_context(|| format!("{words:?} succeeded"))?;
        let text = format!("{refused:#}");
        ensure!(
            text.contains("the certificate of rabbit-1 gives no right to"),
            "{words:?}: {text}"
        );
    }
    Ok(())
}
