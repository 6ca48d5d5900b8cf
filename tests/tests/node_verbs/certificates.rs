//! Tests with certificates that the coordinator or the agent refuses: the verbs must report a failure, and the agent's
//! log must name the certificate.

use std::{fs, path::PathBuf};

use anyhow::{Context, ensure};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use tests::{
    cluster::PATIENCE,
    fixture::Fixture,
    gate,
    program::{Program, until},
    verbs::{Caller, SHORT},
};

use crate::COMPUTE;

/// A certificate authority. Its files lie in the directory of the logs.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: PathBuf,
}

impl Authority {
    fn new(directory: PathBuf) -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(Vec::new())?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        fs::write(directory.join("ca.crt"), parameters.self_signed(&key)?.pem())?;
        Ok(Self { issuer: Issuer::new(parameters, key), directory })
    }

    /// Writes `<file>.crt` and `<file>.key`, issued to `name` and valid until January of the year `until`.
    fn issue(&self, file: &str, name: &str, until: i32) -> anyhow::Result<()> {
        let key = KeyPair::generate()?;
        let mut parameters = CertificateParams::new(vec![name.to_owned()])?;
        parameters.not_after = date_time_ymd(until, 1, 1);
        let certificate = parameters.signed_by(&key, &self.issuer)?;
        fs::write(self.directory.join(format!("{file}.crt")), certificate.pem())?;
        fs::write(self.directory.join(format!("{file}.key")), key.serialize_pem())?;
        Ok(())
    }

    fn path(&self, name: &str) -> String {
        self.directory.join(name).display().to_string()
    }
}

/// Restarts the coordinator, so that it serves nodes at this port with the certificate `file`.
fn serve(
    fixture: &mut Fixture,
    authority: &Authority,
    port: u16,
    file: &str,
) -> anyhow::Result<()> {
    let listen = format!("127.0.0.1:{port}");
    let certificate =
        [authority.path(&format!("{file}.crt")), authority.path(&format!("{file}.key"))];
    let ca = authority.path("ca.crt");
    fixture.run.cluster.stop_one("coordinator")?;
    fixture.run.cluster.start_coordinator_with(&[
        ("WARREN_COORDINATOR_LISTEN", &listen),
        ("WARREN_CERTIFICATE", &certificate[0]),
        ("WARREN_KEY", &certificate[1]),
        ("WARREN_CA", &ca),
    ])
}

/// Starts an agent for the compute that uses the certificate `file`.
fn agent(
    fixture: &Fixture,
    authority: &Authority,
    port: u16,
    file: &str,
) -> anyhow::Result<(Program, Caller)> {
    let cluster = &fixture.run.cluster;
    let mut argv = cluster.agent_of(COMPUTE, file)?;
    argv.args([
        "--coordinator",
        &format!("https://localhost:{port}"),
        "--ca",
        &authority.path("ca.crt"),
    ]);
    argv.args(["--certificate", &authority.path(&format!("{file}.crt"))]);
    argv.args(["--key", &authority.path(&format!("{file}.key"))]);
    let program = Program::start_on_node(file, &argv, &cluster.node_mounts(), &cluster.logs())?;
    let socket = cluster.coordinator_socket();
    let socket = socket.parent().context("a directory")?.join(format!("{file}.sock"));
    let caller = Caller::at(&socket)?;
    until("the agent to serve", PATIENCE, || caller.call(&["status"])?.expect_exit(0).map(drop))?;
    Ok((program, caller))
}

#[test]
fn an_expired_certificate_and_a_certificate_of_another_name_are_refused() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Fixture::without_engine(1, "raw")?;
    fixture.run.cluster.stop_one(COMPUTE)?;
    let authority = Authority::new(fixture.run.cluster.logs())?;
    authority.issue("centre", "localhost", 4096)?;
    authority.issue("centre-expired", "localhost", 2001)?;
    authority.issue("centre-elsewhere", "elsewhere.example", 4096)?;
    authority.issue("good", COMPUTE, 4096)?;
    authority.issue("expired", COMPUTE, 2001)?;
    authority.issue("other", "compute-9", 4096)?;
    let port = control_plane::free_port()?;
    for (centre, file, logged) in [
        ("centre", "expired", "xpired"),
        ("centre", "other", "compute-9"),
        ("centre-expired", "good", "xpired"),
        ("centre-elsewhere", "good", "elsewhere.example"),
    ] {
        serve(&mut fixture, &authority, port, centre)?;
        let (program, caller) = agent(&fixture, &authority, port, file)?;
        for verb in ["mount", "unmount"] {
            caller.call(&[verb, "--job", "4711", "--deadline", SHORT])?.expect_exit(7)?;
        }
        until("the agent to log why", PATIENCE, || {
            let log = fs::read_to_string(program.log())?;
            ensure!(log.contains(logged), "{centre}, {file}: no {logged:?} in\n{log}");
            Ok(())
        })?;
    }
    serve(&mut fixture, &authority, port, "centre")?;
    let (_program, caller) = agent(&fixture, &authority, port, "good")?;
    caller
        .call(&["mount", "--job", "4711", "--deadline", "60s"])?
        .expect_exit(0)?
        .expect_output("no Workflow")?;
    Ok(())
}
