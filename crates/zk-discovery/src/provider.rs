//! Follows the instances of a service and picks from them.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};
use zk_cache::{CacheEnd, CacheOptions, ChildrenCache};
use zk_core::{NodePath, Session, SessionSource};

use crate::changes::InstanceChanges;
use crate::decoder::Decoder;
use crate::follow::{Publisher, follow};
use crate::instance::Instance;
use crate::instance_list::InstanceList;
use crate::layout::ReadFormat;
use crate::outlier_ejection::FailureRules;
use crate::pick::{Candidate, Strategy};
use crate::shared_list::SharedList;
use crate::staleness_policy::{
    PickError, PickPool, WhenAllEjected, WhenStale, check_staleness, pick_pool,
};

/// The settings of [`Providers`].
///
/// # Defaults
///
/// - [`failures`](Self::with_failures): [`FailureRules::default`]
/// - [`stale`](Self::with_stale): [`WhenStale::Use`]
/// - [`all_ejected`](Self::with_all_ejected): [`WhenAllEjected::UseAll`]
/// - [`most_bytes`](Self::with_most_bytes): 1 MiB
/// - [`max_nodes`](Self::with_max_nodes): 100,000
/// - [`max_bytes`](Self::with_max_bytes): 256 MiB
#[derive(Debug, Clone, Copy)]
pub struct ProviderOptions {
    failures: FailureRules,
    stale: WhenStale,
    all_ejected: WhenAllEjected,
    most_bytes: usize,
    max_nodes: usize,
    max_bytes: usize,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self {
            failures: FailureRules::default(),
            stale: WhenStale::Use,
            all_ejected: WhenAllEjected::UseAll,
            most_bytes: DEFAULT_MOST_BYTES,
            max_nodes: DEFAULT_MAX_NODES,
            max_bytes: DEFAULT_MAX_BYTES,
        }
    }
}

impl ProviderOptions {
    /// Sets when a failing instance is ejected; default: three failures within 30 seconds, for 30 seconds.
    #[must_use]
    pub const fn with_failures(mut self, rules: FailureRules) -> Self {
        self.failures = rules;
        self
    }

    /// Sets what is picked while the connection is broken and after the session has ended; default: the last known
    /// instances, without a time limit.
    #[must_use]
    pub const fn with_stale(mut self, when: WhenStale) -> Self {
        self.stale = when;
        self
    }

    /// Sets what is picked when every instance is ejected, or more than
    /// [the limit](FailureRules::with_max_ejected); default: any instance.
    #[must_use]
    pub const fn with_all_ejected(mut self, when: WhenAllEjected) -> Self {
        self.all_ejected = when;
        self
    }

    /// Sets the maximum size of an instance's node in bytes; default 1 MiB. Larger nodes are quarantined.
    #[must_use]
    pub const fn with_most_bytes(mut self, bytes: usize) -> Self {
        self.most_bytes = bytes;
        self
    }

    /// Sets the maximum number of nodes that are read: that of the service, and one for each instance. The default is
    /// 100,000.
    ///
    /// If there are more, some instances are left out, and [`InstanceList::gap`] says so: see
    /// [`PartialRead::TooManyNodes`](crate::PartialRead::TooManyNodes).
    #[must_use]
    pub const fn with_max_nodes(mut self, nodes: usize) -> Self {
        self.max_nodes = nodes;
        self
    }

    /// Sets the maximum memory of these nodes as they are read, in bytes; default 256 MiB.
    ///
    /// If they have more, some instances are left out or stay as they were read last, and [`InstanceList::gap`] says so:
    /// see [`PartialRead::TooManyBytes`](crate::PartialRead::TooManyBytes).
    #[must_use]
    pub const fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = bytes;
        self
    }
}

/// The instances of a service, kept up to date in memory; created by
/// [`Registry::providers`](crate::Registry::providers).
///
/// Clones share state.
/// Like each clone of the session or the sessions that it follows, it keeps them open.
///
/// When the session ends, the last known list stays, and is picked from as [`WhenStale`] says: by default an outage of
/// the ensemble does not become an outage of the service. To go on with the sessions that come after,
/// [`follow`](Self::follow) the application's [`Sessions`](zk_core::Sessions).
///
/// # Dropping
///
/// Dropping the last clone stops following: [`changes`](Self::changes) end with [`CacheEnd::Stopped`], and the watch is
/// removed in the background. A [`Picked`] or [`InstanceChanges`] does not keep it alive.
///
/// # Cost
///
/// Initially one read per instance, many in parallel; then one notification and one read per change.
/// Each instance is decoded once per change.
/// Each change builds a new list with one pointer per instance, which takes about ten microseconds for 1,000 instances.
/// See [`ChildrenCache`] for what a break of the connection costs.
pub struct Providers<P>(Arc<Inner<P>>);

struct Inner<P> {
    service: String,
    parent: NodePath,
    format: Arc<dyn ReadFormat<P>>,
    options: ProviderOptions,
    shared: Arc<SharedList<P>>,
    /// The task that follows the service.
    task: Mutex<Option<AbortHandle>>,
}

