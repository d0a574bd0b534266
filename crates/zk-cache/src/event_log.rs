//! The event batches that some consumer has not read yet, bounded in number and bytes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tokio::sync::Notify;

use crate::event::Event;
use crate::snapshot::Snapshot;

/// Passes each batch to all consumers of a cache.
///
/// A batch is kept until all consumers have read it. A consumer with more unread batches than the bounds allow has fallen
/// behind: it loses them. All queues end with the newest batch, so that the bounds hold for all of them together.
#[derive(Debug)]
pub(crate) struct EventLog {
    readers: Mutex<Vec<Weak<ReaderQueue>>>,
    max_batches: usize,
    max_bytes: usize,
}

/// The batches that one consumer has not read yet.
#[derive(Debug, Default)]
struct ReaderQueue {
    unread: Mutex<UnreadBatches>,
    pushed: Notify,
}

#[derive(Debug, Default)]
struct UnreadBatches {
    /// Each with its memory footprint.
    batches: VecDeque<(Arc<EventBatch>, usize)>,
    bytes: usize,
    has_fallen_behind: bool,
}

/// The events between two consecutive snapshots.
#[derive(Debug)]
pub(crate) struct EventBatch {
    pub(crate) events: Vec<Event>,
    /// The snapshot after the events.
    pub(crate) snapshot: Snapshot,
}

/// One consumer of the log.
#[derive(Debug)]
pub(crate) struct LogReader(Arc<ReaderQueue>);

impl EventLog {
    pub(crate) const fn new(max_batches: usize, max_bytes: usize) -> Self {
        Self {
            readers: Mutex::new(Vec::new()),
            max_batches,
            max_bytes,
        }
    }

    /// Returns a reader that starts at the next batch.
    pub(crate) fn subscribe(&self) -> LogReader {
        let queue = Arc::default();
        let mut readers = lock(&self.readers);
        if readers.len() == readers.capacity() {
            // A quiet cache pushes nothing for a long time. Room for as many again makes this rare.
            readers.retain(|reader| reader.strong_count() > 0);
            let live = readers.len();
            readers.reserve(live);
        }
        readers.push(Arc::downgrade(&queue));
        LogReader(queue)
    }

    pub(crate) fn push(&self, batch: EventBatch) {
        let bytes = batch.bytes();
        let batch = Arc::new(batch);
        lock(&self.readers).retain(|reader| {
            let Some(queue) = reader.upgrade() else {
                return false;
            };
            let mut unread = lock(&queue.unread);
            if !unread.has_fallen_behind {
                unread.batches.push_back((Arc::clone(&batch), bytes));
                unread.bytes += bytes;
                if unread.batches.len() > self.max_batches || unread.bytes > self.max_bytes {
                    *unread = UnreadBatches {
                        has_fallen_behind: true,
                        ..UnreadBatches::default()
                    };
                }
            }
            drop(unread);
            queue.pushed.notify_one();
            true
        });
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
        loop {
            {
                let mut unread = lock(&self.0.unread);
                if unread.has_fallen_behind {
                    return None;
                }
                if let Some((batch, bytes)) = unread.batches.pop_front() {
                    unread.bytes -= bytes;
                    if unread.batches.is_empty() {
                        // Frees the capacity that a burst needed.
                        unread.batches = VecDeque::new();
                    }
                    return Some(batch);
                }
            }
            // A push since the check has left a permit.
            self.0.pushed.notified().await;
        }
    }
}

/// Locks contents that are consistent whenever the lock is free, also after a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use zk_core::{NodePath, Stat};

    use super::*;
    use crate::node::Node;

    fn batch(bytes: usize) -> EventBatch {
        let path = NodePath::parse("/a").unwrap();
        let node = Node::new(path.as_str(), &Stat::default(), Some(&vec![0; bytes]));
        EventBatch {
            events: vec![Event::Created(node)],
            snapshot: Snapshot::empty_at(path),
        }
    }

    /// Returns how many batches a reader has not read, and their bytes.
    fn unread(reader: &LogReader) -> (usize, usize) {
        let unread = lock(&reader.0.unread);
        (unread.batches.len(), unread.bytes)
    }

    #[test]
    fn a_log_without_a_reader_takes_no_memory() {
        let log = EventLog::new(1024, 1 << 20);
        drop(log.subscribe());
        for _ in 0..10 {
            log.push(batch(1000));
        }
        assert!(lock(&log.readers).is_empty());
    }

    #[test]
    fn dropped_readers_are_forgotten_without_a_push() {
        let log = EventLog::new(1024, 1 << 20);
        let mut kept = Vec::new();
        for round in 0..10_000 {
            drop(log.subscribe());
            if round % 100 == 0 {
                kept.push(log.subscribe());
            }
        }
        let readers = lock(&log.readers);
        let live = readers.iter().filter(|reader| reader.strong_count() > 0);
        assert_eq!(live.count(), kept.len());
        let capacity = readers.capacity();
        assert!(capacity <= 4 * kept.len(), "{capacity}");
    }

    #[tokio::test]
    async fn a_batch_is_kept_until_all_readers_have_read_it() {
        let log = EventLog::new(1024, 1 << 20);
        let (mut one, mut other) = (log.subscribe(), log.subscribe());
        for _ in 0..3 {
            log.push(batch(1000));
        }
        let mut read = Vec::new();
        for _ in 0..3 {
            read.push(Arc::downgrade(&one.next().await.unwrap()));
        }
        let kept = |read: &[Weak<EventBatch>]| {
            let all = read.iter();
            all.filter(|batch| batch.strong_count() > 0).count()
        };
        assert_eq!((kept(&read), unread(&one)), (3, (0, 0)));
        assert!(other.next().await.is_some());
        assert_eq!(kept(&read), 2);
        let late = log.subscribe();
        drop(other);
        assert_eq!(kept(&read), 0);
        log.push(batch(1000));
        let last = Arc::downgrade(&one.next().await.unwrap());
        assert_eq!(last.strong_count(), 1);
        drop(late);
        assert_eq!(last.strong_count(), 0);
        let queue = lock(&one.0.unread);
        assert_eq!(queue.batches.capacity(), 0);
    }

    #[tokio::test]
    async fn the_log_stays_within_its_bounds() {
        for (bytes, fit) in [(1000, 8), (300_000, 3)] {
            let log = EventLog::new(8, 1 << 20);
            let (mut forgotten, mut quick) = (log.subscribe(), log.subscribe());
            for pushed in 1..=100 {
                log.push(batch(bytes));
                assert!(quick.next().await.is_some());
                let (count, kept) = unread(&forgotten);
                assert_eq!(count, if pushed > fit { 0 } else { pushed });
                assert!(kept <= 1 << 20);
            }
            assert!(forgotten.next().await.is_none());
        }
    }
}
