//! What all kinds of caches are made of.

use std::fmt;
use std::sync::Arc;

use tokio::task::AbortHandle;
use zk_core::NodePath;
use zk_core::ParsePathError;
use zk_core::Session;

use crate::options::CacheOptions;
use crate::reducer::Reducer;
use crate::shared_state::Board;
use crate::shared_state::Publisher;
use crate::snapshot::Snapshot;
use crate::sync_task::follow;

/// A running cache; clones share it.
#[derive(Clone)]
pub(crate) struct Cache {
    root: NodePath,
    board: Arc<Board>,
    _task: Arc<Task>,
}

/// The task that keeps a cache up to date, ended with the last handle.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Cache {
    /// Starts a cache in the background.
    pub(crate) fn start<P>(
        session: &Session,
        root: P,
        options: CacheOptions,
    ) -> Result<Self, ParsePathError>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let root = root.try_into().map_err(Into::into)?;
        Ok(Self::run(session, root, options, None))
    }

    /// Starts a cache in the background that has at first what another one had.
    pub(crate) fn resume(session: &Session, previous: &Snapshot, options: CacheOptions) -> Self {
        Self::run(session, previous.path().clone(), options, Some(previous))
    }

    fn run(
        session: &Session,
        root: NodePath,
        options: CacheOptions,
        previous: Option<&Snapshot>,
    ) -> Self {
        let mut reducer = Reducer::new(root.clone(), &options, previous);
        let (_, first) = reducer.flush().expect("a new one is to be published");
        let board = Board::new(first, &options);
        let publisher = Publisher::new(reducer, Arc::clone(&board));
        let task = session.spawn(follow(session.clone(), publisher, options));
        Self {
            root,
            board,
            _task: Arc::new(Task(task.abort_handle())),
        }
    }

    pub(crate) const fn root(&self) -> &NodePath {
        &self.root
    }

    pub(crate) const fn board(&self) -> &Arc<Board> {
        &self.board
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.board.fmt(f)
    }
}

/// What every kind of cache can do.
macro_rules! common_methods {
    () => {
        /// Returns the path of the cache, whether or not there is such a node.
        pub fn path(&self) -> &NodePath {
            self.cache.root()
        }

        /// Returns what the cache has now. Takes no lock and asks nobody.
        pub fn snapshot(&self) -> Snapshot {
            self.cache.board().snapshot()
        }

        /// Returns how far that can be relied on.
        pub fn state(&self) -> State {
            self.cache.board().state()
        }

        /// Waits until everything is known, and returns it.
        ///
        /// # Errors
        ///
        /// When the cache has ended.
        ///
        /// # Cancel safety
        ///
        /// Safe, nothing happened.
        ///
        /// # Session loss
        ///
        /// [`End::SessionLost`].
        pub async fn synchronized(&self) -> Result<Snapshot, End> {
            self.cache.board().synchronized().await
        }

        /// Waits until the cache has ended, and answers why.
        ///
        /// # Cancel safety
        ///
        /// Safe, nothing happened.
        ///
        /// # Session loss
        ///
        /// [`End::SessionLost`].
        pub async fn ended(&self) -> End {
            self.cache.board().ended().await
        }

        /// Returns everything that is told: first a [`Created`](crate::Event::Created) for each node that there is, and
        /// [`Synchronized`](crate::Event::Synchronized) as soon as that is all, then what happens.
        ///
        /// Each call is a consumer of its own, and may come late; it looks at all nodes.
        pub fn events(&self) -> Events {
            Events::new(
                self.cache.board(),
                Some(&Snapshot::nothing(self.path().clone())),
            )
        }

        /// Returns what is told to who knows `snapshot`: first the [difference](Snapshot::since) to what there is now, then
        /// what happens.
        ///
        /// With the answer of [`synchronized`](Self::synchronized) that is every change after it.
        /// The snapshot may be one of an earlier cache, also of an earlier session.
        pub fn events_since(&self, snapshot: &Snapshot) -> Events {
            Events::new(self.cache.board(), Some(snapshot))
        }
    };
}

pub(crate) use common_methods;
