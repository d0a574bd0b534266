//! Whether there is room for a lease: the limit as it is stored, and the leases that count against it.
//!
//! Pure: no I/O and no clock.

/// Reads the limit that the data of a semaphore's node says; `None` if it says nothing.
pub(super) fn limit_in(data: &[u8]) -> Result<Option<u32>, NotALimit> {
    let text = std::str::from_utf8(data).map_err(|_| NotALimit)?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NotALimit);
    }
    text.parse().map(Some).map_err(|_| NotALimit)
}

/// The data does not say a limit.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotALimit;

/// Writes a limit as [`limit_in`] reads it.
pub(super) fn data_of(limit: u32) -> Vec<u8> {
    limit.to_string().into_bytes()
}

/// Counts the leases among `children`, those called `own` included, or answers `None` if one of those is missing.
///
/// Whoever sees no more than the limit, in a list made after all of its own leases, has them: of any leases that are
/// there at one time, the list of whoever made the last one of them shows all.
/// That holds whatever else goes wrong, be it that two believe to hold the semaphore's mutex.
pub(super) fn taken<'a, I>(children: &[String], own: I) -> Option<usize>
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

/// Whether a child is a lease: its name ends in `lease-` and a number, of however many digits.
///
/// Numbers beyond those that tell an order count as well: here they need not tell one.
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
            assert_eq!(limit_in(data), limit, "{data:?}");
        }
    }

    // covers: L11
    #[test]
    fn whatever_has_the_number_of_a_lease_counts_and_nothing_else() {
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
            assert_eq!(taken(&children, [own]), Some(1 + more), "{child}");
        }
        assert_eq!(taken(&names(&["lease-0000000001"]), [own]), None);
        assert_eq!(taken(&[], [own]), None);
        assert_eq!(taken(&[], []), Some(0));
    }

    proptest! {
        // covers: L11
        #[test]
        fn limit_survives_being_written(limit: u32) {
            prop_assert_eq!(limit_in(&data_of(limit)), Ok(Some(limit)));
        }

        #[test]
        fn garbage_is_no_lease_and_no_limit_and_breaks_nothing(name in ".*", data: Vec<u8>) {
            let _ = is_lease(&name);
            let _ = limit_in(&data);
        }

        /// The argument of [`taken`], over all ways in which clients make and list leases.
        // covers: L11
        #[test]
        fn no_more_hold_leases_than_the_limit_whoever_lists_when(
            limit in 1_usize..4,
            // What each of some clients does next: make a lease, or list, or give back.
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
                        if taken(&children, [name.as_str()]).is_some_and(|taken| taken <= limit) {
                            holders.push(name);
                        }
                    }
                }
                prop_assert!(holders.len() <= limit, "{:?}", holders);
            }
        }
    }
}
