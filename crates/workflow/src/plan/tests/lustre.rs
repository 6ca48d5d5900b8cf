//! Lustre: the order of targets, their placement, and mounts.

use serde_json::{Value, json};

use super::{Objects, failure};

pub(super) const LUSTRE: &str = "#DW jobdw type=lustre capacity=20GB name=lus";
pub(super) const PROFILE: &str = "NnfStorageProfile nnf-system/default";
pub(super) const GB_20: i64 = 20_000_000_000;

/// Returns a site whose default profile has this Lustre part.
fn with_profile(part: &Value) -> Objects {
    Objects::site().edit(PROFILE, &json!({"data": {"lustreStorage": part}}))
}

/// Returns a site whose file systems have a management target apart from the metadata target, with these options.
pub(super) fn separate(options: &Value) -> Objects {
    with_profile(&json!({"combinedMgtMdt": false, "mgtOptions": options}))
}

/// Returns workflow `w` at the beginning of Setup, with Servers that place object targets on both rabbits, a metadata
/// target on `r`, and a separate management target on `s`.
pub(super) fn placed(site: Objects) -> Objects {
    let site = site.propose(&[LUSTRE]).computes(&["c1", "d1"]).reach("Setup");
    let management =
        site.get("DirectiveBreakdown default/w-0")["status"]["storage"]["allocationSets"]
            .to_string();
    let ost = ("ost", GB_20, &[("r", 1), ("s", 1)][..]);
    if management.contains("mgtmdt") {
        site.servers(&[ost, ("mgtmdt", GB_20, &[("r", 1)])])
    } else if management.contains("\"mgt\"") {
        site.servers(&[ost, ("mdt", GB_20, &[("r", 1)]), ("mgt", GB_20, &[("s", 1)])])
    } else {
        site.servers(&[ost, ("mdt", GB_20, &[("r", 1)])])
    }
}

#[test]
fn setup_creates_the_targets_in_their_order_and_then_changes_the_owner() {
    let site = placed(Objects::site()).plans(&[
        "create NnfLustreMGT r/w-0: for [w-0], not [], 0 commands",
        "create NnfNodeBlockStorage r/default-w-0-ost-0: 20000000000 for r",
        "create NnfNodeBlockStorage s/default-w-0-ost-0: 20000000000 for s",
        "create NnfNodeBlockStorage r/default-w-0-mgtmdt-0: 20000000000 for r",
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mgtmdt 20000000000 x 1 on r, ready [; ]",
    ]).step().plans(&[
        "create NnfNodeStorage r/default-w-0-mgtmdt-0: mgtmdt 0 of ddqksnha at 10.0.0.1@tcp",
        "w: Setup DriverWait: DW Directive 0: pending storage on r, s",
    ]).step().plans(&[
        "create NnfNodeStorage s/default-w-0-ost-0: ost 1 of ddqksnha at 10.0.0.1@tcp",
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mgtmdt 20000000000 x 1 on r, ready [; r]",
    ]);
    let site = site.step().plans(&[
        "create NnfNodeStorage r/default-w-0-ost-0: ost 0 of ddqksnha at 10.0.0.1@tcp",
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mgtmdt 20000000000 x 1 on r, ready [s; r]",
        "w: Setup DriverWait: DW Directive 0: pending storage on r",
    ]).step().plans(&[
        "create ClientMount r/default-w-0-ownergroup: mounted ddqksnha of 10.0.0.1@tcp at /mnt/nnf/w-0-owner",
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mgtmdt 20000000000 x 1 on r, ready [r s; r]",
    ]).step().plans(&[
        "change ClientMount r/default-w-0-ownergroup: unmounted ddqksnha of 10.0.0.1@tcp at /mnt/nnf/w-0-owner",
    ]).step().plans(&[
        "w: Setup Completed, ready",
    ]);
    site.settle().completes();
}

