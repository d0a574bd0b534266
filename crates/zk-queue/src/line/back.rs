//! Putting back what was taken for somebody who is no longer there.

use std::sync::Arc;
use std::time::Duration;

use zk_core::ErrorClass;

use super::Draft;
use super::Line;
use super::Taken;
use crate::deadline::Deadline;
use crate::error::OfferError;
use crate::frame;
use crate::receipt::Answer;

impl Line {
    /// Puts an item back to its place that was taken for somebody who is no longer there.
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
                        continue;
                    }
                    Err(error) => error,
                },
                Err(failure) => {
                    is_in_doubt |= failure.is_in_doubt;
                    failure.error
                }
            };
            if error.class() != ErrorClass::Recoverable {
                tracing::error!(path = %taken.path, %error, "an item could not be put back");
                return;
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
                // One that may be there already must not be there twice.
                let is_unknown = matches!(error, OfferError::Unknown(_));
                if is_unknown || error.class() != ErrorClass::Recoverable {
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
