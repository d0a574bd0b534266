//! Lists the items of a queue.
//!
//! The control node is read first, then the items node and the segments. Once a segment is known to be active, nothing
//! is offered to the earlier ones any more: their lists, which are read later, are complete, and the order is kept.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future;
use tokio::time::Instant;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::Stat;
use zk_core::Watch;

use super::ItemStore;
use super::ListEpoch;
use super::Watches;
use super::active_segment::ActiveSegment;
use crate::deadline::Deadline;
use crate::mutex::lock;
use crate::paths::claim_name;
use crate::preconditions::ItemsNode;
use crate::ready_items::ListedItem;

/// The lists of a queue's nodes.
#[derive(Default)]
struct Listing {
    /// The children of each segment that was listed, in the order of the segments.
    segments: Vec<(u32, Vec<String>)>,
    /// The names of the claims.
    claims: BTreeSet<String>,
    watches: Watches,
    /// Whether all segments were listed.
    is_complete: bool,
    active: Option<ActiveSegment>,
    items_node: Option<ItemsNode>,
}

/// The children of a node.
#[derive(Default)]
struct Children {
    names: Vec<String>,
    stat: Option<Stat>,
    watch: Option<Watch>,
}

impl ItemStore {
    /// Lists the items, and replaces the known list. The caller holds `list_lock`.
    pub(super) async fn refresh_list(
        &self,
        is_watched: bool,
        deadline: Deadline,
    ) -> Result<Watches, Error> {
        let began = Instant::now();
        // The fence has to exist before anything is read.
        let fence = self.context.tokens.current_fence();
        let listing = self.read_listing(is_watched, deadline).await?;
        let mut list = lock(&self.list);
        let list = &mut *list;
        let has_items = listing.segments.iter().any(|(segment, names)| {
            *segment == 0
                && names
                    .iter()
                    .any(|name| self.context.options.layout.parse(name).is_some())
        });
        let epoch = fence.zip(listing.active).map(|(fence, active)| {
            let control_node = self.context.paths.control_node.clone();
            let read = ListEpoch::new(fence, control_node, active, listing.items_node, has_items);
            read.accepting_read_only(list.read_only_items_node)
        });
        // Items in flight have the preconditions of the known epoch; it stays if it is the same.
        let is_same = (list.epoch.as_ref().zip(epoch.as_ref()))
            .is_some_and(|(known, read)| known.agrees_with(read));
        if !is_same {
            list.epoch = epoch;
        }
        list.prefetched.clear();
        let mut items = Vec::new();
        let mut logged = BTreeSet::new();
        let mut quarantined = BTreeSet::new();
        for (segment, names) in listing.segments {
            for name in names {
                let Some(key) = self.context.options.layout.parse(&name) else {
                    let id = (segment, Arc::from(name));
                    if !list.logged.contains(&id) {
                        let path = self.context.paths.item(segment, &id.1);
                        tracing::warn!(%path, layout = ?self.context.options.layout, "a child is not an item of this layout and is skipped");
                    }
                    logged.insert(id);
                    continue;
                };
                if !listing.claims.is_empty()
                    && listing.claims.contains(&claim_name(segment, &name))
                {
                    continue;
                }
                let name: Arc<str> = Arc::from(name);
                let id = (segment, Arc::clone(&name));
                if list.quarantined.contains(&id) {
                    quarantined.insert(id);
                } else {
                    items.push(ListedItem { segment, name, key });
                }
            }
        }
        // Nodes that no longer exist are forgotten.
        list.logged = logged;
        list.quarantined = quarantined;
        list.items.replace(items);
        list.is_complete = listing.is_complete;
        list.is_synced = false;
        list.read = Some((began, began.elapsed()));
        Ok(listing.watches)
    }

    async fn read_listing(&self, is_watched: bool, deadline: Deadline) -> Result<Listing, Error> {
        loop {
            let mut listing = Listing::default();
            // One flight; the server answers in this order.
            let (control_node, items, claims, segments) = future::join4(
                self.read_control_node(is_watched, deadline),
                self.read_children(&self.context.paths.items, is_watched, deadline),
                async {
                    match &self.claims {
                        Some(claims) => self.read_children(claims, is_watched, deadline).await,
                        None => Ok(Children::default()),
                    }
                },
                self.segments.list(deadline),
            )
            .await;
            // The watches on segments do not fire when another one is created, but this one does.
            let (active, watch) = control_node?;
            listing.watches.extend(watch);
            listing.active = Some(active);
            let items = items?;
            listing.segments.push((0, items.names));
            listing.watches.extend(items.watch);
            listing.items_node = items.stat.map(|stat| ItemsNode {
                path: self.context.paths.items.clone(),
                version: stat.version,
                czxid: stat.czxid,
            });
            let claims = claims?;
            listing.claims.extend(claims.names);
            listing.watches.extend(claims.watch);
            let mut numbers = segments?;
            // A segment behind the active one is empty, or was activated since; its items come later.
            // While the items node is active, segments have only items that were put back during a change.
            numbers.retain(|number| *number <= active.segment || active.segment == 0);
            if numbers.is_empty() && active.segment == 0 {
                listing.is_complete = true;
                return Ok(listing);
            }
            self.read_segments(&numbers, active, is_watched, deadline, &mut listing)
                .await?;
            let again = self
                .context
                .session
                .get(&self.context.paths.control_node)
                .timeout(deadline.remaining())
                .await;
            match again {
                Ok((_, stat)) if stat.version == active.control_version => return Ok(listing),
                Err(error) if !error.is_no_node() => return Err(error),
                // The active segment changed while the segments were listed.
                _ if deadline.is_over() => return Ok(listing),
                _ => {}
            }
        }
    }

