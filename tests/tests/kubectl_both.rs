//! kubectl shows the same on the embedded API and on a real kube-apiserver: our kinds, with one object of every fixture.
//!
//! `make kube` runs it, with the kubectl of the server's version.

use std::{fs, path::Path};

use anyhow::{Context, ensure};
use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{api_server::ApiServer, cluster::output, program::command};

/// One server and a kubectl for it.
struct Side {
    server: ApiServer,
    kubectl: std::path::PathBuf,
    home: TempDir,
}

impl Side {
    fn start(server: impl Fn(&Path) -> anyhow::Result<ApiServer>) -> anyhow::Result<Self> {
        let home = TempDir::new()?;
        let kubectl = control_plane::Assets::find()?.kubectl();
        let side = Self { server: server(home.path())?, kubectl, home };
        side.server.install_crds(|_| ())?;
        side.load()?;
        Ok(side)
    }

    /// One object per fixture, named like its file: the fixtures were captured on different systems.
    fn load(&self) -> anyhow::Result<()> {
        for namespace in ["fixtures", "gone"] {
            self.server.create(&json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            }))?;
        }
        for (name, fixture) in fixtures()? {
            let mut object = fixture.clone();
            object["metadata"] = json!({
                "name": name, "namespace": "fixtures",
                "labels": fixture["metadata"]["labels"], "finalizers": fixture["metadata"]["finalizers"],
            });
            self.server.create(&object)?;
            if fixture["status"].is_object() && has_status_of_its_own(&fixture["kind"]) {
                self.server.patch(&object, &json!({"status": fixture["status"]}), true)?;
            }
        }
        Ok(())
    }

    /// What kubectl prints and says, without what is of one server or one moment.
    fn shows(&self, words: &str) -> String {
        let mut argv = command(&self.kubectl);
        argv.arg("--kubeconfig").arg(self.server.kubeconfig()).args(words.split(' '));
        argv.env("HOME", self.home.path());
        let shown = output(argv).unwrap_or_else(|error| format!("{error}"));
        of_any_server(&shown)
    }
}

/// Whether a create leaves the status out, which is a subresource; that of a Workflow is part of the object.
fn has_status_of_its_own(kind: &Value) -> bool {
    let is_one = |crd: &&Value| crd["spec"]["names"]["kind"] == *kind;
    let crds = api::crd_values();
    let crd = crds.iter().find(is_one);
    crd.is_some_and(|crd| crd["spec"]["versions"][0]["subresources"]["status"].is_object())
}

fn fixtures() -> anyhow::Result<Vec<(String, Value)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/api/fixtures");
    let mut found = Vec::new();
    for file in fs::read_dir(folder).context("list the fixtures")? {
        let path = file?.path();
        let text = fs::read_to_string(&path)?;
        let name = path.file_stem().context("a file's name")?.to_string_lossy().into_owned();
        found.push((name, serde_saphyr::from_str(&text).context("decode a fixture")?));
    }
    found.sort_by(|left, right| left.0.cmp(&right.0));
    ensure!(found.len() > 20, "only {} fixtures", found.len());
    Ok(found)
}

fn of_any_server(shown: &str) -> String {
    let rules = [
        // Ages, and the widths of the columns.
        (r"\b\d+(s|m\d*s?|h)(\s|$)", "AGE$2"),
        (r" +", " "),
        (r"(?m)^(\s*(?:UID|uid|Resource Version|resourceVersion):).*$", "$1"),
        (r"(?m)^(\s*(?:Creation Timestamp|creationTimestamp):).*$", "$1"),
        (r"127\.0\.0\.1:\d+", "SERVER"),
        // Code, reason and field agree; why a patch does not apply, each server says in its own words.
        (r"(The request is invalid): .*", "$1"),
        // What every Kubernetes has of its own, and we do not.
        (r"(?m)^(kube-node-lease|kube-public|nnf-system) .*\n", ""),
    ];
    let mut text = shown.to_owned();
    for (pattern, with) in rules {
        text = Regex::new(pattern).expect("a pattern").replace_all(&text, with).into_owned();
    }
    text
}

