//! Submitting: a text goes to the inbox, and whoever submits it is done.

use zk_core::Session;
use zk_core::codec::Text;
use zk_queue::OfferError;
use zk_queue::WorkOptions;
use zk_queue::WorkQueue;

use crate::tree::Tree;

/// What became of texts that were submitted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Submitted {
    /// How many are certainly in the inbox, once each.
    pub accepted: usize,
    /// Of how many nobody knows whether they are: once or not at all.
    pub unknown: usize,
}

/// Submits texts, one after the other.
///
/// The queue is what makes this end well: an offer that was answered is in it once, and one whose answer is lost is sent
/// again without becoming two. How many may wait is bounded, so that a master that is slow is noticed here and not when
/// the servers are out of memory.
///
/// # Errors
///
/// When the inbox is full, or a text is too large, or the ensemble did not take it in time; what was accepted before
/// stays.
///
/// # Cancel safety
///
/// The text that is on its way may be accepted, once.
///
/// # Session loss
///
/// An error.
pub async fn submit(
    session: &Session,
    tree: &Tree,
    texts: impl IntoIterator<Item = String>,
) -> Result<Submitted, OfferError> {
    let options = WorkOptions::default().with_capacity(CAPACITY);
    let inbox = WorkQueue::with_options(session, tree.inbox(), Text, &options)
        .expect("the path is one, and not the root");
    let mut submitted = Submitted::default();
    for text in texts {
        match inbox.offer(&text).await {
            Ok(()) => submitted.accepted += 1,
            Err(OfferError::Unknown(error)) if !error.is_fatal() => submitted.unknown += 1,
            Err(error) => return Err(error),
        }
    }
    Ok(submitted)
}

/// How many texts may wait to become tasks.
const CAPACITY: usize = 10_000;
