//! Lives without mishap.

use serde_json::json;

use super::{LUSTRE, put_external, two_rabbits, with_profile};
use crate::{job::STATES, site::at};

#[test]
fn a_combined_target_serves_metadata_and_names_and_nothing_is_left() {
    let mut site = two_rabbits();
    let before = site.objects.len();
    site.bring("w", &[LUSTRE.to_owned()], "PreRun", &["c1", "d1", "d2"]);
    assert_eq!(
        site.targets("w"),
        [
            "r/default-w-0-ost-0 ost 0",
            "s/default-w-0-mgtmdt-0 mgtmdt 0",
            "s/default-w-0-ost-0 ost 1"
        ]
    );
    assert_eq!(site.named("w").1, "10.0.0.2@tcp");
    let uid = site.workflow("w")["metadata"]["uid"].as_str().unwrap().to_owned();
    let path = format!("/mnt/nnf/{uid}-0");
    let env = &site.workflow("w")["status"]["env"];
    assert_eq!((&env["DW_JOB_lus"], &env["DW_JOB_LUSTRE"]), (&json!(path), &json!(path)));
    assert_eq!(env["DW_JOBS"], format!("lus:{path}"));
    for (node, end) in [
        ("c1", "computes"),
        ("d1", "computes"),
        ("d2", "computes"),
        ("r", "servers"),
        ("s", "servers"),
    ] {
        let mount =
            &site.get("ClientMount", node, &format!("default-w-0-{end}"))["spec"]["mounts"][0];
        assert_eq!(mount["mountPath"], path);
        let lustre = &mount["device"]["lustre"];
        let name = site.named("w").0;
        assert_eq!(*lustre, json!({"fileSystemName": name, "mgsAddresses": "10.0.0.2@tcp"}));
    }
    for state in ["PostRun", "DataOut", "Teardown"] {
        site.ask_and_settle("w", state);
        assert!(site.is_ready("w", state), "{:?}", site.told("w"));
    }
    for kind in ["NnfNodeStorage", "NnfNodeBlockStorage", "NnfLustreMGT", "ClientMount"] {
        assert!(site.names(kind).is_empty(), "{:?}", site.names(kind));
    }
    site.remove("w");
    assert_eq!(site.objects.len(), before);
}

#[test]
fn it_is_given_to_its_user_once_before_anybody_mounts_it() {
    let mut site = two_rabbits();
    site.propose("w", LUSTRE, &["c1"]);
    site.ask("w", "Setup");
    let mut owned = Vec::new();
    while site.step(|length| (0..length).collect()) {
        if let Some(mount) = site.objects.get(&at("ClientMount", "r", "default-w-0-ownergroup")) {
            let spec = &mount["spec"];
            let info = &spec["mounts"][0];
            assert_eq!((&info["setPermissions"], &info["userID"]), (&json!(true), &json!(1001)));
            owned.push(spec["desiredState"].as_str().unwrap().to_owned());
        }
    }
    owned.dedup();
    assert_eq!(owned, ["mounted", "unmounted"]);
    assert!(site.is_ready("w", "Setup"), "{:?}", site.told("w"));
    site.remove("w");
}

#[test]
fn separate_targets_and_the_sites_commands_on_the_management_target() {
    let mut site = two_rabbits();
    with_profile(
        &mut site,
        &json!({"combinedMgtMdt": false, "mdtOptions": {"count": 2, "colocateComputes": false},
            "mgtOptions": {"preMountCommands": ["lctl conf_param $FS_NAME.sys.timeout=200 # $MGS_NID $USERID"]}}),
    );
    site.bring("w", &[LUSTRE.to_owned()], "Setup", &["c1", "c2", "d1"]);
    assert_eq!(
        site.targets("w"),
        [
            "r/default-w-0-mdt-0 mdt 0",
            "r/default-w-0-mgt-0 mgt 0",
            "r/default-w-0-ost-0 ost 0",
            "s/default-w-0-mdt-0 mdt 1",
            "s/default-w-0-ost-0 ost 2",
        ]
    );
    let mgt = site.get("NnfLustreMGT", "r", "w-0");
    let commands = &mgt["spec"]["commandList"][0]["commands"];
    let name = site.named("w").0;
    let line = format!("lctl conf_param {name}.sys.timeout=200 # 10.0.0.1@tcp 1001");
    assert_eq!(*commands, json!([line]));
    let storage = site.get("NnfNodeStorage", "s", "default-w-0-mdt-0");
    assert_eq!(
        storage["spec"]["lustreStorage"]["lustreComponents"],
        json!({"mgts": ["r"], "mdts": ["r", "s"], "osts": ["r", "r", "s"], "nnfNodes": ["r", "s"]})
    );
    site.remove("w");
}

