//! Tests with processes, bind mounts and links that a job's user leaves on the volume.

use std::{fs::File, time::Duration};

use anyhow::{Context, ensure};
use tests::{
    cluster::PATIENCE,
    fixture::Fixture,
    gate,
    program::{command, until},
    verbs::{Caller, SHORT},
};

use crate::{COMPUTE, end, end_job, is_mounted, mounted};

/// A process that a user left on the compute. Dropping the value kills it.
struct Stray(std::process::Child);

impl Stray {
    /// Starts a process on the compute that runs a script as this user and then sleeps. Returns once
    /// the script has ended.
    fn new(fixture: &Fixture, user: u32, script: &str) -> anyhow::Result<Self> {
        let pid = fixture.run.cluster.node(COMPUTE)?.node_pid().to_string();
        let (user, marker) =
            (user.to_string(), fixture.run.cluster.logs().join(format!("stray-{user}")));
        let mut argv = command("nsenter");
        argv.args([
            "--mount",
            "--target",
            &pid,
            "--",
            "setpriv",
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
        ]);
        argv.args(["/bin/sh", "-ec", &format!("{script}; echo there; exec tail -f /dev/null")]);
        argv.stdout(File::create(&marker)?);
        let stray = Self(argv.spawn().context("start a stray process")?);
        until("the stray process", PATIENCE, || {
            ensure!(std::fs::read_to_string(&marker)?.contains("there"), "not yet");
            Ok(())
        })?;
        Ok(stray)
    }

    fn has_ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }
}

impl Drop for Stray {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calls `unmount` until its answer names a holder, a process that keeps the mount busy, and returns that answer. On a
/// busy machine the agent needs longer than one deadline to find the holder.
fn unmount_names_holder(caller: &Caller) -> anyhow::Result<serde_json::Value> {
    until("a holder to be named", PATIENCE, || {
        let words = ["unmount", "--job", "1", "--deadline", SHORT, "--json"];
        let held = caller.call(&words)?.expect_exit(3)?.json()?;
        ensure!(held["mounts"][0]["holders"][0].is_object(), "{held}");
        Ok(held)
    })
}

#[test]
fn processes_that_a_user_leaves_are_named_and_signalled_only_with_on_timeout_signal()
-> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = mounted()?;
    let path = fixture.run.job.mount_path();
    let mut stray = Stray::new(&fixture, 1050, &format!("cd {path}"))?;
    end_job(&mut fixture)?;
    let held = unmount_names_holder(&caller)?;
    let holder = &held["mounts"][0]["holders"][0];
    ensure!(holder["pid"] == stray.0.id() && holder["userId"] == 1050, "{held}");
    ensure!(holder["command"] == "tail" && holder["since"].is_string(), "{held}");
    ensure!(
        !stray.has_ended()? && is_mounted(&fixture)?,
        "on-timeout is report, but the process was signalled or the volume unmounted"
    );
    let words = ["unmount", "--job", "1", "--deadline", SHORT, "--on-timeout", "signal"];
    caller.call(&words)?.expect_exit(0)?;
    ensure!(
        stray.has_ended()? && !is_mounted(&fixture)?,
        "the process or the mount is still there"
    );
    end(fixture)
}

#[test]
fn a_process_that_ignores_sigterm_is_killed_and_a_process_of_root_is_not() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = mounted()?;
    let path = fixture.run.job.mount_path();
    let mut deaf = Stray::new(&fixture, 1050, &format!("trap '' TERM; cd {path}"))?;
    let mut roots = Stray::new(&fixture, 0, &format!("cd {path}"))?;
    end_job(&mut fixture)?;
    let words = ["unmount", "--job", "1", "--deadline", SHORT, "--on-timeout", "signal"];
    let held = caller.call(&words)?.expect_exit(3)?;
    ensure!(deaf.has_ended()?, "the process that ignores SIGTERM was not killed: {held:?}");
    ensure!(!roots.has_ended()? && is_mounted(&fixture)?, "a process of root was killed");
    held.expect_output(&format!("process {} (tail, user 0", roots.0.id()))?;
    drop(roots);
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    end(fixture)
}

