//! Repeats the tests of the Go controllers, one test in each row of a table; a row with a number is one of their
//! whole-system tests. A supported row runs here, or another test of Warren covers it. The directives of a row that
//! is not supported yet are refused, and this test fails if such a row passes.

use std::path::Path;

use serde_json::{Value, json};
use workflow::Containers;

use crate::{
    job::{GIB, directive},
    site::{Site, at},
};

enum Row {
    /// A workflow with these directives goes from Proposal to the end of Teardown.
    Lives(&'static [&'static str]),
    /// Tests that cover the row: file relative to this directory, and name.
    Elsewhere(&'static [(&'static str, &'static str)]),
    /// Proposal fails with these words, as it does with the Go controllers.
    Refused(&'static [&'static str], &'static str),
    /// Not supported yet: Proposal fails with these words.
    Open(&'static [&'static str], &'static str),
}

use Row::{Elsewhere, Lives, Open, Refused};

const XFS: &str = "#DW jobdw type=xfs capacity=50GB name=xfs";
const GFS2: &str = "#DW jobdw type=gfs2 capacity=50GB name=gfs2";
const RAW: &str = "#DW jobdw type=raw capacity=50GB name=raw";
const LUSTRE: &str = "#DW jobdw type=lustre capacity=50GB name=lustre";
const INTO_XFS: &str = "#DW copy_in source=/lus/global/in destination=$DW_JOB_xfs/";
const OUT_OF_XFS: &str = "#DW copy_out source=$DW_JOB_xfs/out destination=/lus/global/";
const INTO_GFS2: &str = "#DW copy_in source=/lus/global/in destination=$DW_JOB_gfs2/";
const OUT_OF_GFS2: &str = "#DW copy_out source=$DW_JOB_gfs2/out destination=/lus/global/";
const INTO_LUSTRE: &str = "#DW copy_in source=/lus/global/in destination=$DW_JOB_lustre/";
const KEPT: &str = "#DW persistentdw name=kept";
const MAKE: &str = "#DW create_persistent type=xfs capacity=1GB name=one";
const OTHER: &str = "#DW create_persistent type=xfs capacity=1GB name=two";
const DESTROY: &str = "#DW destroy_persistent name=two";

const CHECKS: &str = "../../../directive/src/check/tests.rs";
const BESIDE: (&str, &str) = ("containers.rs", "containers_run_beside_gfs2_lustre_and_raw");

const MPI_LIFE: (&str, &str) = (
    "containers/mpi.rs",
    "the_launcher_starts_when_all_workers_are_ready_and_postrun_reports_its_end",
);

const NOT_SUPPORTED: &str = "Warren does not support";

