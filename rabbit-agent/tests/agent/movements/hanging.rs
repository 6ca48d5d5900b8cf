//! A source that hangs: a FUSE whose server never answers.

use std::{fs, os::fd::AsRawFd, path::PathBuf, time::Duration};

use api::{
    NnfDataMovement,
    nnf_data_movement::DataMovementVerdict::{Cancelled, Success},
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::json;

use super::{
    NAME,
    site::{Site, is_finished_as, status},
};
use crate::bench::RABBIT;

/// A mounted FUSE. Each access waits until the process that waits is killed, or until this value is dropped.
struct Hanging {
    directory: PathBuf,
    _device: fs::File,
}

impl Hanging {
    #[expect(clippy::disallowed_methods, reason = "a test prepares the node by hand")]
    fn mount(directory: PathBuf) -> Self {
        let device = fs::File::options().read(true).write(true).open("/dev/fuse").unwrap();
        fs::create_dir(&directory).unwrap();
        let options =
            format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        let mounted =
            mount(Some("hanging"), &directory, Some("fuse"), MsFlags::empty(), Some(&*options));
        mounted.unwrap();
        Self { directory, _device: device }
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        let _ = umount2(&self.directory, MntFlags::MNT_DETACH);
    }
}

#[tokio::test]
async fn a_copy_from_a_source_that_hangs_is_described_and_cancelled_and_delays_no_other_copy() {
    if !tests::gate::loop_devices() || !tests::gate::fuse() {
        return;
    }
    let site = Site::new();
    site.plant("file", b"content");
    let hanging = Hanging::mount(site.home().join("hanging"));
    let bench = site.bench(|config| config.silence = Duration::from_secs(1)).await;
    let mut object = site.movement(NAME, "/hanging/in", "/");
    let root = hanging.directory.to_str().unwrap();
    object["spec"]["source"]["storageReference"]["fieldPath"] = json!(root);
    bench.make::<NnfDataMovement>(RABBIT, object).await;
    let described = bench
        .until(NAME, "described", |object| status(object).message.contains("no progress since"))
        .await;
    let message = status(&described).message;
    for part in [" from ", "/hanging/in to ", "(datamover): threads: 1, in ", "fuse", "; open: "] {
        assert!(message.contains(part), "no {part:?} in {message}");
    }
    bench.make::<NnfDataMovement>(RABBIT, site.movement("w-2-0", "/file", "/")).await;
    bench.until("w-2-0", "copied", is_finished_as(Success)).await;
    bench.change::<NnfDataMovement>(NAME, json!({"spec": {"cancel": true}})).await;
    let cancelled = bench.until(NAME, "cancelled", is_finished_as(Cancelled)).await;
    assert_eq!(status(&cancelled).message, "cancelled");
}
