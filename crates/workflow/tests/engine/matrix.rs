//! The whole-system tests of the sites' controllers, row by row: done here, or why not yet. A row that is open and passes all
//! the same fails this test: its directive is refused in Proposal, which is seen.

use serde_json::json;

use crate::{
    job::{GIB, directive},
    site::Site,
};

enum Row {
    /// A life of these directives to the end of Teardown.
    Lives(&'static [&'static str]),
    /// Another test of this suite.
    Elsewhere(&'static str),
    /// An error in Proposal is what is expected.
    Refused(&'static [&'static str]),
    /// Refused in Proposal until somebody carries it out.
    Open(&'static [&'static str]),
}

use Row::{Elsewhere, Lives, Open, Refused};

const XFS: &str = "#DW jobdw type=xfs capacity=50GB name=xfs";
const GFS2: &str = "#DW jobdw type=gfs2 capacity=50GB name=gfs2";
const RAW: &str = "#DW jobdw type=raw capacity=50GB name=raw";
const LUSTRE: &str = "#DW jobdw type=lustre capacity=50GB name=lustre";
const COPY_IN: &str = "#DW copy_in source=/lus/zenith/in destination=$DW_JOB_xfs/";
const CONTAINER: &str = "#DW container name=c profile=example";

const ROWS: [(&str, Row); 52] = [
    ("1 XFS", Lives(&[XFS])),
    ("2 GFS2", Lives(&[GFS2])),
    ("3 Lustre", Lives(&[LUSTRE])),
    ("4 Raw", Lives(&[RAW])),
    ("5 Lustre external", Elsewhere("lustre/lives: computes that no rabbit serves")),
    (
        "6 GFS2 fence",
        Elsewhere("tests/tests/fence.rs: by the agents; of the engine a dead compute in faults"),
    ),
    (
        "7 XFS with storage profile",
        Lives(&["#DW jobdw type=xfs capacity=50GB name=xfs profile=other"]),
    ),
    (
        "8 GFS2 with storage profile",
        Lives(&["#DW jobdw type=gfs2 capacity=50GB name=gfs2 profile=other"]),
    ),
    (
        "9 XFS with profile and LV create",
        Lives(&["#DW jobdw type=xfs capacity=1TB name=xfs profile=other"]),
    ),
    ("10 persistent Lustre", Open(&["#DW create_persistent type=lustre capacity=50GB name=kept"])),
    ("11 XFS with data movement", Open(&[XFS, COPY_IN])),
    ("12 GFS2 with data movement", Open(&[GFS2, COPY_IN])),
    ("13 Lustre with data movement", Open(&[LUSTRE, COPY_IN])),
    ("14 GFS2 with MPI containers", Open(&[GFS2, CONTAINER])),
    ("15 Lustre with MPI containers", Open(&[LUSTRE, CONTAINER])),
    ("16 GFS2 and global Lustre with MPI containers", Open(&[GFS2, CONTAINER])),
    (
        "17 GFS2 with copy offload",
        Open(&["#DW jobdw type=gfs2 capacity=50GB name=gfs2 requires=copy-offload"]),
    ),
    ("18 PreRun timeout on MPI", Open(&[CONTAINER])),
    ("19 PostRun timeout on MPI", Open(&[CONTAINER])),
    ("20 non-zero exit on MPI", Open(&[CONTAINER])),
    ("21 GFS2 with containers", Elsewhere("containers")),
    ("22 GFS2 and global Lustre with containers", Open(&[GFS2, CONTAINER])),
    ("23 PreRun timeout", Elsewhere("containers::ends")),
    ("24 PostRun timeout", Elsewhere("containers::ends")),
    ("25 non-zero exit", Elsewhere("containers::ends")),
    ("26 XFS with containers", Refused(&[XFS, CONTAINER])),
    ("27 raw with containers", Elsewhere("containers")),
    ("28 GFS2 and Lustre with containers", Open(&[GFS2, "#DW persistentdw name=kept", CONTAINER])),
    (
        "29 GFS2 and Lustre with MPI containers",
        Open(&[GFS2, "#DW persistentdw name=kept", CONTAINER]),
    ),
    (
        "30 Lustre with MGS pool",
        Elsewhere(
            "lustre/pools, lustre/faults: with a pool whose member is there; the member itself is open",
        ),
    ),
    ("controllers: jobdw raw, xfs, gfs2 through all states", Lives(&[XFS, GFS2, RAW])),
    ("controllers: jobdw lustre, three sets", Elsewhere("lustre/lives: separate targets")),
    (
        "controllers: create_persistent",
        Elsewhere(
            "persistent: it survives the workflow that made it and goes when it is destroyed",
        ),
    ),
    (
        "controllers: persistentdw",
        Elsewhere(
            "persistent: a job finds it where the environment says and is a consumer until its end",
        ),
    ),
    (
        "controllers: destroy_persistent, of what is not there too",
        Lives(&["#DW destroy_persistent name=kept"]),
    ),
    (
        "controllers: persistent storage of another user, and ignore-uid",
        Elsewhere("persistent::shared: its user may use it and others when it says so"),
    ),
    ("controllers: no directives", Lives(&[])),
    (
        "controllers: label of an access's end",
        Elsewhere("samples: PostRun; the others come with copies"),
    ),
    ("controllers: failed data movement", Open(&[XFS, COPY_IN])),
    ("controllers: containers on the computes' rabbits", Elsewhere("containers")),
    (
        "Proposal: jobdw and create_persistent",
        Refused(&[XFS, "#DW create_persistent type=xfs capacity=1GB name=kept"]),
    ),
    (
        "Proposal: two create_persistent",
        Refused(&[
            "#DW create_persistent type=xfs capacity=1GB name=one",
            "#DW create_persistent type=xfs capacity=1GB name=two",
        ]),
    ),
    (
        "Proposal: create and destroy",
        Refused(&[
            "#DW create_persistent type=xfs capacity=1GB name=one",
            "#DW destroy_persistent name=two",
        ]),
    ),
    ("Proposal: unknown persistentdw", Refused(&["#DW persistentdw name=none"])),
    (
        "Proposal: copy without its storage",
        Refused(&["#DW copy_in source=/lus/a destination=$DW_JOB_none/"]),
    ),
    (
        "Proposal: unknown profile",
        Refused(&["#DW jobdw type=xfs capacity=1GB name=xfs profile=none"]),
    ),
    ("Proposal: no default profile", Elsewhere("refusals")),
    ("Proposal: containers' users, storages and file systems", Elsewhere("containers::refused")),
    (
        "Servers: too small, wrong label, doubled set, unknown storage, single server, total",
        Elsewhere("refusals"),
    ),
    ("ports", Elsewhere("containers::ports")),
    ("webhook: states and fields", Elsewhere("refusals")),
    ("GFS2 and XFS side by side", Lives(&[GFS2, XFS])),
];

