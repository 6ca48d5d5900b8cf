//! Images for pods with MPI: an image with Debian's Open MPI, and podhelper's image.

use std::fs;

use anyhow::Context;
use control_plane::{AuditEvent, read_audit};

use super::{LONG, hand_over};
use crate::lab::{Bench, Cluster, System, containers};

/// Image with Open MPI, and without podhelper.
pub const RANKS: &str = "localhost/ranks:1";
/// Image of podhelper, as docs/operate/containers.md builds it.
pub const PODHELPER: &str = "localhost/podhelper:1";

/// Script that imports [`RANKS`] into containerd.
const IMPORT: &str = "
ctr -n k8s.io images import /lab/ranks.tar >/dev/null
rm /lab/ranks.tar
";

/// Script that makes podhelper's image and imports it into containerd.
const MAKE: &str = "
cd /var/tmp
podman build --quiet -t podhelper:1 /lab/podhelper >/dev/null
podman save --quiet --format oci-archive -o podhelper.tar localhost/podhelper:1
podman rmi podhelper:1 >/dev/null
ctr -n k8s.io images import podhelper.tar >/dev/null
rm podhelper.tar
";

/// Makes both images on a node, with the script `ranks` as `/bin/ranks` in the image with Open MPI.
///
/// # Errors
/// When podhelper was not built, or podman or Open MPI fails.
pub fn prepare(bench: &Bench, cluster: &mut Cluster, ranks: &str) -> anyhow::Result<()> {
    let built = bench.assets().podhelper()?;
    let files = ["podhelper", "Containerfile"].map(|name| built.join(name));
    hand_over(&cluster.rabbit.exchange().join("podhelper"), files)?;
    let own = format!("{}{}{IMPORT}", containers::script_of_ranks(ranks), containers::MAKE);
    for script in [&own, MAKE] {
        cluster.rabbit.run(script, LONG).context("make the images of MPI")?;
    }
    Ok(())
}

/// Returns all requests that the cluster's API has received so far.
///
/// # Errors
/// When the audit log cannot be read.
pub fn requests(system: &System, rabbit: &str) -> anyhow::Result<Vec<AuditEvent>> {
    system.run(rabbit, "cp /run/kube/audit.log /lab/audit.log")?;
    let log = system.guest(rabbit).exchange().join("audit.log");
    let requests = read_audit(&log)?;
    fs::remove_file(&log).context("remove the copy").map(|()| requests)
}
