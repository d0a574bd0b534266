//! Decides what a leader does next to take over, from the breadcrumb that it has read.
//!
//! Pure: no I/O and no clock.

/// A breadcrumb that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found<'a> {
    pub(super) data: &'a [u8],
    pub(super) version: i32,
    /// The transaction that wrote it, which distinguishes it from every other breadcrumb.
    pub(super) mzxid: i64,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// Nothing: the breadcrumb is this process's own.
    Done { version: i32 },
    /// To create the breadcrumb.
    Create,
    /// To fence the process with this data, whose breadcrumb it is, and decide again.
    Fence { old: &'a [u8], mzxid: i64 },
    /// To replace the breadcrumb, if it still has this version.
    Replace { version: i32 },
}

/// Returns the next step of the leader with this data. `fenced` is the breadcrumb, by its transaction, whose process it
/// has fenced.
pub(super) fn next_step<'a>(found: Option<Found<'a>>, own: &[u8], fenced: Option<i64>) -> Step<'a> {
    let Some(found) = found else {
        return Step::Create;
    };
    let Found {
        data,
        version,
        mzxid,
    } = found;
    if data == own {
        Step::Done { version }
    } else if fenced == Some(mzxid) {
        Step::Replace { version }
    } else {
        Step::Fence { old: data, mzxid }
    }
}

#[cfg(test)]
mod tests;
