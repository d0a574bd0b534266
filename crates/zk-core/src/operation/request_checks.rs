//! Refuses requests that servers would misunderstand, or that are longer than the session may send.

use zk_wire::{Acl, NodePath};

use crate::call::Call;
use crate::error::{Error, ErrorKind};
use crate::outcome::ANY_VERSION;

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

/// Refuses a request that is longer than the session may send: a server would close the connection.
pub(crate) fn check_size(
    call: &Call,
    path: &NodePath,
    data: &[u8],
    acl_bytes: usize,
) -> Result<(), Error> {
    let limit = call.engine().transport().max_request();
    let size = data.len() + path.as_str().len() + call.prefix_len() + acl_bytes + FRAME_OVERHEAD;
    if size <= limit {
        return Ok(());
    }
    let most = limit.saturating_sub(size - data.len());
    let what = if data.is_empty() {
        format!("path and acl take {size} bytes")
    } else {
        format!(
            "{} bytes of data; with this path at most {most} fit",
            data.len()
        )
    };
    Err(too_large(call, path, &what, limit))
}

/// Refuses a request of several parts that is longer than the session may send.
pub(super) fn check_frame(call: &Call, path: &NodePath, size: usize) -> Result<(), Error> {
    let limit = call.engine().transport().max_request();
    let size = size + FRAME_OVERHEAD;
    if size <= limit {
        return Ok(());
    }
    let what = format!("the parts take {size} bytes together");
    Err(too_large(call, path, &what, limit))
}

fn too_large(call: &Call, path: &NodePath, what: &str, limit: usize) -> Error {
    let detail = format!(
        "{what}, and the limit of a request is {limit}; store it in pieces or elsewhere, or raise the limit with \
         `max_buffer` if `jute.maxbuffer` of the servers is higher"
    );
    call.error(path, ErrorKind::TooLarge).detail(detail)
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
/// Room for the header, lengths, flags and time to live.
const FRAME_OVERHEAD: usize = 64;
