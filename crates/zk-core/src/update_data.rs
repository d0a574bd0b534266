//! Changing data depending on what it is: reads, writes under the version that was read, and begins again if another
//! client wrote meanwhile.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use zk_wire::{IntoNodePath, NodePath, Stat};

use crate::call::Call;
use crate::error::{Error, ErrorKind, Operation};
use crate::idempotency_tokens::IdempotencyTokens;
use crate::operation::{Create, OperationFuture, Target, Transaction, check_size, set};
use crate::retry::{Jitter, RetryPolicy};
use crate::session::Session;
use crate::transport::{MultiResult, Request, Response};

/// Replaces the data of a node by what a function makes of it; created by [`Session::update`].
///
/// It reads the node, calls the function, and writes under the version that it read. If another client wrote in
/// between, it begins again, after a random pause with a limit that doubles from 4 ms to a second; the second and later
/// reads are of a server that has caught up with the leader. If the function returns `None`, nothing is written; that is
/// decided on such a read, too.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), zk_core::Error> {
/// let members = session.update("/app/members", |data| {
///     let mut members = String::from_utf8_lossy(data).into_owned();
///     if members.lines().any(|name| name == "me") {
///         return None;
///     }
///     members.push_str("me\n");
///     Some(members.into_bytes())
/// });
/// let updated = members.or_create("").await?;
/// println!("{} bytes, written now: {}", updated.data.len(), updated.is_written);
/// # Ok(())
/// # }
/// ```
///
/// # After a lost reply
///
/// The function is never applied to what it wrote itself without that being known:
///
/// | the node, once the server has caught up | |
/// |---|---|
/// | was not written since | the write is repeated |
/// | has the next version and other data | the function is called with that data |
/// | has the next version and the data of this call | [`OutcomeUnknown`](ErrorKind::OutcomeUnknown), because another client may have written the same; done if the update is [`idempotent`](Self::idempotent) |
/// | was written several times, or deleted | [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) |
///
/// With [`exactly_once`](Self::exactly_once) the outcome is always found out while the session lives.
///
/// # Versions
///
/// The version counts changes, and begins again at 0 when a node is deleted and created again: the write may then
/// succeed over data that the function has not seen. With tokens below the node itself it cannot; see
/// [`exactly_once`](Self::exactly_once).
/// Versions may be negative after 2^31 changes. Version -1, which servers treat as any version, is required exactly,
/// too.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode) without [`or_create`](Self::or_create), [`NoAuth`](ErrorKind::NoAuth),
/// [`TooLarge`](ErrorKind::TooLarge).
/// [`TimedOut`](ErrorKind::TimedOut) if other clients wrote first at each attempt, until the deadline: nothing was
/// written.
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) as in the table above.
///
/// # Cancel safety
///
/// Not safe after the first poll, because a request in flight cannot be recalled: the data may still change. Read the
/// node afterwards.
///
/// # Session loss
///
/// A fatal error; [`Error::is_outcome_unknown`] returns whether a write was in flight.
///
/// # Cost
///
/// Two round trips; each conflict costs two more.
#[derive(Clone)]
#[must_use = "nothing is written until it is awaited"]
pub struct UpdateData<F> {
    target: Target,
    change: F,
    options: Options,
}

#[derive(Debug, Clone, Default)]
struct Options {
    /// The data that a missing node is created with.
    initial: Option<Vec<u8>>,
    /// What the caller has read: the data and its version.
    known: Option<(Bytes, i32)>,
    /// The transaction that has to have written the data.
    written_by: Option<i64>,
    is_idempotent: bool,
    tokens: Option<IdempotencyTokens>,
}

/// What became of a node; returned by [`UpdateData`].
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// The data after the call: what was written, or what was read if nothing was.
    pub data: Bytes,
    /// The stat of that data; `None` if the reply was lost, and a token showed that the data was written.
    pub stat: Option<Stat>,
    /// Whether this call wrote the data.
    pub is_written: bool,
    /// How often another client wrote first.
    pub conflicts: u32,
}

impl Session {
    /// Replaces the data of a node by what `change` makes of it, and begins again if another client wrote meanwhile.
    ///
    /// `change` is called with the current data, once for each attempt. If it returns `None`, nothing is written.
    pub fn update<F>(&self, path: impl IntoNodePath, change: F) -> UpdateData<F>
    where
        F: FnMut(&[u8]) -> Option<Vec<u8>> + Send + 'static,
    {
        UpdateData {
            target: Target::new(self.handle().clone(), path),
            change,
            options: Options::default(),
        }
    }
}