const ROWS: [(&str, Row); 64] = [
    ("1 XFS", Lives(&[XFS])),
    ("2 GFS2", Lives(&[GFS2])),
    ("3 Lustre", Lives(&[LUSTRE])),
    ("4 raw", Lives(&[RAW])),
    (
        "5 Lustre external",
        Elsewhere(&[(
            "../../src/plan/tests/lustre.rs",
            "computes_that_no_rabbit_serves_mount_lustre_and_unknown_computes_fail",
        )]),
    ),
    // With the Go controllers, a person fences a node; here the agents fence the node, and the engine trusts the
    // agents' evidence.
    (
        "6 GFS2 fence",
        Elsewhere(&[
            (
                "../../../../tests/tests/fence.rs",
                "a_compute_is_fenced_and_unfenced_but_not_while_the_api_is_away",
            ),
            (
                "../../src/plan/tests/unmount.rs",
                "a_silent_compute_keeps_its_access_until_evidence_shows_that_it_is_down",
            ),
        ]),
    ),
    (
        "7 XFS with storage profile",
        Lives(&["#DW jobdw type=xfs capacity=50GB name=xfs profile=other"]),
    ),
    (
        "8 GFS2 with storage profile",
        Lives(&["#DW jobdw type=gfs2 capacity=50GB name=gfs2 profile=other"]),
    ),
    // Scenario `raid-job` of the lab checks the volumes that the profile's command lines create.
    (
        "9 XFS with storage profile and LV create",
        Lives(&["#DW jobdw type=xfs capacity=1TB name=xfs profile=other"]),
    ),
    (
        "10 persistent Lustre",
        Elsewhere(&[
            (
                "lustre/persistent.rs",
                "persistent_lustre_outlives_its_workflow_and_is_mounted_by_jobs",
            ),
            (
                "persistent/transaction.rs",
                "a_create_persistent_that_ends_after_any_change_leaves_all_or_nothing",
            ),
        ]),
    ),
    ("11 XFS with data movement", Lives(&[XFS, INTO_XFS, OUT_OF_XFS])),
    ("12 GFS2 with data movement", Lives(&[GFS2, INTO_GFS2])),
    ("13 Lustre with data movement", Lives(&[LUSTRE, INTO_LUSTRE])),
    ("14 GFS2 with MPI containers", Elsewhere(&[MPI_LIFE])),
    ("15 Lustre with MPI containers", Elsewhere(&[MPI_LIFE])),
    (
        "16 GFS2 and global Lustre with MPI containers",
        Elsewhere(&[("containers/global_lustre.rs", "mpi_pods_mount_a_global_lustre")]),
    ),
    (
        "17 GFS2 with copy offload",
        Open(&["#DW jobdw type=gfs2 capacity=50GB name=gfs2 requires=copy-offload"], NOT_SUPPORTED),
    ),
    (
        "18 PreRun timeout on MPI",
        Elsewhere(&[(
            "../../src/plan/tests/mpi.rs",
            "prerun_fails_with_the_workers_that_do_not_start_or_answer",
        )]),
    ),
    (
        "19 PostRun timeout on MPI",
        Elsewhere(&[(
            "../../src/plan/tests/mpi.rs",
            "postrun_waits_for_the_launcher_and_fails_with_it",
        )]),
    ),
    (
        "20 non-zero exit on MPI",
        Elsewhere(&[(
            "../../src/plan/tests/mpi.rs",
            "postrun_waits_for_the_launcher_and_fails_with_it",
        )]),
    ),
    ("21 GFS2 with containers", Elsewhere(&[BESIDE])),
    (
        "22 GFS2 and global Lustre with containers",
        Elsewhere(&[
            ("containers/global_lustre.rs", "pods_mount_the_claim_of_a_global_lustre_at_its_root"),
            ("containers/global_lustre.rs", "agents_get_the_root_of_a_global_lustre"),
        ]),
    ),
    (
        "23 PreRun timeout on non-MPI",
        Elsewhere(&[(
            "../../src/plan/tests/ends.rs",
            "prerun_shows_why_a_container_waits_and_fails_at_the_start_deadline",
        )]),
    ),
    (
        "24 PostRun timeout on non-MPI",
        Elsewhere(&[(
            "../../src/plan/tests/ends.rs",
            "postrun_waits_for_the_end_of_all_containers_and_fails_at_the_end_deadline",
        )]),
    ),
    (
        "25 non-zero exit on non-MPI",
        Elsewhere(&[(
            "../../src/plan/tests/ends.rs",
            "postrun_fails_with_the_termination_message_of_a_failed_container",
        )]),
    ),
    (
        "26 XFS with containers",
        Refused(
            &[XFS, "#DW container name=beside profile=one DW_JOB_data=xfs"],
            "unsupported container filesystem xfs",
        ),
    ),
    (
        "27 raw with containers",
        Elsewhere(&[
            BESIDE,
            ("containers/raw.rs", "pods_get_each_device_of_their_rabbit_by_its_own_volume"),
        ]),
    ),
    (
        "28 GFS2 and Lustre with containers",
        Elsewhere(&[
            BESIDE,
            ("conflicts.rs", "one_container_uses_a_jobs_gfs2_and_persistent_lustre_together"),
        ]),
    ),
    ("29 GFS2 and Lustre with MPI containers", Elsewhere(&[MPI_LIFE])),
    (
        "30 Lustre with MGS pool",
        Elsewhere(&[(
            "../../src/plan/tests/pools.rs",
            "a_management_target_joins_its_pool_when_it_is_complete",
        )]),
    ),
    ("states: jobdw raw, xfs, gfs2, one set each", Lives(&[XFS, GFS2, RAW])),
    (
        "states: jobdw lustre, three sets",
        Elsewhere(&[(
            "lustre/lives.rs",
            "separate_targets_are_made_and_the_profiles_commands_run_on_the_mgt",
        )]),
    ),
    (
        "states: create_persistent raw, xfs, gfs2; its storage stays after Teardown",
        Elsewhere(&[(
            "../../src/plan/tests/persistent.rs",
            "proposal_creates_the_storage_for_its_workflow_and_setup_gives_it_to_its_user",
        )]),
    ),
    (
        "states: create_persistent lustre",
        Elsewhere(&[(
            "lustre/persistent.rs",
            "persistent_lustre_outlives_its_workflow_and_is_mounted_by_jobs",
        )]),
    ),
    (
        "states: a jobdw's storage is removed in Teardown",
        Elsewhere(&[(
            "lives.rs",
            "local_storage_goes_from_proposal_to_teardown_and_leaves_nothing",
        )]),
    ),
    ("states: persistentdw", Lives(&[KEPT])),
    (
        "states: persistentdw says where computes may be and asks for no storage",
        Elsewhere(&[
            ("persistent.rs", "objects_of_persistent_storage_have_the_shape_of_the_go_controllers"),
            (
                "../../src/plan/tests/lustre.rs",
                "computes_must_reach_persistent_lustre_by_the_network",
            ),
        ]),
    ),
    (
        "states: destroy_persistent of storage that does not exist",
        Lives(&["#DW destroy_persistent name=none"]),
    ),
    (
        "states: destroy_persistent",
        Elsewhere(&[(
            "../../src/plan/tests/persistent.rs",
            "storage_in_use_is_not_destroyed_and_the_message_names_its_users",
        )]),
    ),
    ("states: no directives", Lives(&[])),
    ("states: XFS and GFS2 side by side", Lives(&[GFS2, XFS])),
    (
        "states: requires is passed on",
        Open(&["#DW persistentdw name=kept requires=user-container-auth"], NOT_SUPPORTED),
    ),
    (
        "access: the label with the state that ends the access",
        Elsewhere(&[("samples.rs", "objects_for_agents_have_the_shape_of_the_go_controllers")]),
    ),
    ("access: ends after copies in and out", Lives(&[GFS2, INTO_GFS2, OUT_OF_GFS2])),
    (
        "PostRun: failed data movement",
        Elsewhere(&[(
            "../../src/plan/tests/copies.rs",
            "a_failed_movement_fails_its_state_once_all_movements_have_ended_and_keeps_the_storage",
        )]),
    ),
    ("containers: on the rabbits of the job's computes", Elsewhere(&[BESIDE])),
    (
        "Proposal: jobdw and create_persistent",
        Refused(&[XFS, MAKE], "create_persistent must be the only directive"),
    ),
    (
        "Proposal: persistentdw and create_persistent",
        Refused(&[KEPT, MAKE], "create_persistent must be the only directive"),
    ),
    (
        "Proposal: two create_persistent",
        Refused(&[MAKE, OTHER], "create_persistent must be the only directive"),
    ),
    (
        "Proposal: two destroy_persistent",
        Refused(
            &[DESTROY, "#DW destroy_persistent name=three"],
            "destroy_persistent must be the only directive",
        ),
    ),
    (
        "Proposal: create and destroy",
        Refused(&[MAKE, DESTROY], "create_persistent must be the only directive"),
    ),
    (
        "Proposal: unknown persistentdw",
        Refused(&["#DW persistentdw name=none"], "no such persistent storage"),
    ),
    (
        "Proposal: copy without jobdw, persistentdw or global Lustre",
        Elsewhere(&[(CHECKS, "a_copy_with_a_missing_source_or_destination_is_refused")]),
    ),
    (
        "Proposal: unknown profile",
        Refused(
            &["#DW jobdw type=xfs capacity=1GB name=xfs profile=none"],
            "no such NnfStorageProfile",
        ),
    ),
    (
        "Proposal: none or several default profiles, for storage and copies",
        Elsewhere(&[
            ("../../src/plan/tests/proposal.rs", "a_site_without_a_default_profile_is_reported"),
            (CHECKS, "a_missing_profile_is_refused_and_so_are_no_default_and_two_defaults"),
        ]),
    ),
    (
        "Proposal: containers' users, storages and file systems",
        Elsewhere(&[
            (CHECKS, "a_container_that_contradicts_its_profile_is_refused"),
            (
                "../../src/plan/tests/container_refusals.rs",
                "an_argument_that_the_profile_does_not_admit_is_refused",
            ),
            ("../../src/plan/tests/container_refusals.rs", "an_unsupported_profile_is_refused"),
            (
                "../../src/plan/tests/container_refusals.rs",
                "a_wrong_path_or_access_mode_of_a_global_lustre_is_refused_with_the_remedy",
            ),
        ]),
    ),
    (
        "Proposal: persistent storage of another user, and ignore-uid",
        Elsewhere(&[(
            "../../src/plan/tests/persistent.rs",
            "other_users_may_use_but_not_destroy_storage_with_ignore_uid",
        )]),
    ),
    (
        "Proposal: a name that is taken",
        Elsewhere(&[
            (
                "../../src/plan/tests/persistent.rs",
                "a_taken_name_is_refused_and_the_message_names_the_owner",
            ),
            (
                "persistent/shared.rs",
                "exactly_one_of_two_workflows_that_take_a_name_at_once_gets_it",
            ),
        ]),
    ),
    (
        "Proposal: capacity and standaloneMgtPoolName, and jobdw with it",
        Elsewhere(&[(
            "../../../directive/src/breakdown/tests.rs",
            "a_stand_alone_mgt_has_the_profiles_size_and_is_refused_for_a_job",
        )]),
    ),
    (
        "Servers: too small, wrong label, doubled set, unknown storage, single server, total, small pieces",
        Elsewhere(&[
            ("../../src/plan/tests/setup.rs", "servers_that_do_not_fit_the_breakdown_are_refused"),
            ("../../src/plan/tests/lustre.rs", "sets_that_do_not_fit_the_breakdown_are_refused"),
        ]),
    ),
    (
        "Servers: labels, colocation, counts, capacity and health, which those controllers do not check",
        Elsewhere(&[
            ("../../src/plan/tests/setup.rs", "a_rabbit_without_the_profiles_label_is_refused"),
            ("../../src/plan/tests/lustre.rs", "sets_that_do_not_fit_the_breakdown_are_refused"),
            ("../../src/plan/tests/setup.rs", "counts_in_servers_are_fixed_once_storage_is_made"),
            (
                "../../src/plan/tests/setup.rs",
                "a_request_beyond_a_rabbits_total_capacity_fails_at_once",
            ),
            ("../../src/plan/tests/setup.rs", "setup_waits_while_a_rabbit_is_disabled"),
        ]),
    ),
    (
        "ports: reuse after cooldown, too few and recovery",
        Elsewhere(&[
            ("../../src/plan/tests/containers.rs", "workflows_on_one_rabbit_get_different_ports"),
            ("../../src/plan/tests/containers.rs", "a_workflow_waits_until_a_port_has_cooled_down"),
            ("../../src/plan/tests/containers.rs", "a_site_without_valid_ports_is_reported"),
        ]),
    ),
    (
        "webhook: created in Proposal, no state, no hurry, no skipping, none after Teardown",
        Elsewhere(&[(
            "../../src/admit/tests.rs",
            "states_follow_their_order_and_fields_of_the_job_are_immutable",
        )]),
    ),
    (
        "webhook: entries of drivers",
        Elsewhere(&[(
            "../../src/admit/tests.rs",
            "driver_entries_change_only_in_their_state_and_none_is_added_or_removed",
        )]),
    ),
];

