use serde_json::{Value, json};

use super::*;

const ROOT: &str = "/mnt/nnf/3f6c2d1e-0/rabbit-1-0";

fn roots() -> AllowedRoots {
    AllowedRoots::new(["/mnt/nnf".into()]).unwrap()
}

fn object() -> Value {
    json!({
        "metadata": {"name": "w-1-0", "namespace": "rabbit-1", "uid": "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21"},
        "spec": {
            "userId": 1050, "groupId": 1051,
            "source": {"path": format!("{ROOT}/out/"), "storageReference": {"kind": "Servers", "fieldPath": ROOT}},
            "destination": {"path": "/lus/g/home", "storageReference": {"kind": "LustreFileSystem", "fieldPath": "/lus/g"}},
        },
    })
}

fn desired(change: impl FnOnce(&mut Value)) -> Result<Desired, String> {
    let mut value = object();
    change(&mut value);
    let object: NnfDataMovement = serde_json::from_value(value).unwrap();
    Desired::from_object(&object, &roots()).map_err(|error| daemon::chain(&error))
}

#[test]
fn sides_have_their_roots_and_the_paths_beneath() {
    let desired = desired(|_| {}).unwrap();
    assert_eq!((desired.user, desired.group), (1050, 1051));
    assert_eq!(desired.source.place.root, Path::new(ROOT));
    assert_eq!(desired.source.place.path, "out/");
    assert_eq!(desired.destination.place.path, "home");
    assert!(desired.syncs() && desired.destination.needs_mount());
}

#[test]
fn paths_keep_their_last_slash_and_lose_dots() {
    for (path, beneath) in [
        ("", ""),
        ("/", ""),
        ("/.", ""),
        ("/a", "a"),
        ("/a/", "a/"),
        ("//a/./b/.", "a/b/"),
        ("/a\nb", "a\nb"),
    ] {
        let desired = desired(|object| {
            object["spec"]["source"]["path"] = json!(format!("{ROOT}{path}"));
        });
        assert_eq!(desired.unwrap().source.place.path, beneath, "{path:?}");
    }
}

#[test]
fn a_directory_of_the_configuration_needs_no_mount() {
    let desired = desired(|object| {
        let reference = json!({"kind": "Directory", "name": "home", "fieldPath": "/home"});
        object["spec"]["source"] = json!({"path": "/home/u", "storageReference": reference});
    });
    assert!(!desired.unwrap().source.needs_mount());
}

/// `/lus/fs1` does not hold `/lus/fs10`.
#[test]
fn bad_fields_are_named_with_their_remedy() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 13] = [
        (|o| o["metadata"]["uid"] = json!("x"), "metadata.uid \"x\" is not a UUID"),
        (|o| o["spec"]["userId"] = json!(0), "spec.userId is 0: data is copied without root's"),
        (|o| o["spec"]["userId"] = json!(-1), "spec.userId is -1"),
        (|o| o["spec"]["groupId"] = json!(-1), "spec.groupId is -1: use the number of a group"),
        (
            |o| o["spec"]["source"]["storageReference"]["kind"] = json!("NnfStorage"),
            "spec.source.storageReference.kind is \"NnfStorage\", and must be Servers",
        ),
        (
            |o| o["spec"]["source"]["storageReference"]["fieldPath"] = json!("/etc"),
            "spec.source.storageReference.fieldPath",
        ),
        (
            |o| o["spec"]["destination"]["storageReference"]["fieldPath"] = json!("/mnt/nnf/x"),
            "is \"/mnt/nnf/x\", and must be away from jobs' storage in /mnt/nnf",
        ),
        (
            |o| o["spec"]["destination"]["storageReference"]["fieldPath"] = json!("/"),
            "is \"/\", and must be an absolute path",
        ),
        (
            |o| o["spec"]["destination"]["storageReference"]["fieldPath"] = json!("/lus/../etc"),
            "and must be an absolute path, without ..",
        ),
        (
            |o| o["spec"]["destination"]["path"] = json!("/lus/g/../h"),
            "spec.destination.path is \"/lus/g/../h\", and may have no ..",
        ),
        (
            |o| o["spec"]["destination"]["path"] = json!("/lus/g10/home"),
            "and must be beneath the mount point /lus/g",
        ),
        (|o| o["spec"]["destination"]["path"] = json!(""), "beneath the mount point /lus/g"),
        (
            |o| o["metadata"]["labels"] = json!({INDEX_DIRECTORY: ".."}),
            "label warren.nnf.cray.hpe.com/index-directory is \"..\", and must be the name",
        ),
    ];
    for (change, expected) in cases {
        let error = desired(change).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
