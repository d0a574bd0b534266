//! The task that follows the instances of a service.

use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::time::Instant;
use zk_cache::{CacheEnd, CacheState, ChildrenCache, Event, Events};

use crate::decoder::Decoder;
use crate::shared_list::{SharedList, Writer};

/// Publishes the lists of a decoder, and its end when dropped. It publishes nothing once a later publisher has started.
pub(crate) struct Publisher<P: 'static> {
    decoder: Decoder<P>,
    shared: Arc<SharedList<P>>,
    stale_since: Option<Instant>,
    generation: u64,
}

impl<P: 'static> Publisher<P> {
    /// Takes over the last list of an earlier session, if there was one.
    pub(crate) fn begin(decoder: Decoder<P>, shared: &Arc<SharedList<P>>) -> Self {
        let mut writer = shared.writer();
        writer.generation += 1;
        let last = shared.newest_as_stored();
        let mut publisher = Self {
            decoder: decoder.succeeding(&last.list),
            shared: Arc::clone(shared),
            stale_since: last.stale_since,
            generation: writer.generation,
        };
        publisher.store(&mut writer);
        publisher
    }

    fn publish(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut writer = shared.writer();
        if writer.generation == self.generation {
            self.store(&mut writer);
        }
    }

    fn store(&mut self, writer: &mut Writer) {
        let list = self.decoder.list();
        self.stale_since = match list.state() {
            CacheState::Stale | CacheState::Ended => {
                Some(self.stale_since.unwrap_or_else(Instant::now))
            }
            _ => None,
        };
        self.shared.publish(writer, list, self.stale_since);
    }
}

impl<P: 'static> Drop for Publisher<P> {
    fn drop(&mut self) {
        if !self.decoder.has_ended() {
            self.decoder.apply(&Event::Ended(CacheEnd::Stopped));
            self.publish();
        }
    }
}

/// Keeps a shared list up to date until the cache has ended.
///
/// Keeps the cache alive until then.
pub(crate) async fn follow<P: 'static>(
    cache: ChildrenCache,
    mut events: Events,
    mut publisher: Publisher<P>,
) {
    let mut missed = Vec::new();
    while let Some(first) = events.next_batch().await {
        let mut next = Some(first);
        // Events that arrived together are published together.
        let (mut together, mut is_news) = (0, false);
        while let Some((round, snapshot)) = next {
            together += round.len().max(1);
            is_news |= !round.is_empty();
            for event in &round {
                publisher.decoder.apply(event);
            }
            // Checked for rounds without events as well: no event reports that a gap has closed.
            let gaps = snapshot
                .partial_reads()
                .map(|(path, gap)| (path.clone(), gap));
            let gaps: Vec<_> = gaps.collect();
            if gaps != missed {
                publisher.decoder.apply_gaps(&gaps);
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

/// Bounds the events per published list, so that a large initial load is published in steps.
const MOST_TOGETHER: usize = 1024;
