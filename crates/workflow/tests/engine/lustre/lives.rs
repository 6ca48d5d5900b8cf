//! Workflows with Lustre from Proposal to Teardown, without faults.

use serde_json::json;

use super::{LUSTRE, put_external, two_rabbits, with_profile};
use crate::{job::STATES, site::at};

#[test]
fn a_combined_target_gives_names_and_teardown_leaves_nothing() {
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
    assert_eq!(site.name_and_address("w").1, "10.0.0.2@tcp");
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
        let name = site.name_and_address("w").0;
        assert_eq!(*lustre, json!({"fileSystemName": name, "mgsAddresses": "10.0.0.2@tcp"}));
    }
    for state in ["PostRun", "DataOut", "Teardown"] {
        site.request_state_and_settle("w", state);
        assert!(site.is_ready("w", state), "{:?}", site.status_of("w"));
    }
    for kind in ["NnfNodeStorage", "NnfNodeBlockStorage", "NnfLustreMGT", "ClientMount"] {
        assert!(site.names(kind).is_empty(), "{:?}", site.names(kind));
    }
    site.remove("w");
    assert_eq!(site.objects.len(), before);
}

#[test]
fn the_owner_is_changed_once_before_any_compute_mounts() {
    let mut site = two_rabbits();
    site.propose("w", LUSTRE, &["c1"]);
    site.request_state("w", "Setup");
    let mut states = Vec::new();
    while site.step(|length| (0..length).collect()) {
        if let Some(mount) = site.objects.get(&at("ClientMount", "r", "default-w-0-ownergroup")) {
            let spec = &mount["spec"];
            let info = &spec["mounts"][0];
            assert_eq!((&info["setPermissions"], &info["userID"]), (&json!(true), &json!(1001)));
            states.push(spec["desiredState"].as_str().unwrap().to_owned());
        }
    }
    states.dedup();
    assert_eq!(states, ["mounted", "unmounted"]);
    assert!(site.is_ready("w", "Setup"), "{:?}", site.status_of("w"));
    site.remove("w");
}

#[test]
fn separate_targets_are_made_and_the_profiles_commands_run_on_the_mgt() {
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
    let name = site.name_and_address("w").0;
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
fn an_external_management_target_gives_names_and_stays() {
    let mut site = two_rabbits();
    put_external(&mut site, "10.9.9.9@tcp");
    with_profile(
        &mut site,
        &json!({"combinedMgtMdt": false, "mgtOptions": {"externalMgs": "10.9.9.9@tcp0", "preMountCommands": ["lctl x"]}}),
    );
    for (round, name) in ["bbbbbbbb", "bbbbbbbc"].into_iter().enumerate() {
        site.bring("w", &[LUSTRE.to_owned()], "PreRun", &["c1"]);
        assert_eq!(site.targets("w"), ["r/default-w-0-mdt-0 mdt 0", "r/default-w-0-ost-0 ost 0"]);
        assert_eq!(
            site.name_and_address("w"),
            (name.to_owned(), "10.9.9.9@tcp".to_owned()),
            "{round}"
        );
        let outside = site.get("NnfLustreMGT", "nnf-system", "outside");
        assert!(
            outside["spec"]["commandList"].is_null(),
            "no agent runs commands there: {outside:#}"
        );
        assert_eq!(outside["spec"]["claimList"].as_array().unwrap().len(), 1);
        site.remove("w");
    }
}

#[test]
fn teardown_of_lustre_is_reached_from_every_state() {
    for from in &STATES[..6] {
        let mut site = two_rabbits();
        site.bring("w", &[LUSTRE.to_owned()], from, &["c1", "d1"]);
        site.request_state_and_settle("w", "Teardown");
        assert!(site.is_ready("w", "Teardown"), "{from}: {:?}", site.status_of("w"));
        site.remove("w");
    }
}
