//! The instances of a service, followed and picked.

use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio::time::timeout_at;
use zk_cache::CacheEnd;
use zk_cache::ChildrenCache;
use zk_core::NodePath;
use zk_core::Session;

use crate::changes::InstanceChanges;
use crate::decoder::Decoder;
use crate::follow::Publisher;
use crate::follow::SharedList;
use crate::follow::follow;
use crate::instance::Instance;
use crate::instance_list::InstanceList;
use crate::layout::ReadFormat;
use crate::outlier_ejection::FailureRules;
use crate::outlier_ejection::OutlierDetector;
use crate::pick::Candidate;
use crate::pick::Strategy;
use crate::staleness_policy::PickError;
use crate::staleness_policy::PickPool;
use crate::staleness_policy::WhenAllEjected;
use crate::staleness_policy::WhenStale;
use crate::staleness_policy::check_staleness;
use crate::staleness_policy::pick_pool;

/// The settings of [`Providers`].
///
/// # Defaults
///
/// - [`failures`](Self::with_failures): [`FailureRules::default`]
/// - [`stale`](Self::with_stale): [`WhenStale::Use`]
/// - [`all_ejected`](Self::with_all_ejected): [`WhenAllEjected::UseAll`]
/// - [`most_bytes`](Self::with_most_bytes): 1 MiB
#[derive(Debug, Clone, Copy)]
pub struct ProviderOptions {
    failures: FailureRules,
    stale: WhenStale,
    all_ejected: WhenAllEjected,
    most_bytes: usize,
}

impl Default for ProviderOptions {
    fn default() -> Self {
        Self {
            failures: FailureRules::default(),
            stale: WhenStale::Use,
            all_ejected: WhenAllEjected::UseAll,
            most_bytes: 1 << 20,
        }
    }
}

impl ProviderOptions {
    /// Sets when an instance that fails is set aside; the default is three failures within half a minute, for half a minute.
    #[must_use]
    pub const fn with_failures(mut self, rules: FailureRules) -> Self {
        self.failures = rules;
        self
    }

    /// Sets what is picked while the connection is broken and after the end of its session; default, for however long, what
    /// was known before.
    #[must_use]
    pub const fn with_stale(mut self, when: WhenStale) -> Self {
        self.stale = when;
        self
    }

    /// Sets what is picked when every instance is set aside, or more than
    /// [may be](FailureRules::with_max_ejected); default, one of them all the same.
    #[must_use]
    pub const fn with_all_ejected(mut self, when: WhenAllEjected) -> Self {
        self.all_ejected = when;
        self
    }

    /// Sets how large the node of an instance may be, in bytes; default 1 MiB, and larger ones are quarantined.
    #[must_use]
    pub const fn with_most_bytes(mut self, bytes: usize) -> Self {
        self.most_bytes = bytes;
        self
    }
}

/// The instances of a service, followed live and kept in memory; made by
/// [`Registry::providers`](crate::Registry::providers).
///
/// Clones share it.
/// It keeps its session open, as each clone of that does.
///
/// When the session ends, what was known last stays, and is picked from as [`WhenStale`] says: by default an outage of the
/// ensemble is none of the service. Let the next session [`follow`](Self::follow) it.
///
/// # Dropping
///
/// Dropping the last clone ends it: [`changes`](Self::changes) end with [`CacheEnd::Stopped`], and its watch is taken back in the
/// background. A [`Picked`] or [`InstanceChanges`] that is still there does not keep it alive.
///
/// # Cost
///
/// At first a read for each instance, many at once, and then a message of the server and a read for each change.
/// Each instance is decoded once for each change of it.
/// A change makes a list anew that has a pointer for each instance: for 1,000 instances that takes some ten microseconds.
/// See [`ChildrenCache::start_with`] for what a break of the connection costs.
pub struct Providers<P>(Arc<Inner<P>>);

struct Inner<P> {
    service: String,
    parent: NodePath,
    format: Arc<dyn ReadFormat<P>>,
    options: ProviderOptions,
    shared: Arc<SharedList<P>>,
    tracker: Arc<FailureTracker>,
    /// What follows the service now.
    task: Mutex<Option<AbortHandle>>,
}

