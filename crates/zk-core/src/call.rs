//! One call: attempts, pauses and the deadline over all of them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use zk_wire::NodePath;

use crate::deadline::Deadline;
use crate::engine::Engine;
use crate::engine::catch_up::CatchUp;
use crate::engine::fresh_read::read_fresh;
use crate::error::{Error, ErrorClass, ErrorKind, Operation};
use crate::session_handle::SessionHandle;
use crate::transport::{Request, Response, TransportError};

/// Whether a request may be repeated after its reply was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It is a read.
    Read,
    /// It is a read, and the caller has another way to read the same.
    ReadOnce,
    /// It is a write whose second reply shows whether the first one was applied.
    Write,
    /// It is a write that must not be applied twice.
    Never,
}

impl Repeat {
    const fn is_read(self) -> bool {
        matches!(self, Self::Read | Self::ReadOnce)
    }
}

/// The outcome of a write with a lost reply, as the nodes show it.
#[derive(Debug)]
pub(crate) enum WriteOutcome<T> {
    /// It was applied, or the nodes are in the requested state anyway.
    Done(T),
    /// It was not and will not be applied: it is repeated.
    NotApplied,
    /// It may have been applied. This request is safe in either case and replaces it.
    Instead(Request),
    /// It was not applied, or cannot be any more, for this reason.
    Refused(Error),
    /// The nodes do not show it.
    Unknown(&'static str),
}

/// A call in progress: one or more requests of one operation under one deadline.
#[derive(Debug)]
pub(crate) struct Call {
    session: SessionHandle,
    operation: Operation,
    deadline: Deadline,
    /// How often the connection broke as after a request that the server does not know.
    maybe_too_old: AtomicU32,
}

/// The reply to a request, and whether an earlier attempt may have been applied too.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) result: Result<T, Error>,
    pub(crate) was_in_doubt: bool,
    attempts: u32,
}

impl Call {
    pub(crate) fn new(
        session: SessionHandle,
        operation: Operation,
        timeout: Option<Duration>,
    ) -> Self {
        let deadline =
            Deadline::after(timeout.unwrap_or_else(|| session.defaults().operation_timeout));
        session.engine().counters.call_began();
        Self {
            session,
            operation,
            deadline,
            maybe_too_old: AtomicU32::new(0),
        }
    }

    /// Returns this call with errors of another operation.
    pub(crate) fn of(&self, operation: Operation) -> Self {
        Self {
            session: self.session.clone(),
            operation,
            deadline: self.deadline,
            maybe_too_old: AtomicU32::new(0),
        }
    }

    pub(crate) fn session(&self) -> &SessionHandle {
        &self.session
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.session.engine()
    }

    pub(crate) fn deadline(&self) -> Deadline {
        self.deadline
    }

    /// Returns the path that the servers know for a path below the namespace.
    pub(crate) fn wire(&self, path: &NodePath) -> NodePath {
        self.session.defaults().wire(path)
    }

