use super::*;
use crate::command::{CreatePersistent, FileSystem, Jobdw};
use crate::profile::{LocalOptions, StorageProfile, TargetOptions};

/// Returns the settings of the default profile at sites with the Go controllers.
fn profile() -> StorageProfile {
    let local = LocalOptions {
        scaling_factor: "1.0".to_owned(),
        padding: "300MiB".to_owned(),
        labels: Vec::new(),
    };
    let mut profile = StorageProfile {
        raw: local.clone(),
        xfs: local.clone(),
        gfs2: local,
        ..StorageProfile::default()
    };
    let target = || TargetOptions {
        capacity: "5GiB".to_owned(),
        count: Some(1),
        ..TargetOptions::default()
    };
    profile.lustre.combined = true;
    (profile.lustre.mgt, profile.lustre.mdt, profile.lustre.mgt_mdt) =
        (target(), target(), target());
    profile.lustre.ost = TargetOptions {
        scaling_factor: "1.0".to_owned(),
        scale: Some(5),
        colocate_computes: true,
        ..TargetOptions::default()
    };
    profile
}

fn jobdw(file_system: FileSystem, capacity: u64) -> Jobdw {
    Jobdw { file_system, capacity, name: "foo".to_owned(), profile: None, requires: Vec::new() }
}

/// Returns the allocation sets of a `jobdw`, each as the text `label strategy capacity constraints`.
fn sets(file_system: FileSystem, capacity: u64, profile: &StorageProfile) -> Vec<String> {
    let sets = of_jobdw(&jobdw(file_system, capacity), profile).unwrap();
    sets.iter().map(set_text).collect()
}

fn set_text(set: &AllocationSet) -> String {
    let Constraints { labels, count, scale, exclusive } = &set.constraints;
    assert_eq!(labels.last().unwrap(), "dataworkflowservices.github.io/storage=Rabbit");
    let mut text =
        format!("{} {} {}", set.label.as_str(), set.strategy.as_str(), set.minimum_capacity);
    count.iter().for_each(|count| text.push_str(&format!(" count={count}")));
    scale.iter().for_each(|scale| text.push_str(&format!(" scale={scale}")));
    exclusive.iter().for_each(|key| text.push_str(&format!(" exclusive={key}")));
    text
}

#[test]
fn local_storage_is_padded_per_compute() {
    for (file_system, label) in
        [(FileSystem::Raw, "raw"), (FileSystem::Xfs, "xfs"), (FileSystem::Gfs2, "gfs2")]
    {
        let expected = format!("{label} AllocatePerCompute 50314572800");
        assert_eq!(sets(file_system, 50_000_000_000, &profile()), [expected]);
    }
}

#[test]
fn the_factor_is_applied_before_the_padding() {
    let mut profile = profile();
    profile.xfs.scaling_factor = "1.5".to_owned();
    profile.xfs.padding = "10%".to_owned();
    profile.xfs.labels = vec!["rack=1".to_owned()];
    let sets = of_jobdw(&jobdw(FileSystem::Xfs, 1001), &profile).unwrap();
    assert_eq!(sets[0].minimum_capacity, 1501 + 151);
    assert_eq!(
        sets[0].constraints.labels,
        ["rack=1", "dataworkflowservices.github.io/storage=Rabbit"]
    );
}

#[test]
fn lustre_with_a_combined_target_has_a_set_of_osts_and_a_set_with_a_single_mgtmdt() {
    let expected = [
        "ost AllocateAcrossServers 100000000000 scale=5",
        "mgtmdt AllocateAcrossServers 5368709120 count=1 exclusive=lustre-mgt",
    ];
    assert_eq!(sets(FileSystem::Lustre, 100_000_000_000, &profile()), expected);
}

#[test]
fn a_combined_target_has_the_greater_of_both_sizes() {
    for (own, other, expected) in
        [("7GiB", "6GiB", 7_u64 << 30), ("5GiB", "6GiB", 6 << 30), ("", "1GiB", 5 << 30)]
    {
        let mut profile = profile();
        profile.lustre.mgt_mdt.capacity = own.to_owned();
        profile.lustre.mdt.capacity = other.to_owned();
        let sets = of_jobdw(&jobdw(FileSystem::Lustre, 1 << 40), &profile).unwrap();
        assert_eq!(sets[1].minimum_capacity, expected, "{own} {other}");
    }
}

#[test]
fn lustre_has_three_sets_with_separate_targets_and_two_with_an_external_mgs() {
    let mut profile = profile();
    profile.lustre.combined = false;
    let three = [
        "ost AllocateAcrossServers 1000000000000 scale=5",
        "mdt AllocateAcrossServers 5368709120 count=1",
        "mgt AllocateSingleServer 5368709120 count=1 exclusive=lustre-mgt",
    ];
    assert_eq!(sets(FileSystem::Lustre, 1_000_000_000_000, &profile), three);
    profile.lustre.external_mgs = "pool:mgs".to_owned();
    assert_eq!(sets(FileSystem::Lustre, 1_000_000_000_000, &profile), three[..2]);
}

