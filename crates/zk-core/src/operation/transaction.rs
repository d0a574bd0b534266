//! Several changes at once, or none.

use std::time::Duration;

use zk_wire::{Acl, IntoNodePath, NodePath, ParsePathError, Stat};

use super::request_checks::{NOT_A_VERSION, acl_bytes, check_frame};
use super::target::{OperationFuture, observed};
use super::write::conditional_set;
use crate::call::{Call, Repeat, WriteOutcome};
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Operation};
use crate::outcome::{ANY_VERSION, may_set_again};
use crate::session_handle::SessionHandle;
use crate::transport::{CreateMode, MultiOp, MultiResult, NewNode, NodeData, Request, Response};

/// Operations that are applied all or none; created by [`Session::transaction`](crate::Session::transaction).
///
/// The operations are applied in the order in which they were added, and each sees the effects of the ones before it.
/// Returns one [`MultiResult`] per operation.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), zk_core::Error> {
/// use zk_core::MultiResult;
///
/// let done = session
///     .transaction()
///     .check_version("/config", 7)
///     .create("/config/history/7", "before")
///     .set("/config", "after")
///     .commit()
///     .await?;
/// assert!(matches!(done[..], [MultiResult::Checked, MultiResult::Created { .. }, MultiResult::Set(_)]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is changed until it is committed"]
pub struct Transaction {
    session: SessionHandle,
    parts: Vec<MultiOp>,
    /// The paths of the operations as they were given.
    paths: Vec<NodePath>,
    wrong: Option<(usize, ParsePathError)>,
    timeout: Option<Duration>,
    /// Whether the first operation is that of an idempotency token, which is not counted among the others.
    has_token: bool,
}

impl Transaction {
    pub(crate) fn new(session: SessionHandle) -> Self {
        Self {
            session,
            parts: Vec::new(),
            paths: Vec::new(),
            wrong: None,
            timeout: None,
            has_token: false,
        }
    }

    /// Lets the transaction fail unless the node exists.
    pub fn check(self, path: impl IntoNodePath) -> Self {
        self.part(path, |path| MultiOp::Check {
            path,
            version: None,
        })
    }

    /// Lets the transaction fail unless the data of the node has this version.
    pub fn check_version(self, path: impl IntoNodePath, version: i32) -> Self {
        self.part(path, |path| MultiOp::Check {
            path,
            version: Some(version),
        })
    }

    /// Creates a persistent node, with the access rules of the session's view.
    pub fn create(self, path: impl IntoNodePath, data: impl Into<Vec<u8>>) -> Self {
        self.create_as(path, data, CreateMode::Persistent, None)
    }

    /// Creates an ephemeral node, with the access rules of the session's view.
    pub fn create_ephemeral(self, path: impl IntoNodePath, data: impl Into<Vec<u8>>) -> Self {
        self.create_as(path, data, CreateMode::Ephemeral, None)
    }

    /// Creates a node of any kind; without `acl` it has the access rules of the session's view.
    ///
    /// The path of a sequential node is in the answer.
    pub fn create_as(
        self,
        path: impl IntoNodePath,
        data: impl Into<Vec<u8>>,
        mode: CreateMode,
        acl: Option<Acl>,
    ) -> Self {
        let data = data.into().into();
        let acl = acl.unwrap_or_else(|| self.session.defaults().acl.clone());
        self.part(path, |path| {
            MultiOp::Create2(NewNode {
                path,
                data,
                mode,
                acl,
            })
        })
    }

    /// Replaces the data of a node, whatever its version.
    pub fn set(self, path: impl IntoNodePath, data: impl Into<Vec<u8>>) -> Self {
        let data = data.into().into();
        self.part(path, |path| MultiOp::SetData {
            path,
            data,
            version: None,
        })
    }

    /// Replaces the data of a node that has this version.
    pub fn set_version(
        self,
        path: impl IntoNodePath,
        data: impl Into<Vec<u8>>,
        version: i32,
    ) -> Self {
        let data = data.into().into();
        self.part(path, |path| MultiOp::SetData {
            path,
            data,
            version: Some(version),
        })
    }

