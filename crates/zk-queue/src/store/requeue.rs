//! Puts items back that were taken for a caller that no longer waits.

use std::sync::Arc;

use zk_core::{Error, ErrorClass, ErrorKind};

use super::conditional_commit::ConditionalOutcome;
use super::offers::NewItem;
use super::take::{TakenItem, Takes};
use crate::deadline::Deadline;
use crate::error::OfferError;
use crate::layout::NameFields;

impl Takes {
    /// Puts an item back to its old place; if that is impossible, to the end of its priority.
    pub(crate) async fn requeue(&self, taken: TakenItem) {
        let data = self.offers.context.options.layout.frame(taken.data.clone());
        let put_back = match self.restore(&taken, &data).await {
            Ok(true) => Ok(()),
            Ok(false) => self.offer_again(&taken, data).await,
            Err(error) => Err(error),
        };
        match put_back {
            Ok(()) => {
                tracing::debug!(path = %taken.path, "the item was put back, because its caller no longer waits");
            }
            Err(OfferError::Unknown(error)) => {
                tracing::error!(path = %taken.path, %error, "the outcome is unknown: the item may or may not have been put back");
            }
            Err(error) => {
                tracing::error!(path = %taken.path, %error, "the item was not put back");
            }
        }
    }

    /// Puts an item back to its old place; returns `false` if that is impossible.
    async fn restore(&self, taken: &TakenItem, data: &[u8]) -> Result<bool, OfferError> {
        let Some(mut preconditions) = taken.place.clone() else {
            return Ok(false);
        };
        // An attempt that was given up might still put the item back.
        let deadline = Deadline::never();
        let mut attempts = 0;
        loop {
            let context = &self.offers.context;
            let created = context.commit_if(&preconditions, deadline, |transaction| {
                transaction.create(&taken.path, data)
            });
            let failure = match created.await {
                Ok(ConditionalOutcome::Committed(_)) => return Ok(true),
                // The parent was deleted, or another item has the name.
                Ok(ConditionalOutcome::Refused { .. }) => return Ok(false),
                Ok(ConditionalOutcome::PreconditionsFailed) => {
                    let new = context.reread_for_same_items_node(&preconditions, deadline);
                    match new.await {
                        // Another segment is active now.
                        Ok(Some(new)) => {
                            preconditions = Arc::new(new);
                            None
                        }
                        // The items node is that of a new queue.
                        Ok(None) => return Ok(false),
                        Err(error) => Some(OfferError::Core(error)),
                    }
                }
                Err(failure) => Some(failure.into()),
            };
            match failure {
                Some(OfferError::Core(error)) if error.class() == ErrorClass::Recoverable => {}
                // A request with the full name is larger than the one that offered the item.
                Some(OfferError::Core(error)) if !error.is_fatal() => return Ok(false),
                // Repeated in doubt, it might put back an item that has been taken again.
                Some(failure) => return Err(failure),
                None => {}
            }
            attempts += 1;
            deadline.pause(attempts).await;
        }
    }

    /// Offers an item at the end of its priority.
    async fn offer_again(&self, taken: &TakenItem, data: Vec<u8>) -> Result<(), OfferError> {
        let layout = self.offers.context.options.layout;
        let fields = NameFields {
            priority: layout.has_priorities().then_some(taken.listed.key.priority),
            due: 0,
            id: layout.id_of(&taken.listed.name),
        };
        let new_item = NewItem {
            name_prefix: layout.name_prefix(fields).unwrap_or_default(),
            data,
        };
        let deadline = Deadline::never();
        let mut attempts = 0;
        loop {
            match self
                .offers
                .offer(std::slice::from_ref(&new_item), deadline)
                .await
            {
                Err(OfferError::Core(error)) if may_be_offered_again(&error, attempts) => {}
                // An item that may have been added must not be added twice.
                other => return other.map(drop),
            }
            attempts += 1;
            deadline.pause(attempts).await;
        }
    }
}

/// Returns whether an offer that failed may succeed later.
fn may_be_offered_again(error: &Error, attempts: u32) -> bool {
    if let ErrorKind::NoNode | ErrorKind::BadVersion | ErrorKind::NodeExists = error.kind() {
        // Nodes were created or deleted at the same time.
        return true;
    }
    match error.class() {
        ErrorClass::Recoverable => true,
        // A quota or an ACL may be corrected; but closing the session waits for this, so not for ever.
        ErrorClass::Outcome => attempts < MAX_REFUSALS,
        ErrorClass::Fatal => false,
    }
}

/// How often a refused offer is repeated.
const MAX_REFUSALS: u32 = 16;
