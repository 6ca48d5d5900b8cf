//! Tests of Lustre targets that the real agent makes on drives made of files, with stand-ins for the programs of ZFS
//! and Lustre (`tests::lustre_tools`). The tests prove which commands the agent runs, in which order and with which
//! arguments, and that it parses their output; they do not prove that a kernel with Lustre accepts the commands.

use std::{env, fs, path::PathBuf, process::Output};

use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tests::{
    centre::FS_NAME,
    cluster::PATIENCE,
    direct::Direct,
    gate, lustre_tools,
    program::{binary, command, signal, until},
};

fn is_ready(object: &Value) -> bool {
    object["status"]["ready"] == true
}

/// Returns source, target and type of each mount below the rabbit's mount root.
fn mounts(fixture: &Direct) -> anyhow::Result<Vec<[String; 3]>> {
    let table = format!("/proc/{}/mounts", fixture.rabbit()?.node_pid());
    let table = fs::read_to_string(table).context("read the rabbit's mounts")?;
    let beneath = fixture.at("mnt/").display().to_string();
    let words = table.lines().map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
    let ours = words.filter(|words| words[1].starts_with(&beneath));
    Ok(ours.map(|words| [words[0].clone(), words[1].clone(), words[2].clone()]).collect())
}

/// The directory in which the test has installed the stand-ins.
struct Tools {
    directory: PathBuf,
    path: String,
}

impl Tools {
    fn new(fixture: &Direct) -> anyhow::Result<Self> {
        let directory = fixture.at("lustre");
        lustre_tools::install(&directory, &binary("lustre-tools")?)?;
        let path = env::var("PATH").context("PATH")?;
        let path = format!("{}:{path}:/usr/sbin:/sbin", directory.display());
        Ok(Self { directory, path })
    }

    /// Returns the log of commands, without devices and paths, and with each pool shortened to the end
    /// of its name (`ost-0`).
    fn log(&self, fixture: &Direct) -> anyhow::Result<Vec<String>> {
        let owner = format!("pool-{}-", fixture.job.storage_uid);
        let lines = lustre_tools::log(&self.directory)?;
        let short = |line: &String| {
            let words = line.split(' ').filter(|word| !word.starts_with('/'));
            words.collect::<Vec<_>>().join(" ").replace(&owner, "")
        };
        Ok(lines.iter().map(short).collect())
    }

    /// Runs a stand-in on the rabbit.
    fn run(&self, fixture: &Direct, words: &[&str]) -> anyhow::Result<()> {
        let output = self.output(fixture, words)?;
        ensure!(output.status.success(), "{words:?}: {output:?}");
        Ok(())
    }

    fn output(&self, fixture: &Direct, words: &[&str]) -> anyhow::Result<Output> {
        let mut argv = command("nsenter");
        let node = fixture.rabbit()?.node_pid().to_string();
        argv.args(["--mount", "--target", &node, "--"]).args(words).env("PATH", &self.path);
        argv.output().context("start nsenter")
    }
}

/// Returns the commands that make and mount a target, in their order.
fn commands_of_target(kind: &str, index: u32) -> [String; 3] {
    let pool = format!("{kind}-{index}");
    let kind_options = match kind {
        "ost" => {
            format!("--ost --backfstype=zfs --fsname={FS_NAME} --mgsnode={}", lustre_tools::NID)
        }
        _ => format!("--mgs --mdt --backfstype=zfs --fsname={FS_NAME}"),
    };
    [
        format!("zpool create -O canmount=off -o cachefile=none {pool}"),
        format!(
            "mkfs.lustre {kind_options} --index={index} --mkfsoptions=nnf:jobid=287341 {pool}/{kind}"
        ),
        format!("mount -t lustre {pool}/{kind}"),
    ]
}

