//! Connections from processes of this host, checked by `SO_PEERCRED` (unix(7)).

use std::io;

use nix::unistd::Uid;
use tokio::net::{UnixListener, UnixStream};

use super::Listener;

/// A unix socket that lets in root, our own user and those that are listed; it closes the connections of all others.
#[derive(Debug)]
pub struct Local {
    listener: UnixListener,
    /// `None` lets in everybody.
    allowed: Option<Vec<u32>>,
}

impl Local {
    /// Lets in the users of `allowed` too, by their uids.
    pub fn new(listener: UnixListener, allowed: Vec<u32>) -> Self {
        Self { listener, allowed: Some(allowed) }
    }

    /// Lets in every user of this host: whoever serves them must ask who each is.
    pub fn open(listener: UnixListener) -> Self {
        Self { listener, allowed: None }
    }

    fn lets_in(&self, stream: &UnixStream) -> bool {
        let peer = match stream.peer_cred() {
            Ok(peer) => peer,
            Err(error) => {
                log::warn!(error:%; "close a connection without credentials");
                return false;
            }
        };
        let (uid, pid) = (peer.uid(), peer.pid());
        let is_listed = self.allowed.as_ref().is_none_or(|allowed| allowed.contains(&uid));
        let may = uid == 0 || uid == Uid::effective().as_raw() || is_listed;
        if !may {
            log::warn!(uid, pid:?; "close the connection of a user without access");
        }
        may
    }
}

impl Listener for Local {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if self.lets_in(&stream) {
                return Ok(stream);
            }
        }
    }
}
