//! Tests NnfDataMovements on a real XFS.

mod hanging;
mod site;

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::Duration,
};

use api::{
    NnfDataMovement, NnfDataMovementProfile,
    names::{annotation::BYTES_PER_SECOND, movement::FINALIZER},
    nnf_data_movement::{
        DataMovementState::Running,
        DataMovementVerdict::{Cancelled, Failed, Invalid, Success},
    },
};
use kube::ResourceExt;
use serde_json::{Value, json};
pub(crate) use site::config;
use site::{SLOW, Site, USER, has_progress, is_finished_as, owner, profile, status, waits_for};

use crate::bench::{Bench, RABBIT};

const NAME: &str = "w-1-0";

/// Creates `count` source files of 256 KiB.
fn plant_files(site: &Site, count: usize) {
    for number in 0..count {
        site.plant(&format!("in/{number}"), &vec![7; 256 << 10]);
    }
}

/// Returns the number of state directories of movements.
fn state_directories(bench: &Bench) -> usize {
    fs::read_dir(&bench.movements.state).map_or(0, Iterator::count)
}

#[tokio::test]
async fn copies_in_and_out_write_files_of_the_user_and_deletion_removes_the_state_directories() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::new();
    site.plant("in/a/file", b"content");
    site.plant("in/empty", b"");
    let bench = site.bench(|_| {}).await;
    let object = site.movement(NAME, "/in/", "/");
    bench.make::<NnfDataMovement>(RABBIT, object).await;
    let ended = bench.until(NAME, "copied", is_finished_as(Success)).await;
    assert_eq!(ended.finalizers(), [FINALIZER]);
    let file = site.storage().join("a/file");
    assert_eq!((fs::read(&file).unwrap(), owner(&file)), (b"content".to_vec(), USER));
    let final_status = status(&ended);
    let progress = &final_status.command_status;
    assert_eq!((progress.progress, progress.files, progress.items), (Some(100), Some(2), Some(3)));
    assert_eq!((&*progress.data, &*progress.command), ("7 B", "datamover"));
    assert!(
        final_status.end_time >= final_status.start_time && final_status.start_time.is_some(),
        "{final_status:?}"
    );
    assert_eq!((final_status.restarts, &*final_status.message, final_status.error), (0, "", None));
    bench
        .make::<NnfDataMovement>(RABBIT, site.movement_out("w-2-0", "/a", "/out", "rabbit-1-0"))
        .await;
    bench.until("w-2-0", "copied out", is_finished_as(Success)).await;
    let file = site.home().join("out/rabbit-1-0/a/file");
    assert_eq!((fs::read(&file).unwrap(), owner(&file)), (b"content".to_vec(), USER));
    for name in [NAME, "w-2-0"] {
        bench.delete::<NnfDataMovement>(name).await;
        bench.until_gone::<NnfDataMovement>(name).await;
    }
    assert_eq!(state_directories(&bench), 0);
}

#[tokio::test]
async fn a_restarted_agent_continues_an_interrupted_movement() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::new();
    plant_files(&site, 16);
    let mut bench = site.bench(|config| config.rate = Some(SLOW)).await;
    bench.make::<NnfDataMovement>(RABBIT, site.movement(NAME, "/in", "/")).await;
    bench.until(NAME, "on its way", has_progress).await;
    bench.stop().await;
    bench.movements.rate = None;
    bench.start();
    let ended = bench.until(NAME, "copied", is_finished_as(Success)).await;
    let final_status = status(&ended);
    assert_eq!((final_status.restarts, final_status.command_status.files), (1, Some(16)));
    assert_eq!(fs::read_dir(site.storage().join("in")).unwrap().count(), 16);
}

