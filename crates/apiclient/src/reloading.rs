//! A kubeconfig whose certificates are replaced while programs run: whoever asks next asks with the new ones.
//!
//! The files are looked at when there is something to send, so at rest nothing is done. A file that cannot be used yet, as
//! while it is being written, leaves the client that was there.

use std::{
    future::Future,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use hyper::{Request, Response};
use kube::{Client, Config, client::Body, config::Kubeconfig};
use tower::Service;

use crate::{
    connect::{ConnectError, read_file},
    plain::innermost,
};

/// A client that follows the kubeconfig at `path` and the files which that names.
///
/// # Errors
/// When it cannot be used as it is now.
pub(crate) async fn client(path: &Path) -> Result<Client, ConnectError> {
    let (made, namespace) = Made::of(path).await?;
    let requests = Requests { path: path.into(), made: Arc::new(Mutex::new(made)) };
    Ok(Client::new(requests, namespace))
}

/// A client, and which files it was made of.
#[derive(Clone)]
struct Made {
    client: Client,
    files: Stamps,
}

/// What changes when a file is replaced or written: device, inode, size, and time in nanoseconds.
type Stamp = (u64, u64, u64, i64, i64);
/// Of each file; none of one that is not there.
type Stamps = Vec<(PathBuf, Option<Stamp>)>;

impl Made {
    async fn of(path: &Path) -> Result<(Self, String), ConnectError> {
        // Looked at before they are read: a file that changes meanwhile is read again.
        let files = stamps(path);
        let config: Config = read_file(path).await?;
        let namespace = config.default_namespace.clone();
        let client = Client::try_from(config).map_err(ConnectError::MakeClient)?;
        Ok((Self { client, files }, namespace))
    }

    fn is_current(&self) -> bool {
        self.files.iter().all(|(path, then)| stamp(path) == *then)
    }
}

/// The kubeconfig and what it reads; tokens are not among them, the client reads those again by itself.
fn named_files(path: &Path) -> Vec<PathBuf> {
    let mut files = vec![path.to_owned()];
    // One that cannot be read is told of where it is used.
    let Ok(config) = Kubeconfig::read_from(path) else { return files };
    let authorities = config.clusters.iter().filter_map(|it| it.cluster.as_ref());
    files.extend(authorities.filter_map(|it| it.certificate_authority.as_ref()).map(PathBuf::from));
    let users = config.auth_infos.iter().filter_map(|it| it.auth_info.as_ref());
    let certified = users.flat_map(|it| [&it.client_certificate, &it.client_key]).flatten();
    files.extend(certified.map(PathBuf::from));
    files
}

fn stamps(path: &Path) -> Stamps {
    named_files(path).into_iter().map(|path| (path.clone(), stamp(&path))).collect()
}

fn stamp(path: &Path) -> Option<Stamp> {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

/// Sends requests with the client of the moment.
#[derive(Clone)]
struct Requests {
    path: Arc<Path>,
    made: Arc<Mutex<Made>>,
}

impl Requests {
    async fn client(&self) -> Client {
        let made = self.made().clone();
        if made.is_current() {
            return made.client;
        }
        let seen = stamps(&self.path);
        match Made::of(&self.path).await {
            Ok((new, _)) => {
                log::info!("kubeconfig {} was replaced: using the new one", self.path.display());
                let client = new.client.clone();
                *self.made() = new;
                client
            }
            Err(error) => {
                log::warn!(
                    "kubeconfig {} cannot be used, going on with what it was: {}",
                    self.path.display(),
                    innermost(&error)
                );
                // Told once; looked at again when it changes again.
                self.made().files = seen;
                made.client
            }
        }
    }

    fn made(&self) -> std::sync::MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service<Request<Body>> for Requests {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let requests = self.clone();
        Box::pin(async move { requests.client().await.send(request).await })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpListener,
    };

    use super::*;

    /// A server that answers everything with its name.
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
    fn a_replaced_file_is_followed_and_a_broken_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, kubeconfig(&server("first"))).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let client = client(&path).await.unwrap();
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