#[test]
fn a_detached_mount_counts_as_mounted_until_its_device_is_free() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = mounted()?;
    let path = fixture.run.job.mount_path();
    let stray = Stray::new(&fixture, 1050, &format!("exec 5> {path}/open"))?;
    end_job(&mut fixture)?;
    let words = ["unmount", "--job", "1", "--deadline", SHORT, "--on-timeout", "lazy"];
    let held = caller.call(&words)?.expect_exit(3)?;
    ensure!(!is_mounted(&fixture)?, "the mount was not detached: {held:?}");
    let held = caller.call(&["unmount", "--job", "1", "--deadline", SHORT])?.expect_exit(3)?;
    held.expect_output(&format!("process {}", stray.0.id()))?;
    let name = fixture.run.job.computes_mount();
    let object = fixture.run.prints(&["get", "clientmount", &name, "-n", COMPUTE, "--json"])?;
    let object: serde_json::Value = serde_json::from_str(&object)?;
    ensure!(object["status"]["allReady"] == false, "{}", object["status"]);
    drop(stray);
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    end(fixture)
}

#[test]
fn a_holder_in_another_mount_namespace_is_named() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = mounted()?;
    let path = fixture.run.job.mount_path();
    // The holder is like a user's container: it has its own mount namespace, in which the volume is bind-mounted at
    // another path.
    let aside = fixture.run.cluster.node_mounts().join("aside");
    let aside = aside.display();
    let script = format!(
        "mkdir {aside}; exec unshare --mount --propagation private /bin/sh -ec 'mount --bind {path} {aside}; cd {aside}; echo there; exec tail -f /dev/null'"
    );
    let holder = Stray::new(&fixture, 0, &script)?;
    end_job(&mut fixture)?;
    let held = unmount_names_holder(&caller)?;
    let holders = held["mounts"][0]["holders"].as_array().context("holders")?;
    ensure!(holders.iter().any(|holder| holder["elsewhere"] == true), "{held}");
    drop(holder);
    until("the namespace to be gone", Duration::from_secs(60), || {
        caller.call(&["unmount", "--job", "1", "--deadline", SHORT])?.expect_exit(0).map(drop)
    })?;
    end(fixture)
}

/// In a user namespace, any user can create a mount namespace without privileges on the node.
#[test]
fn a_holder_in_a_user_namespace_is_named() -> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = mounted()?;
    let path = fixture.run.job.mount_path();
    let script = format!(
        "exec unshare -Urm /bin/sh -ec 'mount --bind {path} /tmp; cd /tmp; echo there; exec tail -f /dev/null'"
    );
    let holder = Stray::new(&fixture, 1050, &script)?;
    end_job(&mut fixture)?;
    let held = unmount_names_holder(&caller)?;
    let holders = held["mounts"][0]["holders"].as_array().context("holders")?;
    let is_named = |holder: &serde_json::Value| {
        holder["elsewhere"] == true && holder["userId"] == 1050 && holder["command"] == "tail"
    };
    ensure!(holders.iter().any(is_named), "{held}");
    let words = ["unmount", "--job", "1", "--deadline", SHORT, "--on-timeout", "signal"];
    caller.call(&words)?.expect_exit(0)?;
    drop(holder);
    end(fixture)
}

#[test]
fn a_full_volume_with_links_is_mounted_again_and_unmounted_and_no_link_is_followed()
-> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let (mut fixture, caller) = mounted()?;
    let path = fixture.run.job.mount_path();
    let cluster = &fixture.run.cluster;
    let outside = cluster.logs().join("outside");
    std::fs::create_dir(&outside)?;
    std::fs::write(outside.join("kept"), "kept")?;
    let outside = outside.display();
    cluster.run_on(
        COMPUTE,
        1050,
        &format!(
            "cd {path}; mkdir directory; rmdir directory; ln -s {outside} directory; ln -s / root; ln -s . loop; \
             dd if=/dev/zero of=ballast bs=1M 2> /dev/null || true; if cat /dev/zero > more 2> /dev/null; then exit 1; fi"
        ),
    )?;
    caller.call(&["mount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    fixture.run.cluster.node(COMPUTE)?.kill()?;
    caller.call(&["mount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    end_job(&mut fixture)?;
    caller.call(&["unmount", "--job", "1", "--deadline", "60s"])?.expect_exit(0)?;
    ensure!(std::fs::read_to_string(format!("{outside}/kept"))? == "kept", "a link was followed");
    end(fixture)
}
