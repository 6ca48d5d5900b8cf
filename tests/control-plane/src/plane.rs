use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use crate::{
    Assets, Authority, Certified, Login, Process,
    apiserver::{Ports, apiserver, audit_policy, controller_manager, etcd},
    audit::{AuditEvent, read_audit},
    authority::Files,
    node,
    port::three_free_ports,
    write_kubeconfig,
};

/// Longest wait for a server. A server starts within seconds on two busy cores, and within a minute on emulated cores.
const PATIENCE: Duration = Duration::from_secs(400);

/// File name of kube-scheduler's kubeconfig.
const SCHEDULER: &str = "scheduler.kubeconfig";

/// Additional settings that a test needs.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Additional flags of kube-apiserver; the last value of a flag wins.
    pub apiserver: Vec<String>,
    /// Additional flags of etcd.
    pub etcd: Vec<String>,
    /// Name of the node whose kubelet runs pods. If the name is set, the kubelet's kubeconfig is written
    /// too, and kube-scheduler runs.
    pub node: Option<String>,
}

/// A running etcd, kube-apiserver and kube-controller-manager. Each of them can be killed, paused and started again.
#[derive(Debug)]
pub struct ControlPlane {
    directory: PathBuf,
    assets: Assets,
    settings: Settings,
    authority: Authority,
    files: Files,
    ports: Ports,
    // The fields are dropped in this order, so that clients end before their servers.
    scheduler: Option<Process>,
    controllers: Option<Process>,
    apiserver: Option<Process>,
    etcd: Option<Process>,
}

impl ControlPlane {
    /// Starts the programs in `directory` and waits until the API is ready.
    ///
    /// # Errors
    /// When a program is missing or not ready in time; the message has the end of the program's log.
    pub fn start(directory: &Path, settings: Settings) -> anyhow::Result<Self> {
        let assets = Assets::find()?;
        fs::create_dir_all(directory.join("certificates")).context("make the directory")?;
        let authority = Authority::new("control plane")?;
        let files = Files::write(&directory.join("certificates"), &authority)?;
        let policy = directory.join("audit-policy.json");
        fs::write(policy, audit_policy().to_string()).context("write the audit policy")?;
        let [etcd, peer, api] = three_free_ports()?;
        let mut plane = Self {
            directory: directory.to_owned(),
            assets,
            settings,
            authority,
            files,
            ports: Ports { etcd, peer, api },
            scheduler: None,
            controllers: None,
            apiserver: None,
            etcd: None,
        };
        plane.write_kubeconfigs()?;
        plane.start_etcd()?;
        plane.start_apiserver()?;
        plane.start_controllers()?;
        plane.start_scheduler()?;
        Ok(plane)
    }

    fn write_kubeconfigs(&self) -> anyhow::Result<()> {
        for (file, user, group) in [
            ("kubeconfig", "admin", Some("system:masters")),
            ("controllers.kubeconfig", "system:kube-controller-manager", Some("system:masters")),
        ] {
            let login = Login::Certificate(self.authority.client(user, group)?);
            self.kubeconfig_for(&self.directory.join(file), &login)?;
        }
        self.settings.node.as_deref().map_or(Ok(()), |node| self.write_for_node(node))
    }

    /// Writes the credentials that kubelet, scheduler and API server need only where pods run.
    fn write_for_node(&self, node: &str) -> anyhow::Result<()> {
        let (kubelet, nodes) = node::kubelet(node);
        for (file, user, group) in [
            ("kubelet.kubeconfig", kubelet.as_str(), Some(nodes)),
            (SCHEDULER, "system:kube-scheduler", None),
        ] {
            let login = Login::Certificate(self.authority.client(user, group)?);
            self.kubeconfig_for(&self.directory.join(file), &login)?;
        }
        node::write_client(&self.directory, &self.authority)
    }

    /// Starts etcd with the data of its previous run.
    ///
    /// # Errors
    /// When etcd cannot be started.
    pub fn start_etcd(&mut self) -> anyhow::Result<()> {
        let mut arguments = etcd(&self.directory, self.ports);
        arguments.extend(self.settings.etcd.iter().cloned());
        self.etcd = Some(self.run("etcd", &arguments)?);
        Ok(())
    }

