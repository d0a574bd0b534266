use proptest::prelude::*;

use super::*;

fn some() -> impl Strategy<Value = OwnerInfo> {
    let text = || proptest::string::string_regex("[a-z/\\\\\n\r\u{7} :u{}é]{0,12}").unwrap();
    let payload = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20));
    (text(), any::<u32>(), proptest::option::of(text()), payload).prop_map(
        |(host, pid, label, payload)| OwnerInfo {
            host,
            pid,
            label,
            payload,
        },
    )
}

proptest! {
    #[test]
    fn owner_info_is_parsed_as_it_was_formatted(owner in some()) {
        prop_assert_eq!(OwnerInfo::parse(&owner.to_bytes()), Some(owner));
    }

    #[test]
    fn garbage_is_no_owner(data in proptest::collection::vec(any::<u8>(), 0..60)) {
        prop_assert!(OwnerInfo::parse(&data).is_none() || data.starts_with(b"owner: "));
    }

    #[test]
    fn what_is_split_is_joined_again(owner in some()) {
        let data = owner.to_bytes();
        let (lines, payload) = split(&data).unwrap();
        prop_assert_eq!(joined(&lines, payload), data.clone());
    }
}

#[test]
fn owner_info_is_readable_text() {
    let owner = OwnerInfo::new("build7", 4242).with_label("nightly\nbuild");
    assert_eq!(
        owner.to_bytes(),
        b"owner: build7/4242\nlabel: nightly\\nbuild"
    );
    assert_eq!(owner.to_string(), "build7/4242 (nightly\\nbuild)");
    let owner = OwnerInfo::new("a/b", 1).with_payload([0, 255]);
    assert_eq!(owner.to_bytes(), b"owner: a/b/1\n\n\0\xff");
}

#[test]
fn data_of_other_programs_is_no_owner() {
    for data in [
        &b""[..],
        b"192.168.1.4",
        b"build7/4242",
        b"__REVOKE__",
        b"owner:",
        b"owner: build7",
        b"owner: build7/x",
        b"PBUF\x0a\x05owner: a/1",
        b"owner: \xff/1",
    ] {
        assert_eq!(OwnerInfo::parse(data), None, "{data:?}");
    }
    let unknown = OwnerInfo::parse(b"owner: a/1\ncolour: red\nlabel: x").unwrap();
    assert_eq!(unknown.label(), Some("x"));
}
