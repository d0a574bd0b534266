//! Names as other clients write them, and malformed names.

use proptest::prelude::*;

use super::*;

fn key(priority: i32, due: u64, deliveries: u32, number: i32) -> ItemKey {
    ItemKey {
        priority,
        due,
        deliveries,
        sequence: Sequence::new(number),
    }
}

fn fields(priority: Option<i32>, due: u64, id: Option<&str>) -> NameFields<'_> {
    NameFields { priority, due, id }
}

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
        (
            Layout::CuratorId,
            "queue-|order 7-a_b|0000000007",
            key(0, 0, 0, 7),
        ),
        (Layout::Native, "w-5-0-0-0000000007", key(5, 0, 0, 7)),
        (
            Layout::Native,
            "w-n5-18c5a3b2f00-3-0000000007",
            key(-5, 0x18C_5A3B_2F00, 3, 7),
        ),
    ] {
        assert_eq!(layout.parse(name), Some(expected), "{layout:?} {name}");
        let mut all: Vec<_> = ALL
            .into_iter()
            .filter(|it| it.parse(name).is_some())
            .collect();
        if layout == Layout::CuratorDelay {
            // A due time looks like any other id.
            assert_eq!(all.pop(), Some(Layout::CuratorId), "{name}");
        }
        if layout == Layout::Curator {
            // Its consumers also requeue items of these by such a name.
            let others = [Layout::CuratorPriority, Layout::CuratorDelay];
            assert_eq!(all.split_off(1), others, "{name}");
        }
        assert_eq!(all, [layout], "{name}");
        assert_eq!(Layout::of_name(name), Some(layout), "{name}");
    }
    assert_eq!(Layout::of_name("lock-0000000007"), None);
}

/// Curator's `makeRequeueItemPath`, which only its queue with ids overrides.
#[test]
fn an_item_that_curator_requeued_is_one_of_the_layout() {
    let name = "queue-0000000007";
    for (layout, expected) in [
        (Layout::Recipe, None),
        (Layout::Native, None),
        (Layout::Kazoo, None),
        (Layout::Curator, Some(key(0, 0, 0, 7))),
        (Layout::CuratorPriority, Some(key(i32::MIN, 0, 0, 7))),
        (Layout::CuratorDelay, Some(key(0, 0, 0, 7))),
        (Layout::CuratorId, None),
    ] {
        assert_eq!(layout.parse(name), expected, "{layout:?}");
        // When it is offered again, it has the default.
        assert_eq!(layout.priority_of(name), None, "{layout:?}");
        if expected.is_some() {
            let claim = layout.claim_name(0, name);
            assert_eq!(layout.parse_claim_name(&claim), Some((0, name)));
        }
    }
    assert_eq!(Layout::of_name(name), Some(Layout::Curator));
    let urgent = "queue-0FFFFFFFB0000000007";
    assert_eq!(Layout::CuratorPriority.priority_of(urgent), Some(-5));
}

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
        "queue-|xyz|000000007",
        "queue-|xyz|a|0000000007",
        "queue-||0000000007",
        "queue-|+1|+000000007",
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

#[test]
fn an_option_that_a_layout_lacks_is_refused() {
    for layout in ALL {
        let id = layout.has_ids().then_some("x");
        let priority = layout.name_prefix(fields(Some(3), 0, id));
        assert_eq!(priority.is_ok(), layout.has_priorities(), "{layout:?}");
        let delay = layout.name_prefix(fields(None, 9, id));
        assert_eq!(delay.is_ok(), layout.has_delays(), "{layout:?}");
        let other = if id.is_some() { None } else { Some("x") };
        let other = layout.name_prefix(fields(None, 0, other));
        assert_eq!(other, Err(Unsupported::Id), "{layout:?}");
    }
    for priority in [1000, -1] {
        assert_eq!(
            Layout::Kazoo.name_prefix(fields(Some(priority), 0, None)),
            Err(Unsupported::Priority)
        );
    }
    let prefix = |layout: Layout, priority| layout.name_prefix(fields(priority, 0, None));
    assert_eq!(prefix(Layout::Kazoo, None).as_deref(), Ok("entry-100-"));
    assert_eq!(
        prefix(Layout::CuratorPriority, Some(-5)).as_deref(),
        Ok("queue-0FFFFFFFB")
    );
}

#[test]
fn a_claim_is_named_after_its_item() {
    for (layout, segment, item, expected) in [
        (
            Layout::Native,
            0,
            "w-0-0-0-0000000007",
            "0-w-0-0-0-0000000007",
        ),
        (
            Layout::Native,
            3,
            "w-0-0-0-0000000007",
            "3-w-0-0-0-0000000007",
        ),
        (
            Layout::Kazoo,
            0,
            "entry-100-0000000007",
            "entry-100-0000000007",
        ),
        (
            Layout::Kazoo,
            3,
            "entry-100-0000000007",
            "3-entry-100-0000000007",
        ),
        (
            Layout::CuratorId,
            0,
            "queue-|7-x|0000000007",
            "queue-|7-x|0000000007",
        ),
    ] {
        let claim = layout.claim_name(segment, item);
        assert_eq!(claim, expected);
        assert_eq!(layout.parse_claim_name(&claim), Some((segment, item)));
    }
    for foreign in ["", "lock", "0-lock", "x-w-0-0-0-0000000007", "7"] {
        for layout in ALL {
            assert_eq!(
                layout.parse_claim_name(foreign),
                None,
                "{layout:?} {foreign}"
            );
        }
    }
}

/// As Curator's `fixId` does.
#[test]
fn an_id_is_stored_as_curator_stores_it() {
    for (id, expected) in [
        ("7", Some("7")),
        ("a/b|c d", Some("a_b_c d")),
        ("", None),
        ("a\nb", None),
        ("a\0", None),
    ] {
        assert_eq!(stored_id(id).as_deref(), expected, "{id:?}");
        let prefix = Layout::CuratorId.name_prefix(fields(None, 0, Some(id)));
        let Some(expected) = expected else {
            assert_eq!(prefix, Err(Unsupported::Id), "{id:?}");
            continue;
        };
        let name = format!("{}0000000003", prefix.unwrap());
        assert_eq!(Layout::CuratorId.id_of(&name), Some(expected));
        assert_eq!(Layout::Curator.id_of(&name), None);
    }
}

proptest! {
    #[test]
    fn a_formatted_name_is_parsed_back(priority: i32, due: u64, number: i32) {
        for layout in ALL {
            let priority = layout.has_priorities().then_some(priority);
            let due = if layout.has_delays() { due } else { 0 };
            let id = layout.has_ids().then_some("x");
            let Ok(name_prefix) = layout.name_prefix(fields(priority, due, id)) else {
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

    #[test]
    fn no_name_makes_the_parser_panic(name in "(qn-|queue-|entry-|w-)?.{0,40}") {
        for layout in ALL {
            if let Some(key) = layout.parse(&name) {
                prop_assert!(layout.has_delays() || key.due == 0);
            }
        }
    }
}