    /// Sends a request that concerns `path`, and repeats it as far as `repeat` and the policy allow, until there is a
    /// reply or the deadline has passed. `read` extracts the result from the reply, or returns `None` if its kind is
    /// wrong.
    pub(crate) async fn request<T>(
        &self,
        path: &NodePath,
        repeat: Repeat,
        request: &Request,
        read: impl Fn(Response) -> Option<T>,
    ) -> Answer<T> {
        let engine = self.engine();
        let mut attempts = 0;
        let mut in_doubt = false;
        let mut last: Option<TransportError> = None;
        loop {
            let answer = |result, was_in_doubt| Answer {
                result,
                was_in_doubt,
                attempts,
            };
            let connected = match engine.connection() {
                Some(connected) => Some(connected),
                None => self.deadline.bound(engine.connected()).await,
            };
            match connected {
                Some(Ok(())) => {}
                Some(Err(ending)) => {
                    let fault = TransportError::NotSent(ending);
                    return answer(
                        Err(self.failure(path, in_doubt, attempts, &fault)),
                        in_doubt,
                    );
                }
                None => {
                    return answer(
                        Err(self.unsent(path, in_doubt, attempts, last.as_ref())),
                        in_doubt,
                    );
                }
            }
            if self.deadline.remaining().is_zero() {
                let error = self.unsent(path, in_doubt, attempts, last.as_ref());
                return answer(Err(error), in_doubt);
            }
            attempts += 1;
            let answer = |result, was_in_doubt| Answer {
                result,
                was_in_doubt,
                attempts,
            };
            tracing::Span::current().record("attempts", attempts);
            let sent = engine.send_by(request.clone(), self.deadline.at());
            let fault = match sent.await {
                Ok(response) => {
                    let kind = response.name();
                    match read(response) {
                        Some(value) => return answer(Ok(value), in_doubt),
                        None => TransportError::wrong_reply(kind),
                    }
                }
                Err(TransportError::TakenBack) => {
                    let attempts = attempts - 1;
                    let error = self.unsent(path, in_doubt, attempts, last.as_ref());
                    return Answer {
                        attempts,
                        ..answer(Err(error), in_doubt)
                    };
                }
                Err(TransportError::Unanswered) => {
                    let in_doubt = in_doubt || !repeat.is_read();
                    return answer(Err(self.unanswered(path, repeat, attempts)), in_doubt);
                }
                Err(fault) => fault,
            };
            let was_in_doubt = in_doubt;
            in_doubt |= !repeat.is_read() && may_be_applied(&fault);
            if let TransportError::MaybeTooOld { .. } = fault {
                self.maybe_too_old.fetch_add(1, Ordering::Relaxed);
            }
            let policy = &self.session.defaults().retry;
            let pause = (may_retry(repeat, &fault) && !self.is_too_new())
                .then(|| policy.pause(attempts, self.deadline.elapsed(), || engine.chance()))
                .flatten();
            let goes_on = match pause {
                Some(pause) => self.deadline.pause(pause).await,
                None => false,
            };
            if !goes_on {
                return answer(
                    Err(self.failure(path, in_doubt, attempts, &fault)),
                    was_in_doubt,
                );
            }
            engine.counters.request_repeated();
            tracing::debug!(attempts, ?fault, "repeating the request");
            last = Some(fault);
        }
    }

