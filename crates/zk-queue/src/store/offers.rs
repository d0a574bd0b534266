//! Creates the nodes of new items, in the active segment.

use std::sync::Arc;
use std::time::Duration;

use zk_core::{Committed, ErrorKind, MultiResult, Sequence, Transaction};

use super::active_segment::ActiveSegment;
use super::context::QueueContext;
use super::segments::Segments;
use crate::batch_limits::max_item_size;
use crate::deadline::Deadline;
use crate::error::OfferError;
use crate::item_id::ItemId;
use crate::layout::{NameFields, Unsupported};
use crate::prepared_offer::{PreparedOffer, SEQUENTIAL};

/// Offers items to one queue.
#[derive(Debug)]
pub(crate) struct Offers {
    pub(crate) context: Arc<QueueContext>,
    pub(super) segments: Arc<Segments>,
}

/// An item to be offered.
#[derive(Debug, Clone)]
pub(crate) struct NewItem {
    /// The name, without the number that the server appends.
    pub(crate) name_prefix: String,
    pub(crate) data: Vec<u8>,
}

impl Offers {
    pub(super) fn new(context: &Arc<QueueContext>, segments: &Arc<Segments>) -> Self {
        Self {
            context: Arc::clone(context),
            segments: Arc::clone(segments),
        }
    }

    /// Returns how many bytes an item adds to a request, or to its reply.
    pub(crate) fn size_of(&self, new_item: &NewItem) -> usize {
        let segment = self.context.paths.segment(u32::MAX);
        segment.as_str().len() + new_item.name_prefix.len() + new_item.data.len()
    }

    /// Refuses an item that is small enough to be offered, but too large to be claimed or put back.
    pub(crate) fn check_size(&self, new_item: &NewItem) -> Result<(), OfferError> {
        let item = self.context.paths.item(u32::MAX, &new_item.name_prefix);
        let item = self.context.session.server_path(&item);
        let longest = item.as_str().len() + NUMBER_LENGTH;
        let (bytes, max) = (
            new_item.data.len(),
            max_item_size(longest, self.context.session.max_buffer()),
        );
        if bytes <= max {
            return Ok(());
        }
        Err(OfferError::TooLarge {
            path: self.context.paths.items.clone(),
            bytes,
            max,
        })
    }

    /// Returns the name of a new item without its number.
    pub(crate) async fn name_prefix(
        &self,
        priority: Option<i32>,
        delay: Option<Duration>,
        id: Option<&str>,
        deadline: Deadline,
    ) -> Result<String, OfferError> {
        let layout = self.context.options.layout;
        let due = match delay {
            None => 0,
            Some(_) if !layout.has_delays() => return Err(OfferError::Delay { layout }),
            Some(delay) => self
                .context
                .due_after(delay, deadline)
                .await
                .map_err(OfferError::Core)?,
        };
        let name_prefix = layout.name_prefix(NameFields { priority, due, id });
        name_prefix.map_err(|unsupported| match (unsupported, priority) {
            (Unsupported::Priority, Some(priority)) => OfferError::Priority { priority, layout },
            (Unsupported::Id, _) => OfferError::Id {
                id: id.map(str::to_owned),
                layout,
            },
            _ => OfferError::Delay { layout },
        })
    }

    /// Offers items in one transaction, and returns the id of each, as far as the reply has it.
    pub(crate) async fn offer(
        &self,
        new_items: &[NewItem],
        deadline: Deadline,
    ) -> Result<Vec<Option<ItemId>>, OfferError> {
        self.create_items(new_items, |nothing_else| nothing_else, deadline)
            .await
    }

    /// Offers items and makes other changes in one transaction.
    pub(crate) async fn offer_with(
        &self,
        new_items: &[NewItem],
        others: impl Fn(Transaction) -> Transaction,
        deadline: Deadline,
    ) -> Result<(), OfferError> {
        let offered = self.create_items(new_items, others, deadline).await;
        offered.map(drop)
    }

