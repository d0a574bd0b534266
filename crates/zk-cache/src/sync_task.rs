//! The task of a cache: sends the reads that the reducer asks for, and passes notifications and replies to it.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::FuturesOrdered;
use tokio::time::Instant;
use zk_core::{
    ConnectionState, Error, ErrorClass, ErrorKind, RetryPolicy, Session, SessionSource, Stat,
    Subscription, Update,
};

use crate::event::CacheEnd;
use crate::options::{CacheOptions, Content};
use crate::read_batch::BatchLimit;
use crate::read_window::ReadWindow;
use crate::reducer::{ReadKind, ReadReply, ReadRequest};
use crate::shared_state::StatePublisher;

/// Keeps a cache up to date with one session after the other, until there is none or the first one refuses the watch.
pub(crate) async fn run(
    mut source: SessionSource,
    mut publisher: StatePublisher,
    options: CacheOptions,
) {
    let mut end = CacheEnd::SessionLost;
    let mut on_refusal = OnRefusal::End;
    while let Some(session) = source.next().await {
        end = match subscribe(&session, &publisher, &options, on_refusal).await {
            Ok(subscription) => {
                on_refusal = OnRefusal::Retry;
                run_with(&session, subscription, &mut publisher, &options).await
            }
            Err(end) => end,
        };
        if !matches!(end, CacheEnd::SessionLost) {
            break;
        }
        if source.has_next() {
            publisher.reducer.end_session();
            publisher.publish();
            session.lost().await;
        }
    }
    publisher.reducer.end(end);
    publisher.publish();
}

/// Keeps a cache up to date until the session is over.
async fn run_with(
    session: &Session,
    mut subscription: Subscription,
    publisher: &mut StatePublisher,
    options: &CacheOptions,
) -> CacheEnd {
    // No retries: a read retried after a connection loss would be answered out of order, and the reducer decides what
    // to read again.
    // No timeout: the reply to an abandoned read would still be on its way, before the reply to the same read sent
    // again.
    let session = session
        .clone()
        .with_retry(RetryPolicy::never())
        .with_operation_timeout(Duration::MAX);
    let mut window = ReadWindow::new(options.window, session.session_timeout() / SLOW_SHARE);
    let mut limit = BatchLimit::new();
    let mut reads = FuturesOrdered::new();
    // How many reads the requests in flight have.
    let mut in_flight = 0;
    let mut received = Received::default();
    let mut retry_at: Option<Instant> = None;
    loop {
        // Read before the state: `send` detects a connection loss after this line by the count.
        let losses = session.counters().connection_losses;
        let is_connected = is_up(session.state());
        // Half of the window, so that one request is on its way while another is answered. Waits until that is free,
        // or the first small reply would divide all later requests.
        let most = limit.nodes().min(window.size().div_ceil(2));
        while is_connected
            && in_flight + most <= window.size()
            && let Some(requests) = publisher.reducer.next(most)
        {
            in_flight += requests.len();
            reads.push_back(send(session.clone(), losses, requests));
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
            if matches!(update, Update::Resynchronize | Update::Stale) {
                reads = FuturesOrdered::new();
                in_flight = received.replies.iter().map(|reply| reply.reads.len()).sum();
            }
            match update {
                Update::Resynchronize => {
                    window.reset();
                    publisher.reducer.resynchronize();
                }
                Update::Stale => publisher.reducer.stale(),
                Update::Changed { path, event, .. } => publisher.reducer.changed(&path, event),
                Update::SessionLost => received.is_over = true,
                // Checking every node is right after any other update.
                _ => publisher.reducer.resynchronize(),
            }
        }
        for reply in received.replies.drain(..) {
            if reply.reads.len() > 1 && !reply.is_lost() {
                match reply.refusal {
                    None => limit.on_reply(reply.bytes()),
                    Some(ErrorKind::TooLarge) => limit.on_too_large(),
                    Some(ErrorKind::Unsupported) => limit.on_unsupported(),
                    Some(_) => {}
                }
            }
            for (request, read) in reply.reads {
                in_flight -= 1;
                if read != ReadReply::Failed {
                    window.on_reply(reply.took, in_flight);
                }
                publisher.reducer.answered(&request, read);
            }
        }
        if publisher.reducer.is_synchronized() {
            limit.on_complete();
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
            return CacheEnd::SessionLost;
        }
        publisher.publish();
    }
}

/// The updates and replies of one pass of the loop.
#[derive(Default)]
struct Received {
    updates: Vec<Update>,
    replies: Vec<Reply>,
    is_over: bool,
}

/// The reply to one request.
struct Reply {
    reads: Vec<(ReadRequest, ReadReply)>,
    /// Why the server refuses to read these nodes together.
    refusal: Option<ErrorKind>,
    took: Duration,
}

