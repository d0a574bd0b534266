//! Decodes the operation and the paths of a request, and encodes the requests of the readiness probe.
//!
//! Pure: no I/O and no clock.

use std::fmt;

use super::jute::{DecodeError, Decoder, Encoder};
use super::op::Op;
use super::request_body::{self, RequestBody};

/// A request that a client has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The client's number for it, from 1; negative for pings (-2), auth (-4) and `setWatches` (-8).
    pub xid: i32,
    /// The operation.
    pub op: Op,
    /// The paths: one; of a transaction, one for each operation; of `setWatches`, one for each watch.
    ///
    /// The path of a sequential node has no number yet.
    pub paths: Vec<String>,
    /// Its fields if it reads a node or is about watches; `None` for others, whose data is not kept.
    pub body: Option<RequestBody>,
}

impl Request {
    /// Decodes the payload of a frame.
    pub(crate) fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(payload);
        let mut request = Self::header(&mut from)?;
        if is_about_watches(request.op) {
            let body = request_body::fields(request.op, &mut from)?;
            request.paths = body.paths();
            request.body = Some(body);
        } else {
            request.paths = paths(request.op, &mut from)?;
        }
        Ok(request)
    }

    /// Decodes only the header, for a frame that is too long to buffer.
    pub(crate) fn decode_header(payload: &[u8]) -> Result<Self, DecodeError> {
        Self::header(&mut Decoder::new(payload))
    }

    fn header(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            xid: from.int("the xid of a request")?,
            op: Op::from_code(from.int("the kind of a request")?),
            paths: Vec::new(),
            body: None,
        })
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.op)?;
        for path in &self.paths {
            write!(f, " {path}")?;
        }
        write!(f, " (xid {})", self.xid)
    }
}

/// Encodes the create of an ephemeral node with all permissions for everyone.
pub(crate) fn create_ephemeral(xid: i32, path: &str, data: &[u8]) -> Vec<u8> {
    let mut to = with_header(xid, Op::Create);
    to.buffer(path.as_bytes()).buffer(data);
    to.int(1)
        .int(ALL_PERMISSIONS)
        .buffer(b"world")
        .buffer(b"anyone");
    to.int(EPHEMERAL).finish()
}

/// Encodes the read of a node's data, without a watch.
pub(crate) fn get_data(xid: i32, path: &str) -> Vec<u8> {
    let mut to = with_header(xid, Op::GetData);
    to.buffer(path.as_bytes()).bool(false).finish()
}

/// Encodes the end of the session; the server removes the ephemeral nodes before it replies.
pub(crate) fn close_session(xid: i32) -> Vec<u8> {
    with_header(xid, Op::CloseSession).finish()
}

fn with_header(xid: i32, op: Op) -> Encoder {
    let mut to = Encoder::default();
    to.int(xid).int(op.code());
    to
}

/// Returns whether a request asks for watches, or sets or removes some.
const fn is_about_watches(op: Op) -> bool {
    matches!(
        op,
        Op::Exists
            | Op::GetData
            | Op::GetChildren
            | Op::GetChildren2
            | Op::AddWatch
            | Op::CheckWatches
            | Op::RemoveWatches
            | Op::SetWatches
            | Op::SetWatches2
    )
}

fn paths(op: Op, from: &mut Decoder<'_>) -> Result<Vec<String>, DecodeError> {
    match op {
        Op::Multi | Op::MultiRead => parts(from),
        Op::Ping
        | Op::Reconfig
        | Op::Auth
        | Op::Sasl
        | Op::WhoAmI
        | Op::CloseSession
        | Op::Other(_) => Ok(Vec::new()),
        _ => Ok(vec![from.path()?]),
    }
}

/// Decodes the paths of a transaction. Each operation has a header of its own; the last header marks the end.
fn parts(from: &mut Decoder<'_>) -> Result<Vec<String>, DecodeError> {
    let mut paths = Vec::new();
    loop {
        let op = Op::from_code(from.int("the kind of a part")?);
        let done = from.bool("the end of the parts")?;
        from.int("the error of a part")?;
        if done {
            return Ok(paths);
        }
        paths.push(from.path()?);
        match op {
            Op::Create | Op::Create2 | Op::CreateContainer | Op::CreateTtl => {
                from.buffer("the data of a part")?;
                let entries = from.int("the length of an access list")?;
                for _ in 0..entries.max(0) {
                    from.int("the permissions of an access list")?;
                    from.buffer("the scheme of an access list")?;
                    from.buffer("the identity of an access list")?;
                }
                from.int("the flags of a part")?;
                if op == Op::CreateTtl {
                    from.long("the time to live of a part")?;
                }
            }
            Op::SetData => {
                from.buffer("the data of a part")?;
                from.int("the version of a part")?;
            }
            Op::GetData | Op::GetChildren => {
                from.bool("the watch of a part")?;
            }
            // Deletes, checks, and other operations with a path and a version.
            _ => {
                from.int("the version of a part")?;
            }
        }
    }
}

