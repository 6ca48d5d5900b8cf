use super::*;
use crate::profile::ContainerStorage;
use crate::rules::{Ruleset, shipped};

const XFS: &str = "#DW jobdw type=xfs capacity=1GiB name=foo";
const GFS2: &str = "#DW jobdw type=gfs2 capacity=1GiB name=bar";
const RAW: &str = "#DW jobdw type=raw capacity=1GiB name=dev";
const USED: &str = "#DW persistentdw name=shared";

fn site() -> Known {
    let storage = |name: &str, is_optional| ContainerStorage { name: name.to_owned(), is_optional };
    let container = ContainerProfile {
        storages: vec![
            storage("DW_JOB_local", false),
            storage("DW_PERSISTENT_data", true),
            storage("DW_GLOBAL_lus", true),
        ],
        ..ContainerProfile::default()
    };
    let persistent = Persistent {
        file_system: FileSystem::Lustre,
        user: 1000,
        is_deleted: false,
        is_public: false,
    };
    let mut known =
        Known { user: 1000, group: 100, has_container_certificate: true, ..Known::default() };
    known.storage_profiles.insert("default".to_owned(), StorageProfile::default());
    known.default_storage_profiles = vec!["default".to_owned()];
    known.movement_profiles = vec!["default".to_owned()];
    known.default_movement_profiles = vec!["default".to_owned()];
    known.container_profiles.insert("app".to_owned(), container.clone());
    known
        .container_profiles
        .insert("w1-1".to_owned(), ContainerProfile { is_pinned: true, ..container.clone() });
    let restricted = ContainerProfile { user: Some(7), group: Some(8), ..container };
    known.container_profiles.insert("theirs".to_owned(), restricted);
    known.persistent.insert("shared".to_owned(), persistent);
    known.persistent.insert("going".to_owned(), Persistent { is_deleted: true, ..persistent });
    known.persistent.insert("foreign".to_owned(), Persistent { user: 1, ..persistent });
    known
        .persistent
        .insert("public".to_owned(), Persistent { user: 1, is_public: true, ..persistent });
    known.lustre_roots = Some(vec!["/lus/fs1".to_owned()]);
    known.copy_roots = vec!["/project".to_owned()];
    known
}

fn faults_at(known: &Known, lines: &[&str]) -> Vec<String> {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let directives = Ruleset::new(shipped()).check(&lines).unwrap();
    match workflow(&lines, &directives, known) {
        Ok(commands) => {
            assert_eq!(commands.len(), lines.len());
            Vec::new()
        }
        Err(Problems(problems)) => {
            problems.iter().map(|problem| format!("{}: {}", problem.index, problem.fault)).collect()
        }
    }
}

fn faults_of(lines: &[&str]) -> Vec<String> {
    faults_at(&site(), lines)
}

/// Asserts that each fault begins with the expected text.
fn assert_faults(faults: &[String], expected: &[&str]) {
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(
            fault.starts_with(expected),
            "{fault}
is not {expected}"
        );
    }
}

#[test]
fn workflows_without_faults_are_admitted() {
    for good in [
        &[][..],
        &[XFS, GFS2, RAW, USED, "#DW persistentdw name=public"],
        &["#DW create_persistent type=xfs capacity=1GiB name=new"],
        &["#DW destroy_persistent name=absent"],
        &[
            XFS,
            "#DW copy_in source=/lus/fs1/a destination=$DW_JOB_foo/",
            "#DW copy_out source=$DW_JOB_foo destination=/lus/fs1",
            "#DW copy_out source=$DW_JOB_foo destination=/project/results",
        ],
        &[USED, "#DW copy_in source=$DW_PERSISTENT_shared/a destination=/lus/fs1/b"],
        &[
            "#DW container name=cc profile=app DW_JOB_local=bar DW_PERSISTENT_data=shared DW_GLOBAL_lus=/lus/fs1/x",
            GFS2,
            USED,
        ],
        &["#DW container name=cc profile=app DW_JOB_local=dev", RAW],
    ] {
        assert_eq!(faults_of(good), [""; 0], "{good:?}");
    }
}

