//! Tests the file system names of a Lustre management target (MGT). The tools of the target are scripts that record
//! their arguments.

use std::{fs, path::PathBuf, time::Duration};

use api::{NnfLustreMgt, NnfLustreMgtStatus, Severity, names::finalizer};
use http::Method;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, PostParams},
};
use serde_json::{Value, json};
use tests::program::plant;

use crate::bench::{Bench, RABBIT, Refused};

fn reference(name: &str) -> Value {
    json!({"kind": "NnfStorage", "name": name, "namespace": "default"})
}

fn claims(names: &[&str]) -> Value {
    json!({"spec": {"claimList": names.iter().copied().map(reference).collect::<Value>()}})
}

fn mgt(start: &str, names: &[&str]) -> Value {
    let mut object = claims(names);
    object["apiVersion"] = json!("nnf.cray.hpe.com/v1alpha11");
    object["kind"] = json!("NnfLustreMGT");
    object["metadata"] = json!({"name": "mgt", "namespace": RABBIT});
    object["spec"]["addresses"] = json!(["10.0.0.1@tcp"]);
    object["spec"]["fsNameStart"] = json!(start);
    object
}

fn status(object: &NnfLustreMgt) -> NnfLustreMgtStatus {
    object.status.clone().unwrap_or_default()
}

fn names(object: &NnfLustreMgt) -> Vec<String> {
    status(object).claim_list.into_iter().map(|claim| claim.fs_name).collect()
}

fn has(wanted: &[&str]) -> impl Fn(&NnfLustreMgt) -> bool {
    let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
    move |object| names(object) == wanted && status(object).error.is_none()
}

/// The scripts of the management target.
struct Target {
    directory: PathBuf,
}

impl Target {
    /// Installs an erase command that records each name, and then runs `script`.
    fn new(bench: &Bench, script: &str) -> Self {
        let target = Self { directory: bench.directory.path().to_owned() };
        target.set_script(script);
        target
    }

    fn set_script(&self, script: &str) {
        let (erase, new) = (self.directory.join("erase"), self.directory.join("erase.new"));
        let log = self.directory.join("erased");
        let script = format!("#!/bin/sh\necho \"$1\" >> {}\n{script}\n", log.display());
        plant(&new, &script).unwrap();
        fs::rename(new, erase).unwrap();
    }

    /// Returns all names that the agent tried to erase, in order.
    fn erased(&self) -> Vec<String> {
        self.log("erased")
    }