    /// Starts the API server, always at the same address, and waits until the server is ready.
    ///
    /// # Errors
    /// When the server is not ready in time; the message has the end of the server's log.
    pub fn start_apiserver(&mut self) -> anyhow::Result<()> {
        let mut arguments = apiserver(&self.directory, self.ports, &self.files);
        if self.settings.node.is_some() {
            arguments.extend(node::apiserver(&self.directory));
        }
        arguments.extend(self.settings.apiserver.iter().cloned());
        self.apiserver = Some(self.run("kube-apiserver", &arguments)?);
        self.wait_until_ready()
    }

    /// Starts kube-controller-manager with the controllers of namespaces, garbage collection, service accounts, Jobs
    /// and their TTL, and volumes.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start_controllers(&mut self) -> anyhow::Result<()> {
        let mut arguments = controller_manager(&self.directory, &self.files);
        if self.settings.node.is_some() {
            arguments.extend(node::controllers());
        }
        self.controllers = Some(self.run("kube-controller-manager", &arguments)?);
        Ok(())
    }

    /// Starts kube-scheduler, if the settings name a node.
    fn start_scheduler(&mut self) -> anyhow::Result<()> {
        if self.settings.node.is_some() {
            let arguments = node::scheduler(&self.directory.join(SCHEDULER));
            self.scheduler = Some(self.run("kube-scheduler", &arguments)?);
        }
        Ok(())
    }

    fn run(&self, name: &str, arguments: &[String]) -> anyhow::Result<Process> {
        let log = self.directory.join(format!("{name}.log"));
        Process::start(&self.assets.program(name), arguments, &log)
    }

    /// Kills the API server with SIGKILL: watches break without notice.
    pub fn kill_apiserver(&mut self) {
        self.apiserver = None;
    }

    /// Kills etcd with SIGKILL.
    pub fn kill_etcd(&mut self) {
        self.etcd = None;
    }

    /// Kills kube-controller-manager with SIGKILL.
    pub fn kill_controllers(&mut self) {
        self.controllers = None;
    }

    /// Returns the API server's process, unless it was killed.
    #[must_use]
    pub fn apiserver(&self) -> Option<&Process> {
        self.apiserver.as_ref()
    }

    /// Returns etcd's process, unless it was killed.
    #[must_use]
    pub fn etcd(&self) -> Option<&Process> {
        self.etcd.as_ref()
    }

    /// Writes a new server certificate of the same authority; a running server reads it within a minute.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn renew_certificate(&self) -> anyhow::Result<()> {
        self.files.renew(&self.authority)
    }

    /// Replaces the authority, the server's certificate and the kubeconfigs. The server refuses certificates of the old
    /// authority after its next start.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn replace_authority(&mut self) -> anyhow::Result<()> {
        self.authority = Authority::new("another control plane")?;
        fs::write(&self.files.authority, self.authority.certificate())
            .context("write the authority")?;
        self.files.renew(&self.authority)?;
        self.write_kubeconfigs()
    }

    /// Returns the paths of the control plane's programs.
    #[must_use]
    pub fn assets(&self) -> &Assets {
        &self.assets
    }

    /// Returns the API server's URL, `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.api)
    }

    /// Returns the API server's TCP port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.ports.api
    }

    /// Returns the file with the certificate of the authority that signed the server's certificate.
    #[must_use]
    pub fn authority_file(&self) -> &Path {
        &self.files.authority
    }

    /// Returns the path of the administrator's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// Writes a kubeconfig with these credentials.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn kubeconfig_for(&self, path: &Path, login: &Login) -> anyhow::Result<()> {
        write_kubeconfig(path, &self.url(), self.authority.certificate(), login)
    }

    /// Issues a client certificate for this user and group.
    ///
    /// # Errors
    /// When the certificate cannot be signed.
    pub fn client_certificate(&self, user: &str, group: Option<&str>) -> anyhow::Result<Certified> {
        self.authority.client(user, group)
    }

    /// Returns a client with the administrator's credentials.
    ///
    /// # Errors
    /// When the kubeconfig is not usable.
    pub async fn client(&self) -> anyhow::Result<kube::Client> {
        client(&self.kubeconfig()).await
    }

    /// Requests a token for a service account, valid for `lifetime`: at least ten minutes, since the server
    /// refuses a shorter one.
    ///
    /// # Errors
    /// When the account does not exist, or the server refuses the request.
    pub async fn token(
        &self,
        namespace: &str,
        account: &str,
        lifetime: Duration,
    ) -> anyhow::Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(i64::try_from(lifetime.as_secs())?),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let granted =
            accounts.create_token_request(account, &PostParams::default(), &request).await?;
        granted
            .status
            .and_then(|status| status.token)
            .context("the API server's answer has no token")
    }

    /// Reads from the audit log all requests that the server has received so far.
    ///
    /// # Errors
    /// When the audit log is not readable.
    pub fn audit(&self) -> anyhow::Result<Vec<AuditEvent>> {
        read_audit(&self.directory.join("audit.log"))
    }

    /// Compacts etcd to its last revision and starts the API server again, which empties the server's watch cache. A
    /// client that then asks for an older revision gets the same error (410 Gone) as after a long absence.
    ///
    /// # Errors
    /// When etcd refuses, or the API server does not come back.
    pub fn compact(&mut self) -> anyhow::Result<()> {
        let etcd = format!("http://127.0.0.1:{}", self.ports.etcd);
        self.kill_apiserver();
        alone(async move {
            let client = Client::try_from(kube::Config::new(etcd.parse()?))?;
            // The key does not matter: the header of every answer has the revision.
            let answer = post(&client, "/v3/kv/range", &json!({"key": "AA=="})).await?;
            let last = answer["header"]["revision"].clone();
            post(&client, "/v3/kv/compaction", &json!({"revision": last, "physical": true}))
                .await?;
            Ok(())
        })
        .context("compact etcd")?;
        self.start_apiserver()
    }

    /// Waits until the API server's `/readyz` succeeds.
    ///
    /// # Errors
    /// When the server ends, or is not ready in time; the message has the end of the server's log.
    pub fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let log = self.directory.join("kube-apiserver.log");
        let kubeconfig = self.kubeconfig();
        let end = Instant::now() + PATIENCE;
        while let Err(error) = ready(&kubeconfig) {
            ensure!(!ended(&mut self.apiserver), "kube-apiserver ended:\n{}", last_words(&log));
            ensure!(
                !ended(&mut self.etcd),
                "etcd ended:\n{}",
                last_words(&self.directory.join("etcd.log"))
            );
            if Instant::now() > end {
                return Err(error.context(format!("kube-apiserver:\n{}", last_words(&log))));
            }
            pause();
        }
        Ok(())
    }
}

