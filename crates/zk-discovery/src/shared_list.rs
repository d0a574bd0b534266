//! The newest list of instances, with those that are picked from, as one value that readers load without a lock.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwap, Guard};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::instance_list::InstanceList;
use crate::outlier_ejection::{FailureRules, OutlierDetector};
use crate::pick::{Candidate, Candidates, Incarnation};

/// The newest list, shared between the task that follows the service, those that report failures, and the readers.
pub(crate) struct SharedList<P> {
    newest: ArcSwap<Published<P>>,
    /// Counts the published lists; readers wait on it for the next one.
    count: watch::Sender<u64>,
    /// Locked during publishing.
    writer: Mutex<Writer>,
    since: Instant,
}

/// What the next published value depends on besides the list.
pub(crate) struct Writer {
    /// The publisher that may publish: the one that started last.
    pub(crate) generation: u64,
    detector: OutlierDetector,
    /// The instances of the newest list.
    members: HashSet<Incarnation>,
}

pub(crate) struct Published<P> {
    pub(crate) list: InstanceList<P>,
    /// When the list became stale, if it is.
    pub(crate) stale_since: Option<Instant>,
    /// `None` if no enabled instance is ejected.
    pub(crate) usable: Option<Usable<P>>,
}

/// The enabled instances while some of them are ejected.
pub(crate) struct Usable<P> {
    /// Those that are not ejected.
    pub(crate) candidates: Candidates<P>,
    /// When the first ejected one returns.
    pub(crate) until: Option<Instant>,
}

impl<P> SharedList<P> {
    pub(crate) fn new(rules: FailureRules) -> Arc<Self> {
        Arc::new(Self {
            newest: ArcSwap::from_pointee(Published {
                list: InstanceList::empty(),
                stale_since: None,
                usable: None,
            }),
            count: watch::Sender::new(0),
            writer: Mutex::new(Writer {
                generation: 0,
                detector: OutlierDetector::new(rules),
                members: HashSet::new(),
            }),
            since: Instant::now(),
        })
    }

    pub(crate) fn list(&self) -> InstanceList<P> {
        self.newest.load().list.clone()
    }

    /// Returns the newest value, for the holder of the writer.
    pub(crate) fn newest_as_stored(&self) -> Guard<Arc<Published<P>>> {
        self.newest.load()
    }

    /// Returns the newest value as of now. Takes no lock, unless an ejected instance has returned since the last call.
    pub(crate) fn newest(&self) -> Guard<Arc<Published<P>>> {
        let newest = self.newest.load();
        let until = newest.usable.as_ref().and_then(|usable| usable.until);
        if until.is_none_or(|until| Instant::now() < until) {
            return newest;
        }
        let writer = self.writer();
        let newest = self.newest.load();
        self.store(&writer, newest.list.clone(), newest.stale_since);
        self.newest.load()
    }

    /// Returns when the first ejected instance returns.
    pub(crate) fn next_return(&self) -> Option<Instant> {
        self.newest().usable.as_ref()?.until
    }

    pub(crate) fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a list, and forgets the failures of instances that are gone.
    pub(crate) fn publish(
        &self,
        writer: &mut Writer,
        list: InstanceList<P>,
        stale_since: Option<Instant>,
    ) {
        let members = list.0.members.iter();
        let members = members.map(|member| member.candidate.incarnation());
        writer.members = members.collect();
        let Writer {
            detector, members, ..
        } = writer;
        detector.retain(|which| members.contains(&which));
        self.store(writer, list, stale_since);
        self.count.send_modify(|count| *count += 1);
    }

    /// Records a failure of all instances with an id, and returns whether it ejects any of them.
    pub(crate) fn report_id(&self, id: &str) -> bool {
        let list = self.list();
        let members = list.0.members.iter().map(|member| &member.candidate);
        let failed = members.filter(|candidate| candidate.instance().id() == id);
        let failed: Vec<_> = failed.map(Candidate::incarnation).collect();
        self.report(&failed)
    }

    /// Records a failure of instances, apart from those that are gone, and returns whether it ejects any of them.
    pub(crate) fn report(&self, failed: &[Incarnation]) -> bool {
        let mut writer = self.writer();
        let now = self.since.elapsed();
        let mut is_ejected = false;
        for which in failed {
            is_ejected |= writer.members.contains(which)
                && writer.detector.report(*which, now, fastrand::f64());
        }
        if is_ejected {
            let newest = self.newest.load();
            self.store(&writer, newest.list.clone(), newest.stale_since);
        }
        is_ejected
    }

