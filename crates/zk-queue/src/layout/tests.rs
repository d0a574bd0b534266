//! Names as other clients write them, and malformed names.

use proptest::prelude::*;

use super::*;

const ALL: [Layout; 6] = [
    Layout::Recipe,
    Layout::Native,
    Layout::Kazoo,
    Layout::Curator,
    Layout::CuratorPriority,
    Layout::CuratorDelay,
];

fn key(priority: i32, due: u64, deliveries: u32, number: i32) -> ItemKey {
    ItemKey {
        priority,
        due,
        deliveries,
        sequence: Sequence::new(number),
    }
}

// covers: Q1 Q4
#[test]
fn names_of_other_clients_are_parsed() {
    for (layout, name, expected) in [
        (Layout::Recipe, "qn-0000000007", key(0, 0, 0, 7)),
        (Layout::Recipe, "qn--2147483648", key(0, 0, 0, i32::MIN)),
        (Layout::Curator, "queue-0000000007", key(0, 0, 0, 7)),
        (Layout::Kazoo, "entry-005-0000000007", key(5, 0, 0, 7)),
        (
            Layout::CuratorPriority,
            "queue-1000000050000000007",
            key(5, 0, 0, 7),
        ),
        (
            Layout::CuratorPriority,
            "queue-0FFFFFFFB0000000007",
            key(-5, 0, 0, 7),
        ),
        (
            Layout::CuratorDelay,
            "queue-|18C5A3B2F00|0000000007",
            key(0, 0x18C_5A3B_2F00, 0, 7),
        ),
        (Layout::Native, "w-5-0-0-0000000007", key(5, 0, 0, 7)),
        (
            Layout::Native,
            "w-n5-18c5a3b2f00-3-0000000007",
            key(-5, 0x18C_5A3B_2F00, 3, 7),
        ),
    ] {
        assert_eq!(layout.parse(name), Some(expected), "{layout:?} {name}");
    }
}

// covers: Q2
#[test]
fn foreign_and_malformed_names_are_not_items() {
    for name in [
        "",
        "0",
        "qn-",
        "qn-7",
        "qn-00000000007",
        "qn-000000000x",
        "QN-0000000007",
        "qn-+000000007",
        "_c_0d8e3dcc-2f4a-4f0e-9c3f-3f0c7a1b9f11-qn-0000000007",
        "lock-0000000007",
        "queue-",
        "queue-|xyz|0000000007",
        "queue-||0000000007",
        "queue-|+1|0000000007",
        "queue-2000000050000000007",
        "queue-0000000050000000007",
        "queue-1FFFFFFFB0000000007",
        "entry-5-0000000007",
        "entry-+05-0000000007",
        "entry-1000-0000000007",
        "w-5-0-0-7",
        "w-05-0-0-0000000007",
        "w-n0-0-0-0000000007",
        "w-5-0-0000000007",
        "w-5-0A-0-0000000007",
        "w-99999999999-0-0-0000000007",
        "w--5-0-0-0000000007",
        "ä",
        "queue-é00000000000000007",
    ] {
        for layout in ALL {
            assert_eq!(layout.parse(name), None, "{layout:?} {name}");
        }
    }
}

// covers: Q4
#[test]
fn an_option_that_a_layout_lacks_is_refused() {
    for layout in ALL {
        let priority = layout.name_prefix(Some(3), 0);
        assert_eq!(priority.is_ok(), layout.has_priorities(), "{layout:?}");
        let delay = layout.name_prefix(None, 9);
        assert_eq!(delay.is_ok(), layout.has_delays(), "{layout:?}");
    }
    assert_eq!(
        Layout::Kazoo.name_prefix(Some(1000), 0),
        Err(Unsupported::Priority)
    );
    assert_eq!(
        Layout::Kazoo.name_prefix(Some(-1), 0),
        Err(Unsupported::Priority)
    );
    assert_eq!(
        Layout::Kazoo.name_prefix(None, 0).as_deref(),
        Ok("entry-100-")
    );
    assert_eq!(
        Layout::CuratorPriority.name_prefix(Some(-5), 0).as_deref(),
        Ok("queue-0FFFFFFFB")
    );
}

proptest! {
    // covers: Q4
    #[test]
    fn a_formatted_name_is_parsed_back(priority: i32, due: u64, number: i32) {
        for layout in ALL {
            let priority = layout.has_priorities().then_some(priority);
            let due = if layout.has_delays() { due } else { 0 };
            let Ok(name_prefix) = layout.name_prefix(priority, due) else {
                prop_assert_eq!(layout, Layout::Kazoo);
                continue;
            };
            let name = format!("{name_prefix}{}", Sequence::new(number));
            let read = layout.parse(&name).expect("the prefix is valid");
            prop_assert_eq!(read, key(priority.unwrap_or(0), due, 0, number));
        }
    }

    #[test]
    fn a_name_with_deliveries_is_parsed_back(priority: i32, due: u64, deliveries: u32, number: i32) {
        let written = key(priority, due, deliveries, number);
        prop_assert_eq!(Layout::Native.parse(&written.native_name()), Some(written));
    }

    // covers: Q2
    #[test]
    fn no_name_makes_the_parser_panic(name in "(qn-|queue-|entry-|w-)?.{0,40}") {
        for layout in ALL {
            if let Some(key) = layout.parse(&name) {
                prop_assert!(layout.has_delays() || key.due == 0);
            }
        }
    }
}
