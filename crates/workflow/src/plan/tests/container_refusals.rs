//! Refused container directives: where containers cannot run, and what profiles and sites do not admit.

use serde_json::{Value, json};

use super::{
    GFS2, Objects,
    containers::{ALONE, PROFILE, site, with_mpi},
    on_rabbits,
};
use crate::objects::site::Containers;

/// Fails unless Proposal refuses a lone container directive with this message.
#[track_caller]
fn refuses(site: Objects, message: &str) {
    let expected = format!("w: Proposal Error: DW Directive 0: User error: {message}");
    site.request("w", 1001, &[ALONE]).plans(&["create Computes default/w", &expected]);
}

#[test]
fn containers_are_refused_where_they_cannot_run() {
    let with = |edit: fn(&mut Containers)| {
        let mut site = site();
        site.settings.containers.as_mut().map(edit);
        site
    };
    let mut off = site();
    off.settings.containers = None;
    refuses(
        off,
        "command container: this site runs no containers; remove the directive, or ask the administrator to start the coordinator with --container-namespace",
    );
    refuses(
        with(|containers| containers.namespace = Some("jobs".to_owned())),
        "command container: containers run in the Kubernetes namespace jobs only, and this workflow is in default",
    );
    refuses(
        with_mpi(with(|containers| containers.podhelper_image = None)),
        "argument profile=app: data.mpiSpec needs podhelper, which is not configured here; name a profile with data.spec, or ask the administrator to start the coordinator with --podhelper-image",
    );
}

#[test]
fn an_unsupported_profile_is_refused() {
    let with = |data: &Value| site().edit(PROFILE, &json!({"data": data}));
    let pod = |part: &Value| json!({"spec": part});
    refuses(
        site().without(PROFILE),
        "argument profile=app: no such NnfContainerProfile; the site has none",
    );
    refuses(
        with(&json!({"userID": 7})),
        "argument profile=app: this profile is only for user 7, and the workflow's user is 1001; name another profile",
    );
    refuses(
        with(&json!({"groupID": 8})),
        "argument profile=app: this profile is only for group 8, and the workflow's group is 1002; name another profile",
    );
    refuses(
        with(&json!({"storages": [{"name": "DW_JOB_need", "optional": false}]})),
        "argument DW_JOB_need is missing, which profile app needs; add DW_JOB_need=NAME",
    );
    refuses(
        with(&json!({"spec": null})),
        "argument profile=app: data has neither spec nor mpiSpec: ask the administrator to add one",
    );
    refuses(
        with(&pod(&json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}))),
        r#"argument profile=app: data.spec: volume "v" is a hostPath: containers see no more of their rabbit than the storage that a directive names; ask the administrator to remove it"#,
    );
    refuses(
        with(&pod(&json!({"automountServiceAccountToken": true}))),
        "argument profile=app: data.spec: automountServiceAccountToken is true: containers of users get no token for the API; ask the administrator to remove it",
    );
}

#[test]
fn packages_are_refused_where_no_agent_fetches_them_and_invalid_packages_everywhere() {
    let with = |url: &str, namespace: Option<&str>| {
        let package = json!({"name": "data", "url": url, "sha256": "0".repeat(64), "size": 1});
        let mut site = site().edit(PROFILE, &json!({"data": {"packages": [package]}}));
        if let Some(containers) = &mut site.settings.containers {
            (containers.packages, containers.namespace) = (false, namespace.map(str::to_owned));
        }
        site
    };
    refuses(
        with("ftp://server/data", Some("default")),
        r#"argument profile=app: data.packages[0].url is "ftp://server/data", and must begin with https:// or http://, or be the absolute path of a file that every rabbit sees: ask the administrator to correct it"#,
    );
    refuses(
        with("ftp://server/data", None),
        r#"argument profile=app: data.packages[0].url is "ftp://server/data", and must begin with https:// or http://, or be the absolute path of a file that every rabbit sees: ask the administrator to correct it"#,
    );
    refuses(
        with("http://server/data", Some("default")),
        "argument profile=app: this site does not support data.packages: ask the administrator to remove it, or to start the coordinator with --container-packages and the rabbits' agents with --package-dir",
    );
    with("http://server/data", None).propose(&[ALONE]).completes();
}