    /// Returns a receiver that changes with each published list.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    fn store(&self, writer: &Writer, list: InstanceList<P>, stale_since: Option<Instant>) {
        let now = self.since.elapsed();
        let is_ejected =
            |candidate: &&Candidate<P>| writer.detector.is_ejected(candidate.incarnation(), now);
        let enabled = &list.0.enabled;
        let usable = enabled.iter().any(|it| is_ejected(&it)).then(|| {
            let candidates = enabled.iter().filter(|it| !is_ejected(it));
            let next = writer.detector.next_return(now);
            Usable {
                candidates: Candidates::new(candidates.cloned().collect()),
                until: next.and_then(|next| self.since.checked_add(next)),
            }
        });
        self.newest.store(Arc::new(Published {
            list,
            stale_since,
            usable,
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use zk_core::NodePath;

    use super::*;
    use crate::instance::Instance;
    use crate::instance_list::{ListContents, Member};

    fn list(ids: &[&str]) -> InstanceList<()> {
        let candidate = |id: &&str| {
            let instance = Instance::builder("s", ()).id(*id).build().unwrap();
            Candidate::new(Incarnation::of(id, 1), Arc::new(instance), Arc::default())
        };
        let enabled: Vec<_> = ids.iter().map(candidate).collect();
        let member = |candidate: &Candidate<()>| Member {
            path: NodePath::root(),
            czxid: 1,
            mzxid: 1,
            candidate: candidate.clone(),
        };
        InstanceList(Arc::new(ListContents {
            members: enabled.iter().map(member).collect(),
            enabled: Candidates::new(enabled),
            ..Arc::into_inner(InstanceList::empty().0).unwrap()
        }))
    }

    fn usable(shared: &SharedList<()>) -> Vec<String> {
        let newest = shared.newest();
        let usable = newest.usable.as_ref();
        let candidates = usable.map_or(&newest.list.0.enabled, |usable| &usable.candidates);
        let ids = candidates.iter().map(|it| it.instance().id().to_owned());
        ids.collect()
    }

    #[tokio::test(start_paused = true)]
    async fn ejected_instances_are_left_out_until_they_return() {
        let rules = FailureRules::default().with_failures(1);
        let shared = SharedList::new(rules);
        shared.publish(&mut shared.writer(), list(&["a", "b", "c"]), None);
        assert!(shared.newest().usable.is_none() && shared.next_return().is_none());
        let fail = |id| shared.report_id(id);
        assert!(fail("b") && !fail("b") && !fail("x"));
        assert_eq!(usable(&shared), ["a", "c"]);
        // Also in a new list.
        shared.publish(&mut shared.writer(), list(&["b", "c", "d"]), None);
        assert_eq!(usable(&shared), ["c", "d"]);
        let wait = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        wait(20).await;
        assert!(fail("d"));
        assert_eq!(usable(&shared), ["c"]);
        wait(18).await;
        assert_eq!(
            usable(&shared),
            ["b", "c"],
            "b returns after at most 37.5 seconds"
        );
        wait(20).await;
        assert_eq!(usable(&shared), ["b", "c", "d"]);
        assert!(shared.newest().usable.is_none(), "no list is kept aside");
    }

    #[tokio::test(start_paused = true)]
    async fn the_failures_of_a_removed_instance_are_forgotten() {
        let shared = SharedList::new(FailureRules::default().with_failures(2));
        let publish = |ids: &[&str]| shared.publish(&mut shared.writer(), list(ids), None);
        let fail = |id| shared.report_id(id);
        publish(&["a", "b"]);
        assert!(!fail("a") && !fail("b"));
        publish(&["b"]);
        publish(&["a", "b"]);
        assert!(!fail("a") && fail("b"));
    }

    #[test]
    fn a_reader_waits_for_no_writer() {
        let shared = SharedList::new(FailureRules::default().with_failures(1));
        shared.publish(&mut shared.writer(), list(&["a", "b"]), None);
        assert!(shared.report_id("a"));
        let writer = shared.writer();
        let (sender, receiver) = mpsc::channel();
        let reader = Arc::clone(&shared);
        let thread = std::thread::spawn(move || sender.send(usable(&reader)));
        let read = receiver.recv_timeout(Duration::from_secs(20));
        drop(writer);
        thread.join().unwrap().unwrap();
        assert_eq!(read.expect("a reader waits for the writer"), ["b"]);
    }
}