impl<F> UpdateData<F> {
    /// Creates the node with the data `initial` if it does not exist, and missing parents, and then updates it.
    ///
    /// Other clients may see `initial`. The node is persistent, with the access rules of the session's view.
    pub fn or_create(mut self, initial: impl Into<Vec<u8>>) -> Self {
        self.options.initial = Some(initial.into());
        self
    }

    /// Begins with data that the caller knows from an earlier read or update, together with its version, instead of a
    /// read.
    ///
    /// If the node has another version, the call begins again with a read. With tokens
    /// [directly below](IdempotencyTokens::below_existing) the node, the data has to be from an update with the same
    /// tokens; it is ignored if they have no node yet, which would show that this is the same node.
    /// With [`unchanged_since`](Self::unchanged_since) it always reads.
    pub fn known(mut self, data: Bytes, version: i32) -> Self {
        self.options.known = Some((data, version));
        self
    }

    /// Writes only if the data is from the transaction `mzxid`, as [`Stat::mzxid`] of an earlier read says. Otherwise
    /// nothing is written.
    ///
    /// A transaction identifies the data even if the node was deleted and created again.
    pub fn unchanged_since(mut self, mzxid: i64) -> Self {
        self.options.written_by = Some(mzxid);
        self
    }

    /// Says that the data names its writer, so that a node that has exactly this data and the next version is taken
    /// for the work of this call when a reply was lost.
    pub fn idempotent(mut self) -> Self {
        self.options.is_idempotent = true;
        self
    }

    /// Commits each write together with an idempotency token, which shows its outcome if the reply is lost.
    ///
    /// If the tokens are [directly below](IdempotencyTokens::below_existing) the updated node, the version identifies the
    /// data as well: one of them is created before the data is read, each write checks that it still exists, and a node
    /// with children cannot be deleted and created again.
    pub fn exactly_once(mut self, tokens: &IdempotencyTokens) -> Self {
        self.options.tokens = Some(tokens.clone());
        self
    }

    /// Bounds the whole call; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl<F> IntoFuture for UpdateData<F>
where
    F: FnMut(&[u8]) -> Option<Vec<u8>> + Send + 'static,
{
    type Output = Result<Updated, Error>;
    type IntoFuture = OperationFuture<Updated>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            target,
            change,
            options,
        } = self;
        target.run(Operation::Update, async move |call, path| {
            update(&call, &path, change, options).await
        })
    }
}

impl<F> fmt::Debug for UpdateData<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpdateData")
            .field("target", &self.target)
            .field("creates", &self.options.initial.is_some())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Updated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Updated")
            .field("bytes", &self.data.len())
            .field("stat", &self.stat)
            .field("is_written", &self.is_written)
            .field("conflicts", &self.conflicts)
            .finish()
    }
}

/// What an attempt came to.
enum Attempt {
    Done(Updated),
    /// The next one has to read from a server that has caught up.
    Again,
    /// Another client wrote first, or deleted the node.
    Conflict,
}

async fn update(
    call: &Call,
    path: &NodePath,
    mut change: impl FnMut(&[u8]) -> Option<Vec<u8>>,
    mut options: Options,
) -> Result<Updated, Error> {
    let mut conflicts = 0;
    let mut is_fresh = false;
    loop {
        match attempt(call, path, &mut change, &mut options, is_fresh).await? {
            Attempt::Done(updated) => {
                return Ok(Updated {
                    conflicts,
                    ..updated
                });
            }
            Attempt::Again => {}
            Attempt::Conflict => {
                conflicts += 1;
                pause(call, path, conflicts).await?;
            }
        }
        is_fresh = true;
    }
}