#[test]
fn an_argument_that_the_profile_does_not_admit_is_refused() {
    let small = "#DW jobdw type=xfs capacity=1GiB name=small";
    let line = |rest: &str| format!("{ALONE} {rest}");
    let beside = |rest: &str| site().request("w", 1001, &[GFS2, small, &line(rest)]);
    beside("DW_JOB_data=other").reports("w: Proposal Error: DW Directive 2: User error: argument DW_JOB_data=other: this workflow has no directive jobdw name=other; add this directive, or correct the name");
    beside("DW_JOB_more=scratch").reports("w: Proposal Error: DW Directive 2: User error: argument DW_JOB_more=scratch: profile app has no such storage; it has DW_JOB_data or DW_PERSISTENT_kept or DW_GLOBAL_lus");
    beside("DW_JOB_data=small").reports("w: Proposal Error: DW Directive 2: User error: argument DW_JOB_data=small: unsupported container filesystem xfs; use lustre, gfs2 or raw");
    beside("DW_PERSISTENT_kept=kept").reports("w: Proposal Error: DW Directive 2: User error: argument DW_PERSISTENT_kept=kept: this workflow has no directive persistentdw name=kept; add this directive, or correct the name");
    let kept = site().keep("xfs", "kept", &["c1"]);
    let lines = ["#DW persistentdw name=kept", &line("DW_PERSISTENT_kept=kept")];
    kept.request("w", 1001, &lines).reports("w: Proposal Error: DW Directive 1: User error: argument DW_PERSISTENT_kept=kept: unsupported container filesystem xfs; use lustre, gfs2 or raw");
}

#[test]
fn a_name_that_no_pod_can_have_is_refused() {
    site().request("w.x", 1001, &[ALONE]).reports(r#"w.x: Proposal Error: DW Directive 0: User error: workflow "w.x" cannot run containers: its Service gets the workflow's name, which must begin with a letter and have only a-z, 0-9 and -, at most 63 characters; give the workflow such a name"#);
    with_mpi(site()).request(&"w".repeat(55), 1001, &[ALONE]).reports("wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww: Proposal Error: DW Directive 0: User error: workflow wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww cannot run MPI: wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww-launcher has 64 characters, and at most 63 are possible; give the workflow a shorter name");
}

const POLLY: &str = "LustreFileSystem lus/polly";
const USE_POLLY: &str = "#DW container name=beside profile=app DW_GLOBAL_lus=/lus/polly";

fn polly(root: &str, mode: &str) -> Value {
    json!({"spec": {"name": "polly", "mgsNids": "10.0.0.9@tcp", "mountRoot": root,
        "namespaces": {"default": {"modes": [mode]}}}})
}

#[test]
fn a_wrong_path_or_access_mode_of_a_global_lustre_is_refused_with_the_remedy() {
    let site = || site().put(POLLY, polly("/lus/polly", "ReadWriteMany"));
    let refused = |site: Objects, path: &str| {
        let line = USE_POLLY.replace("/lus/polly", path);
        site.request("w", 1001, &[&line])
    };
    let read_only =
        json!({"data": {"storages": [{"name": "DW_GLOBAL_lus", "pvcMode": "ReadOnlyMany"}]}});
    refused(site(), "/lus/pollyanna").reports("w: Proposal Error: DW Directive 0: User error: argument DW_GLOBAL_lus=/lus/pollyanna: no global Lustre is mounted there; write a path beneath /lus/polly");
    refused(site(), "/home").reports("w: Proposal Error: DW Directive 0: User error: argument DW_GLOBAL_lus=/home: no global Lustre is mounted there; write a path beneath /lus/polly");
    refused(site().without(POLLY), "/lus/polly").reports("w: Proposal Error: DW Directive 0: User error: argument DW_GLOBAL_lus=/lus/polly: no global Lustre is mounted there; the site has none");
    refused(site().edit(PROFILE, &read_only), "/lus/polly").reports("w: Proposal Error: DW Directive 0: User error: argument DW_GLOBAL_lus=/lus/polly: LustreFileSystem lus/polly does not give the namespace default the mode ReadOnlyMany; ask the administrator to add it to spec.namespaces.default.modes, or to name another pvcMode for DW_GLOBAL_lus in the profile");
}

/// An engine that is upgraded without the new ClusterRole has no right to list LustreFileSystems.
#[test]
fn a_workflow_that_names_a_global_lustre_waits_until_it_can_be_listed() {
    let mut site = site().put(POLLY, polly("/lus/polly", "ReadWriteMany"));
    site.unlisted.insert("LustreFileSystem");
    let mut site = site.request("w", 1001, &[USE_POLLY]).plans(&[
        "create Computes default/w",
        "w: Proposal TransientCondition: DW Directive 0: Internal error: argument DW_GLOBAL_lus=/lus/polly: the global Lustre file systems are not known, because LustreFileSystems cannot be listed; the coordinator's log says why, and the workflow continues once they are listed",
    ]);
    site.unlisted.clear();
    site.settle().completes();
}

#[test]
fn no_container_starts_while_its_global_lustre_is_missing() {
    let there = polly("/lus/polly", "ReadWriteMany");
    for site in [site(), on_rabbits::site()] {
        let site = site.put(POLLY, there.clone()).propose(&[USE_POLLY]).computes(&["c1", "d1"]);
        let site = site.without(POLLY).reach("PreRun").settle().forget().plans(&[
            "w: PreRun TransientCondition: DW Directive 0: User error: argument DW_GLOBAL_lus=/lus/polly: no global Lustre is mounted there any more; ask the administrator to create its LustreFileSystem again",
        ]);
        let site = site.then_put(POLLY, there.clone()).settle();
        assert_eq!(site.names("Job").len() + site.names("NodeContainers").len(), 2);
    }
}
