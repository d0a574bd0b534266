//! Numbers of nodes in words.
//!
//! Pure: no I/O and no clock.

use crate::crawl::counted;

/// Joins the first count and those of the rest that are not zero.
pub(super) fn counts(first: String, rest: &[(u64, &str)]) -> String {
    let rest = rest.iter().filter(|(count, _)| *count > 0);
    let rest = rest.map(|(count, what)| format!("{count} {what}"));
    std::iter::once(first)
        .chain(rest)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Formats a number of nodes.
pub(crate) fn nodes(count: u64) -> String {
    counted(count, "node")
}
