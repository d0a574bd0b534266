//! Several changes at once, or none.

use std::time::Duration;

use tracing::Instrument;

use super::request_checks::NOT_A_VERSION;
use super::request_checks::acl_bytes;
use super::request_checks::check_frame;
use super::target::OperationFuture;
use crate::acl::Acl;
use crate::call::Call;
use crate::call::Repeat;
use crate::call::WriteOutcome;
use crate::engine::cleanup::CleanupOnDrop;
use crate::engine::cleanup::Job;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::outcome::ANY_VERSION;
use crate::outcome::may_set_again;
use crate::path::NodePath;
use crate::path::ParsePathError;
use crate::session_handle::SessionHandle;
use crate::stat::Stat;
use crate::transport::Bytes;
use crate::transport::CreateMode;
use crate::transport::CreateRequest;
use crate::transport::Op;
use crate::transport::OpResult;
use crate::transport::Request;
use crate::transport::Response;

/// Operations that are applied all or none; created by [`Session::transaction`](crate::Session::transaction).
///
/// The operations are applied in the order in which they were added, and each sees the effects of the ones before it.
/// Returns one [`OpResult`] per operation.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), zk_core::Error> {
/// use zk_core::OpResult;
///
/// let done = session
///     .transaction()
///     .check_version("/config", 7)
///     .create("/config/history/7", "before")
///     .set("/config", "after")
///     .commit()
///     .await?;
/// assert!(matches!(done[..], [OpResult::Checked, OpResult::Created { .. }, OpResult::Set(_)]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is changed until it is committed"]
pub struct Transaction {
    session: SessionHandle,
    parts: Vec<Op>,
    /// The paths of the operations as they were given.
    paths: Vec<NodePath>,
    wrong: Option<(usize, ParsePathError)>,
    timeout: Option<Duration>,
}

impl Transaction {
    pub(crate) fn new(session: SessionHandle) -> Self {
        Self {
            session,
            parts: Vec::new(),
            paths: Vec::new(),
            wrong: None,
            timeout: None,
        }
    }

