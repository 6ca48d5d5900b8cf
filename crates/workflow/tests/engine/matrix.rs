//! The whole-system tests of the sites' controllers (the rows with numbers) and what their controllers are tested for, row by
//! row: done here, done by a test that is named, or why not yet. A row that is open and passes all the same fails this test.

use std::path::Path;

use serde_json::{Value, json};
use workflow::Containers;

use crate::{
    job::{GIB, directive},
    site::{Site, at},
};

enum Row {
    /// A life of these directives to the end of Teardown.
    Lives(&'static [&'static str]),
    /// Other tests: file from this folder on, and name.
    Elsewhere(&'static [(&'static str, &'static str)]),
    /// An error in Proposal is what is expected, with these words.
    Refused(&'static [&'static str], &'static str),
    /// Refused plainly in Proposal with these words, until somebody carries it out.
    Open(&'static [&'static str], &'static str),
}

use Row::{Elsewhere, Lives, Open, Refused};

const XFS: &str = "#DW jobdw type=xfs capacity=50GB name=xfs";
const GFS2: &str = "#DW jobdw type=gfs2 capacity=50GB name=gfs2";
const RAW: &str = "#DW jobdw type=raw capacity=50GB name=raw";
const LUSTRE: &str = "#DW jobdw type=lustre capacity=50GB name=lustre";
const COPY_IN: &str = "#DW copy_in source=/lus/zenith/in destination=$DW_JOB_xfs/";
const COPY_OUT: &str = "#DW copy_out source=$DW_JOB_xfs/out destination=/lus/zenith/";
const KEPT: &str = "#DW persistentdw name=kept";
const MAKE: &str = "#DW create_persistent type=xfs capacity=1GB name=one";
const OTHER: &str = "#DW create_persistent type=xfs capacity=1GB name=two";
const DESTROY: &str = "#DW destroy_persistent name=two";

const CHECKS: &str = "../../../directive/src/check/tests.rs";
const BESIDE: (&str, &str) =
    ("containers.rs", "containers_run_beside_every_kind_of_storage_that_rabbits_may_have_mounted");

const MPI_LIFE: (&str, &str) =
    ("containers/mpi.rs", "a_launcher_starts_when_every_worker_answers_and_its_end_is_told");

const NOT_HERE: &str = "is not carried out here";

