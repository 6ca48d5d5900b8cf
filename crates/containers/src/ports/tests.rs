#![expect(clippy::needless_pass_by_value, reason = "json! makes values")]

use serde_json::{Value, from_value, json};

use super::*;

fn system(ports: Value) -> SystemConfigurationSpec {
    from_value(json!({"ports": ports})).unwrap()
}

fn workflow(name: &str) -> ObjectReference {
    ObjectReference {
        kind: Some("Workflow".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(format!("uid of {name}")),
        ..ObjectReference::default()
    }
}

fn time(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

const COOLDOWN: SignedDuration = SignedDuration::from_secs(60);

#[test]
fn site_ports_reads_numbers_and_ranges() {
    let cases = [
        (json!([5000, "5001", "5003-5005"]), Ok(vec![5000, 5001, 5003, 5004, 5005])),
        (json!([]), Ok(Vec::new())),
        (json!(["5-4"]), Err(PortFault::Unreadable("5-4".to_owned()))),
        (json!([0]), Err(PortFault::Unreadable("0".to_owned()))),
        (json!([70000]), Err(PortFault::Unreadable("70000".to_owned()))),
        (json!(["http"]), Err(PortFault::Unreadable("http".to_owned()))),
    ];
    for (given, expected) in cases {
        assert_eq!(site_ports(&system(given.clone())), expected, "{given}");
    }
}

/// The records of rabbits `r` and `s`.
#[derive(Default)]
struct Site {
    r: Vec<NnfPortManagerAllocation>,
    s: Vec<NnfPortManagerAllocation>,
}

impl Site {
    fn choose(
        &self,
        who: &str,
        rabbits: &str,
        wanted: usize,
        now: i64,
    ) -> Result<Vec<u16>, PortFault> {
        let all = [("r", &*self.r), ("s", &*self.s)];
        let records: Records<'_> =
            all.into_iter().filter(|(rabbit, _)| rabbits.contains(rabbit)).collect();
        let free = |entry: &NnfPortManagerAllocation| is_free(entry, COOLDOWN, time(now), |_| true);
        choose(&[5000, 5001, 5002], &records, &workflow(who), wanted, free)
    }
}

fn take(record: &mut Vec<NnfPortManagerAllocation>, who: &str, ports: &[u16], now: i64) {
    let free = |entry: &NnfPortManagerAllocation| is_free(entry, COOLDOWN, time(now), |_| true);
    *record = assign(record, &workflow(who), ports, free);
}

#[test]
fn ports_that_are_taken_on_one_rabbit_are_free_on_another() {
    let mut site = Site::default();
    take(&mut site.r, "a", &[5000], 0);
    assert_eq!(site.choose("b", "s", 1, 0), Ok(vec![5000]));
    assert_eq!(site.choose("b", "r", 2, 0), Ok(vec![5001, 5002]));
    assert_eq!(site.choose("b", "rs", 1, 0), Ok(vec![5001]), "the same port on both rabbits");
}

#[test]
fn a_requester_keeps_its_ports() {
    let mut site = Site::default();
    take(&mut site.r, "a", &[5002], 0);
    assert_eq!(
        site.choose("a", "rs", 1, 0),
        Ok(vec![5002]),
        "a has the port on r, and it is free on s"
    );
    assert_eq!(site.choose("a", "rs", 2, 0), Ok(vec![5000, 5002]));
    take(&mut site.s, "b", &[5002], 0);
    assert_eq!(site.choose("a", "rs", 1, 0), Ok(vec![5000]), "workflow b took 5002 there");
}

#[test]
fn too_few_listed_ports_and_too_few_free_ports_are_different_faults() {
    let mut site = Site::default();
    assert_eq!(site.choose("a", "r", 4, 0), Err(PortFault::TooFew { listed: 3, wanted: 4 }));
    take(&mut site.r, "a", &[5000, 5001], 0);
    assert_eq!(site.choose("b", "r", 2, 0), Err(PortFault::Taken { free: 1, wanted: 2 }));
}

#[test]
fn released_ports_cool_down() {
    let mut site = Site::default();
    take(&mut site.r, "a", &[5000, 5001, 5002], 0);
    site.r = release(&site.r, &workflow("a"), COOLDOWN, time(10));
    assert!(site.choose("b", "r", 1, 69).is_err());
    assert!(site.choose("a", "r", 1, 69).is_err(), "the cool-down also holds for the last owner");
    assert_eq!(site.choose("b", "r", 1, 70), Ok(vec![5000]));
    take(&mut site.r, "b", &[5000], 70);
    assert_eq!(site.r.len(), 1, "the next record omits ports that cooled down: {:?}", site.r);
    assert!(release(&site.r, &workflow("b"), SignedDuration::ZERO, time(80)).is_empty());
}

#[test]
fn integers_that_are_not_ports_reserve_no_port() {
    let mut site = Site::default();
    take(&mut site.r, "b", &[5000], 0);
    site.r[0].ports.extend([-1, 70000, 4_294_967_296]);
    assert_eq!(site.choose("a", "r", 2, 0), Ok(vec![5001, 5002]));
}

#[test]
fn ports_of_a_deleted_workflow_are_free() {
    let mut record = Vec::new();
    take(&mut record, "a", &[5000], 0);
    assert!(
        !is_free(&record[0], COOLDOWN, time(0), |requester| requester.name.as_deref() == Some("a"))
    );
    assert!(is_free(&record[0], COOLDOWN, time(0), |_| false));
    // A later workflow of the same name does not get the ports of the earlier one.
    let namesake = ObjectReference { uid: Some("other".to_owned()), ..workflow("a") };
    assert!(is_of(&record[0], &workflow("a")) && !is_of(&record[0], &namesake));
}
