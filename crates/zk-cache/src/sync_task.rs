//! The task of a cache: carries out the reads of the reducer and gives it what comes.

use std::pin::Pin;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;

use futures_util::Stream;
use futures_util::stream::FuturesOrdered;
use tokio::time::Instant;
use zk_core::ConnectionState;
use zk_core::Error;
use zk_core::ErrorClass;
use zk_core::ErrorKind;
use zk_core::RetryPolicy;
use zk_core::Session;
use zk_core::Subscription;
use zk_core::Update;

use crate::event::End;
use crate::options::CacheOptions;
use crate::read_window::Window;
use crate::reducer::Answer;
use crate::reducer::Ask;
use crate::reducer::What;
use crate::shared_state::Publisher;

/// Keeps a cache up to date until its session is over.
pub(crate) async fn follow(session: Session, mut publisher: Publisher, options: CacheOptions) {
    let mut subscription = match subscribe(&session, &publisher, &options).await {
        Ok(subscription) => subscription,
        Err(end) => {
            publisher.reducer.end(end);
            return publisher.publish();
        }
    };
    // A read that is made again after a break would be answered out of order. What is to be read again is decided by who
    // knows what else was read meanwhile.
    // And it waits for as long as the link lives: when it was given up, its answer would still be on the way, before that to
    // the same read made again.
    let session = session
        .with_retry(RetryPolicy::never())
        .with_operation_timeout(Duration::MAX);
    let mut window = Window::new(options.window, session.session_timeout() / SLOW_SHARE);
    let mut reads = FuturesOrdered::new();
    let mut turn = Turn::default();
    let mut retry_at: Option<Instant> = None;
    loop {
        // A break that happens after this look is noticed by the number of breaks.
        let breaks = session.counters().connection_losses;
        let is_connected = is_up(session.state());
        if is_connected {
            while reads.len() < window.size() {
                let Some(ask) = publisher.reducer.next() else {
                    break;
                };
                reads.push_back(read(session.clone(), breaks, ask));
            }
        }
        let news =
            std::future::poll_fn(|context| turn.poll(context, &mut subscription, &mut reads));
        let anything = async {
            tokio::select! {
                biased;
                () = news => {}
                // What is to be read was not sent.
                () = connected(&session), if !is_connected => {}
            }
        };
        match retry_at {
            // That it is over is seen below.
            Some(at) => drop(tokio::time::timeout_at(at, anything).await),
            None => anything.await,
        }
        for update in turn.updates.drain(..) {
            match update {
                Update::Resynchronize => {
                    reads = FuturesOrdered::new();
                    window.reset();
                    publisher.reducer.resynchronize();
                }
                Update::Stale => {
                    reads = FuturesOrdered::new();
                    publisher.reducer.stale();
                }
                Update::Changed { path, event } => publisher.reducer.changed(&path, event),
                Update::SessionLost => turn.is_over = true,
                // Whatever it is, a look at everything is no mistake.
                _ => publisher.reducer.resynchronize(),
            }
        }
        let mut awaited = reads.len() + turn.answers.len();
        for (ask, answer, took) in turn.answers.drain(..) {
            awaited = awaited.saturating_sub(1);
            if answer != Answer::Failed {
                window.answered(took, awaited);
            }
            publisher.reducer.answered(&ask, answer);
        }
        // What else happens does not make the pause longer.
        if !publisher.reducer.has_failed() {
            retry_at = None;
        } else if retry_at.is_some_and(|at| at <= Instant::now()) {
            retry_at = None;
            publisher.reducer.try_again();
        } else {
            retry_at = retry_at.or_else(|| Some(Instant::now() + PAUSE));
        }
        if turn.is_over {
            publisher.reducer.end(End::SessionLost);
        }
        publisher.publish();
        if turn.is_over {
            return;
        }
    }
}

/// What has come since the last look.
#[derive(Default)]
struct Turn {
    updates: Vec<Update>,
    answers: Vec<(Ask, Answer, Duration)>,
    is_over: bool,
}

