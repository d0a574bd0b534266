//! Counts the publications of a value, so that readers notice a newer one without reading it.
//!
//! Pure: no I/O and no clock.

#[cfg(not(test))]
use std::sync::atomic::AtomicU64;
#[cfg(not(test))]
use std::sync::atomic::Ordering;

#[cfg(test)]
use loom::sync::atomic::AtomicU64;
#[cfg(test)]
use loom::sync::atomic::Ordering;

/// How often a value was published.
///
/// The publisher stores the value first and counts second. A reader reads the count first and the value second, so that
/// the value is at least as new as the count. As long as the count stays, no newer value was published.
#[derive(Debug)]
pub(crate) struct PublicationCount(AtomicU64);

impl PublicationCount {
    pub(crate) fn increment(&self) {
        // Release: a reader that reads the new count reads the value that was stored before, or a newer one.
        self.0.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

impl Default for PublicationCount {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

#[cfg(test)]
mod tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    #[test]
    fn a_reader_has_what_was_published_before_the_count_in_every_interleaving() {
        loom::model(|| {
            // Relaxed, because only the count may order the accesses to the value.
            let shared = Arc::new((AtomicU64::new(0), PublicationCount::default()));
            let publisher = Arc::clone(&shared);
            let publisher = thread::spawn(move || {
                for value in 1..=2 {
                    publisher.0.store(value, Ordering::Relaxed);
                    publisher.1.increment();
                }
            });
            let (mut count, mut value) = (0, 0);
            for _ in 0..2 {
                let newest = shared.1.get();
                if newest != count {
                    (count, value) = (newest, shared.0.load(Ordering::Relaxed));
                }
                assert!(
                    value >= count,
                    "{count} publications, but the value is {value}"
                );
            }
            publisher.join().unwrap();
            assert_eq!(shared.1.get(), 2);
        });
    }
}
