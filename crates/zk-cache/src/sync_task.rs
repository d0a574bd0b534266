//! The task of a cache: sends the reads that the reducer asks for, and passes notifications and replies to it.

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

use crate::event::CacheEnd;
use crate::options::CacheOptions;
use crate::read_window::ReadWindow;
use crate::reducer::ReadKind;
use crate::reducer::ReadReply;
use crate::reducer::ReadRequest;
use crate::shared_state::StatePublisher;

/// Keeps a cache up to date until its session is over.
pub(crate) async fn run(session: Session, mut publisher: StatePublisher, options: CacheOptions) {
    let mut subscription = match subscribe(&session, &publisher, &options).await {
        Ok(subscription) => subscription,
        Err(end) => {
            publisher.reducer.end(end);
            return publisher.publish();
        }
    };
    // No retries: a read retried after a connection loss would be answered out of order, and the reducer decides what
    // to read again.
    // No timeout: the reply to an abandoned read would still be on its way, before the reply to the same read sent
    // again.
    let session = session
        .with_retry(RetryPolicy::never())
        .with_operation_timeout(Duration::MAX);
    let mut window = ReadWindow::new(options.window, session.session_timeout() / SLOW_SHARE);
    let mut reads = FuturesOrdered::new();
    let mut received = Received::default();
    let mut retry_at: Option<Instant> = None;
    loop {
        // Read before the state: `send` detects a connection loss after this line by the count.
        let losses = session.counters().connection_losses;
        let is_connected = is_up(session.state());
        if is_connected {
            while reads.len() < window.size() {
                let Some(request) = publisher.reducer.next() else {
                    break;
                };
                reads.push_back(send(session.clone(), losses, request));
            }
        }
        let updates =
            std::future::poll_fn(|context| received.poll(context, &mut subscription, &mut reads));
        let anything = async {
            tokio::select! {
                biased;
                () = updates => {}
                // The pending reads were not sent.
                () = wait_for_connection(&session), if !is_connected => {}
            }
        };
        match retry_at {
            // The code below checks whether the time is over.
            Some(at) => drop(tokio::time::timeout_at(at, anything).await),
            None => anything.await,
        }
        for update in received.updates.drain(..) {
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
                Update::Changed { path, event, .. } => publisher.reducer.changed(&path, event),
                Update::SessionLost => received.is_over = true,
                // Checking every node is right after any other update.
                _ => publisher.reducer.resynchronize(),
            }
        }
        let mut in_flight = reads.len() + received.replies.len();
        for (request, reply, took) in received.replies.drain(..) {
            in_flight = in_flight.saturating_sub(1);
            if reply != ReadReply::Failed {
                window.on_reply(took, in_flight);
            }
            publisher.reducer.answered(&request, reply);
        }
        // Other events do not postpone a retry.
        if !publisher.reducer.has_failed() {
            retry_at = None;
        } else if retry_at.is_some_and(|at| at <= Instant::now()) {
            retry_at = None;
            publisher.reducer.retry_failed();
        } else {
            retry_at = retry_at.or_else(|| Some(Instant::now() + PAUSE));
        }
        if received.is_over {
            publisher.reducer.end(CacheEnd::SessionLost);
        }
        publisher.publish();
        if received.is_over {
            return;
        }
    }
}

/// The updates and replies of one pass of the loop.
#[derive(Default)]
struct Received {
    updates: Vec<Update>,
    replies: Vec<(ReadRequest, ReadReply, Duration)>,
    is_over: bool,
}

impl Received {
    /// Takes what is ready, with a bound for each kind, so that neither delays the other.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        subscription: &mut Subscription,
        mut reads: &mut (impl Stream<Item = (ReadRequest, ReadReply, Duration)> + Unpin),
    ) -> Poll<()> {
        while self.replies.len() < MAX_PER_BATCH
            && let Poll::Ready(Some(reply)) = Pin::new(&mut reads).poll_next(context)
        {
            self.replies.push(reply);
        }
        while self.updates.len() < MAX_PER_BATCH
            && let Poll::Ready(update) = Pin::new(&mut *subscription).poll_next(context)
        {
            let Some(update) = update else {
                self.is_over = true;
                break;
            };
            self.updates.push(update);
        }
        if self.updates.is_empty() && self.replies.is_empty() && !self.is_over {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    }
}