impl Turn {
    /// Takes what there is, of each kind so much at most that neither waits for the other.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        subscription: &mut Subscription,
        mut reads: &mut (impl Stream<Item = (Ask, Answer, Duration)> + Unpin),
    ) -> Poll<()> {
        while self.answers.len() < MOST_AT_ONCE
            && let Poll::Ready(Some(answered)) = Pin::new(&mut reads).poll_next(context)
        {
            self.answers.push(answered);
        }
        while self.updates.len() < MOST_AT_ONCE
            && let Poll::Ready(update) = Pin::new(&mut *subscription).poll_next(context)
        {
            let Some(update) = update else {
                self.is_over = true;
                break;
            };
            self.updates.push(update);
        }
        if self.updates.is_empty() && self.answers.is_empty() && !self.is_over {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }
}

/// Sets the watch, for as long as it takes.
async fn subscribe(
    session: &Session,
    publisher: &Publisher,
    options: &CacheOptions,
) -> Result<Subscription, End> {
    loop {
        let subscribe = session.subscribe(publisher.reducer.root()).buffer(BUFFER);
        let subscribed = if options.max_depth == 0 {
            subscribe.await
        } else {
            subscribe.recursive().await
        };
        match subscribed {
            Ok(subscription) => return Ok(subscription),
            // There may never be room again.
            Err(error) if error.kind() == ErrorKind::TooManyWatches => {
                return Err(End::Refused(error));
            }
            Err(error) => match error.class() {
                ErrorClass::Fatal => return Err(End::SessionLost),
                ErrorClass::Outcome => return Err(End::Refused(error)),
                ErrorClass::Recoverable => {
                    tracing::debug!(%error, "setting the watch of a cache again");
                }
            },
        }
        if tokio::time::timeout(PAUSE, session.lost()).await.is_ok() {
            return Err(End::SessionLost);
        }
    }
}

/// Waits until there is a connection.
///
/// A change that comes late may tell of a connection that is gone by now. What counts is the state itself: this would
/// otherwise be asked again and again, without a pause in which the news could come.
async fn connected(session: &Session) {
    let mut changes = session.state_changes();
    loop {
        match tokio::time::timeout(PAUSE, changes.next()).await {
            // The subscription tells that the session is over.
            Ok(None) => std::future::pending().await,
            _ if is_up(session.state()) => return,
            _ => {}
        }
    }
}

const fn is_up(state: ConnectionState) -> bool {
    matches!(
        state,
        ConnectionState::Connected | ConnectionState::ReadOnly
    )
}

/// Makes one read on the connection that has broken so many times; also answers how long it took.
async fn read(session: Session, breaks: u64, ask: Ask) -> (Ask, Answer, Duration) {
    let since = Instant::now();
    let path = &ask.path;
    let answer = match ask.what {
        What::Sync => session.sync(path).await.map(|()| Answer::Synced),
        What::Stat => session
            .exists(path)
            .await
            .map(|stat| stat.map_or(Answer::Missing, Answer::Stat)),
        What::Data => session
            .get(path)
            .await
            .map(|(data, stat)| Answer::Data(data, stat)),
        What::Children => session
            .list(path)
            .await
            .map(|(names, stat)| Answer::Children(names, stat)),
    };
    let answer = if session.counters().connection_losses == breaks {
        answer.unwrap_or_else(|error| failure(&error))
    } else {
        // It may have been sent on another connection than those before it, and so out of order.
        Answer::Failed
    };
    (ask, answer, since.elapsed())
}

fn failure(error: &Error) -> Answer {
    match (error.kind(), error.class()) {
        (ErrorKind::NoNode, _) => Answer::Missing,
        (kind @ ErrorKind::ReadOnlyServer, _) | (kind, ErrorClass::Outcome) => {
            Answer::Refused(kind)
        }
        (_, ErrorClass::Recoverable | ErrorClass::Fatal) => Answer::Failed,
    }
}

/// Answers that take more than this share of the session timeout queue up on the link.
const SLOW_SHARE: u32 = 20;

/// Before a read that failed is made again.
const PAUSE: Duration = Duration::from_millis(200);

/// Each is one round of events.
const MOST_AT_ONCE: usize = 1024;

/// How many changes are kept while this task is busy. With more everything is looked at.
const BUFFER: usize = 1 << 16;
