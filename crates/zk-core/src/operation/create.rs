//! Creating nodes.

use std::time::Duration;

use uuid::Uuid;
use zk_wire::{Acl, NodePath, Stat};

use super::request_checks::{acl_bytes, check_size};
use super::target::{OperationFuture, Target};
use super::write::set;
use crate::call::{Call, Repeat};
use crate::engine::concurrent_creates::CreateInProgress;
use crate::error::{Error, ErrorKind, Operation};
use crate::outcome::{Verdict, Wanted, judge_create, judge_overwrite};
use crate::sequence::Sequence;
use crate::session_handle::SessionHandle;
use crate::transport::{CreateMode, NewNode, NodeData, Request, Response};

mod claimed;
mod options;
mod parents;
mod protected;
mod replacement;

pub use options::IdPlace;

use options::{Options, mode_of};
use parents::MOST_ROUNDS;

/// Creates a node; created by [`Session::create`](crate::Session::create).
///
/// Without options the node is persistent, has the access rules of the session's view, and its parent must exist.
/// Returns the stat and the path of the new node. The path differs from the given one if the node is sequential or
/// protected.
///
/// # After a lost reply
///
/// The session repeats the create and decides by the node that it finds:
///
/// | kind of node | what shows that this call created it | otherwise |
/// |---|---|---|
/// | [`protected`](Self::protected) | its unique name | |
/// | [`claimed`](Self::claimed) | its owner is this session, and its data | |
/// | ephemeral | its owner is this session, and its data | [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) if several calls of the session make it at once |
/// | persistent | other data: it is not ours; the same data, with [`idempotent`](Self::idempotent): it is ours | [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) |
/// | sequential, not protected | nothing: it is not repeated | [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) |
///
/// A node that existed before the last reply that this session received is never ours.
/// A node that another client has deleted in between is created again, whatever its kind.
/// If other clients delete these nodes, as consumers of a queue do, use
/// [`Transaction::commit_marked`](crate::Transaction::commit_marked).
///
/// # Errors
///
/// [`NodeExists`](ErrorKind::NodeExists), [`NoNode`](ErrorKind::NoNode) if the parent is missing,
/// [`ParentIsEphemeral`](ErrorKind::ParentIsEphemeral), [`NoAuth`](ErrorKind::NoAuth),
/// [`InvalidAcl`](ErrorKind::InvalidAcl), [`TooLarge`](ErrorKind::TooLarge),
/// [`InvalidArgument`](ErrorKind::InvalidArgument) for options that exclude each other.
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) if the request was sent and the node does not show its outcome.
/// [`NotConnected`](ErrorKind::NotConnected) if it could not be sent; then it is not sent later either.
///
/// # Cancel safety
///
/// Safe with [`protected`](Self::protected) or [`owned`](Self::owned): a node that was created, or will be by a request
/// in flight, is removed in the background. Otherwise not safe after the first poll, because a request in flight cannot
/// be recalled: the node may still be created. Read the node afterwards, or make it ephemeral and close the session.
///
/// # Session loss
///
/// An ephemeral node is deleted with its session.
///
/// # Cost
///
/// One round trip; with [`parents`](Self::parents), up to two more per missing parent. On servers before 3.5, each create
/// takes two, and the first one of a session also costs the connection.
#[derive(Debug, Clone)]
#[must_use = "nothing is created until it is awaited"]
pub struct Create {
    target: Target,
    data: NodeData,
    options: Options,
    acl: Acl,
}

impl Create {
    pub(crate) fn new(target: Target, data: Vec<u8>) -> Self {
        Self {
            acl: target.session().defaults().acl.clone(),
            target,
            data: data.into(),
            options: Options::default(),
        }
    }

    pub(crate) fn session(&self) -> &SessionHandle {
        self.target.session()
    }

    pub(crate) fn is_ephemeral(&self) -> bool {
        self.options.ephemeral
    }

    /// Makes the node ephemeral: it is deleted with its session.
    pub fn ephemeral(mut self) -> Self {
        self.options.ephemeral = true;
        self
    }

    /// Makes the node sequential: the server appends a ten-digit number that grows with each child of the parent.
    pub fn sequential(mut self) -> Self {
        self.options.sequential = true;
        self
    }

    /// Appends this number to the name, as a server does to the name of a [`sequential`](Self::sequential) node.
    ///
    /// Use it for a node that replaces another one among its siblings. The parent's counter is not used.
    pub fn numbered(mut self, number: Sequence) -> Self {
        self.options.number = Some(number);
        self
    }

    /// Makes the node a container: the server deletes it some time after its last child was deleted.
    pub fn container(mut self) -> Self {
        self.options.container = true;
        self
    }

    /// Lets the server delete the node when it was not changed for `ttl` and has no children.
    ///
    /// `ttl` is from 1 ms to 2^40-1 ms. The servers must have extended types enabled.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Creates missing parents first, as persistent nodes without data and with the same access rules.
    ///
    /// It is no error if another client creates or deletes a parent meanwhile.
    pub fn parents(mut self) -> Self {
        self.options.parents = Some(CreateMode::Persistent);
        self
    }

