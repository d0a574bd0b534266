//! Inspects a queue from outside, of this crate or of another client, without a write.

use std::collections::BTreeSet;
use std::time::SystemTime;

use futures_util::future::join_all;
use zk_core::codec::Raw;
use zk_core::{Bytes, Error, ErrorKind, IntoNodePath, NodePath, Session};

use crate::error::PathError;
use crate::layout::Layout;
use crate::options::WorkOptions;
use crate::paths::{QueuePaths, parse_queue_path, segment_numbers};
use crate::work_layout::WorkLayout;
use crate::work_queue::{ClaimInfo, DeadLetter, WorkQueue};

/// A handle to inspect a queue, whichever client uses it. It finds out the layout by itself.
///
/// It only reads: it takes nothing, creates no nodes, and leaves no watches.
///
/// # Examples
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::SystemTime;
///
/// use zk_queue::Inspector;
///
/// let inspector = Inspector::new(&session, "/jobs")?;
/// if let Some(snapshot) = inspector.snapshot(SystemTime::now()).await? {
///     println!("{} ready, {} claimed", snapshot.ready, snapshot.claimed);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Inspector {
    session: Session,
    path: NodePath,
    lock_path: Option<NodePath>,
}

/// What a queue contains.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QueueSnapshot {
    /// The layout of the items; `None` if the node has no items, and its data names no layout.
    pub layout: Option<Layout>,
    /// Whether its items are claimed before they are removed.
    pub is_work_queue: bool,
    /// The number of items that can be taken now.
    pub ready: usize,
    /// The number of items that are not due yet.
    pub delayed: usize,
    /// The number of items with a claim.
    pub claimed: usize,
    /// When the item that was created first was created, by the clock of the ensemble's leader, whatever its state.
    ///
    /// An item that was rejected with a delay counts from then.
    pub oldest: Option<SystemTime>,
    /// The claims, the oldest first. There may be some of items that no longer exist.
    pub claims: Vec<ClaimInfo>,
    /// The dead letters, the oldest first.
    pub dead_letters: Vec<DeadLetter>,
    /// The number of children that are not items.
    pub foreign: usize,
    /// The items that can never be settled, because their nodes have children: of the 1,000 of each segment that were
    /// created first.
    pub stuck: Vec<NodePath>,
}

/// Where the nodes of a queue are.
#[derive(Debug)]
struct Place {
    layout: Option<Layout>,
    queue: QueuePaths,
    work: Option<WorkLayout>,
}

impl Inspector {
    /// Creates a handle to the queue at `path`.
    ///
    /// # Errors
    ///
    /// If `path` is not a valid node path, or is the root.
    pub fn new(session: &Session, path: impl IntoNodePath) -> Result<Self, PathError> {
        Ok(Self {
            session: session.clone(),
            path: parse_queue_path(path)?,
            lock_path: None,
        })
    }

    /// Says where the consumers of a queue of Curator's have their claims, as in `QueueBuilder.lockPath`.
    ///
    /// The nodes of the queue do not show it. By default there are no claims.
    #[must_use]
    pub fn with_lock_path(mut self, lock_path: NodePath) -> Self {
        self.lock_path = Some(lock_path);
        self
    }

    /// Reads the queue; `None` if there is no node at its path and no item in segments.
    ///
    /// Items that are due after `now` count as delayed. The lists are read one after the other, from a server that may
    /// lag, so the numbers are those of a short time and not of one moment.
    ///
    /// # Errors
    ///
    /// If a read failed.
    ///
    /// # Cost
    ///
    /// The lists of all items, claims and dead letters, one after the other, and a read for each claim and dead letter and
    /// for each of the first 1,000 items, 64 in a flight.
    pub async fn snapshot(&self, now: SystemTime) -> Result<Option<QueueSnapshot>, Error> {
        let Some(place) = self.find().await? else {
            return Ok(None);
        };
        let mut snapshot = QueueSnapshot::empty(place.layout, place.work.is_some());
        let mut claim_names = BTreeSet::new();
        if let Some(work) = place.work
            && let Ok(paths) = work.paths(&self.path)
        {
            claim_names.extend(self.children(&paths.claims).await?);
            let options = WorkOptions::default().with_layout(work);
            if let Ok(queue) =
                WorkQueue::<Vec<u8>>::with_options(&self.session, &self.path, Raw, &options)
            {
                snapshot.claims = queue.claims().await?;
                snapshot.dead_letters = queue.dead_letters().await?;
            }
        }
        let now = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let segments = self.segments(&place.queue).await?;
        for segment in std::iter::once(0).chain(segments) {
            let names = self.children(&place.queue.segment(segment)).await?;
            let first = snapshot.add(segment, &names, &claim_names, now);
            if let Some(first) = first.filter(|_| snapshot.oldest.is_none()) {
                let item = place.queue.item(segment, first);
                snapshot.oldest = self.session.exists(item).await?.map(|stat| stat.ctime);
            }
            if let Some(layout) = place.layout {
                let stuck = self.stuck(&place.queue, segment, layout, &names).await?;
                snapshot.stuck.extend(stuck);
            }
        }
        Ok(Some(snapshot))
    }

