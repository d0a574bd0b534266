//! Tests the readiness probe against a scripted listener, byte for byte.

use std::error::Error as _;
use std::time::Instant;

use tokio::net::TcpListener;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// What the listener does after it has received a frame.
enum Step {
    /// Sends these payloads, each in a frame.
    Reply(Vec<Vec<u8>>),
    /// Sends these bytes as they are.
    Raw(&'static [u8]),
    /// Closes the connection.
    Close,
    /// Sends nothing until the client closes.
    Silence,
}

/// Runs the probe against a listener with this script, one step per request; returns the received requests, too.
async fn run(script: Vec<Step>, within: Duration) -> (Vec<Vec<u8>>, Result<(), WireError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("a bound listener");
    let server = async {
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut connection = Connection { stream };
        let mut received = Vec::new();
        for step in script {
            received.push(connection.receive().await.expect("a request"));
            match step {
                Step::Close => return received,
                Step::Raw(bytes) => connection
                    .stream
                    .write_all(bytes)
                    .await
                    .expect("an open connection"),
                Step::Reply(payloads) => {
                    for payload in payloads {
                        connection.send(&payload).await.expect("an open connection");
                    }
                }
                Step::Silence => {}
            }
        }
        // Waits until the client closes, so that the end of the script does not fail the probe.
        assert!(
            connection.receive().await.is_err(),
            "a request beyond the script"
        );
        received
    };
    tokio::join!(server, probe_writes(addr, within))
}

fn granted(session: i64) -> Step {
    let mut payload = [0, 0, 0, 0, 0, 0, 0x0f, 0xa0].to_vec();
    payload.extend(session.to_be_bytes());
    payload.extend([0, 0, 0, 16]);
    payload.extend([7; 17]);
    Step::Reply(vec![payload])
}

fn reply(xid: i32, code: i32, body: &[u8]) -> Vec<u8> {
    [
        xid.to_be_bytes().as_slice(),
        &0x1_0000_0002_i64.to_be_bytes(),
        &code.to_be_bytes(),
        body,
    ]
    .concat()
}

fn one(xid: i32, code: i32, body: &[u8]) -> Step {
    Step::Reply(vec![reply(xid, code, body)])
}

fn data(bytes: &[u8]) -> Vec<u8> {
    [frame::wrap(bytes), vec![0; 68]].concat()
}

/// Returns the message with those of its sources.
fn chain(error: &WireError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[tokio::test]
async fn the_probe_creates_reads_and_closes_in_this_order() {
    let script = vec![
        granted(5),
        one(1, 0, &frame::wrap(b"/x")),
        one(2, 0, &data(DATA)),
        one(3, 0, b""),
    ];
    let (received, outcome) = run(script, LONG).await;
    outcome.expect("a server that serves");
    let [connect, create, get, close] = &received[..] else {
        panic!("four requests are expected: {received:?}")
    };
    assert_eq!(*connect, handshake::connect(Duration::from_secs(4)));
    let mut decoder = Decoder::new(&create[8..]);
    let path = std::str::from_utf8(decoder.buffer("the path").unwrap()).unwrap();
    assert_eq!(
        path.strip_prefix("/zk-harness-canary-").map(str::len),
        Some(16),
        "{path}"
    );
    assert_eq!(*create, request::create_ephemeral(1, path, DATA));
    assert_eq!(*get, request::get_data(2, path));
    assert_eq!(*close, request::close_session(3));
}

#[tokio::test]
async fn a_server_that_requires_sasl_serves_once_it_grants_a_session() {
    let script = vec![granted(5), one(1, -124, b"")];
    run(script, LONG).await.1.expect("a server that serves");
}

#[tokio::test]
async fn notifications_and_pings_between_replies_are_ignored() {
    let script = vec![
        granted(5),
        Step::Reply(vec![
            reply(-1, 0, b"watch"),
            reply(-2, 0, b""),
            reply(1, 0, &frame::wrap(b"/x")),
        ]),
        one(2, 0, &data(DATA)),
        Step::Reply(vec![reply(-1, 0, b"watch"), reply(3, 0, b"")]),
    ];
    run(script, LONG).await.1.expect("a server that serves");
}

#[tokio::test]
async fn each_error_names_the_failed_step_and_the_cause() {
    let failures = [
        (
            vec![Step::Close],
            "waiting for a session: the server closed the connection",
        ),
        (
            vec![granted(0)],
            "waiting for a session: the server granted no session",
        ),
        (
            vec![Step::Raw(b"HTTP/1.1 400 Bad Request\r\n")],
            "it is not a ZooKeeper server",
        ),
        // As short as a TLS alert.
        (
            vec![Step::Raw(&[0x15, 3, 3, 0, 2, 2, 0x46])],
            "it is not a ZooKeeper server",
        ),
        (vec![one(0, 0, b"")], "the session password needs"),
        (
            vec![granted(5), Step::Close],
            "waiting for the node to be written: the server closed",
        ),
        (
            vec![granted(5), one(1, -102, b"")],
            "to be written: the server returned no auth (-102)",
        ),
        (
            vec![granted(5), one(7, 0, b"")],
            "the server replied to request 7 instead of request 1",
        ),
        (
            vec![granted(5), Step::Reply(vec![vec![0; 5]])],
            "the zxid of a reply needs 8 bytes, but 1 are left",
        ),
        (
            vec![granted(5), one(1, 0, b""), one(2, -101, b"")],
            "to be read back: the server returned no node (-101)",
        ),
        (
            vec![granted(5), one(1, 0, b""), one(2, 0, &data(b"other"))],
            "contains 5 bytes that differ from those written",
        ),
        (
            vec![granted(5), one(1, 0, b""), one(2, 0, b"")],
            "the node's data needs 4 bytes, but 0 are left",
        ),
        (
            vec![
                granted(5),
                one(1, 0, b""),
                one(2, 0, &data(DATA)),
                Step::Close,
            ],
            "waiting for the session to be closed",
        ),
    ];
    for (script, expected) in failures {
        let error = run(script, LONG).await.1.expect_err(expected);
        let text = chain(&error);
        assert!(
            text.contains(expected),
            "{text:?} does not contain {expected:?}"
        );
        assert!(text.contains(&error.addr.to_string()), "{text}");
    }
}

#[tokio::test]
async fn a_silent_server_fails_the_probe_at_the_deadline() {
    // The second one has to reply to the handshake before.
    for (script, waiting_for, within) in [
        (vec![Step::Silence], "a session", Duration::from_millis(50)),
        (
            vec![granted(5), Step::Silence],
            "the node to be written",
            Duration::from_secs(3),
        ),
    ] {
        let started = Instant::now();
        let error = run(script, within).await.1.expect_err("silence");
        assert!(started.elapsed() < LONG);
        let text = chain(&error);
        assert!(
            text.contains(&format!(
                "waiting for {waiting_for}: no answer within {within:?}"
            )),
            "{text}"
        );
    }
}

#[tokio::test]
async fn the_error_for_a_closed_port_contains_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("a bound listener");
    drop(listener);
    let text = chain(
        &probe_writes(addr, LONG)
            .await
            .expect_err("the port is closed"),
    );
    assert!(
        text.contains(&addr.to_string()) && text.contains("waiting for a connection: "),
        "{text}"
    );
}
