//! One-shot watches.

use std::fmt;

use zk_wire::NodePath;

use crate::call::Call;
use crate::engine::one_shot_watches::{OneShotWatch, Wakeup};
use crate::transport::{WatchEvent, Watched};

/// A one-shot watch; created by [`Get::watched`](crate::Get::watched) and similar methods.
///
/// It fires once, on the first change after the read that set it, even if the session has moved to another server.
/// Servers do not report the changes of a node that the session may not read when they happen: a watch on a node whose
/// rules deny READ may not fire, nor one on a node that is created like that.
///
/// # Dropping
///
/// If it has not fired, the watch is removed in the background, which costs one round trip of the session.
pub struct Watch {
    watched: Option<Watched>,
    fired: Option<WatchEvent>,
    place: Box<Place>,
}

/// The registration of a watch, released on drop.
#[derive(Debug)]
struct Place {
    wakeup: Option<Wakeup>,
    one_shot: OneShotWatch,
}

impl Watch {
    /// Creates the watch that was set with a read.
    pub(crate) fn new(
        call: &Call,
        watched: Watched,
        mut one_shot: OneShotWatch,
        waits_for_children: bool,
    ) -> Self {
        call.engine().counters.watch_set();
        Self {
            watched: Some(watched),
            fired: None,
            place: Box::new(Place {
                wakeup: one_shot.set(waits_for_children),
                one_shot,
            }),
        }
    }

    /// Waits until the watch fires. Later calls return the same event at once.
    ///
    /// # Session loss
    ///
    /// Returned as [`WatchEvent::SessionLost`].
    pub async fn changed(&mut self) -> WatchEvent {
        if let Some(watched) = &mut self.watched {
            let woken = async {
                match &mut self.place.wakeup {
                    // The sender lives as long as the place, so this is not its end.
                    Some(wakeup) => drop(wakeup.await),
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                event = watched => {
                    self.place.one_shot.fired();
                    event
                }
                () = woken => WatchEvent::ChildrenChanged,
            };
            self.fired = Some(event);
            self.watched = None;
        }
        self.fired.unwrap_or(WatchEvent::SessionLost)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("fired", &self.fired)
            .finish_non_exhaustive()
    }
}

/// Registers a one-shot watch that is about to be requested.
pub(crate) fn register(call: &Call, path: &NodePath) -> OneShotWatch {
    let watches = call.session().watch_manager().one_shot_watches();
    watches.begin(call.wire(path))
}
