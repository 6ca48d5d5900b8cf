//! Data movements on a real XFS, as a NnfDataMovement asks.

mod site;

use std::{fs, os::unix::fs::PermissionsExt};

use api::{
    NnfDataMovement,
    names::movement::FINALIZER,
    nnf_data_movement::DataMovementVerdict::{Cancelled, Failed, Invalid, Success},
};
use kube::ResourceExt;
use serde_json::json;
pub(crate) use site::config;
use site::{SLOW, Site, USER, has_progress, is, owner, status, waits};

use crate::bench::{Bench, RABBIT};

const NAME: &str = "w-1-0";

/// Plants as many files of 256 KiB.
fn plant_files(site: &Site, count: usize) {
    for number in 0..count {
        site.plant(&format!("in/{number}"), &vec![7; 256 << 10]);
    }
}

/// Directories of movements that the agent keeps.
fn records(bench: &Bench) -> usize {
    fs::read_dir(&bench.movements.state).map_or(0, Iterator::count)
}

#[tokio::test]
async fn data_comes_in_and_goes_out_as_the_user_and_leaves_nothing_behind() {
    if !site::can_run() {
        return;
    }
    let site = Site::new();
    site.plant("in/a/file", b"content");
    site.plant("in/empty", b"");
    let bench = site.bench(|_| {}).await;
    let object = site.movement(NAME, "/in/", "/");
    bench.make::<NnfDataMovement>(RABBIT, object).await;
    let ended = bench.until(NAME, "copied", is(Success)).await;
    assert_eq!(ended.finalizers(), [FINALIZER]);
    let file = site.storage().join("a/file");
    assert_eq!((fs::read(&file).unwrap(), owner(&file)), (b"content".to_vec(), USER));
    let told = status(&ended);
    let progress = &told.command_status;
    assert_eq!((progress.progress, progress.files, progress.items), (Some(100), Some(2), Some(3)));
    assert_eq!((&*progress.data, &*progress.command), ("7 B", "datamover"));
    assert!(told.end_time >= told.start_time && told.start_time.is_some(), "{told:?}");
    assert_eq!((told.restarts, &*told.message, told.error), (0, "", None));
    bench.make::<NnfDataMovement>(RABBIT, site.out("w-2-0", "/a", "/out", "rabbit-1-0")).await;
    bench.until("w-2-0", "copied out", is(Success)).await;
    let file = site.home().join("out/rabbit-1-0/a/file");
    assert_eq!((fs::read(&file).unwrap(), owner(&file)), (b"content".to_vec(), USER));
    for name in [NAME, "w-2-0"] {
        bench.delete::<NnfDataMovement>(name).await;
        bench.until_gone::<NnfDataMovement>(name).await;
    }
    assert_eq!(records(&bench), 0);
}

