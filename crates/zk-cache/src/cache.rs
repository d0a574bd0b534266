//! The part that all kinds of caches share: the handle, the task, and the common methods.

use std::fmt;
use std::sync::Arc;

use tokio::task::AbortHandle;
use zk_core::{NodePath, SessionSource};

use crate::event::CacheEnd;
use crate::events::Events;
use crate::options::{CacheOptions, Content};
use crate::reducer::Reducer;
use crate::shared_state::{SharedState, StatePublisher};
use crate::snapshot::Snapshot;
use crate::sync_task;

/// A handle of a running cache. Clones share the cache.
#[derive(Clone)]
pub(crate) struct Cache {
    root: NodePath,
    state: Arc<SharedState>,
    source: SessionSource,
    _task: Arc<Task>,
}

/// A task of a cache, which ends when this is dropped.
pub(crate) struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Cache {
    /// Starts a cache in the background, with the nodes of another one if there is one.
    pub(crate) fn start(
        source: &SessionSource,
        root: NodePath,
        options: &CacheOptions,
        max_depth: Option<usize>,
        previous: Option<&Snapshot>,
    ) -> Self {
        let mut options = options.clone();
        options.max_depth = max_depth.unwrap_or(options.max_depth);
        if options.content == Content::NamesOnly && options.max_depth != 1 {
            options.content = Content::StatOnly;
        }
        let mut reducer = Reducer::new(root.clone(), &options, previous);
        let (_, first) = reducer.flush().expect("a new reducer has a snapshot");
        let state = SharedState::new(first, &options);
        let publisher = StatePublisher::new(reducer, Arc::clone(&state));
        let task = source.spawn(sync_task::run(source.clone(), publisher, options));
        Self {
            root,
            state,
            source: source.clone(),
            _task: Arc::new(Task(task.abort_handle())),
        }
    }

    /// Runs another task on the runtime of the cache.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(self.source.spawn(task).abort_handle())
    }

    pub(crate) const fn root(&self) -> &NodePath {
        &self.root
    }

    pub(crate) const fn state(&self) -> &Arc<SharedState> {
        &self.state
    }

    /// Waits for the first snapshot for which `holds` returns true, from the present one on.
    pub(crate) async fn wait_for(
        &self,
        mut holds: impl FnMut(&Snapshot) -> bool,
    ) -> Result<Snapshot, CacheEnd> {
        let mut events = Events::new(&self.state, None);
        loop {
            let snapshot = events.snapshot();
            if let Some(end) = snapshot.end() {
                return Err(end.clone());
            }
            if holds(snapshot) {
                return Ok(snapshot.clone());
            }
            events.advance().await;
        }
    }

    /// Waits until the cache has ended.
    pub(crate) async fn ended(&self) -> CacheEnd {
        let mut events = Events::new(&self.state, None);
        loop {
            if let Some(end) = events.snapshot().end() {
                return end.clone();
            }
            events.advance().await;
        }
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state.fmt(f)
    }
}

