//! Several changes at once, or none.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use super::OperationFuture;
use super::acl_bytes;
use super::check_frame;
use crate::acl::Acl;
use crate::call::Call;
use crate::call::Repeat;
use crate::engine::Engine;
use crate::engine::reaper::Job;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::path::NodePath;
use crate::path::ParsePathError;
use crate::session::Session;
use crate::transport::Change;
use crate::transport::Changed;
use crate::transport::CreateMode;
use crate::transport::CreateRequest;
use crate::transport::Request;
use crate::transport::Response;

/// Changes of which all are made or none; made by [`Session::transaction`].
///
/// The parts are carried out in the order in which they were added, each seeing the ones before it.
/// The answer has one [`Changed`] per part.
///
/// ```no_run
/// # async fn demo(session: zk_core::Session) -> Result<(), zk_core::Error> {
/// use zk_core::Changed;
///
/// let done = session
///     .transaction()
///     .check_version("/config", 7)
///     .create("/config/history/7", "before")
///     .set("/config", "after")
///     .commit()
///     .await?;
/// assert!(matches!(done[..], [Changed::Checked, Changed::Created { .. }, Changed::Set(_)]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is changed until it is committed"]
pub struct Transaction {
    session: Session,
    parts: Vec<Change>,
    /// The paths of the parts as they were given.
    paths: Vec<NodePath>,
    wrong: Option<(usize, ParsePathError)>,
    timeout: Option<Duration>,
}

