//! Public types are `Send` and `Sync`, and public futures are `Send`.

use zk_cache::*;
use zk_testkit::{assert_impl, assert_send_futures};

#[test]
fn everything_is_send_and_sync() {
    assert_impl! {
        Send + Sync + Unpin:
            CacheEnd, CacheOptions, ChildrenCache, DecodedCache<String>, DecodedSnapshot<String>, Event, Events,
            Node, NodeCache, NodeReader, Snapshot, TreeCache;
    }
    assert_send_futures! {
        (cache: TreeCache) => cache.synchronized(), cache.wait_for(|_| true), cache.ended();
        (events: Events) => events.next(), events.into_stream();
    }
}
