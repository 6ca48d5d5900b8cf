//! A control plane on which the test installs Warren as an administrator does, with kubectl and packaging/kubernetes.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, ensure};
use control_plane::{ControlPlane, Login, Settings};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::{Pod, ServiceAccount},
};
use kube::{Api, Client, ResourceExt, api::PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::program::command;

/// Returns the path of a folder or file of the source tree.
pub(crate) fn tree(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// A control plane and the directory of its files. The fields are dropped in this order, so that the control plane ends
/// before the directory is removed.
#[derive(Debug)]
pub(crate) struct Installed {
    pub(crate) plane: ControlPlane,
    pub(crate) directory: TempDir,
}

impl Installed {
    /// Starts a control plane with our CRDs, a variant of the kustomizations, and these namespaces for nodes.
    pub(crate) fn start(variant: &str, nodes: &[&str]) -> anyhow::Result<Self> {
        let installed = Self::bare()?;
        installed.apply_folder(&format!("packaging/kubernetes/{variant}"))?;
        for node in nodes {
            installed.kubectl(&["create", "namespace", node])?;
        }
        Ok(installed)
    }

    /// Starts a control plane with only the CRDs and the namespace nnf-system, like that of a site before Warren is
    /// installed.
    pub(crate) fn bare() -> anyhow::Result<Self> {
        // The directory is on a disk, as at a site: loop devices over a tmpfs take another code path in the kernel.
        let directory = TempDir::with_prefix_in("warren-test-", "/var/tmp")?;
        let plane = ControlPlane::start(&directory.path().join("plane"), Settings::default())?;
        let installed = Self { plane, directory };
        installed.apply_folder("crates/api")?;
        installed.kubectl(&["wait", "--for=condition=Established", "crd", "--all"])?;
        installed.kubectl(&["create", "namespace", "nnf-system"])?;
        Ok(installed)
    }

    pub(crate) fn apply_folder(&self, folder: &str) -> anyhow::Result<()> {
        let folder = tree(folder).display().to_string();
        self.kubectl(&["apply", "--server-side", "-k", &folder]).map(drop)
    }

    /// Runs kubectl as the administrator and returns its output.
    pub(crate) fn kubectl(&self, words: &[&str]) -> anyhow::Result<String> {
        self.kubectl_reads(words, "")
    }

    fn kubectl_reads(&self, words: &[&str], input: &str) -> anyhow::Result<String> {
        let mut argv = command(self.plane.assets().kubectl());
        argv.arg("--kubeconfig").arg(self.plane.kubeconfig()).args(words);
        argv.env("HOME", self.directory.path());
        run(argv, input).with_context(|| format!("kubectl {}", words.join(" ")))
    }

    /// Applies objects as the administrator.
    pub(crate) fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.kubectl_reads(&["apply", "-f", "-"], &list.to_string()).map(drop)
    }

    /// Applies one object with `--server-side --force-conflicts`, which removes fields that `object` does not have.
    pub(crate) fn server_side_apply(&self, object: &Value) -> anyhow::Result<()> {
        let words = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        self.kubectl_reads(&words, &object.to_string()).map(drop)
    }

    /// Applies or deletes the objects that packaging/kubernetes/node-identities prints for these arguments.
    pub(crate) fn identities(&self, verb: &str, words: &[&str]) -> anyhow::Result<()> {
        let mut argv = command(tree("packaging/kubernetes/node-identities"));
        argv.args(words);
        let printed = run(argv, "").context("node-identities")?;
        self.kubectl_reads(&[verb, "-f", "-"], &printed).map(drop)
    }

    /// Creates a service account. If `role` is given, binds the account to that ClusterRole in all namespaces.
    pub(crate) fn account(
        &self,
        namespace: &str,
        name: &str,
        role: Option<&str>,
    ) -> anyhow::Result<()> {
        let metadata = json!({"namespace": namespace, "name": name});
        self.apply(&[json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})])?;
        role.map_or(Ok(()), |role| self.bind(namespace, name, role))
    }

    /// Binds a ClusterRole to an account in all namespaces.
    pub(crate) fn bind(&self, namespace: &str, name: &str, role: &str) -> anyhow::Result<()> {
        let subjects = json!([{"kind": "ServiceAccount", "namespace": namespace, "name": name}]);
        self.apply(&[json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": format!("test-{namespace}-{name}-{role}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": subjects,
        })])
    }

    /// Requests a token as the kubelet of `node` would for a pod of the rabbits' DaemonSet.
    pub(crate) async fn pod_token(&self, node: &str) -> anyhow::Result<String> {
        let (token, _) = self.bound_token("nnf-system", "warren-rabbit", node, node).await?;
        Ok(token)
    }

    /// Requests a token of an account as the kubelet of `node` would for a pod. Returns the token and the pod's UID.
    pub(crate) async fn bound_token(
        &self,
        namespace: &str,
        account: &str,
        pod: &str,
        node: &str,
    ) -> anyhow::Result<(String, String)> {
        self.apply(&[
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}),
            json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": namespace},
                "spec": {
                    "nodeName": node, "serviceAccountName": account,
                    "containers": [{"name": "manager", "image": "warren"}],
                },
            }),
        ])?;
        let admin = self.plane.client().await?;
        let pod = Api::<Pod>::namespaced(admin.clone(), namespace).get(pod).await?;
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.name_any()),
            uid: pod.uid(),
        };
        let spec =
            TokenRequestSpec { bound_object_ref: Some(bound), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let granted = Api::<ServiceAccount>::namespaced(admin, namespace)
            .create_token_request(account, &PostParams::default(), &request)
            .await?;
        let token = granted.status.and_then(|status| status.token);
        Ok((token.context("the answer has no token")?, pod.uid().context("the pod has no UID")?))
    }

    /// Writes a kubeconfig with this token.
    pub(crate) fn kubeconfig(&self, name: &str, token: &str) -> anyhow::Result<PathBuf> {
        let path = self.directory.path().join(format!("{name}.kubeconfig"));
        self.plane.kubeconfig_for(&path, &Login::Token(token.to_owned()))?;
        Ok(path)
    }

    /// Returns a client with this token.
    pub(crate) async fn client(&self, token: &str) -> anyhow::Result<Client> {
        self.client_as("client", token).await
    }

    /// Returns a client with this token. Its kubeconfig is called `name`, so that a test can have several clients
    /// at the same time.
    pub(crate) async fn client_as(&self, name: &str, token: &str) -> anyhow::Result<Client> {
        control_plane::client(&self.kubeconfig(name, token)?).await
    }
}

/// Runs a command with this input and returns its output.
pub(crate) fn run(mut argv: Command, input: &str) -> anyhow::Result<String> {
    argv.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = argv.spawn().context("start")?;
    child.stdin.take().context("no stdin")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let (stderr, printed) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8(output.stdout)?);
    ensure!(output.status.success(), "{}: {}", output.status, stderr.trim());
    Ok(printed)
}