/// The methods that every kind of cache has. The argument is the depth of the cache; `None` for that of its options.
macro_rules! common_methods {
    ($max_depth:expr) => {
        /// Starts a cache of the node at `path` in the background, with default options. The node need not exist.
        ///
        /// With a [`Session`](zk_core::Session) the cache ends with the session, with [`Sessions`](zk_core::Sessions) it
        /// goes on with the next one.
        ///
        /// # Errors
        ///
        /// If `path` is not a valid node path.
        pub fn start(
            source: impl Into<SessionSource>,
            path: impl IntoNodePath,
        ) -> Result<Self, ParsePathError> {
            Self::start_with(source, path, &CacheOptions::default())
        }

        /// Starts a cache of the node at `path` in the background. The node need not exist.
        ///
        /// # Errors
        ///
        /// If `path` is not a valid node path.
        pub fn start_with(
            source: impl Into<SessionSource>,
            path: impl IntoNodePath,
            options: &CacheOptions,
        ) -> Result<Self, ParsePathError> {
            let root = path.into_node_path()?;
            let cache = Cache::start(&source.into(), root, options, $max_depth, None);
            Ok(Self { cache })
        }

        /// Starts a cache with the contents of another one, which has ended with its session. A cache on
        /// [`Sessions`](zk_core::Sessions) does so by itself.
        ///
        /// The contents are [stale](CacheState::Stale) until the cache has checked every node.
        /// Its events [since](Self::events_since) that snapshot are the difference, and then every later change.
        /// The options should be those of the other cache: nodes that they leave out disappear without an event, and
        /// with another [`Content`](crate::Content) every node is reported as changed.
        ///
        /// # Panics
        ///
        /// If a selector panics.
        ///
        /// # Cost
        ///
        /// Goes through the snapshot on the caller's thread before it returns, and calls the
        /// [selector](CacheOptions::with_selector) for each node. The contents are readable at once.
        /// Then as after a connection loss.
        pub fn resume(
            source: impl Into<SessionSource>,
            previous: &Snapshot,
            options: &CacheOptions,
        ) -> Self {
            let root = previous.path().clone();
            let cache = Cache::start(&source.into(), root, options, $max_depth, Some(previous));
            Self { cache }
        }

        /// Returns the path of the root of the cache, whether or not the node exists.
        pub fn path(&self) -> &NodePath {
            self.cache.root()
        }

        /// Returns the contents of the cache as of now. Takes no lock and sends no request.
        pub fn snapshot(&self) -> Snapshot {
            self.cache.state().snapshot()
        }

        /// Returns a handle that reads the node at `path` many times, faster than a look-up for each read.
        ///
        /// # Errors
        ///
        /// If `path` is not a valid node path.
        pub fn reader(&self, path: impl IntoNodePath) -> Result<NodeReader, ParsePathError> {
            let path = path.into_node_path()?;
            Ok(NodeReader::new(Arc::clone(self.cache.state()), path))
        }

        /// Returns the nodes as values, each of which is decoded once after each change, and not when it is read.
        pub fn decoded<T: Send + Sync + 'static>(
            &self,
            codec: impl Codec<T> + 'static,
        ) -> DecodedCache<T> {
            DecodedCache::start(&self.cache, codec)
        }

        /// Returns how far the contents can be relied on.
        pub fn state(&self) -> CacheState {
            self.cache.state().state()
        }

        /// Waits until the cache is synchronised, and returns its contents.
        ///
        /// # Errors
        ///
        /// If the cache has ended.
        pub async fn synchronized(&self) -> Result<Snapshot, CacheEnd> {
            self.cache.wait_for(Snapshot::is_synchronized).await
        }

        /// Waits for a snapshot for which `holds` returns true, and returns it: the present one, or the first later one.
        ///
        /// No change between the present snapshot and the next is missed. If the calling task runs too rarely, as a slow
        /// [consumer of events](crate::Events), some snapshots are left out, but never the newest one.
        /// A snapshot may be incomplete or [stale](CacheState::Stale): if that matters, let `holds` check
        /// [`is_synchronized`](Snapshot::is_synchronized), as it must to wait for the absence of a node.
        ///
        /// ```no_run
        /// # async fn demo(session: zk_core::Session) -> Result<(), Box<dyn std::error::Error>> {
        /// use zk_cache::TreeCache;
        ///
        /// let cache = TreeCache::start(&session, "/app")?;
        /// let three_workers = cache.wait_for(|now| now.children("/app/workers").count() >= 3).await?;
        /// # let _ = three_workers;
        /// # Ok(())
        /// # }
        /// ```
        ///
        /// # Errors
        ///
        /// If the cache has ended.
        pub async fn wait_for(
            &self,
            holds: impl FnMut(&Snapshot) -> bool,
        ) -> Result<Snapshot, CacheEnd> {
            self.cache.wait_for(holds).await
        }

        /// Waits until the cache has ended, and returns why.
        pub async fn ended(&self) -> CacheEnd {
            self.cache.ended().await
        }

        /// Returns all events: first a [`Created`](crate::Event::Created) for each node, then
        /// [`Synchronized`](crate::Event::Synchronized) when the load is complete, then every later change.
        ///
        /// Each call starts an independent consumer, at any time, and copies the list of all nodes.
        pub fn events(&self) -> Events {
            Events::new(
                self.cache.state(),
                Some(&Snapshot::empty_at(self.path().clone())),
            )
        }

        /// Returns the events since `snapshot`: first the [difference](Snapshot::since) to the contents as of now, then
        /// every later change.
        ///
        /// With the snapshot that [`synchronized`](Self::synchronized) returned, these are all changes after it.
        /// The snapshot may be one of an earlier cache, also of an earlier session.
        pub fn events_since(&self, snapshot: &Snapshot) -> Events {
            Events::new(self.cache.state(), Some(snapshot))
        }
    };
}

pub(crate) use common_methods;