#[tokio::test]
async fn the_limit_of_a_movement_holds_until_its_annotation_is_removed() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::new();
    plant_files(&site, 64);
    let bench = site.bench(|_| {}).await;
    let mut object = site.movement(NAME, "/in", "/");
    // At this rate the copy takes 4 minutes, which is longer than the test waits.
    object["metadata"]["annotations"][BYTES_PER_SECOND] = json!("65536");
    bench.make::<NnfDataMovement>(RABBIT, object).await;
    let runs = |object: &NnfDataMovement| {
        status(object).command_status.bytes.is_some_and(|bytes| bytes < 16 << 20)
    };
    bench.until(NAME, "on its way", runs).await;
    let removed = json!({"metadata": {"annotations": {BYTES_PER_SECOND: null}}});
    bench.change::<NnfDataMovement>(NAME, removed).await;
    bench.until(NAME, "copied", is_finished_as(Success)).await;
}

#[tokio::test]
async fn a_profile_may_copy_extended_attributes_and_allow_failed_files() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::new();
    let open = site.plant("in/open", b"content");
    rustix::fs::setxattr(&open, "user.colour", b"red", rustix::fs::XattrFlags::empty()).unwrap();
    let secret = site.plant("in/secret", b"content");
    fs::set_permissions(secret, Permissions::from_mode(0o000)).unwrap();
    let bench = site.bench(|_| {}).await;
    let fields = [("copyXattrs", true), ("allowFailedFiles", true)];
    bench.make::<NnfDataMovementProfile>("default", profile("w-2", &fields)).await;
    let mut object = site.movement("w-2-0", "/in/", "/");
    object["spec"]["profileReference"]["name"] = json!("w-2");
    bench.make::<NnfDataMovement>(RABBIT, object).await;
    let ended = status(&bench.until("w-2-0", "copied", is_finished_as(Success)).await);
    assert!(ended.message.starts_with("1 file or directory was not copied"), "{}", ended.message);
    assert_eq!(ended.failures.len(), 1);
    let mut value = [0; 64];
    let copy = site.storage().join("open");
    let length = rustix::fs::getxattr(copy, "user.colour", &mut value[..]).unwrap();
    assert_eq!(&value[..length], b"red");
}

#[tokio::test]
async fn cancelling_a_running_movement_leaves_no_temporary_files() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::new();
    plant_files(&site, 64);
    let bench = site.bench(|config| config.rate = Some(SLOW)).await;
    bench.make::<NnfDataMovement>(RABBIT, site.movement(NAME, "/in", "/")).await;
    bench.until(NAME, "on its way", has_progress).await;
    bench.change::<NnfDataMovement>(NAME, json!({"spec": {"cancel": true}})).await;
    let ended = bench.until(NAME, "cancelled", is_finished_as(Cancelled)).await;
    assert_eq!(status(&ended).message, "cancelled");
    assert_eq!(site.temporary_files(), [""; 0].map(Into::<std::path::PathBuf>::into));
}

/// Writes a program that appends its standard input to a file, and returns the paths of both.
fn recorder(site: &Site) -> (PathBuf, PathBuf) {
    let (program, lines) = (site.home().join("recorder"), site.home().join("lines"));
    fs::write(&program, format!("#!/bin/sh\nexec cat >> '{}'\n", lines.display())).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    (program, lines)
}

#[tokio::test]
async fn running_movements_share_the_total_rate_of_the_rabbit() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::new();
    let (program, lines) = recorder(&site);
    let bench = site
        .bench(|config| (config.datamover, config.total_rate) = (program.clone(), Some(1000)))
        .await;
    for name in [NAME, "w-1-1"] {
        bench.make::<NnfDataMovement>(RABBIT, site.movement(name, "/file", "/")).await;
        let runs = |object: &NnfDataMovement| status(object).state == Some(Running);
        bench.until(name, "running", runs).await;
    }
    // An order has the rate at the start of its copy, and a later line has a change.
    let rates = || -> Vec<u64> {
        let lines = fs::read_to_string(&lines).unwrap();
        let line = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        lines.lines().filter_map(|text| line(text)["rate"].as_u64()).collect()
    };
    // The program writes a line a moment after it was sent.
    for _ in 0..200 {
        if rates().len() == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(rates(), [1000, 500, 500]);
}

