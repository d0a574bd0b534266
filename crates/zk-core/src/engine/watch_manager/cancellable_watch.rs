//! A watch that can be dropped although it is one of many that are polled together.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::task::Context;
use std::task::Poll;
use std::task::Waker;

use futures_util::Stream;

use crate::path::NodePath;
use crate::transport::WatchNotification;
use crate::transport::Watching;

/// The end by which a watch is dropped.
pub(super) struct CancellableWatch(Arc<Mutex<CancellableState>>);

/// The end at which it is listened to: its path with each notice.
pub(super) struct Notifications {
    path: NodePath,
    state: Arc<Mutex<CancellableState>>,
}

struct CancellableState {
    watching: Option<Watching>,
    /// Whether it ended with its link. It is kept until it may be dropped.
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
    /// Drops the watch now: what is sent after this is sent after it was taken back.
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