    /// Replaces the data of a node that has this version, which may be -1. It adds one or two parts.
    pub(crate) fn set_exactly(mut self, path: &NodePath, data: NodeData, version: i32) -> Self {
        let wire = self.session.defaults().wire(path);
        for part in conditional_set(wire, data, version) {
            self.parts.push(part);
            self.paths.push(path.clone());
        }
        self
    }

    /// Deletes a node, whatever its version.
    pub fn delete(self, path: impl IntoNodePath) -> Self {
        self.part(path, |path| MultiOp::Delete {
            path,
            version: None,
        })
    }

    /// Deletes a node whose data has this version.
    pub fn delete_version(self, path: impl IntoNodePath, version: i32) -> Self {
        self.part(path, |path| MultiOp::Delete {
            path,
            version: Some(version),
        })
    }

    /// Bounds the whole call; the default is the operation timeout of the session's view.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn part(mut self, path: impl IntoNodePath, change: impl FnOnce(NodePath) -> MultiOp) -> Self {
        match path.into_node_path() {
            Ok(path) => {
                self.parts.push(change(self.session.defaults().wire(&path)));
                self.paths.push(path);
            }
            Err(error) => {
                let at = self.parts.len();
                self.wrong.get_or_insert((at, error));
            }
        }
        self
    }

    /// Applies all operations or none, and returns the result of each.
    ///
    /// Without operations it returns at once.
    ///
    /// After a lost reply, the transaction is repeated if it consists only of checks, or of checks and replacements of
    /// data without a version, each of another node.
    /// In the latter case the session reads the nodes once the server has caught up, and repeats the transaction under
    /// the versions that it found, if one of the nodes was not written since the last reply that this session received
    /// before, or if all of them have the data of this transaction.
    /// A repetition therefore never overwrites what another client has written in between. If a client has, and for any
    /// other transaction, the error is [`OutcomeUnknown`](ErrorKind::OutcomeUnknown).
    /// [`commit_marked`](Self::commit_marked) determines the outcome of any transaction.
    ///
    /// # Errors
    ///
    /// An error of the server names the operation that was refused: [`Error::failed_part`] counts from zero, and
    /// [`Error::path`] is its path.
    /// [`NoNode`](ErrorKind::NoNode), [`NodeExists`](ErrorKind::NodeExists), [`BadVersion`](ErrorKind::BadVersion),
    /// [`NotEmpty`](ErrorKind::NotEmpty), [`NoAuth`](ErrorKind::NoAuth), [`InvalidPath`](ErrorKind::InvalidPath),
    /// [`TooLarge`](ErrorKind::TooLarge), [`InvalidArgument`](ErrorKind::InvalidArgument) for version -1, which servers
    /// treat as any version: nothing was changed.
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) if it was sent and no reply arrived, or one whose results are not
    /// those of the operations.
    ///
    /// # Cancel safety
    ///
    /// Not safe after the first poll, because a request in flight cannot be recalled: the operations may still be
    /// applied, all or none.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub fn commit(self) -> OperationFuture<Vec<MultiResult>> {
        Box::pin(async move { self.in_span(self.clone().attempt()).await })
    }

    pub(crate) fn session(&self) -> &SessionHandle {
        &self.session
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.wrong.is_none()
    }

    /// Returns the deadline of a call that begins now.
    pub(crate) fn deadline(&self) -> Deadline {
        let default = self.session.defaults().operation_timeout;
        Deadline::after(self.timeout.unwrap_or(default))
    }

    /// Adds the operation of an idempotency token in front: of several operations that fail, a server reports the first.
    pub(crate) fn behind(mut self, token: MultiOp, path: NodePath) -> Self {
        self.parts.insert(0, token);
        self.paths.insert(0, path);
        if let Some((part, _)) = &mut self.wrong {
            *part += 1;
        }
        self.has_token = true;
        self
    }

    /// Runs a call that commits this transaction in a span of its own.
    pub(crate) async fn in_span<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        observed(Operation::Transaction, &self.span(), call).await
    }

    fn span(&self) -> tracing::Span {
        tracing::debug_span!(
            "zk.operation",
            operation = %Operation::Transaction,
            path = self.paths.first().map(tracing::field::display),
            parts = self.parts.len(),
            session = %self.session.id(),
            attempts = tracing::field::Empty,
            outcome = tracing::field::Empty,
        )
    }

    /// Sends the operations. With a token it sends them once; the token shows whether to repeat them.
    pub(crate) async fn attempt(self) -> Result<Vec<MultiResult>, Error> {
        let Self {
            session,
            parts,
            paths,
            wrong,
            timeout,
            has_token,
        } = self;
        let own = usize::from(has_token);
        let operations: Vec<Operation> = parts.iter().map(operation_of).collect();
        if let Some((part, source)) = wrong {
            return Err(Error::invalid_path(Operation::Transaction, source).failed_at(part));
        }
        let Some(first) = paths.get(own).or_else(|| paths.first()) else {
            return Ok(Vec::new());
        };
        let call = Call::new(session, Operation::Transaction, timeout);
        for (at, (part, path)) in parts.iter().zip(&paths).enumerate() {
            if let Some((kind, rule)) = problem_of(part) {
                return Err(call.error(path, kind).detail(rule).failed_at(at));
            }
        }
        let size = parts.iter().map(size_of).sum();
        check_frame(&call, first, size)?;
        let committed = |response| match response {
            Response::Committed(results) if fits(&operations, &results) => Some(results),
            _ => None,
        };
        let is_check = |part: &MultiOp| matches!(part, MultiOp::Check { .. });
        let result = match plain_sets(&parts) {
            Some(_) if !has_token => set_all(&call, first, parts, committed).await,
            _ => {
                let repeat = if parts.iter().all(is_check) {
                    Repeat::Write
                } else {
                    Repeat::Never
                };
                let request = Request::Multi(parts);
                let answer = call.request(first, repeat, &request, committed).await;
                match answer.result {
                    Err(error) if answer.was_in_doubt => Err(error.maybe_applied()),
                    result => result,
                }
            }
        };
        match result {
            Ok(changed) => Ok(changed
                .into_iter()
                .map(|changed| match changed {
                    MultiResult::Created { path, stat } => MultiResult::Created {
                        path: call.session().defaults().unwire(&path),
                        stat,
                    },
                    other => other,
                })
                .collect()),
            Err(error) => Err(match error.failed_part() {
                Some(part) => match (operations.get(part), paths.get(part)) {
                    (Some(operation), Some(path)) => {
                        let (part, count) = (part + 1 - own, paths.len() - own);
                        let which = match part {
                            0 => "the idempotency token".to_owned(),
                            part => format!("part {part} of {count}"),
                        };
                        error.about(*operation, path, which)
                    }
                    _ => error,
                },
                None => error,
            }),
        }
    }
}

