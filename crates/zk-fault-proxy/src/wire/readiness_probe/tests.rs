//! The canary against a listener that plays a server, byte for byte.

use std::error::Error as _;
use std::time::Instant;

use tokio::net::TcpListener;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// What the listener does after each frame it receives.
enum Play {
    /// Sends these payloads, each in a frame.
    Reply(Vec<Vec<u8>>),
    /// Sends these bytes as they are.
    Raw(&'static [u8]),
    /// Closes the connection.
    Close,
    /// Keeps silent until the client goes away.
    Silence,
}

/// Runs the canary against a server that plays these scenes, one per request; returns what it received, too.
async fn run(scenes: Vec<Play>, within: Duration) -> (Vec<Vec<u8>>, Result<(), WireError>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("a bound listener");
    let server = async {
        let (stream, _) = listener.accept().await.expect("a connection");
        let mut connection = Connection {
            stream,
            buffer: Vec::new(),
        };
        let mut received = Vec::new();
        for scene in scenes {
            received.push(connection.receive().await.expect("a request"));
            match scene {
                Play::Close => return received,
                Play::Raw(bytes) => connection
                    .stream
                    .write_all(bytes)
                    .await
                    .expect("an open connection"),
                Play::Reply(payloads) => {
                    for payload in payloads {
                        connection.send(&payload).await.expect("an open connection");
                    }
                }
                Play::Silence => {}
            }
        }
        // Until the client has hung up, so that the end of the script is never taken for a failure.
        assert!(
            connection.receive().await.is_err(),
            "a request beyond the script"
        );
        received
    };
    tokio::join!(server, probe_writes(addr, within))
}

fn granted(session: i64) -> Play {
    let mut payload = [0, 0, 0, 0, 0, 0, 0x0f, 0xa0].to_vec();
    payload.extend(session.to_be_bytes());
    payload.extend([0, 0, 0, 16]);
    payload.extend([7; 17]);
    Play::Reply(vec![payload])
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

fn one(xid: i32, code: i32, body: &[u8]) -> Play {
    Play::Reply(vec![reply(xid, code, body)])
}

fn data(bytes: &[u8]) -> Vec<u8> {
    [frame::wrap(bytes), vec![0; 68]].concat()
}

/// The message and the reasons below it.
fn chain(error: &WireError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

// covers: H2
#[tokio::test]
async fn a_serving_server_gets_a_node_a_read_and_a_close_in_order() {
    let scenes = vec![
        granted(5),
        one(1, 0, &frame::wrap(b"/x")),
        one(2, 0, &data(DATA)),
        one(3, 0, b""),
    ];
    let (received, outcome) = run(scenes, LONG).await;
    outcome.expect("a server that serves");
    let [connect, create, get, close] = &received[..] else {
        panic!("four requests are expected: {received:?}")
    };
    assert_eq!(*connect, record::connect(Duration::from_secs(4)));
    let mut decoder = Decoder::new(&create[8..]);
    let path = std::str::from_utf8(decoder.buffer("the path").unwrap()).unwrap();
    assert_eq!(
        path.strip_prefix("/zk-harness-canary-").map(str::len),
        Some(16),
        "{path}"
    );
    assert_eq!(*create, record::create_ephemeral(1, path, DATA));
    assert_eq!(*get, record::get_data(2, path));
    assert_eq!(*close, record::close_session(3));
}

#[tokio::test]
async fn notifications_and_pings_between_are_passed_over() {
    let scenes = vec![
        granted(5),
        Play::Reply(vec![
            reply(-1, 0, b"watch"),
            reply(-2, 0, b""),
            reply(1, 0, &frame::wrap(b"/x")),
        ]),
        one(2, 0, &data(DATA)),
        Play::Reply(vec![reply(-1, 0, b"watch"), reply(3, 0, b"")]),
    ];
    run(scenes, LONG).await.1.expect("a server that serves");
}

#[tokio::test]
async fn each_failure_says_what_was_waited_for_and_why() {
    let failures = [
        (
            vec![Play::Close],
            "waiting for a session: the server closed the connection",
        ),
        (
            vec![granted(0)],
            "waiting for a session: the server grants no session",
        ),
        (
            vec![Play::Raw(b"HTTP/1.1 400 Bad Request\r\n")],
            "the peer is no ZooKeeper server",
        ),
        (vec![one(0, 0, b"")], "the session password needs"),
        (
            vec![granted(5), Play::Close],
            "waiting for the canary node to be written: the server closed",
        ),
        (
            vec![granted(5), one(1, -102, b"")],
            "to be written: the server says no auth (-102)",
        ),
        (
            vec![granted(5), one(7, 0, b"")],
            "a reply to request 7 came, where one to request 1 was due",
        ),
        (
            vec![granted(5), Play::Reply(vec![vec![0; 5]])],
            "the zxid of a reply needs 8 bytes where 1 are left",
        ),
        (
            vec![granted(5), one(1, 0, b""), one(2, -101, b"")],
            "to be read back: the server says no node (-101)",
        ),
        (
            vec![granted(5), one(1, 0, b""), one(2, 0, &data(b"other"))],
            "holds 5 other bytes than were written",
        ),
        (
            vec![granted(5), one(1, 0, b""), one(2, 0, b"")],
            "the node's data needs 4 bytes where 0 are left",
        ),
        (
            vec![
                granted(5),
                one(1, 0, b""),
                one(2, 0, &data(DATA)),
                Play::Close,
            ],
            "waiting for the session to be closed",
        ),
    ];
    for (scenes, expected) in failures {
        let error = run(scenes, LONG).await.1.expect_err(expected);
        let text = chain(&error);
        assert!(
            text.contains(expected),
            "{text:?} does not contain {expected:?}"
        );
        assert!(text.contains(&error.addr.to_string()), "{text}");
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_is_given_up_at_the_deadline() {
    for (scenes, step) in [
        (vec![Play::Silence], "a session"),
        (
            vec![granted(5), Play::Silence],
            "the canary node to be written",
        ),
    ] {
        let started = Instant::now();
        let error = run(scenes, Duration::from_millis(50))
            .await
            .1
            .expect_err("silence");
        assert!(started.elapsed() < Duration::from_secs(10));
        let text = chain(&error);
        assert!(
            text.contains(&format!("waiting for {step}: no answer within 50ms")),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_closed_port_is_told_with_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let addr = listener.local_addr().expect("a bound listener");
    drop(listener);
    let text = chain(&probe_writes(addr, LONG).await.expect_err("nobody listens"));
    assert!(
        text.contains(&addr.to_string()) && text.contains("waiting for a connection: "),
        "{text}"
    );
}
