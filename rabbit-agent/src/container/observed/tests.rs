use super::*;

/// What podman 4.3.1 said of a pod with four containers: two ended, one ran, one was not started. Of each container only what is
/// read here was kept, with what stands beside it.
const PODS: &[u8] = include_bytes!("recorded/pods.json");
const CONTAINERS: &str = include_str!("recorded/containers.json");

fn recorded(containers: &str, logs: Logs) -> BTreeMap<i64, Attempt> {
    let pods = pods(PODS).unwrap();
    let inspected = inspected(containers.as_bytes()).unwrap();
    let end = |path: &str| format!("end of {}", path.rsplit('/').next().unwrap());
    attempts(&pods, &inspected, logs, end, |process| process > 0).unwrap()
}

#[test]
fn containers_are_told_by_attempt_and_name_and_the_pods_own_is_none_of_them() {
    assert_eq!(members(&pods(PODS).unwrap()).len(), 5);
    let attempts = recorded(CONTAINERS, Logs::OfEnded);
    let attempt = &attempts[&1];
    assert_eq!((attempts.len(), attempt.is_running), (1, true));
    let names: Vec<&str> = attempt.containers.keys().map(String::as_str).collect();
    assert_eq!(names, ["app", "first", "late", "side"]);
    let app = &attempt.containers["app"];
    assert!(matches!(app.state, State::Ended { code: 3, is_out_of_memory: false, .. }), "{app:?}");
    assert_eq!((app.log.as_str(), app.monitor), ("end of ctr.log", None));
    assert!(matches!(attempt.containers["first"].state, State::Ended { code: 0, .. }));
    assert_eq!(attempt.containers["late"].state, State::Created);
    let side = &attempt.containers["side"];
    assert_eq!((side.state, side.log.as_str()), (State::Running, ""));
    let observed = Observed { attempts: attempts.clone(), ..Observed::default() };
    assert_eq!(observed.monitors(), [side.monitor.unwrap()]);
}

#[test]
fn the_log_of_one_that_runs_is_read_where_it_is_wanted() {
    let all = recorded(CONTAINERS, Logs::All);
    let log = |name: &str| all[&1].containers[name].log.as_str();
    assert_eq!((log("side"), log("app"), log("late")), ("end of ctr.log", "end of ctr.log", ""));
}

/// As podman tells it of what ran when the rabbit stopped.
#[test]
fn what_has_ended_without_an_end_was_lost() {
    let mut containers: serde_json::Value = serde_json::from_str(CONTAINERS).unwrap();
    for container in containers.as_array_mut().unwrap() {
        if container["Name"] == "w-u-1-side" {
            container["State"]["Status"] = "exited".into();
        }
    }
    let attempts = recorded(&containers.to_string(), Logs::OfEnded);
    assert_eq!(attempts[&1].containers["side"].state, State::Lost);
}

#[test]
fn nothing_is_told_as_an_empty_list_or_as_null() {
    assert!(pods(b"[]").unwrap().is_empty() && pods(b"null\n").unwrap().is_empty());
    let error = pods(b"podman: command not found").unwrap_err().to_string();
    assert!(error.contains("podman 4.3"), "{error}");
}
