//! `zk top` against servers that allow less than it asks, played by listeners.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::zk;

/// A listener, and when it was asked what.
struct Server {
    port: u16,
    requests: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Server {
    /// Replies to the first bytes of each connection, which are a whole request.
    fn start(reply: impl Fn(&str) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        // It ends with the test.
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection: TcpStream = connection.expect("a connection");
                let mut bytes = [0; 1024];
                let read = connection.read(&mut bytes).unwrap_or(0);
                let request = String::from_utf8_lossy(&bytes[..read]).into_owned();
                let reply = reply(&request);
                log.lock()
                    .expect("not poisoned")
                    .push((Instant::now(), request));
                // The client may have given up.
                drop(connection.write_all(reply.as_bytes()));
            }
        });
        Self { port, requests }
    }

    fn requests(&self) -> Vec<(Instant, String)> {
        self.requests.lock().expect("not poisoned").clone()
    }
}

fn not_listed(word: &str) -> String {
    format!("{word} is not executed because it is not in the whitelist.\n")
}

fn json(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}")
}

#[test]
fn top_asks_the_admin_server_what_the_client_port_refuses() {
    let client_port = Server::start(not_listed);
    let admin = Server::start(|request| {
        let body = if request.contains("/commands/server_stats ") {
            r#"{"version":"3.9.6-x","node_count":5,
                "server_stats":{"server_state":"leader","last_processed_zxid":7,"packets_received":9}}"#
        } else if request.contains("/commands/monitor ") {
            r#"{"version":"3.9.6-x","watch_count":41}"#
        } else {
            return "HTTP/1.1 404 Not Found\r\n\r\n".to_owned();
        };
        json(body)
    });
    let shown = zk(
        &[],
        &[
            "top",
            "--once",
            "--show",
            "servers",
            "--connect",
            &format!("127.0.0.1:{}", client_port.port),
            "--admin-port",
            &admin.port.to_string(),
        ],
    );
    let row = shown.lines().find(|line| line.starts_with("127.0.0.1:"));
    let row: Vec<_> = row.expect("a row").split_whitespace().collect();
    assert_eq!(row[1], "leader", "{shown}");
    assert!(row.contains(&"41"), "{shown}");
    for word in ["conf", "dirs"] {
        let line = format!(
            "! {word} is not available from 127.0.0.1:{}: add {word} to",
            client_port.port
        );
        assert!(shown.contains(&line), "{word}: {shown}");
    }
    assert!(!shown.contains("mntr is not available"), "{shown}");
    assert!(shown.ends_with("exit 0"), "{shown}");
}

#[test]
fn server_with_a_reply_that_cannot_be_read_is_not_down() {
    let server = Server::start(|word| match word {
        "srvr" => SERVING.to_owned(),
        "cons" => " /127.0.0.1:1[1](queued=0,recved=1,sent=1)\n".repeat(300_000),
        word => not_listed(word),
    });
    let connect = format!("127.0.0.1:{}", server.port);
    let shown = zk(
        &[],
        &["top", "--once", "--show", "sessions", "--connect", &connect],
    );
    let note = format!("! cons is not available from {connect}: the reply is longer than 8 MiB");
    assert!(shown.contains(&note), "{shown}");
    assert!(!shown.contains("is down"), "{shown}");
}

#[test]
fn no_setting_is_recommended_for_a_server_that_does_not_reply() {
    let replies_to = |words: &'static [&str]| {
        Server::start(|word| match word {
            "srvr" if words.contains(&word) => SERVING.to_owned(),
            _ => String::new(),
        })
    };
    let shown = |server: &Server| {
        let connect = format!("127.0.0.1:{}", server.port);
        let arguments = ["top", "--once", "--admin-port", "1", "--connect", &connect];
        zk(&[], &arguments)
    };
    let reason = "the server closed the connection without a reply";
    let shut_down = replies_to(&[]);
    let text = shown(&shut_down);
    let down = format!("127.0.0.1:{} is down: {reason}", shut_down.port);
    assert!(text.contains(&down), "{text}");
    let serving = replies_to(&["srvr"]);
    let text = shown(&serving);
    let missing = format!(
        "mntr is not available from 127.0.0.1:{}: {reason}",
        serving.port
    );
    assert!(text.contains(&missing), "{text}");
    assert!(!text.contains("is down"), "{text}");
    assert!(!text.contains("whitelist"), "{text}");
}

#[test]
fn a_server_that_serves_again_is_asked_everything_again() {
    let asked = Mutex::new(0);
    let server = Server::start(move |word| {
        let mut asked = asked.lock().expect("not poisoned");
        *asked += usize::from(word == "srvr");
        match word {
            _ if *asked < 3 => {
                "This ZooKeeper instance is not currently serving requests\n".to_owned()
            }
            "srvr" => SERVING.to_owned(),
            "conf" => "maxClientCnxns=60\n".to_owned(),
            word => not_listed(word),
        }
    });
    let connect = format!("127.0.0.1:{}", server.port);
    let arguments = ["--once", "--interval", "10s", "--admin-port", "1"];
    let arguments = [&["top", "--connect", &connect][..], &arguments].concat();
    let shown = zk(&[], &arguments);
    assert!(
        shown.contains("does not serve: it has no quorum"),
        "{shown}"
    );
    assert!(shown.contains("standalone"), "{shown}");
    let requests = server.requests().into_iter().map(|(_, word)| word);
    let requests: Vec<_> = requests.collect();
    let served = requests.iter().rposition(|word| word == "conf");
    let before = &requests[..served.expect("conf was asked")];
    let srvr = before.iter().filter(|word| *word == "srvr").count();
    assert!(srvr >= 3, "{requests:?}");
}