    /// Offers an item and makes a caller's changes in one transaction; the caller's parts are counted from two on.
    pub(crate) async fn offer_and_change(
        &self,
        new_item: &NewItem,
        changes: impl Fn(Transaction) -> Transaction,
        deadline: Deadline,
    ) -> Result<Option<ItemId>, OfferError> {
        let new_item = std::slice::from_ref(new_item);
        match self.create_items(new_item, changes, deadline).await {
            Ok(ids) => Ok(ids.into_iter().flatten().next()),
            Err(OfferError::Core(error)) if error.failed_part().is_some_and(|part| part > 1) => {
                Err(OfferError::Refused(error))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Prepares an offer for a transaction of the caller.
    pub(crate) async fn prepare(
        &self,
        new_item: NewItem,
        deadline: Deadline,
    ) -> Result<PreparedOffer, OfferError> {
        // The control node exists while there is a token.
        let fenced = self.context.tokens.fence(deadline.remaining()).await;
        fenced.map_err(OfferError::Core)?;
        loop {
            if let Some(active) = self.segments.active_with_room(deadline).await? {
                let control_node = self.context.paths.control_node.clone();
                let segment = self.context.paths.segment(active.segment);
                return Ok(PreparedOffer::new(
                    (control_node, active.control_version),
                    crate::paths::child(&segment, &new_item.name_prefix),
                    new_item.data,
                ));
            }
        }
    }

    async fn create_items(
        &self,
        new_items: &[NewItem],
        others: impl Fn(Transaction) -> Transaction,
        deadline: Deadline,
    ) -> Result<Vec<Option<ItemId>>, OfferError> {
        let mut rounds = 0;
        loop {
            rounds += 1;
            let active = self.segments.active(deadline).await?;
            let segment = self.context.paths.segment(active.segment);
            let control_node = &self.context.paths.control_node;
            let transaction = self.context.session.transaction();
            let checked = transaction.check_version(control_node, active.control_version);
            let offered = new_items.iter().fold(checked, |transaction, new_item| {
                let path = crate::paths::child(&segment, &new_item.name_prefix);
                transaction.create_as(path, new_item.data.clone(), SEQUENTIAL, None)
            });
            let failure = match self.context.commit(others(offered), deadline).await {
                Ok(committed) => {
                    let created = created_nodes(&committed, new_items.len());
                    let numbers: Vec<i32> = created.clone().filter_map(number_of).collect();
                    let mut ids: Vec<_> = created.map(|node| self.id_of(node)).collect();
                    // There are none in a reply that was lost.
                    ids.resize(new_items.len(), None);
                    self.segments
                        .rotate_if_full(active, &numbers, deadline)
                        .await;
                    return Ok(ids);
                }
                Err(failure) => failure,
            };
            match failure.error.failed_part() {
                // Another segment is active now.
                Some(0) if rounds < MAX_OFFER_ROUNDS => self.segments.forget(active),
                Some(part) if part <= new_items.len() && rounds < MAX_OFFER_ROUNDS => {
                    match failure.error.kind() {
                        // The servers delete the items node after it was empty for a while.
                        ErrorKind::NoNode if active.segment == 0 => {
                            let created = self.context.create_items_node(deadline).await;
                            created.map_err(OfferError::Core)?;
                        }
                        ErrorKind::NoNode => {
                            self.segments
                                .reset(active, deadline)
                                .await
                                .map_err(OfferError::Core)?;
                        }
                        ErrorKind::NodeExists => self.skip_number(active, deadline).await?,
                        _ => return Err(failure.into()),
                    }
                }
                _ => return Err(failure.into()),
            }
        }
    }

    /// Returns the id of an item that was created; `None` if the servers do not report the transaction.
    fn id_of(&self, created: &MultiResult) -> Option<ItemId> {
        match created {
            MultiResult::Created {
                path,
                stat: Some(stat),
            } => Some(ItemId::new(
                self.context.session.server_path(path),
                stat.czxid,
            )),
            _ => None,
        }
    }

    /// Uses up the next number because an item has it: one that was put back, or the counter is at its end.
    async fn skip_number(
        &self,
        active: ActiveSegment,
        deadline: Deadline,
    ) -> Result<(), OfferError> {
        let path = self.context.paths.item(active.segment, "skipped-");
        let skipped = self
            .context
            .session
            .create(path, "")
            .ephemeral()
            .sequential();
        let owned = skipped.owned().timeout(deadline.remaining());
        let node = owned.await.map_err(OfferError::Core)?;
        let number = node.path().name().and_then(Sequence::split);
        if number.is_some_and(|(_, number)| number.is_near_end()) {
            // The next offer reads the active segment, and decides what to do.
            self.segments.forget(active);
        }
        node.delete().await.map_err(OfferError::Core)
    }
}

/// Returns the results of the parts that created items, which follow the check of the segment.
fn created_nodes(
    committed: &Committed,
    items: usize,
) -> impl Iterator<Item = &MultiResult> + Clone {
    committed.results().iter().skip(1).take(items)
}

fn number_of(changed: &MultiResult) -> Option<i32> {
    match changed {
        MultiResult::Created { path, .. } => Some(Sequence::split(path.name()?)?.1.number()),
        _ => None,
    }
}

/// The digits of an item's number.
const NUMBER_LENGTH: usize = 10;
/// How often an offer is repeated because nodes were created or deleted at the same time.
const MAX_OFFER_ROUNDS: u32 = 64;