    /// Returns the items with children, of those that were created first.
    async fn stuck(
        &self,
        queue: &QueuePaths,
        segment: u32,
        layout: Layout,
        names: &[String],
    ) -> Result<Vec<NodePath>, Error> {
        let numbered = names
            .iter()
            .filter_map(|name| Some((layout.parse(name)?.sequence.number(), name)));
        let mut numbered: Vec<_> = numbered.collect();
        numbered.sort_unstable();
        numbered.truncate(MOST_CHECKED);
        let mut stuck = Vec::new();
        for some in numbered.chunks(AT_ONCE) {
            let items: Vec<_> = some
                .iter()
                .map(|(_, name)| queue.item(segment, name))
                .collect();
            let stats = items
                .iter()
                .map(|item| self.session.exists(item).into_future());
            for (item, stat) in items.iter().zip(join_all(stats).await) {
                // One that this session may not read is not known to be stuck.
                let stat = match stat {
                    Err(error) if error.kind() == ErrorKind::NoAuth => None,
                    stat => stat?,
                };
                if stat.is_some_and(|stat| stat.num_children > 0) {
                    stuck.push(item.clone());
                }
            }
        }
        Ok(stuck)
    }

    /// Finds out where the nodes are, by the names of the children and the data of the node.
    async fn find(&self) -> Result<Option<Place>, Error> {
        let (data, names) = match self.session.get(&self.path).await {
            Ok((data, _)) => (data, self.children(&self.path).await?),
            // Servers delete the node when it is empty. There may be items in segments.
            Err(error) if error.is_no_node() => match self.first_names_in_segments().await? {
                Some(names) => (Bytes::new(), names),
                None => return Ok(None),
            },
            Err(error) => return Err(error),
        };
        let work = self.work_layout(&names);
        let place = match work {
            Some(work) => Place {
                layout: Some(work.items()),
                queue: match work.paths(&self.path) {
                    Ok(paths) => paths.queue,
                    Err(_) => QueuePaths::beside(&self.path),
                },
                work: Some(work),
            },
            None => Place {
                layout: Layout::of_record(&data).or_else(|| layout_of(&names)),
                queue: QueuePaths::beside(&self.path),
                work: None,
            },
        };
        Ok(Some(place))
    }

    fn work_layout(&self, names: &[String]) -> Option<WorkLayout> {
        if let Some(lock_path) = self.lock_path.clone() {
            return match layout_of(names) {
                Some(Layout::CuratorPriority) => Some(WorkLayout::CuratorPriority { lock_path }),
                Some(Layout::CuratorDelay) => Some(WorkLayout::CuratorDelay { lock_path }),
                Some(Layout::CuratorId) => Some(WorkLayout::CuratorId { lock_path }),
                _ => Some(WorkLayout::Curator { lock_path }),
            };
        }
        work_layout_of(names)
    }

    /// Returns the children of the first segment that has any.
    async fn first_names_in_segments(&self) -> Result<Option<Vec<String>>, Error> {
        let queue = QueuePaths::beside(&self.path);
        for segment in self.segments(&queue).await? {
            let names = self.children(&queue.segment(segment)).await?;
            if !names.is_empty() {
                return Ok(Some(names));
            }
        }
        Ok(None)
    }

