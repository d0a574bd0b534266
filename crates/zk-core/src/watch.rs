//! One-shot watches.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use crate::engine::claims::Claim;
use crate::engine::claims::Poke;
use crate::transport::WatchEvent;
use crate::transport::Watched;

/// A one-shot watch that a server has set; created by [`Get::watched`](crate::Get::watched) and its like.
///
/// It fires once, on the first change after the read that set it, whichever server the session is connected to then.
///
/// # Dropping
///
/// Dropping it before it fired takes it back in the background, at the cost of one round trip of the session.
pub struct Watch {
    watched: Option<Watched>,
    fired: Option<WatchEvent>,
    place: Box<Place>,
}

/// What a watch has at its node, as long as it is held.
#[derive(Debug)]
struct Place {
    poke: Option<Poke>,
    claim: Claim,
    _share: WatchQuota,
}

impl Watch {
    pub(crate) fn new(watched: Watched, reserved: Reserved, waits_for_children: bool) -> Self {
        let Reserved { share, mut claim } = reserved;
        Self {
            watched: Some(watched),
            fired: None,
            place: Box::new(Place {
                poke: claim.set(waits_for_children),
                claim,
                _share: share,
            }),
        }
    }

    /// Waits until the watch fires; later calls answer the same at once.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is missed.
    ///
    /// # Session loss
    ///
    /// Returned as [`WatchEvent::SessionLost`].
    pub async fn changed(&mut self) -> WatchEvent {
        if let Some(watched) = &mut self.watched {
            let poked = async {
                match &mut self.place.poke {
                    // It lives as long as the claim: this is no end of the sender.
                    Some(poke) => drop(poke.await),
                    None => std::future::pending().await,
                }
            };
            let event = tokio::select! {
                biased;
                event = watched => {
                    self.place.claim.fired();
                    event
                }
                () = poked => WatchEvent::ChildrenChanged,
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

/// What is reserved before a one-shot watch is asked for.
#[derive(Debug)]
pub(crate) struct Reserved {
    pub(crate) share: WatchQuota,
    pub(crate) claim: Claim,
}

/// A share of the bytes of paths that a session may have under watch.
///
/// When a session moves to another server, its client sets all its watches again; the client crate cannot do that for
/// more than 128 KiB of paths and would never connect again.
#[derive(Debug)]
pub(crate) struct WatchQuota {
    taken: Arc<AtomicUsize>,
    bytes: usize,
}

impl WatchQuota {
    /// Takes `bytes`, unless that would be too many.
    pub(crate) fn take(taken: &Arc<AtomicUsize>, bytes: usize) -> Result<Self, usize> {
        let before = taken.fetch_add(bytes, Ordering::SeqCst);
        let share = Self {
            taken: Arc::clone(taken),
            bytes,
        };
        if before + bytes <= MOST_WATCHED {
            Ok(share)
        } else {
            Err(before)
        }
    }
}

impl Drop for WatchQuota {
    fn drop(&mut self) {
        self.taken.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

pub(crate) const MOST_WATCHED: usize = 120 * 1024;
