//! Calls of `zk-queue`.

use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use zk_core::Session;
use zk_core::codec::Text;
use zk_queue::{
    CancelOutcome, Claim, DeadLetter, Inspector, ItemId, Layout, Queue, QueueOptions, WorkQueue,
    WorkerOptions,
};

use super::{Call, Users, both, call};
use crate::secure::failure::Failure;

pub(super) const CALLS: &[Call] = &[
    Call::new("`Queue::offer`", "cr", |users| {
        Box::pin(async move {
            let (queue, _) = users.queue(Layout::Recipe).await?;
            call(async move { queue.offer(&"another".to_owned()).await })
        })
    }),
    Call::new("`Queue::peek`", "r", |users| {
        Box::pin(async move {
            let (queue, _) = users.queue(Layout::Recipe).await?;
            call(async move { queue.peek().await })
        })
    }),
    Call::new("`Queue::poll`", "cdr", |users| {
        Box::pin(async move {
            let (queue, _) = users.queue(Layout::Recipe).await?;
            call(async move {
                assert_eq!(queue.poll().await?.as_deref(), Some("item"));
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`Queue::take`, waiting", "cdr", |users| {
        Box::pin(async move {
            let (queue, _) = users.queue(Layout::Recipe).await?;
            let others = Queue::new(&users.other, &users.path, Text)?;
            others.remove().await?;
            call(async move {
                let offering = others.offer(&"item".to_owned()).into_future();
                both(queue.take(), offering).await
            })
        })
    }),
    Call::new("`Queue::cancel`", "cdr", |users| {
        Box::pin(async move {
            let (queue, id) = users.queue(Layout::Recipe).await?;
            let id = id.expect("the offer was not joined with another one");
            call(async move {
                let outcome = queue.cancel(&id).await?;
                assert_eq!(outcome, CancelOutcome::Removed);
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`Queue::cancel_with_id`", "cdr", |users| {
        Box::pin(async move {
            let (queue, _) = users.queue(Layout::CuratorId).await?;
            call(async move { queue.cancel_with_id("its-id").await })
        })
    }),
    Call::new("`Queue::counts`", "r", |users| {
        Box::pin(async move {
            let (queue, _) = users.queue(Layout::Recipe).await?;
            call(async move { queue.counts().await })
        })
    }),
    Call::new("`Queue::oldest_age`", "cr", |users| {
        Box::pin(async move {
            let (queue, _) = users.queue(Layout::Recipe).await?;
            call(async move { queue.oldest_age().await })
        })
    }),
    Call::new("`WorkQueue::offer`", "cr", |users| {
        Box::pin(async move {
            let queue = users.work().await?;
            call(async move { queue.offer(&"another".to_owned()).await })
        })
    }),
    Call::new("`WorkQueue::claim`, waiting", "crw", |users| {
        Box::pin(async move {
            let queue = users.work().await?;
            let others = WorkQueue::new(&users.other, &users.path, Text)?;
            let claim = others.claim().await?;
            claim.acknowledge().await?;
            call(async move {
                let offering = others.offer(&"another".to_owned()).into_future();
                both(queue.claim(), offering).await
            })
        })
    })
    .without("write: an item that the session may not write is passed over, and logged"),
    Call::new("`Claim::acknowledge`", "drw", |users| {
        Box::pin(async move {
            let claim = users.claim().await?;
            call(claim.acknowledge())
        })
    }),
    Call::new("`Claim::reject`", "cdrw", |users| {
        Box::pin(async move {
            let claim = users.claim().await?;
            call(claim.reject(Duration::from_secs(1), "for the test"))
        })
    }),
    Call::new("`Claim::bury`", "cdrw", |users| {
        Box::pin(async move {
            let claim = users.claim().await?;
            call(claim.bury("for the test"))
        })
    }),
    Call::new("`WorkQueue::work_until`", "cdrw", |users| {
        Box::pin(async move {
            let queue = users.work().await?;
            call(async move {
                let (done, mut stop) = tokio::sync::watch::channel(false);
                let stopped = async { drop(stop.wait_for(|is_done| *is_done).await) };
                let handler = |_| {
                    done.send_replace(true);
                    std::future::ready(Ok::<_, Infallible>(()))
                };
                queue
                    .work_until(stopped, &WorkerOptions::default(), handler)
                    .await
            })
        })
    })
    .without("write: an item that the session may not write is passed over, and logged; delete: items are delivered again"),
    Call::new("`WorkQueue::cancel`", "cdr", |users| {
        Box::pin(async move {
            let queue = users.work().await?;
            let others = WorkQueue::new(&users.other, &users.path, Text)?;
            let id = others.offer(&"cancelled".to_owned()).await?;
            let id = id.expect("the offer was not joined with another one");
            call(async move {
                let outcome = queue.cancel(&id).await?;
                assert_eq!(outcome, CancelOutcome::Removed);
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`WorkQueue::claims`", "r", |users| {
        Box::pin(async move {
            let queue = users.work().await?;
            let others = WorkQueue::new(&users.other, &users.path, Text)?;
            let claim = others.claim().await?;
            call(async move {
                assert_eq!(queue.claims().await?.len(), 1, "{claim:?}");
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`WorkQueue::counts`", "cr", |users| {
        Box::pin(async move {
            let queue = users.work().await?;
            call(async move { queue.counts().await })
        })
    }),
    Call::new("`WorkQueue::oldest_age`", "cr", |users| {
        Box::pin(async move {
            let queue = users.work().await?;
            call(async move { queue.oldest_age().await })
        })
    }),
    Call::new("`WorkQueue::dead_letters`", "r", |users| {
        Box::pin(async move {
            let (queue, _) = users.dead_letter().await?;
            call(async move { queue.dead_letters().await })
        })
    }),
    Call::new("`WorkQueue::dead_letter`", "r", |users| {
        Box::pin(async move {
            let (queue, letter) = users.dead_letter().await?;
            call(async move { queue.dead_letter(&letter).await })
        })
    }),
    Call::new("`WorkQueue::dead_letter_page`", "r", |users| {
        Box::pin(async move {
            let (queue, _) = users.dead_letter().await?;
            call(async move { queue.dead_letter_page(None, 1).await })
        })
    }),
    Call::new("`WorkQueue::redrive`", "cdr", |users| {
        Box::pin(async move {
            let (queue, letter) = users.dead_letter().await?;
            call(async move { queue.redrive(&letter).await })
        })
    }),
    Call::new("`WorkQueue::redrive_up_to`", "cdr", |users| {
        Box::pin(async move {
            let (queue, _) = users.dead_letter().await?;
            call(async move {
                assert_eq!(queue.redrive_up_to(5).await?, 1);
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`WorkQueue::discard`", "cd", |users| {
        Box::pin(async move {
            let (queue, letter) = users.dead_letter().await?;
            call(async move { queue.discard(&letter).await })
        })
    }),
    Call::new("`WorkQueue::discard_older_than`", "cdr", |users| {
        Box::pin(async move {
            let (queue, _) = users.dead_letter().await?;
            call(async move {
                assert_eq!(queue.discard_older_than(Duration::ZERO, 5).await?, 1);
                Ok::<_, Failure>(())
            })
        })
    }),
    Call::new("`zk_queue::Inspector::snapshot`", "r", |users| {
        Box::pin(async move {
            drop(users.dead_letter().await?);
            let inspector = Inspector::new(&users.session, &users.path)?;
            call(async move { inspector.snapshot(SystemTime::now()).await })
        })
    }),
];

impl Users {
    /// Returns a queue with an item of the other user, and the id of that.
    async fn queue(&self, layout: Layout) -> Result<(Queue<String>, Option<ItemId>), Failure> {
        let options = QueueOptions::default().with_layout(layout);
        let of = |session: &Session| Queue::with_options(session, &self.path, Text, &options);
        let others = of(&self.other)?;
        let offer = others.offer(&"item".to_owned());
        let offer = if layout.has_ids() {
            offer.id("its-id")
        } else {
            offer
        };
        let id = offer.await?;
        Ok((of(&self.session)?, id))
    }

    /// Returns a queue with an item of the other user.
    async fn work(&self) -> Result<WorkQueue<String>, Failure> {
        let others = WorkQueue::new(&self.other, &self.path, Text)?;
        others.offer(&"item".to_owned()).await?;
        Ok(WorkQueue::new(&self.session, &self.path, Text)?)
    }

    async fn claim(&self) -> Result<Claim<String>, Failure> {
        Ok(self.work().await?.claim().await?)
    }

    /// Returns a queue with a dead letter of the other user.
    async fn dead_letter(&self) -> Result<(WorkQueue<String>, DeadLetter), Failure> {
        let queue = self.work().await?;
        let others = WorkQueue::<String>::new(&self.other, &self.path, Text)?;
        others.claim().await?.bury("for the test").await?;
        let letter = others.dead_letters().await?.pop();
        Ok((queue, letter.expect("it was buried")))
    }
}
