use serde_json::{Value, json};

use super::*;

const ROOT: &str = "/mnt/nnf/3f6c2d1e-0/rabbit-1-0";

fn roots() -> AllowedRoots {
    AllowedRoots::new(["/mnt/nnf".into()]).unwrap()
}

fn object() -> Value {
    json!({
        "metadata": {"name": "w-1-0", "namespace": "rabbit-1", "uid": "3f6c2d1e-8a47-4b0e-9d5b-6f1f0a7c9e21",
            "labels": {"dm.cray.hpe.com/initiator": "copy_out"}},
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
fn source_and_destination_are_split_into_root_and_path_beneath_it() {
    let desired = desired(|_| {}).unwrap();
    assert_eq!((desired.user, desired.group), (1050, 1051));
    assert_eq!(desired.source.place.root, Path::new(ROOT));
    assert_eq!(desired.source.place.path, "out/");
    assert_eq!(desired.destination.place.path, "home");
    assert!(desired.is_copy_out && desired.destination.needs_mount());
}

#[test]
fn paths_beneath_a_root_keep_a_trailing_slash_and_lose_dots() {
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
fn a_root_of_kind_directory_need_not_be_a_mount_point() {
    let desired = desired(|object| {
        let reference = json!({"kind": "Directory", "name": "home", "fieldPath": "/home"});
        object["spec"]["source"] = json!({"path": "/home/u", "storageReference": reference});
    });
    assert!(!desired.unwrap().source.needs_mount());
}

/// Among the cases: `/lus/g10` is not beneath `/lus/g`.
#[test]
fn an_invalid_field_is_reported_with_its_value_and_remedy() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 14] = [
        (|object| object["metadata"]["uid"] = json!("x"), "metadata.uid \"x\" is not a UUID"),
        (
            |object| object["spec"]["userId"] = json!(0),
            "spec.userId is 0, but data is never copied as root",
        ),
        (|object| object["spec"]["userId"] = json!(-1), "spec.userId is -1"),
        (
            |object| object["spec"]["groupId"] = json!(-1),
            "spec.groupId is -1: set it to the group's number",
        ),
        (
            |object| object["spec"]["source"]["storageReference"]["kind"] = json!("NnfStorage"),
            "spec.source.storageReference.kind is \"NnfStorage\", and must be Servers",
        ),
        (
            |object| object["spec"]["source"]["storageReference"]["fieldPath"] = json!("/etc"),
            "spec.source.storageReference.fieldPath",
        ),
        (
            |object| {
                object["spec"]["destination"]["storageReference"]["fieldPath"] =
                    json!("/mnt/nnf/x");
            },
            "is \"/mnt/nnf/x\", and must be neither within nor above jobs' storage in /mnt/nnf",
        ),
        (
            |object| object["spec"]["destination"]["storageReference"]["fieldPath"] = json!("/"),
            "is \"/\", and must be an absolute path",
        ),
        (
            |object| {
                object["spec"]["destination"]["storageReference"]["fieldPath"] =
                    json!("/lus/../etc");
            },
            "and must be an absolute path without ..",
        ),
        (
            |object| object["spec"]["destination"]["path"] = json!("/lus/g/../h"),
            "spec.destination.path is \"/lus/g/../h\", and must not contain ..",
        ),
        (
            |object| object["spec"]["destination"]["path"] = json!("/lus/g10/home"),
            "and must be beneath the mount point /lus/g",
        ),
        (
            |object| object["spec"]["destination"]["path"] = json!(""),
            "beneath the mount point /lus/g",
        ),
        (
            |object| object["metadata"]["labels"] = json!({INDEX_DIRECTORY: ".."}),
            "label warren.nnf.cray.hpe.com/index-directory is \"..\", and must be the name",
        ),
        (
            |object| object["metadata"]["labels"] = json!({SHARE: "3-of-3"}),
            "label warren.nnf.cray.hpe.com/share is \"3-of-3\", and must be a share",
        ),
    ];
    for (change, expected) in cases {
        let error = desired(change).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_limit_of_an_object_is_a_number_above_0() {
    for (text, expected) in [("1000", Some(1000)), ("0", None), ("1MiB", None)] {
        let mut value = object();
        value["metadata"]["annotations"][annotation::BYTES_PER_SECOND] = json!(text);
        let object: NnfDataMovement = serde_json::from_value(value).unwrap();
        assert_eq!(limit(&object).ok().flatten(), expected, "{text}");
    }
    let object: NnfDataMovement = serde_json::from_value(object()).unwrap();
    assert_eq!(limit(&object), Ok(None));
}
