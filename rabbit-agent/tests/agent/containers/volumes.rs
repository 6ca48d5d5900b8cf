//! Tests the directories that the containers of an attempt share.

use super::{
    logs::{answered, request_logs},
    *,
};

#[tokio::test]
async fn containers_share_a_directory_that_is_new_for_each_attempt() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let bench = bench(&podman).await;
    let script = "ls /shared; mkdir /shared/more; exit 1";
    let mut object = containers(&podman.image(), script);
    let spec = &mut object["spec"];
    spec["retryLimit"] = json!(1);
    spec["emptyDirs"] = json!(["v", "unused"]);
    let mount =
        |read_only: bool| json!([{"name": "v", "mountPath": "/shared", "readOnly": read_only}]);
    let mut first = spec["containers"][0].clone();
    first["name"] = json!("first");
    first["args"] =
        json!(["ls -A /shared; ls -ldn /shared | grep -c '^drwx------ .* 1050  *1051 '; \
                echo $NNF_NODE_NAME > /shared/from-the-first"]);
    first["volumeMounts"] = mount(false);
    spec["initContainers"] = json!([first]);
    let mut reader = spec["containers"][0].clone();
    reader["name"] = json!("reader");
    reader["args"] = json!(["cat /shared/from-the-first; touch /shared/y"]);
    reader["volumeMounts"] = mount(true);
    spec["containers"][0]["volumeMounts"] = mount(false);
    spec["containers"].as_array_mut().unwrap().push(reader);
    let made: NodeContainers = bench.make(RABBIT, object).await;
    bench.until(NAME, "ended once", |object| !status(object).message.is_empty()).await;
    // The next attempt starts after 10 s.
    bench.until(NAME, "in its second attempt", |object| status(object).attempt == 2).await;
    let failed = bench.until(NAME, "failed", has_state(NodeContainersState::Failed)).await;
    let output = |attempt: i64, container: &str| -> String {
        let logs = status(&failed).logs.into_iter();
        let own = logs.filter(|log| log.attempt == attempt && log.container == container);
        own.map(|log| log.text).collect()
    };
    for attempt in [1, 2] {
        assert_eq!(
            output(attempt, "first"),
            "1\n",
            "attempt {attempt} begins with an empty directory"
        );
        assert_eq!(output(attempt, "app"), "from-the-first\n");
        let read_only = "rabbit-1\ntouch: /shared/y: Read-only file system\n";
        assert_eq!(output(attempt, "reader"), read_only);
    }
    let place = bench.directory.path().join("containers").join(made.uid().unwrap());
    let left = std::fs::read_dir(place.join("volumes")).unwrap().count();
    assert_eq!(left, 0, "no shared directory is left after the end");
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    assert!(!place.exists());
}

/// The next agent also finds a directory that a killed agent did not finish.
#[tokio::test]
async fn a_shared_directory_outlives_the_agent_and_ends_with_its_containers() {
    if !gate::podman() {
        return;
    }
    let podman = Podman::new();
    let mut bench = bench(&podman).await;
    let script = "echo kept > /shared/file; while true; do sleep 0.1; done";
    let mut object = containers(&podman.image(), script);
    object["spec"]["emptyDirs"] = json!(["v"]);
    object["spec"]["containers"][0]["volumeMounts"] =
        json!([{"name": "v", "mountPath": "/shared"}]);
    let made: NodeContainers = bench.make(RABBIT, object).await;
    let place = bench.directory.path().join("containers").join(made.uid().unwrap());
    let file = place.join("volumes/1/v/file");
    bench.until(NAME, "ready", has_state(NodeContainersState::Ready)).await;
    while !std::fs::read_to_string(&file).is_ok_and(|text| text == "kept\n") {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bench.stop().await;
    // An agent that is killed while it creates the directories of the next attempt leaves this directory.
    std::fs::create_dir_all(place.join("volumes/2.unfinished/v")).unwrap();
    bench.start();
    bench
        .change::<NodeContainers>(NAME, json!({"spec": {"terminationGracePeriodSeconds": 1}}))
        .await;
    request_logs(&bench, "03:00:00.000000").await;
    bench.until(NAME, "answered", |object| answered(object, "03:00:00.000000")).await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept\n");
    bench.change::<NodeContainers>(NAME, json!({"spec": {"suspend": true}})).await;
    bench.until(NAME, "ended", has_state(NodeContainersState::Suspended)).await;
    assert!(!place.join("volumes/1").exists());
    bench.delete::<NodeContainers>(NAME).await;
    bench.until_gone::<NodeContainers>(NAME).await;
    assert!(!place.exists() && podman.pods().is_empty());
}
