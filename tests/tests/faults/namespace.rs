//! Test in which a compute's Kubernetes namespace is deleted while a ClientMount in it is mounted.

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, api::DeleteParams};
use serde_json::Value;
use tests::{cluster::PATIENCE, disturbed::Disturbed, program::until};

/// A job that still writes keeps its mount. When the job ends, the agent unmounts, and only then can
/// Kubernetes delete the namespace.
#[test]
fn a_deleted_namespace_stays_until_the_job_frees_the_mount() -> anyhow::Result<()> {
    let disturbed = Disturbed::new(&api::crd_values())?;
    let mut fixture = disturbed.fixture(1, "xfs")?;
    let run = &mut fixture.run;
    run.carve_and_mount()?;
    let (path, user) = (run.job.mount_path(), run.job.user);
    // Starts the job, which keeps the mount busy until the flag file is deleted, and then writes a last file.
    let flag = run.cluster.logs().join("job-runs");
    std::fs::write(&flag, "")?;
    let script = format!(
        "( cd {path}; while [ -e {} ]; do sleep 0.1; done; echo last > last ) > /dev/null 2>&1 &",
        flag.display()
    );
    run.cluster.run_on("compute-1", user, &script)?;

    let namespaces: Api<Namespace> = Api::all(disturbed.client()?);
    disturbed.wait(namespaces.delete("compute-1", &DeleteParams::default()))?;
    let name = run.job.computes_mount();
    until("the mount to be reported as busy", PATIENCE, || {
        let text = run.prints(&["get", "clientmount", &name, "-n", "compute-1", "--json"])?;
        let mount: Value = serde_json::from_str(&text)?;
        let message = mount["status"]["error"]["debugMessage"].as_str().context("no error yet")?;
        ensure!(message.contains("busy"), "{message}");
        Ok(())
    })?;
    run.cluster.run_on("compute-1", user, &format!("touch {path}/still-there"))?;

    std::fs::remove_file(&flag)?;
    until("the namespace to go", PATIENCE, || {
        let left = disturbed.wait(namespaces.get_opt("compute-1"))?;
        ensure!(left.is_none(), "{:?}", left.and_then(|namespace| namespace.status));
        Ok(())
    })?;
    run.cluster.run_on("compute-1", user, &format!("! test -e {path}/still-there"))?;
    run.mount_on_rabbit()?;
    let (rabbit, path) = ("rabbit-1", run.job.mount_path());
    let last = run.cluster.run_on(rabbit, user, &format!("cat {path}/node-0/last"))?;
    ensure!(last.trim() == "last", "the job's last file has {last:?}");
    run.tear_down()?;
    fixture.end()
}