impl<P> Drop for Inner<P> {
    fn drop(&mut self) {
        let task = self.task.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(task) = task {
            task.abort();
        }
    }
}

impl<P: Send + Sync + 'static> Providers<P> {
    pub(crate) fn start(
        session: &Session,
        service: &str,
        parent: &NodePath,
        format: Arc<dyn ReadFormat<P>>,
        options: ProviderOptions,
    ) -> Self {
        let providers = Self(Arc::new(Inner {
            service: service.to_owned(),
            parent: parent.clone(),
            format,
            options,
            shared: SharedList::new(options.failures),
            task: Mutex::new(None),
        }));
        providers.follow(session);
        providers
    }

    /// Follows the service with another session, or with the application's [`Sessions`](zk_core::Sessions), in place of
    /// the previous one.
    ///
    /// The last known list stays, and counts as stale, until the new session has synchronised. Failures that were
    /// reported for instances that still exist are kept.
    /// With [`Sessions`](zk_core::Sessions) the same goes for each later session.
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_core::{RetryPolicy, Session};
    /// use zk_discovery::Registry;
    ///
    /// let sessions = Session::builder("zk1:2181,zk2:2181,zk3:2181").sessions(RetryPolicy::default());
    /// let first = sessions.session().await?;
    /// let providers = Registry::new(&first, "/services")?.providers::<String>("orders")?;
    /// providers.follow(&sessions);
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow(&self, source: impl Into<SessionSource>) {
        let source = source.into();
        let inner = &*self.0;
        let most_bytes = inner.options.most_bytes;
        let mut task = inner.task.lock().unwrap_or_else(PoisonError::into_inner);
        let cache = cache(&source, &inner.parent, &inner.options);
        let format = Arc::clone(&inner.format);
        let decoder = Decoder::new(&inner.service, &inner.parent, format, most_bytes);
        let publisher = Publisher::begin(decoder, &inner.shared);
        let events = cache.events();
        let next = source.spawn(follow(cache, events, publisher));
        if let Some(last) = task.replace(next.abort_handle()) {
            last.abort();
        }
    }
}

impl<P> Providers<P> {
    /// Returns the name of the service.
    pub fn service(&self) -> &str {
        &self.0.service
    }

    /// Returns the current list. Takes no lock and sends no request.
    pub fn instances(&self) -> InstanceList<P> {
        self.0.shared.list()
    }

    /// Returns whether the list is complete, except for changes still on their way. Takes no lock and sends no request.
    pub fn is_synchronized(&self) -> bool {
        self.instances().is_synchronized()
    }

    /// Waits until the list is synchronised, and returns it.
    ///
    /// # Errors
    ///
    /// If following has ended.
    ///
    /// # Session loss
    ///
    /// [`CacheEnd::SessionLost`]; if [`Sessions`](zk_core::Sessions) are followed, it waits for the next one.
    pub async fn synchronized(&self) -> Result<InstanceList<P>, CacheEnd> {
        let mut next = self.0.shared.subscribe();
        loop {
            // Lists published from here on wake the wait below.
            next.mark_unchanged();
            let list = self.instances();
            if let Some(end) = &list.0.end {
                return Err(end.clone());
            }
            if list.is_synchronized() {
                return Ok(list);
            }
            if next.changed().await.is_err() {
                return Err(CacheEnd::Stopped);
            }
        }
    }

    /// Returns an independent stream of changes: first an [`Added`](crate::InstanceChange::Added) for each existing
    /// instance, then [`Synchronized`](crate::InstanceChange::Synchronized) once the list is complete.
    pub fn changes(&self) -> InstanceChanges<P> {
        InstanceChanges::new(&self.0.shared, InstanceList::empty())
    }

    /// Returns a stream of changes that starts from `list`: first the difference to the current instances, then
    /// [`Synchronized`](crate::InstanceChange::Synchronized) once the list is complete.
    ///
    /// `list` may come from other providers, even ended ones: only its instances and its
    /// [quarantined](InstanceList::quarantined) nodes are used.
    pub fn changes_since(&self, list: &InstanceList<P>) -> InstanceChanges<P> {
        InstanceChanges::new(&self.0.shared, list.nodes_only())
    }

