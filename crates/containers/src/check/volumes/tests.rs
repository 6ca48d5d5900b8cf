use serde_json::{from_value, json};

use super::*;
use crate::check::{faults, faults_on_rabbits};

#[test]
fn rabbits_offer_only_directories_that_the_containers_of_an_attempt_share() {
    let faults_of = |volumes: Value, mounts: Value| -> Vec<String> {
        let app = json!({"name": "app", "image": "i", "volumeMounts": mounts});
        let profile = json!({"spec": {"containers": [app], "volumes": volumes}});
        let profile = from_value(profile).unwrap();
        let found = faults(&profile, 1050).into_iter().chain(faults_on_rabbits(&profile));
        found.map(|fault| fault.to_string()).collect()
    };
    let plain = json!([{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]);
    let mounts = json!([{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/r", "readOnly": true}]);
    assert_eq!(faults_of(plain.clone(), mounts), [""; 0]);
    for (volume, part) in [
        (json!({"emptyDir": {"medium": "Memory"}}), "\"v\": emptyDir.medium Memory is not"),
        (json!({"emptyDir": {"sizeLimit": "1Gi"}}), "\"v\": emptyDir.sizeLimit is not"),
        (json!({"emptyDir": null}), "\"v\": a volume without emptyDir is not"),
        (
            json!({"emptyDir": null, "configMap": {"name": "c"}}),
            "data.spec.volumes: \"v\": configMap is not",
        ),
        (json!({"name": "../v"}), "\"../v\": name is not"),
        (json!({"name": "w"}), "\"w\": name is not"),
    ] {
        let mut all = plain.clone();
        all[0].as_object_mut().unwrap().extend(volume.as_object().unwrap().clone());
        let faults = faults_of(all, json!([]));
        let [fault] = &faults[..] else { panic!("{part}: {faults:?}") };
        assert!(fault.contains(part) && fault.contains("administrator"), "{fault}");
    }
    for (mount, part) in [
        (json!({"name": "x"}), "volumeMounts: \"x\": name is not"),
        (json!({"subPath": "a"}), "container \"app\": volumeMounts: \"v\": subPath is not"),
        (json!({"mountPropagation": "None"}), "mountPropagation is not"),
        (json!({"mountPath": "v"}), "mountPath \"v\" is not"),
        (json!({"mountPath": "/"}), "mountPath \"/\" is not"),
        (json!({"mountPath": "/a:/b"}), "mountPath \"/a:/b\" is not"),
        (json!({"mountPath": "/a/../b"}), "without .. and colons"),
        (json!({"mountPath": "//w/"}), "a different path"),
        (json!({"mountPath": "/nnf/keys"}), "is reserved for Warren's own files"),
    ] {
        let mut all = json!([{"name": "w", "mountPath": "/w"}, {"name": "v", "mountPath": "/v"}]);
        all[1].as_object_mut().unwrap().extend(mount.as_object().unwrap().clone());
        let faults = faults_of(plain.clone(), all);
        let [fault] = &faults[..] else { panic!("{part}: {faults:?}") };
        assert!(fault.contains(part) && fault.contains("administrator"), "{fault}");
    }
}
