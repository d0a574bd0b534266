//! Putting back what was taken for somebody who is no longer there.

use std::sync::Arc;
use std::time::Duration;

use zk_core::ErrorClass;
use zk_core::ErrorKind;

use super::Draft;
use super::Line;
use super::Taken;
use crate::curator_frame as frame;
use crate::deadline::Deadline;
use crate::error::OfferError;
use crate::idempotency::Answer;

impl Line {
    /// Puts an item back that was taken for somebody who is no longer there: to its place, or to the end of its priority
    /// if it cannot be put there.
    pub(crate) async fn put_back(&self, taken: Taken) {
        let data = if self.options.layout.is_framed() {
            frame::encode([taken.data.as_slice()])
        } else {
            taken.data
        };
        // For as long as the session lives: an attempt that were given up might put it back all the same.
        let deadline = Deadline::after(Duration::MAX);
        let mut is_back = false;
        let (mut is_in_doubt, mut attempts) = (false, 0);
        let mut place = taken.place;
        while let Some(ground) = place.take() {
            let answer = self.receipts.confirm_on(&ground, deadline, |transaction| {
                transaction.create(&taken.path, data.clone())
            });
            let error = match answer.await {
                Ok(Some(Answer::Done(_))) => {
                    is_back = true;
                    break;
                }
                // It was put there by the attempt whose outcome was unknown.
                Ok(Some(Answer::Refused { error, .. }))
                    if is_in_doubt && error.is_node_exists() =>
                {
                    is_back = true;
                    break;
                }
                // Its place is gone, or is another one's there.
                Ok(Some(Answer::Refused { .. })) => break,
                // Offers may go to another segment since; or the place may be one of another queue of that name.
                Ok(None) => match self.new_ground(&ground, deadline).await {
                    Ok(None) if is_in_doubt => {
                        tracing::error!(path = %taken.path, "nobody knows whether an item was put back");
                        return;
                    }
                    Ok(regained) => {
                        place = regained.map(Arc::new);
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
                // Naming its place takes more of a request than offering it did.
                ErrorClass::Outcome if !is_in_doubt => break,
                ErrorClass::Outcome | ErrorClass::Fatal => {
                    tracing::error!(path = %taken.path, %error, "an item could not be put back");
                    return;
                }
            }
            place = Some(ground);
            attempts += 1;
            deadline.pause(attempts).await;
        }
        if !is_back {
            // Behind everything else.
            let priority = self
                .options
                .layout
                .has_priorities()
                .then_some(taken.spot.slot.priority);
            let draft = Draft {
                stem: self.options.layout.stem(priority, 0).unwrap_or_default(),
                data,
            };
            let mut attempts = 0;
            while let Err(error) = self.offer(std::slice::from_ref(&draft), deadline).await {
                let may_try_again = match &error {
                    OfferError::Core(error) => match error.kind() {
                        // Nodes come and go at the wrong moments.
                        ErrorKind::NoNode | ErrorKind::BadVersion | ErrorKind::NodeExists => true,
                        // A quota or a right may be mended, and closing the session waits for this.
                        _ => match error.class() {
                            ErrorClass::Recoverable => true,
                            ErrorClass::Outcome => attempts < MOST_REFUSALS,
                            ErrorClass::Fatal => false,
                        },
                    },
                    // One that may be there already must not be there twice.
                    _ => false,
                };
                if !may_try_again {
                    tracing::error!(path = %taken.path, %error, "an item could not be put back");
                    return;
                }
                attempts += 1;
                deadline.pause(attempts).await;
            }
        }
        tracing::debug!(path = %taken.path, "an item was put back that nobody waited for any more");
    }
}

/// How often an item is offered that is refused, when it cannot be put back to its place.
const MOST_REFUSALS: u32 = 16;