#[test]
fn separate_targets_are_made_in_their_order_and_the_profiles_commands_run_on_the_management_target()
{
    let commands = json!({"preMountCommands": ["lctl conf_param $FS_NAME.sys.timeout=200 # $MGS_NID $USERID"]});
    let site = placed(separate(&commands)).plans(&[
        "create NnfLustreMGT s/w-0: for [w-0], not [], 0 commands",
        "create NnfNodeBlockStorage r/default-w-0-ost-0: 20000000000 for r",
        "create NnfNodeBlockStorage s/default-w-0-ost-0: 20000000000 for s",
        "create NnfNodeBlockStorage r/default-w-0-mdt-0: 20000000000 for r",
        "create NnfNodeBlockStorage s/default-w-0-mgt-0: 20000000000 for s",
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mdt 20000000000 x 1 on r; mgt 20000000000 x 1 on s, ready [; ; ]",
    ]).step().plans(&[
        "create NnfNodeStorage s/default-w-0-mgt-0: mgt 0 of ddqksnha at 10.0.0.2@tcp",
        "w: Setup DriverWait: DW Directive 0: pending storage on r, s",
    ]).step().plans(&[
        "create NnfNodeStorage r/default-w-0-mdt-0: mdt 0 of ddqksnha at 10.0.0.2@tcp",
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mdt 20000000000 x 1 on r; mgt 20000000000 x 1 on s, ready [; ; s]",
    ]);
    let site = site.step().plans(&[
        "create NnfNodeStorage s/default-w-0-ost-0: ost 1 of ddqksnha at 10.0.0.2@tcp",
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mdt 20000000000 x 1 on r; mgt 20000000000 x 1 on s, ready [; r; s]",
    ]).step().plans(&[
        "create NnfNodeStorage r/default-w-0-ost-0: ost 0 of ddqksnha at 10.0.0.2@tcp",
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mdt 20000000000 x 1 on r; mgt 20000000000 x 1 on s, ready [s; r; s]",
        "w: Setup DriverWait: DW Directive 0: pending storage on r",
    ]).step().plans(&[
        "change NnfLustreMGT s/w-0: for [w-0], not [], 1 commands",
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mdt 20000000000 x 1 on r; mgt 20000000000 x 1 on s, ready [r s; r; s]",
    ]);
    let line =
        &site.step().get("NnfLustreMGT s/w-0")["spec"]["commandList"][0]["commands"][0].clone();
    assert!(line.as_str().unwrap().ends_with(".sys.timeout=200 # 10.0.0.2@tcp 1001"), "{line}");
}

#[test]
fn setup_waits_while_a_management_target_or_a_target_reports_an_error() {
    let site = placed(Objects::site()).dead("r").settle();
    let broken = failure("names cannot be given out", "Major");
    site.then("NnfLustreMGT r/w-0", &broken).reports("w: Setup TransientCondition: DW Directive 0: Internal error: Node: r: names cannot be given out");
    let target = "NnfNodeStorage r/default-w-0-mgtmdt-0";
    let site = placed(Objects::site()).step().step().dead("r").settle();
    site.then(target, &failure("the target does not serve", "Major")).plans(&[
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mgtmdt 20000000000 x 1 on r, ready [s; ]",
        "w: Setup TransientCondition: DW Directive 0: Internal error: Node: r: the target does not serve",
    ]);
}

#[test]
fn a_dead_rabbit_is_named_and_holds_up_only_dependent_targets() {
    placed(Objects::site())
        .dead("s")
        .settle()
        .forget()
        .plans(&["w: Setup DriverWait: DW Directive 0: pending storage on r, s"]);
    let site = placed(Objects::site()).settle().dead("s").reach_by_force("Teardown").settle();
    assert_eq!(site.names("NnfNodeStorage"), ["r/default-w-0-mgtmdt-0", "s/default-w-0-ost-0"]);
    site.forget().plans(&["w: Teardown DriverWait: DW Directive 0: pending removal on r, s"]);
}

#[test]
fn teardown_removes_mounts_then_targets_in_reverse_order_then_the_name_then_the_management_target()
{
    let site = placed(Objects::site()).settle().reach("PreRun").settle();
    let site = site
        .reach_by_force("Teardown")
        .plans(&[
            "delete ClientMount c1/default-w-0-computes",
            "delete ClientMount d1/default-w-0-computes",
            "delete ClientMount r/default-w-0-ownergroup",
            "delete ClientMount r/default-w-0-servers",
            "delete ClientMount s/default-w-0-servers",
            "w: Teardown DriverWait: DW Directive 0: pending removal on c1, d1, r, s",
        ])
        .step()
        .plans(&[
            "delete NnfNodeBlockStorage r/default-w-0-ost-0",
            "delete NnfNodeStorage r/default-w-0-ost-0",
            "w: Teardown DriverWait: DW Directive 0: pending removal on r, s",
        ])
        .step()
        .plans(&[
            "delete NnfNodeBlockStorage s/default-w-0-ost-0",
            "delete NnfNodeStorage s/default-w-0-ost-0",
        ]);
    site.step()
        .plans(&["change NnfLustreMGT r/w-0: for [], not [], 0 commands"])
        .step()
        .plans(&[
            "delete NnfNodeBlockStorage r/default-w-0-mgtmdt-0",
            "delete NnfNodeStorage r/default-w-0-mgtmdt-0",
            "delete NnfLustreMGT r/w-0",
            "w: Teardown DriverWait: DW Directive 0: pending removal on r",
        ])
        .step()
        .plans(&[])
        .settle()
        .completes();
}