/// Returns the operation that a part is without a transaction. A check reads the node.
fn operation_of(part: &MultiOp) -> Operation {
    match part {
        MultiOp::Check { .. } => Operation::Get,
        MultiOp::Create(_) | MultiOp::Create2(_) => Operation::Create,
        MultiOp::SetData { .. } => Operation::Set,
        MultiOp::Delete { .. } => Operation::Delete,
    }
}

/// Returns whether these are results of these operations, one of each. Callers rely on it.
fn fits(operations: &[Operation], results: &[MultiResult]) -> bool {
    let is_of = |(operation, result): (&Operation, &MultiResult)| {
        let of = match result {
            MultiResult::Checked => Operation::Get,
            MultiResult::Created { .. } => Operation::Create,
            MultiResult::Set(_) => Operation::Set,
            MultiResult::Deleted => Operation::Delete,
        };
        *operation == of
    };
    operations.len() == results.len() && operations.iter().zip(results).all(is_of)
}

fn problem_of(part: &MultiOp) -> Option<(ErrorKind, &'static str)> {
    match part {
        MultiOp::Create(create) | MultiOp::Create2(create) if create.path.is_root() => {
            Some((ErrorKind::InvalidArgument, "the root always exists"))
        }
        MultiOp::Create(create) | MultiOp::Create2(create) if create.acl.entries().is_empty() => {
            Some((ErrorKind::InvalidAcl, "it has no entry"))
        }
        MultiOp::Delete { path, .. } if path.is_root() => {
            Some((ErrorKind::InvalidArgument, "the root cannot be deleted"))
        }
        MultiOp::Check { version, .. }
        | MultiOp::SetData { version, .. }
        | MultiOp::Delete { version, .. }
            if *version == Some(ANY_VERSION) =>
        {
            Some((ErrorKind::InvalidArgument, NOT_A_VERSION))
        }
        _ => None,
    }
}

