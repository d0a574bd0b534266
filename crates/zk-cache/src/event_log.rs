//! The event batches that some consumer has not read yet, bounded in number and bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::task::Poll;

use tokio::sync::Notify;

use crate::event::Event;
use crate::snapshot::Snapshot;

/// A broadcast log that all consumers of a cache read.
///
/// It keeps a batch until all consumers have read it. Beyond its bounds it drops the oldest batches, and a consumer
/// that has not read them has fallen behind.
#[derive(Debug)]
pub(crate) struct EventLog {
    contents: Mutex<Contents>,
    pushed: Notify,
    max_batches: usize,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct Contents {
    entries: VecDeque<LogEntry>,
    /// The index of the first entry, counted from the start of the cache.
    first: u64,
    /// The memory footprint of all entries.
    bytes: usize,
    readers: usize,
}

#[derive(Debug)]
struct LogEntry {
    batch: Arc<EventBatch>,
    bytes: usize,
    /// How many readers have not read it yet.
    unread: usize,
}

/// The events between two consecutive snapshots.
#[derive(Debug)]
pub(crate) struct EventBatch {
    pub(crate) events: Vec<Event>,
    /// The snapshot after the events.
    pub(crate) snapshot: Snapshot,
}

/// The position of one consumer in the log.
#[derive(Debug)]
pub(crate) struct LogReader {
    log: Arc<EventLog>,
    next: u64,
}

impl EventLog {
    pub(crate) fn new(max_batches: usize, max_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            contents: Mutex::default(),
            pushed: Notify::new(),
            max_batches,
            max_bytes,
        })
    }

    /// Returns a reader that starts at the next batch.
    pub(crate) fn subscribe(self: &Arc<Self>) -> LogReader {
        let mut contents = self.contents();
        contents.readers += 1;
        let next = contents.end();
        drop(contents);
        LogReader {
            log: Arc::clone(self),
            next,
        }
    }

    pub(crate) fn push(&self, batch: EventBatch) {
        let mut contents = self.contents();
        let bytes = batch.bytes();
        let unread = contents.readers;
        contents.bytes += bytes;
        contents.entries.push_back(LogEntry {
            batch: Arc::new(batch),
            bytes,
            unread,
        });
        contents.drop_read();
        while contents.entries.len() > self.max_batches || contents.bytes > self.max_bytes {
            contents.drop_first();
        }
        drop(contents);
        self.pushed.notify_waiters();
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        // The contents are consistent whenever the lock is free, also after a panic.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// Converts an index since the start of the cache to one in `entries`; `None` if the entry was dropped.
    fn position(&self, index: u64) -> Option<usize> {
        let position = index.checked_sub(self.first)?;
        Some(usize::try_from(position).expect("the log fits into memory"))
    }

    fn drop_first(&mut self) {
        if let Some(entry) = self.entries.pop_front() {
            self.first += 1;
            self.bytes -= entry.bytes;
        }
        if self.entries.is_empty() {
            // Frees the capacity that a burst needed.
            self.entries = VecDeque::new();
        }
    }

    fn drop_read(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.unread == 0) {
            self.drop_first();
        }
    }
}

impl EventBatch {
    /// Returns the approximate memory footprint in bytes, without the part shared with the newest snapshot.
    pub(crate) fn bytes(&self) -> usize {
        let of = |event: &Event| match event {
            Event::Created(node) | Event::Deleted(node) => node.bytes(),
            Event::Changed { old, new } => old.bytes() + new.bytes(),
            _ => 0,
        };
        let events = self.events.iter();
        size_of::<Self>()
            + events
                .map(|event| size_of::<Event>() + of(event))
                .sum::<usize>()
    }
}

impl LogReader {
    /// Waits for the next batch; `None` if the reader has fallen behind and must be replaced.
    ///
    /// Cancel safe: a dropped future skips nothing.
    pub(crate) async fn next(&mut self) -> Option<Arc<EventBatch>> {
        let log = Arc::clone(&self.log);
        loop {
            // Created before the check, so that a push after the check wakes it.
            let pushed = log.pushed.notified();
            if let Poll::Ready(next) = self.try_next() {
                return next;
            }
            pushed.await;
        }
    }

    /// Returns the next batch if there is one; `Ready(None)` if the reader has fallen behind.
    fn try_next(&mut self) -> Poll<Option<Arc<EventBatch>>> {
        let mut contents = self.log.contents();
        let Some(position) = contents.position(self.next) else {
            return Poll::Ready(None);
        };
        let Some(entry) = contents.entries.get_mut(position) else {
            return Poll::Pending;
        };
        entry.unread -= 1;
        let batch = Arc::clone(&entry.batch);
        contents.drop_read();
        self.next += 1;
        Poll::Ready(Some(batch))
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        let mut contents = self.log.contents();
        contents.readers -= 1;
        let position = contents.position(self.next).unwrap_or_default();
        for entry in contents.entries.iter_mut().skip(position) {
            entry.unread -= 1;
        }
        contents.drop_read();
    }
}

#[cfg(test)]
mod tests {
    use zk_core::NodePath;
    use zk_core::Stat;

    use super::*;
    use crate::node::Node;

    fn batch(bytes: usize) -> EventBatch {
        let path = NodePath::parse("/a").unwrap();
        let node = Node::new(path.clone(), Stat::zeroed(), Some(vec![0; bytes]));
        EventBatch {
            events: vec![Event::Created(node)],
            snapshot: Snapshot::empty_at(path),
        }
    }

    fn kept(log: &EventLog) -> (usize, bool) {
        let contents = log.contents();
        (contents.entries.len(), contents.bytes > 0)
    }

    #[test]
    fn a_log_without_a_reader_takes_no_memory() {
        let log = EventLog::new(1024, 1 << 20);
        assert_eq!(log.contents().entries.capacity(), 0);
        for _ in 0..10 {
            log.push(batch(1000));
        }
        assert_eq!(
            (kept(&log), log.contents().entries.capacity()),
            ((0, false), 0)
        );
    }

    #[tokio::test]
    async fn a_batch_is_kept_until_all_readers_have_read_it() {
        let log = EventLog::new(1024, 1 << 20);
        let (mut one, mut other) = (log.subscribe(), log.subscribe());
        for _ in 0..3 {
            log.push(batch(1000));
        }
        for _ in 0..3 {
            assert!(one.next().await.is_some());
        }
        assert_eq!(kept(&log).0, 3);
        assert!(other.next().await.is_some());
        assert_eq!(kept(&log).0, 2);
        let late = log.subscribe();
        drop(other);
        assert_eq!(kept(&log), (0, false));
        log.push(batch(1000));
        assert!(one.next().await.is_some());
        assert_eq!(kept(&log).0, 1);
        drop(late);
        assert_eq!(kept(&log), (0, false));
    }

    #[tokio::test]
    async fn the_log_stays_within_its_bounds() {
        let log = EventLog::new(8, 1 << 20);
        let (mut forgotten, mut quick) = (log.subscribe(), log.subscribe());
        for _ in 0..100 {
            log.push(batch(1000));
            assert!(quick.next().await.is_some());
        }
        assert_eq!(kept(&log).0, 8);
        for _ in 0..100 {
            log.push(batch(300_000));
            assert!(quick.next().await.is_some());
            assert!(log.contents().bytes <= 1 << 20);
        }
        assert_eq!(kept(&log).0, 3);
        assert!(forgotten.next().await.is_none());
        drop((forgotten, quick));
        assert_eq!(kept(&log), (0, false));
    }
}