#[test]
fn the_set_of_an_exclusive_mdt_has_an_empty_colocation_key() {
    let mut profile = profile();
    profile.lustre.exclusive_mdt = true;
    assert_eq!(
        sets(FileSystem::Lustre, 1 << 40, &profile)[1],
        "mgtmdt AllocateAcrossServers 5368709120 count=1 exclusive="
    );
    profile.lustre.combined = false;
    assert_eq!(
        sets(FileSystem::Lustre, 1 << 40, &profile)[1],
        "mdt AllocateAcrossServers 5368709120 count=1 exclusive="
    );
}

fn create(capacity: Option<u64>) -> CreatePersistent {
    CreatePersistent {
        file_system: FileSystem::Lustre,
        capacity,
        name: "foo".to_owned(),
        profile: None,
    }
}

#[test]
fn a_stand_alone_mgt_has_the_profiles_size_and_is_refused_for_a_job() {
    let mut profile = profile();
    assert_eq!(of_persistent(&create(None), &profile), Err(BreakdownFault::NoCapacity));
    profile.lustre.combined = false;
    profile.lustre.standalone_pool = "pool".to_owned();
    let sets = of_persistent(&create(None), &profile).unwrap();
    assert_eq!(
        sets.iter().map(set_text).collect::<Vec<_>>(),
        ["mgt AllocateSingleServer 5368709120 count=1 exclusive=lustre-mgt"]
    );
    assert_eq!(
        of_persistent(&create(Some(1)), &profile),
        Err(BreakdownFault::CapacityOfStandalone)
    );
    assert_eq!(
        of_jobdw(&jobdw(FileSystem::Lustre, 1), &profile),
        Err(BreakdownFault::StandaloneForJob)
    );
    assert!(of_jobdw(&jobdw(FileSystem::Xfs, 1), &profile).is_ok());
    for bad in ["a b", "-pool", "pool.", "a/b", &"a".repeat(64)] {
        profile.lustre.standalone_pool = bad.to_owned();
        let refusal = of_persistent(&create(None), &profile).unwrap_err().to_string();
        assert!(
            refusal.contains(&format!("standaloneMgtPoolName: {bad:?} is not the name")),
            "{refusal}"
        );
    }
}

#[test]
fn an_invalid_profile_is_refused_with_the_name_of_its_field() {
    let refusal_of = |change: fn(&mut StorageProfile), capacity: u64, file_system| {
        let mut profile = profile();
        change(&mut profile);
        of_jobdw(&jobdw(file_system, capacity), &profile).unwrap_err().to_string()
    };
    for (refusal, expected) in [
        (
            refusal_of(|p| p.xfs.padding = "abc10GB".to_owned(), 1, FileSystem::Xfs),
            "profile field xfsStorage.allocationPadding: \"abc10GB\": not a size;",
        ),
        (
            refusal_of(|p| p.raw.scaling_factor = "x".to_owned(), 1, FileSystem::Raw),
            "profile field rawStorage.capacityScalingFactor: \"x\": not a factor;",
        ),
        (
            refusal_of(|p| p.gfs2.scaling_factor = "0.1".to_owned(), 9, FileSystem::Gfs2),
            "with the profile's gfs2Storage.capacityScalingFactor \"0.1\" the capacity is a size of 0;",
        ),
        (
            refusal_of(|p| p.xfs.padding = "100%".to_owned(), u64::MAX / 3, FileSystem::Xfs),
            "with the profile's xfsStorage.allocationPadding \"100%\" the capacity is more than",
        ),
        (
            refusal_of(|p| p.lustre.mdt.capacity = "0GiB".to_owned(), 1, FileSystem::Lustre),
            "profile field lustreStorage.mdtOptions.capacity: \"0GiB\": a size of 0;",
        ),
        (
            refusal_of(|p| p.lustre.ost.count = Some(2), 1, FileSystem::Lustre),
            "profile field lustreStorage.ostOptions: count and scale exclude each other;",
        ),
        (
            refusal_of(|p| p.lustre.external_mgs = "a@tcp".to_owned(), 1, FileSystem::Lustre),
            "profile fields lustreStorage.combinedMgtMdt and lustreStorage.mgtOptions.externalMgs exclude each other;",
        ),
    ] {
        assert!(refusal.starts_with(expected), "{refusal}");
    }
}

#[test]
fn access_returns_the_paths_from_computes_for_each_label() {
    let paths = |label, colocated| {
        let words = access(label, colocated)
            .into_iter()
            .map(|access| format!("{:?} {}", access.way, access.is_mandatory));
        words.collect::<Vec<_>>().join(", ")
    };
    for label in [Label::Raw, Label::Xfs] {
        assert_eq!(paths(label, false), "Physical true");
    }
    assert_eq!(paths(Label::Gfs2, false), "Network true, Physical true");
    for label in [Label::Mgt, Label::Mdt, Label::MgtMdt, Label::Ost] {
        assert_eq!(paths(label, false), "Network true");
        assert_eq!(paths(label, true), "Network true, Physical false");
        assert_eq!(Label::from_text(label.as_str()), Some(label));
    }
}
