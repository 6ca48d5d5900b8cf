//! Tests how ranks end when their pod ends, and when a peer vanishes.

use std::{fs, time::Instant};

use crate::{
    HOST, PATIENCE,
    scene::{Scene, result_of, until},
};

/// A script that writes a file when it begins. On SIGTERM the script saves its work. Saving takes longer than the grace
/// period of a command whose launcher has disconnected.
const SAVES: &str = "trap 'sleep 7; echo saved > $0.saved; exit 0' TERM
echo begun > $0.begun
while :; do sleep 0.1; done
";

/// Writes a script, and returns the path that the script has in pods.
fn script(scene: &Scene, name: &str, text: &str) -> String {
    fs::write(scene.path("nnf/scratch").join(name), text).unwrap();
    format!("/nnf/scratch/{name}")
}

fn wait_for_file(scene: &Scene, name: &str) {
    let file = scene.path("nnf/scratch").join(name);
    until(name, || fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n')));
}

#[test]
fn ranks_and_daemons_may_use_the_grace_period_of_their_pod() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(1, 1, PATIENCE);
    let rank = script(&scene, "rank", SAVES);
    let behind = script(&scene, "daemon", SAVES);
    scene.start_workers();
    // setsid: the process leaves its session and process group, as Open MPI's daemon does.
    let daemon = scene.launch(&[
        "/nnf/bin/rsh",
        HOST,
        &format!("setsid --fork sh -c 'exec sh {behind} >&- 2>&-'"),
    ]);
    assert!(daemon.as_ref().unwrap().status.success(), "{daemon:?}");
    wait_for_file(&scene, "daemon.begun");
    let running = scene.begin(&["/nnf/bin/rsh", HOST, &format!("sh {rank}")]);
    wait_for_file(&scene, "rank.begun");
    assert_eq!(scene.terminate_worker(0), Some(143));
    for name in ["rank.saved", "daemon.saved"] {
        let text = fs::read_to_string(scene.path("nnf/scratch").join(name));
        assert_eq!(text.ok().as_deref(), Some("saved\n"), "{name}");
    }
    let result = result_of(running);
    assert!(result.status.success(), "the launcher received the command's exit code: {result:?}");
}

#[test]
fn launcher_and_worker_notice_a_peer_that_vanishes() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(1, 1, PATIENCE);
    let rank = script(&scene, "rank", &SAVES.replace("sleep 7; ", ""));
    scene.start_workers();
    let before = scene.launch(&["/nnf/bin/rsh", HOST, "true"]).unwrap();
    assert!(before.status.success(), "{before:?}");
    let running = scene.begin(&["/nnf/bin/rsh", HOST, &format!("sh {rank}")]);
    wait_for_file(&scene, "rank.begun");
    scene.cut_worker(0);
    let began = Instant::now();
    let result = result_of(running);
    assert!(!result.status.success(), "{result:?}");
    let expected = format!("the connection with {HOST} broke while its command ran");
    assert!(result.errors.contains(&expected), "{result:?}");
    wait_for_file(&scene, "rank.saved");
    assert!(
        began.elapsed().as_secs() < 90,
        "the kernel notices within half a minute: {:?}",
        began.elapsed()
    );
}