const ROWS: [(&str, Row); 64] = [
    ("1 XFS", Lives(&[XFS])),
    ("2 GFS2", Lives(&[GFS2])),
    ("3 Lustre", Lives(&[LUSTRE])),
    ("4 raw", Lives(&[RAW])),
    (
        "5 Lustre external",
        Elsewhere(&[(
            "lustre/lives.rs",
            "computes_that_no_rabbit_serves_mount_it_too_and_unknown_ones_are_told",
        )]),
    ),
    // A person fences a node there; here the agents do, and the engine goes by the evidence.
    (
        "6 GFS2 fence",
        Elsewhere(&[
            (
                "../../../../tests/tests/fence.rs",
                "a_compute_is_fenced_and_unfenced_but_not_while_the_api_is_away",
            ),
            ("faults.rs", "a_dead_compute_is_waited_for_until_there_is_evidence_that_it_is_down"),
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
    // What the profile's lines make of the drives is the lab's scenario raid-job.
    (
        "9 XFS with storage profile and LV create",
        Lives(&["#DW jobdw type=xfs capacity=1TB name=xfs profile=other"]),
    ),
    (
        "10 persistent Lustre",
        Elsewhere(&[
            (
                "lustre/persistent.rs",
                "a_file_system_outlives_its_maker_and_every_client_of_a_job_mounts_it",
            ),
            (
                "persistent/transaction.rs",
                "a_creation_that_is_ended_after_any_change_leaves_all_or_nothing",
            ),
        ]),
    ),
    ("11 XFS with data movement", Open(&[XFS, COPY_IN, COPY_OUT], NOT_HERE)),
    ("12 GFS2 with data movement", Open(&[GFS2, COPY_IN], NOT_HERE)),
    ("13 Lustre with data movement", Open(&[LUSTRE, COPY_IN], NOT_HERE)),
    ("14 GFS2 with MPI containers", Elsewhere(&[MPI_LIFE])),
    ("15 Lustre with MPI containers", Elsewhere(&[MPI_LIFE])),
    (
        "16 GFS2 and global Lustre with MPI containers",
        Elsewhere(&[("containers/global_lustre.rs", "the_pods_of_mpi_have_it_too")]),
    ),
    (
        "17 GFS2 with copy offload",
        Open(&["#DW jobdw type=gfs2 capacity=50GB name=gfs2 requires=copy-offload"], NOT_HERE),
    ),
    (
        "18 PreRun timeout on MPI",
        Elsewhere(&[(
            "containers/mpi.rs",
            "workers_that_do_not_answer_are_an_error_with_their_names",
        )]),
    ),
    (
        "19 PostRun timeout on MPI",
        Elsewhere(&[(
            "containers/mpi/ends.rs",
            "a_launcher_that_does_not_end_is_an_error_in_postrun",
        )]),
    ),
    (
        "20 non-zero exit on MPI",
        Elsewhere(&[(
            "containers/mpi/ends.rs",
            "a_launcher_that_fails_is_an_error_with_its_last_words",
        )]),
    ),
    ("21 GFS2 with containers", Elsewhere(&[BESIDE])),
    (
        "22 GFS2 and global Lustre with containers",
        Elsewhere(&[
            ("containers/global_lustre.rs", "pods_have_its_claim_at_its_root"),
            ("containers/global_lustre.rs", "rabbits_are_told_where_it_is"),
        ]),
    ),
    (
        "23 PreRun timeout on non-MPI",
        Elsewhere(&[(
            "containers/ends.rs",
            "one_that_does_not_start_says_why_it_waits_and_is_an_error_at_its_deadline",
        )]),
    ),
    (
        "24 PostRun timeout on non-MPI",
        Elsewhere(&[(
            "containers/ends.rs",
            "one_that_does_not_end_in_time_is_an_error_in_postrun",
        )]),
    ),
    (
        "25 non-zero exit on non-MPI",
        Elsewhere(&[(
            "containers/ends.rs",
            "one_that_fails_is_an_error_in_postrun_with_its_last_words",
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
            (
                "containers/raw.rs",
                "pods_may_open_each_device_of_their_rabbit_by_a_volume_of_its_own",
            ),
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
            "lustre/persistent.rs",
            "a_management_target_joins_its_pool_when_it_is_made_and_stays_while_it_is_held",
        )]),
    ),
    ("states: jobdw raw, xfs, gfs2, one set each", Lives(&[XFS, GFS2, RAW])),
    (
        "states: jobdw lustre, three sets",
        Elsewhere(&[(
            "lustre/lives.rs",
            "separate_targets_and_the_sites_commands_on_the_management_target",
        )]),
    ),
    (
        "states: create_persistent raw, xfs, gfs2; its storage stays after Teardown",
        Elsewhere(&[(
            "persistent.rs",
            "it_survives_the_workflow_that_made_it_and_goes_when_it_is_destroyed",
        )]),
    ),
    (
        "states: create_persistent lustre",
        Elsewhere(&[(
            "lustre/persistent.rs",
            "a_file_system_outlives_its_maker_and_every_client_of_a_job_mounts_it",
        )]),
    ),
    (
        "states: a jobdw's storage goes in Teardown",
        Elsewhere(&[(
            "lives.rs",
            "every_kind_of_storage_lives_from_proposal_to_teardown_and_leaves_nothing",
        )]),
    ),
    ("states: persistentdw", Lives(&[KEPT])),
    (
        "states: persistentdw says where computes may be and asks for no storage",
        Elsewhere(&[
            ("persistent.rs", "its_objects_are_shaped_as_the_sites_controllers_shape_them"),
            ("lustre/persistent.rs", "a_computes_constraint_is_the_network"),
        ]),
    ),
    (
        "states: destroy_persistent of what is not there",
        Lives(&["#DW destroy_persistent name=none"]),
    ),
    (
        "states: destroy_persistent",
        Elsewhere(&[(
            "persistent/shared.rs",
            "it_is_not_destroyed_while_somebody_uses_it_and_the_message_says_who",
        )]),
    ),
    ("states: no directives", Lives(&[])),
    ("states: XFS and GFS2 side by side", Lives(&[GFS2, XFS])),
    (
        "states: requires is handed on",
        Open(&["#DW persistentdw name=kept requires=user-container-auth"], NOT_HERE),
    ),
    (
        "access: the label of its end",
        Elsewhere(&[(
            "samples.rs",
            "what_agents_read_is_shaped_as_the_sites_controllers_shape_it",
        )]),
    ),
    ("access: its end after copies in and out", Open(&[GFS2, COPY_IN, COPY_OUT], NOT_HERE)),
    ("PostRun: failed data movement", Open(&[XFS, COPY_IN], NOT_HERE)),
    ("containers: on the rabbits of the job's computes", Elsewhere(&[BESIDE])),
    (
        "Proposal: jobdw and create_persistent",
        Refused(&[XFS, MAKE], "create_persistent stands alone"),
    ),
    (
        "Proposal: persistentdw and create_persistent",
        Refused(&[KEPT, MAKE], "create_persistent stands alone"),
    ),
    ("Proposal: two create_persistent", Refused(&[MAKE, OTHER], "create_persistent stands alone")),
    (
        "Proposal: two destroy_persistent",
        Refused(&[DESTROY, "#DW destroy_persistent name=three"], "destroy_persistent stands alone"),
    ),
    ("Proposal: create and destroy", Refused(&[MAKE, DESTROY], "create_persistent stands alone")),
    (
        "Proposal: unknown persistentdw",
        Refused(&["#DW persistentdw name=none"], "no such persistent storage"),
    ),
    // The checks are there and pure; a workflow with copies is refused before.
    (
        "Proposal: copy without jobdw, persistentdw or global Lustre",
        Elsewhere(&[(CHECKS, "copies_need_both_ends")]),
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
            ("refusals.rs", "a_site_without_one_default_profile_says_so"),
            (CHECKS, "profiles_exist_or_one_is_the_default"),
        ]),
    ),
    (
        "Proposal: containers' users, storages and file systems",
        Elsewhere(&[
            (CHECKS, "a_container_obeys_its_profile"),
            ("containers/refused.rs", "a_directive_that_its_profile_does_not_admit_is_refused"),
            ("containers/refused.rs", "a_profile_that_cannot_be_carried_out_is_refused"),
            (
                "containers/global_lustre.rs",
                "a_path_elsewhere_or_a_namespace_without_the_mode_is_refused_with_the_remedy",
            ),
        ]),
    ),
    (
        "Proposal: persistent storage of another user, and ignore-uid",
        Elsewhere(&[("persistent/shared.rs", "its_user_may_use_it_and_others_when_it_says_so")]),
    ),
    (
        "Proposal: a name that is taken",
        Elsewhere(&[
            ("persistent/shared.rs", "a_name_that_is_taken_is_refused_and_the_owner_is_named"),
            ("persistent/shared.rs", "of_two_that_take_one_name_at_once_exactly_one_gets_it"),
        ]),
    ),
    (
        "Proposal: capacity and standaloneMgtPoolName, and jobdw with it",
        Elsewhere(&[(
            "../../../directive/src/breakdown/tests.rs",
            "a_stand_alone_mgt_has_the_profiles_size_and_no_job",
        )]),
    ),
    (
        "Servers: too small, wrong label, doubled set, unknown storage, single server, total, small pieces",
        Elsewhere(&[
            ("refusals.rs", "a_placement_that_does_not_fit_the_breakdown_is_told"),
            ("lustre/placement.rs", "sets_of_targets_that_do_not_fit_the_breakdown_are_told"),
        ]),
    ),
    (
        "Servers: labels, colocation, counts, capacity and health, which those controllers do not check",
        Elsewhere(&[
            ("refusals.rs", "a_placement_on_a_rabbit_without_the_profiles_label_is_told"),
            ("lustre/names.rs", "what_must_be_alone_is_placed_alone_and_refused_beside_others"),
            ("refusals.rs", "counts_are_bounded_and_may_not_change_once_storage_is_made"),
            ("placement.rs", "what_no_rabbit_has_is_an_error_at_once"),
            ("placement.rs", "a_rabbit_that_does_not_serve_is_waited_for"),
        ]),
    ),
    (
        "ports: reuse after cooldown, too few and recovery",
        Elsewhere(&[
            ("containers/ports.rs", "two_workflows_on_one_rabbit_have_ports_of_their_own"),
            ("containers/ports.rs", "a_port_cools_down_and_who_waits_for_it_looks_again"),
            ("containers/ports.rs", "a_site_without_ports_is_told_so"),
        ]),
    ),
    (
        "webhook: created in Proposal, no state, no hurry, no skipping, none after Teardown",
        Elsewhere(&[("refusals.rs", "admission_goes_by_the_rules_of_states")]),
    ),
    (
        "webhook: drivers' shares",
        Elsewhere(&[("refusals.rs", "admission_keeps_the_shares_of_drivers_and_the_end")]),
    ),
];

/// A profile whose containers may have any storage.
fn container_profile(name: &str, kind: &str, of: &Value) -> Value {
    let storages = ["DW_JOB_data", "DW_PERSISTENT_kept", "DW_GLOBAL_lus"];
    let storages = storages.map(|name| json!({"name": name, "optional": true}));
    json!({
        "kind": "NnfContainerProfile", "metadata": {"name": name, "namespace": "nnf-system"},
        "data": {"storages": storages, kind: of},
    })
}

/// With profiles that jobs may name, containers, and a Lustre file system that stays.
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
    let make = "#DW create_persistent type=lustre capacity=50GB name=kept";
    site.bring("make", &[make.to_owned()], "Teardown", &[]);
    site.delete(&at("Workflow", "default", "make"));
    // Its management server and those of the rows stand on one rabbit each.
    site.add_rabbit("s", &[], 10_000 * GIB);
    site.settle();
    site
}