/// What has failed, as one process has seen it.
#[derive(Debug)]
struct FailureTracker {
    detector: Mutex<OutlierDetector>,
    /// Whether anything was ever set aside: mostly nothing is, and nobody has to look.
    is_used: AtomicBool,
    since: Instant,
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
            shared: SharedList::new(),
            tracker: Arc::new(FailureTracker {
                detector: Mutex::new(OutlierDetector::new(options.failures)),
                is_used: AtomicBool::new(false),
                since: Instant::now(),
            }),
            task: Mutex::new(None),
        }));
        providers.follow(session);
        providers
    }

    /// Lets another session follow the service, in the place of the one that did.
    ///
    /// What that knew last stays, and counts as stale, until this one knows everything; what was reported of instances that
    /// are still there is kept.
    ///
    /// ```no_run
    /// # async fn serve(_: &zk_discovery::Providers<String>) -> Result<(), zk_core::Error> { Ok(()) }
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_core::{RetryPolicy, Session};
    /// use zk_discovery::Registry;
    ///
    /// let ensemble = Session::builder("zk1:2181,zk2:2181,zk3:2181");
    /// let first = ensemble.clone().connect().await?;
    /// let providers = Registry::new(&first, "/services")?.providers::<String>("orders")?;
    /// drop(first);
    /// ensemble
    ///     .supervise(RetryPolicy::default(), async |session| {
    ///         providers.follow(&session);
    ///         serve(&providers).await
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn follow(&self, session: &Session) {
        let inner = &*self.0;
        let most_bytes = inner.options.most_bytes;
        let mut task = inner.task.lock().unwrap_or_else(PoisonError::into_inner);
        let cache = cache(session, &inner.parent);
        let format = Arc::clone(&inner.format);
        let decoder = Decoder::new(&inner.service, &inner.parent, format, most_bytes);
        let publisher = Publisher::begin(decoder, &inner.shared);
        let events = cache.events();
        let next = session.spawn(follow(cache, events, publisher));
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

    /// Returns what is known now. Takes no lock and asks nobody.
    pub fn instances(&self) -> InstanceList<P> {
        self.0.shared.list()
    }

    /// Tells whether everything is known but what is on its way. Takes no lock and asks nobody.
    pub fn is_synchronized(&self) -> bool {
        self.instances().is_synchronized()
    }

    /// Waits until everything is known, and returns it.
    ///
    /// # Errors
    ///
    /// When it has ended.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// [`CacheEnd::SessionLost`].
    pub async fn synchronized(&self) -> Result<InstanceList<P>, CacheEnd> {
        let mut next = self.0.shared.subscribe();
        loop {
            // What comes from here on is waited for below.
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

    /// Returns what changes, as a consumer of its own: at first an [`Added`](crate::InstanceChange::Added) for each instance that
    /// there is, and [`Synchronized`](crate::InstanceChange::Synchronized) as soon as that is all.
    pub fn changes(&self) -> InstanceChanges<P> {
        InstanceChanges::new(&self.0.shared, InstanceList::empty())
    }

    /// Returns what changes from this list on: first the difference to the instances that there are now, then
    /// [`Synchronized`](crate::InstanceChange::Synchronized) as soon as that is all.
    ///
    /// It may be the list of other providers, which may have ended: of it only the instances and what was
    /// [quarantined](InstanceList::quarantined) count.
    pub fn changes_since(&self, list: &InstanceList<P>) -> InstanceChanges<P> {
        InstanceChanges::new(&self.0.shared, list.nodes_only())
    }

    /// Picks an instance. Waits for nothing, and asks nobody.
    ///
    /// Instances that are not enabled are passed over, and so are those that are set aside, see
    /// [`report_failure`](Self::report_failure).
    /// An instance that has died is picked until its session has expired: report that it failed, and pick again.
    ///
    /// # Errors
    ///
    /// There is none, or the list cannot be had or relied on; a list that was never read is never used.
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
        let usable = self.0.tracker.usable(&contents.enabled);
        let (all, usable) = (contents.enabled.len(), usable.as_deref());
        let aside = usable.map_or(0, |usable| all - usable.len());
        let most = options.failures.max_ejected_of(all);
        let candidates = match (pick_pool(all, aside, most, options.all_ejected), usable) {
            (PickPool::Usable, Some(usable)) => usable,
            (PickPool::All | PickPool::Usable, _) => &contents.enabled,
            (PickPool::Empty, _) => return Err(PickError::AllEjected { service: service() }),
        };
        let chosen = strategy.choose(candidates).clone();
        chosen.uses().fetch_add(1, Ordering::Relaxed);
        Ok(Picked {
            candidate: chosen,
            is_stale: !newest.list.is_synchronized(),
            tracker: Arc::clone(&self.0.tracker),
            shared: Arc::clone(&self.0.shared),
        })
    }

    /// Picks an instance, and waits for one to be there, at most for `limit`.
    ///
    /// # Errors
    ///
    /// That of the last try when the time is over; [`PickError::Ended`] at once.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing happened.
    ///
    /// # Session loss
    ///
    /// As [`WhenStale`] says: one of those that were known last, or [`PickError::Ended`].
    pub async fn pick_timeout(
        &self,
        strategy: &(impl Strategy<P> + ?Sized),
        limit: Duration,
    ) -> Result<Picked<P>, PickError> {
        let deadline = Instant::now().checked_add(limit);
        let mut next = self.0.shared.subscribe();
        loop {
            // What comes from here on is waited for below.
            next.mark_unchanged();
            let error = match self.pick(strategy) {
                Err(error) if error.is_transient() => error,
                answer => return answer,
            };
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Err(error);
            }
            let until = [deadline, self.0.tracker.next_return()];
            match until.into_iter().flatten().min() {
                Some(until) => drop(timeout_at(until, next.changed()).await),
                None => drop(next.changed().await),
            }
        }
    }

    /// Notes that an instance has failed; with as many failures as the [rules](ProviderOptions::with_failures) say, it is set
    /// aside for a time. Answers whether it is set aside by this one.
    ///
    /// An id that is not in the list is left aside, and when an instance goes its failures are forgotten: one that is
    /// registered anew under the same id begins without any.
    /// If several instances have the id, see [`ServiceType::DynamicSequential`](crate::ServiceType::DynamicSequential), all
    /// of them have failed; [`Picked::failed`] is about the one that was picked.
    ///
    /// # Cost
    ///
    /// All instances are looked at.
    pub fn report_failure(&self, id: &str) -> bool {
        let failed = |candidate: &Candidate<P>| candidate.instance().id() == id;
        self.0.tracker.report(&self.instances(), failed)
    }
}

