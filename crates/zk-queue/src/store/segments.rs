//! Spreads items over several parents, because one node's list of children has to fit into one reply.
//!
//! Items are offered to the *active segment*: the items node (segment 0) or, once that is full, a node of its own. The
//! data of the control node names the active segment. Each offer checks the control node's version, so that nothing is
//! added to a segment once the next one is active. Consumers take the segments in their order, and remove empty ones.

use std::sync::{Arc, Mutex};

use futures_util::future;
use zk_core::{Bytes, Error, ErrorClass, ErrorKind};

use super::active_segment::{ActiveSegment, AfterOffer, LAST, NumberSpace, next_number};
use super::context::QueueContext;
use crate::deadline::Deadline;
use crate::error::OfferError;
use crate::mutex::lock;
use crate::paths::{parse_segment, segment_name, segment_numbers};

/// The segments of one queue.
#[derive(Debug)]
pub(super) struct Segments {
    context: Arc<QueueContext>,
    /// The active segment, as it was read last.
    active: Mutex<Option<ActiveSegment>>,
}

impl Segments {
    pub(super) fn new(context: &Arc<QueueContext>) -> Self {
        Self {
            context: Arc::clone(context),
            active: Mutex::default(),
        }
    }

    /// Returns the active segment, as it was read last.
    pub(super) async fn active(&self, deadline: Deadline) -> Result<ActiveSegment, OfferError> {
        let known = *lock(&self.active);
        if let Some(active) = known {
            return Ok(active);
        }
        loop {
            let (active, next) = self.read_active(deadline).await.map_err(OfferError::Core)?;
            if let Some(active) = self.ensure_numbers_left(active, next, deadline).await? {
                *lock(&self.active) = Some(active);
                return Ok(active);
            }
        }
    }

    /// Returns the segment to offer to, so that no number is used twice; `None` if another session has just rotated.
    async fn ensure_numbers_left(
        &self,
        active: ActiveSegment,
        next: u32,
        deadline: Deadline,
    ) -> Result<Option<ActiveSegment>, OfferError> {
        if active.segment != 0 {
            return Ok(Some(active));
        }
        match self.context.options.layout.number_space(next) {
            NumberSpace::Left => Ok(Some(active)),
            NumberSpace::HalfUsed => match self.rotate(active, deadline).await {
                Ok(next) => Ok(next),
                // Many numbers are left: the next offers try again.
                Err(error) if next < LAST => {
                    tracing::debug!(%error, "the next segment could not be activated");
                    Ok(Some(active))
                }
                Err(error) => Err(OfferError::Core(error)),
            },
            NumberSpace::UsedUp => Err(OfferError::Exhausted {
                path: self.context.paths.items.clone(),
            }),
        }
    }

    /// Reads the active segment again, for an offer that is committed elsewhere, so that nothing is counted after it.
    ///
    /// Activates the next segment if this one is full; `None` if the segment has to be read once more.
    pub(super) async fn active_with_room(
        &self,
        deadline: Deadline,
    ) -> Result<Option<ActiveSegment>, OfferError> {
        *lock(&self.active) = None;
        let active = self.active(deadline).await?;
        let path = self.context.paths.segment(active.segment);
        let stat = self.context.exists(&path, deadline).await;
        let Some(stat) = stat.map_err(OfferError::Core)? else {
            let created = match active.segment {
                // The servers delete the items node after it was empty for a while.
                0 => self.context.create_items_node(deadline).await,
                _ => self.reset(active, deadline).await,
            };
            return created.map(|()| None).map_err(OfferError::Core);
        };
        let count = match active.segment {
            0 => stat.num_children,
            // Numbers restart in each segment.
            _ => next_number(&stat),
        };
        if count < self.context.options.segment_size {
            return Ok(Some(active));
        }
        match self.rotate(active, deadline).await {
            // As after any other offer, the next ones try again.
            Err(error) if error.class() == ErrorClass::Outcome => {
                tracing::debug!(%error, "the next segment could not be activated");
                Ok(Some(active))
            }
            rotated => rotated.map_err(OfferError::Core),
        }
    }

    /// Continues with an active segment that was read elsewhere.
    pub(super) fn set_active(&self, active: ActiveSegment) {
        *lock(&self.active) = Some(active);
    }

    /// Forgets the active segment, unless another one was read since.
    pub(super) fn forget(&self, active: ActiveSegment) {
        let mut known = lock(&self.active);
        if *known == Some(active) {
            *known = None;
        }
    }

