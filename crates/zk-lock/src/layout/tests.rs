use proptest::prelude::*;

use super::*;

fn read(name: &str) -> Option<i32> {
    Layout::curator().sequence_of(name).map(Sequence::number)
}

#[test]
fn contenders_of_every_client_that_counts_are_known() {
    for (name, expected) in [
        // Ours and Curator's, go-zookeeper's, a plain one.
        ("_c_ceaa56f0-83a0-4387-bbd4-d5b3a3d3ff7e-lock-0000000007", 7),
        ("_c_ceaa56f083a04387bbd4d5b3a3d3ff7e-lock-0000000012", 12),
        ("lock-0000000000", 0),
        ("lock-2147483647", i32::MAX),
        // Curator looks for the last "lock-" wherever it stands.
        ("clock-0000000003", 3),
        ("lock-0000000001-lock-0000000002", 2),
        // The counter below zero, as `%010d` writes it.
        ("_c_x-lock--2147483648", i32::MIN),
        ("_c_x-lock--000000042", -42),
        ("_c_x-lock--000000001", -1),
        // kazoo.
        ("d0f5a1d8c1c94d55a1c44f2a1d7c0f6e__lock__0000000004", 4),
        ("d0f5a1d8c1c94d55a1c44f2a1d7c0f6e__lock__-000000004", -4),
        ("d0f5a1d8c1c94d55a1c44f2a1d7c0f6e-lock-0000000005", 5),
        // ZooKeeper's WriteLock: Java, of a negative session id, C.
        ("x-72057594037927936-0000000006", 6),
        ("x--72057594037927936-0000000006", 6),
        ("x--72057594037927936--000000006", -6),
        ("x-010000000000000a-0000000008", 8),
    ] {
        assert_eq!(read(name), Some(expected), "{name}");
    }
}

fn kind_in(layout: Layout, name: &str) -> Option<(i32, Kind)> {
    let (sequence, kind) = layout.parse(name)?;
    Some((sequence.number(), kind))
}

#[test]
fn names_tell_who_shares() {
    let (curator, kazoo, hbase) = (Layout::curator(), Layout::kazoo(), Layout::hbase());
    for (layout, name, expected) in [
        (curator, "_c_x-__READ__0000000001", (1, Kind::Shared)),
        (curator, "_c_x-__WRIT__0000000002", (2, Kind::Exclusive)),
        (curator, "_c_x-lock-0000000003", (3, Kind::Exclusive)),
        (curator, "h__rlock__0000000004", (4, Kind::Shared)),
        (kazoo, "h__rlock__0000000004", (4, Kind::Shared)),
        (kazoo, "h__lock__0000000005", (5, Kind::Exclusive)),
        (kazoo, "_c_x-__WRIT__0000000006", (6, Kind::Exclusive)),
        (hbase, "write-0000000007", (7, Kind::Exclusive)),
        (hbase, "write-42@host0000000007", (7, Kind::Exclusive)),
        (hbase, "write-42@host-000000007", (-7, Kind::Exclusive)),
        (
            hbase,
            "write-42@host-2147483648",
            (i32::MIN, Kind::Exclusive),
        ),
        (
            hbase,
            "write-d0f5a1d8c1c94d55a1c44f2a1d7c0f6e_0000000008",
            (8, Kind::Exclusive),
        ),
        (hbase, "read-42@host0000000009", (9, Kind::Shared)),
        (
            Layout::curator_latch(),
            "_c_x-latch-0000000010",
            (10, Kind::Exclusive),
        ),
        (
            Layout::zookeeper(),
            "x-72057594037927936-0000000011",
            (11, Kind::Exclusive),
        ),
        (
            Layout::zookeeper(),
            "x-d0f5a1d8c1c94d55a1c44f2a1d7c0f6e-0000000012",
            (12, Kind::Exclusive),
        ),
    ] {
        assert_eq!(kind_in(layout, name), Some(expected), "{name}");
    }
    for (layout, name) in [
        (hbase, "_c_x-lock-0000000001"),
        (hbase, "rewrite-0000000001"),
        (hbase, "write-"),
        (hbase, "read-é00000001"),
        (Layout::curator_latch(), "_c_x-lock-0000000001"),
        (Layout::zookeeper(), "_c_x-lock-0000000001"),
    ] {
        assert_eq!(kind_in(layout, name), None, "{name}");
    }
}

#[test]
fn every_layout_knows_its_own_names() {
    for layout in [
        Layout::curator(),
        Layout::kazoo(),
        Layout::hbase(),
        Layout::zookeeper(),
        Layout::curator_latch(),
    ] {
        let mut own = vec![
            (layout.mutex(), Kind::Exclusive),
            (layout.writer(), Kind::Exclusive),
        ];
        own.extend(layout.reader().map(|stem| (stem, Kind::Shared)));
        for (NodePrefix { name, id }, kind) in own {
            let hex = "0123456789abcdef".repeat(2);
            let full = match id {
                IdPlace::After(end) => format!("{name}{hex}{end}0000000042"),
                _ => format!("_c_ceaa56f0-83a0-4387-bbd4-d5b3a3d3ff7e-{name}0000000042"),
            };
            assert_eq!(kind_in(layout, &full), Some((42, kind)), "{full}");
        }
    }
}

#[test]
fn foreign_children_are_no_contenders() {
    for name in [
        "",
        "0",
        "0000000000",
        "lock",
        "lock-",
        "lock-1",
        "lock-000000001",
        "lock-00000000001",
        "lock-+000000001",
        "lock- 000000001",
        "lock-000000000x",
        "lock-0000000001x",
        "lock-2147483648",
        "lock--2147483649",
        "lock---000000001",
        "lock-٠٠٠٠٠٠٠٠٠٠",
        "_c_x-lease-0000000001",
        "_c_x-latch-0000000001",
        "_c_x-LOCK-0000000001",
        "qn-0000000001",
        "x-0000000001",
        "x--0000000001",
        "x---0000000001",
        "x-12g-0000000001",
        "ax-12-0000000001",
        "locks",
        "revoke",
    ] {
        assert_eq!(read(name), None, "{name}");
    }
}

proptest! {
    #[test]
    fn every_number_is_read_back_behind_every_marker(number in any::<i32>(), uuid in "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}") {
        for stem in [format!("_c_{uuid}-lock-"), format!("{uuid}__lock__"), "x-5-".to_owned(), "x--5-".to_owned()] {
            let name = format!("{stem}{number:010}");
            prop_assert_eq!(read(&name), Some(number), "{}", name);
        }
    }

    #[test]
    fn a_marker_counts_directly_before_the_number_only(
        parts in prop::collection::vec("lock-|__lock__|lock|-|[0-9]{9,11}|-[0-9]{9,10}|-?2147483648|y|é", 0..6),
    ) {
        let name = parts.concat();
        let last_marker = |text| name.rsplit_once(text).and_then(|(_, number)| Sequence::parse(number));
        let searched = ["lock-", "__lock__"].into_iter().find_map(last_marker);
        prop_assert_eq!(Layout::curator().sequence_of(&name), searched, "{}", name);
    }

    #[test]
    fn no_name_makes_it_panic(name in any::<String>(), tail in "(lock-|__lock__|x-)[-0-9a-fé]*") {
        let _ = read(&name);
        let _ = read(&format!("{name}{tail}"));
        let _ = read(&tail);
    }
}