    /// Lets the transaction fail unless the node exists.
    pub fn check<P>(self, path: P) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        self.part(path, |path| Op::Check {
            path,
            version: None,
        })
    }

    /// Lets the transaction fail unless the data of the node has this version.
    pub fn check_version<P>(self, path: P, version: i32) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        self.part(path, |path| Op::Check {
            path,
            version: Some(version),
        })
    }

    /// Creates a persistent node, with the access rules of the session's view.
    pub fn create<P>(self, path: P, data: impl Into<Vec<u8>>) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let mode = CreateMode::Persistent {
            sequential: false,
            ttl: None,
        };
        self.create_as(path, data, mode, None)
    }

    /// Creates an ephemeral node, with the access rules of the session's view.
    pub fn create_ephemeral<P>(self, path: P, data: impl Into<Vec<u8>>) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        self.create_as(
            path,
            data,
            CreateMode::Ephemeral { sequential: false },
            None,
        )
    }

    /// Creates a node of any kind; without `acl` it has the access rules of the session's view.
    ///
    /// The path of a sequential node is in the answer.
    pub fn create_as<P>(
        self,
        path: P,
        data: impl Into<Vec<u8>>,
        mode: CreateMode,
        acl: Option<Acl>,
    ) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let data = data.into().into();
        let acl = acl.unwrap_or_else(|| self.session.defaults().acl.clone());
        self.part(path, |path| {
            Op::Create(CreateRequest {
                path,
                data,
                mode,
                acl,
            })
        })
    }

    /// Replaces the data of a node, whatever its version.
    pub fn set<P>(self, path: P, data: impl Into<Vec<u8>>) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let data = data.into().into();
        self.part(path, |path| Op::Set {
            path,
            data,
            version: None,
        })
    }

    /// Replaces the data of a node that has this version.
    pub fn set_version<P>(self, path: P, data: impl Into<Vec<u8>>, version: i32) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let data = data.into().into();
        self.part(path, |path| Op::Set {
            path,
            data,
            version: Some(version),
        })
    }

    /// Deletes a node, whatever its version.
    pub fn delete<P>(self, path: P) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        self.part(path, |path| Op::Delete {
            path,
            version: None,
        })
    }

    /// Deletes a node whose data has this version.
    pub fn delete_version<P>(self, path: P, version: i32) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        self.part(path, |path| Op::Delete {
            path,
            version: Some(version),
        })
    }

    /// Bounds the whole call; the default is the operation timeout of the session's view.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn part<P>(mut self, path: P, change: impl FnOnce(NodePath) -> Op) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        match path.try_into() {
            Ok(path) => {
                self.parts.push(change(self.session.defaults().wire(&path)));
                self.paths.push(path);
            }
            Err(error) => {
                let at = self.parts.len();
                self.wrong.get_or_insert_with(|| (at, error.into()));
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
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) if it was sent and no reply arrived.
    ///
    /// # Cancel safety
    ///
    /// Not safe after the first poll, because a request in flight cannot be recalled: the operations may still be
    /// applied, all or none.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub fn commit(self) -> OperationFuture<Vec<OpResult>> {
        Box::pin(async move {
            let span = self.span();
            let result = self.run(false).instrument(span.clone()).await;
            record(&span, &result);
            result
        })
    }

    /// Applies all operations or none, and determines the outcome if the reply is lost.
    ///
    /// The transaction also creates an ephemeral node with a unique name below `under`, the *marker*. If the reply is
    /// lost, the transaction is repeated, and the marker shows whether the first attempt was applied; then the result
    /// is [`Committed::Applied`]. The marker is removed in the background.
    ///
    /// # Errors
    ///
    /// Those of [`commit`](Self::commit). Operations are counted without the marker.
    /// An error that names no operation but a path below `under` concerns the marker:
    /// [`NoNode`](ErrorKind::NoNode) if there is no node `under`.
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) if no reply arrived by the deadline.
    ///
    /// # Cancel safety
    ///
    /// Not safe after the first poll, because a request in flight cannot be recalled: the operations may still be
    /// applied, all or none. The marker is removed in the background.
    ///
    /// # Cost
    ///
    /// One round trip, and one in the background.
    pub fn commit_marked<P>(self, under: P) -> OperationFuture<Committed>
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        let under = under.try_into().map_err(Into::into);
        Box::pin(async move {
            let under =
                under.map_err(|source| Error::invalid_path(Operation::Transaction, source))?;
            if self.parts.is_empty() && self.wrong.is_none() {
                return Ok(Committed::Answered(Vec::new()));
            }
            let span = self.span();
            let result = self.run_marked(&under).instrument(span.clone()).await;
            record(&span, &result);
            result
        })
    }

    async fn run_marked(mut self, under: &NodePath) -> Result<Committed, Error> {
        let prefix = format!("_c_{}-", self.session.engine().new_id());
        let path = under.child(&format!("{prefix}marker"));
        let wire = self.session.defaults().wire(&path);
        // The marker comes first: of several operations that fail, a server reports the first.
        self.parts.insert(
            0,
            Op::Create(CreateRequest {
                path: wire.clone(),
                data: Vec::new().into(),
                mode: CreateMode::Ephemeral { sequential: false },
                acl: self.session.defaults().acl.clone(),
            }),
        );
        self.paths.insert(0, path.clone());
        if let Some((part, _)) = &mut self.wrong {
            *part += 1;
        }
        let job = Job::Abandoned {
            parent: self.session.defaults().wire(under),
            prefix,
            is_ephemeral: true,
        };
        let mut marker = CleanupOnDrop::new(self.session.cleanup(), job);
        let there = Job::Unique {
            path: wire,
            is_ephemeral: true,
        };
        match self.run(true).await {
            Ok(mut changed) => {
                marker.job = Some(there);
                changed.remove(0);
                Ok(Committed::Answered(changed))
            }
            Err(error) if error.failed_part() == Some(0) && error.is_node_exists() => {
                marker.job = Some(there);
                Ok(Committed::Applied)
            }
            Err(error) => {
                // A definite refusal is one of all tries: had one been applied, the marker would be there.
                if error.failed_part().is_some() {
                    marker.job = None;
                }
                Err(match error.failed_part() {
                    Some(0) => error.of_no_part(),
                    Some(part) => error.decided().failed_at(part - 1),
                    None => error,
                })
            }
        }
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

    async fn run(self, is_marked: bool) -> Result<Vec<OpResult>, Error> {
        let Self {
            session,
            parts,
            paths,
            wrong,
            timeout,
        } = self;
        // What the marker adds is not counted.
        let own = usize::from(is_marked);
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
        let chroot = call.engine().servers.chroot().as_str().len();
        let size = parts.iter().map(|part| size_of(part) + chroot).sum();
        check_frame(&call, first, size)?;
        let committed = |response| match response {
            Response::Committed(changed) => Some(changed),
            _ => None,
        };
        let is_check = |part: &Op| matches!(part, Op::Check { .. });
        let result = match plain_sets(&parts) {
            Some(_) if !is_marked => set_all(&call, first, parts, committed).await,
            _ => {
                let repeat = if is_marked || parts.iter().all(is_check) {
                    Repeat::Write
                } else {
                    Repeat::Never
                };
                let request = Request::Transaction(parts);
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
                    OpResult::Created { path, stat } => OpResult::Created {
                        path: call.session().defaults().unwire(&path),
                        stat,
                    },
                    other => other,
                })
                .collect()),
            Err(error) => Err(match error.failed_part() {
                Some(part) => match (paths.get(part), paths.len()) {
                    (Some(path), count) => {
                        let (part, count) = (part + 1 - own, count - own);
                        let which = match part {
                            0 => "the marker".to_owned(),
                            part => format!("part {part} of {count}"),
                        };
                        error.about(path, which)
                    }
                    (None, _) => error,
                },
                None => error,
            }),
        }
    }
}

