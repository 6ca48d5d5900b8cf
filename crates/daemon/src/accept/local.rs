//! Connections from processes of this host, checked by `SO_PEERCRED` (unix(7)).

use std::io;

use nix::unistd::Uid;
use tokio::net::{UnixListener, UnixStream};

use super::Listener;

/// A unix socket that accepts connections of root, the daemon's own user and the listed users, and closes all others.
#[derive(Debug)]
pub struct Local {
    listener: UnixListener,
    /// Uids of the users that may connect; `None` if every user may connect.
    allowed: Option<Vec<u32>>,
}

impl Local {
    /// Accepts connections of root, the daemon's own user, and the users with a uid in `allowed`.
    pub fn new(listener: UnixListener, allowed: Vec<u32>) -> Self {
        Self { listener, allowed: Some(allowed) }
    }

    /// Accepts connections of every user of this host. The service must then check the user of each caller itself.
    pub fn open(listener: UnixListener) -> Self {
        Self { listener, allowed: None }
    }

    fn is_allowed(&self, stream: &UnixStream) -> bool {
        let peer = match stream.peer_cred() {
            Ok(peer) => peer,
            Err(error) => {
                log::warn!(error:%; "close a connection without credentials");
                return false;
            }
        };
        let (uid, pid) = (peer.uid(), peer.pid());
        let is_listed = self.allowed.as_ref().is_none_or(|allowed| allowed.contains(&uid));
        let is_allowed = uid == 0 || uid == Uid::effective().as_raw() || is_listed;
        if !is_allowed {
            log::warn!(uid, pid:?; "close the connection of a user without access");
        }
        is_allowed
    }
}

impl Listener for Local {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if self.is_allowed(&stream) {
                return Ok(stream);
            }
        }
    }
}
