//! A watch that can be cancelled while it is polled together with others.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_util::Stream;
use zk_wire::NodePath;

use crate::transport::{WatchNotification, Watching};

/// The handle that cancels a watch.
pub(super) struct CancellableWatch(Arc<Mutex<CancellableState>>);

/// The stream of the watch's notifications, each with its path.
pub(super) struct Notifications {
    path: NodePath,
    state: Arc<Mutex<CancellableState>>,
}

struct CancellableState {
    watching: Option<Watching>,
    /// Whether it ended with its link. The watch is kept until it may be dropped.
    is_lost: bool,
    waker: Option<Waker>,
}

pub(super) fn open(path: NodePath, watching: Watching) -> (CancellableWatch, Notifications) {
    let state = Arc::new(Mutex::new(CancellableState {
        watching: Some(watching),
        is_lost: false,
        waker: None,
    }));
    let cancellable = CancellableWatch(Arc::clone(&state));
    (cancellable, Notifications { path, state })
}

impl CancellableWatch {
    /// Drops the watch now: the session sends later requests after the one that removes the watch.
    pub(super) fn close(self) {
        let (watching, waker) = {
            let mut state = lock(&self.0);
            (state.watching.take(), state.waker.take())
        };
        drop(watching);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Stream for Notifications {
    type Item = (NodePath, WatchNotification);

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = lock(&self.state);
        if state.is_lost {
            return Poll::Ready(None);
        }
        let Some(watching) = &mut state.watching else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(watching).poll_next(context);
        state.waker = Some(context.waker().clone());
        let notice = std::task::ready!(polled).unwrap_or(WatchNotification::LinkLost);
        state.is_lost = notice == WatchNotification::LinkLost;
        drop(state);
        Poll::Ready(Some((self.path.clone(), notice)))
    }
}

impl fmt::Debug for CancellableWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellableWatch").finish_non_exhaustive()
    }
}

fn lock(state: &Mutex<CancellableState>) -> MutexGuard<'_, CancellableState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