const EPHEMERAL: i32 = 1;
/// Create, read, write, delete, admin.
const ALL_PERMISSIONS: i32 = 0b1_1111;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(to: &mut Encoder, op: i32) {
        to.int(7).int(op);
    }

    #[test]
    fn the_path_is_decoded_from_every_operation_with_one() {
        let with = [
            1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 15, 17, 18, 19, 21, 103, 104, 106,
        ];
        for op in -20..=120 {
            let mut to = Encoder::default();
            header(&mut to, op);
            to.buffer(b"/a").int(0);
            let payload = to.finish();
            if matches!(op, 14 | 22 | 101 | 105) {
                continue;
            }
            let expected = if with.contains(&op) {
                vec!["/a"]
            } else {
                vec![]
            };
            let request = Request::decode(&payload).unwrap();
            assert_eq!(request.paths, expected, "{op}");
            assert_eq!((request.xid, request.op), (7, Op::from_code(op)));
        }
    }

    #[test]
    fn a_transaction_has_the_paths_of_its_operations() {
        let mut to = Encoder::default();
        header(&mut to, 14);
        let acl = |to: &mut Encoder| {
            to.int(1).int(31).buffer(b"world").buffer(b"anyone");
        };
        to.int(13).bool(false).int(-1).buffer(b"/check").int(3);
        to.int(1)
            .bool(false)
            .int(-1)
            .buffer(b"/create")
            .buffer(b"data");
        acl(&mut to);
        to.int(3);
        to.int(21).bool(false).int(-1).buffer(b"/ttl").buffer(b"");
        acl(&mut to);
        to.int(5).long(1000);
        to.int(5)
            .bool(false)
            .int(-1)
            .buffer(b"/set")
            .buffer(b"x")
            .int(-1);
        to.int(2).bool(false).int(-1).buffer(b"/delete").int(-1);
        to.int(-1).bool(true).int(-1);
        let payload = to.finish();
        let request = Request::decode(&payload).unwrap();
        assert_eq!(
            request.paths,
            ["/check", "/create", "/ttl", "/set", "/delete"]
        );
        assert_eq!(
            request.to_string(),
            "multi /check /create /ttl /set /delete (xid 7)"
        );
        for len in 8..payload.len() {
            assert!(Request::decode(&payload[..len]).is_err(), "{len} bytes");
        }
    }

    #[test]
    fn multi_reads_and_set_watches_have_all_their_paths() {
        let mut to = Encoder::default();
        header(&mut to, 22);
        to.int(8).bool(false).int(-1).buffer(b"/a").bool(false);
        to.int(4).bool(false).int(-1).buffer(b"/b").bool(true);
        to.int(-1).bool(true).int(-1);
        assert_eq!(Request::decode(&to.finish()).unwrap().paths, ["/a", "/b"]);
        for (op, lists) in [(101, 3), (105, 5)] {
            let mut to = Encoder::default();
            header(&mut to, op);
            to.long(1);
            for list in 0..lists {
                to.int(1).buffer(format!("/{list}").as_bytes());
            }
            let request = Request::decode(&to.finish()).unwrap();
            let all = ["/0", "/1", "/2", "/3", "/4"];
            assert_eq!(request.paths, all[..lists]);
            let Some(RequestBody::SetWatches(of)) = request.body else {
                panic!("no lists: {request:?}");
            };
            assert_eq!(of.child, ["/2"]);
            assert_eq!(of.recursive.is_some(), lists == 5);
        }
    }

    #[test]
    fn create_is_byte_for_byte_what_the_server_expects() {
        let expected = [
            [0, 0, 0, 1].as_slice(),
            &[0, 0, 0, 1],
            &[0, 0, 0, 2, b'/', b'x'],
            &[0, 0, 0, 3, b'a', b'b', b'c'],
            &[0, 0, 0, 1],
            &[0, 0, 0, 31],
            b"\0\0\0\x05world",
            b"\0\0\0\x06anyone",
            &[0, 0, 0, 1],
        ];
        assert_eq!(create_ephemeral(1, "/x", b"abc"), expected.concat());
    }

    #[test]
    fn get_and_close_are_byte_for_byte_what_the_server_expects() {
        assert_eq!(get_data(2, "/x"), b"\0\0\0\x02\0\0\0\x04\0\0\0\x02/x\0");
        assert_eq!(close_session(3), b"\0\0\0\x03\xff\xff\xff\xf5");
    }

    #[test]
    fn requests_of_the_probe_are_decoded() {
        let create = Request::decode(&create_ephemeral(1, "/x", b"abc")).unwrap();
        assert_eq!(create.to_string(), "create /x (xid 1)");
        let close = Request::decode(&close_session(3)).unwrap();
        assert_eq!(close.to_string(), "closeSession (xid 3)");
        assert!(close.paths.is_empty());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(op in -20..120_i32, bytes: Vec<u8>) {
            let mut to = Encoder::default();
            header(&mut to, op);
            let mut payload = to.finish();
            payload.extend(&bytes);
            drop(Request::decode(&payload));
            drop(Request::decode(&bytes));
        }
    }
}
