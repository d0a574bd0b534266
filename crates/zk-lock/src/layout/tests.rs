use proptest::prelude::*;

use super::*;

fn read(name: &str) -> Option<i32> {
    Layout::curator().sequence_of(name).map(Sequence::number)
}

// covers: L13
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
        "_c_x-__READ__0000000001",
        "_c_x-__WRIT__0000000001",
        "_c_x-lease-0000000001",
        "_c_x-latch-0000000001",
        "_c_x-LOCK-0000000001",
        "h__rlock__0000000001",
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
    fn no_name_makes_it_panic(name in any::<String>(), tail in "(lock-|__lock__|x-)[-0-9a-fé]*") {
        let _ = read(&name);
        let _ = read(&format!("{name}{tail}"));
        let _ = read(&tail);
    }
}
