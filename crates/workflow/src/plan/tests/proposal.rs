//! Proposal: refused directives, and the objects that a correct directive gets.

use serde_json::json;

use super::{GFS2, Objects, XFS};

/// Fails unless Proposal refuses the directives with this message, and creates no object of storage.
#[track_caller]
fn refuses(lines: &[&str], message: &str) {
    let expected = format!("w: Proposal Error: DW Directive {message}");
    Objects::site().request("w", 1001, lines).plans(&["create Computes default/w", &expected]);
}

#[test]
fn a_correct_directive_gets_a_profile_a_servers_and_a_breakdown() {
    Objects::site().request("w", 1001, &[XFS]).plans(&[
        "create Computes default/w",
        "create NnfStorageProfile default/w-0",
        "create Servers default/w-0",
        "create DirectiveBreakdown default/w-0",
    ]);
}

#[test]
fn wrong_directives_are_refused() {
    let xfs = |rest: &str| format!("#DW jobdw type=xfs {rest}");
    refuses(
        &[&xfs("name=scratch")],
        "0: User error: argument capacity is missing; add capacity=VALUE, matching ^\\d+(KiB|KB|MiB|MB|GiB|GB|TiB|TB)$",
    );
    refuses(
        &[&xfs("capacity=0GiB name=scratch")],
        "0: User error: argument capacity=0GiB: a size of 0; write the bytes that are needed, such as 1GiB",
    );
    refuses(
        &[&xfs("capacity=1GiB name=scratch profile=none")],
        "0: User error: argument profile=none: no such NnfStorageProfile; write default",
    );
    refuses(
        &["#DW copy_in source=/lus/a destination=$DW_JOB_none/"],
        "0: User error: argument source=/lus/a: no global Lustre is mounted there; the site has none",
    );
    refuses(
        &["#DW container name=web profile=web"],
        "0: User error: argument profile=web: no such NnfContainerProfile; the site has none",
    );
    refuses(
        &["#DW persistentdw name=none"],
        "0: User error: argument name=none: no such persistent storage; correct the name, or create the storage with create_persistent in an earlier job",
    );
    refuses(
        &["#DW jobdw type=gfs2 capacity=50GB name=gfs2 requires=copy-offload"],
        "0: User error: Warren does not support requires=copy-offload: this version offers neither copy offload to programs nor certificates to containers; remove the argument",
    );
    refuses(
        &["#DW nonsense"],
        r#"0: User error: command "nonsense" is unknown; write one of container, copy_in, copy_out, create_persistent, destroy_persistent, jobdw, persistentdw"#,
    );
}

#[test]
fn a_site_without_a_default_profile_is_reported() {
    let profile = "NnfStorageProfile nnf-system/default";
    Objects::site()
        .edit(profile, &json!({"data": {"default": false}}))
        .request("w", 1001, &[GFS2])
        .plans(&[
            "create Computes default/w",
            "w: Proposal Error: DW Directive 0: User error: argument profile is missing, and the site has none as default NnfStorageProfile; add profile=NAME, or ask the administrator to set data.default: true in exactly one",
        ])
        .then(profile, &json!({"data": {"default": true}}))
        .settle()
        .completes();
}

/// Without an admission webhook, Proposal reports the error.
#[test]
fn a_name_that_no_label_can_have_is_refused() {
    Objects::site().request(&"w".repeat(62), 1001, &[XFS]).reports("wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww: Proposal Error: DW Directive 0: User error: metadata.name has 62 characters: write at most 61, because labels of 63 characters hold the name, a dash and the number of a directive");
    let site = Objects::site().request("w", 1001, &[XFS]);
    site.edit("Workflow default/w", &json!({"spec": {"jobID": "7/8"}})).reports(r#"w: Proposal Error: DW Directive 0: User error: spec.jobID is "7/8", of 3 characters: write at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, because labels hold it"#);
}
