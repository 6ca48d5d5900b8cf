//! Compares the crate with recordings of flux-coral2 0.36's commands, case by case.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use flux::{
    Built, Mapping, Resources,
    graph::{Settings, build, cluster_name},
    json, lookup,
    mapping::Objects,
};
use serde_json::{Map, Value, json};

/// Panics with the names of all cases that differ.
fn check(cases: &Value, least: usize, compare: impl Fn(&Value) -> Result<(), String>) {
    let cases = cases.as_array().unwrap();
    assert!(cases.len() >= least, "only {} cases", cases.len());
    let different = cases.iter().filter_map(|case| {
        compare(case).err().map(|difference| format!("{}: {difference}", case["name"]))
    });
    let different: Vec<String> = different.collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
}

fn equal<T: PartialEq + std::fmt::Debug>(ours: &T, recorded: &T) -> Result<(), String> {
    if ours == recorded { Ok(()) } else { Err(format!("ours {ours:?}, recorded {recorded:?}")) }
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// Completes a Servers as the API does: our definition requires `allocationCount`.
fn with_counts(mut servers: Value) -> Value {
    for set in servers["spec"]["allocationSets"].as_array_mut().unwrap() {
        for storage in set["storage"].as_array_mut().unwrap() {
            storage.as_object_mut().unwrap().entry("allocationCount").or_insert(json!(1));
        }
    }
    servers
}

fn rabbitmapping(case: &Value) -> Result<String, String> {
    let arguments = texts(&case["argv"]);
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let system = serde_json::from_value(case["systemconfiguration"].clone()).unwrap();
    let storages: Vec<_> = serde_json::from_value(case["storages"].clone()).unwrap();
    let servers = case["servers"].as_array().unwrap().iter().cloned().map(with_counts);
    let servers: Vec<_> = servers.map(|value| serde_json::from_value(value).unwrap()).collect();
    let servers = if has("--ignore-external-allocations") { &[] } else { servers.as_slice() };
    let objects = Objects { system: &system, storages: &storages, servers };
    let built = Built::new(objects).map_err(|error| error.to_string())?;
    json::text(&built.mapping, has("-i2").then_some(2)).map_err(|error| error.to_string())
}

#[test]
fn rabbitmapping_writes_the_bytes_that_were_recorded() {
    let golden = read(include_str!("golden/rabbitmapping.json"));
    check(&golden["cases"], 13, |case| match (rabbitmapping(case), case["stdout"].as_str()) {
        (Ok(ours), Some(recorded)) => equal(&ours.as_str(), &recorded),
        (Err(_), None) => Ok(()),
        (ours, recorded) => Err(format!("ours {ours:?}, recorded {recorded:?}")),
    });
}

/// R that flux-coral2 cannot read, and this crate can: RFC 20 allows commas in a rank.
const READ_HERE: &str = "rank-idset-with-comma-crashes";

fn jgf(case: &Value) -> Result<Value, String> {
    let (mut chunks, mut cluster) = (36, cluster_name(case["hostname"].as_str().unwrap()));
    let (mut validate, mut only) = (true, false);
    let arguments = texts(&case["argv"]).join(" ").replace("-c ", "-c");
    for argument in arguments.split(' ') {
        match argument.split_once('=').unwrap_or((argument, "")) {
            ("--cluster-name", name) => name.clone_into(&mut cluster),
            ("--no-validate", _) => validate = false,
            ("--only-sched", _) => only = true,
            (count, _) => chunks = count.strip_prefix("-c").unwrap().parse().unwrap(),
        }
    }
    let failed = |error: &dyn std::error::Error| error.to_string();
    let mapping: Mapping = serde_json::from_value(case["rabbitmapping"].clone()).unwrap();
    let resources = Resources::parse(&case["R"]).map_err(|error| failed(&error))?;
    let exclude = case["broker_config"]["resource"]["exclude"].as_str().unwrap_or_default();
    let excluded = resources.excluded(exclude).map_err(|error| failed(&error))?;
    let settings = Settings { cluster, chunks, validate, excluded };
    let graph = build(&mapping, &resources, &settings).map_err(|error| failed(&error))?;
    let graph = serde_json::to_value(graph).unwrap();
    if only {
        return Ok(graph);
    }
    let mut r = case["R"].clone();
    r["scheduling"] = graph;
    Ok(r)
}

#[test]
fn the_graph_has_the_structure_that_was_recorded() {
    let golden = read(include_str!("golden/dws2jgf.json"));
    check(&golden["cases"], 14, |case| match (jgf(case), case.get("stdout")) {
        (Ok(ours), Some(recorded)) => equal(&ours, recorded),
        (Ok(ours), None) if case["name"] == READ_HERE => {
            let is_there = |name: &str| ours.to_string().contains(&format!("/{name}/core0"));
            equal(&["n1", "n2", "n3"].map(is_there), &[true; 3])
        }
        (ours, _) => Err(format!("ours {ours:?}")),
    });
}

/// Builds a mapping with the facts that the recordings have about a site's file, which is not part of this tree: rabbits
/// and computes in order, and 16 computes to a rabbit.
fn site(digest: &Value) -> Mapping {
    let hosts = |key: &str| directive::hostlist::expand(digest[key].as_str().unwrap()).unwrap();
    let (names, all) = (hosts("rabbit_hostlist"), hosts("compute_hostlist"));
    assert_eq!(digest["computes"], all.len());
    assert_eq!(digest["rabbits"], names.len());
    let share = all.len().div_ceil(names.len());
    let (mut computes, mut rabbits) = (Map::new(), Map::new());
    for (rabbit, hosts) in names.iter().zip(all.chunks(share)) {
        computes.extend(hosts.iter().map(|host| (host.clone(), json!(rabbit))));
        let hostlist = directive::hostlist::compress(hosts);
        rabbits.insert(rabbit.clone(), json!({"capacity": 1, "hostlist": hostlist}));
    }
    serde_json::from_value(json!({"computes": computes, "rabbits": rabbits})).unwrap()
}

/// Returns the mapping of a case; `None` when the case has no readable one.
fn mapping(case: &Value, digests: &Value) -> Option<Mapping> {
    if let Some(path) = case["mapping_fixture"].as_str() {
        let is_it = |digest: &&Value| digest["path"] == path;
        return Some(site(digests.as_object().unwrap().values().find(is_it).unwrap()));
    }
    Mapping::parse(&case["mapping"].to_string()).ok()
}

/// Returns the output and exit status of `flux getrabbit`. The command line's own errors, exit status 2, are tested with
/// the program.
fn getrabbit(case: &Value, digests: &Value) -> Result<String, String> {
    let mut words: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut kind = "rabbits";
    for word in texts(&case["argv"]) {
        match word.as_str() {
            "-c" => kind = "computes",
            "-j" => kind = "jobs",
            _ => words.entry(kind).or_default().push(word),
        }
    }
    let hosts = |kind: &str| -> Vec<String> {
        let lists = words.get(kind).into_iter().flatten();
        lists.flat_map(|list| directive::hostlist::expand(list).unwrap()).collect()
    };
    let mut jobs = Vec::new();
    for job in words.get("jobs").into_iter().flatten() {
        let rabbits = case["job_memo_user.rabbits"][job].as_str();
        let rabbits = rabbits.ok_or_else(|| format!("Could not find job {job}"))?;
        jobs.push((job.clone(), directive::hostlist::expand(rabbits).unwrap()));
    }
    let mapping = mapping(case, digests).ok_or("no mapping")?;
    let (rabbits, computes) = (hosts("rabbits"), hosts("computes"));
    let question = lookup::Question { rabbits: &rabbits, computes: &computes, jobs: &jobs };
    lookup::hosts(&mapping, question).map_err(|error| error.to_string())
}

#[test]
fn getrabbit_answers_as_recorded() {
    let golden = read(include_str!("golden/getrabbit.json"));
    let digests = read(include_str!("golden/mapping_fixture_digest.json"));
    check(&golden["cases"], 19, |case| {
        if case["exit"] == 2 {
            return equal(&texts(&case["argv"]), &vec!["--computes".to_owned()]);
        }
        match (getrabbit(case, &digests), case["stdout"].as_str().filter(|out| !out.is_empty())) {
            (Ok(ours), Some(recorded)) => equal(&format!("{ours}\n").as_str(), &recorded),
            (Err(ours), None) => match case["stderr"].as_str() {
                Some(recorded) if ours != "no mapping" => {
                    equal(&ours.as_str(), &recorded.trim_end())
                }
                // Errors about the file are the program's; Flux's name Flux's settings.
                _ => equal(&ours.as_str(), &"no mapping"),
            },
            (ours, recorded) => Err(format!("ours {ours:?}, recorded {recorded:?}")),
        }
    });
}

#[test]
fn sites_mappings_have_the_recorded_numbers_of_rabbits_and_computes() {
    let digests = read(include_str!("golden/mapping_fixture_digest.json"));
    for digest in digests.as_object().unwrap().values() {
        let mapping = site(digest);
        let all = lookup::hosts(&mapping, lookup::Question::default()).unwrap();
        assert_eq!(digest["rabbit_hostlist"], all.as_str());
        let rabbits = directive::hostlist::expand(&all).unwrap();
        let question = lookup::Question { rabbits: &rabbits, ..lookup::Question::default() };
        let computes = lookup::hosts(&mapping, question).unwrap();
        assert_eq!(digest["compute_hostlist"], computes.as_str());
    }
}
