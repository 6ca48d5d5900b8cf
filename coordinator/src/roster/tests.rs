use super::*;
use serde_json::json;

fn hello(node: &str, boot: &str, booted_at: u64, started_at: u64) -> Hello {
    Hello {
        node: node.to_owned(),
        role: v1::Role::Compute.into(),
        boot_id: boot.to_owned(),
        booted_at,
        started_at,
        version: "1".to_owned(),
        alive_every: 0,
        resident: true,
    }
}

fn configuration() -> SystemConfiguration {
    serde_json::from_value(json!({
        "metadata": {"name": "default", "namespace": "default"},
        "spec": {
            "externalComputeNodes": [{"name": "login-1"}],
            "storageNodes": [{"type": "Rabbit", "name": "rabbit-1",
                "computesAccess": [{"name": "compute-1", "index": 0}, {"name": "compute-3", "index": 6}]}],
            "portsCooldownInSeconds": 0
        }
    }))
    .unwrap()
}

#[test]
fn the_agent_of_the_later_boot_is_served_and_within_a_boot_the_agent_that_started_later() {
    // (boot, booted_at, started_at, accepted), connecting one after another.
    let cases = [
        ("a", 100, 50, true),
        ("a", 100, 40, false),
        ("a", 100, 60, true),
        ("a", 100, 60, true), // the same agent connects again
        ("b", 99, 900, false),
        ("b", 101, 1, true),
        ("a", 100, 61, false),
        ("c", 101, 5, true), // two machines booted in the same second: the last to connect wins
    ];
    let mut roster = Roster::default();
    let mut epoch = 0;
    for (boot, booted_at, started_at, accepted) in cases {
        match roster.hello(hello("n1", boot, booted_at, started_at), 0) {
            Ok(next) => {
                assert!(accepted, "{boot} {booted_at} {started_at}");
                assert!(!roster.is_newest("n1", epoch));
                assert!(roster.is_newest("n1", next));
                epoch = next;
            }
            Err(rejected) => {
                assert!(!accepted, "{boot} {booted_at} {started_at}");
                let newest = roster.boot("n1") == Some(boot);
                assert_eq!(matches!(rejected, RejectedHello::Older { .. }), newest, "{rejected}");
                assert_eq!(matches!(rejected, RejectedHello::EarlierBoot { .. }), !newest);
                assert!(roster.is_newest("n1", epoch));
            }
        }
    }
}

/// A node may reboot with a clock that is wrong, so that its new boot seems earlier. The agent of the boot before
/// then blocks the new agent, but only until the coordinator has noticed that the old agent is disconnected.
#[test]
fn a_disconnected_agent_does_not_block_an_agent_of_an_earlier_boot() {
    let mut roster = Roster::default();
    let former = roster.hello(hello("n1", "former", 200, 7), 0).unwrap();
    let rebooted = || hello("n1", "rebooted", 0, 7);
    assert!(matches!(roster.hello(rebooted(), 1), Err(RejectedHello::EarlierBoot { .. })));
    roster.close_session("n1", former, 2);
    let epoch = roster.hello(rebooted(), 3).unwrap();
    assert!(roster.is_newest("n1", epoch));
    roster.close_session("n1", epoch, 4);
    let earlier = roster.hello(hello("n1", "rebooted", 0, 6), 5);
    assert!(
        matches!(earlier, Err(RejectedHello::Older { .. })),
        "within a boot the refusal is final"
    );
}

