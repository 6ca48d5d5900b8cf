//! A server of HTTP that does what a test says, also what no good server does.

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

/// A server, until the test's process ends.
#[derive(Debug)]
pub struct FileServer {
    port: u16,
    asked: Arc<AtomicUsize>,
}

/// What is said to the question of this number, from 1.
type Answer = dyn Fn(usize, &mut TcpStream) + Send + Sync;

impl FileServer {
    /// One that answers like this.
    ///
    /// # Panics
    /// When it has no port.
    pub fn new(answer: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::at(0, answer)
    }

    /// At a port, where one was before.
    ///
    /// # Panics
    /// When it does not get it.
    pub fn at(port: u16, answer: impl Fn(usize, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a server");
        let port = listener.local_addr().expect("a server").port();
        let asked = Arc::new(AtomicUsize::new(0));
        let (count, answer): (_, Arc<Answer>) = (Arc::clone(&asked), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (count, answer) = (Arc::clone(&count), Arc::clone(&answer));
                thread::spawn(move || serve(stream.expect("a server"), &count, &*answer));
            }
        });
        Self { port, asked }
    }

    /// One that gives these bytes to whoever asks.
    #[must_use]
    pub fn of(bytes: &'static [u8]) -> Self {
        Self::new(move |_, stream| give(stream, bytes.len(), bytes))
    }

    /// The address of the file.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/data", self.port)
    }

    /// How often it was asked.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

fn serve(mut stream: TcpStream, count: &AtomicUsize, answer: &Answer) {
    let mut question = Vec::new();
    let mut byte = [0];
    while !question.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        question.push(byte[0]);
    }
    answer(count.fetch_add(1, Ordering::Relaxed) + 1, &mut stream);
    let _ = stream.shutdown(Shutdown::Write);
    // What was written is read before the connection goes.
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    while stream.read(&mut byte).unwrap_or(0) > 0 {}
}

/// Says that so many bytes come, and gives these.
pub fn give(stream: &mut TcpStream, length: usize, bytes: &[u8]) {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(head.as_bytes());
    let _ = stream.write_all(bytes);
}

/// Gives bytes whose number nobody is told.
pub fn pour(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(bytes);
}

/// What an answer waits with: until the sender is dropped.
pub fn hold() -> (mpsc::Sender<()>, impl Fn() + Send + Sync + 'static) {
    let (let_go, held) = mpsc::channel();
    let held = Mutex::new(held);
    (let_go, move || drop(held.lock().map(|held| held.recv())))
}

/// Answers without a file.
pub fn say(stream: &mut TcpStream, head: &str) {
    let _ = stream.write_all(
        format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes(),
    );
}
