//! Calls of `zk-lock`.

use std::time::Duration;

use zk_lock::{Contender, FairLock, Guard, Inspector, Reap, RevocationRequest, RwLock, Semaphore};

use super::{Call, Users, both, call, first};
use crate::secure::failure::Failure;
use crate::secure::recipes::has_children;

pub(super) const CALLS: &[Call] = &[
    Call::new("`FairLock::acquire`, waiting", "cdr", |users| {
        Box::pin(async move {
            let held = users.others_guard().await?;
            let lock = FairLock::new(&users.session, &users.path)?;
            call(async move {
                let passing = async {
                    has_children(&users.other, &users.path, 2).await?;
                    Ok::<_, Failure>(held.release().await?)
                };
                let (guard, ()) = both(lock.acquire(), passing).await?;
                Ok::<_, Failure>(guard.release().await?)
            })
        })
    }),
    Call::new("`FairLock::try_acquire`, of a held lock", "r", |users| {
        Box::pin(async move {
            let held = users.others_guard().await?;
            let lock = FairLock::new(&users.session, &users.path)?;
            call(async move {
                let none = lock.try_acquire().await?;
                assert!(none.is_none(), "it is held by {held:?}");
                users.session.settled().await;
                Ok::<_, Failure>(())
            })
        })
    })
    .without("read: it joins the queue, which needs the rights of `acquire`"),
    Call::new("`Guard::release`", "d", |users| {
        Box::pin(async move {
            let guard = users.guard().await?;
            call(guard.release())
        })
    }),
    Call::new("`Guard::txn`, with a write", "rw", |users| {
        Box::pin(async move {
            let guard = users.guard().await?;
            call(async move { guard.txn().set(&users.path, "data").commit().await })
        })
    }),
    Call::new("`Guard::yield_now`, to a waiter", "cdr", |users| {
        Box::pin(async move {
            let guard = users.guard().await?;
            let lock = FairLock::new(&users.other, &users.path)?;
            let mut waiting = Box::pin(async move { lock.acquire().await });
            first(has_children(&users.other, &users.path, 2), &mut waiting).await?;
            call(async move {
                let passing = async {
                    let guard = waiting.await?;
                    Ok::<_, Failure>(guard.release().await?)
                };
                both(guard.yield_now(), passing).await
            })
        })
    }),
    Call::new("`ReadGuard::upgrade`", "cdr", |users| {
        Box::pin(async move {
            let lock = RwLock::new(&users.session, &users.path)?;
            let guard = lock.reader().acquire().await?;
            call(guard.upgrade())
        })
    })
    .without("delete: the node of the reader stays until the session ends"),
    Call::new("`WriteGuard::downgrade`", "cd", |users| {
        Box::pin(async move {
            let lock = RwLock::new(&users.session, &users.path)?;
            let guard = lock.writer().acquire().await?;
            call(guard.downgrade())
        })
    }),
    Call::new("`RevocationRequest::accept`", "rw", |users| {
        Box::pin(async move {
            let (guard, request, asking) = users.asked().await?;
            call(async move {
                first(request.accept(), asking).await?;
                drop(guard);
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`RevocationRequest::refuse`", "rw", |users| {
        Box::pin(async move {
            let (guard, request, asking) = users.asked().await?;
            call(async move {
                first(request.refuse("for the test"), asking).await?;
                drop(guard);
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`Semaphore::acquire`, waiting", "cdr", |users| {
        Box::pin(async move {
            let held = Semaphore::new(&users.other, &users.path, 1)?
                .acquire()
                .await?;
            users.other.settled().await;
            let semaphore = Semaphore::new(&users.session, &users.path, 1)?;
            call(async move {
                let passing = async {
                    has_children(&users.other, &format!("{}/locks", users.path), 1).await?;
                    Ok::<_, Failure>(held.release().await?)
                };
                let (lease, ()) = both(semaphore.acquire(), passing).await?;
                Ok::<_, Failure>(lease.release().await?)
            })
        })
    }),
    Call::new("`Semaphore::limit`", "r", |users| {
        Box::pin(async move {
            let semaphore = users.semaphore().await?;
            call(async move { semaphore.limit().await })
        })
    }),
    Call::new("`Semaphore::set_limit`", "rw", |users| {
        Box::pin(async move {
            let semaphore = users.semaphore().await?;
            call(async move { semaphore.set_limit(5).await })
        })
    }),
    Call::new("`zk_lock::Inspector::snapshot`", "r", |users| {
        Box::pin(async move {
            let (held, inspector, _) = users.inspected().await?;
            call(async move {
                let snapshot = inspector.snapshot().await?;
                assert_eq!(snapshot.holders().count(), 1, "{held:?}");
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`zk_lock::Inspector::first_contender`", "r", |users| {
        Box::pin(async move {
            let (held, inspector, _) = users.inspected().await?;
            call(async move {
                let contender = inspector.first_contender().await?;
                assert!(contender.is_some(), "{held:?}");
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`zk_lock::Inspector::revoke`", "rw", |users| {
        Box::pin(async move {
            let (held, inspector, contender) = users.inspected().await?;
            call(async move {
                let refusing = async {
                    let request = held.revocation_requested().await.expect("it is held");
                    request.refuse("for the test").await
                };
                both(inspector.revoke(&contender).into_future(), refusing).await
            })
        })
    }),
    Call::new("`zk_lock::Inspector::revoke`, as Curator", "rw", |users| {
        Box::pin(async move {
            let (held, inspector, contender) = users.inspected().await?;
            call(async move {
                let releasing = async {
                    let request = held.revocation_requested().await;
                    request.expect("it is held").accept().await?;
                    Ok::<_, Failure>(held.release().await?)
                };
                let revoke = inspector.revoke(&contender).as_curator();
                both(revoke.into_future(), releasing).await
            })
        })
    }),
    Call::new("`zk_lock::Inspector::remove`", "dr", |users| {
        Box::pin(async move {
            let (held, inspector, contender) = users.inspected().await?;
            call(async move {
                inspector.remove(&contender).await?;
                drop(held);
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`zk_lock::Inspector::reap`", "dr", |users| {
        Box::pin(async move {
            let (held, inspector, _) = users.inspected().await?;
            call(async move {
                assert_eq!(inspector.reap(Reap::All).await?.len(), 1, "{held:?}");
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new(
        "`zk_lock::Inspector::reapable`, of an age",
        "cdr",
        |users| {
            Box::pin(async move {
                let (held, inspector, _) = users.inspected().await?;
                call(async move {
                    let age = Reap::OlderThan(Duration::from_secs(3600));
                    assert_eq!(inspector.reapable(age).await?.len(), 0, "{held:?}");
                    Ok::<_, Failure>(())
                })
            })
        },
    ),
];

impl Users {
    async fn guard(&self) -> Result<Guard, Failure> {
        Ok(FairLock::new(&self.session, &self.path)?.acquire().await?)
    }

    async fn others_guard(&self) -> Result<Guard, Failure> {
        Ok(FairLock::new(&self.other, &self.path)?.acquire().await?)
    }

    /// Returns an inspector of the lock that the other user holds, and the holder.
    async fn inspected(&self) -> Result<(Guard, Inspector, Contender), Failure> {
        let held = self.others_guard().await?;
        let inspector = Inspector::new(&self.session, &self.path)?;
        let contender = inspector.first_contender().await?;
        Ok((held, inspector, contender.expect("it is held")))
    }

    /// Returns a lock, a request to release it, and the future that makes the request and waits for an answer.
    async fn asked(
        &self,
    ) -> Result<
        (
            Guard,
            RevocationRequest,
            impl Future<Output = Result<(), Failure>> + Send + use<>,
        ),
        Failure,
    > {
        let guard = self.guard().await?;
        let inspector = Inspector::new(&self.other, &self.path)?;
        let holder = inspector.first_contender().await?.expect("it is held");
        let mut asking = inspector.revoke(&holder).into_future();
        let requested = async {
            let request = guard.revocation_requested().await;
            Ok::<_, Failure>(request.expect("it is held"))
        };
        let request = first(requested, &mut asking).await?;
        let asking = async move {
            asking.await?;
            Ok(())
        };
        Ok((guard, request, asking))
    }

    /// Returns a semaphore that the other user has created.
    async fn semaphore(&self) -> Result<Semaphore, Failure> {
        let others = Semaphore::new(&self.other, &self.path, 3)?;
        others.acquire().await?.release().await?;
        self.other.settled().await;
        Ok(Semaphore::new(&self.session, &self.path, 3)?)
    }
}