async fn attempt(
    call: &Call,
    path: &NodePath,
    change: &mut impl FnMut(&[u8]) -> Option<Vec<u8>>,
    options: &mut Options,
    is_fresh: bool,
) -> Result<Attempt, Error> {
    // The fence has to exist before the data is read.
    let fence = match &options.tokens {
        Some(tokens) if tokens.are_below(path) => {
            if tokens.current_fence().is_none() {
                options.known = None;
            }
            match tokens.fence(call.deadline().remaining()).await {
                Ok(fence) => Some(fence),
                Err(error) if error.is_no_node() => return missing(call, path, options).await,
                Err(error) => return Err(error),
            }
        }
        _ => None,
    };
    let seen = match options.known.take() {
        Some((data, version)) if options.written_by.is_none() => Some((data, version, None)),
        _ => read(call, path, is_fresh).await?,
    };
    let Some((before, version, stat)) = seen else {
        if options.initial.is_none() && !is_fresh {
            return Ok(Attempt::Again);
        }
        return missing(call, path, options).await;
    };
    let is_changed = match (options.written_by, &stat) {
        // The caller has seen a later write than this server shows, which may lead no longer.
        (Some(mzxid), Some(stat)) if stat.mzxid < mzxid => {
            return Ok(if is_fresh {
                Attempt::Conflict
            } else {
                Attempt::Again
            });
        }
        (Some(mzxid), Some(stat)) => stat.mzxid != mzxid,
        _ => false,
    };
    let data = if is_changed { None } else { change(&before) };
    let Some(data) = data.map(Bytes::from) else {
        if !is_fresh {
            return Ok(Attempt::Again);
        }
        return Ok(Attempt::Done(Updated {
            data: before,
            stat,
            is_written: false,
            conflicts: 0,
        }));
    };
    match write(call, path, data.clone(), version, fence.as_ref(), options).await {
        Ok(stat) => Ok(Attempt::Done(Updated {
            data,
            stat,
            is_written: true,
            conflicts: 0,
        })),
        Err(error) if error.is_outcome_unknown() => Err(error),
        Err(error) if error.kind() == ErrorKind::BadVersion => Ok(Attempt::Conflict),
        Err(error) if error.is_no_node() => match (&options.tokens, fence) {
            // Another client has deleted the fence, and maybe the node.
            (Some(tokens), Some(fence)) => {
                tokens.forget_fence(&fence);
                Ok(Attempt::Conflict)
            }
            // The parent of the tokens is missing.
            (Some(_), None) if error.failed_part().is_none() => Err(error),
            _ if options.initial.is_some() => Ok(Attempt::Conflict),
            _ => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Creates the node that does not exist, if the caller wants that.
///
/// Whichever client creates it, it has the same data, so the outcome does not matter.
async fn missing(call: &Call, path: &NodePath, options: &Options) -> Result<Attempt, Error> {
    let Some(initial) = &options.initial else {
        return Err(call.error(path, ErrorKind::NoNode));
    };
    let target = Target::new(call.session().clone(), path.clone());
    let create = Create::new(target, initial.clone()).parents();
    match create.timeout(call.deadline().remaining()).await {
        Ok(_) => Ok(Attempt::Again),
        Err(error) if error.is_node_exists() => Ok(Attempt::Again),
        Err(error) if error.is_outcome_unknown() && !error.is_fatal() => Ok(Attempt::Conflict),
        // Only an initial node may be there, and none of the caller's data.
        Err(error) => Err(error.of_no_part()),
    }
}

/// Reads the data, its version and its stat; `None` if there is no node.
async fn read(
    call: &Call,
    path: &NodePath,
    is_fresh: bool,
) -> Result<Option<(Bytes, i32, Option<Stat>)>, Error> {
    let get = Request::GetData {
        path: call.wire(path),
        watch: false,
    };
    let found = if is_fresh {
        call.fresh(path, false, &get, Response::data).await?
    } else {
        match call.read(path, &get, Response::data).await {
            Ok(found) => Some(found),
            Err(error) if error.is_no_node() => None,
            Err(error) => return Err(error),
        }
    };
    Ok(found.map(|(data, stat)| (data, stat.version, Some(stat))))
}

/// Writes the data if the node has this version. The stat is `None` if the reply with it was lost.
async fn write(
    call: &Call,
    path: &NodePath,
    data: Bytes,
    version: i32,
    fence: Option<&NodePath>,
    options: &Options,
) -> Result<Option<Stat>, Error> {
    check_size(call, path, &data, 0)?;
    let data = data.into();
    let Some(tokens) = &options.tokens else {
        let written = set(call, path, data, Some(version), options.is_idempotent).await;
        return written.map(Some);
    };
    let mut transaction = Transaction::new(call.session().clone());
    if let Some(fence) = fence {
        transaction = transaction.check(fence);
    }
    transaction = transaction.set_exactly(path, data, version);
    let committed = tokens.commit(transaction.timeout(call.deadline().remaining()));
    Ok(committed
        .await?
        .results()
        .iter()
        .find_map(|result| match result {
            MultiResult::Set(stat) => Some(*stat),
            _ => None,
        }))
}

/// Pauses after another client wrote first.
async fn pause(call: &Call, path: &NodePath, conflicts: u32) -> Result<(), Error> {
    let pause = CONFLICTS.pause(conflicts, Duration::ZERO, || call.engine().chance());
    if call.deadline().pause(pause.unwrap_or_default()).await {
        return Ok(());
    }
    let detail = format!("another client wrote first at each of {conflicts} attempts");
    Err(call.error(path, ErrorKind::TimedOut).detail(detail))
}

const CONFLICTS: RetryPolicy = RetryPolicy::exponential(Duration::from_millis(4))
    .capped(Duration::from_secs(1))
    .jitter(Jitter::Full);
