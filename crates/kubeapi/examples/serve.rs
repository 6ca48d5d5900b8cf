//! Serves an API from a directory until interrupted, for a kubectl or strace in another terminal.
//!
//! ```text
//! cargo run -p kubeapi --example serve -- <directory> [<crd.json> …]
//! KUBECONFIG=<directory>/kubeconfig kubectl api-resources
//! curl --unix-socket <directory>/socket http://local/version
//! ```

use kubeapi::{Api, Config, Credentials, serve};
use std::error::Error;
use std::path::PathBuf;
use tokio::net::{TcpListener, UnixListener};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let directory =
        PathBuf::from(arguments.next().ok_or("usage: serve <directory> [<crd.json> …]")?);
    let crds = arguments
        .map(|path| Ok(serde_json::from_slice(&std::fs::read(path)?)?))
        .collect::<Result<_, Box<dyn Error>>>()?;
    let api = Api::open(Config { crds, ..Config::new(&directory) })?;

    let tcp = TcpListener::bind("127.0.0.1:0").await?;
    let credentials = Credentials::load_or_create(&directory, tcp.local_addr()?)?;
    let kubeconfig = directory.join("kubeconfig");
    credentials.write_kubeconfig(&kubeconfig)?;
    let socket = directory.join("socket");
    if socket.exists() {
        std::fs::remove_file(&socket)?;
    }
    let unix = UnixListener::bind(&socket)?;
    #[expect(clippy::print_stdout, reason = "tells the user where the server is")]
    {
        println!("KUBECONFIG={}", kubeconfig.display());
    }
    let stop = || async { drop(tokio::signal::ctrl_c().await) };
    let (_, served) = tokio::join!(
        serve::unix(unix, api.clone(), Vec::new(), stop()),
        serve::tls(tcp, api, &credentials, stop()),
    );
    Ok(served?)
}
