//! Submits texts to the inbox.

use std::fmt;

use zk_core::codec::Text;
use zk_core::{ErrorClass, Session};
use zk_queue::{OfferError, WorkOptions, WorkQueue};

use crate::tree::Tree;

/// The outcome of a submission.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Submitted {
    /// How many texts are certainly in the inbox, once each.
    pub accepted: usize,
    /// How many texts have an unknown outcome: in the inbox once, or not at all.
    pub unknown: usize,
}

/// A text was not submitted, and later texts were not attempted.
#[derive(Debug, thiserror::Error)]
#[error("{submitted}, and not the next one")]
pub struct SubmitError {
    /// The outcome of the earlier texts, and of this one if it is unknown.
    pub submitted: Submitted,
    /// Why.
    #[source]
    pub reason: Reason,
}

/// Why a text was not submitted.
#[derive(Debug, thiserror::Error)]
pub enum Reason {
    /// The text is too large.
    ///
    /// Every later request with the text must fit into the one megabyte that servers read. Checking here reports the
    /// error to the submitter instead of failing in a later step.
    #[error("the text has {bytes} bytes, more than the limit of {LARGEST_TEXT}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The inbox did not accept the text.
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
/// The queue guarantees that an acknowledged offer is stored once, and that a retry after a lost reply does not
/// duplicate it. Its capacity is bounded, so that a slow master is noticed here and not when the servers run out of
/// memory.
///
/// # Errors
///
/// If the inbox is full, a text is too large, or the ensemble did not accept it in time. Texts accepted before stay,
/// and the error states their number.
///
/// # Cancel safety
///
/// The text in flight may be accepted, once.
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
                Ok(_) => {
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

/// Returns the inbox queue with the options that all processes share.
pub(crate) fn inbox(session: &Session, tree: &Tree) -> WorkQueue<String> {
    let options = WorkOptions::default()
        .with_capacity(CAPACITY)
        // Creating a task from a text cannot crash a master, so deliveries that ended with a crash say nothing about
        // the text. A text that no master can decode becomes a dead letter after an hour and a half.
        .with_max_deliveries(100);
    WorkQueue::with_options(session, &tree.inbox, Text, &options)
        .expect("the path is one, and not the root")
}

/// For people.
impl fmt::Display for Submitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} submitted", self.accepted)?;
        match self.unknown {
            0 => Ok(()),
            unknown => write!(f, ", and {unknown} with an unknown outcome"),
        }
    }
}

/// The maximum number of texts in the inbox.
const CAPACITY: usize = 10_000;
/// The maximum size of a text in bytes.
const LARGEST_TEXT: usize = 64 * 1024;
