//! Where offers go when the node of the queue has as many children as one list can have.
//!
//! The data of the desk names the segment that offers go to; every offer is carried out only if that is still so, so
//! that nothing comes into a segment once another one was begun. Consumers take the segments in their order.

use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;

use super::Line;
use crate::deadline::Deadline;
use crate::place::segment_of;
use crate::receipt::lock;

/// The segment that offers go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tail {
    /// Zero for the queue's own node.
    pub(super) segment: u32,
    /// The version of the data that says so.
    pub(super) version: i32,
}

impl Tail {
    /// What the desk says then.
    pub(super) fn data(self) -> String {
        match self.segment {
            0 => String::new(),
            segment => format!("{segment:010}"),
        }
    }
}

impl Line {
    /// The segment that offers go to, as was read last.
    pub(super) async fn tail(&self, deadline: Deadline) -> Result<Tail, Error> {
        let known = *lock(&self.tail);
        if let Some(tail) = known {
            return Ok(tail);
        }
        let tail = self.read_tail(deadline).await?;
        *lock(&self.tail) = Some(tail);
        Ok(tail)
    }

    /// Goes on with another one that was read.
    pub(super) fn replace_tail(&self, tail: Tail) {
        *lock(&self.tail) = Some(tail);
    }

    /// Forgets it, unless somebody else has read another one meanwhile.
    pub(super) fn forget_tail(&self, tail: Tail) {
        let mut known = lock(&self.tail);
        if *known == Some(tail) {
            *known = None;
        }
    }

    /// Reads it from a server that has caught up. The desk is there while there is a receipt.
    async fn read_tail(&self, deadline: Deadline) -> Result<Tail, Error> {
        let sync = self
            .session
            .sync(&self.place.desk)
            .timeout(deadline.remaining());
        let get = self
            .session
            .get(&self.place.desk)
            .timeout(deadline.remaining());
        let (synced, got) = futures_util::future::join(sync.into_future(), get.into_future()).await;
        synced?;
        let (data, version) = match got {
            Ok((data, stat)) => (data, stat.version),
            Err(error) if error.is_no_node() => (Vec::new(), 0),
            Err(error) => return Err(error),
        };
        Ok(Tail {
            segment: self.segment_in(&data),
            version,
        })
    }

    pub(super) fn segment_in(&self, data: &[u8]) -> u32 {
        if data.is_empty() {
            return 0;
        }
        let segment = std::str::from_utf8(data).ok().and_then(segment_of);
        segment.unwrap_or_else(|| {
            tracing::warn!(path = %self.place.desk, "its data names no segment; it is taken for empty");
            0
        })
    }

    /// Begins the next segment if this one has as many items as it may have; called for a part of all offers.
    pub(super) async fn roll_if_full(&self, tail: Tail, numbers: &[i32], deadline: Deadline) {
        let size = self.options.segment_size;
        let is_due = match tail.segment {
            // Other clients take items and offer some here, and the counter goes on: only the server knows.
            0 => {
                let step = i32::try_from((size / 4).clamp(1, LOOK_EVERY)).unwrap_or(1);
                numbers.iter().any(|number| number.rem_euclid(step) == 0)
            }
            // It has had so many.
            _ => numbers.iter().any(|number| {
                u32::try_from(*number).is_ok_and(|number| number.saturating_add(1) >= size)
            }),
        };
        if !is_due {
            return;
        }
        let rolled = async {
            if tail.segment == 0 {
                let stat = self
                    .session
                    .stat(&self.place.items)
                    .timeout(deadline.remaining());
                if stat.await?.num_children < size {
                    return Ok(());
                }
            }
            self.roll(tail, deadline).await
        };
        if let Err(error) = rolled.await {
            // The next offers try again; this one was carried out.
            tracing::debug!(%error, "no segment could be begun");
        }
    }

    async fn roll(&self, tail: Tail, deadline: Deadline) -> Result<(), Error> {
        let next = tail.segment + 1;
        let made = self
            .session
            .create(self.place.segment(next), "")
            .container_parents()
            .or_set()
            .timeout(deadline.remaining());
        made.await?;
        let set = self
            .session
            .set(&self.place.desk, format!("{next:010}"))
            .version(tail.version)
            .idempotent()
            .timeout(deadline.remaining());
        let moved = set.await;
        self.forget_tail(tail);
        match moved {
            Ok(_) => {
                tracing::debug!(path = %self.place.items, segment = next, "offers go to the next segment");
                Ok(())
            }
            // Somebody else has.
            Err(error) if error.kind() == ErrorKind::BadVersion => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends offers back to the queue's own node, because the segment they went to was deleted.
    pub(super) async fn heal_tail(&self, tail: Tail, deadline: Deadline) -> Result<(), Error> {
        let set = self.session.set(&self.place.desk, "").version(tail.version);
        let healed = set.timeout(deadline.remaining()).await;
        self.forget_tail(tail);
        match healed {
            Err(error) if error.kind() == ErrorKind::BadVersion || error.is_no_node() => Ok(()),
            Err(error) if error.is_outcome_unknown() && !error.is_fatal() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Removes a segment that is empty, and sends offers back to the queue's own node if all others are gone; tells
    /// whether it is gone.
    ///
    /// One into which something was put back meanwhile stays, and offers go on behind it.
    pub(super) async fn retire(&self, segment: u32, tail: Tail, are_others_gone: bool) -> bool {
        let path: NodePath = self.place.segment(segment);
        let removed = if segment != tail.segment {
            self.session.delete(&path).await
        } else if are_others_gone {
            let both = self.session.transaction();
            let both = both
                .set_version(&self.place.desk, "", tail.version)
                .delete(&path);
            let removed = both.commit().await.map(|_| ());
            self.forget_tail(tail);
            removed
        } else {
            return false;
        };
        match removed {
            Ok(()) => true,
            Err(error) if error.is_no_node() => true,
            // Something was offered, or put back; and it does no harm where it is.
            Err(error) => {
                tracing::trace!(%path, %error, "an empty segment was not removed");
                false
            }
        }
    }
}

/// How many offers go to the queue's own node until one of them looks how many children it has.
const LOOK_EVERY: u32 = 256;
