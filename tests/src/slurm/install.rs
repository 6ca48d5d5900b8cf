//! Slurm's files that an administrator makes, and the command lines of its daemons.

use std::{
    fs::{self, Permissions},
    net::TcpListener,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context;
use uuid::Uuid;

use super::{FIRST, Scripts, user};
use crate::{
    program::{binary, command, plant},
    workflow::Flow,
};

/// Functions of burst_buffer.lua that do nothing.
const EMPTY: &str = r#"
for _, name in ipairs({"job_process", "job_teardown", "setup", "data_in", "real_size", "paths", "pre_run", "post_run",
                       "data_out", "get_status"}) do
    _G["slurm_bb_" .. name] = function() return slurm.SUCCESS end
end
function slurm_bb_pools()
    return slurm.SUCCESS, '{"pools":[{"id":"rabbit","quantity":8589934592,"granularity":1}]}'
end
"#;

/// Lines of slurm.conf that do not depend on where Slurm's daemons run.
pub(crate) const EVERYWHERE: &str = "SlurmUser=slurm\nAuthType=auth/munge\nCredType=cred/munge\n\
    ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\nMailProg=/bin/true\n\
    SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSlurmdParameters=config_overrides\n\
    KillWait=1\nPrologFlags=Alloc\nRequeueExit=99\n\
    BurstBufferType=burst_buffer/lua\nJobSubmitPlugins=lua\nDebugFlags=BurstBuffer\n\
    SchedulerParameters=sched_interval=2,bf_interval=2,nohold_on_prolog_fail\n";

/// The partition of all nodes: slurm.conf needs this line after the lines of the nodes.
pub(crate) const PARTITION: &str =
    "PartitionName=all Nodes=ALL Default=YES State=UP OverSubscribe=EXCLUSIVE\n";

fn packaged_file(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/slurm").join(file)
}

/// Writes the administrator's settings for the scripts; on a real node they are in /etc/warren.
pub(super) fn write_settings(directory: &Path, flow: &Flow, settings: &str) -> anyhow::Result<()> {
    let sockets = flow.fixture.run.cluster.workloads_socket();
    let text = format!("WARREN_COORDINATOR=unix://{}\n{settings}", sockets.display());
    fs::write(directory.join("etc/warren"), text).context("write settings")
}

/// Finds a port on which no program listens. Slurm's daemons bind the port seconds later, so the port must be outside
/// the range from which the kernel takes local ports for outgoing connections: other tests make many such connections.
fn port() -> anyhow::Result<u16> {
    let any = (0..100).map(|_| fastrand::u16(10_000..32_768));
    let mut free = any.filter(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok());
    free.next().context("find a port: none of 100 between 10000 and 32767 is free")
}

/// Returns a PATH that has the directory of our programs first.
fn path() -> anyhow::Result<String> {
    let own = binary("warren")?;
    let own = own.parent().context("a directory")?.display().to_string();
    Ok(format!("{own}:{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default()))
}

/// Makes the directories and files that an administrator makes.
pub(super) fn prepare(
    directory: &Path,
    flow: &Flow,
    scripts: Scripts,
    settings: &str,
) -> anyhow::Result<()> {
    let cluster = &flow.fixture.run.cluster;
    let slurm = user("slurm")?;
    for name in ["etc", "state", "munge", "jobs", FIRST] {
        fs::create_dir_all(directory.join(name)).context("make a directory")?;
    }
    let open = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).context("let users in")
    };
    let base = directory.parent().context("the cluster's directory")?;
    let sockets = cluster.workloads_socket();
    for path in [base, sockets.parent().context("a directory")?] {
        open(path, 0o711)?;
    }
    open(&directory.join("jobs"), 0o1777)?;
    let (uid, gid) = (Some(slurm.uid.as_raw()), Some(slurm.gid.as_raw()));
    chown(directory.join("state"), uid, gid).context("give Slurm its state")?;
    let halves = [Uuid::new_v4(), Uuid::new_v4()];
    fs::write(directory.join("munge/key"), halves.map(Uuid::into_bytes).concat())
        .context("write a key")?;
    open(&directory.join("munge/key"), 0o600)?;
    let etc = directory.join("etc");
    for name in ["burst_buffer.lua", "burst_buffer.conf", "job_submit.lua"] {
        fs::copy(packaged_file(name), etc.join(name)).with_context(|| format!("install {name}"))?;
    }
    fs::write(etc.join("slurm.conf"), configuration(directory, flow)?).context("configure")?;
    write_settings(directory, flow, settings)?;
    for script in ["prolog", "epilog"] {
        // This wrapper script sets the paths of files, which are fixed where packages install them. Tests cannot set
        // them otherwise: Slurm gives its scripts hardly any environment variables.
        let text = format!(
            "#!/bin/sh\nexport PATH='{}' WARREN_SLURM_FILE='{}' WARREN_RUN='{}'\n\
             export WARREN_LISTEN=\"{}/$SLURMD_NODENAME.sock\"\n\
             exec '{}' >> '{}'/$SLURMD_NODENAME-{script}.log 2>&1\n",
            path()?,
            etc.join("warren").display(),
            directory.display(),
            cluster.coordinator_socket().with_file_name("").display(),
            packaged_file(script).display(),
            cluster.logs().display(),
        );
        plant(&etc.join(script), &text)?;
    }
    if scripts == Scripts::Empty {
        fs::write(etc.join("burst_buffer.lua"), EMPTY).context("do nothing")?;
        for script in ["prolog", "epilog"] {
            plant(&etc.join(script), "#!/bin/sh\n")?;
        }
    }
    Ok(())
}

fn configuration(directory: &Path, flow: &Flow) -> anyhow::Result<String> {
    let at = directory.display();
    let mut text = format!(
        "{EVERYWHERE}ClusterName=test\nSlurmctldHost=localhost\nSlurmctldPort={}\nReturnToService=2\nSlurmdTimeout=30\nSlurmctldDebug=verbose\n\
         AuthInfo=socket={at}/munge/socket\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool-%n\n\
         SlurmctldPidFile={at}/state/pid\nSlurmdPidFile={at}/pid-%n\n\
         Prolog={at}/etc/prolog\nEpilog={at}/etc/epilog\n",
        port()?
    );
    for (node, _) in &flow.fixture.run.cluster.chassis().computes {
        text.push_str(&format!(
            "NodeName={node} NodeHostname=localhost Port={} CPUs=2 Feature=rabbit,big\n",
            port()?
        ));
    }
    Ok(text + PARTITION)
}

pub(super) fn munged(directory: &Path) -> Command {
    let at = directory.join("munge");
    let mut argv = command("munged");
    argv.args(["--foreground", "--force"]);
    for (flag, file) in [
        ("--key-file", "key"),
        ("--socket", "socket"),
        ("--pid-file", "pid"),
        ("--seed-file", "seed"),
    ] {
        argv.arg(format!("{flag}={}", at.join(file).display()));
    }
    argv
}

pub(super) fn slurmctld(directory: &Path) -> anyhow::Result<Command> {
    let mut argv = command("slurmctld");
    argv.args(["-D", "-f"]).arg(directory.join("etc/slurm.conf"));
    let path = format!("{}:{}", directory.join(FIRST).display(), path()?);
    argv.env("PATH", path).env("SLURM_CONF", directory.join("etc/slurm.conf"));
    argv.env("WARREN_SLURM_FILE", directory.join("etc/warren"));
    Ok(argv)
}

pub(super) fn slurmd(directory: &Path, flow: &Flow, node: &str) -> anyhow::Result<Command> {
    let on = flow.fixture.run.cluster.node(node)?.node_pid().to_string();
    let mut argv = command("nsenter");
    argv.args(["--mount", "--target", &on, "slurmd", "-D", "-N", node, "-f"]);
    argv.arg(directory.join("etc/slurm.conf"));
    argv.env("SLURM_CONF", directory.join("etc/slurm.conf"));
    Ok(argv)
}