#[test]
fn a_management_target_of_the_sites_gives_a_name_and_stays() {
    let mut site = two_rabbits();
    put_external(&mut site, "10.9.9.9@tcp");
    with_profile(
        &mut site,
        &json!({"combinedMgtMdt": false, "mgtOptions": {"externalMgs": "10.9.9.9@tcp0", "preMountCommands": ["lctl x"]}}),
    );
    for (round, name) in ["bbbbbbbb", "bbbbbbbc"].into_iter().enumerate() {
        site.bring("w", &[LUSTRE.to_owned()], "PreRun", &["c1"]);
        assert_eq!(site.targets("w"), ["r/default-w-0-mdt-0 mdt 0", "r/default-w-0-ost-0 ost 0"]);
        assert_eq!(site.named("w"), (name.to_owned(), "10.9.9.9@tcp".to_owned()), "{round}");
        let outside = site.get("NnfLustreMGT", "nnf-system", "outside");
        assert!(outside["spec"]["commandList"].is_null(), "nobody runs them there: {outside:#}");
        assert_eq!(outside["spec"]["claimList"].as_array().unwrap().len(), 1);
        site.remove("w");
    }
}

#[test]
fn computes_that_no_rabbit_serves_mount_it_too_and_unknown_ones_are_told() {
    let mut site = two_rabbits();
    site.edit("SystemConfiguration", "default", "default", |object| {
        object["spec"]["externalComputeNodes"] = json!([{"name": "login1"}]);
    });
    site.bring("w", &[LUSTRE.to_owned()], "PreRun", &["login1"]);
    assert!(site.names("ClientMount").contains(&"login1/default-w-0-computes".to_owned()));
    assert_eq!(site.targets("w").len(), 2, "one of each, on the emptiest rabbit");
    site.remove("w");
    site.propose("w", LUSTRE, &["nowhere"]);
    site.ask_and_settle("w", "Setup");
    assert!(site.told("w").3.contains("Computes names nowhere"), "{:?}", site.told("w"));
    site.remove("w");
}

#[test]
fn teardown_is_reached_from_every_state() {
    for from in &STATES[..6] {
        let mut site = two_rabbits();
        site.bring("w", &[LUSTRE.to_owned()], from, &["c1", "d1"]);
        site.ask_and_settle("w", "Teardown");
        assert!(site.is_ready("w", "Teardown"), "{from}: {:?}", site.told("w"));
        site.remove("w");
    }
}

#[test]
fn no_target_is_smaller_than_lustre_formats() {
    let mut site = two_rabbits();
    site.propose("w", "#DW jobdw type=lustre capacity=1GB name=lus", &["c1"]);
    let small = |label: &str| json!({"label": label, "allocationSize": 5_400_000_000_i64, "storage": [{"name": "r", "allocationCount": 1}]});
    site.edit("Servers", "default", "w-0", |object| {
        let mut ost = small("ost");
        ost["allocationSize"] = json!(1_000_000_000);
        object["spec"]["allocationSets"] = json!([ost, small("mgtmdt")]);
    });
    site.ask_and_settle("w", "Setup");
    assert!(site.is_ready("w", "Setup"), "{:?}", site.told("w"));
    let block = site.get("NnfNodeBlockStorage", "r", "default-w-0-ost-0");
    assert_eq!(
        block["spec"]["allocations"],
        json!([{"capacity": 4_000_000_000_i64, "access": ["r"]}])
    );
    site.remove("w");
}