impl Reply {
    fn is_lost(&self) -> bool {
        self.reads
            .iter()
            .all(|(_, read)| *read == ReadReply::Failed)
    }

    /// Returns the length of the data.
    fn bytes(&self) -> usize {
        let data = self.reads.iter().map(|(_, read)| match read {
            ReadReply::Data(data, _) => data.len(),
            _ => 0,
        });
        data.sum()
    }
}

impl Received {
    /// Takes what is ready, with a bound for each kind, so that neither delays the other.
    fn poll(
        &mut self,
        context: &mut Context<'_>,
        subscription: &mut Subscription,
        mut reads: &mut (impl Stream<Item = Reply> + Unpin),
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

/// What to do when a session has no room for the watch, or may not set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnRefusal {
    /// The first session refuses: the application can correct that before it relies on the cache.
    End,
    /// An earlier session had the watch: the cache stays stale until there is room.
    Retry,
}

/// Sets the watch, and retries for as long as the session lives.
async fn subscribe(
    session: &Session,
    publisher: &StatePublisher,
    options: &CacheOptions,
    on_refusal: OnRefusal,
) -> Result<Subscription, CacheEnd> {
    let mut is_reported = false;
    loop {
        let subscribe = session.subscribe(publisher.reducer.root()).buffer(BUFFER);
        let subscribed = match (options.max_depth, options.content) {
            (0, _) => subscribe.await,
            (_, Content::NamesOnly) => subscribe.children().await,
            _ => subscribe.recursive().await,
        };
        let error = match subscribed {
            Ok(subscription) => return Ok(subscription),
            Err(error) => error,
        };
        let is_refused = error.class() == ErrorClass::Outcome;
        if error.class() == ErrorClass::Fatal {
            return Err(CacheEnd::SessionLost);
        } else if is_refused && on_refusal == OnRefusal::End {
            return Err(CacheEnd::Refused(error));
        } else if is_refused && !std::mem::replace(&mut is_reported, true) {
            tracing::warn!(%error, "cache stays stale: the session refuses its watch");
        } else {
            tracing::debug!(%error, "retrying to set the watch of a cache");
        }
        let pause = if is_refused { REFUSED_PAUSE } else { PAUSE };
        if session.pause(pause).await.is_some() {
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

/// Sends one request on the connection that follows the given number of connection losses, and measures its time.
async fn send(session: Session, losses: u64, requests: Vec<ReadRequest>) -> Reply {
    let since = Instant::now();
    let (mut replies, refusal) = match &*requests {
        [request] => (vec![read(&session, request).await], None),
        requests => read_together(&session, requests).await,
    };
    if session.counters().connection_losses != losses {
        // It may have been sent on a later connection than the reads before it, and so out of order.
        replies.fill(ReadReply::Failed);
    }
    Reply {
        reads: requests.into_iter().zip(replies).collect(),
        refusal,
        took: since.elapsed(),
    }
}

async fn read(session: &Session, request: &ReadRequest) -> ReadReply {
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
            .map(|(data, stat)| ReadReply::Data(data, stat)),
        ReadKind::Children => session
            .list(path)
            .await
            .map(|(names, stat)| ReadReply::Children(names, stat)),
    };
    reply.unwrap_or_else(|error| error_reply(&error))
}

/// Reads the data of several nodes with one request; returns the reason too if the server refuses that.
async fn read_together(
    session: &Session,
    requests: &[ReadRequest],
) -> (Vec<ReadReply>, Option<ErrorKind>) {
    let paths = requests.iter().map(|request| &request.path);
    let all_are = |reply| vec![reply; requests.len()];
    match session.get_many(paths).in_one_request().await {
        Ok(results) => {
            let reply = |result: Result<(Bytes, Stat), Error>| match result {
                Ok((data, stat)) => ReadReply::Data(data, stat),
                Err(error) if error.is_no_node() => ReadReply::NoNode,
                Err(_) => ReadReply::RefusedTogether,
            };
            (results.into_iter().map(reply).collect(), None)
        }
        Err(error)
            if error.class() == ErrorClass::Outcome || error.kind() == ErrorKind::ServerError =>
        {
            (all_are(ReadReply::RefusedTogether), Some(error.kind()))
        }
        Err(_) => (all_are(ReadReply::Failed), None),
    }
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

/// The pause before a watch that was refused is set again.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// How many updates, and how many replies, one batch of events covers.
const MAX_PER_BATCH: usize = 1024;

/// How many updates the subscription keeps while this task is busy. An overflow causes a resynchronisation.
const BUFFER: usize = 1 << 16;