fn size_of(part: &MultiOp) -> usize {
    let (path, data, acl) = match part {
        MultiOp::Check { path, .. } | MultiOp::Delete { path, .. } => (path, 0, 0),
        MultiOp::SetData { path, data, .. } => (path, data.as_slice().len(), 0),
        MultiOp::Create(create) | MultiOp::Create2(create) => (
            &create.path,
            create.data.as_slice().len(),
            acl_bytes(&create.acl),
        ),
    };
    path.as_str().len() + data + acl + PART_OVERHEAD
}

/// The nodes and their new data, of parts that are checks and replacements without a version; `None` if there are
/// others, if there is none of these, or if one node is replaced twice.
fn plain_sets(parts: &[MultiOp]) -> Option<Vec<(NodePath, NodeData)>> {
    let mut sets: Vec<(NodePath, NodeData)> = Vec::new();
    for part in parts {
        match part {
            MultiOp::Check { .. } => {}
            MultiOp::SetData {
                path,
                data,
                version: None,
            } if sets.iter().all(|(other, _)| other != path) => {
                sets.push((path.clone(), data.clone()));
            }
            MultiOp::SetData { .. }
            | MultiOp::Create(_)
            | MultiOp::Create2(_)
            | MultiOp::Delete { .. } => return None,
        }
    }
    (!sets.is_empty()).then_some(sets)
}

/// Makes a transaction of [`plain_sets`], and again over what is found if its answer is lost and no other client has
/// written since.
async fn set_all(
    call: &Call,
    first: &NodePath,
    parts: Vec<MultiOp>,
    committed: impl Fn(Response) -> Option<Vec<MultiResult>>,
) -> Result<Vec<MultiResult>, Error> {
    let sets = &plain_sets(&parts).unwrap_or_default();
    let plain = &parts;
    let request = Request::Multi(plain.clone());
    let result = call.write(first, request, committed, |seen| async move {
        let mut found = Vec::with_capacity(sets.len());
        for (path, data) in sets {
            match read_again(call, first, path).await? {
                Some((now, stat)) => found.push((data.as_slice(), now, stat)),
                None => return Ok(WriteOutcome::Unknown("one of the nodes is gone")),
            }
        }
        let nodes: Vec<_> = found
            .iter()
            .map(|(data, now, stat)| (*data, &**now, stat))
            .collect();
        if !may_set_again(seen, &nodes) {
            return Ok(WriteOutcome::Unknown(CHANGED));
        }
        let mut versions = nodes.iter().map(|(.., stat)| stat.version);
        let again = plain.iter().cloned().map(|mut part| {
            if let MultiOp::SetData { version, .. } = &mut part {
                *version = versions.next();
            }
            part
        });
        Ok(WriteOutcome::Instead(Request::Multi(again.collect())))
    });
    result.await.map_err(|error| {
        let part = error.failed_part().and_then(|part| plain.get(part));
        match (error.kind(), part) {
            // No version was asked for: it is the one that was found, and others have written since.
            (ErrorKind::BadVersion, Some(MultiOp::SetData { .. })) => call
                .error(first, ErrorKind::OutcomeUnknown)
                .attempts_made(error.attempts())
                .detail(CHANGED),
            _ => error,
        }
    })
}

async fn read_again(
    call: &Call,
    first: &NodePath,
    wire: &NodePath,
) -> Result<Option<(bytes::Bytes, Stat)>, Error> {
    let get = Request::GetData {
        path: wire.clone(),
        watch: false,
    };
    call.fresh(first, true, &get, Response::data).await
}

const CHANGED: &str =
    "a node has changed, and its state does not show whether this transaction changed it";

/// Room for the header, lengths, flags and time to live of one part.
const PART_OVERHEAD: usize = 48;
