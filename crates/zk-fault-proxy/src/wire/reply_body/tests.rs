use super::*;

const HEADER: [u8; 16] = [0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0];

/// The bytes after the length prefix.
fn payload(frame: &[u8]) -> &[u8] {
    let (prefix, payload) = frame.split_first_chunk::<4>().unwrap();
    let len = usize::try_from(i32::from_be_bytes(*prefix)).unwrap();
    assert_eq!(len, payload.len(), "the length prefix");
    payload
}

fn body(reply: &ReplyBody) -> Vec<u8> {
    let frame = reply.encode(7, 0x0001_0000_0002, 0);
    let body = payload(&frame).strip_prefix(&HEADER);
    body.expect("the header comes first").to_vec()
}

fn stat() -> Stat {
    Stat {
        czxid: 1,
        mzxid: 2,
        ctime: 3,
        mtime: 4,
        version: 5,
        cversion: 6,
        aversion: 7,
        ephemeral_owner: 8,
        data_length: 9,
        num_children: 10,
        pzxid: 11,
    }
}

const STAT: [u8; 68] = [
    0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4,
    0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 10, 0, 0, 0,
    0, 0, 0, 0, 11,
];
const PATH: [u8; 6] = [0, 0, 0, 2, b'/', b'a'];

fn path() -> String {
    "/a".to_owned()
}

#[test]
fn every_reply_has_the_layout_of_the_server() {
    let names = vec!["b".to_owned()];
    let names_bytes = [0, 0, 0, 1, 0, 0, 0, 1, b'b'];
    let acl = vec![AclEntry {
        permissions: 31,
        scheme: "ip".to_owned(),
        id: "x".to_owned(),
    }];
    let acl_bytes = [
        [0, 0, 0, 1, 0, 0, 0, 31].as_slice(),
        b"\0\0\0\x02ip\0\0\0\x01x",
    ]
    .concat();
    let identity = vec![("ip".to_owned(), "x".to_owned())];
    for (reply, expected) in [
        (ReplyBody::Empty, vec![]),
        (ReplyBody::Path(path()), PATH.to_vec()),
        (
            ReplyBody::Created(path(), stat()),
            [&PATH[..], &STAT].concat(),
        ),
        (ReplyBody::Stat(stat()), STAT.to_vec()),
        (
            ReplyBody::Data(b"/a".to_vec(), stat()),
            [&PATH[..], &STAT].concat(),
        ),
        (
            ReplyBody::Acl(acl, stat()),
            [acl_bytes.as_slice(), &STAT].concat(),
        ),
        (ReplyBody::Names(names.clone()), names_bytes.to_vec()),
        (
            ReplyBody::Children(names, stat()),
            [&names_bytes[..], &STAT].concat(),
        ),
        (ReplyBody::Number(3), vec![0, 0, 0, 3]),
        (
            ReplyBody::Identities(identity),
            [&[0, 0, 0, 1][..], b"\0\0\0\x02ip\0\0\0\x01x"].concat(),
        ),
        (ReplyBody::Token(None), vec![0xff; 4]),
        (ReplyBody::Token(Some(b"/a".to_vec())), PATH.to_vec()),
    ] {
        assert_eq!(body(&reply), expected, "{reply:?}");
    }
}

#[test]
fn the_parts_of_a_transaction_have_headers_and_an_end() {
    let reply = ReplyBody::Parts(vec![
        PartResult::Done(Op::Create, ReplyBody::Path(path())),
        PartResult::Done(Op::Create2, ReplyBody::Created(path(), stat())),
        PartResult::Done(Op::Check, ReplyBody::Empty),
    ]);
    let end = [0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff];
    let expected = [
        &[0, 0, 0, 1, 0, 0, 0, 0, 0][..],
        &PATH,
        &[0, 0, 0, 15, 0, 0, 0, 0, 0],
        &PATH,
        &STAT,
        &[0, 0, 0, 13, 0, 0, 0, 0, 0],
        &end,
    ];
    assert_eq!(body(&reply), expected.concat());
    let refused = ReplyBody::Parts(vec![PartResult::Refused(0), PartResult::Refused(-101)]);
    let expected = [
        &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0][..],
        &[
            0xff, 0xff, 0xff, 0xff, 0, 0xff, 0xff, 0xff, 0x9b, 0xff, 0xff, 0xff, 0x9b,
        ],
        &end,
    ];
    assert_eq!(body(&refused), expected.concat());
}

#[test]
fn a_refusal_and_a_notification_have_the_layout_of_the_server() {
    let refusal = ReplyBody::Empty.encode(7, 0x0001_0000_0002, -101);
    let expected = [&HEADER[..12], &[0xff, 0xff, 0xff, 0x9b]].concat();
    assert_eq!(payload(&refusal), expected);
    for (kind, code) in [
        (WatchEventKind::Created, 1),
        (WatchEventKind::Deleted, 2),
        (WatchEventKind::DataChanged, 3),
        (WatchEventKind::ChildrenChanged, 4),
    ] {
        let expected = [
            &[0xff, 0xff, 0xff, 0xff][..],
            &[0xff; 8],
            &[0, 0, 0, 0, 0, 0, 0, code, 0, 0, 0, 3],
            &PATH,
        ];
        assert_eq!(payload(&notification(kind, "/a", -1)), expected.concat());
    }
}
