//! Public types are `Send` and `Sync`, and public futures are `Send`.

use zk_cache::{
    CacheEnd, CacheOptions, ChildrenCache, DecodedCache, DecodedSnapshot, Event, Events, Node,
    NodeCache, NodeReader, Snapshot, TreeCache,
};

#[test]
fn everything_is_send_and_sync() {
    fn is_shared<T: Send + Sync + Unpin + 'static>() {}
    fn is_sent<T: Send>(_: &T) {}
    is_shared::<CacheOptions>();
    is_shared::<ChildrenCache>();
    is_shared::<CacheEnd>();
    is_shared::<DecodedCache<String>>();
    is_shared::<DecodedSnapshot<String>>();
    is_shared::<Event>();
    is_shared::<Events>();
    is_shared::<Node>();
    is_shared::<NodeCache>();
    is_shared::<NodeReader>();
    is_shared::<Snapshot>();
    is_shared::<TreeCache>();
    let _ = |cache: &TreeCache, mut events: Events| {
        is_sent(&cache.synchronized());
        is_sent(&cache.wait_for(|_| true));
        is_sent(&cache.ended());
        is_sent(&events.next());
        is_sent(&events.into_stream());
    };
}