    /// Sends a write. If its reply is lost, `read_back` determines the outcome; its argument is the newest transaction
    /// that the session had seen before.
    ///
    /// The write is repeated only if `read_back` allows it, so it never undoes what other clients have written since.
    pub(crate) async fn write<T, F>(
        &self,
        path: &NodePath,
        mut request: Request,
        read: impl Fn(Response) -> Option<T>,
        read_back: impl Fn(i64) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<WriteOutcome<T>, Error>>,
    {
        let seen = self.engine().newest_zxid();
        let mut attempts = 0;
        let mut in_doubt = false;
        loop {
            let answer = self.request(path, Repeat::Never, &request, &read).await;
            attempts += answer.attempts;
            tracing::Span::current().record("attempts", attempts);
            let error = match answer.result {
                Ok(value) => return Ok(value),
                Err(error) => error.attempts_made(attempts),
            };
            if !error.is_outcome_unknown() || error.is_fatal() {
                return Err(match error.class() {
                    _ if !in_doubt => error,
                    // This attempt was not sent or not accepted, but an earlier one may have been.
                    ErrorClass::Recoverable => self
                        .error(path, ErrorKind::OutcomeUnknown)
                        .attempts_made(attempts),
                    ErrorClass::Outcome | ErrorClass::Fatal => error.maybe_applied(),
                });
            }
            if !self.may_try_again(attempts).await {
                return Err(error);
            }
            in_doubt = match read_back(seen).await {
                Ok(WriteOutcome::Done(value)) => return Ok(value),
                Ok(WriteOutcome::NotApplied) => false,
                Ok(WriteOutcome::Instead(other)) => {
                    request = other;
                    true
                }
                Ok(WriteOutcome::Refused(refusal)) => return Err(refusal.attempts_made(attempts)),
                Ok(WriteOutcome::Unknown(why)) => return Err(error.detail(why)),
                // The error of the write says more than that of the read, unless the session is lost.
                Err(reading) if reading.is_fatal() => return Err(reading.maybe_applied()),
                Err(_) => return Err(error),
            };
            self.engine().counters.request_repeated();
            tracing::debug!(attempts, in_doubt, "repeating the request");
        }
    }

    /// Repeats requests about a write in doubt until there is a reply or the deadline has passed.
    pub(crate) async fn until_settled<T, F>(
        &self,
        path: &NodePath,
        ask: impl Fn() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, TransportError>>,
    {
        self.until_answered(path, true, ask).await
    }

    /// Repeats requests that only read until there is a reply. `in_doubt` means that a write may have been applied
    /// before.
    async fn until_answered<T, F>(
        &self,
        path: &NodePath,
        in_doubt: bool,
        ask: impl Fn() -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, TransportError>>,
    {
        let mut attempts = 0;
        let mut last = None;
        loop {
            let asked = async {
                self.engine()
                    .connected()
                    .await
                    .map_err(TransportError::NotSent)?;
                attempts += 1;
                ask().await
            };
            let fault = match self.deadline.bound(asked).await {
                Some(Ok(value)) => return Ok(value),
                Some(Err(
                    fault @ (TransportError::Ended(_)
                    | TransportError::NotSent(_)
                    | TransportError::Unreadable { .. }
                    | TransportError::Refused(..)),
                )) => return Err(self.failure(path, in_doubt, attempts, &fault)),
                Some(Err(fault)) => fault,
                None if in_doubt => return Err(self.error(path, ErrorKind::OutcomeUnknown)),
                None if self.engine().is_connected() => {
                    return Err(self.unanswered(path, Repeat::Read, attempts));
                }
                None => return Err(self.unsent(path, false, attempts, last.as_ref())),
            };
            if !self.may_try_again(attempts).await {
                return Err(self.failure(path, in_doubt, attempts, &fault));
            }
            last = Some(fault);
        }
    }

    /// Reads from a server that has caught up, or returns `None` if there is no such node. `in_doubt` means that the
    /// read determines the outcome of a write that may have been applied. `read` extracts the result from the reply.
    pub(crate) async fn fresh<T>(
        &self,
        path: &NodePath,
        in_doubt: bool,
        request: &Request,
        read: impl Fn(Response) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let (engine, read) = (self.engine(), &read);
        let wire = &self.wire(path);
        let with = if in_doubt {
            CatchUp::Proposed
        } else {
            CatchUp::Committed
        };
        let ask = || async move {
            match read_fresh(engine, wire, with, request.clone()).await? {
                Ok(response) => {
                    let kind = response.name();
                    let value = read(response).map(Some);
                    value.ok_or_else(|| TransportError::wrong_reply(kind))
                }
                Err(TransportError::Refused(ErrorKind::NoNode, _)) => Ok(None),
                Err(fault) => Err(fault),
            }
        };
        self.until_answered(path, in_doubt, ask).await
    }

    /// Pauses before the next attempt of the whole operation. Returns false to give up after `attempts`.
    pub(crate) async fn may_try_again(&self, attempts: u32) -> bool {
        if self.is_too_new() {
            return false;
        }
        let policy = &self.session.defaults().retry;
        match policy.pause(attempts, self.deadline.elapsed(), || self.engine().chance()) {
            Some(pause) => self.deadline.pause(pause).await,
            None => false,
        }
    }

    /// Returns whether a request of the call is most likely unknown to the servers: the connection broke at it twice,
    /// which is not by chance.
    fn is_too_new(&self) -> bool {
        self.maybe_too_old.load(Ordering::Relaxed) > 1
    }

    /// Sends a read.
    pub(crate) async fn read<T>(
        &self,
        path: &NodePath,
        request: &Request,
        read: impl Fn(Response) -> Option<T>,
    ) -> Result<T, Error> {
        self.request(path, Repeat::Read, request, read).await.result
    }

    /// Returns how many bytes the chroot and the namespace add to each path on the wire.
    pub(crate) fn prefix_len(&self) -> usize {
        match &self.session.defaults().namespace {
            namespace if namespace.is_root() => 0,
            namespace => namespace.as_str().len(),
        }
    }

    /// Creates an error of this call that is not from a server.
    pub(crate) fn error(&self, path: &NodePath, kind: ErrorKind) -> Error {
        Error::new(self.operation, Some(path), kind)
    }

    /// Creates the error for a fault that ends the call. `in_doubt` means that a write may have been applied.
    pub(crate) fn failure(
        &self,
        path: &NodePath,
        in_doubt: bool,
        attempts: u32,
        fault: &TransportError,
    ) -> Error {
        let unknown = |kind| {
            if in_doubt {
                ErrorKind::OutcomeUnknown
            } else {
                kind
            }
        };
        let error = |kind| self.error(path, kind).attempts_made(attempts);
        match fault {
            TransportError::Refused(kind, detail) => match detail {
                Some(detail) => error(*kind).detail(detail),
                None => error(*kind),
            },
            TransportError::RefusedAt { index, kind } => error(*kind).failed_at(*index),
            TransportError::Later(kind) if in_doubt => error(*kind).maybe_applied(),
            TransportError::Later(kind) => error(*kind),
            TransportError::Server(cause) => {
                error(unknown(ErrorKind::ServerError)).caused_by(Some(cause.clone()))
            }
            TransportError::Unreadable { kind, why } if in_doubt => {
                error(unknown(*kind)).caused_by(Some(why.clone()))
            }
            TransportError::Unreadable { kind, why } => error(*kind).detail(why),
            TransportError::Lost(cause) => {
                error(unknown(ErrorKind::ConnectionLost)).caused_by(Some(cause.clone()))
            }
            TransportError::MaybeTooOld { needs, why } => error(unknown(ErrorKind::ConnectionLost))
                .detail(format!(
                    "servers before ZooKeeper {needs} close the connection at this request; SessionBuilder::assume_release is for them"
                ))
                .caused_by(Some(why.clone())),
            TransportError::Ended(ending) | TransportError::NotSent(ending) if in_doubt => {
                error((*ending).into()).maybe_applied()
            }
            TransportError::Ended(ending) | TransportError::NotSent(ending) => error((*ending).into()),
            TransportError::TakenBack | TransportError::Unanswered => {
                error(unknown(ErrorKind::TimedOut))
            }
        }
    }

    /// Creates the error of a call whose request was not sent, or not sent again, by the deadline: there was no connection,
    /// or it accepted no more requests. `last` is the fault of the attempt before.
    fn unsent(
        &self,
        path: &NodePath,
        in_doubt: bool,
        attempts: u32,
        last: Option<&TransportError>,
    ) -> Error {
        if self.engine().is_connected() {
            let kind = if in_doubt {
                ErrorKind::OutcomeUnknown
            } else {
                ErrorKind::TimedOut
            };
            let again = if attempts == 0 { "" } else { " again" };
            let detail = format!("not sent{again} within {:?}", self.deadline.allowed());
            return self
                .error(path, kind)
                .attempts_made(attempts)
                .detail(detail);
        }
        let error = match last {
            Some(fault) => self.failure(path, in_doubt, attempts, fault),
            None => self.error(path, ErrorKind::NotConnected),
        };
        error.detail(self.waited_for())
    }

    /// Creates the error of a request without a reply by the deadline.
    fn unanswered(&self, path: &NodePath, repeat: Repeat, attempts: u32) -> Error {
        let kind = match repeat {
            Repeat::Read | Repeat::ReadOnce => ErrorKind::TimedOut,
            Repeat::Write | Repeat::Never => ErrorKind::OutcomeUnknown,
        };
        let detail = if self.engine().is_connected() {
            format!("waited {:?} for the reply", self.deadline.allowed())
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
            self.engine().servers
        )
    }
}

/// Returns whether the request may be repeated after this fault.
fn may_retry(repeat: Repeat, fault: &TransportError) -> bool {
    match fault {
        TransportError::Later(_) => true,
        TransportError::Lost(_)
        | TransportError::MaybeTooOld { .. }
        | TransportError::Server(_) => {
            matches!(repeat, Repeat::Read | Repeat::Write)
        }
        TransportError::Refused(..)
        | TransportError::RefusedAt { .. }
        | TransportError::Ended(_)
        | TransportError::NotSent(_)
        | TransportError::Unreadable { .. }
        | TransportError::TakenBack
        | TransportError::Unanswered => false,
    }
}

/// Returns whether a write that was submitted may have been applied after this fault.
fn may_be_applied(fault: &TransportError) -> bool {
    match fault {
        TransportError::Lost(_)
        | TransportError::MaybeTooOld { .. }
        | TransportError::Server(_)
        | TransportError::Ended(_)
        | TransportError::Unreadable { .. }
        | TransportError::Unanswered => true,
        TransportError::Refused(..)
        | TransportError::RefusedAt { .. }
        | TransportError::Later(_)
        | TransportError::NotSent(_)
        | TransportError::TakenBack => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::SessionEnd;

    #[test]
    fn only_what_cannot_have_been_applied_twice_is_retried() {
        let lost = || TransportError::Lost(String::new());
        let server = || TransportError::Server(String::new());
        for (fault, read, write) in [
            (lost(), true, false),
            (server(), true, false),
            (TransportError::Later(ErrorKind::Throttled), true, true),
            (
                TransportError::Refused(ErrorKind::NoNode, None),
                false,
                false,
            ),
            (TransportError::Ended(SessionEnd::Expired), false, false),
        ] {
            assert_eq!(may_retry(Repeat::Read, &fault), read, "{fault:?}");
            assert_eq!(may_retry(Repeat::Write, &fault), read, "{fault:?}");
            assert_eq!(may_retry(Repeat::Never, &fault), write, "{fault:?}");
            assert_eq!(may_retry(Repeat::ReadOnce, &fault), write, "{fault:?}");
        }
    }
}
