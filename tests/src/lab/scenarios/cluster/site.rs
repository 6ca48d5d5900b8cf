//! The guests of the site, and what they have in place of a real site's parts.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::page::{Step, indented};
use crate::lab::{
    Bench, Guest, Machine,
    cluster::free_port,
    machine::Network,
    report::say,
    scenarios::nvme::{DISK, with_system},
    system::SYSTEM_DISK,
};

/// Longest time for a block of commands: six guests emulate their processors on the cores of one computer.
const STEP: Duration = Duration::from_secs(400);

/// Hosts with their rabbits and their places in its chassis; a rabbit has itself.
pub(super) const HOSTS: [(&str, &str, u16); 6] = [
    ("rabbit-1", "rabbit-1", 0),
    ("rabbit-2", "rabbit-2", 0),
    ("compute-1", "rabbit-1", 0),
    ("compute-2", "rabbit-1", 1),
    ("compute-3", "rabbit-2", 0),
    ("compute-4", "rabbit-2", 1),
];

/// The rabbit that keeps its files when it is switched off.
const KEEPS: &str = "rabbit-2";

const INSTALL: &str = include_str!("../../../../../docs/operate/install.md");

/// Says aloud how the guests differ from the page's hosts.
const DIFFERENT: &str = "NOT AS ON A REAL SITE: programs and units come from docs/operate/install.md, \"Install without packages\"; ssh and scp are stand-ins that use a shared directory; /etc/hosts resolves names; rabbits have 4 drives of 2 GiB (WARREN_ALLOCATION_MINIMUM=2); a guest's root file system is lost when it is switched off, so rabbit-2 has /etc/warren and /var/lib/warren on a disk, and its agent is installed and started again after the boot";

/// Script that puts the programs of the build in place of those of packages.
const PROGRAMS: &str = "
for program in warren coordinator rabbit-agent clientmount-agent datamover; do
    ln -sf /programs/$program /usr/bin/$program
done
cd /lab
";

/// Script of stand-ins for ssh and scp, as guests have no sshd: each host runs the scripts that appear in its directory beneath /shared, which
/// all hosts mount, as root and without a password.
const SSH: &str = r#"
mkdir -p /shared
mount -t 9p -o trans=virtio,version=9p2000.L shared /shared
mkdir -p /shared/ssh/$(hostname)
rm -f /usr/bin/{ssh,scp}
cat > /usr/bin/ssh <<'STOP'
#!/bin/bash
host=$1; shift
request=$(mktemp -u /shared/ssh/$host/XXXXXXXX)
{ printf '%s\n' "$*"; } > $request.new
mv $request.new $request.sh
until [ -e $request.code ]; do sleep 0.1; done
cat $request.out
exit "$(< $request.code)"
STOP
cat > /usr/bin/scp <<'STOP'
#!/bin/bash
ssh "${2%%:*}" "base64 -d > '${2#*:}' <<'FILE' && chmod $(stat -c %a "$1") '${2#*:}'
$(base64 "$1")
FILE"
STOP
cat > /usr/bin/serve-ssh <<'STOP'
#!/bin/bash
cd /shared/ssh/$(hostname)
shopt -s nullglob
while sleep 0.1; do
    for script in *.sh; do
        bash $script > ${script%.sh}.out 2>&1 </dev/null
        echo $? > ${script%.sh}.new
        rm $script
        mv ${script%.sh}.new ${script%.sh}.code
    done
done
STOP
chmod 0755 /usr/bin/{ssh,scp,serve-ssh}
setsid serve-ssh >/dev/null 2>&1 </dev/null &
"#;

/// Script that mounts the disk `$DISK` at /kept, and its directories where the programs have their files.
const KEEP: &str = "
mkdir -p /kept /etc/warren /var/lib/warren
blkid $DISK >/dev/null || mkfs.ext4 -q $DISK
mount $DISK /kept
mkdir -p /kept/etc /kept/state
mount --bind /kept/etc /etc/warren
mount --bind /kept/state /var/lib/warren
";

/// The six guests.
pub(super) struct Site<'a> {
    bench: &'a Bench,
    guests: BTreeMap<String, Guest>,
    /// Machines that were switched off.
    off: BTreeMap<String, Machine>,
}

impl<'a> Site<'a> {
    /// Boots all hosts, and installs Warren on them.
    pub(super) fn boot(bench: &'a Bench) -> anyhow::Result<Self> {
        say(DIFFERENT);
        let port = free_port()?;
        let mut site = Self { bench, guests: BTreeMap::new(), off: BTreeMap::new() };
        for (number, (host, rabbit, index)) in (1..).zip(HOSTS) {
            let network = Some(Network { port, host: number });
            let machine = Machine { network, ..machine(bench, host, rabbit, index)? };
            site.guests.insert(host.to_owned(), Guest::switch_on(bench, machine)?);
        }
        for (host, ..) in HOSTS {
            site.prepare(host)?;
            site.run(host, "mkdir -p /etc/warren\ncase $(hostname) in rabbit-*) echo WARREN_ALLOCATION_MINIMUM=2 >> /etc/warren/rabbit-agent ;; esac")?;
        }
        Ok(site)
    }

