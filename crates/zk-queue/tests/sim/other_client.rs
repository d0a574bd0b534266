//! A model of the consumers of other clients: kazoo's `LockingQueue`, and Curator's `DistributedQueue` with a lock path.
//!
//! Both create an ephemeral node for the item, read the item, process it, and delete the item and their node without a
//! check of either: kazoo in one transaction, Curator one after the other.

use zk_core::codec::Text;
use zk_core::{CreateMode, Error, NodePath, Session};
use zk_queue::{WorkLayout, WorkOptions, WorkQueue};

use crate::PATH;

/// The lock path of the tests with Curator's layouts.
pub(crate) const LOCKS: &str = "/queues/locks";

const SEQUENTIAL: CreateMode = CreateMode::PersistentSequential;

/// A consumer of another client.
#[derive(Debug, Clone)]
pub(crate) struct OtherClient {
    pub(crate) session: Session,
    layout: WorkLayout,
}

/// An item that it has.
#[derive(Debug, Clone)]
pub(crate) struct TheirItem {
    pub(crate) item: String,
    pub(crate) path: String,
    pub(crate) claim: String,
}

/// The layouts of other clients whose items have no ids.
pub(crate) fn layouts() -> [WorkLayout; 4] {
    [
        WorkLayout::KazooLocking,
        curator(),
        WorkLayout::CuratorPriority { lock_path: locks() },
        WorkLayout::CuratorDelay { lock_path: locks() },
    ]
}

pub(crate) fn curator() -> WorkLayout {
    WorkLayout::Curator { lock_path: locks() }
}

pub(crate) fn locks() -> NodePath {
    NodePath::parse(LOCKS).expect("a good path")
}

pub(crate) fn shared(session: &Session, layout: &WorkLayout) -> WorkQueue<String> {
    let options = WorkOptions::default().with_layout(layout.clone());
    WorkQueue::with_options(session, PATH, Text, &options).expect("a good path")
}

/// The parents of the items and of the claims.
pub(crate) fn parents(layout: &WorkLayout) -> (String, String) {
    match layout {
        WorkLayout::KazooLocking => (format!("{PATH}/entries"), format!("{PATH}/taken")),
        _ => (PATH.to_owned(), LOCKS.to_owned()),
    }
}

impl OtherClient {
    pub(crate) fn new(session: &Session, layout: &WorkLayout) -> Self {
        Self {
            session: session.clone(),
            layout: layout.clone(),
        }
    }

    /// Takes the first item that no consumer has.
    pub(crate) async fn take(&self) -> Result<Option<TheirItem>, Error> {
        let (items, claims) = parents(&self.layout);
        for parent in [&items, &claims] {
            match self.session.create(parent, "").parents().await {
                Err(error) if !error.is_node_exists() => return Err(error),
                _ => {}
            }
        }
        let (mut names, _) = self.session.list(&items).await?;
        let (taken, _) = self.session.list(&claims).await?;
        names.sort();
        for name in names.into_iter().filter(|name| !taken.contains(name)) {
            let (path, claim) = (format!("{items}/{name}"), format!("{claims}/{name}"));
            let theirs = self.session.create(&claim, "another client").ephemeral();
            match theirs.await {
                Ok(_) => {}
                Err(error) if error.is_node_exists() => continue,
                Err(error) => return Err(error),
            }
            match self.session.get(&path).await {
                Ok((data, _)) => {
                    return Ok(Some(TheirItem {
                        item: self.unframed(&data),
                        path,
                        claim,
                    }));
                }
                Err(error) if error.is_no_node() => self.session.delete(&claim).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Deletes the item and the claim, also if other consumers have them by now.
    pub(crate) async fn finish(&self, taken: &TheirItem) -> Result<(), Error> {
        if self.layout == WorkLayout::KazooLocking {
            let both = self.session.transaction();
            let both = both.delete(&taken.path).delete(&taken.claim).commit();
            return both.await.map(drop);
        }
        let deleted = self.session.delete(&taken.path).await;
        match self.session.delete(&taken.claim).await {
            Err(error) if !error.is_no_node() => Err(error),
            _ => deleted,
        }
    }

    /// Creates the item again, as Curator does when processing has failed: without its priority or due time.
    pub(crate) async fn requeue(&self, taken: &TheirItem) -> Result<(), Error> {
        let (data, _) = self.session.get(&taken.path).await?;
        let moved = self.session.transaction().delete(&taken.path);
        let moved = moved.create_as(format!("{PATH}/queue-"), data, SEQUENTIAL, None);
        moved.commit().await?;
        self.session.delete(&taken.claim).await
    }

    /// Deletes the claim, also if another consumer has it by now, with one request.
    pub(crate) async fn release(&self, taken: &TheirItem) -> Result<(), Error> {
        let released = self.session.transaction().delete(&taken.claim);
        released.commit().await.map(drop)
    }

    fn unframed(&self, data: &[u8]) -> String {
        let item = match self.layout {
            WorkLayout::KazooLocking => data,
            // The frame of one item: version, mark, length, the item, the end.
            _ => &data[9..data.len() - 1],
        };
        String::from_utf8(item.to_vec()).expect("the tests offer text")
    }
}
