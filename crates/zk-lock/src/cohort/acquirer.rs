//! The task that gets the lock from the ensemble for all tasks of a cohort.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future;
use futures_util::future::Either;
use zk_core::WatchEvent;

use super::local_waiters::Members;
use super::local_waiters::Use;
use super::local_waiters::Wanted;
use crate::error::AcquireError;
use crate::guard::Guard;

/// Starts it; it ends when nobody of this process waits for the lock or holds it.
pub(super) fn spawn(members: &Arc<Members>) {
    let members = Arc::clone(members);
    let attendance = Attendance(Some(Arc::clone(&members)));
    let session = members.lock.session().clone();
    session.spawn(async move {
        let mut attendance = attendance;
        attend(&members).await;
        // The next one may run by now.
        attendance.0 = None;
    });
}

/// Says that there is no agent any more, if it ends before its work is done: with the runtime of the session.
struct Attendance(Option<Arc<Members>>);

impl Drop for Attendance {
    fn drop(&mut self) {
        if let Some(members) = &self.0 {
            members.unattended();
        }
    }
}

async fn attend(members: &Arc<Members>) {
    while let Some(wanted) = members.wanted() {
        let acquired = tokio::select! {
            biased;
            // The place in the queue is given up when nobody wants it any more, or somebody wants something else.
            () = unwanted(members, wanted) => continue,
            acquired = acquire(members, wanted) => acquired,
        };
        match (acquired, wanted) {
            (Ok(Some(guard)), _) => {
                let node = guard.path().name().unwrap_or_default().to_owned();
                members.begin(guard);
                watch_over(members, &node).await;
            }
            (Ok(None), Wanted::Try(id)) => members.answer(id, Ok(None)),
            (Err(error), Wanted::Try(id)) => members.answer(id, Err(error)),
            (Err(error), Wanted::Lock) => members.fail(&error),
            (Ok(None), Wanted::Lock) => {}
        }
    }
}

async fn acquire(members: &Members, wanted: Wanted) -> Result<Option<Guard>, AcquireError> {
    match wanted {
        Wanted::Lock => members.lock.acquire().await.map(Some),
        Wanted::Try(_) => members.lock.try_acquire().await,
    }
}

async fn unwanted(members: &Members, wanted: Wanted) {
    while members.next_wanted() == Some(wanted) {
        members.changed.notified().await;
    }
}

/// Minds what happens while the lock goes from task to task, until it has gone back to the ensemble.
async fn watch_over(members: &Members, node: &str) {
    let mut others = Box::pin(Either::Left(future::pending()));
    loop {
        match members.used() {
            Use::Over => return,
            Use::Crowded if matches!(*others, Either::Left(_)) => {
                others.set(Either::Right(mind_others(members, node)));
            }
            Use::Crowded | Use::Single => {}
        }
        tokio::select! {
            biased;
            // The holder is told by its guard, and who waits by the next attempt.
            _ = members.lock.session().lost() => return,
            () = members.changed.notified() => {}
            () = &mut others => {}
        }
    }
}

/// Keeps up to date whether somebody else may wait for the lock. Does not end.
async fn mind_others(members: &Members, node: &str) {
    loop {
        let looked = members.lock.queue().is_alone(node).await;
        let (is_alone, mut watch) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                // Then the bounds count.
                tracing::debug!(%error, "it is not known whether others wait for this lock");
                break;
            }
        };
        members.note_others(!is_alone);
        let event = watch.changed().await;
        members.note_others(true);
        if event == WatchEvent::SessionLost {
            break;
        }
        if !is_alone {
            // Many may come and go.
            drop(tokio::time::timeout(PAUSE, members.lock.session().lost()).await);
        }
    }
    future::pending::<()>().await;
}

/// Between two looks for others that are there.
const PAUSE: Duration = Duration::from_millis(10);