    /// Waits until a host has booted, and gives it what a switched-on host of a site has.
    fn prepare(&mut self, host: &str) -> anyhow::Result<()> {
        let guest = self.guests.get(host).context("a guest")?;
        guest.wait_for_boot()?;
        copy_units(&guest.exchange().join("systemd"))?;
        let names: String = (1..)
            .zip(HOSTS)
            .map(|(number, (name, ..))| format!("echo 192.168.77.{number} {name} >> /etc/hosts\n"))
            .collect();
        let kept = if host == KEEPS {
            format!("SERIAL={SYSTEM_DISK}\n{DISK}{KEEP}")
        } else {
            String::new()
        };
        let install = indented(INSTALL, "Install without packages")?;
        self.run(host, &format!("{names}{kept}{SSH}{PROGRAMS}{install}")).map(drop)
    }

    /// Runs a step of the page on its hosts; returns what it printed.
    pub(super) fn paste(&mut self, step: &Step) -> anyhow::Result<String> {
        let mut printed = String::new();
        for host in &step.hosts {
            say(&format!("{host}: {}", step.heading));
            printed += &self
                .run(host, &format!("set -x\n{}", step.commands))
                .with_context(|| step.heading.clone())?;
        }
        say(printed.trim_end());
        Ok(printed)
    }

    /// Runs a script on a host.
    pub(super) fn run(&mut self, host: &str, script: &str) -> anyhow::Result<String> {
        let guest = self.guests.get_mut(host).with_context(|| format!("{host} is off"))?;
        guest.run(script, STEP).with_context(|| format!("on {host}"))
    }

    /// Returns the status of a rabbit that `warren rabbit list` shows.
    pub(super) fn status(&mut self, rabbit: &str) -> anyhow::Result<String> {
        let printed = self.run("rabbit-1", "warren rabbit list --json")?;
        let list: Value = serde_json::from_str(&printed).context("parse warren rabbit list")?;
        let rabbits = list.as_array().context("a list of rabbits")?;
        let found = rabbits.iter().find(|found| found["rabbit"] == rabbit);
        let status = found.and_then(|found| found["status"].as_str());
        status.map(str::to_owned).with_context(|| format!("no status of {rabbit}: {printed}"))
    }

    /// Switches a host off as a loss of power does.
    pub(super) fn switch_off(&mut self, host: &str) -> anyhow::Result<()> {
        let mut guest = self.guests.remove(host).context("a guest that runs")?;
        // Data that no program has synced is lost, as on a real host; the state of agents is synced.
        guest.freeze()?;
        self.off.insert(host.to_owned(), guest.machine().clone());
        Ok(())
    }

    /// Switches a host on again; returns when systemd has started its agent.
    pub(super) fn switch_on(&mut self, host: &str) -> anyhow::Result<()> {
        let machine = self.off.remove(host).context("a guest that is off")?;
        self.guests.insert(host.to_owned(), Guest::switch_on(self.bench, machine)?);
        self.prepare(host)?;
        self.run(host, "systemctl enable --now warren-rabbit-agent").map(drop)
    }

    /// Adds the end of each host's log to an error.
    pub(super) fn explained(&mut self, failure: anyhow::Error) -> anyhow::Error {
        let hosts: Vec<_> = self.guests.keys().cloned().collect();
        hosts.iter().fold(failure, |failure, host| {
            let log = self.run(host, "journalctl --no-pager -q -n 25 -u 'warren-*'");
            failure.context(format!("{host}: {}", log.unwrap_or_default()))
        })
    }
}

fn machine(bench: &Bench, host: &str, rabbit: &str, index: u16) -> anyhow::Result<Machine> {
    let chassis = Machine { name: rabbit.to_owned(), memory: 1536, ..Machine::rabbit(4) };
    let machine = if host != rabbit {
        Machine { name: host.to_owned(), ..Machine::compute(index, bench, &chassis) }
    } else if host == KEEPS {
        with_system(bench, chassis)?
    } else {
        chassis
    };
    Ok(Machine { processors: 1, systemd: true, ..machine })
}

/// Copies the units of the tree to where a guest sees them as /lab/systemd.
fn copy_units(to: &Path) -> anyhow::Result<()> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systemd");
    fs::create_dir_all(to).context("make a directory for units")?;
    let mut copied = 0;
    for entry in fs::read_dir(&from).context("list the units")? {
        let path = entry.context("list the units")?.path();
        if path.is_file() {
            let name = path.file_name().context("a name")?;
            fs::copy(&path, to.join(name)).context("copy a unit")?;
            copied += 1;
        }
    }
    ensure!(copied > 0, "no units in {}", from.display());
    Ok(())
}
