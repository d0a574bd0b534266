use proptest::prelude::*;

use super::*;
use crate::wire::jute::Encoder;

/// The length prefix and the bytes of a text of at most 255 bytes.
fn text(text: &str) -> Vec<u8> {
    let len = u8::try_from(text.len()).unwrap();
    [&[0, 0, 0, len], text.as_bytes()].concat()
}

fn open_acl() -> Vec<u8> {
    [vec![0, 0, 0, 1, 0, 0, 0, 31], text("world"), text("anyone")].concat()
}

fn anyone() -> Vec<AclEntry> {
    vec![AclEntry {
        permissions: 31,
        scheme: "world".to_owned(),
        id: "anyone".to_owned(),
    }]
}

fn path() -> String {
    "/a".to_owned()
}

fn create(flags: i32, ttl: Option<i64>) -> RequestBody {
    RequestBody::Create(Create {
        path: path(),
        data: b"xy".to_vec(),
        acl: anyone(),
        flags,
        ttl,
    })
}

fn create_fields(flags: u8) -> Vec<u8> {
    [text("/a"), text("xy"), open_acl(), vec![0, 0, 0, flags]].concat()
}

const ANY: [u8; 4] = [0xff; 4];
const END: [u8; 9] = [0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff];

fn part(code: u8, fields: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, code, 0], &ANY[..], fields].concat()
}

fn paths(count: u8) -> Vec<u8> {
    let mut list = vec![0, 0, 0, count];
    for number in 0..count {
        list.extend(text(&format!("/{number}")));
    }
    list
}

fn listed(count: u8) -> Vec<String> {
    (0..count).map(|number| format!("/{number}")).collect()
}

/// Each operation with its code, the bytes of its fields and what they mean.
fn all() -> Vec<(i32, Vec<u8>, RequestBody)> {
    let watched = [text("/a"), vec![1]].concat();
    let versioned = [text("/a"), vec![0, 0, 0, 3]].concat();
    let lists = |more: bool| {
        RequestBody::SetWatches(WatchLists {
            relative_zxid: 5,
            data: listed(1),
            exist: listed(2),
            child: listed(3),
            persistent: more.then(|| listed(0)),
            recursive: more.then(|| listed(1)),
        })
    };
    let three = [vec![0, 0, 0, 0, 0, 0, 0, 5], paths(1), paths(2), paths(3)].concat();
    let transaction = [
        part(13, &versioned),
        part(1, &create_fields(3)),
        part(15, &create_fields(0)),
        part(21, &[create_fields(5), vec![0; 7], vec![9]].concat()),
        part(5, &[text("/a"), text("xy"), ANY.to_vec()].concat()),
        part(2, &versioned),
        END.to_vec(),
    ]
    .concat();
    let set = RequestBody::SetData {
        path: path(),
        data: b"xy".to_vec(),
        version: -1,
    };
    let check = RequestBody::Check {
        path: path(),
        version: 3,
    };
    let delete = RequestBody::Delete {
        path: path(),
        version: 3,
    };
    let one = |op, body: &RequestBody| Part {
        op,
        body: body.clone(),
    };
    let parts = RequestBody::Multi(vec![
        one(Op::Check, &check),
        one(Op::Create, &create(3, None)),
        one(Op::Create2, &create(0, None)),
        one(Op::CreateTtl, &create(5, Some(9))),
        one(Op::SetData, &set),
        one(Op::Delete, &delete),
    ]);
    let get = RequestBody::GetData {
        path: path(),
        watch: true,
    };
    let list = RequestBody::GetChildren {
        path: path(),
        watch: true,
    };
    let reads = [part(4, &watched), part(8, &watched), END.to_vec()].concat();
    let read_parts =
        RequestBody::MultiRead(vec![one(Op::GetData, &get), one(Op::GetChildren, &list)]);
    vec![
        (1, create_fields(1), create(1, None)),
        (15, create_fields(2), create(2, None)),
        (19, create_fields(4), create(4, None)),
        (
            21,
            [create_fields(6), vec![0, 0, 0, 0, 0, 0, 1, 0]].concat(),
            create(6, Some(256)),
        ),
        (2, versioned.clone(), delete),
        (
            3,
            watched.clone(),
            RequestBody::Exists {
                path: path(),
                watch: true,
            },
        ),
        (4, watched.clone(), get),
        (5, [text("/a"), text("xy"), ANY.to_vec()].concat(), set),
        (6, text("/a"), RequestBody::GetAcl { path: path() }),
        (
            7,
            [text("/a"), open_acl(), ANY.to_vec()].concat(),
            RequestBody::SetAcl {
                path: path(),
                acl: anyone(),
                version: -1,
            },
        ),
        (8, watched.clone(), list.clone()),
        (12, watched, list),
        (9, text("/a"), RequestBody::Sync { path: path() }),
        (13, versioned, check),
        (14, transaction, parts),
        (22, reads, read_parts),
        (101, three.clone(), lists(false)),
        (105, [three, paths(0), paths(1)].concat(), lists(true)),
        (
            106,
            [text("/a"), vec![0, 0, 0, 1]].concat(),
            RequestBody::AddWatch {
                path: path(),
                mode: 1,
            },
        ),
        (
            17,
            [text("/a"), vec![0, 0, 0, 2]].concat(),
            RequestBody::Watches {
                path: path(),
                kind: 2,
            },
        ),
        (
            18,
            [text("/a"), vec![0, 0, 0, 3]].concat(),
            RequestBody::Watches {
                path: path(),
                kind: 3,
            },
        ),
        (
            103,
            text("/a"),
            RequestBody::GetEphemerals { prefix: path() },
        ),
        (
            104,
            text("/a"),
            RequestBody::GetAllChildrenNumber { path: path() },
        ),
        (
            16,
            [text("a"), text("b"), ANY.to_vec(), vec![0xff; 8]].concat(),
            RequestBody::Reconfig {
                joining: "a".to_owned(),
                leaving: "b".to_owned(),
                members: String::new(),
                version: -1,
            },
        ),
        (
            100,
            [vec![0; 4], text("digest"), text("a:b")].concat(),
            RequestBody::Auth {
                kind: 0,
                scheme: "digest".to_owned(),
                credentials: Secret(b"a:b".to_vec()),
            },
        ),
        (
            102,
            text("t"),
            RequestBody::Sasl {
                token: Secret(b"t".to_vec()),
            },
        ),
        (11, vec![], RequestBody::Ping),
        (107, vec![], RequestBody::WhoAmI),
        (-11, vec![], RequestBody::CloseSession),
        (10, vec![1, 2, 3], RequestBody::Other),
    ]
}