#[tokio::test]
async fn a_deleted_movement_disappears_once_its_process_and_its_temporary_files_are_gone() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::new();
    plant_files(&site, 64);
    let mut bench = site.bench(|config| config.rate = Some(SLOW)).await;
    bench.make::<NnfDataMovement>(RABBIT, site.movement(NAME, "/in", "/")).await;
    bench.until(NAME, "on its way", has_progress).await;
    // The restarted agent reads the deletion before it would continue the copy.
    bench.stop().await;
    bench.delete::<NnfDataMovement>(NAME).await;
    bench.start();
    bench.until_gone::<NnfDataMovement>(NAME).await;
    assert_eq!((site.temporary_files().len(), state_directories(&bench)), (0, 0));
    bench.make::<NnfDataMovement>(RABBIT, site.movement(NAME, "/in", "/")).await;
    bench.until(NAME, "on its way", has_progress).await;
    bench.delete::<NnfDataMovement>(NAME).await;
    bench.until_gone::<NnfDataMovement>(NAME).await;
    assert_eq!((site.temporary_files().len(), state_directories(&bench)), (0, 0));
}

#[tokio::test]
async fn a_movement_waits_for_a_missing_mount_and_writes_nothing_into_its_directory() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::unmounted();
    site.plant("file", b"content");
    let bench = site.bench(|_| {}).await;
    for name in [NAME, "w-1-1"] {
        bench.make::<NnfDataMovement>(RABBIT, site.movement(name, "/file", "/")).await;
        bench.until(name, "waiting", waits_for("is not mounted on this rabbit")).await;
    }
    bench.change::<NnfDataMovement>("w-1-1", json!({"spec": {"cancel": true}})).await;
    let cancelled = bench.until("w-1-1", "cancelled", is_finished_as(Cancelled)).await;
    assert_eq!(status(&cancelled).start_time, None);
    assert_eq!(fs::read_dir(site.storage()).unwrap().count(), 0);
    site.mount();
    bench.until(NAME, "copied", is_finished_as(Success)).await;
    assert_eq!(fs::read(site.storage().join("file")).unwrap(), b"content");
}

#[tokio::test]
async fn a_movement_fails_with_the_path_of_a_file_that_the_user_may_not_read() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::new();
    site.plant("in/open", b"content");
    let secret = site.plant("in/sec\nret", b"content");
    fs::set_permissions(secret, fs::Permissions::from_mode(0o000)).unwrap();
    let bench = site.bench(|_| {}).await;
    bench.make::<NnfDataMovement>(RABBIT, site.movement(NAME, "/in", "/")).await;
    let ended = bench.until(NAME, "failed", is_finished_as(Failed)).await;
    let final_status = status(&ended);
    assert!(
        final_status.message.starts_with("1 file or directory was not copied: "),
        "{}",
        final_status.message
    );
    assert!(
        final_status.message.contains("sec\\nret (open): Permission denied"),
        "{}",
        final_status.message
    );
    assert!(final_status.error.unwrap().debug_message.contains("sec\\nret"));
    assert_eq!(fs::read(site.storage().join("in/open")).unwrap(), b"content");
}

