//! Management targets of Lustre: targets outside of the rabbits, pools of persistent targets, and the names they give.

use serde_json::{Value, json};

use super::{
    Objects,
    lustre::{GB_20, LUSTRE, PROFILE, placed, separate},
};

const OUTSIDE: &str = "NnfLustreMGT nnf-system/outside";

fn external(address: &str) -> Value {
    json!({"spec": {"addresses": [address], "fsNameStart": "bbbbbbbb"}})
}

#[test]
fn an_external_management_target_gives_names_and_runs_no_commands() {
    let options = json!({"externalMgs": "10.9.9.9@tcp", "preMountCommands": ["lctl x"]});
    let site = placed(separate(&options)).reports("w: Setup TransientCondition: DW Directive 0: Internal error: no NnfLustreMGT resource found for MGS address 10.9.9.9@tcp (lustreStorage.mgtOptions.externalMgs of the profile): ask the administrator to create one in nnf-system with that address").then_put(OUTSIDE, external("10.9.9.9@tcp0"));
    let site = site.plans(&[
        "change NnfLustreMGT nnf-system/outside: for [w-0], not [], 0 commands",
        "create NnfNodeBlockStorage r/default-w-0-ost-0: 20000000000 for r",
        "create NnfNodeBlockStorage s/default-w-0-ost-0: 20000000000 for s",
        "create NnfNodeBlockStorage r/default-w-0-mdt-0: 20000000000 for r",
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mdt 20000000000 x 1 on r, ready [; ]",
        "write the status of NnfLustreMGT nnf-system/outside: for [], not [], 0 commands",
    ]);
    site.clone().settle().completes();
    let twice = site.put("NnfLustreMGT nnf-system/twice", external("10.9.9.9@tcp")).reports("w: Setup Error: DW Directive 0: WLM error: multiple MGTs found for address 10.9.9.9@tcp: NnfLustreMGT nnf-system/outside and nnf-system/twice: ask the administrator to delete one of them");
    twice.then_without("NnfLustreMGT nnf-system/twice").settle().completes();
}

const MEMBER: &str = "PersistentStorageInstance default/p1";

/// Adds a persistent management target on a rabbit to the pool, as `create_persistent` of the Go controllers leaves it.
fn with_member(site: Objects, name: &str, rabbit: &str, state: &str) -> Objects {
    let labels = json!({"dataworkflowservices.github.io/owner.kind": "NnfStorage", "dataworkflowservices.github.io/owner.name": name,
        "dataworkflowservices.github.io/owner.namespace": "default", "dataworkflowservices.github.io/owner.uid": name});
    let address = site.get(&format!("NnfNode {rabbit}/nnf-nlc"))["status"]["lnetNid"].clone();
    let target = json!({"metadata": {"labels": labels}, "spec": {"addresses": [address], "fsNameStart": "aaaaaaaa"}});
    let member = json!({"metadata": {"labels": {"nnf.cray.hpe.com/standalone_mgt": "pool"}},
        "spec": {"name": name, "fsType": "lustre", "dwDirective": "#DW create_persistent", "userID": 1, "state": "Active"},
        "status": {"state": state}});
    site.put(&format!("PersistentStorageInstance default/{name}"), member)
        .put(&format!("NnfLustreMGT {rabbit}/{name}"), target)
}

fn pool() -> Objects {
    separate(&json!({"externalMgs": "pool:pool"}))
}

#[test]
fn a_pool_without_a_usable_member_is_reported_with_the_reason() {
    let site = pool().propose(&[LUSTRE]).computes(&["c1"]).reach("Setup");
    let site = site.servers(&[("ost", GB_20, &[("r", 1)]), ("mdt", GB_20, &[("r", 1)])]);
    let site = site.reports("w: Setup TransientCondition: DW Directive 0: Internal error: no persistent storage is in the pool pool of management targets (lustreStorage.mgtOptions.externalMgs of the profile): ask the administrator to create one with create_persistent and a profile whose standaloneMgtPoolName is pool");
    let site = with_member(site, "p1", "s", "Creating").reports("w: Setup TransientCondition: DW Directive 0: Internal error: no management target of the pool pool can be used now; for example p1: its state is Creating");
    let disabled = site.edit("Storage default/s", &json!({"spec": {"state": "Disabled"}}));
    disabled.then(MEMBER, &json!({"status": {"state": "Active"}})).reports("w: Setup TransientCondition: DW Directive 0: Internal error: no management target of the pool pool can be used now; for example p1: s is disabled by an administrator (Storage default/s, spec.state): enable it, or place the job elsewhere");
}

#[test]
fn a_file_system_becomes_a_consumer_of_the_best_member_before_it_asks_for_a_name() {
    let options = json!({"externalMgs": "pool:pool", "preMountCommands": ["lctl x $FS_NAME"]});
    let site = with_member(separate(&options), "p1", "s", "Degraded");
    let site = placed(with_member(site, "p2", "r", "Active")).plans(&[
        "change PersistentStorageInstance default/p2: Active, used by [w-0], status Active",
        "create NnfNodeBlockStorage r/default-w-0-ost-0: 20000000000 for r",
        "create NnfNodeBlockStorage s/default-w-0-ost-0: 20000000000 for s",
        "create NnfNodeBlockStorage r/default-w-0-mdt-0: 20000000000 for r",
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mdt 20000000000 x 1 on r, ready [; ]",
    ]).step().plans(&[
        "change NnfLustreMGT r/p2: for [w-0], not [], 0 commands",
    ]);
    let site = site.settle().completes();
    let commands = &site.get("NnfLustreMGT r/p2")["spec"]["commandList"][0]["commands"];
    assert_eq!(*commands, json!(["lctl x aaaaaaaa"]));
    // The member stays in use until the name is erased, which the rabbit does.
    let site = site.dead("r").reach_by_force("Teardown").settle();
    let entries = &site.get("PersistentStorageInstance default/p2")["spec"]["consumerReferences"];
    assert_eq!(entries[0]["name"], "w-0");
}