#[test]
fn targets_are_made_mounted_mounted_again_after_a_restart_and_destroyed_in_order()
-> anyhow::Result<()> {
    if !gate::loop_devices() {
        return Ok(());
    }
    let mut fixture = Direct::new(|_| {})?;
    let tools = Tools::new(&fixture)?;
    fixture.start_rabbit_with(&[("PATH", &tools.path)])?;
    let node = json!({"apiVersion": "nnf.cray.hpe.com/v1alpha11", "kind": "NnfNode",
        "metadata": {"name": "nnf-nlc", "namespace": fixture.chassis.rabbit}});
    fixture.until_object(&node, "the LNet address", |object| {
        object["status"]["lnetNid"] == lustre_tools::NID
    })?;
    fixture.server.create(&fixture.job.lustre_profile())?;
    let [mdt_block, mdt] = fixture.job.lustre_targets(&fixture.chassis, "mgtmdt", 1);
    let [ost_block, ost] = fixture.job.lustre_targets(&fixture.chassis, "ost", 2);
    for object in [&mdt_block, &mdt] {
        fixture.server.create(object)?;
    }
    fixture.until_object(&mdt, "serving", is_ready)?;
    for object in [&ost_block, &ost] {
        fixture.server.create(object)?;
    }
    let healthy = json!({"health": "Healthy", "ready": true});
    let served = fixture.until_object(&ost, "serving", is_ready)?;
    ensure!(served["status"]["allocations"] == json!([healthy, healthy]), "{served}");
    let log = tools.log(&fixture)?;
    for (kind, index) in [("mgtmdt", 0), ("ost", 0), ("ost", 1)] {
        let at = commands_of_target(kind, index)
            .map(|wanted| log.iter().position(|line| *line == wanted));
        ensure!(
            at.iter().all(Option::is_some) && at.is_sorted(),
            "{kind}-{index}: {at:?} in {log:#?}"
        );
    }
    // The hooks of a file system, which are commands of the profile, run once all its targets are mounted.
    let client = format!("mount -t lustre {}:/{FS_NAME}", lustre_tools::NID);
    ensure!(log.ends_with(&[client.clone(), "lfs setstripe -E 64K -L mdt".to_owned()]), "{log:#?}");
    let serving = mounts(&fixture)?;
    let roots = fixture.at("mnt/nnf");
    for (kind, index) in [("mgtmdt", 0), ("ost", 0), ("ost", 1)] {
        let name = fixture.job.lustre_target(kind, index);
        let target = roots.join(&name).display().to_string();
        // The type would be `lustre` on a kernel with Lustre. The agent recognizes the mount by its source, so the type
        // does not matter.
        let wanted = [format!("pool-{name}/{kind}"), target, "tmpfs".to_owned()];
        ensure!(serving.contains(&wanted), "{wanted:?} is not in {serving:#?}");
    }
    ensure!(serving.len() == 3, "{serving:#?}");

    targets_are_mounted_again_after_a_restart(&fixture, &tools, &serving)?;
    tools_refuse_while_targets_serve(&fixture, &tools, &serving)?;

    for object in [&ost, &ost_block, &mdt, &mdt_block] {
        fixture.server.delete(object)?;
        fixture.until_gone(object)?;
    }
    let log = tools.log(&fixture)?;
    let at = |wanted: &str| log.iter().rposition(|line| line == wanted);
    let order = [
        at(&client),
        at("zpool destroy ost-0"),
        at("zpool destroy ost-1"),
        at("zpool destroy mgtmdt-0"),
    ];
    ensure!(order.iter().all(Option::is_some) && order.is_sorted(), "{order:?} in {log:#?}");
    ensure!(mounts(&fixture)?.is_empty(), "{:#?}", mounts(&fixture)?);
    let root = format!("/proc/{}/root", fixture.rabbit()?.node_pid());
    for beneath in [roots, fixture.at("mnt/temp")] {
        let path = format!("{root}{}", beneath.display());
        let left = fs::read_dir(&path).with_context(|| path.clone())?.count();
        ensure!(left == 0, "{left} mount points are left in {path}");
    }
    fixture.end()
}

/// Checks that the stand-ins refuse the same commands as Lustre 2.17 does while targets are mounted.
fn tools_refuse_while_targets_serve(
    fixture: &Direct,
    tools: &Tools,
    serving: &[[String; 3]],
) -> anyhow::Result<()> {
    let ost = serving.iter().find(|[source, ..]| source.ends_with("-ost-0/ost"));
    let source = &ost.context("the first object target")?[0];
    let elsewhere = fixture.at("mnt").display().to_string();
    let format = [
        "mkfs.lustre",
        "--ost",
        "--backfstype=zfs",
        "--fsname=x",
        "--mgsnode=a",
        "--index=0",
        source,
    ];
    for (words, status, message) in [
        (&format[..], 17, "is currently mounted, exiting without any change"),
        (
            &["mount", "-t", "lustre", source, &elsewhere],
            114,
            "The target service is already running.",
        ),
        (&["lctl", "erase_lcfg", "nosuch"], 2, "OBD_IOC_LCFG_ERASE failed: No such file"),
        (
            &["mount", "-t", "lustre", "10.0.0.1@tcp:/nosuch", &elsewhere],
            2,
            "Is the filesystem name correct?",
        ),
    ] {
        let output = tools.output(fixture, words)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(status) && stderr.contains(message), "{output:?}");
    }
    let output = tools.output(
        fixture,
        &[
            "zfs",
            "get",
            "-H",
            "-r",
            "-t",
            "filesystem",
            "-o",
            "name,value",
            "lustre:svname",
            source.split('/').next().unwrap_or_default(),
        ],
    )?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    ensure!(stdout.contains(&format!("{FS_NAME}-OST0000")), "{output:?}");
    Ok(())
}

/// Kills the agent, unmounts all targets and exports all pools, which has the same effect as a restart of the node.
/// Checks that the targets are mounted again, that nothing is formatted, and that no hook runs a second time.
fn targets_are_mounted_again_after_a_restart(
    fixture: &Direct,
    tools: &Tools,
    serving: &[[String; 3]],
) -> anyhow::Result<()> {
    let before = tools.log(fixture)?.len();
    // Stops the agent's process, so that it does not react before it is killed.
    signal(fixture.rabbit()?.pid()?, Signal::SIGSTOP)?;
    for [source, target, _] in serving {
        let (pool, _) = source.split_once('/').context("a dataset")?;
        tools.run(fixture, &["umount", target])?;
        tools.run(fixture, &["zpool", "export", pool])?;
    }
    fixture.rabbit()?.kill()?;
    until("the targets to serve again", PATIENCE, || {
        let now = mounts(fixture)?;
        let log = || fs::read_to_string(fixture.at("logs/rabbit-1.log")).unwrap_or_default();
        ensure!(serving.iter().all(|name| now.contains(name)), "{now:#?}\n{}", log());
        Ok(())
    })?;
    let log = tools.log(fixture)?;
    let since = &log[before..];
    let count = |start: &str| since.iter().filter(|line| line.starts_with(start)).count();
    ensure!(count("zpool import -N -o cachefile=none -d") == 3, "{since:#?}");
    ensure!(count("mkfs.lustre") + count("zpool create") + count("lfs") == 0, "{since:#?}");
    Ok(())
}