    /// Like [`parents`](Self::parents), but creates container nodes, which the server deletes some time after their
    /// last child was deleted. On servers without containers it creates persistent nodes.
    pub fn container_parents(mut self) -> Self {
        self.options.parents = Some(CreateMode::Container);
        self
    }

    /// Puts a unique id before the name, `_c_<uuid>-`. The session uses it to find the node if the reply is lost, and
    /// to remove the node if this call is dropped.
    ///
    /// The format is that of Curator's protection.
    /// Unlike Curator, the session searches for the node only after the server has caught up: a lagging server, or a leader
    /// that waits for the quorum, may not show it yet. The search costs two requests, one of them a transaction that
    /// changes nothing.
    pub fn protected(mut self) -> Self {
        self.options.protected = true;
        self
    }

    /// Sets where the name of a [`protected`](Self::protected) or [`owned`](Self::owned) node contains its id; the
    /// default is [`IdPlace::Before`].
    pub fn id_place(mut self, place: IdPlace) -> Self {
        self.options.id = place;
        self
    }

    /// Sets the unique id, which no other create may have.
    pub(crate) fn unique_id(mut self, id: Uuid) -> Self {
        self.options.unique_id = Some(id);
        self
    }

    /// Declares that the data identifies its writer. If a reply is lost, an unchanged node with exactly this data then
    /// counts as created by this call.
    pub fn idempotent(mut self) -> Self {
        self.options.idempotent = true;
        self
    }

    /// Replaces the data if the node exists already, whatever its version.
    ///
    /// Returns the path, and the stat after the change.
    /// After a lost reply it decides like [`Set`](crate::Set): it does not overwrite data that another client may have
    /// written in between.
    pub fn or_set(mut self) -> Self {
        self.options.or_set = true;
        self
    }

    /// Sets the access rules; the default is that of the session's view.
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl = acl;
        self
    }

    /// Bounds the whole call; the default is the operation timeout of the session's view.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl IntoFuture for Create {
    type Output = Result<(NodePath, Stat), Error>;
    type IntoFuture = OperationFuture<(NodePath, Stat)>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            target,
            data,
            options,
            acl,
        } = self;
        target.run(Operation::Create, async move |call, path| {
            create(&call, &path, data, options, acl).await
        })
    }
}

async fn create(
    call: &Call,
    path: &NodePath,
    data: NodeData,
    options: Options,
    acl: Acl,
) -> Result<(NodePath, Stat), Error> {
    let prepared = prepare(call, path, data, options, acl)?;
    let Prepared {
        path,
        request,
        unique_name,
    } = prepared;
    let (made, stat) = match unique_name {
        Some(name) => protected::create(call, &path, request, name, options.parents).await?,
        None => create_plain(call, &path, &request, options).await?,
    };
    Ok((call.session().defaults().unwire(&made), stat))
}

/// A create that has passed all checks.
struct Prepared {
    /// The path, with the number that the caller chose, and without a unique id.
    path: NodePath,
    request: NewNode,
    /// The unique name of a protected node, without the number that the server may append.
    unique_name: Option<String>,
}

fn prepare(
    call: &Call,
    path: &NodePath,
    data: NodeData,
    options: Options,
    acl: Acl,
) -> Result<Prepared, Error> {
    let invalid = |rule: &str| Err(call.error(path, ErrorKind::InvalidArgument).detail(rule));
    if path.is_root() {
        return invalid("the root always exists");
    }
    let numbered = match (options.protected, options.number) {
        (false, Some(number)) => {
            let name = path.name().unwrap_or_default();
            Some(sibling(path, &format!("{name}{number}")))
        }
        _ => None,
    };
    let path = numbered.as_ref().unwrap_or(path);
    let mode = match mode_of(options) {
        Ok(mode) => mode,
        Err(rule) => return invalid(rule),
    };
    if acl.entries().is_empty() {
        return Err(call
            .error(path, ErrorKind::InvalidAcl)
            .detail("it has no entry"));
    }
    let unique_name = match (options.protected, options.number) {
        (true, None) => Some(unique_name(call, path, options)),
        (true, Some(number)) => Some(format!("{}{number}", unique_name(call, path, options))),
        (false, _) => None,
    };
    let wire = call.wire(path);
    let (wire, named) = match &unique_name {
        None => (wire, path.clone()),
        Some(name) => (sibling(&wire, name), sibling(path, name)),
    };
    check_size(call, &named, data.as_slice(), acl_bytes(&acl))?;
    let request = NewNode {
        path: wire,
        data,
        mode,
        acl,
    };
    Ok(Prepared {
        path: path.clone(),
        request,
        unique_name,
    })
}

