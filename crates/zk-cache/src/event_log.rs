//! The rounds of events that some consumer has not read yet, bounded in number and bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::task::Poll;

use tokio::sync::Notify;

use crate::shared_state::Round;

/// What all consumers of a cache read from. It keeps what one of them has still to read, and only that; when this is more
/// than the bounds allow, the oldest is dropped, and who has not read it has fallen behind.
#[derive(Debug)]
pub(crate) struct EventLog {
    kept: Mutex<Kept>,
    pushed: Notify,
    most_rounds: usize,
    most_bytes: usize,
}

#[derive(Debug, Default)]
struct Kept {
    rounds: VecDeque<Entry>,
    /// The number of the first of them.
    first: u64,
    /// What all of them hold.
    bytes: usize,
    readers: usize,
}

#[derive(Debug)]
struct Entry {
    round: Arc<Round>,
    bytes: usize,
    /// How many readers have still to read it.
    unread: usize,
}

/// One consumer's place in the log.
#[derive(Debug)]
pub(crate) struct Reader {
    log: Arc<EventLog>,
    next: u64,
}

impl EventLog {
    pub(crate) fn new(most_rounds: usize, most_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            kept: Mutex::default(),
            pushed: Notify::new(),
            most_rounds,
            most_bytes,
        })
    }

    /// Begins to read with what is pushed next.
    pub(crate) fn read(self: &Arc<Self>) -> Reader {
        let mut kept = self.kept();
        kept.readers += 1;
        let next = kept.end();
        drop(kept);
        Reader {
            log: Arc::clone(self),
            next,
        }
    }

    pub(crate) fn push(&self, round: Round) {
        let mut kept = self.kept();
        let bytes = round.bytes();
        let unread = kept.readers;
        kept.bytes += bytes;
        kept.rounds.push_back(Entry {
            round: Arc::new(round),
            bytes,
            unread,
        });
        kept.drop_read();
        while kept.rounds.len() > self.most_rounds || kept.bytes > self.most_bytes {
            kept.drop_first();
        }
        drop(kept);
        self.pushed.notify_waiters();
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // What is behind it is whole at every moment.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn end(&self) -> u64 {
        self.first + self.rounds.len() as u64
    }

    /// The place of a round among those that are kept; `None` when it was dropped.
    fn place(&self, number: u64) -> Option<usize> {
        let place = number.checked_sub(self.first)?;
        Some(usize::try_from(place).expect("no more are kept than there is memory for"))
    }

    fn drop_first(&mut self) {
        if let Some(entry) = self.rounds.pop_front() {
            self.first += 1;
            self.bytes -= entry.bytes;
        }
        if self.rounds.is_empty() {
            // What a burst took is given back.
            self.rounds = VecDeque::new();
        }
    }

    fn drop_read(&mut self) {
        while self.rounds.front().is_some_and(|entry| entry.unread == 0) {
            self.drop_first();
        }
    }
}

impl Reader {
    /// Waits for the next round; `None` when this has fallen behind, and has to begin anew.
    ///
    /// Cancel safe: nothing is missed.
    pub(crate) async fn next(&mut self) -> Option<Arc<Round>> {
        let log = Arc::clone(&self.log);
        loop {
            // It counts what is pushed from when it was made.
            let pushed = log.pushed.notified();
            if let Poll::Ready(next) = self.take() {
                return next;
            }
            pushed.await;
        }
    }

    /// The next round, if there is one; `None` when this has fallen behind.
    fn take(&mut self) -> Poll<Option<Arc<Round>>> {
        let mut kept = self.log.kept();
        let Some(place) = kept.place(self.next) else {
            return Poll::Ready(None);
        };
        let Some(entry) = kept.rounds.get_mut(place) else {
            return Poll::Pending;
        };
        entry.unread -= 1;
        let round = Arc::clone(&entry.round);
        kept.drop_read();
        self.next += 1;
        Poll::Ready(Some(round))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut kept = self.log.kept();
        kept.readers -= 1;
        let place = kept.place(self.next).unwrap_or_default();
        for entry in kept.rounds.iter_mut().skip(place) {
            entry.unread -= 1;
        }
        kept.drop_read();
    }
}

#[cfg(test)]
mod tests {
    use zk_core::NodePath;
    use zk_core::Stat;

    use super::*;
    use crate::event::Event;
    use crate::node::Node;
    use crate::snapshot::Snapshot;

    fn round(bytes: usize) -> Round {
        let path = NodePath::parse("/a").unwrap();
        let node = Node::new(path.clone(), Stat::zeroed(), Some(vec![0; bytes]));
        Round {
            events: vec![Event::Created(node)],
            snapshot: Snapshot::nothing(path),
        }
    }

    fn kept(log: &EventLog) -> (usize, bool) {
        let kept = log.kept();
        (kept.rounds.len(), kept.bytes > 0)
    }

    #[test]
    fn a_log_that_has_no_reader_takes_no_memory() {
        let log = EventLog::new(1024, 1 << 20);
        assert_eq!(log.kept().rounds.capacity(), 0);
        for _ in 0..10 {
            log.push(round(1000));
        }
        assert_eq!((kept(&log), log.kept().rounds.capacity()), ((0, false), 0));
    }

    #[tokio::test]
    async fn a_round_is_kept_until_all_have_read_it() {
        let log = EventLog::new(1024, 1 << 20);
        let (mut one, mut other) = (log.read(), log.read());
        for _ in 0..3 {
            log.push(round(1000));
        }
        for _ in 0..3 {
            assert!(one.next().await.is_some());
        }
        assert_eq!(kept(&log).0, 3);
        assert!(other.next().await.is_some());
        assert_eq!(kept(&log).0, 2);
        let late = log.read();
        drop(other);
        assert_eq!(kept(&log), (0, false));
        log.push(round(1000));
        assert!(one.next().await.is_some());
        assert_eq!(kept(&log).0, 1);
        drop(late);
        assert_eq!(kept(&log), (0, false));
    }

    #[tokio::test]
    async fn no_more_is_kept_than_the_bounds_allow() {
        let log = EventLog::new(8, 1 << 20);
        let (mut forgotten, mut quick) = (log.read(), log.read());
        for _ in 0..100 {
            log.push(round(1000));
            assert!(quick.next().await.is_some());
        }
        assert_eq!(kept(&log).0, 8);
        for _ in 0..100 {
            log.push(round(300_000));
            assert!(quick.next().await.is_some());
            assert!(log.kept().bytes <= 1 << 20);
        }
        assert_eq!(kept(&log).0, 3);
        assert!(forgotten.next().await.is_none());
        drop((forgotten, quick));
        assert_eq!(kept(&log), (0, false));
    }
}
