//! Reports what happens to the guards of a lock, as a stream of events.

use std::sync::{Arc, OnceLock};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use zk_core::NodePath;

use crate::error::LockLoss;
use crate::fencing_token::FencingToken;
use crate::held::HeldLock;
use crate::held_node::HeldNode;

/// An event of a node through which a guard holds a lock. A guard of several leases has events for each.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockEvent {
    /// The lock was acquired.
    Acquired {
        /// The lock's node.
        path: NodePath,
        /// The node's token, which identifies the guard among all others.
        fencing_token: FencingToken,
    },
    /// The lock was lost, or is no longer known to be held.
    ///
    /// [`LockLoss::SessionLeaseExpired`] is followed by another event of the guard: [`Regained`](Self::Regained), a
    /// final loss or the release. Any other loss is the guard's last event.
    Lost {
        /// The lock's node.
        path: NodePath,
        /// The node's token.
        fencing_token: FencingToken,
        /// Why.
        loss: LockLoss,
    },
    /// The session survived: the lock was held all the time.
    Regained {
        /// The lock's node.
        path: NodePath,
        /// The node's token.
        fencing_token: FencingToken,
    },
    /// The guard was released or dropped. Its node may still exist; [`Guard::release`](crate::Guard::release) returns
    /// whether it is deleted.
    Released {
        /// The lock's node.
        path: NodePath,
        /// The node's token.
        fencing_token: FencingToken,
    },
    /// The consumer was too slow, and events were discarded.
    Missed {
        /// How many.
        count: u64,
    },
}

/// The events of a lock's guards, in order; created by [`FairLock::events`](crate::FairLock::events).
///
/// Events only inform: one may be read long after it happened. To stop work when a lock is lost, use
/// [`HeldLock::lost`], which checks at each poll.
/// A slow consumer delays nothing. It may lag 64 events behind; [`LockEvent::Missed`] counts the events it lost beyond
/// that.
///
/// # Dropping
///
/// Ends the subscription. The guards are not affected.
#[derive(Debug)]
pub struct LockEvents {
    receiver: broadcast::Receiver<LockEvent>,
}

impl LockEvents {
    /// Waits for the next event; `None` once all handles and guards of the lock are gone.
    pub async fn next(&mut self) -> Option<LockEvent> {
        match self.receiver.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(count)) => Some(LockEvent::Missed { count }),
            Err(RecvError::Closed) => None,
        }
    }
}

/// Sends the events of a lock's guards, once there has been a subscriber. Clones share the channel.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notifier(Arc<OnceLock<broadcast::Sender<LockEvent>>>);

impl Notifier {
    pub(crate) fn subscribe(&self) -> LockEvents {
        let sender = self
            .0
            .get_or_init(|| broadcast::Sender::new(CHANNEL_CAPACITY));
        LockEvents {
            receiver: sender.subscribe(),
        }
    }

    /// Sends that a lock was acquired, and from now on all events of its guard, if there is a subscriber.
    pub(crate) fn acquired(&self, guard: &HeldLock) {
        let sender = self.0.get().filter(|sender| sender.receiver_count() > 0);
        let Some(sender) = sender else { return };
        for node in guard.nodes() {
            let (path, fencing_token) = (node.path.clone(), node.token);
            // The subscriber may be gone by now, here and below.
            drop(sender.send(LockEvent::Acquired {
                path,
                fencing_token,
            }));
            // The task ends with the guard.
            let forwarding = forward_events(Arc::clone(node), sender.clone());
            drop(node.session.spawn(forwarding));
        }
    }
}

async fn forward_events(node: Arc<HeldNode>, sender: broadcast::Sender<LockEvent>) {
    loop {
        let (path, fencing_token) = (node.path.clone(), node.token);
        let loss = node.lost().await;
        drop(sender.send(match loss {
            LockLoss::Released => LockEvent::Released {
                path,
                fencing_token,
            },
            loss => LockEvent::Lost {
                path,
                fencing_token,
                loss,
            },
        }));
        if loss.is_final() {
            return;
        }
        // Ends with a new proof, or with the session, which the next iteration reports.
        tokio::select! {
            biased;
            _ = node.lost_for_good() => {}
            () = wait_until_valid(&node) => {
                let path = node.path.clone();
                drop(sender.send(LockEvent::Regained { path, fencing_token }));
            }
        }
    }
}

/// Waits until the session is proved alive again.
async fn wait_until_valid(held: &HeldNode) {
    while !held.session_lease.is_valid() {
        let timeout = held.session.session_timeout();
        if let Err(error) = held.session_lease.renewed(timeout).await {
            tracing::debug!(path = %held.path, %error, "retrying to prove the session of a lock alive");
            // The caller notices in parallel if the session is over.
            held.session.pause(timeout / 10).await;
        }
    }
}

/// How many events a consumer may lag behind.
const CHANNEL_CAPACITY: usize = 64;
