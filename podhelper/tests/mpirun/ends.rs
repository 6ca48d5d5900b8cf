//! How ranks end: with their pod, and with a peer that nobody hears of any more.

use std::{fs, time::Instant};

use crate::{
    HOST, PATIENCE,
    scene::{Scene, told, until},
};

/// A program that says when it has begun, and takes its time to save its work when it is told to end: longer than one has whose
/// launcher went away.
const SAVES: &str = "trap 'sleep 7; echo saved > $0.saved; exit 0' TERM
echo begun > $0.begun
while :; do sleep 0.1; done
";

/// A script of this name, and where it is in pods.
fn script(scene: &Scene, name: &str, text: &str) -> String {
    fs::write(scene.path("nnf/scratch").join(name), text).unwrap();
    format!("/nnf/scratch/{name}")
}

fn until_said(scene: &Scene, name: &str) {
    let file = scene.path("nnf/scratch").join(name);
    until(name, || fs::read_to_string(&file).ok().filter(|text| text.ends_with('\n')));
}

#[test]
fn ranks_and_daemons_hear_that_their_pod_ends_and_have_its_time() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(1, 1, PATIENCE);
    let rank = script(&scene, "rank", SAVES);
    let behind = script(&scene, "daemon", SAVES);
    scene.start_workers();
    // It leaves its session, as Open MPI's daemon does.
    let told_first = scene.launch(&[
        "/nnf/bin/rsh",
        HOST,
        &format!("setsid --fork sh -c 'exec sh {behind} >&- 2>&-'"),
    ]);
    assert!(told_first.as_ref().unwrap().status.success(), "{told_first:?}");
    until_said(&scene, "daemon.begun");
    let running = scene.begin(&["/nnf/bin/rsh", HOST, &format!("sh {rank}")]);
    until_said(&scene, "rank.begun");
    assert_eq!(scene.terminate_worker(0), Some(143));
    for name in ["rank.saved", "daemon.saved"] {
        let text = fs::read_to_string(scene.path("nnf/scratch").join(name));
        assert_eq!(text.ok().as_deref(), Some("saved\n"), "{name}");
    }
    let told = told(running);
    assert!(told.status.success(), "its end was told to the launcher: {told:?}");
}

#[test]
fn a_peer_that_vanishes_is_noticed_at_both_ends() {
    if !gate::mpi() {
        return;
    }
    let mut scene = Scene::new(1, 1, PATIENCE);
    let rank = script(&scene, "rank", &SAVES.replace("sleep 7; ", ""));
    scene.start_workers();
    let before = scene.launch(&["/nnf/bin/rsh", HOST, "true"]).unwrap();
    assert!(before.status.success(), "{before:?}");
    let running = scene.begin(&["/nnf/bin/rsh", HOST, &format!("sh {rank}")]);
    until_said(&scene, "rank.begun");
    scene.cut_worker(0);
    let began = Instant::now();
    let told = told(running);
    assert!(!told.status.success(), "{told:?}");
    let expected = format!("the connection with {HOST} broke while its command ran");
    assert!(told.errors.contains(&expected), "{told:?}");
    until_said(&scene, "rank.saved");
    assert!(began.elapsed().as_secs() < 90, "it takes half a minute: {:?}", began.elapsed());
}