#[test]
fn targets_stay_until_all_clients_have_unmounted() {
    let site = placed(Objects::site()).settle().reach("PreRun").settle().dead("d1");
    let site = site
        .reach_by_force("Teardown")
        .settle()
        .forget()
        .plans(&["w: Teardown DriverWait: DW Directive 0: pending removal on d1, r, s"]);
    let down = json!({"data": {"nodes": {"d1": "Disabled"}}});
    site.then_put("SystemStatus default/default", down).settle().completes();
}

#[test]
fn a_rabbit_without_an_lnet_address_is_reported() {
    let node = "NnfNode r/nnf-nlc";
    placed(Objects::site())
        .edit(node, &json!({"status": {"lnetNid": ""}}))
        .reports("w: Setup TransientCondition: DW Directive 0: Internal error: r has reported no LNet address (NnfNode r/nnf-nlc, status.lnetNid): load Lustre's modules there, or place the management target elsewhere")
        .then(node, &json!({"status": {"lnetNid": "10.0.0.1@tcp"}}))
        .settle()
        .completes();
}

#[test]
fn clients_mount_on_all_computes_and_on_rabbits_with_object_targets() {
    placed(Objects::site()).reach("PreRun").plans(&[
        "create ClientMount c1/default-w-0-computes: mounted ddqksnha of 10.0.0.1@tcp at /mnt/nnf/w-0",
        "create ClientMount d1/default-w-0-computes: mounted ddqksnha of 10.0.0.1@tcp at /mnt/nnf/w-0",
        "create ClientMount r/default-w-0-servers: mounted ddqksnha of 10.0.0.1@tcp at /mnt/nnf/w-0",
        "create ClientMount s/default-w-0-servers: mounted ddqksnha of 10.0.0.1@tcp at /mnt/nnf/w-0",
        "w: PreRun DriverWait: DW Directive 0: pending mount on c1, d1, r, s",
    ]);
    placed(Objects::site()).reach("PreRun").settle().reach("PostRun").plans(&[
        "change ClientMount c1/default-w-0-computes: unmounted ddqksnha of 10.0.0.1@tcp at /mnt/nnf/w-0",
        "change ClientMount d1/default-w-0-computes: unmounted ddqksnha of 10.0.0.1@tcp at /mnt/nnf/w-0",
        "change ClientMount r/default-w-0-servers: unmounted ddqksnha of 10.0.0.1@tcp at /mnt/nnf/w-0",
        "change ClientMount s/default-w-0-servers: unmounted ddqksnha of 10.0.0.1@tcp at /mnt/nnf/w-0",
        "w: PostRun DriverWait: DW Directive 0: pending unmount on c1, d1, r, s",
    ]);
}

#[test]
fn computes_that_no_rabbit_serves_mount_lustre_and_unknown_computes_fail() {
    let login = json!({"spec": {"externalComputeNodes": [{"name": "login1"}]}});
    let site = Objects::site().edit("SystemConfiguration default/default", &login);
    let site = site.propose(&[LUSTRE]).computes(&["login1"]).reach("PreRun").settle().completes();
    assert_eq!(site.names("ClientMount")[0], "login1/default-w-0-computes");
    let unknown = Objects::site().propose(&[LUSTRE]).computes(&["nowhere"]);
    unknown.reach("Setup").plans(&[
        "w: Setup Error: DW Directive 0: WLM error: Computes names nowhere, which the system does not have: name computes that SystemConfiguration default/default lists",
    ]);
    placed(Objects::site()).reach("PreRun").computes(&["nowhere"]).plans(&[
        "w: PreRun Error: DW Directive 0: WLM error: Computes names nowhere, which the system does not have: name computes that SystemConfiguration default/default lists, beneath a rabbit or in externalComputeNodes",
    ]);
}

#[test]
fn no_target_is_smaller_than_the_lustre_minimum() {
    let small = "#DW jobdw type=lustre capacity=1GB name=lus";
    let site = Objects::site().propose(&[small]).computes(&["c1"]).reach("Setup");
    site.servers(&[("ost", 1_000_000_000, &[("r", 1)]), ("mgtmdt", 5_400_000_000, &[("r", 1)])])
        .plans(&[
            "create NnfLustreMGT r/w-0: for [w-0], not [], 0 commands",
            "create NnfNodeBlockStorage r/default-w-0-ost-0: 4000000000 for r",
            "create NnfNodeBlockStorage r/default-w-0-mgtmdt-0: 5400000000 for r",
            "write the status of Servers default/w-0: ost 1000000000 x 1 on r; mgtmdt 5400000000 x 1 on r, ready [; ]",
        ]);
}

