//! Converts the client's watchers.

use zk_core::NodePath;
use zk_core::transport::{
    LinkGone, LinkReceiver, Phase, WatchEvent, WatchNotification, Watched, Watching,
};
use zookeeper_client as zk;

use crate::watch_quota::Quota;

/// Converts a one-shot watcher of the client. It survives reconnects, because the client sets the watch again.
pub(crate) fn watched(
    watcher: zk::OneshotWatcher,
    mut link: LinkReceiver,
    quota: Option<Quota>,
) -> Watched {
    Box::pin(async move {
        let _quota = quota;
        match watcher.changed().await.event_type {
            zk::EventType::NodeCreated => WatchEvent::Created,
            zk::EventType::NodeDeleted => WatchEvent::Deleted,
            zk::EventType::NodeDataChanged => WatchEvent::DataChanged,
            zk::EventType::NodeChildrenChanged => WatchEvent::ChildrenChanged,
            zk::EventType::Session => {
                // The client notifies its watchers before it updates its state. Wait for the state, so that a caller
                // that receives `SessionLost` sees a lost session.
                let over = link.wait_for(|link| matches!(link.phase, Phase::Over(_)));
                // A dropped link sender also means that the session is over.
                let _: Result<_, LinkGone> = over.await;
                WatchEvent::SessionLost
            }
        }
    })
}

/// Converts a persistent watcher of the client. It ends with the link: the client does not set the watch again, but
/// would forward the events of another watch on the same node.
pub(crate) fn watching(watcher: zk::PersistentWatcher, quota: Option<Quota>) -> Watching {
    Watching::new(futures_util::stream::unfold(
        Some((watcher, quota)),
        |open| async move {
            let (mut watcher, quota) = open?;
            match notice(&watcher.changed().await) {
                WatchNotification::LinkLost => Some((WatchNotification::LinkLost, None)),
                notice @ WatchNotification::Changed { .. } => {
                    Some((notice, Some((watcher, quota))))
                }
            }
        },
    ))
}

fn notice(event: &zk::WatchedEvent) -> WatchNotification {
    let kind = match event.event_type {
        zk::EventType::NodeCreated => WatchEvent::Created,
        zk::EventType::NodeDeleted => WatchEvent::Deleted,
        zk::EventType::NodeDataChanged => WatchEvent::DataChanged,
        zk::EventType::NodeChildrenChanged => WatchEvent::ChildrenChanged,
        // The client reports a session event only when the connection breaks, or later.
        zk::EventType::Session => return WatchNotification::LinkLost,
    };
    match NodePath::parse(&event.path) {
        Ok(path) => WatchNotification::Changed {
            path,
            event: kind,
            zxid: (event.zxid >= 0).then_some(event.zxid),
        },
        // An invalid path: some change cannot be reported, as after a lost link.
        Err(_) => WatchNotification::LinkLost,
    }
}