#[test]
fn the_member_with_the_fewest_names_is_chosen() {
    let site = with_member(with_member(pool(), "p1", "r", "Active"), "p2", "s", "Active");
    let site = site.with("a", LUSTRE, &["c1"], "Setup");
    placed(site).plans(&[
        "change PersistentStorageInstance default/p2: Active, used by [w-0], status Active",
        "create NnfNodeBlockStorage r/default-w-0-ost-0: 20000000000 for r",
        "create NnfNodeBlockStorage s/default-w-0-ost-0: 20000000000 for s",
        "create NnfNodeBlockStorage r/default-w-0-mdt-0: 20000000000 for r",
        "write the status of Servers default/w-0: ost 20000000000 x 1 on r, 1 on s; mdt 20000000000 x 1 on r, ready [; ]",
    ]);
}

const TARGET: &str = "#DW create_persistent type=lustre name=mgt1 profile=target";

/// Returns a site with a profile for management targets of the pool, and a default profile that uses the pool.
fn with_target_profile() -> Objects {
    let site = pool();
    let mut profile = site.get(PROFILE).clone();
    profile["data"]["default"] = json!(false);
    profile["data"]["lustreStorage"]["mgtOptions"] = json!({"standaloneMgtPoolName": "pool"});
    site.put("NnfStorageProfile nnf-system/target", profile)
}

#[test]
fn a_management_target_joins_its_pool_when_it_is_complete() {
    let site = with_target_profile().propose(&[TARGET]).reach("Setup");
    let label = |site: &Objects| {
        let labels = &site.get("PersistentStorageInstance default/mgt1")["metadata"]["labels"];
        labels["nnf.cray.hpe.com/standalone_mgt"].clone()
    };
    let made = site.clone().dead("r").dead("s").settle();
    assert_eq!(label(&made), Value::Null);
    assert_eq!(label(&site.settle()), "pool");
}

#[test]
fn a_management_target_in_use_is_no_file_system_and_is_not_destroyed() {
    let site = with_target_profile().with("make", TARGET, &[], "Teardown");
    let site = site.delete("Workflow default/make").settle().with("job", LUSTRE, &["c1"], "Setup");
    site.clone().request("w", 1001, &["#DW persistentdw name=mgt1"]).reports("w: Proposal Error: DW Directive 0: User error: persistent storage mgt1 is a Lustre management target, which no job mounts: name a file system");
    let site = site.propose(&["#DW destroy_persistent name=mgt1"]).reach("Teardown").settle();
    site.forget().plans(&[
        "w: Teardown Error: DW Directive 0: User error: persistent storage mgt1 is used by Servers job-0: end them first, or delete this workflow to keep it",
    ]).delete("Workflow default/job").settle().completes();
}

#[test]
fn a_member_without_its_nnflustremgt_is_degraded_and_not_chosen() {
    let site = with_target_profile().with("make", TARGET, &[], "Teardown");
    let place = site.names("NnfLustreMGT").remove(0);
    let site = site.without(&format!("NnfLustreMGT {place}")).plans(&[
        "write the status of PersistentStorageInstance default/mgt1: Active, used by [], status Degraded",
    ]);
    placed(site.settle()).reports("w: Setup TransientCondition: DW Directive 0: Internal error: no management target of the pool pool can be used now; for example mgt1: it has no NnfLustreMGT");
}

#[test]
fn a_member_without_a_free_rabbit_waits() {
    let line = |name: &str| TARGET.replace("mgt1", name);
    let site = with_target_profile().with("a", TARGET, &[], "Teardown");
    let site = site.with("b", &line("mgt2"), &[], "Teardown");
    site.propose(&[&line("mgt3")]).reach("Setup").reports("w: Setup DriverWait: DW Directive 0: pending a rabbit without a management target, because a rabbit serves only one: for example r, once the target of NnfLustreMGT r/mgt1 is removed");
}

/// A name is unique in the system: the targets that already have a name keep it, and others are passed over.
#[test]
fn a_name_that_another_file_system_has_is_given_back() {
    let site = with_member(pool(), "p1", "r", "Active").with("a", LUSTRE, &["c1"], "Setup");
    let status = &site.get("NnfLustreMGT r/p1")["status"]["claimList"][0];
    let taken = status["fsname"].clone();
    let site = with_member(site, "p2", "s", "Active");
    let site = placed(site).step().dead("s").settle();
    let holder = site.get("NnfLustreMGT s/p2")["spec"]["claimList"][0].clone();
    let given = json!({"status": {"fsNameNext": "bbbbbbbz", "claimList": [{"reference": holder, "fsname": taken}]}});
    site.then("NnfLustreMGT s/p2", &given)
        .plans(&["change NnfLustreMGT s/p2: for [], not [aaaaaaaa], 0 commands"]);
}

#[test]
fn names_of_the_sites_own_file_systems_are_passed_over() {
    let scratch = json!({"spec": {"name": "bbbbbbbb", "mgsNids": "10.8.8.8@tcp", "mountRoot": "/lus/scratch"}});
    let site = separate(&json!({"externalMgs": "10.9.9.9@tcp"}));
    let site = site.put(OUTSIDE, external("10.9.9.9@tcp"));
    let site =
        placed(site.put("LustreFileSystem nnf-system/scratch", scratch)).settle().completes();
    let target = &site.get("NnfNodeStorage r/default-w-0-mdt-0")["spec"]["lustreStorage"];
    assert_eq!(target["fileSystemName"], "bbbbbbbc");
}