#[test]
fn sets_that_do_not_fit_the_breakdown_are_refused() {
    let setup = || separate(&json!({})).propose(&[LUSTRE]).computes(&["c1", "d1"]).reach("Setup");
    let on = |targets: i64, size: i64| {
        setup().servers(&[
            ("ost", size, &[("r", 1), ("s", 1)]),
            ("mdt", GB_20, &[("r", 1)]),
            ("mgt", GB_20, &[("s", targets)]),
        ])
    };
    on(2, GB_20).plans(&[
        "w: Setup Error: DW Directive 0: WLM error: Servers asks for 2 allocations of mgt, and the breakdown for 1: correct allocationCount",
    ]);
    on(1, GB_20 / 2 - 1).plans(&[
        "w: Setup Error: DW Directive 0: WLM error: Servers gives ost too little: allocationSize times all allocationCounts is 19999999998 bytes, and 20000000000 are needed",
    ]);
    on(1, GB_20 / 2).settle().completes();
    let exclusive = json!({"combinedMgtMdt": false, "mdtOptions": {"exclusive": true, "count": 1}});
    let alone = with_profile(&exclusive).propose(&[LUSTRE]).computes(&["c1"]).reach("Setup");
    alone.clone().plans(&[
        "change Servers default/w-0: ost 20000000000 x 1 on s; mdt 5368709120 x 1 on r; mgt 5368709120 x 1 on s",
    ]);
    alone
        .servers(&[
            ("ost", GB_20, &[("r", 1)]),
            ("mdt", GB_20, &[("r", 1)]),
            ("mgt", GB_20, &[("s", 1)]),
        ])
        .plans(&[
            "w: Setup Error: DW Directive 0: WLM error: Servers puts other targets beside mdt on r, which the profile excludes (colocation): name another rabbit for it",
        ]);
}

#[test]
fn a_second_management_target_for_a_rabbit_waits_until_the_first_is_removed() {
    let older = json!({"metadata": {"creationTimestamp": "2026-11-20T11:00:00Z"}});
    let site =
        Objects::site().with("a", LUSTRE, &["c1"], "Setup").with("b", LUSTRE, &["c1"], "Setup");
    let full = site.propose(&[LUSTRE]).computes(&["c1"]).reach("Setup").plans(&[
        "w: Setup DriverWait: DW Directive 0: pending a rabbit without a management target, because a rabbit serves only one: for example r, once the target of workflow default/a is removed",
    ]);
    full.delete("Workflow default/b").settle().completes();
    let site =
        Objects::site().with("a", LUSTRE, &["c1"], "Setup").edit("Servers default/a-0", &older);
    let rabbit = site.names("NnfLustreMGT")[0].split_once('/').unwrap().0.to_owned();
    let site = site.propose(&[LUSTRE]).computes(&["c1"]).reach("Setup");
    site.servers(&[("ost", GB_20, &[("s", 1)]), ("mgtmdt", GB_20, &[(&rabbit, 1)])]).plans(&[
        "w: Setup DriverWait: DW Directive 0: pending removal of the management target of workflow default/a from r, which serves only one (colocation lustre-mgt)",
    ]);
}

#[test]
fn computes_must_reach_persistent_lustre_by_the_network() {
    let site = Objects::site().keep("lustre", "kept", &[]).propose(&["#DW persistentdw name=kept"]);
    let breakdown = &site.get("DirectiveBreakdown default/w-0")["status"];
    for location in breakdown["compute"]["constraints"]["location"].as_array().unwrap() {
        assert_eq!(location["access"], json!([{"type": "network", "priority": "mandatory"}]));
    }
}

#[test]
fn a_target_that_later_targets_need_is_not_made_again() {
    let site = placed(Objects::site()).step().step().step().dead("r").dead("s");
    let site = site.without("NnfNodeStorage r/default-w-0-mgtmdt-0");
    site.plans(&[
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mgtmdt 20000000000 x 1 on r, ready [s; ]",
        "w: Setup Error: DW Directive 0: Internal error: storage r/default-w-0-mgtmdt-0 does not exist: it was deleted, with its data, or added to Servers after Setup; tear the workflow down",
    ]);
}