/// Returns a profile whose containers may use any storage.
fn container_profile(name: &str, kind: &str, pod: &Value) -> Value {
    let storages = ["DW_JOB_data", "DW_PERSISTENT_kept", "DW_GLOBAL_lus"];
    let storages = storages.map(|name| json!({"name": name, "optional": true}));
    json!({
        "kind": "NnfContainerProfile", "metadata": {"name": name, "namespace": "nnf-system"},
        "data": {"storages": storages, kind: pod},
    })
}

/// Returns a site with profiles that jobs may name, containers, and persistent Lustre.
fn site() -> Site {
    let mut site = Site::new(3, 10_000 * GIB);
    let mut other = site.get("NnfStorageProfile", "nnf-system", "default").clone();
    other["metadata"]["name"] = json!("other");
    other["data"]["default"] = json!(false);
    site.put(other);
    site.containers = Some(Containers {
        namespace: Some("default".to_owned()),
        cluster_domain: "cluster.local".to_owned(),
        podhelper_image: Some("registry.example/podhelper:1".to_owned()),
        packages: true,
    });
    let pod = json!({"containers": [{"name": "c", "image": "registry.example/c:1"}]});
    site.put(container_profile("one", "spec", &pod));
    site.put(container_profile("mpi", "mpiSpec", &json!({"launcher": pod, "worker": pod})));
    site.add_global_lustre();
    let make = "#DW create_persistent type=lustre capacity=50GB name=kept";
    site.bring("make", &[make.to_owned()], "Teardown", &[]);
    site.delete(&at("Workflow", "default", "make"));
    // One rabbit holds the management server of this persistent Lustre, the other rabbit the management servers of
    // the rows' storage.
    site.add_rabbit("s", &[], 10_000 * GIB);
    site.settle();
    site
}