const SERVING: &str =
    "Zookeeper version: 3.9.6-x\nReceived: 10\nSent: 9\nZxid: 0x7\nMode: standalone\n";

#[test]
fn top_sends_a_server_at_most_two_words_in_a_second() {
    // Everything is refused everywhere, so that each word is asked twice.
    let client_port = Server::start(not_listed);
    let admin = Server::start(|_| "HTTP/1.1 404 Not Found\r\n\r\n".to_owned());
    let shown = zk(
        &[],
        &[
            "top",
            "--once",
            "--show",
            "servers,sessions,hosts,watches,watchers",
            "--connect",
            &format!("127.0.0.1:{}", client_port.port),
            "--admin-port",
            &admin.port.to_string(),
        ],
    );
    let mut requests = client_port.requests();
    requests.extend(admin.requests());
    requests.sort_by_key(|(at, _)| *at);
    assert!(requests.len() >= 14, "{requests:?}");
    // The fifth follows the first after two seconds; a listener may be scheduled late.
    for window in requests.windows(5) {
        let time = window[4].0 - window[0].0;
        assert!(
            time.as_millis() >= 1500,
            "five requests in {time:?}: {window:?}"
        );
    }
    for word in ["srvr", "mntr", "conf", "dirs", "cons", "wchp", "dump"] {
        assert!(
            shown.contains(&format!("! {word} is not available")),
            "{word}: {shown}"
        );
    }
    assert!(shown.contains("up, role unknown"), "{shown}");
}

#[test]
fn top_reports_a_server_that_is_not_there_as_down() {
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address").port()
    };
    let connect = format!("127.0.0.1:{port}");
    let shown = zk(
        &[],
        &[
            "top",
            "--once",
            "--json",
            "--show",
            "servers",
            "--connect",
            &connect,
        ],
    );
    let (document, rest) = shown.split_once('\n').expect("a line");
    assert_eq!(rest, "exit 0");
    let document: serde_json::Value = serde_json::from_str(document).expect("JSON");
    let role = document["servers"][0]["role"].as_str().expect("a role");
    assert!(role.starts_with("down "), "{document}");
    let event = document["events"][0]["text"].as_str().expect("an event");
    assert!(
        event.starts_with(&format!("{connect} is down: ")),
        "{document}"
    );
}

#[test]
fn top_replays_a_recording_as_text_and_as_json() {
    let recording = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/src/top/fixtures/killed-leader.jsonl"
    );
    let shown = zk(
        &[],
        &[
            "top",
            "--once",
            "--replay",
            recording,
            "--show",
            "servers,recipes",
        ],
    );
    assert!(shown.contains("10.0.0.3:2181  down "), "{shown}");
    assert!(
        shown.contains("the leader is 10.0.0.2:2181, and no longer 10.0.0.3:2181"),
        "{shown}"
    );
    assert!(shown.contains("/locks/nightly      lock"), "{shown}");
    let lines = zk(
        &[],
        &["top", "--replay", recording, "--json", "--interval", "5s"],
    );
    let documents: Vec<serde_json::Value> = lines
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert!(documents.len() >= 4, "{lines}");
    let leaders: Vec<_> = documents
        .iter()
        .map(|document| {
            let servers = document["servers"].as_array().expect("an array");
            let leader = servers.iter().find(|server| server["role"] == "leader");
            leader.map(|server| server["server"].as_str().expect("text").to_owned())
        })
        .collect();
    assert!(
        leaders.contains(&Some("10.0.0.3:2181".to_owned())),
        "{leaders:?}"
    );
    assert_eq!(
        leaders.last(),
        Some(&Some("10.0.0.2:2181".to_owned())),
        "{leaders:?}"
    );
}

#[test]
fn top_shows_a_recording_up_to_where_it_is_cut_or_damaged() {
    let line = r#"{"at":1000,"server":"zk1:2181","reading":{"down":"refused"}}"#;
    let directory = tempfile::tempdir().expect("a directory");
    let recording = directory.path().join("r.jsonl");
    let recording = recording.to_str().expect("text");
    let replayed = |rest: &str, arguments: &[&str]| {
        std::fs::write(recording, format!("{line}\n{rest}")).expect("it is written");
        zk(&[], &[&["top", "--replay", recording], arguments].concat())
    };
    let cut = format!("note: {recording} ends in the middle of a line, which is left out\nexit 0");
    let damaged = format!("error: line 2 of {recording} is not a sample\n");
    for arguments in [&["--once"][..], &["--plain"]] {
        let shown = replayed(&line[..20], arguments);
        assert!(shown.contains("zk1:2181  down"), "{shown}");
        assert!(shown.ends_with(&cut), "{shown}");
        let shown = replayed("{}\n", arguments);
        assert!(shown.contains("zk1:2181  down"), "{shown}");
        assert!(shown.contains(&damaged), "{shown}");
        assert!(shown.ends_with("exit 1"), "{shown}");
    }
    let image = replayed(&line[..20], &["--svg", "80x12"]);
    assert!(image.contains("</svg>") && image.ends_with(&cut), "{image}");
    let whole = replayed("", &["--once"]);
    assert!(!whole.contains("note: "), "{whole}");
}

#[test]
fn top_without_a_terminal_says_what_to_use() {
    let failed = zk(&[], &["top", "--replay", "/no/such/recording"]);
    assert!(
        failed.starts_with("error: cannot read the recording /no/such/recording: "),
        "{failed}"
    );
    assert!(failed.ends_with("exit 1"), "{failed}");
    let unknown = zk(&[], &["top", "--show", "nothing"]);
    assert!(
        unknown.contains("watchers") && unknown.ends_with("exit 2"),
        "{unknown}"
    );
}