    fn log(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.directory.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn is_status(method: &Method, path: &str) -> bool {
    *method == Method::PATCH && path.ends_with("nnflustremgts/mgt/status")
}

#[tokio::test]
async fn a_name_is_erased_when_its_claim_is_withdrawn() {
    let bench = Bench::new().await;
    let target = Target::new(&bench, "true");
    bench.make::<NnfLustreMgt>(RABBIT, mgt("zzzzzzzz", &["one", "two"])).await;
    let given = bench.until("mgt", "named", has(&["zzzzzzzz", "aaaaaaaa"])).await;
    assert_eq!(given.finalizers(), [finalizer::NNF_LUSTRE_MGT]);
    assert_eq!(status(&given).fs_name_next, "aaaaaaab");
    bench.change::<NnfLustreMgt>("mgt", claims(&["two", "three"])).await;
    bench.until("mgt", "renamed", has(&["aaaaaaaa", "aaaaaaab"])).await;
    assert_eq!(target.erased(), ["zzzzzzzz"]);
    bench.delete::<NnfLustreMgt>("mgt").await;
    bench.until_gone::<NnfLustreMgt>("mgt").await;
    assert_eq!(target.erased(), ["zzzzzzzz"], "claimed names are not erased");
}

#[tokio::test]
async fn a_failed_erasure_is_reported_and_retried() {
    let bench = Bench::new().await;
    let target = Target::new(&bench, "echo no MGS here >&2; exit 3");
    bench.make::<NnfLustreMgt>(RABBIT, mgt("aaaaaaaa", &["one"])).await;
    bench.until("mgt", "named", has(&["aaaaaaaa"])).await;
    bench.change::<NnfLustreMgt>("mgt", claims(&["two"])).await;
    let failed = |mgt: &NnfLustreMgt| status(mgt).error.is_some();
    let reported = bench.until("mgt", "reported", failed).await;
    assert_eq!(names(&reported), ["aaaaaaaa", "aaaaaaab"], "other claims still get names");
    let error = status(&reported).error.unwrap();
    assert_eq!(error.severity, Severity::Major);
    for part in
        ["fsname \"aaaaaaaa\" from MGT", "mount the target", "exit status: 3", "no MGS here"]
    {
        assert!(error.debug_message.contains(part), "{error:?}");
    }
    target
        .set_script("echo error: OBD_IOC_LCFG_ERASE failed: No such file or directory >&2; exit 2");
    bench.until("mgt", "erased", has(&["aaaaaaab"])).await;
    assert!(target.erased().iter().all(|name| name == "aaaaaaaa"));
}

/// The name is dropped although it could not be erased: the target never came up, or was removed first, and the job's
/// tear-down waits until the name is gone.
#[tokio::test]
async fn the_name_of_the_target_s_own_storage_is_dropped_after_a_failed_erasure() {
    let bench = Bench::new().await;
    let target = Target::new(&bench, "echo no MGS here >&2; exit 3");
    let mut object = mgt("aaaaaaaa", &["own", "other"]);
    for (part, value) in [("kind", "NnfStorage"), ("name", "own"), ("namespace", "default")] {
        let label = format!("dataworkflowservices.github.io/owner.{part}");
        object["metadata"]["labels"][label] = json!(value);
    }
    bench.make::<NnfLustreMgt>(RABBIT, object).await;
    bench.until("mgt", "named", has(&["aaaaaaaa", "aaaaaaab"])).await;
    bench.change::<NnfLustreMgt>("mgt", claims(&["other"])).await;
    bench.until("mgt", "without the name of its own storage", has(&["aaaaaaab"])).await;
    assert_eq!(target.erased(), ["aaaaaaaa"], "the agent tried to erase the name");
}

#[tokio::test]
async fn an_object_is_deleted_although_a_name_cannot_be_erased() {
    let bench = Bench::new().await;
    let target = Target::new(&bench, "echo no MGS here >&2; exit 3");
    bench.make::<NnfLustreMgt>(RABBIT, mgt("aaaaaaaa", &["one"])).await;
    bench.until("mgt", "named", has(&["aaaaaaaa"])).await;
    bench.change::<NnfLustreMgt>("mgt", claims(&[])).await;
    let failed = |mgt: &NnfLustreMgt| status(mgt).error.is_some();
    bench.until("mgt", "reported", failed).await;
    bench.delete::<NnfLustreMgt>("mgt").await;
    bench.until_gone::<NnfLustreMgt>("mgt").await;
    assert!(target.erased().len() >= 2, "the agent tried once more");
}

#[tokio::test]
async fn an_unrecorded_erasure_is_repeated_and_its_name_is_not_given_out_meanwhile() {
    let mut bench = Bench::new().await;
    let target = Target::new(&bench, "true");
    bench.make::<NnfLustreMgt>(RABBIT, mgt("aaaaaaaa", &["one"])).await;
    bench.until("mgt", "named", has(&["aaaaaaaa"])).await;
    bench.refuse(|request| {
        is_status(request.method(), request.uri().path()).then_some(Refused::Away)
    });
    let before = bench.requests().iter().filter(|(method, path)| is_status(method, path)).count();
    bench.change::<NnfLustreMgt>("mgt", claims(&[])).await;
    bench.until_requested(before + 1, is_status).await;
    bench.stop().await;
    let interrupted: NnfLustreMgt = bench.get("mgt").await;
    assert_eq!(names(&interrupted), ["aaaaaaaa"]);
    let once = target.erased().len();
    assert!(once >= 1);
    // The counter of names reaches the same name again.
    let next = json!({"status": {"fsNameNext": "aaaaaaaa"}});
    bench.status::<NnfLustreMgt>("mgt", next).await;
    bench.change::<NnfLustreMgt>("mgt", claims(&["two"])).await;
    bench.admit();
    bench.start();
    bench.until("mgt", "renamed", has(&["aaaaaaab"])).await;
    assert_eq!(target.erased().len(), once + 1);
}

async fn config_map(bench: &Bench, next: &str) -> Api<ConfigMap> {
    let maps = without_config_map(bench).await;
    let map = json!({"metadata": {"name": "names"}, "data": {"NextFsName": next, "other": "kept"}});
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    maps
}

/// Removes the ConfigMap that another test left: tests on a real server share it.
async fn without_config_map(bench: &Bench) -> Api<ConfigMap> {
    let maps: Api<ConfigMap> = Api::namespaced(bench.client.clone(), "default");
    let gone = maps.delete("names", &DeleteParams::default()).await;
    assert!(gone.is_ok() || maps.get_opt("names").await.unwrap().is_none());
    maps
}

fn with_config_map(name: &str) -> Value {
    let mut object = mgt("aaaaaaaa", &["one"]);
    object["spec"]["fsNameStartReference"] =
        json!({"kind": "ConfigMap", "name": name, "namespace": "default"});
    object
}

#[tokio::test]
async fn a_crash_between_config_map_and_status_skips_no_name() {
    let mut bench = Bench::new().await;
    let maps = config_map(&bench, "cccccccc").await;
    bench.refuse(|request| {
        is_status(request.method(), request.uri().path()).then_some(Refused::Away)
    });
    bench.make::<NnfLustreMgt>(RABBIT, with_config_map("names")).await;
    bench.until_requested(1, is_status).await;
    bench.stop().await;
    let next = json!({"status": {"fsNameNext": "cccccccc"}});
    bench.status::<NnfLustreMgt>("mgt", next).await;
    bench.start();
    let published = |method: &Method, path: &str| {
        *method == Method::PATCH && path.ends_with("configmaps/names")
    };
    bench.until_requested(1, published).await;
    bench.until_requested(2, is_status).await;
    bench.stop().await;
    let data = maps.get("names").await.unwrap().data.unwrap();
    assert_eq!((&*data["NextFsName"], &*data["other"]), ("cccccccd", "kept"));
    assert!(names(&bench.get("mgt").await).is_empty(), "the agent stopped between the two writes");
    bench.admit();
    bench.start();
    let given = bench.until("mgt", "named", has(&["cccccccc"])).await;
    assert_eq!(status(&given).fs_name_next, "cccccccd");
    assert_eq!(maps.get("names").await.unwrap().data.unwrap()["NextFsName"], "cccccccd");
}

#[tokio::test]
async fn names_wait_for_a_missing_config_map_that_is_reported_with_a_remedy() {
    let bench = Bench::new().await;
    without_config_map(&bench).await;
    bench.make::<NnfLustreMgt>(RABBIT, with_config_map("names")).await;
    let failed = |mgt: &NnfLustreMgt| status(mgt).error.is_some();
    let reported = status(&bench.until("mgt", "reported", failed).await).error.unwrap();
    for part in ["ConfigMap default/names", "create it", "warren-lustre-names"] {
        assert!(reported.debug_message.contains(part), "{reported:?}");
    }
    config_map(&bench, "dddddddd").await;
    bench.until("mgt", "named", has(&["dddddddd"])).await;
}

/// Go controllers write a missing reference as an empty object.
#[tokio::test]
async fn an_empty_reference_counts_as_missing() {
    let bench = Bench::new().await;
    let mut object = mgt("aaaaaaaa", &["one"]);
    object["spec"]["fsNameStartReference"] = json!({});
    bench.make::<NnfLustreMgt>(RABBIT, object).await;
    bench.until("mgt", "named", has(&["aaaaaaaa"])).await;
}

#[tokio::test]
async fn commands_run_in_order_until_one_fails_and_each_result_is_reported() {
    let bench = Bench::new().await;
    let target = Target::new(&bench, "true");
    let log = target.directory.join("ran").display().to_string();
    let mut object = mgt("aaaaaaaa", &[]);
    object["spec"]["commandList"] = json!([
        {"reference": reference("bad"), "commands": [
            format!("echo bad >> {log}"), "echo not today >&2; exit 9", format!("echo never >> {log}")]},
        {"reference": reference("torn"), "commands": [format!("echo torn >> {log}"), "echo 'torn"]},
        {"reference": reference("good"), "commands": [format!("echo first >> {log}"), format!("echo second >> {log}")]}
    ]);
    bench.make::<NnfLustreMgt>(RABBIT, object).await;
    let all =
        |mgt: &NnfLustreMgt| status(mgt).command_list.len() == 3 && status(mgt).error.is_some();
    let reported = status(&bench.until("mgt", "reported", all).await);
    let ready: Vec<bool> = reported.command_list.iter().map(|command| command.ready).collect();
    assert_eq!(ready, [false, false, true]);
    let bad = reported.command_list[0].error.clone().unwrap();
    assert_eq!(bad.severity, Severity::Major, "the workflow waits for the commands");
    for part in ["spec.commandList[0].commands[1]", "exit status: 9", "not today"] {
        assert!(bad.debug_message.contains(part), "{bad:?}");
    }
    let torn = reported.command_list[1].error.clone().unwrap();
    assert!(torn.debug_message.contains("spec.commandList[1].commands[1]: unbalanced quotes"));
    let error = reported.error.unwrap();
    assert_eq!(error.severity, Severity::Fatal, "the invalid line has the highest severity");
    let all = error.debug_message;
    assert!(all.contains("not today") && all.contains("unbalanced quotes"), "{all}");
    let ran = target.log("ran");
    assert!(!ran.iter().any(|line| line == "never" || line == "torn"), "{ran:?}");
    assert_eq!(
        ran.iter().filter(|line| *line == "first").count(),
        1,
        "commands that succeeded do not run again"
    );
    assert_eq!(ran[ran.len().min(3) - 2..ran.len().min(3)], ["first", "second"]);
    // The user removes the failed entries.
    let good = json!([{"reference": reference("good"), "commands": [format!("echo first >> {log}"), format!("echo second >> {log}")]}]);
    bench.change::<NnfLustreMgt>("mgt", json!({"spec": {"commandList": good}})).await;
    let clean =
        |mgt: &NnfLustreMgt| status(mgt).command_list.len() == 1 && status(mgt).error.is_none();
    bench.until("mgt", "clean", clean).await;
    assert_eq!(target.log("ran").iter().filter(|line| *line == "first").count(), 1);
}

#[tokio::test]
async fn the_result_of_commands_is_recorded_after_a_concurrent_change() {
    let bench = Bench::new().await;
    let target = Target::new(&bench, "true");
    let (log, go) = (target.directory.join("ran"), target.directory.join("go"));
    let slow = format!(
        "echo slow >> {}; while ! test -e {}; do sleep 0.02; done",
        log.display(),
        go.display()
    );
    let mut object = mgt("aaaaaaaa", &[]);
    object["spec"]["commandList"] = json!([{"reference": reference("slow"), "commands": [slow]}]);
    bench.make::<NnfLustreMgt>(RABBIT, object).await;
    tokio::time::timeout(Duration::from_secs(30), async {
        while target.log("ran").is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    bench.change::<NnfLustreMgt>("mgt", claims(&["one"])).await;
    fs::write(go, "").unwrap();
    let both = |mgt: &NnfLustreMgt| {
        names(mgt) == ["aaaaaaaa"] && status(mgt).command_list.iter().any(|command| command.ready)
    };
    bench.until("mgt", "named and ready", both).await;
    assert_eq!(target.log("ran"), ["slow"]);
}

#[tokio::test]
async fn objects_of_another_rabbit_are_ignored() {
    let bench = Bench::new().await;
    let mut other = mgt("aaaaaaaa", &["one"]);
    other["metadata"]["namespace"] = json!("rabbit-2");
    bench.make::<NnfLustreMgt>("rabbit-2", other).await;
    bench.make::<NnfLustreMgt>(RABBIT, mgt("bbbbbbbb", &["one"])).await;
    bench.until("mgt", "named", has(&["bbbbbbbb"])).await;
    let foreign = bench.api::<NnfLustreMgt>("rabbit-2").get("mgt").await.unwrap();
    assert!(foreign.status.is_none() && foreign.finalizers().is_empty());
}
