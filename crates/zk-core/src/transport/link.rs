//! The link of a session: its states, the newest of which is held here, and the receivers of its changes.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use zk_wire::SessionEnd;

/// The link of a session to the ensemble at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "transports make these")]
pub struct Link {
    /// What the link can be used for.
    pub phase: Phase,
    /// How often it has broken so far. It counts breaks that were repaired before a receiver read the link.
    pub breaks: u64,
}

/// What a link can be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "transports make these")]
pub enum Phase {
    /// Requests are sent.
    Up,
    /// Requests are sent to a server that is cut off from the quorum and serves reads only.
    ReadOnly,
    /// There is no connection; the client is looking for one.
    Down,
    /// The session is over. This is the last phase.
    Over(SessionEnd),
}

/// The sender of a session's [`Link`], owned by its transport.
///
/// Waiting receivers are woken in the order in which they began to wait.
/// Tokio's `watch` channel wakes them in a random order, so each run of a simulation would send another request first
/// after a break.
///
/// # Dropping
///
/// Notifies the [`LinkReceiver`]s that no more changes follow.
#[derive(Debug)]
pub struct LinkSender(Arc<Shared>);

/// Receives the changes of a [`Link`].
#[derive(Debug)]
pub struct LinkReceiver {
    shared: Arc<Shared>,
    /// How many changes it has seen.
    seen: u64,
}

/// The [`LinkSender`] was dropped, so no more changes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the sender of the link was dropped")]
#[non_exhaustive]
pub struct LinkGone;

#[derive(Debug)]
struct Shared {
    state: Mutex<LinkState>,
    /// The newest link and whether the sender is gone, for reads without the lock. Every request reads it.
    newest: AtomicU64,
}

#[derive(Debug)]
struct LinkState {
    link: Link,
    changes: u64,
    is_gone: bool,
    receivers: usize,
    /// The wakers of waiting receivers, in the order in which they began to wait.
    waiting: BTreeMap<u64, Waker>,
    last_number: u64,
    /// The waker of the task that waits until there is no receiver.
    abandoned: Option<Waker>,
}

impl LinkSender {
    /// Creates a sender whose current link is `link`.
    pub fn new(link: Link) -> Self {
        #[cfg(feature = "metrics")]
        crate::metrics::link_changed(None, Some(link));
        Self(Arc::new(Shared {
            newest: AtomicU64::new(pack(link, false)),
            state: Mutex::new(LinkState {
                link,
                changes: 0,
                is_gone: false,
                receivers: 0,
                waiting: BTreeMap::new(),
                last_number: 0,
                abandoned: None,
            }),
        }))
    }

    /// Returns a receiver that has seen the current link.
    pub fn subscribe(&self) -> LinkReceiver {
        LinkReceiver::new(&self.0)
    }

    /// Returns the newest link.
    pub fn now(&self) -> Link {
        self.0.newest().0
    }

    /// Replaces the link and wakes every receiver, unless the session is already over.
    pub fn send(&self, link: Link) {
        self.0.replace(|_| link);
    }

    /// Waits until there is no receiver. Only one task may wait at a time.
    pub(crate) async fn abandoned(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock();
            if state.receivers == 0 {
                return Poll::Ready(());
            }
            state.abandoned = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for LinkSender {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.0.lock();
            state.is_gone = true;
            self.0.publish(&state);
            #[cfg(feature = "metrics")]
            crate::metrics::link_changed(Some(state.link), None);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_values().for_each(Waker::wake);
    }
}

impl LinkReceiver {
    fn new(shared: &Arc<Shared>) -> Self {
        let mut state = shared.lock();
        state.receivers += 1;
        Self {
            shared: Arc::clone(shared),
            seen: state.changes,
        }
    }

    /// Returns the newest link, whether or not it was seen before.
    pub fn now(&self) -> Link {
        self.shared.newest().0
    }

    /// Returns the newest link and marks it as seen.
    pub fn seen(&mut self) -> Link {
        let state = self.shared.lock();
        self.seen = state.changes;
        state.link
    }