#[test]
fn create_persistent_and_destroy_persistent_must_be_the_only_directive() {
    let create = "#DW create_persistent type=xfs capacity=1GiB name=new";
    let destroy = "#DW destroy_persistent name=shared";
    assert_faults(
        &faults_of(&[XFS, create]),
        &[
            "1: command create_persistent must be the only directive of its workflow; move the other 1 directive(s)",
        ],
    );
    assert_faults(
        &faults_of(&[USED, create]),
        &["1: command create_persistent must be the only directive"],
    );
    assert_faults(
        &faults_of(&[create, "#DW create_persistent type=xfs capacity=1GiB name=more"]),
        &["0: command create", "1: command create"],
    );
    assert_faults(
        &faults_of(&[create, destroy]),
        &["0: command create_persistent", "1: command destroy_persistent"],
    );
}

#[test]
fn a_workflow_has_at_most_one_container_directive() {
    let container = |name: &str| format!("#DW container name={name} profile=app DW_JOB_local=bar");
    let faults = faults_of(&[GFS2, &container("aa"), &container("bb")]);
    assert_faults(
        &faults,
        &[
            "2: command container: directive 1 is a container directive too, and a workflow may have only one; remove one of them",
        ],
    );
}

#[test]
fn a_second_storage_with_the_same_variable_is_refused() {
    assert_faults(
        &faults_of(&[USED, USED]),
        &[
            "1: argument name=shared: the storage of directive 0 has the same variable DW_PERSISTENT_shared; write another name",
        ],
    );
    assert_eq!(faults_of(&["#DW jobdw type=xfs capacity=1GiB name=shared", USED]), [""; 0]);
}

#[test]
fn a_copy_with_a_missing_source_or_destination_is_refused() {
    let copy = |source: &str, destination: &str| {
        format!("#DW copy_in source={source} destination={destination}")
    };
    for (source, destination, expected) in [
        (
            "/lus/fs1/a",
            "$DW_JOB_none",
            "4: argument destination=$DW_JOB_none: this workflow has no directive jobdw name=none;",
        ),
        (
            "/lus/fs1/a",
            "$DW_JOB_dev/x",
            "4: argument destination=$DW_JOB_dev/x: storage dev has type raw, which has no files to copy;",
        ),
        (
            "$DW_PERSISTENT_foo",
            "/lus/fs1",
            "4: argument source=$DW_PERSISTENT_foo: this workflow has no directive persistentdw name=foo;",
        ),
        (
            "$DW_JOB_shared",
            "/lus/fs1",
            "4: argument source=$DW_JOB_shared: this workflow has no directive jobdw name=shared;",
        ),
        (
            "/lus/fs10/a",
            "$DW_JOB_foo",
            "4: argument source=/lus/fs10/a: no global Lustre is mounted there; write a path beneath /lus/fs1 or /project",
        ),
    ] {
        assert_faults(&faults_of(&[XFS, GFS2, RAW, USED, &copy(source, destination)]), &[expected]);
    }
}

#[test]
fn a_container_with_raw_storage_is_admitted() {
    let lines = [RAW, "#DW container name=run profile=app DW_JOB_local=dev"];
    assert_eq!(faults_of(&lines), [""; 0]);
}

#[test]
fn persistent_storage_that_is_missing_being_destroyed_or_of_another_user_is_refused() {
    for (name, expected) in [
        ("absent", "0: argument name=absent: no such persistent storage;"),
        ("going", "0: argument name=going: this persistent storage is being destroyed;"),
        (
            "foreign",
            "0: argument name=foreign: this persistent storage belongs to user 1, and the workflow's user is 1000;",
        ),
    ] {
        assert_faults(&faults_of(&[&format!("#DW persistentdw name={name}")]), &[expected]);
    }
}