fn record<T>(span: &tracing::Span, result: &Result<T, Error>) {
    match result {
        Ok(_) => span.record("outcome", "ok"),
        Err(error) => span.record("outcome", tracing::field::debug(error.kind())),
    };
}

/// What became of a transaction; answered by [`Transaction::commit_marked`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "callers decide differently for each of these"
)]
pub enum Committed {
    /// It was carried out, and each part did this.
    Answered(Vec<OpResult>),
    /// It was carried out, and the answer that said what each part did was lost.
    Applied,
}

fn problem_of(part: &Op) -> Option<(ErrorKind, &'static str)> {
    match part {
        Op::Create(create) if create.path.is_root() => {
            Some((ErrorKind::InvalidArgument, "the root always exists"))
        }
        Op::Create(create) if create.acl.entries().is_empty() => {
            Some((ErrorKind::InvalidAcl, "it has no entry"))
        }
        Op::Delete { path, .. } if path.is_root() => {
            Some((ErrorKind::InvalidArgument, "the root cannot be deleted"))
        }
        Op::Check { version, .. } | Op::Set { version, .. } | Op::Delete { version, .. }
            if *version == Some(ANY_VERSION) =>
        {
            Some((ErrorKind::InvalidArgument, NOT_A_VERSION))
        }
        _ => None,
    }
}

fn size_of(part: &Op) -> usize {
    let (path, data, acl) = match part {
        Op::Check { path, .. } | Op::Delete { path, .. } => (path, 0, 0),
        Op::Set { path, data, .. } => (path, data.as_slice().len(), 0),
        Op::Create(create) => (
            &create.path,
            create.data.as_slice().len(),
            acl_bytes(&create.acl),
        ),
    };
    path.as_str().len() + data + acl + PART_OVERHEAD
}

/// The nodes and their new data, of parts that are checks and replacements without a version; `None` if there are
/// others, if there is none of these, or if one node is replaced twice.
fn plain_sets(parts: &[Op]) -> Option<Vec<(NodePath, Bytes)>> {
    let mut sets: Vec<(NodePath, Bytes)> = Vec::new();
    for part in parts {
        match part {
            Op::Check { .. } => {}
            Op::Set {
                path,
                data,
                version: None,
            } if sets.iter().all(|(other, _)| other != path) => {
                sets.push((path.clone(), data.clone()));
            }
            Op::Set { .. } | Op::Create(_) | Op::Delete { .. } => return None,
        }
    }
    (!sets.is_empty()).then_some(sets)
}

/// Makes a transaction of [`plain_sets`], and again over what is found if its answer is lost and no other client has
/// written since.
async fn set_all(
    call: &Call,
    first: &NodePath,
    parts: Vec<Op>,
    committed: impl Fn(Response) -> Option<Vec<OpResult>>,
) -> Result<Vec<OpResult>, Error> {
    let sets = &plain_sets(&parts).unwrap_or_default();
    let plain = &parts;
    let request = Request::Transaction(plain.clone());
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
            .map(|(data, now, stat)| (*data, now.as_slice(), stat))
            .collect();
        if !may_set_again(seen, &nodes) {
            return Ok(WriteOutcome::Unknown(CHANGED));
        }
        let mut versions = nodes.iter().map(|(.., stat)| stat.version);
        let again = plain.iter().cloned().map(|mut part| {
            if let Op::Set { version, .. } = &mut part {
                *version = versions.next();
            }
            part
        });
        Ok(WriteOutcome::Instead(Request::Transaction(again.collect())))
    });
    result.await.map_err(|error| {
        let part = error.failed_part().and_then(|part| plain.get(part));
        match (error.kind(), part) {
            // No version was asked for: it is the one that was found, and others have written since.
            (ErrorKind::BadVersion, Some(Op::Set { .. })) => call
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
) -> Result<Option<(Vec<u8>, Stat)>, Error> {
    let get = Request::Get {
        path: wire.clone(),
        watch: false,
    };
    call.fresh(first, true, &get, Response::data).await
}

const CHANGED: &str =
    "a node has changed, and its state does not show whether this transaction changed it";

/// Room for the header, lengths, flags and time to live of one part.
const PART_OVERHEAD: usize = 48;
