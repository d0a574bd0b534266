//! An HTTP server whose responses a test chooses.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A response; `sent` may be less of the body than its declared length.
pub(crate) struct Reply {
    head: String,
    body: Vec<u8>,
    sent: usize,
}

pub(crate) struct Server {
    pub(crate) url: String,
    port: u16,
    /// The paths that were requested.
    requests: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reply {
    pub(crate) fn status(line: &str) -> Self {
        Self {
            head: line.to_owned(),
            body: Vec::new(),
            sent: 0,
        }
    }

    pub(crate) fn whole(file: &[u8]) -> Self {
        Self {
            head: "200 OK".to_owned(),
            body: file.to_vec(),
            sent: file.len(),
        }
    }

    pub(crate) fn with_header(mut self, line: &str) -> Self {
        self.head = format!("{}\r\n{line}", self.head);
        self
    }

    /// Breaks the connection after so many bytes of the body.
    pub(crate) fn cut(mut self, sent: usize) -> Self {
        self.sent = self.sent.min(sent);
        self
    }

    fn write(&self, stream: &mut TcpStream) -> std::io::Result<()> {
        let length = self.body.len();
        write!(
            stream,
            "HTTP/1.1 {}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n",
            self.head
        )?;
        stream.write_all(&self.body[..self.sent])
    }
}

impl Server {
    /// Answers the n-th request (from 0), given its path, with the response of `answer`.
    pub(crate) fn start(answer: impl Fn(usize, &str) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (log, stopped) = (Arc::clone(&requests), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                let request = read(&stream);
                let number = log.lock().unwrap().len();
                log.lock().unwrap().push(request.clone());
                // The client may have closed the connection; its test asserts that.
                drop(answer(number, &request).write(&mut stream));
            }
        });
        Self {
            url: format!("http://127.0.0.1:{port}/dist"),
            port,
            requests,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("the HTTP server of the test panicked");
        }
    }
}

/// Reads a request and returns its path.
fn read(stream: &TcpStream) -> String {
    let mut lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    let first = lines.next().expect("a request line");
    assert!(lines.any(|line| line.is_empty()), "the request has an end");
    first.split(' ').nth(1).expect("a path").to_owned()
}