impl Transaction {
    pub(crate) fn new(session: Session) -> Self {
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
        self.part(path, |path| Change::Check {
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
        self.part(path, |path| Change::Check {
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
        let acl = acl.unwrap_or_else(|| self.session.view().acl.clone());
        self.part(path, |path| {
            Change::Create(CreateRequest {
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
        self.part(path, |path| Change::Set {
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
        self.part(path, |path| Change::Set {
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
        self.part(path, |path| Change::Delete {
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
        self.part(path, |path| Change::Delete {
            path,
            version: Some(version),
        })
    }

    /// Bounds the whole call; the default is the operation timeout of the session's view.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    fn part<P>(mut self, path: P, change: impl FnOnce(NodePath) -> Change) -> Self
    where
        P: TryInto<NodePath>,
        P::Error: Into<ParsePathError>,
    {
        match path.try_into() {
            Ok(path) => {
                self.parts.push(change(self.session.view().wire(&path)));
                self.paths.push(path);
            }
            Err(error) => {
                let at = self.parts.len();
                self.wrong.get_or_insert_with(|| (at, error.into()));
            }
        }
        self
    }

    /// Makes the changes, all or none, and answers what each part did.
    ///
    /// Without parts it answers at once.
    ///
    /// A transaction whose answer was lost is repeated only if it consists of checks and of writes without a version,
    /// which may be applied twice; [`commit_marked`](Self::commit_marked) can tell of any.
    ///
    /// # Errors
    ///
    /// An error that the server gave names the part that was refused: [`Error::failed_part`] counts from zero, and
    /// [`Error::path`] is its path.
    /// [`NoNode`](ErrorKind::NoNode), [`NodeExists`](ErrorKind::NodeExists), [`BadVersion`](ErrorKind::BadVersion),
    /// [`NotEmpty`](ErrorKind::NotEmpty), [`NoAuth`](ErrorKind::NoAuth), [`InvalidPath`](ErrorKind::InvalidPath),
    /// [`TooLarge`](ErrorKind::TooLarge): nothing was changed.
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when it was sent and no answer came.
    ///
    /// # Cancel safety
    ///
    /// Not safe once it was polled, because a request that has left cannot be called back: the changes may still be
    /// made, all of them or none.
    ///
    /// # Session loss
    ///
    /// A fatal error; [`Error::is_outcome_unknown`] tells whether the request was in flight.
    ///
    /// # Cost
    ///
    /// One round trip.
    pub fn commit(self) -> OperationFuture<Vec<Changed>> {
        Box::pin(async move {
            let span = self.span();
            let result = self.run(false).instrument(span.clone()).await;
            record(&span, &result);
            result
        })
    }

    /// Makes the changes, all or none, and finds out whether it did when the answer is lost.
    ///
    /// The transaction gets one more part: an ephemeral node below `under`, the *marker*, under a name that nobody else
    /// has. When the answer is lost, the transaction is made again, and the marker tells whether the first try was
    /// applied; then the answer is [`Committed::Applied`]. The marker is removed in the background.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit) has them; the parts are counted without the marker.
    /// An error that names no part but a path below `under` is about the marker:
    /// [`NoNode`](ErrorKind::NoNode) if there is no node `under`.
    /// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when no answer came until the deadline.
    ///
    /// # Cancel safety
    ///
    /// Not safe once it was polled, because a request that has left cannot be called back: the changes may still be
    /// made, all of them or none. The marker is removed in the background.
    ///
    /// # Session loss
    ///
    /// A fatal error; [`Error::is_outcome_unknown`] tells whether the request was in flight.
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
        let engine = Arc::clone(self.session.engine());
        let prefix = format!("_c_{}-", engine.new_id());
        let path = under.child(&format!("{prefix}marker"));
        let wire = self.session.view().wire(&path);
        // The first part: of several that fail, a server tells the first.
        self.parts.insert(
            0,
            Change::Create(CreateRequest {
                path: wire.clone(),
                data: Vec::new().into(),
                mode: CreateMode::Ephemeral { sequential: false },
                acl: self.session.view().acl.clone(),
            }),
        );
        self.paths.insert(0, path.clone());
        if let Some((part, _)) = &mut self.wrong {
            *part += 1;
        }
        let mut marker = Marker {
            engine,
            left: Some(Job::Abandoned {
                parent: self.session.view().wire(under),
                prefix,
                is_ephemeral: true,
            }),
        };
        let there = Job::Unique {
            path: wire,
            is_ephemeral: true,
        };
        match self.run(true).await {
            Ok(mut changed) => {
                marker.left = Some(there);
                changed.remove(0);
                Ok(Committed::Answered(changed))
            }
            Err(error) if error.failed_part() == Some(0) && error.is_node_exists() => {
                marker.left = Some(there);
                Ok(Committed::Applied)
            }
            Err(error) => {
                // A definite refusal is one of all tries: had one been applied, the marker would be there.
                if error.failed_part().is_some() {
                    marker.left = None;
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

    async fn run(self, is_marked: bool) -> Result<Vec<Changed>, Error> {
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
        let repeat = if is_marked || parts.iter().all(may_be_applied_twice) {
            Repeat::Write
        } else {
            Repeat::Never
        };
        let request = Request::Transaction(parts);
        let answer = call
            .request(first, repeat, &request, |response| match response {
                Response::Committed(changed) => Some(changed),
                _ => None,
            })
            .await;
        match answer.result {
            Ok(changed) => Ok(changed
                .into_iter()
                .map(|changed| match changed {
                    Changed::Created { path, stat } => Changed::Created {
                        path: call.session().view().unwire(&path),
                        stat,
                    },
                    other => other,
                })
                .collect()),
            Err(error) => {
                let error = if answer.was_in_doubt {
                    error.maybe_applied()
                } else {
                    error
                };
                Err(match error.failed_part() {
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
                })
            }
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
    Answered(Vec<Changed>),
    /// It was carried out, and the answer that said what each part did was lost.
    Applied,
}

/// Removes the marker of a transaction when it is dropped, if there may be one.
struct Marker {
    engine: Arc<Engine>,
    left: Option<Job>,
}

impl Drop for Marker {
    fn drop(&mut self) {
        if let Some(job) = self.left.take() {
            self.engine.clean_up(job);
        }
    }
}

fn problem_of(part: &Change) -> Option<(ErrorKind, &'static str)> {
    match part {
        Change::Create(create) if create.path.is_root() => {
            Some((ErrorKind::InvalidArgument, "the root always exists"))
        }
        Change::Create(create) if create.acl.entries().is_empty() => {
            Some((ErrorKind::InvalidAcl, "it has no entry"))
        }
        Change::Delete { path, .. } if path.is_root() => {
            Some((ErrorKind::InvalidArgument, "the root cannot be deleted"))
        }
        _ => None,
    }
}

fn size_of(part: &Change) -> usize {
    let (path, data, acl) = match part {
        Change::Check { path, .. } | Change::Delete { path, .. } => (path, 0, 0),
        Change::Set { path, data, .. } => (path, data.as_slice().len(), 0),
        Change::Create(create) => (
            &create.path,
            create.data.as_slice().len(),
            acl_bytes(&create.acl),
        ),
    };
    path.as_str().len() + data + acl + PART_OVERHEAD
}

fn may_be_applied_twice(part: &Change) -> bool {
    match part {
        Change::Check { .. } => true,
        Change::Set { version, .. } => version.is_none(),
        Change::Create(_) | Change::Delete { .. } => false,
    }
}

/// Room for the header, lengths, flags and time to live of one part.
const PART_OVERHEAD: usize = 48;
