use super::*;

fn allocation(index: u32) -> AllocationId {
    AllocationId { owner: "b1946ac9-2249-4c39-a0d6-2f1f0d6dc2a1".parse().unwrap(), index }
}

fn found(nsid: u32, size: u64) -> Found {
    Found { nsid, nguid: [u8::try_from(nsid).unwrap(); 16], size }
}

fn two_drive_request(size: u64) -> Wanted {
    Wanted { size, members: 16 }
}

fn nqn() -> Nqn {
    "nqn.2019-08.org.qemu:drive0".parse().unwrap()
}

#[test]
fn a_recorded_namespace_is_recognised_by_its_nguid_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(directory.path(), &nqn()).unwrap();
    ledger.intend(allocation(0), two_drive_request(4096), &[], 1).unwrap();
    ledger.record_created(allocation(0), found(1, 4096), 16, Creation::Complete).unwrap();
    ledger.record_host(1, 3, &"compute-03".parse().unwrap()).unwrap();

    let again = Ledger::open(directory.path(), &nqn()).unwrap();
    let ours = found(1, 4096);
    let reused = Found { nguid: [9; 16], ..ours };
    assert_eq!(again.owner(&ours, &[ours]), NamespaceOwner::Ours(allocation(0)));
    assert!(matches!(again.owner(&reused, &[reused]), NamespaceOwner::Foreign(_)));
    assert_eq!(again.record(1).unwrap().hosts[&3], "compute-03");
}

#[test]
fn a_namespace_created_before_a_crash_is_attributed_to_its_intent() {
    let directory = tempfile::tempdir().unwrap();
    Ledger::open(directory.path(), &nqn())
        .unwrap()
        .intend(allocation(0), two_drive_request(8192), &[1], 1)
        .unwrap();
    let (old, other, new) = (found(1, 8192), found(2, 4096), found(3, 8192));

    let ledger = Ledger::open(directory.path(), &nqn()).unwrap();
    let all = [old, other, new];
    let owners = all.map(|namespace| ledger.owner(&namespace, &all));
    assert_eq!(owners[..2], [NamespaceOwner::Unknown, NamespaceOwner::Unknown]);
    assert_eq!(owners[2], NamespaceOwner::Partial(allocation(0)));
    ledger.settle(&all).unwrap();
    assert_eq!(ledger.owner(&new, &all), NamespaceOwner::Partial(allocation(0)));
}

#[test]
fn two_namespaces_that_match_one_intent_are_foreign() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(directory.path(), &nqn()).unwrap();
    ledger.intend(allocation(0), two_drive_request(8192), &[], 1).unwrap();
    let all = [found(1, 8192), found(2, 8192)];
    for namespace in &all {
        assert!(matches!(ledger.owner(namespace, &all), NamespaceOwner::Foreign(_)));
    }
}

#[test]
fn a_namespace_that_appears_later_is_not_attributed_to_an_intent_from_before_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let ledger = Ledger::open(directory.path(), &nqn()).unwrap();
    ledger.intend(allocation(0), two_drive_request(8192), &[], 1).unwrap();
    ledger.settle(&[]).unwrap();
    let later = found(1, 8192);
    assert_eq!(ledger.owner(&later, &[later]), NamespaceOwner::Unknown);
}

#[test]
fn every_nqn_has_a_ledger_file_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let named = |name: &str| -> Nqn { name.parse().unwrap() };
    let plain = [nqn(), named(&"n".repeat(250))];
    let hashed = ["n".repeat(251), "m".repeat(256), "made up  x".into(), "up/../x".into()];
    let hashed = hashed.map(|file| named(&file));
    for nqn in plain.iter().chain(&hashed) {
        let ledger = Ledger::open(directory.path(), nqn).unwrap();
        ledger.record_created(allocation(0), found(1, 4096), 1, Creation::Complete).unwrap();
        assert_eq!(Ledger::open(directory.path(), nqn).unwrap().records().len(), 1);
    }
    let paths = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut known: Vec<_> = paths.map(|path| Ledger::drive_of(&path).unwrap().unwrap()).collect();
    known.sort();
    let mut all = [&plain[..], &hashed].concat();
    all.sort();
    assert_eq!(known, all, "each drive has a ledger file of its own");
    for nqn in &plain {
        assert!(
            directory.path().join(format!("{nqn}.json")).exists(),
            "a ledger named after its drive keeps the name that older agents gave it"
        );
    }
    let another = Ledger::path(directory.path(), &hashed[1]);
    fs::copy(Ledger::path(directory.path(), &hashed[0]), &another).unwrap();
    Ledger::open(directory.path(), &hashed[1]).unwrap_err();
    fs::write(&another, "{").unwrap();
    assert!(Ledger::drive_of(&another).unwrap().is_err());
    assert!(Ledger::drive_of(&directory.path().join("agent")).is_none());
}

#[test]
fn open_fails_for_a_malformed_ledger() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join(format!("{}.json", nqn())), "{").unwrap();
    assert!(Ledger::open(directory.path(), &nqn()).is_err());
}
