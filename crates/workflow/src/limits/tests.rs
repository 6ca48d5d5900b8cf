use super::*;

const FILE: &str = r##"
createPersistent: {users: [alice, 1002], groups: [staff]}
job: {bytes: 1TiB}
user: {bytes: 2TiB, persistentStorages: 2}
project: {bytes: 3TiB}
users:
  alice: {bytes: 10TiB}
  1005: {persistentStorages: 0}
projects:
  staff: {bytes: 4TiB, persistentStorages: 3}
presets:
  small: type=xfs capacity=100GiB
"##;

const TIB: u64 = 1 << 40;

fn find(name: Name<'_>) -> Option<u32> {
    match name {
        Name::User("alice") => Some(1001),
        Name::Group("staff") => Some(50),
        Name::User(_) | Name::Group(_) => None,
    }
}

fn limits() -> Limits {
    parse(FILE, "/etc/limits", &find).unwrap()
}

/// Checks a request of a user with a group: bytes and persistent storages that are asked for, and that the user and the
/// project have. Returns the refusal.
fn refusal(who: (i64, i64), asked: (u64, u64), user: (u64, u64), project: (u64, u64)) -> String {
    let amount = |(bytes, persistent)| Amount { bytes, persistent };
    let asked = Asked { user: who.0, group: who.1, amount: amount(asked) };
    let used = Used { user: amount(user), project: amount(project) };
    limits().check(&asked, &used).err().map(|refusal| refusal.to_string()).unwrap_or_default()
}

#[test]
fn requests_within_all_limits_pass() {
    for (who, asked, user, project) in [
        ((1003, 7), (TIB, 0), (TIB, 9), (2 * TIB, 9)),
        ((1003, 50), (TIB, 1), (TIB, 1), (3 * TIB, 2)),
        ((1002, 7), (TIB, 1), (0, 1), (0, 99)),
        ((1001, 7), (TIB, 1), (9 * TIB, 1), (0, 99)),
        // A request for no storage passes although earlier storage exceeds the limit.
        ((1003, 7), (0, 0), (9 * TIB, 9), (9 * TIB, 9)),
        ((0, 0), (99 * TIB, 9), (99 * TIB, 9), (99 * TIB, 9)),
    ] {
        assert_eq!(refusal(who, asked, user, project), "", "{who:?} {asked:?}");
    }
}

#[test]
fn a_refusal_names_the_limit_its_value_the_request_and_the_file() {
    let none = (0, 0);
    for (who, asked, user, project, words) in [
        (
            (1003, 7),
            (1, 1),
            none,
            none,
            "user 1003 with group 7 may not create persistent storage, because createPersistent in /etc/limits names neither",
        ),
        (
            (1003, 7),
            (TIB + 1, 0),
            none,
            none,
            "the job asks for at least 1099511627777 bytes, and job.bytes in /etc/limits is 1099511627776; ask for fewer",
        ),
        (
            (1003, 7),
            (TIB, 0),
            (TIB + 1, 0),
            none,
            "user 1003 has 1099511627777 bytes in other storage, and user.bytes in /etc/limits is 2199023255552; end a job",
        ),
        (
            (1001, 7),
            (TIB, 0),
            (10 * TIB, 0),
            none,
            "user 1001 has 10995116277760 bytes in other storage, and users.alice.bytes in /etc/limits is 10995116277760",
        ),
        (
            (1003, 7),
            (TIB, 0),
            none,
            (3 * TIB, 0),
            "group 7 has 3298534883328 bytes in other storage, and project.bytes in /etc/limits is 3298534883328",
        ),
        (
            (1003, 50),
            (1, 1),
            (0, 2),
            none,
            "user 1003 has 2 persistent storages, and user.persistentStorages in /etc/limits is 2; destroy one first",
        ),
        (
            (1003, 50),
            (1, 1),
            none,
            (0, 3),
            "group 50 has 3 persistent storages, and projects.staff.persistentStorages in /etc/limits is 3",
        ),
        (
            (1005, 50),
            (1, 1),
            none,
            none,
            "user 1005 has 0 persistent storages, and users.1005.persistentStorages in /etc/limits is 0",
        ),
    ] {
        let refusal = refusal(who, asked, user, project);
        assert!(refusal.contains(words), "{refusal}");
    }
}

#[test]
fn a_faulty_file_is_refused_with_field_value_and_remedy() {
    for (text, words) in [
        ("job: {bytes: lots}", "job.bytes is \"lots\": not a size; write a number and a unit"),
        ("user: {byte: 1TiB}", "byte"),
        ("users: {bob: {bytes: 1TiB}}", "users names \"bob\", and this host has no such user"),
        ("projects: {bob: {}}", "projects names \"bob\", and this host has no such group"),
        ("users: {alice: {}, 1001: {}}", "which are the same: remove one"),
        ("createPersistent: {groups: [none]}", "createPersistent.groups names \"none\""),
        ("presets: {a: preset=b}", "presets.a is \"preset=b\": a preset cannot name a preset"),
        ("user: {persistentStorages: -1}", "persistentStorages"),
    ] {
        let fault = parse(text, "/etc/limits", &find).unwrap_err().to_string();
        assert!(fault.contains(words), "{text}: {fault}");
    }
}

#[test]
fn a_file_without_limits_limits_nothing() {
    for text in ["", "# nothing\n\n", "createPersistent:\n", "presets: {a: type=xfs}"] {
        let limits = parse(text, "/etc/limits", &find).unwrap();
        assert!(!limits.counts_others(), "{text}");
        let amount = Amount { bytes: u64::MAX, persistent: u64::MAX };
        let asked = Asked { user: 1, group: 1, amount };
        assert_eq!(limits.check(&asked, &Used { user: amount, project: amount }), Ok(()), "{text}");
    }
}
