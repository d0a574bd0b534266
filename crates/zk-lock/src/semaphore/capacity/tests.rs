//! Which leases count, and whether they fit into the limit.

use proptest::prelude::*;

use super::*;

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn limit_is_a_decimal_number_and_nothing_else() {
    for (data, limit) in [
        (&b""[..], Ok(None)),
        (b" \n", Ok(None)),
        (b"0", Ok(Some(0))),
        (b"17", Ok(Some(17))),
        (b"17\n", Ok(Some(17))),
        (b"4294967295", Ok(Some(u32::MAX))),
        (b"4294967296", Err(NotALimit)),
        (b"-1", Err(NotALimit)),
        (b"+1", Err(NotALimit)),
        (b"1 2", Err(NotALimit)),
        (b"host/1", Err(NotALimit)),
        (b"\xff", Err(NotALimit)),
        (b"\0\0\0\x03", Err(NotALimit)),
    ] {
        assert_eq!(parse_limit(data), limit, "{data:?}");
    }
}

#[test]
fn only_names_with_a_lease_number_count() {
    let own = "_c_9b0a2f1e-lease-0000000003";
    for (child, more) in [
        ("_c_51c7d0aa-lease-0000000004", 1),
        ("_c_51c7d0aa-lease--2147483648", 1),
        ("_c_51c7d0aa-lease-2147483648", 1),
        ("lease-0000000004", 1),
        ("lease-", 0),
        ("lease--", 0),
        ("lease-x", 0),
        ("0", 0),
        ("0000000004", 0),
        ("_c_51c7d0aa-lock-0000000004", 0),
        ("_c_51c7d0aa-lease-0000000004.bak", 0),
    ] {
        let children = names(&[child, own]);
        assert_eq!(count_leases(&children, [own]), Some(1 + more), "{child}");
    }
    assert_eq!(count_leases(&names(&["lease-0000000001"]), [own]), None);
    assert_eq!(count_leases(&[], [own]), None);
    assert_eq!(count_leases(&[], []), Some(0));
}

proptest! {
    #[test]
    fn limit_survives_being_written(limit: u32) {
        prop_assert_eq!(parse_limit(&format_limit(limit)), Ok(Some(limit)));
    }

    #[test]
    fn garbage_is_no_lease_and_no_limit_and_breaks_nothing(name in ".*", data: Vec<u8>) {
        let _ = is_lease(&name);
        let _ = parse_limit(&data);
    }

    /// Checks the claim of [`count_leases`] for all orders in which clients create and list leases.
    #[test]
    fn leases_never_exceed_the_limit_in_any_order_of_lists(
        limit in 1_usize..4,
        // The client that acts next: it creates a lease, lists, or releases.
        steps in prop::collection::vec(0_usize..6, 1..60),
    ) {
        let mut children: Vec<String> = Vec::new();
        let mut holders: Vec<String> = Vec::new();
        for (at, client) in steps.into_iter().enumerate() {
            let prefix = format!("{client}-lease-");
            let made = children.iter().find(|name| name.starts_with(&prefix)).cloned();
            match made {
                None => children.push(format!("{prefix}{at}")),
                Some(name) if holders.contains(&name) => {
                    holders.retain(|other| *other != name);
                    children.retain(|other| *other != name);
                }
                Some(name) => {
                    if count_leases(&children, [name.as_str()]).is_some_and(|taken| taken <= limit) {
                        holders.push(name);
                    }
                }
            }
            prop_assert!(holders.len() <= limit, "{:?}", holders);
        }
    }
}
