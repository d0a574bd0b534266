//! Refuses requests that servers would misunderstand, or close the connection for.

use crate::acl::Acl;
use crate::call::Call;
use crate::error::{Error, ErrorKind};
use crate::outcome::ANY_VERSION;
use crate::path::NodePath;

/// Refuses version -1, which servers treat as any version.
pub(super) fn check_version(
    call: &Call,
    path: &NodePath,
    version: Option<i32>,
) -> Result<(), Error> {
    if version == Some(ANY_VERSION) {
        return Err(call
            .error(path, ErrorKind::InvalidArgument)
            .detail(NOT_A_VERSION));
    }
    Ok(())
}

/// Refuses a request that would make the server close the connection.
pub(crate) fn check_size(
    call: &Call,
    path: &NodePath,
    data: &[u8],
    acl_bytes: usize,
) -> Result<(), Error> {
    let size = data.len() + path.as_str().len() + call.prefix_len() + acl_bytes + FRAME_OVERHEAD;
    if size <= MAX_REQUEST {
        return Ok(());
    }
    let most = MAX_REQUEST.saturating_sub(size - data.len());
    let detail = if data.is_empty() {
        format!("path and acl take {size} bytes; the server reads at most {MAX_REQUEST}")
    } else {
        format!(
            "{} bytes of data; with this path at most {most} fit, so store it in pieces or elsewhere",
            data.len()
        )
    };
    Err(call.error(path, ErrorKind::TooLarge).detail(detail))
}

/// Refuses a request of several parts that would make the server close the connection.
pub(super) fn check_frame(call: &Call, path: &NodePath, size: usize) -> Result<(), Error> {
    let size = size + FRAME_OVERHEAD;
    if size <= MAX_REQUEST {
        return Ok(());
    }
    Err(call.error(path, ErrorKind::TooLarge).detail(format!(
        "the parts take {size} bytes together; the server reads at most {MAX_REQUEST}"
    )))
}

/// What the access rules take in a request.
pub(super) fn acl_bytes(acl: &Acl) -> usize {
    let entries = acl.entries().iter();
    entries
        .map(|entry| entry.scheme().len() + entry.id().len() + 12)
        .sum()
}

pub(super) const NOT_A_VERSION: &str =
    "version -1 means any version to servers; to ask for none, leave the version away";
/// The server's default `jute.maxbuffer`.
pub(super) const MAX_REQUEST: usize = 0xf_ffff;
/// Room for the header, lengths, flags and time to live.
const FRAME_OVERHEAD: usize = 64;