fn site() -> Site {
    let mut site = Site::new(3, 10_000 * GIB);
    let mut other = site.get("NnfStorageProfile", "nnf-system", "default").clone();
    other["metadata"]["name"] = json!("other");
    other["data"]["default"] = json!(false);
    site.put(other);
    site
}

#[test]
fn every_row_is_done_or_is_refused_plainly() {
    let (mut done, mut open) = (0, 0);
    for (name, row) in &ROWS {
        let lines = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect::<Vec<_>>();
        match row {
            Lives(directives) => {
                let mut site = site();
                site.bring("w", &lines(directives), "Teardown", &["c1", "c2", "c3"]);
                site.remove("w");
                done += 1;
            }
            Refused(directives) | Open(directives) => {
                let mut site = site();
                site.create("w", &lines(directives));
                site.settle();
                let (state, _, status, message) = site.told("w");
                assert!(
                    state == "Proposal" && status == "Error",
                    "{name}: {state} {status} {message}"
                );
                site.remove("w");
                if matches!(row, Open(_)) { open += 1 } else { done += 1 }
            }
            Elsewhere(test) => {
                assert!(!test.is_empty(), "{name}");
                done += 1;
            }
        }
    }
    assert_eq!((done, open), (37, 15), "a row changed: count it where it belongs");
}

#[test]
fn a_capacity_of_nothing_is_refused() {
    let mut site = site();
    site.create("w", &[directive("xfs", "a1").replace("1GiB", "0GiB")]);
    site.settle();
    assert_eq!(site.told("w").2, "Error", "{:?}", site.told("w"));
}