fn frame(code: i32, fields: &[u8]) -> Vec<u8> {
    [&7_i32.to_be_bytes(), &code.to_be_bytes(), fields].concat()
}

#[test]
fn every_operation_is_decoded_with_all_its_fields() {
    for (code, fields, expected) in all() {
        let decoded = RequestBody::decode(&frame(code, &fields));
        assert_eq!(decoded, Ok((7, Op::from_code(code), expected)), "{code}");
    }
}

#[test]
fn every_known_operation_is_in_the_table() {
    let all = all();
    for code in -20..=120 {
        let is_known = !matches!(Op::from_code(code), Op::Other(_));
        let is_there = all.iter().any(|(one, ..)| *one == code);
        assert!(!is_known || is_there, "{code}");
    }
}

#[test]
fn a_request_that_is_cut_short_or_too_long_is_refused() {
    for (code, fields, expected) in all() {
        if expected == RequestBody::Other {
            continue;
        }
        let whole = frame(code, &fields);
        for len in 0..whole.len() {
            let decoded = RequestBody::decode(&whole[..len]);
            assert!(decoded.is_err(), "{code}: {len} of {} bytes", whole.len());
        }
        let error = RequestBody::decode(&[&whole[..], &[0]].concat()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a request ends, but 1 bytes are left",
            "{code}"
        );
    }
}

#[test]
fn a_part_of_unknown_kind_is_an_error() {
    let fields = [part(99, &text("/a")), END.to_vec()].concat();
    let error = RequestBody::decode(&frame(14, &fields)).unwrap_err();
    assert_eq!(error.to_string(), "a part has an unknown kind");
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(code in -20..120_i32, bytes: Vec<u8>) {
        drop(RequestBody::decode(&frame(code, &bytes)));
        drop(RequestBody::decode(&bytes));
        let mut to = Encoder::default();
        let parts = to.int(7).int(14).int(code).bool(false).int(0).finish();
        drop(RequestBody::decode(&[parts, bytes].concat()));
    }
}
