//! Permission sets, and lists as servers send them.

use bytes::{Bytes, BytesMut};

use super::*;

const LETTERS: [(Permissions, char); 5] = [
    (Permissions::CREATE, 'c'),
    (Permissions::DELETE, 'd'),
    (Permissions::READ, 'r'),
    (Permissions::WRITE, 'w'),
    (Permissions::ADMIN, 'a'),
];

#[test]
fn every_set_contains_its_members_and_prints_their_letters() {
    for bits in 0..32_usize {
        let members = LETTERS
            .iter()
            .enumerate()
            .filter(|(at, _)| bits & (1 << at) != 0)
            .map(|(_, pair)| *pair);
        let set = members
            .clone()
            .fold(Permissions::NONE, |set, (one, _)| set | one);
        assert_eq!(
            set.to_string(),
            members
                .clone()
                .map(|(_, letter)| letter)
                .collect::<String>()
        );
        for (one, _) in LETTERS {
            assert_eq!(
                set.contains(one),
                members.clone().any(|(member, _)| member == one)
            );
        }
        assert_eq!(set == Permissions::ALL, bits == 31);
    }
}

fn encoded(acl: &Acl) -> Bytes {
    let mut to = BytesMut::new();
    acl.encode(&mut Encoder::new(&mut to));
    to.freeze()
}

#[test]
fn a_list_is_encoded_as_numbers_and_texts() {
    let acl = Acl::new([
        AclEntry::new(Permissions::READ | Permissions::ADMIN, "ip", "::1"),
        AclEntry::new(Permissions::NONE, "auth", ""),
    ]);
    let expected: [&[u8]; 7] = [
        &[0, 0, 0, 2],
        &[0, 0, 0, 17],
        b"\0\0\0\x02ip",
        b"\0\0\0\x03::1",
        &[0, 0, 0, 0],
        b"\0\0\0\x04auth",
        b"\0\0\0\0",
    ];
    assert_eq!(encoded(&acl), expected.concat());
}

#[test]
fn what_is_encoded_is_decoded() {
    for acl in [
        Acl::open(),
        Acl::read_only(),
        Acl::creator_only(),
        Acl::new([
            AclEntry::new(Permissions::WRITE, "sasl", "alice"),
            AclEntry::new(Permissions::DELETE | Permissions::CREATE, "digest", "bob:="),
        ]),
        Acl::new([]),
    ] {
        let mut from = Decoder::new(encoded(&acl));
        assert_eq!(Acl::decode(&mut from), Ok(acl));
        assert!(from.is_at_end());
    }
}

#[test]
fn unknown_permissions_are_left_out() {
    for (bits, expected) in [
        (0, Permissions::NONE),
        (3, Permissions::READ | Permissions::WRITE),
        (31, Permissions::ALL),
        (32, Permissions::NONE),
        (33, Permissions::READ),
        (0x101, Permissions::READ),
        (-1, Permissions::ALL),
        (
            -2,
            Permissions::WRITE | Permissions::CREATE | Permissions::DELETE | Permissions::ADMIN,
        ),
        (i32::MAX, Permissions::ALL),
        (i32::MIN, Permissions::NONE),
    ] {
        let mut to = BytesMut::new();
        let mut encoder = Encoder::new(&mut to);
        encoder.int(1).int(bits).string("world").string("anyone");
        let decoded = Acl::decode(&mut Decoder::new(to.freeze()));
        let entry = AclEntry::new(expected, "world", "anyone");
        assert_eq!(decoded, Ok(Acl::new([entry])), "{bits:#x}");
    }
}

#[test]
fn a_list_that_is_cut_short_is_refused() {
    let whole = encoded(&Acl::open());
    for len in 0..whole.len() {
        let decoded = Acl::decode(&mut Decoder::new(whole.slice(..len)));
        assert!(
            matches!(decoded, Err(DecodeError::Short { .. })),
            "{len} bytes: {decoded:?}"
        );
    }
}
