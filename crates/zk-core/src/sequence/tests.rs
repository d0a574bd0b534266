//! Names with and without numbers.

use super::*;

#[test]
fn names_are_split_where_servers_put_the_number() {
    for (name, expected) in [
        ("lock-0000000000", Some(("lock-", 0))),
        ("lock-2147483647", Some(("lock-", i32::MAX))),
        ("lock--2147483648", Some(("lock-", i32::MIN))),
        ("lock--000000042", Some(("lock-", -42))),
        ("0000000007", Some(("", 7))),
        ("a10000000001", Some(("a1", 1))),
        ("x-1999999999", Some(("x-", 1_999_999_999))),
        ("é0000000001", Some(("é", 1))),
        ("lock-2147483648", None),
        ("lock-42", None),
        ("lock-", None),
        ("", None),
        ("0", None),
        ("lock-00000000é1", None),
        ("lock-000000004", None),
    ] {
        let split = Sequence::split(name).map(|(stem, sequence)| (stem, sequence.number()));
        assert_eq!(split, expected, "{name}");
    }
}

#[test]
fn numbers_are_read_as_they_are_written() {
    for number in [
        0,
        1,
        42,
        i32::MAX,
        -1,
        -42,
        -999_999_999,
        -1_000_000_000,
        i32::MIN,
    ] {
        let sequence = Sequence::new(number);
        assert_eq!(Sequence::parse(&sequence.to_string()), Some(sequence));
        let name = format!("lock-{sequence}");
        assert_eq!(Sequence::split(&name), Some(("lock-", sequence)), "{name}");
    }
    for text in [
        "",
        "-",
        "42",
        "2147483648",
        "00000000001",
        "-00000000001",
        "+000000001",
        "000000000x",
    ] {
        assert_eq!(Sequence::parse(text), None, "{text}");
    }
}

#[test]
fn order_survives_the_wrap_of_the_counter() {
    let distance = |a, b| Sequence::new(a).distance_from(Sequence::new(b));
    assert!(distance(5, 3) > 0 && distance(3, 5) < 0 && distance(3, 3) == 0);
    assert!(distance(i32::MIN, i32::MAX) > 0 && distance(i32::MAX, i32::MIN) < 0);
    assert!(distance(-2_000_000_000, 2_000_000_000) > 0 && distance(0, -1) > 0);
}

#[test]
fn end_of_the_counter_is_seen_from_both_sides() {
    let is_near = |number| Sequence::new(number).is_near_end();
    assert!(
        is_near(i32::MAX)
            && is_near(i32::MAX - 1023)
            && is_near(i32::MIN)
            && is_near(i32::MIN + 1023)
    );
    assert!(!is_near(i32::MAX - 1024) && !is_near(i32::MIN + 1024) && !is_near(0) && !is_near(-1));
}
