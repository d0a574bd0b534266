//! Calls of `zk-leader`.

use std::convert::Infallible;

use zk_core::Session;
use zk_leader::{
    Breadcrumb, ElectionOptions, LatchParticipant, LeaderLatch, LeaderLease, StepDown,
    StepDownPolicy,
};

use super::{Call, both, call, first};
use crate::secure::failure::Failure;
use crate::secure::recipes::has_children;

pub(super) const CALLS: &[Call] = &[
    Call::new("`LeaderLatch::join`, waiting", "cdr", |users| {
        Box::pin(async move {
            let (others, _) = leading(&users.other, &users.path).await?;
            let latch = LeaderLatch::new(&users.session, &users.path)?;
            call(async move {
                let own = latch.join();
                let passing = async {
                    has_children(&users.other, &users.path, 2).await?;
                    others.leave().await;
                    Ok::<_, Failure>(())
                };
                both(own.leading(), passing).await?;
                Ok::<_, Failure>(own.handle().resign().await?)
            })
        })
    }),
    Call::new("`LeaderLatch::participants`", "r", |users| {
        Box::pin(async move {
            let (others, _) = leading(&users.other, &users.path).await?;
            let latch = LeaderLatch::new(&users.session, &users.path)?;
            call(async move {
                assert_eq!(latch.participants().await?.len(), 1, "{others:?}");
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`LeaderLatch::leader`", "r", |users| {
        Box::pin(async move {
            let (others, _) = leading(&users.other, &users.path).await?;
            let latch = LeaderLatch::new(&users.session, &users.path)?;
            call(async move {
                assert!(latch.leader().await?.is_some(), "{others:?}");
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`LeaderLatch::leader_after`", "r", |users| {
        Box::pin(async move {
            let (others, _) = leading(&users.other, &users.path).await?;
            let latch = LeaderLatch::new(&users.session, &users.path)?;
            call(async move {
                latch.leader_after(None).await?;
                drop(others);
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`LeaderLatch::request_step_down`", "rw", |users| {
        Box::pin(async move {
            let (others, lease) = leading(&users.other, &users.path).await?;
            let latch = LeaderLatch::new(&users.session, &users.path)?;
            call(async move {
                let refusing = async {
                    let request = lease.step_down_requested().await;
                    request.expect("it leads").refuse("for the test").await
                };
                let asking = latch.request_step_down().into_future();
                let (answer, ()) = both(asking, refusing).await?;
                assert!(
                    matches!(answer, StepDown::Refused { .. }),
                    "{answer:?} {others:?}"
                );
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`StepDownRequest::refuse`", "rw", |users| {
        Box::pin(async move {
            let (own, lease) = leading(&users.session, &users.path).await?;
            let latch = LeaderLatch::new(&users.other, &users.path)?;
            let mut asking = latch.request_step_down().into_future();
            let requested = async {
                let request = lease.step_down_requested().await;
                Ok::<_, Failure>(request.expect("it leads"))
            };
            let request = first(requested, &mut asking).await?;
            call(async move {
                first(request.refuse("for the test"), asking).await?;
                drop(own);
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`ParticipantHandle::resign`", "d", |users| {
        Box::pin(async move {
            let (own, _) = leading(&users.session, &users.path).await?;
            call(async move { own.handle().resign().await })
        })
    }),
    Call::new(
        "`Breadcrumb::take_over`, after another one",
        "rw",
        |users| {
            Box::pin(async move {
                let (others, lease) = leading(&users.other, &users.path).await?;
                let breadcrumb = Breadcrumb::take_over(&lease, "before", fence).await?;
                others.leave().await;
                drop(breadcrumb);
                let (own, lease) = leading(&users.session, &users.path).await?;
                call(async move {
                    let breadcrumb = Breadcrumb::take_over(&lease, "now", fence).await?;
                    drop((own, breadcrumb));
                    Ok::<_, Failure>(())
                })
            })
        },
    ),
    Call::new("`Breadcrumb::remove`", "dr", |users| {
        Box::pin(async move {
            let (own, lease) = leading(&users.session, &users.path).await?;
            let breadcrumb = Breadcrumb::take_over(&lease, "now", fence).await?;
            call(async move {
                breadcrumb.remove().await?;
                drop(own);
                Ok::<_, Failure>(())
            })
        })
    }),
];

/// Leads, and can be asked to step down.
async fn leading(
    session: &Session,
    path: &str,
) -> Result<(LatchParticipant, LeaderLease), Failure> {
    let options = ElectionOptions::default().with_step_down(StepDownPolicy::Application);
    let latch = LeaderLatch::with_options(session, path, &options)?.join();
    let lease = latch.leading().await?;
    has_children(session, &format!("{path}-step-down"), 1).await?;
    Ok((latch, lease))
}

/// Fences the process before.
async fn fence(_: Vec<u8>) -> Result<(), Infallible> {
    Ok(())
}
