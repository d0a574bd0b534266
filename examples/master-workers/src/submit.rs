//! Submitting: a text goes to the inbox, and whoever submits it is done.

use std::fmt;

use zk_core::ErrorClass;
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

/// A text was not submitted, and those after it were not tried.
#[derive(Debug, thiserror::Error)]
#[error("{submitted}, and not the next one")]
pub struct SubmitError {
    /// What became of those before it, and of itself if nobody knows.
    pub submitted: Submitted,
    /// Why.
    #[source]
    pub reason: Reason,
}

/// Why a text was not submitted.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// It is larger than a text may be.
    ///
    /// Whatever is made of a text fits into a request, of which servers read a megabyte: it is refused here, where
    /// somebody is there to be told, and not at one of the steps after it.
    #[error("the text has {bytes} bytes, and may have {LARGEST_TEXT} at most")]
    TooLarge {
        /// How large it is.
        bytes: usize,
    },
    /// The inbox did not take it.
    #[error(transparent)]
    Offer(#[from] OfferError),
}

impl SubmitError {
    /// Returns what can be done about it.
    pub fn class(&self) -> ErrorClass {
        match &self.reason {
            Reason::TooLarge { .. } => ErrorClass::Outcome,
            Reason::Offer(error) => error.class(),
        }
    }
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
/// stays, and the error tells how many that are.
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
) -> Result<Submitted, SubmitError> {
    let inbox = inbox(session, tree);
    let mut submitted = Submitted::default();
    for text in texts {
        let bytes = text.len();
        let reason = if bytes > LARGEST_TEXT {
            Reason::TooLarge { bytes }
        } else {
            match inbox.offer(&text).await {
                Ok(()) => {
                    submitted.accepted += 1;
                    continue;
                }
                Err(error) => {
                    if let OfferError::Unknown(unknown) = &error {
                        submitted.unknown += 1;
                        if !unknown.is_fatal() {
                            continue;
                        }
                    }
                    error.into()
                }
            }
        };
        return Err(SubmitError { submitted, reason });
    }
    Ok(submitted)
}

/// Describes the queue of what was submitted, the same for all who use it.
pub(crate) fn inbox(session: &Session, tree: &Tree) -> WorkQueue<String> {
    let options = WorkOptions::default()
        .with_capacity(CAPACITY)
        // A text does nothing to the master that makes a task of it: masters that die meanwhile do not die of it. What no
        // master can read is put aside all the same, after an hour and a half.
        .with_max_deliveries(100);
    WorkQueue::with_options(session, tree.inbox(), Text, &options)
        .expect("the path is one, and not the root")
}

/// For people.
impl fmt::Display for Submitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} submitted", self.accepted)?;
        match self.unknown {
            0 => Ok(()),
            unknown => write!(f, ", and {unknown} of which nobody knows whether they are"),
        }
    }
}

/// How many texts may wait to become tasks.
const CAPACITY: usize = 10_000;
/// How many bytes a text may have.
const LARGEST_TEXT: usize = 64 * 1024;
