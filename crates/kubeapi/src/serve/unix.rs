use super::{Connections, LIMITS};
use crate::body::STALLED;
use crate::{Api, Identity};
use daemon::accept::{Incoming, Local};
use std::future::Future;
use tokio::net::{UnixListener, UnixStream};

/// Serves the API on a unix socket until `shutdown` resolves. Admits root, this process's own user and `allowed_uids`,
/// by `SO_PEERCRED` (unix(7)), and closes the connections of all other users.
pub async fn unix(
    listener: UnixListener,
    api: Api,
    allowed_uids: Vec<u32>,
    shutdown: impl Future<Output = ()> + Send,
) {
    let connections = Connections::new(STALLED);
    let mut incoming = Incoming::new(Local::new(listener, allowed_uids), LIMITS);
    tokio::pin!(shutdown);
    loop {
        let connection = tokio::select! {
            () = &mut shutdown => break,
            connection = incoming.next() => connection,
        };
        // The kernel has identified the client, so the connection may stay open without a request.
        connection.caller().record_request();
        let service = connections.stoppable(api.service(identity(connection.stream())));
        connections.serve(connection, service);
    }
    connections.finish().await;
}

fn identity(stream: &UnixStream) -> Identity {
    let user = match stream.peer_cred() {
        Ok(peer) => format!("uid:{}", peer.uid()),
        Err(_) => "unknown".to_owned(),
    };
    Identity { user }
}
