//! A client that reloads its kubeconfig or its certificates when the files change, because they may be replaced while a
//! program runs.
//!
//! Before each request, the client checks the kubeconfig and the certificate files that the kubeconfig names, so it
//! does nothing while idle. While one of these files cannot be used, for example because another program is writing it,
//! the client uses the previous contents.

use std::{
    fmt,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use hyper::{Request, http::uri::Authority};
use kube::{
    Client, Config,
    client::Body,
    config::{
        AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedAuthInfo,
        NamedCluster, NamedContext,
    },
};
use tower::service_fn;

use crate::{connect::ConnectError, plain::innermost};

/// Returns a client that reloads the files of `source` when they change.
pub(crate) async fn client(source: Source) -> Result<Client, ConnectError> {
    let (current, namespace) = Current::read(&source).await?;
    let requests = Requests { source: source.into(), current: Arc::new(Mutex::new(current)) };
    let send = service_fn(move |request: Request<Body>| {
        let requests = requests.clone();
        async move { requests.client().await.send(request).await }
    });
    Ok(Client::new(send, namespace))
}

/// Files by which a node and an API server authenticate each other with certificates, PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// Certificates of the authorities that may sign the server's certificate.
    pub ca: PathBuf,
    /// The node's certificate.
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
}

/// Where the server's address and the credentials are.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Kubeconfig(PathBuf),
    Certified(Authority, CertificateFiles),
}

impl Source {
    fn kubeconfig(&self) -> Result<Kubeconfig, KubeconfigError> {
        match self {
            Self::Kubeconfig(path) => Kubeconfig::read_from(path),
            Self::Certified(server, files) => Ok(certified(server, files)),
        }
    }

    async fn config(&self) -> Result<Config, ConnectError> {
        let read = async {
            Config::from_custom_kubeconfig(self.kubeconfig()?, &KubeConfigOptions::default()).await
        };
        read.await.map_err(|source| match self {
            Self::Kubeconfig(path) => ConnectError::ReadKubeconfig { path: path.clone(), source },
            Self::Certified(server, _) => {
                ConnectError::ReadCertificates { server: server.clone(), source }
            }
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kubeconfig(path) => write!(f, "kubeconfig {}", path.display()),
            Self::Certified(server, files) => {
                write!(f, "certificate {} for https://{server}", files.certificate.display())
            }
        }
    }
}

/// Returns a kubeconfig that names these files.
fn certified(server: &Authority, files: &CertificateFiles) -> Kubeconfig {
    let text = |path: &Path| Some(path.display().to_string());
    let name = || "node".to_owned();
    let cluster = Cluster {
        server: Some(format!("https://{server}")),
        certificate_authority: text(&files.ca),
        ..Cluster::default()
    };
    let user = AuthInfo {
        client_certificate: text(&files.certificate),
        client_key: text(&files.key),
        ..AuthInfo::default()
    };
    let context = Context { cluster: name(), user: Some(name()), ..Context::default() };
    Kubeconfig {
        current_context: Some(name()),
        clusters: vec![NamedCluster {
            name: name(),
            cluster: Some(cluster),
            ..NamedCluster::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: name(),
            auth_info: Some(user),
            ..NamedAuthInfo::default()
        }],
        contexts: vec![NamedContext {
            name: name(),
            context: Some(context),
            ..NamedContext::default()
        }],
        ..Kubeconfig::default()
    }
}

/// A client, and the stamps of the files from which it was built.
#[derive(Clone)]
struct Current {
    client: Client,
    files: Stamps,
}

/// Stamp of a file: device, inode, size and modification time (seconds, nanoseconds). It changes when the file
/// is replaced or written.
type Stamp = (u64, u64, u64, i64, i64);
/// The stamp of each file; `None` for a file that does not exist.
type Stamps = Vec<(PathBuf, Option<Stamp>)>;

impl Current {
    async fn read(source: &Source) -> Result<(Self, String), ConnectError> {
        // Takes the stamps before it reads the files: if a file changes while it is read, the stamps differ at the next
        // check, and the file is read again.
        let files = stamps(source);
        let config = source.config().await?;
        let namespace = config.default_namespace.clone();
        let client = Client::try_from(config).map_err(ConnectError::MakeClient)?;
        Ok((Self { client, files }, namespace))
    }

    fn is_current(&self) -> bool {
        self.files.iter().all(|(path, then)| stamp(path) == *then)
    }
}

/// Returns the kubeconfig and the files that it names, except tokens, which kube reads again by itself.
fn named_files(source: &Source) -> Vec<PathBuf> {
    let mut files = match source {
        Source::Kubeconfig(path) => vec![path.clone()],
        Source::Certified(..) => Vec::new(),
    };
    // Ignores a kubeconfig that cannot be read: the caller reads it too, and reports the error.
    let Ok(config) = source.kubeconfig() else { return files };
    let authorities = config.clusters.iter().filter_map(|cluster| cluster.cluster.as_ref());
    files.extend(
        authorities.filter_map(|cluster| cluster.certificate_authority.as_ref()).map(PathBuf::from),
    );
    let users = config.auth_infos.iter().filter_map(|user| user.auth_info.as_ref());
    let certified = users.flat_map(|user| [&user.client_certificate, &user.client_key]).flatten();
    files.extend(certified.map(PathBuf::from));
    files
}

fn stamps(source: &Source) -> Stamps {
    named_files(source).into_iter().map(|path| (path.clone(), stamp(&path))).collect()
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

/// Sends requests with the current client.
#[derive(Clone)]
struct Requests {
    source: Arc<Source>,
    current: Arc<Mutex<Current>>,
}

impl Requests {
    async fn client(&self) -> Client {
        let current = self.current().clone();
        if current.is_current() {
            return current.client;
        }
        let new_stamps = stamps(&self.source);
        match Current::read(&self.source).await {
            Ok((new, _)) => {
                log::info!("{} was replaced: this program uses the new contents", self.source);
                let client = new.client.clone();
                *self.current() = new;
                client
            }
            Err(error) => {
                log::warn!(
                    "{} cannot be used, so this program uses its previous contents: {}",
                    self.source,
                    innermost(&error)
                );
                // Keeps the new stamps, so that the failure is logged only once, and the files are read again only when
                // they change.
                self.current().files = new_stamps;
                current.client
            }
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
    };

    use super::*;

    /// Starts a server that answers every request with its name.
    fn server(name: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let length = name.len();
                let _ = write!(
                    stream,
                    "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{name}"
                );
            }
        });
        format!("http://{address}")
    }

    fn kubeconfig(server: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Config, current-context: c, contexts: [{{name: c, context: {{cluster: c, user: u}}}}], \
             users: [{{name: u, user: {{}}}}], clusters: [{{name: c, cluster: {{server: '{server}'}}}}]}}"
        )
    }

    #[test]
    fn a_replaced_kubeconfig_is_used_and_a_broken_or_removed_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig(&server("first"))).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = client(Source::Kubeconfig(path.clone())).await.unwrap();
            let ask = async || {
                let request = Request::get("/readyz").body(Vec::new()).unwrap();
                client.request_text(request).await.unwrap()
            };
            assert_eq!(ask().await, "first");
            std::fs::write(&path, "clusters: 7").unwrap();
            assert_eq!(ask().await, "first");
            std::fs::write(&path, kubeconfig(&server("second"))).unwrap();
            assert_eq!(ask().await, "second");
            std::fs::remove_file(&path).unwrap();
            assert_eq!(ask().await, "second");
        });
    }
}