#[test]
fn the_rejection_of_an_agent_names_the_newer_boot_and_the_remedy() {
    let mut roster = Roster::default();
    roster.hello(hello("n1", "new", 200, 7), 0).unwrap();
    let text = roster.hello(hello("n1", "old", 100, 9), 0).unwrap_err().to_string();
    for part in ["n1", "boot new", "200", "stop this agent", "--node"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn hello_must_name_node_and_role() {
    let mut roster = Roster::default();
    assert_eq!(roster.hello(hello("", "a", 1, 1), 0), Err(RejectedHello::NoName));
    let mut roleless = hello("n1", "a", 1, 1);
    roleless.role = 0;
    assert_eq!(roster.hello(roleless, 0), Err(RejectedHello::NoRole { node: "n1".to_owned() }));
    assert!(roster.records(0).is_empty());
}

/// Agents refuse such names too: a node's name becomes a path, a namespace and a line on terminals.
#[test]
fn a_hello_whose_node_is_not_a_host_name_is_refused() {
    let mut roster = Roster::default();
    let long = "x".repeat(254);
    for name in ["a/b", "../a", "a\nb", "a\u{1b}[2J", "a b", "-a", "a_b", "a.", "ä", &long] {
        let rejected = roster.hello(hello(name, "a", 1, 1), 0).unwrap_err();
        assert_eq!(rejected, RejectedHello::NotHostName { node: name.to_owned() });
        let text = rejected.to_string();
        assert!(text.contains("host name") && text.contains("--node"), "{text}");
        assert!(!text.contains(char::is_control), "{text}");
    }
    assert!(roster.records(0).is_empty());
    for name in ["a", "compute-1", "x1000c0s0b0n0", "c1.hpc.example", "Rabbit-1"] {
        roster.hello(hello(name, "a", 1, 1), 0).unwrap();
    }
}

#[test]
fn closing_a_replaced_session_changes_nothing() {
    let mut roster = Roster::default();
    let old = roster.hello(hello("n1", "a", 1, 1), 10).unwrap();
    let new = roster.hello(hello("n1", "a", 1, 2), 20).unwrap();
    roster.close_session("n1", old, 30);
    assert!(roster.records(0)[0].connected);
    roster.close_session("n1", new, 40);
    let record = &roster.records(0)[0];
    assert!(!record.connected);
    assert_eq!(record.since, 40);
}

#[test]
fn the_list_of_nodes_has_a_gap_before_the_configuration_is_read_and_after_it_was_deleted() {
    let mut roster = Roster::default();
    assert!(roster.gap().is_some());
    assert_eq!(roster.location("compute-1"), None);
    let names = roster.configure(&configuration());
    assert_eq!(names.len(), 4);
    assert!(roster.gap().is_none());
    assert_eq!(roster.location("unheard-of"), Some(None));
    assert!(roster.is_rabbit("rabbit-1"));
    roster.forget_configuration();
    assert!(roster.gap().is_some());
}

#[test]
fn an_invalid_name_in_the_configuration_is_reported_as_a_gap() {
    let mut wrong = configuration();
    wrong.spec.storage_nodes[0].computes_access[1].name = "a\u{1b}/b".to_owned();
    wrong.spec.external_compute_nodes[0].name = "x".repeat(1 << 20);
    let mut roster = Roster::default();
    let names = roster.configure(&wrong);
    assert_eq!(names.iter().collect::<Vec<_>>(), ["compute-1", "rabbit-1"]);
    let gap = roster.gap().unwrap();
    assert!(gap.contains("spec.externalComputeNodes[0].name") && gap.len() < 1000, "{gap}");
    assert!(gap.contains("nor are 1 other"), "{gap}");
    wrong.spec.external_compute_nodes.clear();
    roster.configure(&wrong);
    let gap = roster.gap().unwrap();
    assert!(gap.contains(r#"spec.storageNodes[0].computesAccess[1].name: "a\u{1b}/b""#), "{gap}");
    roster.configure(&configuration());
    assert_eq!(roster.gap(), None);
}

#[test]
fn a_hello_can_make_an_unconfigured_node_a_rabbit_and_never_a_compute() {
    let mut roster = Roster::default();
    assert_eq!(roster.nodes(), None);
    roster.configure(&configuration());
    let compute = |node: &str| hello(node, "a", 1, 1);
    let rabbit = |node: &str| Hello { role: v1::Role::Rabbit.into(), ..compute(node) };
    for hello in [compute("unnamed-compute"), rabbit("unnamed-rabbit")] {
        roster.hello(hello, 0).unwrap();
    }
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let nodes = Nodes {
        rabbits: names(&["rabbit-1", "unnamed-rabbit"]),
        computes: names(&["compute-1", "compute-3", "login-1"]),
    };
    assert_eq!(roster.nodes(), Some(nodes));
}

#[test]
fn a_nodes_record_has_its_location_from_the_configuration_and_its_health_from_its_session() {
    let mut roster = Roster::default();
    roster.configure(&configuration());
    let epoch = roster.hello(hello("compute-3", "a", 1, 1), 10).unwrap();
    roster.hello(hello("stranger", "a", 1, 1), 10).unwrap();
    let health = Health { message: "2 mounts fail".to_owned(), ..Health::default() };
    roster.health("compute-3", epoch + 7, Health::default());
    roster.health("compute-3", epoch, health.clone());
    let records = roster.records(0);
    let names: Vec<_> = records.iter().map(|record| record.node.as_str()).collect();
    assert_eq!(names, ["compute-1", "compute-3", "login-1", "rabbit-1", "stranger"]);
    assert_eq!((records[1].rabbit.as_str(), records[1].index), ("rabbit-1", Some(6)));
    assert_eq!(records[1].health, Some(health));
    assert!(!records[0].connected);
    assert_eq!(records[0].health, None);
    assert_eq!(records[4].rabbit, "");
}

#[test]
fn an_agent_of_another_role_than_configured_is_rejected_once_the_configuration_is_known() {
    let mut roster = Roster::default();
    roster.hello(hello("rabbit-1", "a", 1, 1), 0).unwrap();
    roster.configure(&configuration());
    let text = roster.hello(hello("rabbit-1", "a", 1, 2), 0).unwrap_err().to_string();
    assert!(
        text.starts_with("rabbit-1 is a rabbit") && text.contains("SystemConfiguration"),
        "{text}"
    );
    let mut rabbit = hello("compute-1", "a", 1, 1);
    rabbit.role = v1::Role::Rabbit.into();
    assert!(matches!(
        roster.hello(rabbit, 0),
        Err(RejectedHello::WrongRole { connected_as: "rabbit", .. })
    ));
    roster.hello(hello("stranger", "a", 1, 1), 0).unwrap();
}
