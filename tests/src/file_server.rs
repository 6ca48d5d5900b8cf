//! An HTTP server whose answers a test chooses, including answers that a correct server never sends.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

/// A server that runs until the test's process ends.
#[derive(Debug)]
pub struct FileServer {
    port: u16,
    requests: Arc<AtomicUsize>,
}

/// Answers the request with this number, counted from 1.
type Answer = dyn Fn(usize, &mut TcpStream) + Send + Sync;

impl FileServer {
    /// Starts a server with this answer.
    ///
    /// # Panics
    /// When no port is free.
    pub fn new(answer: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::at(0, answer)
    }

    /// Starts a server at this port, such as the port of an earlier server.
    ///
    /// # Panics
    /// When the port is not free.
    pub fn at(port: u16, answer: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a server");
        let port = listener.local_addr().expect("a server").port();
        let requests = Arc::new(AtomicUsize::new(0));
        let (count, answer): (_, Arc<Answer>) = (Arc::clone(&requests), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (count, answer) = (Arc::clone(&count), Arc::clone(&answer));
                thread::spawn(move || serve(stream.expect("a server"), &count, &*answer));
            }
        });
        Self { port, requests }
    }

    /// Starts a server that sends these bytes for every request.
    #[must_use]
    pub fn serving(bytes: &'static [u8]) -> Self {
        Self::new(move |_, stream| give(stream, bytes.len(), bytes))
    }

    /// Returns the URL of the file.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/data", self.port)
    }

    /// Returns the number of requests so far.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: TcpStream, count: &AtomicUsize, answer: &Answer) {
    let mut header = Vec::new();
    let mut byte = [0];
    while !header.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        header.push(byte[0]);
    }
    answer(count.fetch_add(1, Ordering::Relaxed) + 1, &mut stream);
    let _ = stream.shutdown(Shutdown::Write);
    // Reads the rest of the request before closing the connection; otherwise the kernel resets it, and the client loses
    // the end of the answer.
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    while stream.read(&mut byte).unwrap_or(0) > 0 {}
}

/// Sends a header with `length` as Content-Length, and then `bytes`.
pub fn give(stream: &mut TcpStream, length: usize, bytes: &[u8]) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(bytes);
}

/// Sends a header without Content-Length, and then `bytes`.
pub fn pour(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(bytes);
}

/// Returns a sender, and a function that blocks until the sender is dropped. An answer that must
/// wait calls the function.
pub fn hold() -> (mpsc::Sender<()>, impl Fn() + Send + Sync + 'static) {
    let (release, held) = mpsc::channel();
    let held = Mutex::new(held);
    (release, move || drop(held.lock().map(|held| held.recv())))
}

/// Answers with this status line and no file.
pub fn say(stream: &mut TcpStream, head: &str) {
    let _ = stream.write_all(
        format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes(),
    );
}
