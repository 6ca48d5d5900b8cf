use super::{Connections, LIMITS, accept_failed};
use crate::{Api, Identity};
use std::future::Future;
use tokio::net::{UnixListener, UnixStream};

/// Serves the API on a unix socket until `shutdown` is ready. Root, this process's own user and `allowed_uids` get in, told
/// by `SO_PEERCRED` (unix(7)); the others' connections are closed.
pub async fn unix(
    listener: UnixListener,
    api: Api,
    allowed_uids: Vec<u32>,
    shutdown: impl Future<Output = ()> + Send,
) {
    let connections = Connections::new(LIMITS);
    tokio::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = async { (connections.place().await, listener.accept().await) } => accepted,
        };
        match accepted {
            (place, Ok((stream, _))) => {
                if let Some(identity) = identity(&stream, &allowed_uids) {
                    let service = connections.stoppable(api.service(identity));
                    connections.serve(stream, service, place, std::future::ready(()));
                }
            }
            (_, Err(error)) => accept_failed(&error).await,
        }
    }
    connections.finish().await;
}

fn identity(stream: &UnixStream, allowed_uids: &[u32]) -> Option<Identity> {
    let peer = match stream.peer_cred() {
        Ok(peer) => peer,
        Err(error) => {
            log::warn!(error:% = error; "an API connection without credentials was closed");
            return None;
        }
    };
    let (uid, pid) = (peer.uid(), peer.pid());
    if uid == 0 || uid == nix::unistd::geteuid().as_raw() || allowed_uids.contains(&uid) {
        return Some(Identity { user: format!("uid:{uid}") });
    }
    log::warn!(uid, pid:? = pid; "an API connection of a user without access was closed");
    None
}