fn cache(session: &Session, parent: &NodePath) -> ChildrenCache {
    ChildrenCache::start(session, parent.clone()).expect("a path is a path")
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

impl FailureTracker {
    fn now(&self) -> Duration {
        self.since.elapsed()
    }

    /// Notes that those of the list have failed, and tells whether any of them is set aside by that.
    fn report<P>(&self, list: &InstanceList<P>, failed: impl Fn(&Candidate<P>) -> bool) -> bool {
        let members = || list.0.members.iter().map(|member| &member.candidate);
        let there: HashSet<_> = members().map(Candidate::incarnation).collect();
        let mut detector = self.detector.lock().unwrap_or_else(PoisonError::into_inner);
        detector.retain(|which| there.contains(&which));
        let now = self.now();
        let mut is_ejected = false;
        for candidate in members().filter(|candidate| failed(candidate)) {
            is_ejected |= detector.report(candidate.incarnation(), now, fastrand::f64());
        }
        if is_ejected {
            self.is_used.store(true, Ordering::Release);
        }
        is_ejected
    }

    /// Those that are not set aside; `None` for all of them.
    fn usable<P>(&self, all: &[Candidate<P>]) -> Option<Vec<Candidate<P>>> {
        if !self.is_used.load(Ordering::Acquire) {
            return None;
        }
        let detector = self.detector.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        detector.next_return(now)?;
        let usable = all
            .iter()
            .filter(|candidate| !detector.is_ejected(candidate.incarnation(), now));
        Some(usable.cloned().collect())
    }

    fn next_return(&self) -> Option<Instant> {
        let detector = self.detector.lock().unwrap_or_else(PoisonError::into_inner);
        self.since.checked_add(detector.next_return(self.now())?)
    }
}

/// An instance that was picked, and counts as in use for as long as this lives.
///
/// It is what was known when it was picked.
///
/// # Dropping
///
/// It is not in use any more.
#[must_use = "it counts as in use until this is dropped"]
pub struct Picked<P> {
    candidate: Candidate<P>,
    is_stale: bool,
    tracker: Arc<FailureTracker>,
    shared: Arc<SharedList<P>>,
}

impl<P> Picked<P> {
    /// Returns the instance, to be kept for longer.
    pub fn instance(&self) -> &Arc<Instance<P>> {
        self.candidate.instance()
    }

    /// Tells whether the list that it was picked from may have been out of date, see [`WhenStale`].
    pub const fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Notes that it has failed, see [`Providers::report_failure`], unless it is gone by now or was registered anew.
    pub fn failed(self) -> bool {
        let which = self.candidate.incarnation();
        let failed = |candidate: &Candidate<P>| candidate.incarnation() == which;
        self.tracker.report(&self.shared.list(), failed)
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
