//! The task that follows the instances of a service.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use arc_swap::ArcSwap;
use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::time::Instant;
use zk_cache::CacheEnd;
use zk_cache::CacheState;
use zk_cache::ChildrenCache;
use zk_cache::Event;
use zk_cache::Events;

use crate::book::Book;
use crate::roster::Roster;

/// Where the newest roster is.
pub(crate) struct Board<P> {
    newest: ArcSwap<Newest<P>>,
    /// How many there were. Who waits for the next one waits for this.
    count: watch::Sender<u64>,
    /// The publisher that may publish: the one that began last. Held while one does.
    term: Mutex<u64>,
}

pub(crate) struct Newest<P> {
    pub(crate) roster: Roster<P>,
    /// Since when it is stale, if it is.
    pub(crate) stale_since: Option<Instant>,
}

impl<P> Board<P> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            newest: ArcSwap::from_pointee(Newest {
                roster: Roster::nothing(),
                stale_since: None,
            }),
            count: watch::Sender::new(0),
            term: Mutex::new(0),
        })
    }

    pub(crate) fn newest(&self) -> Arc<Newest<P>> {
        self.newest.load_full()
    }

    pub(crate) fn roster(&self) -> Roster<P> {
        self.newest.load().roster.clone()
    }

    fn term(&self) -> MutexGuard<'_, u64> {
        self.term.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what says when there is another one.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }
}

/// Publishes what a book says, and, however it is dropped, that it has ended; nothing any more once the next one has begun.
pub(crate) struct Publisher<P: 'static> {
    book: Book<P>,
    board: Arc<Board<P>>,
    stale_since: Option<Instant>,
    term: u64,
}

impl<P: 'static> Publisher<P> {
    /// Takes over from an earlier session, if there was one, with what that knew last.
    pub(crate) fn begin(book: Book<P>, board: &Arc<Board<P>>) -> Self {
        let mut term = board.term();
        *term += 1;
        let last = board.newest();
        let mut publisher = Self {
            book: book.succeeding(&last.roster),
            board: Arc::clone(board),
            stale_since: last.stale_since,
            term: *term,
        };
        publisher.store();
        publisher
    }

    fn publish(&mut self) {
        let board = Arc::clone(&self.board);
        let term = board.term();
        if *term == self.term {
            self.store();
        }
    }

    fn store(&mut self) {
        let roster = self.book.roster();
        self.stale_since = match roster.state() {
            CacheState::Stale | CacheState::Ended => {
                Some(self.stale_since.unwrap_or_else(Instant::now))
            }
            _ => None,
        };
        self.board.newest.store(Arc::new(Newest {
            roster,
            stale_since: self.stale_since,
        }));
        self.board.count.send_modify(|count| *count += 1);
    }
}

impl<P: 'static> Drop for Publisher<P> {
    fn drop(&mut self) {
        if !self.book.has_ended() {
            self.book.tell(&Event::Ended(CacheEnd::Stopped));
            self.publish();
        }
    }
}

/// Keeps a board up to date until the cache has ended.
///
/// The cache is held until then.
pub(crate) async fn follow<P: 'static>(
    cache: ChildrenCache,
    mut events: Events,
    mut publisher: Publisher<P>,
) {
    let mut missed = Vec::new();
    while let Some(first) = events.next_batch().await {
        let mut next = Some(first);
        // What has come together is published together.
        let (mut together, mut is_news) = (0, false);
        while let Some((round, snapshot)) = next {
            together += round.len().max(1);
            is_news |= !round.is_empty();
            for event in &round {
                publisher.book.tell(event);
            }
            // Also without an event: that something can be had again is told by none.
            let gaps = snapshot
                .partial_reads()
                .map(|(path, gap)| (path.clone(), gap));
            let gaps: Vec<_> = gaps.collect();
            if gaps != missed {
                publisher.book.miss(&gaps);
                missed = gaps;
                is_news = true;
            }
            next = if together < MOST_TOGETHER {
                events.next_batch().now_or_never().flatten()
            } else {
                None
            };
        }
        if is_news {
            publisher.publish();
        }
    }
    drop(cache);
}

/// A first load of many instances is published now and then.
const MOST_TOGETHER: usize = 1024;