/// Returns a node beside another one, which is not the root.
fn sibling(path: &NodePath, name: &str) -> NodePath {
    let parent = path.parent().unwrap_or_else(NodePath::root);
    parent
        .join(name)
        .expect("a name stays one with letters and digits before or behind it")
}

/// Derives a unique name from the last component of `path`; the server may append a number.
fn unique_name(call: &Call, path: &NodePath, options: Options) -> String {
    let id = options.unique_id.unwrap_or_else(|| call.engine().new_id());
    let name = path.name().unwrap_or_default();
    match options.id {
        IdPlace::Before => format!("_c_{id}-{name}"),
        IdPlace::After(end) => format!("{name}{}{end}", id.as_simple()),
    }
}

/// Creates a node under the name that was given.
async fn create_plain(
    call: &Call,
    path: &NodePath,
    request: &NewNode,
    options: Options,
) -> Result<(NodePath, Stat), Error> {
    let repeat = if options.sequential {
        Repeat::Never
    } else {
        Repeat::Write
    };
    let seen = call.engine().newest_zxid();
    let is_counted = request.mode == CreateMode::Ephemeral;
    let counted = is_counted.then(|| request.path.clone());
    let in_progress = call.session().concurrent_creates().begin(counted);
    let mut rounds = 0;
    let mut in_doubt = false;
    loop {
        let answer = call
            .request(
                path,
                repeat,
                &Request::Create2(request.clone()),
                Response::created,
            )
            .await;
        in_doubt |= answer.was_in_doubt;
        match (answer.result, options.parents) {
            (Ok((made, stat)), _) => {
                in_progress.created(stat.czxid);
                return Ok((made, stat));
            }
            (Err(error), Some(mode)) if error.is_no_node() && rounds < MOST_ROUNDS => {
                parents::create(call, request, mode).await?;
                rounds += 1;
            }
            (Err(error), _) if error.is_node_exists() && options.or_set => {
                if in_doubt {
                    match found(call, path, request).await? {
                        Some((data, stat)) => {
                            match judge_overwrite(request.data.as_slice(), seen, (&data, &stat)) {
                                Verdict::Applied | Verdict::SameEffect => {
                                    return Ok((request.path.clone(), stat));
                                }
                                Verdict::NotApplied => in_doubt = false,
                                Verdict::Unknown => return Err(unknown(call, path, &error)),
                            }
                        }
                        None => return Err(unknown(call, path, &error)),
                    }
                }
                match set(call, path, request.data.clone(), None, false).await {
                    // It was deleted in between, and this call has written nothing to it: create it.
                    Err(error)
                        if error.is_no_node()
                            && !error.is_outcome_unknown()
                            && rounds < MOST_ROUNDS =>
                    {
                        rounds += 1;
                    }
                    result => return result.map(|stat| (request.path.clone(), stat)),
                }
            }
            (Err(error), _) if error.is_node_exists() && in_doubt => {
                return judge(call, path, request, options, seen, &in_progress, error).await;
            }
            (Err(error), _) if in_doubt => return Err(error.maybe_applied()),
            (Err(error), _) => return Err(error),
        }
    }
}

/// Determines whether the existing node is from the create with the lost reply.
async fn judge(
    call: &Call,
    path: &NodePath,
    request: &NewNode,
    options: Options,
    seen: i64,
    in_progress: &CreateInProgress,
    exists: Error,
) -> Result<(NodePath, Stat), Error> {
    let found = found(call, path, request).await?;
    let wanted = Wanted {
        data: request.data.as_slice(),
        owner: options.ephemeral.then(|| call.session().id()),
    };
    let verdict = judge_create(
        wanted,
        seen,
        found.as_ref().map(|(data, stat)| (&**data, stat)),
    );
    match (verdict, found) {
        (Verdict::SameEffect, Some((_, stat))) if options.idempotent => {
            Ok((request.path.clone(), stat))
        }
        (Verdict::Applied, Some((_, stat))) => match in_progress.judge(stat.czxid) {
            Verdict::Applied => Ok((request.path.clone(), stat)),
            Verdict::NotApplied => Err(exists),
            Verdict::SameEffect | Verdict::Unknown => Err(unknown(call, path, &exists)),
        },
        (Verdict::NotApplied, _) => Err(exists),
        _ => Err(unknown(call, path, &exists)),
    }
}

/// Reads the node that is there when a create in doubt is repeated.
async fn found(
    call: &Call,
    path: &NodePath,
    request: &NewNode,
) -> Result<Option<(bytes::Bytes, Stat)>, Error> {
    let get = Request::GetData {
        path: request.path.clone(),
        watch: false,
    };
    match call.read(path, &get, Response::data).await {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error.maybe_applied()),
    }
}

fn unknown(call: &Call, path: &NodePath, exists: &Error) -> Error {
    call.error(path, ErrorKind::OutcomeUnknown)
        .attempts_made(exists.attempts())
        .detail("a node exists, and its state does not show whether this call created it")
}
