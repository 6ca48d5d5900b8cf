//! Workflows from Proposal to Teardown without faults.

use serde_json::json;
use workflow::IndexNames;

use crate::{
    job::{GIB, STATES, directive},
    site::{Site, at},
};

const COMPUTES: [&str; 3] = ["c1", "c2", "c3"];

#[test]
fn local_storage_goes_from_proposal_to_teardown_and_leaves_nothing() {
    for kind in ["xfs", "raw", "gfs2"] {
        let mut site = Site::new(3, 100 * GIB);
        let before = site.objects.len();
        site.bring("w", &[directive(kind, "scratch")], "Teardown", &COMPUTES);
        assert_eq!(
            site.names("NnfNodeStorage").len() + site.names("ClientMount").len(),
            0,
            "{kind}"
        );
        site.remove("w");
        assert_eq!(site.objects.len(), before, "{kind}");
    }
}

#[test]
fn a_workflow_without_directives_passes_through_all_states() {
    let mut site = Site::new(1, GIB);
    site.bring("w", &[], "Teardown", &[]);
    site.remove("w");
}

#[test]
fn each_directive_gets_its_own_storage_and_variables() {
    let mut site = Site::new(2, 100 * GIB);
    let directives =
        [directive("xfs", "one"), directive("raw", "my-two"), directive("xfs", "three")];
    site.bring("w", &directives, "PreRun", &["c1", "c2"]);
    let workflow = site.workflow("w");
    let (env, uid) = (&workflow["status"]["env"], workflow["metadata"]["uid"].as_str().unwrap());
    let path = |index: usize| json!(format!("/mnt/nnf/{uid}-{index}"));
    assert_eq!(env["DW_JOB_one"], path(0));
    assert_eq!(env["DW_JOB_my_two"], path(1));
    assert_eq!((&env["DW_JOB_XFS"], &env["DW_JOB_RAW"]), (&path(0), &path(1)));
    let all = format!("one:/mnt/nnf/{uid}-0,my-two:/mnt/nnf/{uid}-1,three:/mnt/nnf/{uid}-2");
    assert_eq!(env["DW_JOBS"], all);
    assert_eq!(site.names("ClientMount").len(), 3 * 2 + 1, "the rabbit mounts raw storage too");
    site.remove("w");
}