    /// Records that a reply reported the end of the session, unless the session is already over.
    ///
    /// The sender may learn of the end later. All receivers see it at once.
    pub(crate) fn end(&self, end: SessionEnd) {
        let phase = Phase::Over(end);
        self.shared.replace(|link| Link { phase, ..link });
    }

    /// Returns whether the sender was dropped.
    pub fn is_gone(&self) -> bool {
        self.shared.newest().1
    }

    /// Waits for an unseen change and marks it as seen.
    ///
    /// # Errors
    ///
    /// [`LinkGone`] if the sender was dropped and every change was seen.
    pub async fn changed(&mut self) -> Result<(), LinkGone> {
        let seen = self.seen;
        self.wait(|state| state.changes != seen).await?;
        self.seen();
        Ok(())
    }

    /// Waits until `condition` holds for the newest link, and returns that link.
    ///
    /// # Errors
    ///
    /// [`LinkGone`] if the sender was dropped and `condition` does not hold for the last link.
    ///
    /// # Cancel safety
    ///
    /// Safe. Links that were replaced before this checked them are skipped.
    pub async fn wait_for(
        &mut self,
        mut condition: impl FnMut(&Link) -> bool,
    ) -> Result<Link, LinkGone> {
        self.wait(|state| condition(&state.link)).await
    }

    async fn wait(&self, mut is_met: impl FnMut(&LinkState) -> bool) -> Result<Link, LinkGone> {
        let mut registration = WaitRegistration {
            shared: &self.shared,
            number: None,
        };
        poll_fn(|context| registration.poll(context, &mut is_met)).await
    }
}

impl Clone for LinkReceiver {
    fn clone(&self) -> Self {
        let mut clone = Self::new(&self.shared);
        clone.seen = self.seen;
        clone
    }
}

impl Drop for LinkReceiver {
    fn drop(&mut self) {
        let abandoned = {
            let mut state = self.shared.lock();
            state.receivers -= 1;
            if state.receivers == 0 {
                state.abandoned.take()
            } else {
                None
            }
        };
        if let Some(abandoned) = abandoned {
            abandoned.wake();
        }
    }
}

/// The position of a waiting receiver in the wake order. Dropping it gives the position up.
struct WaitRegistration<'a> {
    shared: &'a Shared,
    number: Option<u64>,
}