/// Returns a client with the credentials of a kubeconfig.
///
/// # Errors
/// When the kubeconfig is not usable.
pub async fn client(kubeconfig: &Path) -> anyhow::Result<kube::Client> {
    Ok(kube::Client::try_from(config(kubeconfig).await?)?)
}

/// Returns a client that does not retry: kube's default client repeats a request that the
/// server answers with Retry-After.
///
/// # Errors
/// When the kubeconfig is not usable.
pub async fn client_without_retry(kubeconfig: &Path) -> anyhow::Result<kube::Client> {
    let mut config = config(kubeconfig).await?;
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}

async fn config(kubeconfig: &Path) -> anyhow::Result<kube::Config> {
    let file = Kubeconfig::read_from(kubeconfig).context("read the kubeconfig")?;
    Ok(kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?)
}

async fn post(client: &Client, path: &str, body: &Value) -> anyhow::Result<Value> {
    let request = http::Request::post(path).body(serde_json::to_vec(body)?)?;
    Ok(client.request(request).await?)
}

fn ready(kubeconfig: &Path) -> anyhow::Result<()> {
    let kubeconfig = kubeconfig.to_owned();
    alone(async move {
        let request = http::Request::get("/readyz").body(Vec::new())?;
        client(&kubeconfig).await?.request_text(request).await?;
        Ok(())
    })
}

/// Runs a future to its end in a new thread, since the caller may be inside an async runtime, where
/// blocking is not allowed.
///
/// # Errors
/// Returns the error of `request`, or an error when `request` panics.
pub fn alone<T: Send>(
    request: impl Future<Output = anyhow::Result<T>> + Send,
) -> anyhow::Result<T> {
    let wait =
        || tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(request);
    thread::scope(|scope| scope.spawn(wait).join())
        .map_err(|_| anyhow::anyhow!("the request to a server panicked"))?
}

fn ended(program: &mut Option<Process>) -> bool {
    program.as_mut().is_none_or(Process::has_ended)
}

/// Returns the last lines of a log, for an error's text: the log's directory may be deleted before the error is read.
fn last_words(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_else(|error| error.to_string());
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

#[expect(
    clippy::disallowed_methods,
    reason = "a starting server does not announce that it is ready"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(100));
}