#[test]
fn every_row_is_done_or_is_refused_plainly() {
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
                refused(&mut site, name, directives, words);
                done += 1;
            }
            Open(directives, words) => {
                refused(&mut site, name, directives, words);
                open += 1;
            }
            Elsewhere(tests) => {
                tests.iter().for_each(|test| is_there(name, *test));
                done += 1;
            }
        }
        if !matches!(row, Elsewhere(_)) {
            site.delete(&at("Workflow", "default", "w"));
            site.settle();
            assert!(site.objects.keys().eq(start.objects.keys()), "{name} leaves something");
        }
    }
    assert_eq!((done, open), (57, 7), "a row changed: count it where it belongs");
}

fn refused(site: &mut Site, name: &str, directives: &[&str], words: &str) {
    let lines: Vec<String> = directives.iter().map(|&line| line.to_owned()).collect();
    site.create("w", &lines);
    site.settle();
    let (state, _, status, message) = site.told("w");
    assert!(state == "Proposal" && status == "Error", "{name}: {state} {status} {message}");
    assert!(message.contains(words), "{name}: {message}");
}

/// Whether a test of this name is in the file.
fn is_there(row: &str, (file, test): (&str, &str)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{row}: {file}: {why}"));
    assert!(text.contains(&format!("fn {test}(")), "{row}: no test {test} in {file}");
}

#[test]
fn a_capacity_of_nothing_is_refused() {
    let mut site = Site::new(3, 10_000 * GIB);
    site.create("w", &[directive("xfs", "a1").replace("1GiB", "0GiB")]);
    site.settle();
    assert_eq!(site.told("w").2, "Error", "{:?}", site.told("w"));
}
