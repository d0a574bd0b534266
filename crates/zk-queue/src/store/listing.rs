//! Reading the lists of a queue.
//!
//! The order of the reads is what keeps the order of the items: once it is known that offers go to a certain segment,
//! nothing comes into the earlier ones any more, so that lists of them that are read after that are complete.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future;
use tokio::time::Instant;
use zk_core::Error;
use zk_core::NodePath;
use zk_core::Stat;
use zk_core::Watch;

use super::Footing;
use super::Line;
use super::Watches;
use super::segments::Tail;
use crate::deadline::Deadline;
use crate::idempotency::lock;
use crate::paths::segment_of;
use crate::preconditions::Floor;
use crate::ready_items::Spot;

/// What was read.
#[derive(Default)]
struct Lists {
    /// The children of each segment that was read, in the order of the segments.
    segments: Vec<(u32, Vec<String>)>,
    claimed: BTreeSet<String>,
    watches: Watches,
    /// Whether all segments were read.
    is_whole: bool,
    tail: Option<Tail>,
    floor: Option<Floor>,
}

/// The children of a node.
#[derive(Default)]
struct Listed {
    names: Vec<String>,
    stat: Option<Stat>,
    watch: Option<Watch>,
}

impl Line {
    /// Reads the lists and puts what they show in place of what was known. The caller holds the right to do so.
    pub(super) async fn restock(
        &self,
        is_watched: bool,
        deadline: Deadline,
    ) -> Result<Watches, Error> {
        let began = Instant::now();
        // Before anything is read.
        let anchor = self.receipts.anchored();
        let lists = self.read_lists(is_watched, deadline).await?;
        let mut stock = lock(&self.stock);
        let stock = &mut *stock;
        let has_items = lists.segments.iter().any(|(segment, names)| {
            *segment == 0
                && names
                    .iter()
                    .any(|name| self.options.layout.parse(name).is_some())
        });
        let footing = anchor.zip(lists.tail).map(|(anchor, tail)| {
            let desk = self.place.desk.clone();
            let read = Footing::new(anchor, desk, tail, lists.floor, has_items);
            read.without_mark(stock.unmarked)
        });
        // What is in hand was picked on the one that was known, if it is the same.
        let is_same = (stock.footing.as_ref().zip(footing.as_ref()))
            .is_some_and(|(known, read)| known.agrees_with(read));
        if !is_same {
            stock.footing = footing;
        }
        stock.ahead.clear();
        let mut spots = Vec::new();
        let mut known = BTreeSet::new();
        let mut shunned = BTreeSet::new();
        for (segment, names) in lists.segments {
            for name in names {
                let Some(slot) = self.options.layout.parse(&name) else {
                    let key = (segment, Arc::from(name));
                    if !stock.known.contains(&key) {
                        let path = self.place.item(segment, &key.1);
                        tracing::warn!(%path, layout = ?self.options.layout, "a child is no item of the queue and is skipped");
                    }
                    known.insert(key);
                    continue;
                };
                if !lists.claimed.is_empty() && lists.claimed.contains(&claim_name(segment, &name))
                {
                    continue;
                }
                let name: Arc<str> = Arc::from(name);
                let key = (segment, Arc::clone(&name));
                if stock.shunned.contains(&key) {
                    shunned.insert(key);
                } else {
                    spots.push(Spot {
                        segment,
                        name,
                        slot,
                    });
                }
            }
        }
        // Of what is no longer there nothing is remembered.
        stock.known = known;
        stock.shunned = shunned;
        stock.shelf.restock(spots);
        stock.is_whole = lists.is_whole;
        stock.is_synced = false;
        stock.read = Some((began, began.elapsed()));
        Ok(lists.watches)
    }

    async fn read_lists(&self, is_watched: bool, deadline: Deadline) -> Result<Lists, Error> {
        loop {
            let mut lists = Lists::default();
            let segments = self
                .session
                .list(self.place.segments())
                .timeout(deadline.remaining());
            // In this order, and all in one flight.
            let (desk, items, claims, segments) = future::join4(
                self.read_desk(is_watched, deadline),
                self.read_list(&self.place.items, is_watched, deadline),
                async {
                    match &self.claims {
                        Some(claims) => self.read_list(claims, is_watched, deadline).await,
                        None => Ok(Listed::default()),
                    }
                },
                segments.into_future(),
            )
            .await;
            // A segment that is begun later is no news to the watches of the others.
            let (tail, watch) = desk?;
            lists.watches.extend(watch);
            lists.tail = Some(tail);
            let items = items?;
            lists.segments.push((0, items.names));
            lists.watches.extend(items.watch);
            lists.floor = items.stat.map(|stat| Floor {
                path: self.place.items.clone(),
                version: stat.version,
                czxid: stat.czxid,
            });
            let claims = claims?;
            lists.claimed.extend(claims.names);
            lists.watches.extend(claims.watch);
            let mut numbers: Vec<u32> = match segments {
                Ok((names, _)) => names.iter().filter_map(|name| segment_of(name)).collect(),
                Err(error) if error.is_no_node() => Vec::new(),
                Err(error) => return Err(error),
            };
            // One beyond the tail has been prepared and has nothing in it, or was begun meanwhile: it comes later.
            // When offers go to the queue's own node, others have only what was put back into them while the tail moved.
            numbers.retain(|number| *number <= tail.segment || tail.segment == 0);
            if numbers.is_empty() && tail.segment == 0 {
                lists.is_whole = true;
                return Ok(lists);
            }
            numbers.sort_unstable();
            self.read_segments(&numbers, tail, is_watched, deadline, &mut lists)
                .await?;
            let again = self
                .session
                .get(&self.place.desk)
                .timeout(deadline.remaining())
                .await;
            match again {
                Ok((_, stat)) if stat.version == tail.version => return Ok(lists),
                Err(error) if !error.is_no_node() => return Err(error),
                // Segments were begun or given up while we read.
                _ if deadline.is_over() => return Ok(lists),
                _ => {}
            }
        }
    }

