use super::*;

/// Output of podman 4.3.1 for a pod with four containers: two ended, one running, one not started. The output
/// was cut down to the JSON objects that [`super`] reads.
const PODS: &[u8] = include_bytes!("recorded/pods.json");
const CONTAINERS: &str = include_str!("recorded/containers.json");

fn recorded(containers: &str, logs: Logs) -> BTreeMap<i64, ObservedAttempt> {
    let pods = parse_pods(PODS).unwrap();
    let inspected = parse_inspected(containers.as_bytes()).unwrap();
    let end = |path: &str| format!("end of {}", path.rsplit('/').next().unwrap());
    by_attempt(&pods, &inspected, logs, end, |process| process > 0).unwrap()
}

#[test]
fn containers_are_grouped_by_attempt_and_name_without_the_infra_container() {
    assert_eq!(container_ids(&parse_pods(PODS).unwrap()).len(), 5);
    let attempts = recorded(CONTAINERS, Logs::OfEnded);
    let attempt = &attempts[&1];
    assert_eq!((attempts.len(), attempt.is_running), (1, true));
    let names: Vec<&str> = attempt.containers.keys().map(String::as_str).collect();
    assert_eq!(names, ["app", "first", "late", "side"]);
    let app = &attempt.containers["app"];
    assert!(
        matches!(app.state, ContainerState::Ended { code: 3, is_out_of_memory: false, .. }),
        "{app:?}"
    );
    assert_eq!((app.log.as_str(), app.monitor), ("end of ctr.log", None));
    assert!(matches!(attempt.containers["first"].state, ContainerState::Ended { code: 0, .. }));
    assert_eq!(attempt.containers["late"].state, ContainerState::Created);
    let side = &attempt.containers["side"];
    assert_eq!((side.state, side.log.as_str()), (ContainerState::Running, ""));
    let observed = Observed { attempts: attempts.clone(), ..Observed::default() };
    assert_eq!(observed.monitors(), [side.monitor.unwrap()]);
}

#[test]
fn the_log_of_a_running_container_is_read_on_request() {
    let all = recorded(CONTAINERS, Logs::All);
    let log = |name: &str| all[&1].containers[name].log.as_str();
    assert_eq!((log("side"), log("app"), log("late")), ("end of ctr.log", "end of ctr.log", ""));
}

/// After a reboot podman reports "exited" without an end time.
#[test]
fn an_exited_container_without_an_end_time_is_lost() {
    let mut containers: serde_json::Value = serde_json::from_str(CONTAINERS).unwrap();
    for container in containers.as_array_mut().unwrap() {
        if container["Name"] == "w-u-1-side" {
            container["State"]["Status"] = "exited".into();
        }
    }
    let attempts = recorded(&containers.to_string(), Logs::OfEnded);
    assert_eq!(attempts[&1].containers["side"].state, ContainerState::Lost);
}

#[test]
fn an_empty_list_of_pods_may_be_null() {
    assert!(parse_pods(b"[]").unwrap().is_empty() && parse_pods(b"null\n").unwrap().is_empty());
    let error = parse_pods(b"podman: command not found").unwrap_err().to_string();
    assert!(error.contains("podman 4.3"), "{error}");
}