#[test]
fn each_row_of_the_matrix_passes_or_fails_with_the_expected_message() {
    let (mut done, mut open) = (0, 0);
    let start = site();
    for (name, row) in &ROWS {
        let mut site = start.clone();
        match row {
            Lives(directives) => {
                let lines: Vec<String> = directives.iter().map(|&line| line.to_owned()).collect();
                site.bring("w", &lines, "Teardown", &["c1", "c2", "c3"]);
                done += 1;
            }
            Refused(directives, words) => {
                assert_refused(&mut site, name, directives, words);
                done += 1;
            }
            Open(directives, words) => {
                assert_refused(&mut site, name, directives, words);
                open += 1;
            }
            Elsewhere(tests) => {
                tests.iter().for_each(|test| assert_test_exists(name, *test));
                done += 1;
            }
        }
        if !matches!(row, Elsewhere(_)) {
            site.delete(&at("Workflow", "default", "w"));
            site.settle();
            assert!(site.objects.keys().eq(start.objects.keys()), "{name} leaves something");
        }
    }
    assert_eq!(
        (done, open),
        (62, 2),
        "the number of supported or open rows changed: correct this line"
    );
}

fn assert_refused(site: &mut Site, name: &str, directives: &[&str], words: &str) {
    let lines: Vec<String> = directives.iter().map(|&line| line.to_owned()).collect();
    site.create("w", &lines);
    site.settle();
    let (state, _, status, message) = site.status_of("w");
    assert!(state == "Proposal" && status == "Error", "{name}: {state} {status} {message}");
    assert!(message.contains(words), "{name}: {message}");
}

/// Panics if the file has no test of this name.
fn assert_test_exists(row: &str, (file, test): (&str, &str)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{row}: {file}: {why}"));
    assert!(text.contains(&format!("fn {test}(")), "{row}: no test {test} in {file}");
}

#[test]
fn a_capacity_of_0_is_refused() {
    let mut site = Site::new(3, 10_000 * GIB);
    site.create("w", &[directive("xfs", "a1").replace("1GiB", "0GiB")]);
    site.settle();
    assert_eq!(site.status_of("w").2, "Error", "{:?}", site.status_of("w"));
}
