//! Telling those who want to know what becomes of the guards of a lock.

use std::sync::Arc;
use std::sync::OnceLock;

use futures_util::Stream;
use futures_util::stream;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use zk_core::NodePath;

use crate::error::Loss;
use crate::guard::FencingToken;
use crate::guard::Guard;
use crate::guard::Held;

/// Something that happened to a guard of a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockEvent {
    /// The lock was acquired.
    Acquired {
        /// The lock's node.
        path: NodePath,
        /// The guard's token, by which its events are told from those of others.
        token: FencingToken,
    },
    /// The lock was lost, or is no longer known to be held.
    ///
    /// After [`Loss::TrustLapsed`] comes another event: [`Regained`](Self::Regained), or the loss that is final, or the
    /// release. Any other loss is the last event of its guard.
    Lost {
        /// The lock's node.
        path: NodePath,
        /// The guard's token.
        token: FencingToken,
        /// Why.
        loss: Loss,
    },
    /// The session had survived: the lock was held all the time.
    Regained {
        /// The lock's node.
        path: NodePath,
        /// The guard's token.
        token: FencingToken,
    },
    /// The guard was released or dropped; whether its node is gone already, the release tells whoever made it.
    Released {
        /// The lock's node.
        path: NodePath,
        /// The guard's token.
        token: FencingToken,
    },
    /// So many events came while nobody took them that they are not kept.
    Missed {
        /// How many.
        count: u64,
    },
}

/// What happens to the guards of a lock, in order; made by [`FairLock::events`](crate::FairLock::events).
///
/// It tells, and keeps nobody from going on: an event may be read long after it happened.
/// Work under a lock is stopped by [`Guard::lost`], which sees a loss at each poll.
/// A consumer that is slow holds nobody up. It may be 64 events behind, and is told how many it missed.
///
/// # Dropping
///
/// Nothing more is told. Nobody notices.
#[derive(Debug)]
pub struct LockEvents {
    receiver: broadcast::Receiver<LockEvent>,
}

impl LockEvents {
    /// Waits for the next event; `None` once all handles and guards of the lock are gone.
    ///
    /// # Cancel safety
    ///
    /// Safe, nothing is missed.
    ///
    /// # Session loss
    ///
    /// Told as the loss of each guard.
    pub async fn next(&mut self) -> Option<LockEvent> {
        match self.receiver.recv().await {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(count)) => Some(LockEvent::Missed { count }),
            Err(RecvError::Closed) => None,
        }
    }

    /// Turns this into a stream of the same events.
    pub fn into_stream(self) -> impl Stream<Item = LockEvent> + Send + 'static {
        stream::unfold(self, async |mut events| {
            let event = events.next().await?;
            Some((event, events))
        })
    }
}

/// Tells of the guards of a lock, once somebody has asked for it. Clones tell the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notifier(Arc<OnceLock<broadcast::Sender<LockEvent>>>);

impl Notifier {
    pub(crate) fn subscribe(&self) -> LockEvents {
        let sender = self.0.get_or_init(|| broadcast::Sender::new(MOST_KEPT));
        LockEvents {
            receiver: sender.subscribe(),
        }
    }

    /// Tells that a lock was acquired, and from now on what becomes of it, if anybody listens.
    pub(crate) fn acquired(&self, guard: &Guard) {
        let sender = self.0.get().filter(|sender| sender.receiver_count() > 0);
        let Some(sender) = sender else { return };
        let (path, token) = (guard.path().clone(), guard.fencing_token());
        // Who listened may just have gone, here and below.
        drop(sender.send(LockEvent::Acquired { path, token }));
        // It ends with the guard.
        let held = guard.held();
        let following = follow(Arc::clone(held), sender.clone());
        drop(held.session.spawn(following));
    }
}

async fn follow(held: Arc<Held>, sender: broadcast::Sender<LockEvent>) {
    let (path, token) = (held.path.clone(), held.token);
    let tell = |event| drop(sender.send(event));
    loop {
        let (path, token) = (path.clone(), token);
        match held.lost().await {
            Loss::Released => {
                tell(LockEvent::Released { path, token });
                return;
            }
            Loss::TrustLapsed => {
                let loss = Loss::TrustLapsed;
                tell(LockEvent::Lost { path, token, loss });
            }
            loss => {
                tell(LockEvent::Lost { path, token, loss });
                return;
            }
        }
        // Ends with the proof, or with the session, which the next round tells.
        tokio::select! {
            biased;
            _ = held.ended() => {}
            _ = held.session.lost() => {}
            () = trusted_again(&held) => {
                let (path, token) = (held.path.clone(), held.token);
                tell(LockEvent::Regained { path, token });
            }
        }
    }
}

/// Waits until there is a proof again that the session lives.
async fn trusted_again(held: &Held) {
    while !held.trusted.is_trusted() {
        let patience = held.session.session_timeout();
        if let Err(error) = held.trusted.renewed(patience).await {
            tracing::debug!(path = %held.path, %error, "a lock is not known to be held yet");
            // A session that is over is noticed beside this.
            drop(tokio::time::timeout(patience / 10, held.session.lost()).await);
        }
    }
}

/// How many events a consumer may be behind.
const MOST_KEPT: usize = 64;
