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
pub(super) fn is_lease(name: &str) -> bool {
    name.rsplit_once("lease-").is_some_and(|(_, number)| {
        let digits = number.strip_prefix('-').unwrap_or(number);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests;