#[test]
fn a_container_that_contradicts_its_profile_is_refused() {
    let container = |rest: &str| format!("#DW container name=cc {rest}");
    for (rest, expected) in [
        (
            "profile=none",
            &["3: argument profile=none: no such NnfContainerProfile; write app or theirs"][..],
        ),
        (
            "profile=w1-1",
            &["3: argument profile=w1-1: this profile is the pinned copy of another workflow;"],
        ),
        (
            "profile=theirs DW_JOB_local=bar",
            &[
                "3: argument profile=theirs: this profile is only for user 7, and the workflow's user is 1000;",
                "3: argument profile=theirs: this profile is only for group 8, and the workflow's group is 100;",
            ],
        ),
        (
            "profile=app",
            &[
                "3: argument DW_JOB_local is missing, which profile app needs; add DW_JOB_local=NAME",
            ],
        ),
        (
            "profile=app DW_JOB_local=foo",
            &[
                "3: argument DW_JOB_local=foo: unsupported container filesystem xfs; use lustre, gfs2 or raw",
            ],
        ),
        (
            "profile=app DW_JOB_local=none",
            &["3: argument DW_JOB_local=none: this workflow has no directive jobdw name=none;"],
        ),
        (
            "profile=app DW_JOB_local=bar DW_PERSISTENT_data=bar",
            &[
                "3: argument DW_PERSISTENT_data=bar: this workflow has no directive persistentdw name=bar;",
            ],
        ),
        (
            "profile=app DW_JOB_local=bar DW_GLOBAL_lus=/home",
            &["3: argument DW_GLOBAL_lus=/home: no global Lustre is mounted there;"],
        ),
        // Only copies may name this directory.
        (
            "profile=app DW_JOB_local=bar DW_GLOBAL_lus=/project",
            &["3: argument DW_GLOBAL_lus=/project: no global Lustre is mounted there;"],
        ),
        (
            "profile=app DW_JOB_local=bar DW_GLOBAL_lus=/lus/fs10",
            &[
                "3: argument DW_GLOBAL_lus=/lus/fs10: no global Lustre is mounted there; write a path beneath /lus/fs1",
            ],
        ),
        (
            "profile=app DW_JOB_local=bar DW_JOB_more=bar",
            &[
                "3: argument DW_JOB_more=bar: profile app has no such storage; it has DW_JOB_local or",
            ],
        ),
    ] {
        assert_faults(&faults_of(&[XFS, GFS2, USED, &container(rest)]), expected);
    }
}

#[test]
fn a_missing_profile_is_refused_and_so_are_no_default_and_two_defaults() {
    let copy = "#DW copy_in source=/lus/fs1/a destination=$DW_JOB_foo profile=none";
    assert_faults(
        &faults_of(&[&format!("{XFS} profile=none"), copy]),
        &[
            "0: argument profile=none: no such NnfStorageProfile; write default",
            "1: argument profile=none: no such NnfDataMovementProfile; write default",
        ],
    );
    let mut known = site();
    known.default_storage_profiles.clear();
    assert_faults(
        &faults_at(&known, &[XFS]),
        &["0: argument profile is missing, and the site has none as default NnfStorageProfile;"],
    );
    known.default_storage_profiles = vec!["one".to_owned(), "two".to_owned()];
    assert_faults(
        &faults_at(&known, &[XFS]),
        &["0: argument profile is missing, and the site has one and two as default"],
    );
}

#[test]
fn a_directive_whose_profile_cannot_make_the_storage_is_refused() {
    let mut known = site();
    if let Some(profile) = known.storage_profiles.get_mut("default") {
        profile.xfs.padding = "much".to_owned();
    }
    assert_faults(
        &faults_at(&known, &[XFS, GFS2]),
        &["0: profile field xfsStorage.allocationPadding: \"much\": not a size;"],
    );
    assert_faults(
        &faults_of(&["#DW create_persistent type=xfs name=new"]),
        &["0: argument capacity is missing;"],
    );
}

#[test]
fn requires_is_refused_when_the_site_has_no_certificate_for_containers() {
    let mut known = site();
    known.has_container_certificate = false;
    let line = format!("{XFS} requires=copy-offload");
    assert_faults(
        &faults_at(&known, &[&line]),
        &[
            "0: argument requires=copy-offload: the site has no Secret nnf-dm-usercontainer-server-tls;",
        ],
    );
    assert_eq!(faults_at(&known, &[XFS]), [""; 0]);
}

#[test]
fn a_copy_may_precede_the_directive_of_its_storage() {
    let copy = "#DW copy_in source=/lus/fs1/a destination=$DW_JOB_foo";
    assert_eq!(faults_of(&[copy, XFS]), [""; 0]);
}