#[tokio::test]
async fn the_next_agent_goes_on_with_what_an_earlier_one_began() {
    if !site::can_run() {
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
    let ended = bench.until(NAME, "copied", is(Success)).await;
    let told = status(&ended);
    assert_eq!((told.restarts, told.command_status.files), (1, Some(16)));
    assert_eq!(fs::read_dir(site.storage().join("in")).unwrap().count(), 16);
}

#[tokio::test]
async fn a_movement_that_runs_is_cancelled_and_leaves_no_temporary_files() {
    if !site::can_run() {
        return;
    }
    let site = Site::new();
    plant_files(&site, 64);
    let bench = site.bench(|config| config.rate = Some(SLOW)).await;
    bench.make::<NnfDataMovement>(RABBIT, site.movement(NAME, "/in", "/")).await;
    bench.until(NAME, "on its way", has_progress).await;
    bench.change::<NnfDataMovement>(NAME, json!({"spec": {"cancel": true}})).await;
    let ended = bench.until(NAME, "cancelled", is(Cancelled)).await;
    assert_eq!(status(&ended).message, "cancelled");
    assert_eq!(site.temporary(), [""; 0].map(Into::<std::path::PathBuf>::into));
}

#[tokio::test]
async fn a_deleted_movement_goes_once_its_process_and_its_temporary_files_are_gone() {
    if !site::can_run() {
        return;
    }
    let site = Site::new();
    plant_files(&site, 64);
    let mut bench = site.bench(|config| config.rate = Some(SLOW)).await;
    bench.make::<NnfDataMovement>(RABBIT, site.movement(NAME, "/in", "/")).await;
    bench.until(NAME, "on its way", has_progress).await;
    // The next agent finds the deletion before it goes on.
    bench.stop().await;
    bench.delete::<NnfDataMovement>(NAME).await;
    bench.start();
    bench.until_gone::<NnfDataMovement>(NAME).await;
    assert_eq!((site.temporary().len(), records(&bench)), (0, 0));
    bench.make::<NnfDataMovement>(RABBIT, site.movement(NAME, "/in", "/")).await;
    bench.until(NAME, "on its way", has_progress).await;
    bench.delete::<NnfDataMovement>(NAME).await;
    bench.until_gone::<NnfDataMovement>(NAME).await;
    assert_eq!((site.temporary().len(), records(&bench)), (0, 0));
}

#[tokio::test]
async fn a_missing_mount_is_waited_for_and_nothing_is_written_beneath_it() {
    if !site::can_run() {
        return;
    }
    let site = Site::unmounted();
    site.plant("file", b"content");
    let bench = site.bench(|_| {}).await;
    for name in [NAME, "w-1-1"] {
        bench.make::<NnfDataMovement>(RABBIT, site.movement(name, "/file", "/")).await;
        bench.until(name, "waiting", waits("is not mounted on this rabbit")).await;
    }
    bench.change::<NnfDataMovement>("w-1-1", json!({"spec": {"cancel": true}})).await;
    let cancelled = bench.until("w-1-1", "cancelled", is(Cancelled)).await;
    assert_eq!(status(&cancelled).start_time, None);
    assert_eq!(fs::read_dir(site.storage()).unwrap().count(), 0);
    site.mount();
    bench.until(NAME, "copied", is(Success)).await;
    assert_eq!(fs::read(site.storage().join("file")).unwrap(), b"content");
}

#[tokio::test]
async fn a_file_that_the_user_may_not_read_fails_the_movement_with_its_path() {
    if !site::can_run() {
        return;
    }
    let site = Site::new();
    site.plant("in/open", b"content");
    let secret = site.plant("in/sec\nret", b"content");
    fs::set_permissions(secret, fs::Permissions::from_mode(0o000)).unwrap();
    let bench = site.bench(|_| {}).await;
    bench.make::<NnfDataMovement>(RABBIT, site.movement(NAME, "/in", "/")).await;
    let ended = bench.until(NAME, "failed", is(Failed)).await;
    let told = status(&ended);
    assert!(told.message.starts_with("1 file or directory was not copied: "), "{}", told.message);
    assert!(told.message.contains("sec\\nret (open): Permission denied"), "{}", told.message);
    assert!(told.error.unwrap().debug_message.contains("sec\\nret"));
    assert_eq!(fs::read(site.storage().join("in/open")).unwrap(), b"content");
}

#[tokio::test]
async fn users_take_turns_for_the_places_of_a_rabbit() {
    if !site::can_run() {
        return;
    }
    let site = Site::new();
    plant_files(&site, 4);
    let mut bench = site.bench(|config| config.at_once = 1).await;
    // The agent finds them all at once.
    bench.stop().await;
    let names = ["a-1-0", "a-1-1", "a-1-2", "b-1-0"];
    for name in names {
        let mut object = site.movement(name, "/in", &format!("/{name}"));
        if name == "b-1-0" {
            // The second user may write to the directories of the first.
            object["spec"]["userId"] = json!(USER + 1);
            fs::set_permissions(site.storage(), fs::Permissions::from_mode(0o777)).unwrap();
        }
        bench.make::<NnfDataMovement>(RABBIT, object).await;
    }
    bench.start();
    let mut runs = Vec::new();
    for name in names {
        let told = status(&bench.until(name, "copied", is(Success)).await);
        runs.push((told.start_time, told.end_time, name));
    }
    runs.sort();
    assert!(runs.windows(2).all(|pair| pair[0].1 <= pair[1].0), "one at a time: {runs:?}");
    // Which user comes first is chance: objects of one second are of one age.
    assert!(runs[..2].iter().any(|(_, _, name)| *name == "b-1-0"), "{runs:?}");
}

#[tokio::test]
async fn what_no_agent_can_carry_out_is_invalid_and_others_movements_are_left_alone() {
    if !site::can_run() {
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
    let ended = bench.until(NAME, "invalid", is(Invalid)).await;
    assert!(status(&ended).message.contains("spec.userId is 0"), "{:?}", status(&ended));
    assert!(ended.finalizers().is_empty());
    let theirs: NnfDataMovement = bench.get("theirs").await;
    assert!(theirs.finalizers().is_empty() && theirs.status.is_none(), "{theirs:?}");
}

#[tokio::test]
async fn a_missing_program_or_profile_is_told_with_its_remedy() {
    if !site::can_run() {
        return;
    }
    let site = Site::new();
    site.plant("file", b"content");
    let bench = site.bench(|config| config.datamover = "/nowhere/datamover".into()).await;
    bench.make::<NnfDataMovement>(RABBIT, site.movement(NAME, "/file", "/")).await;
    bench.until(NAME, "waiting", waits("give its path by --datamover")).await;
    let mut object = site.movement("w-2-0", "/file", "/");
    object["spec"]["profileReference"]["name"] = json!("missing");
    bench.make::<NnfDataMovement>(RABBIT, object).await;
    bench.until("w-2-0", "waiting", waits("default/missing does not exist: create it")).await;
    assert!(!site.storage().join("file").exists());
}