    /// Returns the numbers of the segments, in their order.
    async fn segments(&self, queue: &QueuePaths) -> Result<Vec<u32>, Error> {
        let names = self.children(&queue.segments()).await?;
        Ok(segment_numbers(&names))
    }

    async fn children(&self, path: &NodePath) -> Result<Vec<String>, Error> {
        match self.session.list(path).await {
            Ok((names, _)) => Ok(names),
            Err(error) if error.is_no_node() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

impl QueueSnapshot {
    fn empty(layout: Option<Layout>, is_work_queue: bool) -> Self {
        Self {
            layout,
            is_work_queue,
            ready: 0,
            delayed: 0,
            claimed: 0,
            oldest: None,
            claims: Vec::new(),
            dead_letters: Vec::new(),
            foreign: 0,
            stuck: Vec::new(),
        }
    }

    /// Counts the items of a segment, and returns the one that was created first.
    fn add<'a>(
        &mut self,
        segment: u32,
        names: &'a [String],
        claims: &BTreeSet<String>,
        now: u64,
    ) -> Option<&'a str> {
        let mut first = None;
        for name in names {
            let Some((layout, key)) = self
                .layout
                .and_then(|layout| Some((layout, layout.parse(name)?)))
            else {
                self.foreign += 1;
                continue;
            };
            if claims.contains(&layout.claim_name(segment, name)) {
                self.claimed += 1;
            } else if key.due > now {
                self.delayed += 1;
            } else {
                self.ready += 1;
            }
            let number = key.sequence.number();
            if first.as_ref().is_none_or(|(lowest, _)| number < *lowest) {
                first = Some((number, name.as_str()));
            }
        }
        first.map(|(_, name)| name)
    }
}

/// Returns the layout of the first item.
fn layout_of(names: &[String]) -> Option<Layout> {
    names.iter().find_map(|name| Layout::of_name(name))
}

/// Returns the layout of a work queue whose node has these children.
fn work_layout_of(names: &[String]) -> Option<WorkLayout> {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    if has("items") && (has("receipts") || has("claims")) {
        Some(WorkLayout::Native)
    } else if has("entries") || has("taken") {
        Some(WorkLayout::KazooLocking)
    } else {
        None
    }
}

/// How many items of a segment are checked for children.
const MOST_CHECKED: usize = 1000;
/// How many of them are read at once.
const AT_ONCE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_children_of_a_node_show_whose_queue_it_is() {
        for (children, work, items) in [
            (&["items", "receipts"][..], Some(WorkLayout::Native), None),
            (&["claims", "dead", "items"], Some(WorkLayout::Native), None),
            (&["entries"], Some(WorkLayout::KazooLocking), None),
            (&["qn-0000000001"], None, Some(Layout::Recipe)),
            (&["x", "queue-0000000001"], None, Some(Layout::Curator)),
            (
                &["queue-1000000050000000001"],
                None,
                Some(Layout::CuratorPriority),
            ),
            (
                &["queue-|0000018BCFE56800|0000000001"],
                None,
                Some(Layout::CuratorDelay),
            ),
            (
                &["queue-|order_7|0000000001"],
                None,
                Some(Layout::CuratorId),
            ),
            (&["entry-100-0000000001"], None, Some(Layout::Kazoo)),
            (&["items"], None, None),
            (&[], None, None),
        ] {
            let children = names(children);
            assert_eq!(work_layout_of(&children), work, "{children:?}");
            assert_eq!(layout_of(&children), items, "{children:?}");
        }
    }

    #[test]
    fn items_are_counted_by_their_state() {
        let mut snapshot = QueueSnapshot::empty(Some(Layout::Native), true);
        let children = names(&[
            "w-0-0-0-0000000009",
            "w-5-0-0-0000000002",
            "w-0-64-1-0000000003",
            "w-0-65-1-0000000004",
            "other",
        ]);
        let claims = BTreeSet::from(["0-w-0-0-0-0000000009".to_owned()]);
        let first = snapshot.add(0, &children, &claims, 0x64);
        assert_eq!(first, Some("w-5-0-0-0000000002"));
        let counts = (
            snapshot.ready,
            snapshot.delayed,
            snapshot.claimed,
            snapshot.foreign,
        );
        assert_eq!(counts, (2, 1, 1, 1));
    }
}
