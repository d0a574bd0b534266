//! An HTTP server whose responses a test chooses.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// The parts of a request that tests use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// The first byte of the requested range.
    pub(crate) from: Option<usize>,
}

/// A response; `sent` may be less of the body than its declared length.
pub(crate) struct Reply {
    head: String,
    body: Vec<u8>,
    sent: usize,
}

pub(crate) struct Server {
    pub(crate) url: String,
    port: u16,
    requests: Arc<Mutex<Vec<Request>>>,
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

    /// The response of a server that supports ranges.
    pub(crate) fn range(file: &[u8], from: Option<usize>) -> Self {
        let total = file.len();
        match from {
            None => Self::whole(file),
            Some(from) if from < total => Self {
                head: format!(
                    "206 Partial Content\r\nContent-Range: bytes {from}-{}/{total}",
                    total - 1
                ),
                body: file[from..].to_vec(),
                sent: total - from,
            },
            Some(_) => Self::status(&format!(
                "416 Range Not Satisfiable\r\nContent-Range: bytes */{total}"
            )),
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
    /// Answers the n-th request (from 0) with the response of `answer`.
    pub(crate) fn start(answer: impl Fn(usize, &Request) -> Reply + Send + 'static) -> Self {
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

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// First bytes asked for, request by request.
    pub(crate) fn ranges(&self) -> Vec<Option<usize>> {
        self.requests()
            .into_iter()
            .map(|request| request.from)
            .collect()
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

fn read(stream: &TcpStream) -> Request {
    let mut lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    let first = lines.next().expect("a request line");
    let path = first.split(' ').nth(1).expect("a path").to_owned();
    let mut from = None;
    for line in lines.take_while(|line| !line.is_empty()) {
        if let Some(range) = line.to_ascii_lowercase().strip_prefix("range: bytes=") {
            from = Some(range.trim_end_matches('-').parse().expect("a start"));
        }
    }
    Request { path, from }
}
