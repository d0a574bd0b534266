//! Reports what happens to the guards of a lock, as a stream of events.

use std::sync::Arc;
use std::sync::OnceLock;

use futures_util::Stream;
use futures_util::stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use zk_core::NodePath;

use crate::error::LockLoss;
use crate::fencing_token::FencingToken;
use crate::guard::Guard;
use crate::held::Held;

/// An event of a lock's guard.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockEvent {
    /// The lock was acquired.
    Acquired {
        /// The lock's node.
        path: NodePath,
        /// The guard's token, which identifies the guard among all others.
        token: FencingToken,
    },
    /// The lock was lost, or is no longer known to be held.
    ///
    /// [`LockLoss::SessionLeaseExpired`] is followed by another event of the guard: [`Regained`](Self::Regained), a
    /// final loss or the release. Any other loss is the guard's last event.
    Lost {
        /// The lock's node.
        path: NodePath,
        /// The guard's token.
        token: FencingToken,
        /// Why.
        loss: LockLoss,
    },
    /// The session survived: the lock was held all the time.
    Regained {
        /// The lock's node.
        path: NodePath,
        /// The guard's token.
        token: FencingToken,
    },
    /// The guard was released or dropped. Its node may still exist; [`Guard::release`] returns whether it is deleted.
    Released {
        /// The lock's node.
        path: NodePath,
        /// The guard's token.
        token: FencingToken,
    },
    /// The consumer was too slow, and events were discarded.
    Missed {
        /// How many.
        count: u64,
    },
}

/// The events of a lock's guards, in order; created by [`FairLock::events`](crate::FairLock::events).
///
/// Events only inform: one may be read long after it happened. To stop work when a lock is lost, use [`Guard::lost`],
/// which checks at each poll.
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
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. No event is lost.
    pub async fn next(&mut self) -> Option<LockEvent> {
        match self.receiver.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(count)) => Some(LockEvent::Missed { count }),
            Err(RecvError::Closed) => None,
        }
    }

    /// Converts this into a [`Stream`] of the same events.
    pub fn into_stream(self) -> impl Stream<Item = LockEvent> + Send + 'static {
        stream::unfold(self, async |mut events| {
            let event = events.next().await?;
            Some((event, events))
        })
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
    pub(crate) fn acquired(&self, guard: &Guard) {
        let sender = self.0.get().filter(|sender| sender.receiver_count() > 0);
        let Some(sender) = sender else { return };
        let (path, token) = (guard.path().clone(), guard.fencing_token());
        // The subscriber may be gone by now, here and below.
        drop(sender.send(LockEvent::Acquired { path, token }));
        // The task ends with the guard.
        let held = guard.held();
        let forwarding = forward_events(Arc::clone(held), sender.clone());
        drop(held.session.spawn(forwarding));
    }
}

async fn forward_events(held: Arc<Held>, sender: broadcast::Sender<LockEvent>) {
    let (path, token) = (held.path.clone(), held.token);
    let send = |event| drop(sender.send(event));
    loop {
        let (path, token) = (path.clone(), token);
        match held.lost().await {
            LockLoss::Released => {
                send(LockEvent::Released { path, token });
                return;
            }
            LockLoss::SessionLeaseExpired => {
                let loss = LockLoss::SessionLeaseExpired;
                send(LockEvent::Lost { path, token, loss });
            }
            loss => {
                send(LockEvent::Lost { path, token, loss });
                return;
            }
        }
        // Ends with a new proof, or with the session, which the next iteration reports.
        tokio::select! {
            biased;
            _ = held.lost_for_good() => {}
            () = wait_until_valid(&held) => {
                let (path, token) = (held.path.clone(), held.token);
                send(LockEvent::Regained { path, token });
            }
        }
    }
}

/// Waits until the session is proved alive again.
async fn wait_until_valid(held: &Held) {
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
