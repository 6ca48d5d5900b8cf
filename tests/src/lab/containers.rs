//! podman on rabbits of the lab, without Kubernetes, and an image with Debian's Open MPI.

use std::{fs, time::Duration};

use anyhow::{Context, ensure};

use super::{Cluster, System};

/// Deadline of a podman command that works with an image, in an emulated guest.
const LONG: Duration = Duration::from_secs(900);

/// Names of the nodes, by which rabbits reach each other.
pub(super) const HOSTS: &str = "
cat >> /etc/hosts <<'END'
192.168.77.1 rabbit-1
192.168.77.2 compute-1
192.168.77.3 rabbit-2
192.168.77.4 compute-2
END
";

/// Script that installs the same files as the package, with an administrator's settings. podman keeps images and
/// containers on a tmpfs: it stacks them with overlayfs, and a guest's root, an overlay itself, cannot hold the layers.
const INSTALL: &str = "
mkdir -p /var/lib/containers /usr/libexec/warren /etc/warren
mount -t tmpfs -o mode=0711,size=75% containers /var/lib/containers
modprobe -a overlay veth bridge vxlan
ln -s /programs/podhelper /usr/libexec/warren/podhelper
printf 'WARREN_PODMAN=podman\\nWARREN_COMMAND_DEADLINE=600\\n' > /etc/warren/rabbit-agent
";

/// The systemd unit that the package installs. The agent, and so podman, runs under it, as at a site.
const UNIT: &str = include_str!("../../../systemd/warren-rabbit-agent.service");

/// Address by which rabbits find the image.
pub const IMAGE: &str = "oci-archive:/lab/ranks.tar";

/// Script that makes the image as docs/use/containers.md does, from the guest's own Debian, with `/bin/ranks` in it.
/// `$helper` may name a podhelper. If this podhelper is linked dynamically, unlike a site's, the image gets the
/// libraries too.
pub(super) const MAKE: &str = r#"
chmod 755 /bin/ranks
cd /var/tmp
programs=$(type -P sh hostname id mv mpirun orted NPopenmpi)
plugins=$(find /usr/lib/x86_64-linux-gnu/openmpi /usr/lib/x86_64-linux-gnu/pmix2 -name '*.so')
(echo /tmp; echo /bin/ranks; ls /etc/openmpi/*; ldd $programs $plugins ${helper-} | grep -o '/[^ :]*' | grep -v ^/programs/) |
    sort -u | tar -chf root.tar --hard-dereference --no-recursion -T -
podman import --quiet root.tar ranks:1 >/dev/null
podman save --quiet --format oci-archive -o /lab/ranks.tar ranks:1
podman rmi ranks:1 >/dev/null
rm root.tar
"#;

/// Script that prints everything of containers that exists on a rabbit: pods, tunnels, networks, mounts, and the files
/// and job packages of container runs.
const LEFT: &str = r"
podman pod ps --format '{{.Name}}'
podman ps --all --format '{{.Names}}'
for each in containers packages; do
    [ ! -e /var/lib/warren/rabbit/$each ] || find /var/lib/warren/rabbit/$each -mindepth 1
done
ip -o link show type vxlan
[ ! -e /run/netns ] || ls /run/netns
awk '$2 ~ /^.var.lib.containers.*.merged$/' /proc/self/mounts
";

/// Prepares every node for Warren's programs.
///
/// # Errors
/// When a script fails on a node.
pub fn install(clusters: &mut [Cluster]) -> anyhow::Result<()> {
    for cluster in clusters {
        let unit =
            format!("cat > /etc/systemd/system/warren-rabbit-agent.service <<'END'\n{UNIT}\nEND\n");
        cluster.rabbit.run(&format!("{HOSTS}{INSTALL}{unit}"), LONG)?;
        for compute in &mut cluster.computes {
            compute.run(HOSTS, LONG)?;
        }
    }
    Ok(())
}

/// Makes [`IMAGE`] on the rabbit `on`, with the script `ranks` in it, and copies the image to the rabbit `other`.
///
/// # Errors
/// When podman or Open MPI fails, or the copy fails.
pub fn make_image(system: &System, [on, other]: [&str; 2], ranks: &str) -> anyhow::Result<()> {
    let script = format!("helper=/programs/podhelper\n{}{MAKE}", script_of_ranks(ranks));
    system.guest(on).run(&script, LONG).context("make the image")?;
    let archive = |rabbit| system.guest(rabbit).exchange().join("ranks.tar");
    fs::copy(archive(on), archive(other)).context("hand the image over").map(drop)
}

/// Returns a script that writes the ranks' script, which [`MAKE`] puts into the image.
pub(super) fn script_of_ranks(ranks: &str) -> String {
    format!("cat > /bin/ranks <<'END'\n{ranks}\nEND\n")
}

/// Checks that a rabbit has no pod, network, mount or file of a container left.
///
/// # Errors
/// When something of a container is left.
pub fn nothing_is_left(system: &System, rabbit: &str) -> anyhow::Result<()> {
    let left = system.run(rabbit, LEFT)?;
    ensure!(left.is_empty(), "left on {rabbit}: {left}");
    Ok(())
}
