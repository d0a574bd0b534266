//! Events as short texts, for the tests on simulated and on real servers.

use std::borrow::Cow;

use zk_cache::Event;

/// Formats an event without its stats.
pub(crate) fn in_words(event: &Event) -> String {
    let data = |node: &zk_cache::Node| {
        let text = node.data().map(String::from_utf8_lossy);
        text.map_or_else(|| "nothing".to_owned(), Cow::into_owned)
    };
    let text = |node: &zk_cache::Node| format!("{} {}", node.path(), data(node));
    match event {
        Event::Created(node) => format!("+ {}", text(node)),
        Event::Changed { old, new } => format!("~ {} -> {}", text(old), data(new)),
        Event::Deleted(node) => format!("- {}", text(node)),
        Event::Synchronized { .. } => "synchronized".to_owned(),
        Event::Stale => "stale".to_owned(),
        Event::Incomplete { path, reason } => format!("! {path}: {reason}"),
        Event::Ended(end) => format!("ended: {end}"),
        other => format!("{other:?}"),
    }
}