#[tokio::test]
async fn movements_run_one_at_a_time_and_users_take_turns_when_the_limit_is_1() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::new();
    plant_files(&site, 4);
    let mut bench = site.bench(|config| config.at_once = 1).await;
    // The restarted agent reads all movements at once.
    bench.stop().await;
    let names = ["a-1-0", "a-1-1", "a-1-2", "b-1-0"];
    for name in names {
        let mut object = site.movement(name, "/in", &format!("/{name}"));
        if name == "b-1-0" {
            // The new mode lets the second user write to the directories of the first.
            object["spec"]["userId"] = json!(USER + 1);
            fs::set_permissions(site.storage(), fs::Permissions::from_mode(0o777)).unwrap();
        }
        bench.make::<NnfDataMovement>(RABBIT, object).await;
    }
    bench.start();
    let mut runs = Vec::new();
    for name in names {
        let final_status = status(&bench.until(name, "copied", is_finished_as(Success)).await);
        runs.push((final_status.start_time, final_status.end_time, name));
    }
    runs.sort();
    assert!(
        runs.windows(2).all(|pair| pair[0].1 <= pair[1].0),
        "two movements ran at the same time: {runs:?}"
    );
    // Either user may come first: objects that were created within the same second count as equally old.
    assert!(
        runs[..2].iter().any(|(_, _, name)| *name == "b-1-0"),
        "the second user waited for two turns: {runs:?}"
    );
}

/// Each object is written on its own, so that the rate holds for any number of rabbits.
#[tokio::test]
async fn the_progress_of_16_movements_is_written_at_most_once_in_the_interval_of_their_profile() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::new();
    plant_files(&site, 8);
    let bench = site.bench(|config| (config.at_once, config.rate) = (16, Some(SLOW))).await;
    let mut histories = Vec::new();
    for number in 0..16 {
        let name = format!("w-1-{number}");
        let object = site.movement(&name, "/in", &format!("/{number}/"));
        let made = bench.make::<NnfDataMovement>(RABBIT, object).await;
        histories.push((name, bench.history(&made)));
    }
    for (name, history) in histories {
        bench.until(&name, "copied", is_finished_as(Success)).await;
        bench.delete::<NnfDataMovement>(&name).await;
        let versions = history.await.unwrap();
        let running = versions.iter().map(status).filter(|status| status.state == Some(Running));
        let written: Vec<_> =
            running.filter_map(|status| status.command_status.last_message_time).collect();
        assert!(written.len() > 1, "{name} has no progress: {versions:?}");
        for pair in written.windows(2) {
            let between = pair[1].0.duration_since(pair[0].0);
            assert!(between.as_millis() >= 1000, "{name} was written at {written:?}");
        }
    }
}

#[tokio::test]
async fn a_movement_as_root_becomes_invalid_and_a_movement_of_another_program_stays_unchanged() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::new();
    site.plant("file", b"content");
    let bench = site.bench(|_| {}).await;
    let mut theirs = site.movement("theirs", "/file", "/");
    theirs["spec"]["destination"]["storageReference"]["kind"] = json!("NnfStorage");
    bench.make::<NnfDataMovement>(RABBIT, theirs).await;
    let mut root = site.movement(NAME, "/file", "/");
    root["spec"]["userId"] = json!(0);
    bench.make::<NnfDataMovement>(RABBIT, root).await;
    let ended = bench.until(NAME, "invalid", is_finished_as(Invalid)).await;
    assert!(status(&ended).message.contains("spec.userId is 0"), "{:?}", status(&ended));
    assert!(ended.finalizers().is_empty());
    let theirs: NnfDataMovement = bench.get("theirs").await;
    assert!(theirs.finalizers().is_empty() && theirs.status.is_none(), "{theirs:?}");
}

#[tokio::test]
async fn a_missing_program_or_profile_is_reported_with_its_remedy() {
    if !tests::gate::loop_devices() {
        return;
    }
    let site = Site::new();
    site.plant("file", b"content");
    let bench = site.bench(|config| config.datamover = "/nowhere/datamover".into()).await;
    bench.make::<NnfDataMovement>(RABBIT, site.movement(NAME, "/file", "/")).await;
    bench.until(NAME, "waiting", waits_for("name its path with --datamover")).await;
    let mut object = site.movement("w-2-0", "/file", "/");
    object["spec"]["profileReference"]["name"] = json!("missing");
    bench.make::<NnfDataMovement>(RABBIT, object).await;
    bench.until("w-2-0", "waiting", waits_for("default/missing does not exist: create it")).await;
    assert!(!site.storage().join("file").exists());
}