    /// Reads the active segment and the next number of the items node, from a server that has caught up.
    ///
    /// The control node exists while there is a token.
    async fn read_active(&self, deadline: Deadline) -> Result<(ActiveSegment, u32), Error> {
        let paths = &self.context.paths;
        let (synced, got, items) = future::join3(
            self.context.sync(&paths.control_node, deadline),
            self.context.get(&paths.control_node, deadline),
            self.context.exists(&paths.items, deadline),
        )
        .await;
        synced?;
        let (data, control_version) = match got {
            Ok((data, stat)) => (data, stat.version),
            Err(error) if error.is_no_node() => (Bytes::new(), 0),
            Err(error) => return Err(error),
        };
        let active = ActiveSegment {
            segment: self.parse(&data),
            control_version,
        };
        Ok((active, items?.as_ref().map_or(0, next_number)))
    }

    /// Returns the numbers of the segments that exist, in their order.
    pub(super) async fn list(&self, deadline: Deadline) -> Result<Vec<u32>, Error> {
        let names = self
            .context
            .child_names(&self.context.paths.segments(), deadline)
            .await?;
        Ok(segment_numbers(&names))
    }

    /// Returns the active segment that the data of the control node names.
    pub(super) fn parse(&self, data: &[u8]) -> u32 {
        if data.is_empty() {
            return 0;
        }
        let segment = std::str::from_utf8(data).ok().and_then(parse_segment);
        segment.unwrap_or_else(|| {
            tracing::warn!(path = %self.context.paths.control_node, "the data of the control node names no segment and is ignored");
            0
        })
    }

    /// Activates the next segment if this one is full or has used its numbers; `numbers` are those of an offer.
    pub(super) async fn rotate_if_full(
        &self,
        active: ActiveSegment,
        numbers: &[i32],
        deadline: Deadline,
    ) {
        let options = &self.context.options;
        let size = options.segment_size;
        let next = active.after_offer(numbers, options.layout, size);
        let rotated = async {
            match next {
                AfterOffer::Nothing => return Ok(()),
                AfterOffer::Forget => {
                    self.forget(active);
                    return Ok(());
                }
                AfterOffer::Count => {
                    let stat = self.context.session.stat(&self.context.paths.items);
                    let stat = stat.timeout(deadline.remaining()).await?;
                    if stat.num_children < size {
                        return Ok(());
                    }
                }
                AfterOffer::Rotate => {}
            }
            self.rotate(active, deadline).await.map(drop)
        };
        if let Err(error) = rotated.await {
            // This offer was committed; the next ones try to rotate again.
            tracing::debug!(%error, "the next segment could not be activated");
        }
    }

    /// Activates the next segment; `None` if another session has done so.
    async fn rotate(
        &self,
        active: ActiveSegment,
        deadline: Deadline,
    ) -> Result<Option<ActiveSegment>, Error> {
        let next = active.segment + 1;
        let created = self
            .context
            .session
            .create(self.context.paths.segment(next), "")
            .container_parents()
            .or_set()
            .timeout(deadline.remaining());
        created.await?;
        let set = self
            .context
            .session
            .set(&self.context.paths.control_node, segment_name(next))
            .version(active.control_version)
            .idempotent()
            .timeout(deadline.remaining());
        let activated = set.await;
        self.forget(active);
        match activated {
            Ok(stat) => {
                tracing::debug!(path = %self.context.paths.items, segment = next, "offers go to the next segment");
                Ok(Some(ActiveSegment {
                    segment: next,
                    control_version: stat.version,
                }))
            }
            Err(error) if error.kind() == ErrorKind::BadVersion => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes the items node active again, because the active segment was deleted.
    pub(super) async fn reset(
        &self,
        active: ActiveSegment,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let set = self
            .context
            .session
            .set(&self.context.paths.control_node, "")
            .version(active.control_version);
        let reset = set.timeout(deadline.remaining()).await;
        self.forget(active);
        match reset {
            Err(error) if error.kind() == ErrorKind::BadVersion || error.is_no_node() => Ok(()),
            Err(error) if error.is_outcome_unknown() && !error.is_fatal() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Removes an empty segment, and returns whether it is gone.
    ///
    /// The active segment is removed only if all others are gone; then the items node is active again. A segment stays
    /// if an item was put back into it in between.
    pub(super) async fn remove(
        &self,
        segment: u32,
        active: ActiveSegment,
        are_others_gone: bool,
    ) -> bool {
        let path = self.context.paths.segment(segment);
        let control_node = &self.context.paths.control_node;
        let both = self.context.session.transaction();
        let removed = if segment != active.segment {
            // A request that arrives late must not remove a segment that was activated since.
            let both = both.check_version(control_node, active.control_version);
            both.delete(&path).commit().await
        } else if are_others_gone {
            let both = both.set_version(control_node, "", active.control_version);
            let removed = both.delete(&path).commit().await;
            self.forget(active);
            removed
        } else {
            return false;
        };
        match removed {
            Ok(_) => true,
            Err(error) if error.is_no_node() => true,
            // An item was offered or put back; it can be taken where it is.
            Err(error) => {
                tracing::trace!(%path, %error, "an empty segment was not removed");
                false
            }
        }
    }
}
