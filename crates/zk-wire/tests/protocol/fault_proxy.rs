//! Random requests and replies, compared with the codec of the fault proxy, which shares no code with this crate.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::collection::vec;
use proptest::prelude::*;
use zk_fault_proxy::Op;
use zk_fault_proxy::codec::{self, Connect, Connected, PartResult, ReplyBody, RequestBody, Secret};
use zk_wire::proto::{ConnectRequest, ConnectResponse, DecodeError, Incoming, ReplyShape, Xid};
use zk_wire::{ErrorCode, NodePath, Reply, WatchEvent, WatchEventKind};

use self::described::{described, texts_of};
use self::drawn::{any_reply, any_request, path, stat, text};
use crate::payload;

mod described;
mod drawn;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn every_request_is_decoded_to_what_it_says(request in any_request(), number in 0..20_usize) {
        let mut numbers = std::iter::successors(Some(Xid::FIRST), |xid| Some(xid.next()));
        let chosen = numbers.nth(number).expect("numbers do not end");
        let xid = request.fixed_xid().unwrap_or(chosen);
        let mut stream = BytesMut::new();
        let len = request.encode(xid, &mut stream);
        let frame = payload(&stream);
        prop_assert_eq!(frame.len(), len);
        let (op, body) = described(&request);
        prop_assert_eq!(RequestBody::decode(&frame), Ok((xid.get(), op, body)));
    }

    #[test]
    fn every_request_for_a_session_is_decoded_to_what_it_says(
        last_zxid_seen: i64,
        timeout in 0..=i32::MAX,
        session_id: i64,
        password: Vec<u8>,
        read_only: bool,
    ) {
        let request = ConnectRequest {
            last_zxid_seen,
            timeout: millis(timeout),
            session_id,
            password: Bytes::from(password.clone()),
            read_only,
        };
        let mut stream = BytesMut::new();
        request.encode(&mut stream);
        let expected = Connect {
            protocol_version: 0,
            last_zxid: last_zxid_seen,
            timeout,
            session: session_id,
            password: Secret(password),
            read_only: Some(read_only),
        };
        prop_assert_eq!(Connect::decode(&payload(&stream)), Ok(expected));
    }

    #[test]
    fn every_reply_is_decoded_to_what_it_says((shape, body, reply) in any_reply(), zxid: i64) {
        let frame = payload(&body.encode(7, zxid, 0));
        let Ok(Incoming::Reply { xid, zxid: decoded, body }) = Incoming::decode(frame) else {
            panic!("it is a reply");
        };
        prop_assert_eq!((xid.get(), decoded), (7, zxid));
        prop_assert_eq!(Reply::decode(shape, body.expect("it is no refusal")), Ok(reply));
    }

    #[test]
    fn a_reply_with_a_path_that_no_request_can_name_is_refused(
        text in text(),
        before in vec(path(), 0..3),
        (theirs, _) in stat(),
    ) {
        let Err(error) = NodePath::parse(&text) else {
            return Err(TestCaseError::reject("it is a path"));
        };
        let mut paths = texts_of(&before);
        paths.push(text.clone());
        let parts = paths.iter().map(|path| PartResult::Done(Op::Create, ReplyBody::Path(path.clone())));
        let parts_with_stat = [PartResult::Done(Op::Create2, ReplyBody::Created(text.clone(), theirs))];
        let of_node = "the path of a new node";
        for (shape, body, what) in [
            (ReplyShape::Path, ReplyBody::Path(text.clone()), of_node),
            (ReplyShape::PathAndStat, ReplyBody::Created(text.clone(), theirs), of_node),
            (ReplyShape::Multi, ReplyBody::Parts(parts.collect()), of_node),
            (ReplyShape::Multi, ReplyBody::Parts(parts_with_stat.into()), of_node),
            (ReplyShape::Paths, ReplyBody::Names(paths), "a path"),
        ] {
            let frame = payload(&body.encode(7, 1, 0));
            let Ok(Incoming::Reply { body, .. }) = Incoming::decode(frame) else {
                panic!("it is a reply");
            };
            let refused = Reply::decode(shape, body.expect("it is no refusal"));
            let error = error.clone();
            prop_assert_eq!(refused, Err(DecodeError::InvalidPath { what, error }), "{:?}", shape);
        }
    }

    #[test]
    fn every_refusal_has_its_code(xid in 1..=i32::MAX, zxid: i64, code in any::<i32>()) {
        prop_assume!(code != 0);
        let frame = payload(&ReplyBody::Empty.encode(xid, zxid, code));
        let Ok(Incoming::Reply { xid: decoded, body, .. }) = Incoming::decode(frame) else {
            panic!("it is a reply");
        };
        prop_assert_eq!(decoded.get(), xid);
        prop_assert_eq!(body.map_err(ErrorCode::code), Err(code));
    }

    #[test]
    fn every_notification_is_decoded_to_what_it_says(
        kind in 0..4_usize,
        path in prop_oneof![text(), path().prop_map(|path| path.to_string())],
        zxid: i64,
    ) {
        let (theirs, ours) = [
            (codec::WatchEventKind::Created, WatchEventKind::Created),
            (codec::WatchEventKind::Deleted, WatchEventKind::Deleted),
            (codec::WatchEventKind::DataChanged, WatchEventKind::DataChanged),
            (codec::WatchEventKind::ChildrenChanged, WatchEventKind::ChildrenChanged),
        ][kind];
        let frame = payload(&codec::notification(theirs, &path, zxid));
        let expected = match NodePath::parse(&path) {
            Ok(path) => Incoming::Notification(WatchEvent {
                path,
                kind: Some(ours),
                zxid: (zxid > 0).then_some(zxid),
            }),
            Err(error) => Incoming::Unnamed(error),
        };
        prop_assert_eq!(Incoming::decode(frame), Ok(expected));
    }

    #[test]
    fn every_granted_session_is_decoded_to_what_it_says(
        timeout: i32,
        session: i64,
        password: Vec<u8>,
        read_only: Option<bool>,
    ) {
        let granted = Connected {
            protocol_version: 0,
            timeout,
            session,
            password: Secret(password.clone()),
            read_only,
        };
        let expected = ConnectResponse {
            timeout: millis(timeout.max(0)),
            session_id: session,
            password: Bytes::from(password),
            read_only: read_only.unwrap_or(false),
        };
        prop_assert_eq!(ConnectResponse::decode(payload(&granted.encode())), Ok(expected));
    }
}

fn millis(millis: i32) -> Duration {
    Duration::from_millis(u64::try_from(millis).expect("no time is negative"))
}
