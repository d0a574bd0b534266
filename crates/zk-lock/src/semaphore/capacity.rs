//! Decides whether leases fit into the limit: parses the stored limit and counts the leases.
//!
//! Pure: no I/O and no clock.

/// Parses the limit in the data of a semaphore's node; `None` for empty data.
pub(super) fn parse_limit(data: &[u8]) -> Result<Option<u32>, NotALimit> {
    let text = std::str::from_utf8(data).map_err(|_| NotALimit)?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotALimit);
    }
    text.parse().map(Some).map_err(|_| NotALimit)
}

/// The data is not a limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotALimit;

/// Formats a limit as [`parse_limit`] parses it.
pub(super) fn format_limit(limit: u32) -> Vec<u8> {
    limit.to_string().into_bytes()
}

/// Counts the leases among `children`, including those named `own`; returns `None` if one of `own` is missing.
///
/// A client holds its leases if a list that was made after all of them were created contains no more leases than the
/// limit. Of all leases that exist at one time, the client that created the last one listed all of them.
/// This holds whatever else goes wrong, even if two clients believe that they hold the semaphore's mutex.
pub(super) fn count_leases<'a, I>(children: &[String], own: I) -> Option<usize>
where
    I: IntoIterator<Item = &'a str>,
{
    for name in own {
        if !children.iter().any(|child| child == name) {
            return None;
        }
    }
    Some(children.iter().filter(|child| is_lease(child)).count())
}

/// Returns whether a child is a lease: its name ends in `lease-` and a number of any length.
///
/// Numbers too large to determine an order count as well, since leases have no order.
fn is_lease(name: &str) -> bool {
    name.rsplit_once("lease-").is_some_and(|(_, number)| {
        let digits = number.strip_prefix('-').unwrap_or(number);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    // covers: L11
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

    // covers: L11
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
        // covers: L11
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
        // covers: L11
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
}