#[test]
fn computes_keep_their_allocations_and_the_index_tree_follows_the_jobs_order() {
    let mut site = Site::new(3, 100 * GIB);
    site.bring("w", &[directive("raw", "scratch")], "PreRun", &["c3", "c1"]);
    let data = |site: &Site, compute: &str| {
        let mount = site.get("ClientMount", compute, "default-w-0-computes");
        mount["spec"]["mounts"][0]["device"]["deviceReference"]["data"].as_i64().unwrap_or(0)
    };
    assert_eq!((data(&site, "c3"), data(&site, "c1")), (0, 1));
    let tree = site.get("ClientMount", "r", "default-w-0-servers")["spec"]["mounts"].clone();
    let shown = |index: usize| {
        let path =
            tree[index]["mountPath"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
        (path, tree[index]["compute"].as_str().unwrap().to_owned())
    };
    assert_eq!(shown(0), ("node-0".to_owned(), "c3".to_owned()));
    assert_eq!(shown(1), ("node-1".to_owned(), "c1".to_owned()));
    // A deleted mount and a reversed list of computes do not change which compute has which allocation.
    site.delete(&at("ClientMount", "c1", "default-w-0-computes"));
    site.fill_computes("w", &["c1", "c3"]);
    site.settle();
    assert_eq!((data(&site, "c3"), data(&site, "c1")), (0, 1));
    site.remove("w");
}

/// NNF's data movers expect directories named `<rabbit>-<k>`; they use neither `node-<k>` nor the links.
#[test]
fn with_index_names_rabbit_the_directories_are_named_after_the_rabbit() {
    for kind in ["raw", "gfs2"] {
        let mut site = Site::new(3, 100 * GIB);
        site.index_names = IndexNames::Rabbit;
        site.bring("w", &[directive(kind, "scratch")], "PreRun", &["c3", "c1"]);
        let uid = site.workflow("w")["metadata"]["uid"].as_str().unwrap().to_owned();
        let tree = &site.get("ClientMount", "r", "default-w-0-servers")["spec"]["mounts"];
        for (index, compute) in ["c3", "c1"].iter().enumerate() {
            assert_eq!(tree[index]["mountPath"], format!("/mnt/nnf/{uid}-0/r-{index}"), "{kind}");
            assert_eq!(tree[index]["compute"], *compute, "{kind}");
        }
        // The path on computes does not change.
        let own = &site.get("ClientMount", "c3", "default-w-0-computes")["spec"]["mounts"][0];
        assert_eq!(own["mountPath"], format!("/mnt/nnf/{uid}-0"), "{kind}");
        site.remove("w");
    }
}

#[test]
fn teardown_is_reached_from_every_state() {
    for from in &STATES[..6] {
        let mut site = Site::new(2, 100 * GIB);
        site.bring("w", &[directive("gfs2", "scratch")], from, &["c1", "c2"]);
        site.request_state("w", "Teardown");
        site.settle();
        assert!(site.is_ready("w", "Teardown"), "{from}: {:?}", site.status_of("w"));
        site.remove("w");
    }
}

#[test]
fn the_status_has_the_times_of_request_and_readiness() {
    let mut site = Site::new(1, 100 * GIB);
    site.bring("w", &[directive("xfs", "scratch")], "DataIn", &["c1"]);
    let status = &site.workflow("w")["status"];
    for field in ["desiredStateChange", "readyChange"] {
        assert!(status[field].as_str().unwrap().ends_with(".000000Z"), "{status:#}");
    }
    let drivers = status["drivers"].as_array().unwrap();
    let done: Vec<_> = drivers
        .iter()
        .filter(|entry| entry["completed"] == true)
        .map(|entry| entry["watchState"].as_str().unwrap())
        .collect();
    assert_eq!(done, ["Proposal", "Setup"]);
    assert!(drivers.iter().all(|entry| entry["driverID"] == "nnf" && entry["lastHB"] == 0));
}

#[test]
fn storage_is_made_where_the_workload_manager_placed_it_in_servers() {
    let mut site = Site::new(3, 100 * GIB);
    let directives = [directive("xfs", "scratch")];
    site.create("w", &directives);
    site.settle();
    let minimum =
        site.get("DirectiveBreakdown", "default", "w-0")["status"]["storage"]["allocationSets"][0]
            ["minimumCapacity"]
            .clone();
    site.edit("Servers", "default", "w-0", |object| {
        object["spec"]["allocationSets"] = json!([{"label": "xfs", "allocationSize": minimum,
            "storage": [{"name": "r", "allocationCount": 2}, {"name": "r", "allocationCount": 1}]}]);
    });
    // Flux fills Computes only after Setup.
    site.request_state("w", "Setup");
    site.settle();
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
    assert_eq!(site.names("NnfNodeStorage"), ["r/default-w-0-xfs-0", "r/default-w-0-xfs-1"]);
    let servers = &site.get("Servers", "default", "w-0")["status"];
    assert_eq!(servers["ready"], true);
    let size = minimum.as_i64().unwrap() * 3;
    assert_eq!(
        servers["allocationSets"],
        json!([{"label": "xfs", "storage": {"r": {"allocationSize": size, "ready": true}}}])
    );
    site.request_state("w", "DataIn");
    site.settle();
    site.fill_computes("w", &COMPUTES);
    site.request_state("w", "PreRun");
    site.settle();
    assert!(site.is_ready("w", "PreRun"), "{:?}", site.status_of("w"));
    let third = site.get("ClientMount", "c3", "default-w-0-computes");
    let reference = &third["spec"]["mounts"][0]["device"]["deviceReference"];
    assert_eq!(reference["objectReference"]["name"], "default-w-0-xfs-1");
    site.remove("w");
}
