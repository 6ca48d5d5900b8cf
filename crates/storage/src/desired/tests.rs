use std::path::Path;

use super::*;

fn roots() -> AllowedRoots {
    AllowedRoots::new(["/mnt/nnf".into(), "/mnt//temp/".into()]).unwrap()
}

fn parse(path: &str) -> Result<MountPoint, MountPointError> {
    MountPoint::parse(path, &roots())
}

#[test]
fn parse_cleans_a_mount_point_and_splits_it_at_its_root() {
    for (text, clean) in [
        ("/mnt/nnf/a", "/mnt/nnf/a"),
        ("/mnt/nnf//a/./b/", "/mnt/nnf/a/b"),
        ("//mnt/temp//x", "/mnt/temp/x"),
        ("/mnt/nnf/a b;c", "/mnt/nnf/a b;c"),
    ] {
        let point = parse(text).unwrap();
        assert_eq!(point.to_string(), clean);
        assert_eq!(point.path(), point.root().join(point.below()));
    }
    let deep = parse("/mnt/nnf/a/b").unwrap();
    assert_eq!(deep.parent(), Some(parse("/mnt/nnf/a").unwrap()));
    assert_eq!(
        parse("/mnt/nnf/a").unwrap().parent(),
        None,
        "the allowed root belongs to the admin"
    );
}

#[test]
fn parse_refuses_paths_that_cannot_be_mount_points() {
    assert!(matches!(parse("mnt/nnf/a"), Err(MountPointError::NotAbsolute(_))));
    assert!(matches!(parse(""), Err(MountPointError::NotAbsolute(_))));
    assert!(matches!(parse("/mnt/nnf/../etc"), Err(MountPointError::ParentComponent(_))));
    assert!(matches!(parse("/mnt/nnf/.."), Err(MountPointError::ParentComponent(_))));
    for text in ["/mnt/nnf/a\0b", "/mnt/nnf/a\nb", "/mnt/nnf/\u{1b}[2J"] {
        assert!(matches!(parse(text), Err(MountPointError::ControlCharacter(_))), "{text:?}");
    }
    assert!(matches!(
        parse(&format!("/mnt/nnf/{}", "a".repeat(4096))),
        Err(MountPointError::TooLong(_))
    ));
    let long = "a".repeat(256);
    let deep = |levels| format!("/mnt/nnf{}", "/d".repeat(levels));
    assert!(parse(&deep(32)).is_ok());
    let error = parse(&deep(2000)).unwrap_err().to_string();
    assert_eq!(error, "the path leads through 2000 directories beneath /mnt/nnf: use at most 32");
    assert_eq!(parse(&format!("/mnt/nnf/{long}/x")), Err(MountPointError::NameTooLong(256)));
    assert!(parse(&format!("/mnt/nnf/{}/x", &long[1..])).is_ok());
    for text in ["/mnt/nnf", "/mnt/nnf/", "/mnt/nnf/.", "/mnt/nnfx/a", "/etc", "/"] {
        let error = parse(text).unwrap_err();
        assert!(matches!(error, MountPointError::OutsideRoots { .. }), "{text}");
        assert!(error.to_string().contains("/mnt/nnf or /mnt/temp"), "{error}");
    }
    for root in ["", "mnt", "/", "//", "/mnt/../etc"] {
        assert!(AllowedRoots::new([Path::new(root).to_owned()]).is_err(), "{root:?}");
    }
}

#[test]
fn index_link_new_refuses_invalid_host_names_and_targets() {
    for name in
        ["../etc", "a/b", "", ".", "..", "-x", "a b", "a\0b", "a;b", "ä", "$(id)", &"a".repeat(254)]
    {
        let error = IndexLink::new(name, "node-0").unwrap_err();
        assert!(matches!(error, IndexLinkError::NotHostName(_)), "{name:?}: {error}");
    }
    for name in ["node-0", "node-17", "node-007"] {
        assert!(
            matches!(IndexLink::new(name, "node-0"), Err(IndexLinkError::LooksLikeIndex(_))),
            "{name}"
        );
    }
    for name in ["node-a", "node-1a", "compute-1", "x.example.org", "rabbit-node-1"] {
        assert_eq!(
            IndexLink::new(name, "node-0").unwrap().to_string(),
            format!("{name} -> node-0")
        );
    }
    for target in ["", ".", "..", "/etc", "a/b", "a\0", &"a".repeat(256)] {
        let error = IndexLink::new("compute-1", target).unwrap_err();
        assert!(matches!(error, IndexLinkError::TargetOutside(_)), "{target:?}");
    }
}

#[test]
fn invalid_nqns_and_nsids_are_refused() {
    assert_eq!("nqn.2014.org:x\0\0\0".parse::<Nqn>().unwrap().to_string(), "nqn.2014.org:x");
    let made_up = "nqn.2014.08.org.nvmexpress:80868086S/N 1     MODEL 2";
    assert_eq!(format!("{made_up}   \0").parse::<Nqn>().unwrap().to_string(), made_up);
    for nqn in ["", "\0", " ", "a\tb", "a\nb", "a\0b", "ä", &"n".repeat(257)] {
        assert!(nqn.parse::<Nqn>().is_err(), "{nqn:?}");
    }
    for nsid in ["1", "4294967294"] {
        assert_eq!(NamespaceId::parse("n", nsid).unwrap().to_string(), format!("n:{nsid}"));
    }
    for nsid in ["0", "4294967295", "4294967296", "-1", "", "x"] {
        assert_eq!(NamespaceId::parse("n", nsid), Err(NameError::NotNsid(nsid.to_owned())));
    }
}

#[test]
fn a_derived_file_system_id_depends_only_on_its_arguments_and_is_recognised() {
    let owner = "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap();
    let id = FileSystemId::derive(owner, "rabbit-1", "storage", 0);
    assert_eq!(id, FileSystemId::derive(owner, "rabbit-1", "storage", 0));
    assert_eq!(FileSystemId::recognise(id.uuid()), Some(id));
    for other in [
        FileSystemId::derive(owner, "rabbit-1", "storage", 1),
        FileSystemId::derive(owner, "rabbit-2", "storage", 0),
        FileSystemId::derive(owner, "rabbit-1", "storage2", 0),
    ] {
        assert_ne!(id, other);
    }
    assert_eq!(FileSystemId::recognise(uuid::Uuid::from_u128(1)), None);
    assert_eq!(FileSystemId::recognise(uuid::Uuid::new_v4()), None);
}
