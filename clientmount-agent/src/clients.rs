//! Connections to the node's socket.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{UnixListener, UnixStream},
    sync::watch,
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::{Connected, UdsConnectInfo};

/// Counts the open connections.
#[derive(Debug, Clone, Default)]
pub struct Clients(Arc<watch::Sender<usize>>);

impl Clients {
    /// Returns a receiver that changes with their number.
    pub fn changes(&self) -> watch::Receiver<usize> {
        self.0.subscribe()
    }

    /// Accepts the connections of a listener, and counts them while they last.
    pub fn accept(&self, listener: UnixListener) -> impl Stream<Item = io::Result<Client>> + use<> {
        let clients = self.clone();
        UnixListenerStream::new(listener)
            .map(move |stream| stream.map(|stream| Client { stream, _counted: clients.count() }))
    }

    fn count(&self) -> Counted {
        self.0.send_modify(|count| *count += 1);
        Counted(self.clone())
    }
}

#[derive(Debug)]
struct Counted(Clients);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

/// A counted connection to the socket.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    _counted: Counted,
}

impl Connected for Client {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
