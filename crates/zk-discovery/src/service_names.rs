//! Follows the names of the services below a base path.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use futures_util::{Stream, stream};
use zk_cache::{
    CacheEnd, CacheOptions, CacheState, ChildrenCache, Content, Event, Events, PartialRead,
    Snapshot,
};
use zk_core::{NodePath, SessionSource};

use crate::layout::Layout;
use crate::registry::Registry;

/// The names of all services, kept up to date in memory; created by
/// [`Registry::follow_services`](crate::Registry::follow_services).
///
/// A service is there as long as its node, with or without instances, and whether or not the session may read it.
/// Clones share state. Like each clone of the session or the sessions that it follows, it keeps them open.
///
/// # Dropping
///
/// Dropping the last clone stops following: [`changes`](Self::changes) end with [`CacheEnd::Stopped`].
///
/// # Cost
///
/// One list of all names when it starts, after each reconnection, and when services come or go. Changes of instances cost
/// nothing.
#[derive(Clone)]
pub struct ServiceNames {
    cache: ChildrenCache,
    layout: Arc<dyn Layout>,
}

/// A change of the names of the services.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ServiceNameChange {
    /// A service is new.
    Added(String),
    /// A service is gone.
    Removed(String),
    /// The connection broke: the names may be out of date until the next [`Synchronized`](Self::Synchronized). The
    /// difference is reported before that.
    Stale,
    /// The names are complete: for the first time, or again after a [`Stale`](Self::Stale).
    Synchronized,
    /// The base cannot be listed.
    Incomplete(PartialRead),
    /// The last change: the services are no longer followed.
    Ended(CacheEnd),
}

/// The changes of the names of the services, for one consumer; created by [`ServiceNames::changes`].
///
/// A slow consumer blocks no other consumer. A service that goes and comes back before it reads is not reported.
///
/// # Dropping
///
/// Has no effect. This does not keep its [`ServiceNames`] alive.
pub struct ServiceNameChanges {
    events: Events,
    base: NodePath,
    layout: Arc<dyn Layout>,
    names: BTreeSet<String>,
    partial_read: Option<PartialRead>,
    pending: VecDeque<ServiceNameChange>,
}

impl<L: Layout> Registry<L> {
    /// Follows the names of all services with a session, or with the application's [`Sessions`](zk_core::Sessions), one
    /// after the other.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_core::{RetryPolicy, Session};
    /// use zk_discovery::{Registry, ServiceNameChange};
    ///
    /// let sessions = Session::builder("zk1:2181,zk2:2181,zk3:2181").sessions(RetryPolicy::default());
    /// let registry: Registry = Registry::new(&sessions.session().await?, "/services")?;
    /// let services = registry.follow_services(&sessions);
    /// println!("{:?}", services.synchronized().await?);
    /// let mut changes = services.changes();
    /// while let Some(change) = changes.next().await {
    ///     if let ServiceNameChange::Added(service) = change {
    ///         println!("{service} is new");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow_services(&self, source: impl Into<SessionSource>) -> ServiceNames {
        ServiceNames {
            cache: cache(&source.into(), &self.base),
            layout: Arc::<L>::clone(&self.layout),
        }
    }
}

impl ServiceNames {
    /// Returns the names in order. Takes no lock and sends no request.
    pub fn names(&self) -> BTreeSet<String> {
        names(&self.cache.snapshot(), self.cache.path(), &*self.layout)
    }

    /// Returns whether the names are up to date.
    pub fn state(&self) -> CacheState {
        self.cache.state()
    }

    /// Returns why the base cannot be listed, if so: the names are then incomplete.
    pub fn partial_read(&self) -> Option<PartialRead> {
        partial_read(&self.cache.snapshot(), self.cache.path())
    }

    /// Waits until the names are complete, and returns them.
    ///
    /// # Errors
    ///
    /// If following has ended.
    ///
    /// # Session loss
    ///
    /// [`CacheEnd::SessionLost`]; if [`Sessions`](zk_core::Sessions) are followed, it waits for the next one.
    pub async fn synchronized(&self) -> Result<BTreeSet<String>, CacheEnd> {
        let snapshot = self.cache.synchronized().await?;
        Ok(names(&snapshot, self.cache.path(), &*self.layout))
    }

    /// Returns an independent stream of changes: first an [`Added`](ServiceNameChange::Added) for each existing
    /// service, then [`Synchronized`](ServiceNameChange::Synchronized) once the names are complete.
    pub fn changes(&self) -> ServiceNameChanges {
        ServiceNameChanges {
            events: self.cache.events(),
            base: self.cache.path().clone(),
            layout: Arc::clone(&self.layout),
            names: BTreeSet::new(),
            partial_read: None,
            pending: VecDeque::new(),
        }
    }
}

impl ServiceNameChanges {
    /// Waits for the next change; `None` after [`ServiceNameChange::Ended`].
    pub async fn next(&mut self) -> Option<ServiceNameChange> {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return Some(change);
            }
            let (events, snapshot) = self.events.next_batch().await?;
            self.apply(&events, &snapshot);
        }
    }

    /// Adds the changes of a batch: the difference of the names between the states before and after it.
    fn apply(&mut self, events: &[Event], snapshot: &Snapshot) {
        if events.iter().any(|event| matches!(event, Event::Stale)) {
            self.pending.push_back(ServiceNameChange::Stale);
        }
        let names = names(snapshot, &self.base, &*self.layout);
        let gone = self.names.difference(&names).cloned();
        self.pending.extend(gone.map(ServiceNameChange::Removed));
        let come = names.difference(&self.names).cloned();
        self.pending.extend(come.map(ServiceNameChange::Added));
        self.names = names;
        let partial = partial_read(snapshot, &self.base);
        if let Some(read) = partial.filter(|_| partial != self.partial_read) {
            self.pending.push_back(ServiceNameChange::Incomplete(read));
        }
        self.partial_read = partial;
        for event in events {
            match event {
                Event::Synchronized { .. } => {
                    self.pending.push_back(ServiceNameChange::Synchronized);
                }
                Event::Ended(end) => {
                    self.pending
                        .push_back(ServiceNameChange::Ended(end.clone()));
                }
                _ => {}
            }
        }
    }

    /// Converts this into a stream of the same changes.
    pub fn into_stream(self) -> impl Stream<Item = ServiceNameChange> + Send + 'static {
        stream::unfold(self, async |mut changes| {
            let change = changes.next().await?;
            Some((change, changes))
        })
    }
}

fn cache(source: &SessionSource, base: &NodePath) -> ChildrenCache {
    let options = CacheOptions::default().with_content(Content::NamesOnly);
    ChildrenCache::start_with(source, base.clone(), &options)
        .expect("a `NodePath` converts to itself")
}

/// Returns the names of the services in a snapshot.
fn names(snapshot: &Snapshot, base: &NodePath, layout: &dyn Layout) -> BTreeSet<String> {
    let children = snapshot.children(base);
    children
        .filter_map(|node| layout.service(node.name()?))
        .collect()
}

fn partial_read(snapshot: &Snapshot, base: &NodePath) -> Option<PartialRead> {
    let mut all = snapshot.partial_reads();
    all.find(|(path, _)| *path == base).map(|(_, read)| read)
}

impl fmt::Debug for ServiceNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceNames")
            .field("base", self.cache.path())
            .field("state", &self.state())
            .field("names", &self.names())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ServiceNameChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceNameChanges")
            .field("base", &self.base)
            .field("names", &self.names)
            .field("pending", &self.pending.len())
            .finish_non_exhaustive()
    }
}