const KINDS: [&str; 8] = [
    "clientmounts",
    "storages",
    "systemconfigurations",
    "nnflustremgts",
    "nnfnodes",
    "nnfnodeblockstorages",
    "nnfnodestorages",
    "nnfstorageprofiles",
];

#[test]
fn kubectl_shows_the_same_on_both() -> anyhow::Result<()> {
    let (ours, real) = (Side::start(ApiServer::embedded)?, Side::start(ApiServer::real)?);
    let mut words: Vec<String> = Vec::new();
    for kind in KINDS {
        words.push(format!("get {kind} -A"));
        words.push(format!("get {kind} -n fixtures -o wide --show-labels"));
        words.push(format!("get {kind} -n fixtures -o yaml"));
        words.push(format!("get {kind} -n gone"));
        words.push(format!("describe {kind} -n fixtures"));
        words.push(format!("explain {kind} --recursive"));
        words.push(format!("get {kind} nothing -n fixtures"));
    }
    for group in ["dataworkflowservices.github.io", "nnf.cray.hpe.com"] {
        words.push(format!("api-resources --api-group {group} -o wide"));
    }
    words.extend(
        [
            "get clientmounts -n fixtures -l nnf.cray.hpe.com/job_id",
            "get clientmounts -n fixtures --field-selector metadata.name=clientmount-compute-xfs",
            "get clientmounts -n fixtures --field-selector spec.node=x",
            "get clientmount/clientmount-compute-xfs -n fixtures -o jsonpath={.spec.node}",
            "get clientmounts,nnfnodes -n fixtures -o name",
            "label clientmount clientmount-compute-xfs -n fixtures a=b",
            "annotate clientmount clientmount-compute-xfs -n fixtures a=b",
            "patch clientmount clientmount-compute-xfs -n fixtures --type merge -p {\"spec\":{\"desiredState\":\"sideways\"}}",
            "patch clientmount clientmount-compute-xfs -n fixtures --type merge -p {\"spec\":{\"desiredState\":\"unmounted\"}}",
            "patch clientmount clientmount-compute-xfs -n fixtures --type json -p [{\"op\":\"test\",\"path\":\"/spec/node\",\"value\":\"x\"}]",
            "wait clientmount clientmount-compute-xfs -n fixtures --for jsonpath={.spec.desiredState}=unmounted --timeout 5s",
            "delete nnfnode nnfnode -n fixtures --wait=true --timeout 20s",
            "delete clientmount nothing -n fixtures",
            "get clientmounts -n fixtures --sort-by .metadata.name --chunk-size 2",
        ]
        .map(str::to_owned),
    );
    let mut different = Vec::new();
    for words in &words {
        let (ours, real) = (ours.shows(words), real.shows(words));
        if ours != real {
            different.push(format!("kubectl {words}\n{}", first_difference(&ours, &real)));
        }
    }
    ensure!(
        different.is_empty(),
        "{} of {}:\n{}",
        different.len(),
        words.len(),
        different.join("\n")
    );
    Ok(())
}

fn first_difference(ours: &str, real: &str) -> String {
    let mut lines = ours.lines().zip(real.lines());
    match lines.find(|(ours, real)| ours != real) {
        Some((ours, real)) => format!("  ours {ours:?}\n  real {real:?}"),
        None => format!(
            "  {} lines of ours, {} of the real one",
            ours.lines().count(),
            real.lines().count()
        ),
    }
}

/// Ours are taken by a strict server without a word, and nothing is wrong with their schemas.
#[test]
fn our_definitions_are_sound() -> anyhow::Result<()> {
    let side = Side::start(ApiServer::real)?;
    for crd in api::ruled_crd_values() {
        let name = crd["metadata"]["name"].as_str().context("a name")?;
        let file = side.home.path().join("crd.json");
        fs::write(&file, crd.to_string())?;
        let said =
            side.shows(&format!("create --validate=strict --dry-run=server -f {}", file.display()));
        ensure!(said.contains("already exists"), "{name}: {said}");
        let shown =
            side.shows(&format!("get crd {name} -o jsonpath={{.status.conditions[*].type}}"));
        ensure!(shown == "NamesAccepted Established", "{name} has the conditions {shown}");
    }
    Ok(())
}