    /// The segment that offers go to; the watch tells when it is another one.
    async fn read_desk(
        &self,
        is_watched: bool,
        deadline: Deadline,
    ) -> Result<(Tail, Option<Watch>), Error> {
        let desk = &self.place.desk;
        loop {
            let get = self.session.get(desk).timeout(deadline.remaining());
            let got = if is_watched {
                let got = get.watched().await;
                got.map(|(data, stat, watch)| (data, stat, Some(watch)))
            } else {
                get.await.map(|(data, stat)| (data, stat, None))
            };
            let watch = match got {
                Ok((data, stat, watch)) => {
                    let tail = Tail {
                        segment: self.segment_in(&data),
                        version: stat.version,
                    };
                    return Ok((tail, watch));
                }
                Err(error) if error.is_no_node() && is_watched => {
                    let exists = self.session.exists(desk).timeout(deadline.remaining());
                    match exists.watched().await? {
                        (None, watch) => Some(watch),
                        // It was made in between.
                        (Some(_), _) => continue,
                    }
                }
                Err(error) if error.is_no_node() => None,
                Err(error) => return Err(error),
            };
            let none = Tail {
                segment: 0,
                version: 0,
            };
            return Ok((none, watch));
        }
    }

    /// Whether there is an item among the children of a segment that nothing keeps from being taken at once.
    fn has_takeable(&self, segment: u32, names: &[String]) -> bool {
        if names.is_empty() {
            return false;
        }
        let stock = lock(&self.stock);
        names.iter().any(|name| {
            let Some(slot) = self.options.layout.parse(name) else {
                return false;
            };
            let name: Arc<str> = Arc::from(name.as_str());
            let is_shunned = stock.shunned.contains(&(segment, Arc::clone(&name)));
            let spot = Spot {
                segment,
                name,
                slot,
            };
            !is_shunned && !stock.shelf.is_in_hand(&spot)
        })
    }

    /// Reads segments in their order, until there is something to be taken, or all of them where priorities or delays
    /// count or where changes are waited for.
    async fn read_segments(
        &self,
        numbers: &[u32],
        tail: Tail,
        is_watched: bool,
        deadline: Deadline,
        lists: &mut Lists,
    ) -> Result<(), Error> {
        let layout = self.options.layout;
        let reads_all = is_watched || layout.has_priorities() || layout.has_delays();
        let mut empty = Vec::new();
        let mut seen = 0;
        lists.is_whole = true;
        for several in numbers.chunks(if reads_all { AT_ONCE } else { 1 }) {
            if !reads_all {
                let unseen = lists.segments.get(seen..).unwrap_or_default();
                let has_some = unseen
                    .iter()
                    .any(|(segment, names)| self.has_takeable(*segment, names));
                if has_some {
                    lists.is_whole = false;
                    break;
                }
                seen = lists.segments.len();
            }
            let reads = several.iter().map(|number| {
                let path = self.place.segment(*number);
                async move { self.read_list(&path, is_watched, deadline).await }
            });
            for (number, read) in several.iter().zip(future::join_all(reads).await) {
                let read = read?;
                if read.names.is_empty() {
                    empty.push(*number);
                }
                lists.segments.push((*number, read.names));
                lists.watches.extend(read.watch);
            }
        }
        let mut are_gone = empty.len() == numbers.len();
        for number in empty {
            are_gone &= self.retire(number, tail, are_gone).await;
        }
        Ok(())
    }

    /// The children of a node, none if it is not there; the watch tells when there is another answer.
    async fn read_list(
        &self,
        path: &NodePath,
        is_watched: bool,
        deadline: Deadline,
    ) -> Result<Listed, Error> {
        loop {
            let list = self.session.list(path).timeout(deadline.remaining());
            let listed = if is_watched {
                let listed = list.watched().await;
                listed.map(|(names, stat, watch)| (names, stat, Some(watch)))
            } else {
                list.await.map(|(names, stat)| (names, stat, None))
            };
            match listed {
                Err(error) if error.is_no_node() && is_watched => {
                    let exists = self.session.exists(path).timeout(deadline.remaining());
                    if let (None, watch) = exists.watched().await? {
                        return Ok(Listed {
                            watch: Some(watch),
                            ..Listed::default()
                        });
                    }
                    // It was made in between.
                }
                Err(error) if error.is_no_node() => return Ok(Listed::default()),
                Err(error) => return Err(error),
                Ok((names, stat, watch)) => {
                    return Ok(Listed {
                        names,
                        stat: Some(stat),
                        watch,
                    });
                }
            }
        }
    }
}

/// The name of the node that claims an item.
pub(crate) fn claim_name(segment: u32, item: &str) -> String {
    format!("{segment}-{item}")
}

/// How many lists are in flight at once.
const AT_ONCE: usize = 16;
