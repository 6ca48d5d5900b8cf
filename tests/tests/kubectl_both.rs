//! Checks that kubectl prints the same on the embedded API and on a real kube-apiserver, for Warren's kinds and for one
//! object of every fixture.
//!
//! `make kube` runs these tests, with a kubectl of the same version as the server.

use std::{fs, path::Path};

use anyhow::{Context, ensure};
use regex::Regex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{api_server::ApiServer, cluster::output, program::command};

/// An API server, and a kubectl that uses it.
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

    /// Creates one object per fixture, named like its file: the fixtures come from different systems, and
    /// their names may clash.
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
            if fixture["status"].is_object() && has_status_subresource(&fixture["kind"]) {
                self.server.patch(&object, &json!({"status": fixture["status"]}), true)?;
            }
        }
        Ok(())
    }

    /// Runs kubectl and returns its output, without the parts that differ between two servers or two moments.
    fn kubectl(&self, words: &str) -> String {
        let mut argv = command(&self.kubectl);
        argv.arg("--kubeconfig").arg(self.server.kubeconfig()).args(words.split(' '));
        argv.env("HOME", self.home.path());
        let shown = output(argv).unwrap_or_else(|error| format!("{error}"));
        normalize(&shown)
    }
}

/// Returns true if the kind's status is a subresource, which a create ignores. A Workflow's status is not.
fn has_status_subresource(kind: &Value) -> bool {
    let has_kind = |crd: &&Value| crd["spec"]["names"]["kind"] == *kind;
    let crds = api::crd_values();
    let crd = crds.iter().find(has_kind);
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

fn normalize(shown: &str) -> String {
    let rules = [
        // Replaces ages, and later the widths of columns.
        (r"\b\d+(s|m\d*s?|h)(\s|$)", "AGE$2"),
        (r" +", " "),
        (r"(?m)^(\s*(?:UID|uid|Resource Version|resourceVersion):).*$", "$1"),
        (r"(?m)^(\s*(?:Creation Timestamp|creationTimestamp):).*$", "$1"),
        (r"127\.0\.0\.1:\d+", "SERVER"),
        // Removes the text of a refusal, which may differ. Code, reason and field must agree.
        (r"(The request is invalid): .*", "$1"),
        // Removes namespaces that every Kubernetes cluster has, but not the embedded API.
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
fn kubectl_prints_the_same_on_the_embedded_and_a_real_api() -> anyhow::Result<()> {
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
        let (ours, real) = (ours.kubectl(words), real.kubectl(words));
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

/// A server with strict validation accepts the CRDs without a warning, and reports no fault of their schemas.
#[test]
fn a_real_server_accepts_our_crds_without_a_warning() -> anyhow::Result<()> {
    let side = Side::start(ApiServer::real)?;
    for crd in api::ruled_crd_values() {
        let name = crd["metadata"]["name"].as_str().context("a name")?;
        let file = side.home.path().join("crd.json");
        fs::write(&file, crd.to_string())?;
        let answer = side
            .kubectl(&format!("create --validate=strict --dry-run=server -f {}", file.display()));
        ensure!(answer.contains("already exists"), "{name}: {answer}");
        let conditions =
            side.kubectl(&format!("get crd {name} -o jsonpath={{.status.conditions[*].type}}"));
        ensure!(
            conditions == "NamesAccepted Established",
            "{name} has the conditions {conditions}"
        );
    }
    Ok(())
}
