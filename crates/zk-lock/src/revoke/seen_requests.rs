//! Remembers which requests the holder of a lock has received, so that each is reported once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::wire_format::{self, CURATOR_REVOKE_MESSAGE, RequestLine};

/// The requests that the holder of a lock has received.
#[derive(Debug, Default)]
pub(crate) struct SeenRequests(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// The ids of the reported requests that are still in the data.
    reported: Vec<String>,
    /// Whether the holder has promised to release the lock.
    is_accepted: bool,
    /// The owner's data, to restore it if it is overwritten.
    owner: Option<Vec<u8>>,
}

/// A request that has not been reported yet.
#[derive(Debug)]
pub(super) enum NewRequest {
    Line(RequestLine),
    Curator,
}

impl SeenRequests {
    /// Finds a request in the data that has not been reported yet, and records it as reported.
    pub(super) fn next(&self, data: &[u8], mzxid: i64) -> Option<NewRequest> {
        let mut seen = self.seen();
        if data == CURATOR_REVOKE_MESSAGE {
            let id = format!("curator {mzxid}");
            let is_new = !seen.reported.contains(&id);
            seen.reported = vec![id];
            return is_new.then_some(NewRequest::Curator);
        }
        seen.owner = Some(data.to_vec());
        let requests = wire_format::requests(data);
        seen.reported
            .retain(|id| requests.iter().any(|request| request.id == *id));
        let request = requests
            .into_iter()
            .find(|request| !seen.reported.contains(&request.id))?;
        seen.reported.push(request.id.clone());
        Some(NewRequest::Line(request))
    }

    /// Returns the owner's data, if it was read.
    pub(super) fn owner(&self) -> Option<Vec<u8>> {
        self.seen().owner.clone()
    }

    /// Records that the holder has promised to release the lock.
    pub(super) fn accept(&self) {
        self.seen().is_accepted = true;
    }

    /// Returns whether the holder has promised to release the lock.
    pub(crate) fn is_accepted(&self) -> bool {
        self.seen().is_accepted
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
