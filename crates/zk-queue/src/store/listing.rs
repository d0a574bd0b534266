//! Lists the items of a queue.
//!
//! The control node is read first, then the items node and the segments. Once a segment is known to be active, nothing
//! is offered to the earlier ones any more: their lists, which are read later, are complete, and the order is kept.

use futures_util::future;
use zk_core::{Error, NodePath, Stat, Watch};

use super::active_segment::ActiveSegment;
use super::inventory::Listing;
use super::list_reader::ListReader;
use crate::deadline::Deadline;
use crate::layout::Layout;
use crate::preconditions::{ItemsNode, Preconditions};

/// The children of a node.
#[derive(Default)]
struct Children {
    names: Vec<String>,
    stat: Option<Stat>,
    watch: Option<Watch>,
}

impl ListReader {
    /// Lists the items, and replaces the known list. The caller holds `reading`.
    pub(super) async fn refresh_list(
        &self,
        is_watched: bool,
        deadline: Deadline,
    ) -> Result<Vec<Watch>, Error> {
        let began = self.context.moment();
        let (listing, watches) = self.read_listing(is_watched, deadline).await?;
        let took = self.context.moment().saturating_sub(began);
        let foreign = self.inventory.lock().replace(listing, began, took);
        for (segment, name) in foreign {
            let path = self.context.paths.item(segment, &name);
            let layout = self.context.options.layout;
            match Layout::of_name(&name) {
                Some(other) => {
                    tracing::warn!(%path, ?layout, ?other, "an item of another layout is skipped; open the queue with the same layout in all processes");
                }
                None => {
                    tracing::warn!(%path, ?layout, "a child is not an item of this layout and is skipped");
                }
            }
        }
        Ok(watches)
    }

    async fn read_listing(
        &self,
        is_watched: bool,
        deadline: Deadline,
    ) -> Result<(Listing, Vec<Watch>), Error> {
        let paths = &self.context.paths;
        // The fence has to exist before anything is read.
        let fence = self.context.tokens.current_fence();
        loop {
            // One flight; the server answers in this order.
            let (control_node, items, claims, segments) = future::join4(
                self.read_control_node(is_watched, deadline),
                self.read_children(&paths.items, is_watched, deadline),
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
            let (items, claims) = (items?, claims?);
            let watches = [watch, items.watch, claims.watch];
            let mut watches = watches.into_iter().flatten().collect();
            let mut listing = Listing {
                for_segments: fence.clone().map(|fence| Preconditions {
                    fence,
                    control_node: (paths.control_node.clone(), active.control_version),
                    items_node: None,
                }),
                active,
                items_node: items.stat.map(|stat| ItemsNode {
                    path: paths.items.clone(),
                    version: stat.version,
                    czxid: stat.czxid,
                }),
                segments: vec![(0, items.names)],
                claims: claims.names.into_iter().collect(),
                is_complete: true,
            };
            let mut numbers = segments?;
            // A segment behind the active one is empty, or was activated since; its items come later.
            // While the items node is active, segments have only items that were put back during a change.
            numbers.retain(|number| *number <= active.segment || active.segment == 0);
            if numbers.is_empty() && active.segment == 0 {
                return Ok((listing, watches));
            }
            self.read_segments(&numbers, is_watched, deadline, &mut listing, &mut watches)
                .await?;
            match self.context.get(&paths.control_node, deadline).await {
                Ok((_, stat)) if stat.version == active.control_version => {
                    return Ok((listing, watches));
                }
                Err(error) if !error.is_no_node() => return Err(error),
                // The active segment changed while the segments were listed.
                _ if deadline.is_over() => return Ok((listing, watches)),
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
                    match self.watch_creation(control_node, deadline).await? {
                        Some(watch) => Some(watch),
                        None => continue,
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

    /// Watches a node that does not exist; `None` if it was created in between.
    async fn watch_creation(
        &self,
        path: &NodePath,
        deadline: Deadline,
    ) -> Result<Option<Watch>, Error> {
        let exists = self.context.session.exists(path);
        let (stat, watch) = exists.timeout(deadline.remaining()).watched().await?;
        Ok(Some(watch).filter(|_| stat.is_none()))
    }

    /// Lists segments in their order, until one has an available item.
    ///
    /// It lists all of them if the layout has priorities or delays, or if the caller waits for changes.
    async fn read_segments(
        &self,
        numbers: &[u32],
        is_watched: bool,
        deadline: Deadline,
        listing: &mut Listing,
        watches: &mut Vec<Watch>,
    ) -> Result<(), Error> {
        let layout = self.context.options.layout;
        let reads_all = is_watched || layout.has_priorities() || layout.has_delays();
        let mut empty = Vec::new();
        let mut seen = 0;
        for several in numbers.chunks(if reads_all { SEGMENTS_AT_ONCE } else { 1 }) {
            if !reads_all {
                let mut unseen = listing.segments.get(seen..).unwrap_or_default().iter();
                let inventory = self.inventory.lock();
                let (claims, now) = (&listing.claims, self.context.known_time());
                let is_available = |(segment, names): &(u32, Vec<String>)| {
                    inventory.has_available(*segment, names, claims, now)
                };
                if unseen.any(is_available) {
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
                watches.extend(read.watch);
            }
        }
        let mut are_gone = empty.len() == numbers.len();
        for number in empty {
            are_gone &= self.segments.remove(number, listing.active, are_gone).await;
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
                    let watch = self.watch_creation(path, deadline).await?;
                    if watch.is_some() {
                        return Ok(Children {
                            watch,
                            ..Children::default()
                        });
                    }
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
pub(super) const SEGMENTS_AT_ONCE: usize = 16;
