//! The task that acquires the lock from the ensemble for all tasks of a cohort.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{self, Either};
use zk_core::WatchEvent;

use super::local_waiters::{AcquireMode, GrantState, LocalWaiters};
use crate::error::AcquireError;
use crate::guard::Guard;
use crate::progress::AcquireProgress;

/// Starts the task. It ends when no task of this process waits for the lock or holds it.
pub(super) fn spawn(waiters: &Arc<LocalWaiters>) {
    let waiters = Arc::clone(waiters);
    let running = RunningFlag(Some(Arc::clone(&waiters)));
    let session = waiters.lock.session().clone();
    session.spawn(async move {
        let mut running = running;
        run(&waiters).await;
        // Another acquirer may run by now.
        running.0 = None;
    });
}

/// Reports that the acquirer is gone if it ends early, which happens with the runtime of the session.
struct RunningFlag(Option<Arc<LocalWaiters>>);

impl Drop for RunningFlag {
    fn drop(&mut self) {
        if let Some(waiters) = &self.0 {
            waiters.acquirer_stopped();
        }
    }
}

async fn run(waiters: &Arc<LocalWaiters>) {
    while let Some(mode) = waiters.next_mode_or_stop() {
        let acquired = tokio::select! {
            biased;
            // The place in the queue is given up when its waiters are gone, or the first waiter wants another mode.
            () = mode_changed(waiters, mode) => continue,
            acquired = acquire(waiters, mode) => acquired,
        };
        match (acquired, mode) {
            (Ok(Some(guard)), _) => {
                let node = guard.path().name().unwrap_or_default().to_owned();
                waiters.start_grant(guard);
                monitor_grant(waiters, &node).await;
            }
            (Ok(None), AcquireMode::Try(id)) => waiters.answer(id, Ok(None)),
            (Err(error), AcquireMode::Try(id)) => waiters.answer(id, Err(error)),
            (Err(error), AcquireMode::Wait) => waiters.fail(&error),
            (Ok(None), AcquireMode::Wait) => {}
        }
    }
}

async fn acquire(waiters: &LocalWaiters, mode: AcquireMode) -> Result<Option<Guard>, AcquireError> {
    // Not by the functions of the fair lock, which measure: here, each task is measured.
    let queue = waiters.lock.queue();
    match mode {
        AcquireMode::Wait => {
            let progress = AcquireProgress::new(waiters.lock.path());
            queue.acquire(&progress).await.map(Some)
        }
        AcquireMode::Try(_) => queue.try_acquire().await,
    }
}

async fn mode_changed(waiters: &LocalWaiters, mode: AcquireMode) {
    while waiters.next_mode() == Some(mode) {
        waiters.changed.notified().await;
    }
}

/// Waits until the lock has gone back to the ensemble; while tasks wait, it watches for other contenders.
async fn monitor_grant(waiters: &LocalWaiters, node: &str) {
    let mut others = Box::pin(Either::Left(future::pending()));
    loop {
        match waiters.grant_state() {
            GrantState::Returned => return,
            GrantState::Contended if matches!(*others, Either::Left(_)) => {
                others.set(Either::Right(watch_for_others(waiters, node)));
            }
            GrantState::Contended | GrantState::Uncontended => {}
        }
        tokio::select! {
            biased;
            // The holder's guard reports it, and the next acquire fails.
            _ = waiters.lock.session().lost() => return,
            () = waiters.changed.notified() => {}
            () = &mut others => {}
        }
    }
}

/// Keeps `waiters` informed whether other contenders may wait for the lock. Does not end.
async fn watch_for_others(waiters: &LocalWaiters, node: &str) {
    loop {
        let listed = waiters.lock.queue().is_alone(node).await;
        let (is_alone, mut watch) = match listed {
            Ok(listed) => listed,
            Err(error) => {
                // The limits apply in this case.
                tracing::debug!(%error, "cannot watch whether other contenders wait for a cohort's lock");
                break;
            }
        };
        waiters.note_others(!is_alone);
        let event = watch.changed().await;
        waiters.note_others(true);
        if event == WatchEvent::SessionLost {
            break;
        }
        if !is_alone {
            // Contenders may join and leave often.
            waiters.lock.session().pause(RELIST_PAUSE).await;
        }
    }
    future::pending::<()>().await;
}

/// The pause between two lists while there are other contenders.
const RELIST_PAUSE: Duration = Duration::from_millis(10);