    /// Picks an instance. Does not wait and sends no request.
    ///
    /// Disabled instances are skipped, and so are ejected ones, see [`report_failure`](Self::report_failure).
    /// A dead instance is picked until its session has expired: report the failure, and pick again.
    ///
    /// # Errors
    ///
    /// If no instance can be picked, or the list is incomplete or too stale. A list that was never read is never used.
    ///
    /// # Cost
    ///
    /// That of the strategy, and some nanoseconds. Takes no lock and copies no list. The first pick after the end of an
    /// ejection takes a lock, and goes through the instances once.
    pub fn pick(&self, strategy: &(impl Strategy<P> + ?Sized)) -> Result<Picked<P>, PickError> {
        let newest = self.0.shared.newest();
        let contents = &*newest.list.0;
        let options = &self.0.options;
        let stale_for = newest.stale_since.map(|since| since.elapsed());
        let was_read = contents.rounds > 0;
        check_staleness(
            contents.state,
            was_read,
            contents.end.as_ref(),
            stale_for,
            options.stale,
        )?;
        let service = || self.0.service.clone();
        if contents.enabled.is_empty() {
            let service = service();
            return Err(match contents.gap {
                Some(gap) => PickError::Incomplete { service, gap },
                None => PickError::Empty { service },
            });
        }
        let usable = newest.usable.as_ref().map(|usable| &usable.candidates);
        let all = contents.enabled.len();
        let aside = usable.map_or(0, |usable| all - usable.len());
        let most = options.failures.max_ejected_of(all);
        let candidates = match (pick_pool(all, aside, most, options.all_ejected), usable) {
            (PickPool::Usable, Some(usable)) => usable,
            (PickPool::All | PickPool::Usable, _) => &contents.enabled,
            (PickPool::Empty, _) => return Err(PickError::AllEjected { service: service() }),
        };
        let chosen = strategy.choose(candidates);
        chosen.uses().fetch_add(1, Ordering::Relaxed);
        Ok(Picked {
            candidate: chosen,
            is_stale: !newest.list.is_synchronized(),
            shared: Arc::clone(&self.0.shared),
        })
    }

    /// Picks an instance, and waits up to `limit` for one to be available.
    ///
    /// # Errors
    ///
    /// The error of the last attempt once `limit` has elapsed; [`PickError::Ended`] at once.
    ///
    /// # Session loss
    ///
    /// As [`WhenStale`] says: one of the last known instances, or [`PickError::Ended`].
    pub async fn pick_timeout(
        &self,
        strategy: &(impl Strategy<P> + ?Sized),
        limit: Duration,
    ) -> Result<Picked<P>, PickError> {
        let deadline = Instant::now().checked_add(limit);
        let mut next = self.0.shared.subscribe();
        loop {
            // Lists published from here on wake the wait below.
            next.mark_unchanged();
            let error = match self.pick(strategy) {
                Err(error) if error.is_transient() => error,
                answer => return answer,
            };
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Err(error);
            }
            let until = [deadline, self.0.shared.next_return()];
            match until.into_iter().flatten().min() {
                Some(until) => drop(timeout_at(until, next.changed()).await),
                None => drop(next.changed().await),
            }
        }
    }

    /// Reports that an instance failed, and returns whether this failure ejects it.
    ///
    /// The [rules](ProviderOptions::with_failures) say how many failures eject an instance, and for how long.
    /// An id that is not in the list is ignored. The failures of an instance are forgotten when it is removed: an
    /// instance that is registered again under the same id starts without failures.
    /// If several instances have the id, see [`ServiceType::DynamicSequential`](crate::ServiceType::DynamicSequential),
    /// the failure counts for all of them; [`Picked::failed`] counts for the picked one alone.
    ///
    /// # Cost
    ///
    /// Linear in the number of instances.
    pub fn report_failure(&self, id: &str) -> bool {
        self.0.shared.report_id(id)
    }
}

/// The default size limit of an instance's node.
pub(crate) const DEFAULT_MOST_BYTES: usize = 1 << 20;
/// The default limits of all nodes of a service.
pub(crate) const DEFAULT_MAX_NODES: usize = 100_000;
pub(crate) const DEFAULT_MAX_BYTES: usize = 256 << 20;

fn cache(source: &SessionSource, parent: &NodePath, options: &ProviderOptions) -> ChildrenCache {
    let limits = CacheOptions::default()
        .with_max_nodes(options.max_nodes)
        .with_max_bytes(options.max_bytes);
    ChildrenCache::start_with(source, parent.clone(), &limits)
        .expect("a `NodePath` converts to itself")
}

impl<P> Clone for Providers<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> fmt::Debug for Providers<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Providers")
            .field("service", &self.0.service)
            .field("instances", &self.instances())
            .finish_non_exhaustive()
    }
}

/// A picked instance, which counts as in use until this is dropped.
///
/// It does not change after the pick.
///
/// # Dropping
///
/// Ends the use.
#[must_use = "it counts as in use until this is dropped"]
pub struct Picked<P> {
    candidate: Candidate<P>,
    is_stale: bool,
    shared: Arc<SharedList<P>>,
}

impl<P> Picked<P> {
    /// Returns the instance in a form that outlives this.
    pub fn instance(&self) -> &Arc<Instance<P>> {
        self.candidate.instance()
    }

    /// Returns whether the list it was picked from may have been out of date, see [`WhenStale`].
    pub const fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Reports that it failed, see [`Providers::report_failure`]. Ignored if it is gone or was registered again.
    pub fn failed(self) -> bool {
        self.shared.report(&[self.candidate.incarnation()])
    }
}

impl<P> Deref for Picked<P> {
    type Target = Instance<P>;

    fn deref(&self) -> &Instance<P> {
        self.candidate.instance()
    }
}

impl<P> Drop for Picked<P> {
    fn drop(&mut self) {
        self.candidate.uses().fetch_sub(1, Ordering::Relaxed);
    }
}

impl<P> fmt::Debug for Picked<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Picked").field(&self.candidate).finish()
    }
}