impl WaitRegistration<'_> {
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        is_met: &mut impl FnMut(&LinkState) -> bool,
    ) -> Poll<Result<Link, LinkGone>> {
        let mut state = self.shared.lock();
        if is_met(&state) {
            return Poll::Ready(Ok(state.link));
        }
        if state.is_gone {
            return Poll::Ready(Err(LinkGone));
        }
        let number = *self.number.get_or_insert_with(|| {
            state.last_number += 1;
            state.last_number
        });
        state.waiting.insert(number, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for WaitRegistration<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let waker = self.shared.lock().waiting.remove(&number);
            drop(waker);
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the newest link, and whether the sender is gone.
    fn newest(&self) -> (Link, bool) {
        unpack(self.newest.load(Ordering::SeqCst))
    }

    fn publish(&self, state: &LinkState) {
        let newest = pack(state.link, state.is_gone);
        self.newest.store(newest, Ordering::SeqCst);
    }

    /// Replaces a link that is not over, and wakes every receiver.
    fn replace(&self, new: impl FnOnce(Link) -> Link) {
        let waiting = {
            let mut state = self.lock();
            if matches!(state.link.phase, Phase::Over(_)) {
                return;
            }
            let before = state.link;
            state.link = new(before);
            // A session whose sender is gone is counted no more.
            #[cfg(feature = "metrics")]
            if !state.is_gone {
                crate::metrics::link_changed(Some(before), Some(state.link));
            }
            state.changes += 1;
            self.publish(&state);
            std::mem::take(&mut state.waiting)
        };
        waiting.into_values().for_each(Waker::wake);
    }
}

/// Puts a link into a number: the breaks above four bits, one of which is whether the sender is gone.
fn pack(link: Link, is_gone: bool) -> u64 {
    let phase = PHASES.iter().position(|phase| *phase == link.phase);
    let phase = phase.and_then(|at| u64::try_from(at).ok()).unwrap_or(0);
    link.breaks << 4 | u64::from(is_gone) << 3 | phase
}

fn unpack(packed: u64) -> (Link, bool) {
    let phase = usize::try_from(packed & 7)
        .ok()
        .and_then(|at| PHASES.get(at));
    let link = Link {
        phase: phase.copied().unwrap_or(Phase::Down),
        breaks: packed >> 4,
    };
    (link, packed & 8 != 0)
}

const PHASES: [Phase; 8] = [
    Phase::Down,
    Phase::Up,
    Phase::ReadOnly,
    Phase::Over(SessionEnd::Closed),
    Phase::Over(SessionEnd::Expired),
    Phase::Over(SessionEnd::AuthFailed),
    Phase::Over(SessionEnd::AuthRequired),
    Phase::Over(SessionEnd::RuntimeEnded),
];

#[cfg(test)]
mod tests {
    use super::*;

    const DOWN: Link = Link {
        phase: Phase::Down,
        breaks: 1,
    };
    const UP: Link = Link {
        phase: Phase::Up,
        breaks: 1,
    };

    /// Notes its number when it is woken.
    struct Note {
        number: usize,
        woken: Arc<Mutex<Vec<usize>>>,
    }

    impl std::task::Wake for Note {
        fn wake(self: Arc<Self>) {
            self.woken.lock().unwrap().push(self.number);
        }
    }

    #[test]
    fn receivers_are_woken_in_the_order_of_their_first_poll() {
        let sender = LinkSender::new(DOWN);
        let woken = Arc::default();
        let receivers: Vec<_> = (0..20).map(|_| sender.subscribe()).collect();
        let mut waiting = Vec::new();
        for (number, receiver) in receivers.iter().enumerate() {
            let mut receiver = receiver.clone();
            let mut wait =
                Box::pin(async move { receiver.wait_for(|link| link.phase == Phase::Up).await });
            let woken = Arc::clone(&woken);
            let waker = Waker::from(Arc::new(Note { number, woken }));
            let mut context = Context::from_waker(&waker);
            // Polling again changes no position.
            for _ in 0..=number % 2 {
                assert!(wait.as_mut().poll(&mut context).is_pending());
            }
            waiting.push(wait);
        }
        drop(waiting.remove(7));
        sender.send(UP);
        let expected: Vec<_> = (0..20).filter(|number| *number != 7).collect();
        assert_eq!(*woken.lock().unwrap(), expected);
        drop(waiting);
        assert!(sender.0.lock().waiting.is_empty());
    }

    #[tokio::test]
    async fn end_of_sender_and_last_receiver_is_reported() {
        let sender = LinkSender::new(DOWN);
        let (mut one, other) = (sender.subscribe(), sender.subscribe());
        assert_eq!(
            (one.seen(), other.now(), one.is_gone()),
            (DOWN, DOWN, false)
        );
        let (changed, ()) = tokio::join!(one.changed(), async { sender.send(UP) });
        assert_eq!((changed, one.now()), (Ok(()), UP));
        drop(other);
        let ((), ()) = tokio::join!(sender.abandoned(), async { drop(one) });
        let mut last = sender.subscribe();
        let (gone, ()) = tokio::join!(last.changed(), async { drop(sender) });
        assert_eq!(gone, Err(LinkGone));
        assert!(last.is_gone());
        assert_eq!(last.wait_for(|link| *link == UP).await, Ok(UP));
    }

    #[test]
    fn every_link_is_read_as_it_was_sent() {
        for phase in PHASES {
            for is_gone in [false, true] {
                let breaks = (1 << 60) - 1;
                let link = Link { phase, breaks };
                assert_eq!(unpack(pack(link, is_gone)), (link, is_gone));
            }
        }
    }

    #[test]
    fn link_that_is_over_stays_over() {
        let sender = LinkSender::new(DOWN);
        let receiver = sender.subscribe();
        receiver.end(SessionEnd::Expired);
        let over = Link {
            phase: Phase::Over(SessionEnd::Expired),
            ..DOWN
        };
        sender.send(UP);
        receiver.end(SessionEnd::Closed);
        assert_eq!((sender.now(), receiver.now()), (over, over));
    }
}