/// Sets the watch, and retries for as long as the session lives.
async fn subscribe(
    session: &Session,
    publisher: &StatePublisher,
    options: &CacheOptions,
) -> Result<Subscription, CacheEnd> {
    loop {
        let subscribe = session.subscribe(publisher.reducer.root()).buffer(BUFFER);
        let subscribed = if options.max_depth == 0 {
            subscribe.await
        } else {
            subscribe.recursive().await
        };
        match subscribed {
            Ok(subscription) => return Ok(subscription),
            // Room for another watch may never come.
            Err(error) if error.kind() == ErrorKind::TooManyWatches => {
                return Err(CacheEnd::Refused(error));
            }
            Err(error) => match error.class() {
                ErrorClass::Fatal => return Err(CacheEnd::SessionLost),
                ErrorClass::Outcome => return Err(CacheEnd::Refused(error)),
                ErrorClass::Recoverable => {
                    tracing::debug!(%error, "retrying to set the watch of a cache");
                }
            },
        }
        if session.pause(PAUSE).await.is_some() {
            return Err(CacheEnd::SessionLost);
        }
    }
}

/// Waits until there is a connection.
///
/// The stream of changes can report a connection that the session has lost already: a reply that ends the session does
/// so before the link reports it. Only [`Session::state`] decides. Returning on such a change would make the caller
/// call again at once, for ever, without a pause in which the end could arrive.
async fn wait_for_connection(session: &Session) {
    let mut changes = session.state_changes();
    loop {
        match tokio::time::timeout(PAUSE, changes.next()).await {
            // The subscription reports the end of the session.
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

/// Sends one read on the connection that follows the given number of connection losses, and measures its time.
async fn send(
    session: Session,
    losses: u64,
    request: ReadRequest,
) -> (ReadRequest, ReadReply, Duration) {
    let since = Instant::now();
    let path = &request.path;
    let reply = match request.kind {
        ReadKind::Sync => session.sync(path).await.map(|()| ReadReply::Synced),
        ReadKind::Stat => session
            .exists(path)
            .await
            .map(|stat| stat.map_or(ReadReply::NoNode, ReadReply::Stat)),
        ReadKind::Data => session
            .get(path)
            .await
            // Copied, because the cache may keep it for longer than the buffer that it arrived in.
            .map(|(data, stat)| ReadReply::Data(data.to_vec(), stat)),
        ReadKind::Children => session
            .list(path)
            .await
            .map(|(names, stat)| ReadReply::Children(names, stat)),
    };
    let reply = if session.counters().connection_losses == losses {
        reply.unwrap_or_else(|error| error_reply(&error))
    } else {
        // It may have been sent on a later connection than the reads before it, and so out of order.
        ReadReply::Failed
    };
    (request, reply, since.elapsed())
}

fn error_reply(error: &Error) -> ReadReply {
    match (error.kind(), error.class()) {
        (ErrorKind::NoNode, _) => ReadReply::NoNode,
        (kind @ ErrorKind::ReadOnlyServer, _) | (kind, ErrorClass::Outcome) => {
            ReadReply::Refused(kind)
        }
        (_, ErrorClass::Recoverable | ErrorClass::Fatal) => ReadReply::Failed,
    }
}

/// A reply that takes longer than this share of the session timeout counts as queued on the link.
const SLOW_SHARE: u32 = 20;

/// The pause before a retry.
const PAUSE: Duration = Duration::from_millis(200);

/// How many updates, and how many replies, one batch of events covers.
const MAX_PER_BATCH: usize = 1024;

/// How many updates the subscription keeps while this task is busy. An overflow causes a resynchronisation.
const BUFFER: usize = 1 << 16;
