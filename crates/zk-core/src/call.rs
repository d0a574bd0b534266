//! One call: attempts, pauses and the deadline over all of them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::path::NodePath;
use crate::session::Shared;
use crate::transport::Fault;
use crate::transport::Reply;
use crate::transport::Transport;

/// Whether a request may be sent again when the answer to it was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// A read.
    Read,
    /// A write that leaves the same behind however often it is applied.
    Idempotent,
    /// Any other write.
    Never,
}

/// A call in progress: one or more requests of one operation under one deadline.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    shared: Arc<Shared>,
    operation: Operation,
    deadline: Deadline,
}

impl Call {
    pub(crate) fn new(
        shared: Arc<Shared>,
        operation: Operation,
        timeout: Option<Duration>,
    ) -> Self {
        let deadline = Deadline::after(timeout.unwrap_or(shared.operation_timeout));
        Self {
            shared,
            operation,
            deadline,
        }
    }

    /// Sends one request, and again as far as `repeat` allows, until there is an answer or the deadline comes.
    pub(crate) async fn request<T>(
        &self,
        path: &NodePath,
        repeat: Repeat,
        issue: impl Fn(&dyn Transport) -> Reply<T>,
    ) -> Result<T, Error> {
        let transport = &*self.shared.transport;
        let mut attempts = 0;
        let mut in_doubt = false;
        let mut last: Option<Fault> = None;
        loop {
            match self.deadline.bound(transport.connected()).await {
                Some(Ok(())) => {}
                Some(Err(fault)) => return Err(self.failure(path, in_doubt, attempts, &fault)),
                None => return Err(self.unsent(path, in_doubt, attempts, last.as_ref())),
            }
            if self.deadline.remaining().is_zero() {
                return Err(self.too_late(path, in_doubt, attempts));
            }
            attempts += 1;
            tracing::Span::current().record("attempts", attempts);
            let fault = match self.deadline.bound(issue(transport)).await {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(fault)) => fault,
                None => return Err(self.unanswered(path, repeat, attempts)),
            };
            in_doubt |= repeat != Repeat::Read && may_be_applied(&fault);
            if !may_retry(repeat, &fault) || !self.deadline.pause(pause_before(attempts)).await {
                return Err(self.failure(path, in_doubt, attempts, &fault));
            }
            tracing::debug!(attempts, ?fault, "repeating the request");
            last = Some(fault);
        }
    }

    /// The bytes the chroot adds to every path on the wire.
    pub(crate) fn chroot_len(&self) -> usize {
        self.shared.servers.chroot().as_str().len()
    }

    /// An error of this call that no server gave.
    pub(crate) fn error(&self, path: &NodePath, kind: ErrorKind) -> Error {
        Error::new(self.operation, Some(path), kind)
    }

    /// The error for a fault that ends the call; `in_doubt` when a write was sent and may have been applied.
    fn failure(&self, path: &NodePath, in_doubt: bool, attempts: u32, fault: &Fault) -> Error {
        let unknown = |kind| {
            if in_doubt {
                ErrorKind::OutcomeUnknown
            } else {
                kind
            }
        };
        let error = |kind| self.error(path, kind).attempts_made(attempts);
        match fault {
            Fault::Refused(kind, detail) => match detail {
                Some(detail) => error(*kind).detail(detail),
                None => error(*kind),
            },
            Fault::Later(kind) if in_doubt => error(*kind).maybe_applied(),
            Fault::Later(kind) => error(*kind),
            Fault::Server(cause) => {
                error(unknown(ErrorKind::ServerError)).caused_by(Some(cause.clone()))
            }
            Fault::Lost(cause) => {
                error(unknown(ErrorKind::ConnectionLost)).caused_by(Some(cause.clone()))
            }
            Fault::Ended(ending) if in_doubt => error(ending.kind()).maybe_applied(),
            Fault::Ended(ending) => error(ending.kind()),
        }
    }

    /// The error for a call that found no connection until the deadline.
    fn unsent(
        &self,
        path: &NodePath,
        in_doubt: bool,
        attempts: u32,
        last: Option<&Fault>,
    ) -> Error {
        match last {
            Some(fault) => self
                .failure(path, in_doubt, attempts, fault)
                .detail(self.waited_for()),
            None => self
                .error(path, ErrorKind::NotConnected)
                .detail(self.waited_for()),
        }
    }

    /// The error for a call whose time was over before the request could be sent.
    fn too_late(&self, path: &NodePath, in_doubt: bool, attempts: u32) -> Error {
        let kind = if in_doubt {
            ErrorKind::OutcomeUnknown
        } else {
            ErrorKind::TimedOut
        };
        let sent = if attempts == 0 {
            "not sent"
        } else {
            "not sent again"
        };
        self.error(path, kind)
            .attempts_made(attempts)
            .detail(format!(
                "{sent}, the {:?} it was given were over",
                self.deadline.allowed()
            ))
    }

    /// The error for a request that was sent and not answered by the deadline.
    fn unanswered(&self, path: &NodePath, repeat: Repeat, attempts: u32) -> Error {
        let kind = match repeat {
            Repeat::Read => ErrorKind::TimedOut,
            Repeat::Idempotent | Repeat::Never => ErrorKind::OutcomeUnknown,
        };
        let detail = if self.shared.transport.is_connected() {
            format!("waited {:?} for the answer", self.deadline.allowed())
        } else {
            self.waited_for()
        };
        self.error(path, kind)
            .attempts_made(attempts)
            .detail(detail)
    }

    fn waited_for(&self) -> String {
        format!(
            "waited {:?} for a connection to {}",
            self.deadline.allowed(),
            self.shared.servers
        )
    }
}

/// Runs requests side by side: all are sent in their order before the first answer is awaited.
pub(crate) async fn join_all<T>(
    requests: impl IntoIterator<Item = impl Future<Output = T>>,
) -> Vec<T> {
    struct Slot<F, T> {
        future: Pin<Box<F>>,
        output: Option<T>,
    }
    let mut slots: Vec<_> = requests
        .into_iter()
        .map(|future| Slot {
            future: Box::pin(future),
            output: None,
        })
        .collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for slot in slots.iter_mut().filter(|slot| slot.output.is_none()) {
            match slot.future.as_mut().poll(context) {
                Poll::Ready(output) => slot.output = Some(output),
                Poll::Pending => pending = true,
            }
        }
        if pending {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    slots.into_iter().filter_map(|slot| slot.output).collect()
}

/// Whether the request may be sent once more after this fault.
fn may_retry(repeat: Repeat, fault: &Fault) -> bool {
    match fault {
        Fault::Later(_) => true,
        Fault::Lost(_) | Fault::Server(_) => repeat != Repeat::Never,
        Fault::Refused(..) | Fault::Ended(_) => false,
    }
}

/// Whether a write that was sent may have been applied after this fault.
fn may_be_applied(fault: &Fault) -> bool {
    match fault {
        Fault::Lost(_) | Fault::Server(_) | Fault::Ended(_) => true,
        Fault::Refused(..) | Fault::Later(_) => false,
    }
}

/// Doubles from 20 ms and stays at one second.
fn pause_before(attempts: u32) -> Duration {
    (FIRST_PAUSE
        * 2_u32
            .saturating_pow(attempts.saturating_sub(1))
            .min(1 << 10))
    .min(LONGEST_PAUSE)
}

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
