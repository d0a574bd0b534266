//! Starts an operation: parses its path, opens its span and creates its call.

use std::pin::Pin;
use std::time::Duration;

use tracing::Instrument;
use zk_wire::{IntoNodePath, NodePath, ParsePathError};

use super::request_checks::check_size;
use crate::call::Call;
use crate::error::{Error, Operation};
use crate::session_handle::SessionHandle;

/// Gives builders that have a target and nothing else what they have in common: a deadline, and `.await`, which runs the
/// function behind the arrow.
macro_rules! operations {
    ($($builder:ident => $operation:ident $run:ident -> $output:ty;)*) => { $(
        impl $builder {
            pub(crate) fn new(target: Target) -> Self {
                Self { target }
            }

            /// Bounds the whole call; the default is the session's operation timeout.
            pub fn timeout(mut self, timeout: Duration) -> Self {
                self.target.timeout(timeout);
                self
            }
        }

        impl IntoFuture for $builder {
            type Output = Result<$output, Error>;
            type IntoFuture = OperationFuture<$output>;

            fn into_future(self) -> Self::IntoFuture {
                self.target.run(Operation::$operation, $run)
            }
        }
    )* };
}
pub(super) use operations;

/// The future of an operation. It may move between threads and owns all it needs.
pub type OperationFuture<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// What every operation has: a session, a path and a deadline.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    session: SessionHandle,
    pub(super) path: Result<NodePath, ParsePathError>,
    timeout: Option<Duration>,
}

impl Target {
    pub(crate) fn new(session: SessionHandle, path: impl IntoNodePath) -> Self {
        Self {
            session,
            path: path.into_node_path(),
            timeout: None,
        }
    }

    pub(crate) fn session(&self) -> &SessionHandle {
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
            observed(operation, &span, body(call, path)).await
        })
    }
}

/// Runs the body of an operation in its span, and records how it ended.
#[cfg_attr(
    not(feature = "metrics"),
    expect(unused_variables, reason = "the operation is a label of a metric")
)]
pub(super) async fn observed<T>(
    operation: Operation,
    span: &tracing::Span,
    body: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    #[cfg(feature = "metrics")]
    let began = tokio::time::Instant::now();
    let result = body.instrument(span.clone()).await;
    match &result {
        Ok(_) => span.record("outcome", "ok"),
        Err(error) => span.record("outcome", tracing::field::debug(error.kind())),
    };
    #[cfg(feature = "metrics")]
    crate::metrics::operation_ended(operation, began.elapsed(), &result);
    result
}
