//! Requests and replies compared with recordings of ZooKeeper's own Java client and servers.
//!
//! `tests/tests/it/java_frames.rs` records the files of `tests/golden`, describes their format, and checks that they are
//! what today's recording would be.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use zk_wire::Request;
use zk_wire::proto::{ConnectRequest, ConnectResponse, Incoming, Reply, Xid};

use crate::java_requests::requests;
use crate::{golden_text, payload};

/// A series of releases, and the recording of one of them.
const RECORDINGS: [(&str, &str); 3] = [
    ("3.4", include_str!("../golden/java-3.4.txt")),
    ("3.8", include_str!("../golden/java-3.8.txt")),
    ("3.9", include_str!("../golden/java-3.9.txt")),
];

/// The frames of one step of a recording.
struct Step<'a> {
    name: &'a str,
    lines: Vec<Line<'a>>,
}

enum Line<'a> {
    Connect(Bytes),
    Request(Bytes),
    Connected(Bytes, &'a str),
    Message(Bytes, &'a str),
}

#[test]
fn requests_are_byte_for_byte_those_of_the_java_client() {
    for (series, text) in RECORDINGS {
        for step in steps(text) {
            let name = step.name;
            let mut expected = requests(name).into_iter();
            for line in step.lines {
                match line {
                    Line::Connect(recorded) => {
                        assert_eq!(
                            encoded_connect(name, &recorded),
                            recorded,
                            "{series}: {name}"
                        );
                    }
                    Line::Request(recorded) => {
                        let request = expected.next();
                        let request = request.unwrap_or_else(|| {
                            panic!("{series}: {name} has another request: {recorded:x}")
                        });
                        let ours = encoded(&request, &recorded);
                        assert_eq!(ours, recorded, "{series}: {name}: {request:?}");
                    }
                    Line::Connected(..) | Line::Message(..) => {}
                }
            }
            assert_eq!(expected.next(), None, "{series}: {name} has fewer requests");
        }
    }
}

#[test]
fn replies_are_decoded_to_what_the_golden_files_say() {
    for (series, text) in RECORDINGS {
        // The requests of each connection have numbers of their own; a session's go on after a reconnect.
        let mut sent = HashMap::new();
        for step in steps(text) {
            let name = step.name;
            let mut expected = requests(name).into_iter();
            for line in step.lines {
                match line {
                    Line::Connect(_) => sent.clear(),
                    Line::Request(recorded) => {
                        let request = expected.next().expect("the test of requests has it");
                        sent.insert(xid(&recorded), request.reply_shape());
                    }
                    Line::Connected(payload, decoded) => {
                        let response = ConnectResponse::decode(payload).expect(name);
                        assert_eq!(format!("{response:?}"), decoded, "{series}: {name}");
                    }
                    Line::Message(payload, decoded) => {
                        let message = match Incoming::decode(payload).expect(name) {
                            Incoming::Notification(event) => format!("{event:?}"),
                            Incoming::Unnamed(error) => panic!("{series}: {name}: {error}"),
                            Incoming::Reply { xid, body, .. } => {
                                let shape =
                                    sent.remove(&xid.get()).expect("it replies to a request");
                                match body {
                                    Ok(body) => {
                                        let reply = Reply::decode(shape, body).expect(name);
                                        golden_text::text_of(&reply)
                                    }
                                    Err(code) => format!("refused: {code}"),
                                }
                            }
                        };
                        assert_eq!(message, decoded, "{series}: {name}");
                    }
                }
            }
        }
    }
}

/// Every operation is recorded, except those that the Java client sends only with SASL.
#[test]
fn recordings_have_every_operation() {
    let mut opcodes = BTreeSet::new();
    for (_, text) in RECORDINGS {
        for step in steps(text) {
            let requests = step.lines.into_iter().filter_map(|line| match line {
                Line::Request(recorded) => Some((&recorded[8..]).get_i32()),
                _ => None,
            });
            opcodes.extend(requests);
        }
    }
    let expected = [
        -11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 14, 15, 16, 17, 18, 19, 21, 22, 100, 101, 103, 104,
        105, 106, 107,
    ];
    assert_eq!(opcodes, BTreeSet::from(expected));
}

/// Encodes a request with the number of the recorded one, unless its number is fixed, and the zxid of the recorded one.
///
/// The Java client gives `setWatches` a number of its own, although it says -8 before; servers accept any.
fn encoded(request: &Request, recorded: &[u8]) -> BytesMut {
    let mut request = request.clone();
    if let Request::SetWatches { last_zxid_seen, .. } = &mut request {
        *last_zxid_seen = (&recorded[12..]).get_i64();
    }
    let numbers = std::iter::successors(Some(Xid::FIRST), |xid| Some(xid.next()));
    let mut numbers = numbers.take_while(|number| number.get() <= 1_000);
    let recorded = xid(recorded);
    let fixed = request
        .fixed_xid()
        .filter(|fixed| *fixed != Xid::SET_WATCHES);
    let number = fixed.or_else(|| numbers.find(|number| number.get() == recorded));
    let mut frame = BytesMut::new();
    request.encode(number.expect("the recording is short"), &mut frame);
    frame
}

/// Encodes the request for a session with the zxid, the session and the password of the recorded one.
fn encoded_connect(name: &str, recorded: &[u8]) -> BytesMut {
    let mut frame = BytesMut::new();
    let is_short = name == "connect, read-only if need be";
    ConnectRequest {
        last_zxid_seen: (&recorded[8..]).get_i64(),
        timeout: Duration::from_millis(if is_short { 1_500 } else { 30_000 }),
        session_id: (&recorded[20..]).get_i64(),
        password: Bytes::copy_from_slice(&recorded[32..48]),
        read_only: is_short,
    }
    .encode(&mut frame);
    frame
}

/// The number of a recorded request.
fn xid(mut frame: &[u8]) -> i32 {
    frame.advance(4);
    frame.get_i32()
}

fn steps(text: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match line.split_once(' ') {
            _ if line.is_empty() || line.starts_with('#') => {}
            Some(("==", name)) => steps.push(Step {
                name,
                lines: Vec::new(),
            }),
            Some((arrow, hex)) => {
                let frame = bytes(hex);
                let mut decoded = || lines.next().expect("a line below").trim_start();
                let line = match arrow {
                    ">>" => Line::Connect(frame),
                    ">" => Line::Request(frame),
                    "<<" => Line::Connected(payload(&frame), decoded()),
                    "<" => Line::Message(payload(&frame), decoded()),
                    _ => panic!("{line} begins no frame"),
                };
                let step: &mut Step<'_> = steps.last_mut().expect("a step has a name");
                step.lines.push(line);
            }
            None => panic!("{line} is no line of a recording"),
        }
    }
    steps
}

fn bytes(hex: &str) -> Bytes {
    let digits = hex.as_bytes().chunks(2);
    let byte = |digits: &[u8]| {
        let digits = std::str::from_utf8(digits).expect("hexadecimal digits");
        u8::from_str_radix(digits, 16).expect("hexadecimal digits")
    };
    digits.map(byte).collect()
}
