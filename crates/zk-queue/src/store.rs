//! Reads and writes the nodes of a queue: offering, listing and taking items as bytes.
//!
//! Its parts:
//!
//! - [`context`]: the session, the paths, the options and the idempotency tokens, which all other parts use;
//! - [`offers`]: creates items, in the active one of the [`segments`]; [`joined_offers`] those of several calls at once;
//! - [`joined_calls`]: joins calls that wait while others are in flight into one transaction, as [`backlog`] decides;
//! - [`inventory`]: which items are listed, in flight, quarantined and prefetched, and which one is next. It is pure;
//!   the tasks of a process share it, with the items [`in_flight`];
//! - [`list_reader`]: reads the lists into the inventory, and waits for changes;
//! - [`read_items`]: reads the items of the list;
//! - [`batch`]: changes several items in one transaction;
//! - [`take`]: takes items, and puts them back;
//! - [`cancel`]: removes an item by its id; [`cancel_with_id`] those with an id of the application;
//! - [`counts`]: counts the items by their state;
//! - [`recorded_layout`]: writes the layout into the queue's node, and compares it.
//!
//! To *take* an item is to delete its node and to return it to the caller, whichever method of `Queue` was called.
//! That happens in these steps:
//!
//! 1. [`listing`] lists the children of the items node and of the segments, under one [`list_epoch`]: the versions that
//!    every later transaction about these items checks.
//!    If there is no fence, or the items node is fresh (see `preconditions`), [`fresh_node`] writes what is missing
//!    before an item is picked.
//! 2. [`ListReader::next_item`] picks the first ready item of the list, or another one while other consumers take
//!    items, too (see `contention`). The item is in flight from then on: no other task of this process picks it.
//! 3. [`ItemReader::read`] reads the item's node together with the next ones, unless it was read ahead.
//! 4. [`Takes::take`] deletes the node in one transaction. It first writes an idempotency token, then checks the
//!    preconditions of the list epoch, and then deletes the node under the version that was read. If another consumer
//!    has the item, the transaction is refused, and the next item is tried.
//! 5. If the caller is gone by then, [`requeue`] puts the item back.
//!
//! A work queue replaces step 4 by a transaction that creates a claim and writes the item; see `work_queue`.

use std::sync::Arc;

use zk_core::{NodePath, Session};

use crate::options::QueueOptions;
use crate::paths::QueuePaths;

mod active_segment;
mod backlog;
mod batch;
mod cancel;
mod cancel_with_id;
mod capacity;
mod conditional_commit;
mod context;
mod counts;
mod fresh_node;
mod in_flight;
mod inventory;
mod item_content;
mod joined_calls;
mod joined_offers;
mod list_epoch;
mod list_reader;
mod listing;
mod offers;
mod read_items;
mod read_preconditions;
mod recorded_layout;
mod requeue;
mod segments;
mod take;

pub(crate) use batch::{Batch, BatchFailure, ItemChange, MAX_PARENT_ROUNDS, Refusal};
pub use cancel::CancelOutcome;
pub use cancel_with_id::CancelledItems;
pub(crate) use conditional_commit::ConditionalOutcome;
pub(crate) use context::QueueContext;
pub(crate) use in_flight::{InFlightItem, SharedInventory};
pub(crate) use inventory::Purpose;
pub(crate) use joined_calls::{JoinedCalls, JoinedOutcome, JoinedWork};
use list_reader::ListReader;
pub(crate) use offers::{NewItem, Offers};
pub(crate) use read_items::Candidate;
use read_items::ItemReader;
use segments::Segments;
pub(crate) use take::TakenItem;
use take::Takes;

/// One queue in one process, shared by all handles.
#[derive(Debug)]
pub(crate) struct ItemStore {
    pub(crate) context: Arc<QueueContext>,
    pub(crate) offers: Arc<Offers>,
    pub(crate) joined_offers: Arc<JoinedCalls<Offers>>,
    pub(crate) inventory: Arc<SharedInventory>,
    pub(crate) list: ListReader,
    pub(crate) items: Arc<ItemReader>,
    pub(crate) takes: Takes,
}

impl ItemStore {
    /// `claims` is the parent of the claims, if items are claimed.
    pub(crate) fn new(
        session: &Session,
        paths: QueuePaths,
        claims: Option<NodePath>,
        options: QueueOptions,
    ) -> Self {
        let inventory = Arc::new(SharedInventory::new(options.layout, paths.clone()));
        let context = Arc::new(QueueContext::new(session, paths, options));
        let segments = Arc::new(Segments::new(&context));
        let offers = Arc::new(Offers::new(&context, &segments));
        let items = Arc::new(ItemReader::new(&context, &inventory));
        Self {
            list: ListReader::new(&context, &segments, &inventory, claims),
            takes: Takes::new(&items, &offers),
            joined_offers: Arc::new(JoinedCalls::new(&context, &offers)),
            context,
            offers,
            inventory,
            items,
        }
    }
}
