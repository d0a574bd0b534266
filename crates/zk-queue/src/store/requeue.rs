//! Puts items back that were taken for a caller that no longer waits.

use std::sync::Arc;
use std::time::Duration;

use zk_core::ErrorClass;
use zk_core::ErrorKind;

use super::ItemStore;
use super::NewItem;
use super::TakenItem;
use crate::curator_frame as frame;
use crate::deadline::Deadline;
use crate::error::OfferError;
use crate::idempotency::ConditionalOutcome;

impl ItemStore {
    /// Puts an item back to its old place; if that is impossible, to the end of its priority.
    pub(crate) async fn requeue(&self, taken: TakenItem) {
        let data = if self.options.layout.is_framed() {
            frame::encode([taken.data.as_slice()])
        } else {
            taken.data
        };
        // There is no deadline: an attempt that was given up might still put the item back.
        let deadline = Deadline::after(Duration::MAX);
        let mut is_back = false;
        let (mut is_in_doubt, mut attempts) = (false, 0);
        let mut place = taken.place;
        while let Some(preconditions) = place.take() {
            let outcome = self
                .tokens
                .commit_once_if(&preconditions, deadline, |transaction| {
                    transaction.create(&taken.path, data.clone())
                });
            let error = match outcome.await {
                Ok(ConditionalOutcome::Committed(_)) => {
                    is_back = true;
                    break;
                }
                // The attempt in doubt was committed.
                Ok(ConditionalOutcome::Refused { error, .. })
                    if is_in_doubt && error.is_node_exists() =>
                {
                    is_back = true;
                    break;
                }
                // The items node was deleted, or another item has the name.
                Ok(ConditionalOutcome::Refused { .. }) => break,
                // Another segment is active now, or the items node is that of a new queue.
                Ok(ConditionalOutcome::PreconditionsFailed) => match self
                    .reread_for_same_items_node(&preconditions, deadline)
                    .await
                {
                    Ok(None) if is_in_doubt => {
                        tracing::error!(path = %taken.path, "the outcome is unknown: the item may or may not have been put back");
                        return;
                    }
                    Ok(new) => {
                        place = new.map(Arc::new);
                        attempts += 1;
                        deadline.pause(attempts).await;
                        continue;
                    }
                    Err(error) => error,
                },
                Err(failure) => {
                    is_in_doubt |= failure.is_in_doubt;
                    failure.error
                }
            };
            match error.class() {
                ErrorClass::Recoverable => {}
                // A request with the full name is larger than the one that offered the item.
                ErrorClass::Outcome if !is_in_doubt => break,
                ErrorClass::Outcome | ErrorClass::Fatal => {
                    tracing::error!(path = %taken.path, %error, "the item was not put back");
                    return;
                }
            }
            place = Some(preconditions);
            attempts += 1;
            deadline.pause(attempts).await;
        }
        if !is_back {
            // To the end of its priority.
            let priority = self
                .options
                .layout
                .has_priorities()
                .then_some(taken.listed.key.priority);
            let new_item = NewItem {
                name_prefix: self
                    .options
                    .layout
                    .name_prefix(priority, 0)
                    .unwrap_or_default(),
                data,
            };
            let mut attempts = 0;
            while let Err(error) = self.offer(std::slice::from_ref(&new_item), deadline).await {
                let may_retry = match &error {
                    OfferError::Core(error) => match error.kind() {
                        // Nodes were created or deleted at the same time.
                        ErrorKind::NoNode | ErrorKind::BadVersion | ErrorKind::NodeExists => true,
                        // A quota or an ACL may be corrected; but closing the session waits for this, so not for ever.
                        _ => match error.class() {
                            ErrorClass::Recoverable => true,
                            ErrorClass::Outcome => attempts < MAX_REFUSALS,
                            ErrorClass::Fatal => false,
                        },
                    },
                    // An item that may have been added must not be added twice.
                    _ => false,
                };
                if !may_retry {
                    tracing::error!(path = %taken.path, %error, "the item was not put back");
                    return;
                }
                attempts += 1;
                deadline.pause(attempts).await;
            }
        }
        tracing::debug!(path = %taken.path, "the item was put back, because its caller no longer waits");
    }
}

/// How often a refused offer is repeated.
const MAX_REFUSALS: u32 = 16;
