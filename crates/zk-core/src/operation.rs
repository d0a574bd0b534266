//! The operations of a session, as builders that end in `.await`.

use std::pin::Pin;
use std::time::Duration;

use tracing::Instrument;

use crate::acl::Acl;
use crate::call::Call;
use crate::engine::watch_quota::MOST_WATCHED;
use crate::engine::watch_quota::WatchQuota;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::outcome::ANY_VERSION;
use crate::path::NodePath;
use crate::path::ParsePathError;
use crate::session::Session;
use crate::transport::Watched;
use crate::watch::Reserved;
use crate::watch::Watch;

mod access;
mod create;
mod delete;
mod read;
mod transaction;
mod value;
mod wait;
mod write;

pub use access::GetAcl;
pub use access::SetAcl;
pub use create::Create;
pub use create::CreateClaimed;
pub use create::CreateOwned;
pub use create::IdPlace;
pub use create::OwnedNode;
pub use delete::Delete;
pub use read::Exists;
pub use read::ExistsWatched;
pub use read::Get;
pub use read::GetStat;
pub use read::GetWatched;
pub use read::List;
pub use read::ListWatched;
pub use read::Sync;
pub use transaction::Committed;
pub use transaction::Transaction;
pub use value::GetDecoded;
pub use value::ReadError;
pub use wait::WaitForCreation;
pub use wait::WaitForDeletion;
pub use write::Set;

/// The future of an operation. It may move between threads and owns all it needs.
pub type OperationFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// What every operation has: a session, a path and a deadline.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    session: Session,
    path: Result<NodePath, ParsePathError>,
    timeout: Option<Duration>,
}

impl Target {
    pub(crate) fn new<P>(session: Session, path: P) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        Self {
            session,
            path: path.try_into().map_err(Into::into),
            timeout: None,
        }
    }

    fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn timeout(&mut self, timeout: Duration) {
        self.timeout = Some(timeout);
    }

    /// Runs an operation: the deadline starts and the span opens when the future is first polled.
    pub(crate) fn run<T, F>(
        self,
        operation: Operation,
        body: impl FnOnce(Call, NodePath) -> F + Send + 'static,
    ) -> OperationFuture<T>
    where
        T: 'static,
        F: Future<Output = Result<T, Error>> + Send,
    {
        let Self {
            session,
            path,
            timeout,
        } = self;
        Box::pin(async move {
            let path = path.map_err(|source| Error::invalid_path(operation, source))?;
            let span = tracing::debug_span!(
                "zk.operation",
                %operation,
                %path,
                session = %session.id(),
                attempts = tracing::field::Empty,
                outcome = tracing::field::Empty,
            );
            let call = Call::new(session, operation, timeout);
            check_size(&call, &path, &[], 0)?;
            let result = body(call, path).instrument(span.clone()).await;
            match &result {
                Ok(_) => span.record("outcome", "ok"),
                Err(error) => span.record("outcome", tracing::field::debug(error.kind())),
            };
            result
        })
    }
}

/// Refuses the one version that servers take for any: it is got by counting on, not by leaving it away.
fn check_version(call: &Call, path: &NodePath, version: Option<i32>) -> Result<(), Error> {
    if version == Some(ANY_VERSION) {
        return Err(call
            .error(path, ErrorKind::InvalidArgument)
            .detail(NOT_A_VERSION));
    }
    Ok(())
}

const NOT_A_VERSION: &str =
    "version -1 means any version to servers; to ask for none, leave the version away";

/// Reserves a part of the session's watch quota and registers a one-shot watch on the node.
fn reserve_watch(call: &Call, path: &NodePath) -> Result<Reserved, Error> {
    let bytes = path.as_str().len() + call.prefix_len();
    let share = WatchQuota::take(&call.engine().watched, bytes).map_err(|taken| {
        call.error(path, ErrorKind::TooManyWatches).detail(format!(
            "{taken} of {MOST_WATCHED} bytes of paths are taken; drop watches, or use another session"
        ))
    })?;
    let claim = call.engine().claims().begin(call.wire(path));
    Ok(Reserved { share, claim })
}

/// The watch that was set with a read.
fn watch(call: &Call, watched: Watched, reserved: Reserved, waits_for_children: bool) -> Watch {
    call.engine().counters.watches.add();
    Watch::new(watched, reserved, waits_for_children)
}

/// Refuses a request that would make the server close the connection.
fn check_size(call: &Call, path: &NodePath, data: &[u8], acl_bytes: usize) -> Result<(), Error> {
    let size = data.len() + path.as_str().len() + call.prefix_len() + acl_bytes + FRAME_OVERHEAD;
    if size <= MAX_REQUEST {
        return Ok(());
    }
    let most = MAX_REQUEST.saturating_sub(size - data.len());
    let detail = if data.is_empty() {
        format!("path and acl take {size} bytes; the server reads at most {MAX_REQUEST}")
    } else {
        format!(
            "{} bytes of data; with this path at most {most} fit, so store it in pieces or elsewhere",
            data.len()
        )
    };
    Err(call.error(path, ErrorKind::TooLarge).detail(detail))
}

/// Refuses a request of several parts that would make the server close the connection.
fn check_frame(call: &Call, path: &NodePath, size: usize) -> Result<(), Error> {
    let size = size + FRAME_OVERHEAD;
    if size <= MAX_REQUEST {
        return Ok(());
    }
    Err(call.error(path, ErrorKind::TooLarge).detail(format!(
        "the parts take {size} bytes together; the server reads at most {MAX_REQUEST}"
    )))
}

/// What the access rules take in a request.
fn acl_bytes(acl: &Acl) -> usize {
    let entries = acl.entries().iter();
    entries
        .map(|entry| entry.scheme().len() + entry.id().len() + 12)
        .sum()
}

/// The server's default `jute.maxbuffer`.
const MAX_REQUEST: usize = 0xf_ffff;
/// Room for the header, lengths, flags and time to live.
const FRAME_OVERHEAD: usize = 64;