    /// Reads which segment is active; the watch fires when another one is.
    async fn read_control_node(
        &self,
        is_watched: bool,
        deadline: Deadline,
    ) -> Result<(ActiveSegment, Option<Watch>), Error> {
        let control_node = &self.context.paths.control_node;
        loop {
            let get = self
                .context
                .session
                .get(control_node)
                .timeout(deadline.remaining());
            let got = if is_watched {
                let got = get.watched().await;
                got.map(|(data, stat, watch)| (data, stat, Some(watch)))
            } else {
                get.await.map(|(data, stat)| (data, stat, None))
            };
            let watch = match got {
                Ok((data, stat, watch)) => {
                    let active = ActiveSegment {
                        segment: self.segments.parse(&data),
                        control_version: stat.version,
                    };
                    return Ok((active, watch));
                }
                Err(error) if error.is_no_node() && is_watched => {
                    let exists = self
                        .context
                        .session
                        .exists(control_node)
                        .timeout(deadline.remaining());
                    match exists.watched().await? {
                        (None, watch) => Some(watch),
                        // It was created in between.
                        (Some(_), _) => continue,
                    }
                }
                Err(error) if error.is_no_node() => None,
                Err(error) => return Err(error),
            };
            let none = ActiveSegment {
                segment: 0,
                control_version: 0,
            };
            return Ok((none, watch));
        }
    }

    /// Returns whether a segment has an item that is neither in flight nor quarantined.
    fn has_available(&self, segment: u32, names: &[String]) -> bool {
        if names.is_empty() {
            return false;
        }
        let list = lock(&self.list);
        names.iter().any(|name| {
            let Some(key) = self.context.options.layout.parse(name) else {
                return false;
            };
            let name: Arc<str> = Arc::from(name.as_str());
            let is_quarantined = list.quarantined.contains(&(segment, Arc::clone(&name)));
            let item = ListedItem { segment, name, key };
            !is_quarantined && !list.items.is_in_flight(&item)
        })
    }

    /// Lists segments in their order, until one has an available item.
    ///
    /// It lists all of them if the layout has priorities or delays, or if the caller waits for changes.
    async fn read_segments(
        &self,
        numbers: &[u32],
        active: ActiveSegment,
        is_watched: bool,
        deadline: Deadline,
        listing: &mut Listing,
    ) -> Result<(), Error> {
        let layout = self.context.options.layout;
        let reads_all = is_watched || layout.has_priorities() || layout.has_delays();
        let mut empty = Vec::new();
        let mut seen = 0;
        listing.is_complete = true;
        for several in numbers.chunks(if reads_all { SEGMENTS_AT_ONCE } else { 1 }) {
            if !reads_all {
                let unseen = listing.segments.get(seen..).unwrap_or_default();
                let has_some = unseen
                    .iter()
                    .any(|(segment, names)| self.has_available(*segment, names));
                if has_some {
                    listing.is_complete = false;
                    break;
                }
                seen = listing.segments.len();
            }
            let reads = several.iter().map(|number| {
                let path = self.context.paths.segment(*number);
                async move { self.read_children(&path, is_watched, deadline).await }
            });
            for (number, read) in several.iter().zip(future::join_all(reads).await) {
                let read = read?;
                if read.names.is_empty() {
                    empty.push(*number);
                }
                listing.segments.push((*number, read.names));
                listing.watches.extend(read.watch);
            }
        }
        let mut are_gone = empty.len() == numbers.len();
        for number in empty {
            are_gone &= self.segments.remove(number, active, are_gone).await;
        }
        Ok(())
    }

    /// Lists the children of a node, none if it does not exist; the watch fires when that changes.
    async fn read_children(
        &self,
        path: &NodePath,
        is_watched: bool,
        deadline: Deadline,
    ) -> Result<Children, Error> {
        loop {
            let list = self
                .context
                .session
                .list(path)
                .timeout(deadline.remaining());
            let listed = if is_watched {
                let listed = list.watched().await;
                listed.map(|(names, stat, watch)| (names, stat, Some(watch)))
            } else {
                list.await.map(|(names, stat)| (names, stat, None))
            };
            match listed {
                Err(error) if error.is_no_node() && is_watched => {
                    let exists = self
                        .context
                        .session
                        .exists(path)
                        .timeout(deadline.remaining());
                    if let (None, watch) = exists.watched().await? {
                        return Ok(Children {
                            watch: Some(watch),
                            ..Children::default()
                        });
                    }
                    // It was created in between.
                }
                Err(error) if error.is_no_node() => return Ok(Children::default()),
                Err(error) => return Err(error),
                Ok((names, stat, watch)) => {
                    return Ok(Children {
                        names,
                        stat: Some(stat),
                        watch,
                    });
                }
            }
        }
    }
}

/// How many segments are listed concurrently.
const SEGMENTS_AT_ONCE: usize = 16;
