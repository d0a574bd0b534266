//! Creating nodes.

use std::time::Duration;

use super::OperationFuture;
use super::Target;
use super::check_size;
use crate::acl::Acl;
use crate::call::Call;
use crate::call::Repeat;
use crate::error::Error;
use crate::error::ErrorKind;
use crate::error::Operation;
use crate::path::NodePath;
use crate::stat::Stat;
use crate::transport::CreateMode;

/// Creates a node; made by [`Session::create`](crate::Session::create).
///
/// Without options the node is persistent, open to everyone, and its parent must exist.
/// The answer is the path of the node made, which differs from the one given when it is sequential, and its stat.
///
/// # Errors
///
/// [`NodeExists`](ErrorKind::NodeExists), [`NoNode`](ErrorKind::NoNode) when the parent is missing,
/// [`ParentIsEphemeral`](ErrorKind::ParentIsEphemeral), [`NoAuth`](ErrorKind::NoAuth),
/// [`InvalidAcl`](ErrorKind::InvalidAcl), [`TooLarge`](ErrorKind::TooLarge),
/// [`InvalidArgument`](ErrorKind::InvalidArgument) for options that do not go together.
/// [`OutcomeUnknown`](ErrorKind::OutcomeUnknown) when the request was sent and no answer came: the node may have been
/// made, and for a sequential one its name is not known.
/// [`NotConnected`](ErrorKind::NotConnected) when it could not be sent; then it is not sent later either.
///
/// # Cancel safety
///
/// Not safe once it was polled, because a request that has left cannot be called back: the node may still be made.
/// Look for the node afterwards, or make it ephemeral and close the session.
/// Dropped before its first poll, nothing has happened.
///
/// # Session loss
///
/// A fatal error; [`Error::is_outcome_unknown`] tells whether the request was in flight.
/// An ephemeral node vanishes with its session.
///
/// # Cost
///
/// One round trip; with [`parents`](Self::parents), when some are missing, two more per missing parent.
#[derive(Debug, Clone)]
#[must_use = "nothing is created until it is awaited"]
pub struct Create {
    target: Target,
    data: Vec<u8>,
    options: Options,
    acl: Acl,
    parents: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Options {
    ephemeral: bool,
    sequential: bool,
    container: bool,
    ttl: Option<Duration>,
}

impl Create {
    pub(crate) fn new(target: Target, data: Vec<u8>) -> Self {
        Self {
            target,
            data,
            options: Options::default(),
            acl: Acl::open(),
            parents: false,
        }
    }

    /// Makes the node vanish with its session.
    pub fn ephemeral(mut self) -> Self {
        self.options.ephemeral = true;
        self
    }

    /// Lets the server append a ten-digit number to the name that grows with each child of the parent.
    pub fn sequential(mut self) -> Self {
        self.options.sequential = true;
        self
    }

    /// Makes the node one that the server removes some time after its last child went.
    pub fn container(mut self) -> Self {
        self.options.container = true;
        self
    }

    /// Lets the server remove the node when it was not changed for `ttl` and has no children.
    ///
    /// From one millisecond to 2^40-1 milliseconds; the servers must have extended types enabled.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// Creates missing parents first, as persistent nodes without data under the same acl.
    ///
    /// A parent that someone else makes or removes meanwhile is no error.
    pub fn parents(mut self) -> Self {
        self.parents = true;
        self
    }

    /// Sets the access rules; the default is [`Acl::open`].
    pub fn acl(mut self, acl: Acl) -> Self {
        self.acl = acl;
        self
    }

    /// Bounds the whole call; the default is the session's operation timeout.
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
            parents,
        } = self;
        target.run(Operation::Create, async move |call, path| {
            let invalid =
                |rule: &str| Err(call.error(&path, ErrorKind::InvalidArgument).detail(rule));
            if path.is_root() {
                return invalid("the root always exists");
            }
            let mode = match mode_of(options) {
                Ok(mode) => mode,
                Err(rule) => return invalid(rule),
            };
            if acl.entries().is_empty() {
                return Err(call
                    .error(&path, ErrorKind::InvalidAcl)
                    .detail("it has no entry"));
            }
            check_size(&call, &path, &data, super::acl_bytes(&acl))?;
            let mut rounds = 0;
            loop {
                let result = call
                    .request(&path, Repeat::Never, |wire| {
                        wire.create(&path, &data, mode, &acl)
                    })
                    .await;
                match result {
                    Err(error) if parents && error.is_no_node() && rounds < MOST_ROUNDS => {
                        create_parents(&call, &path, &acl).await?;
                        rounds += 1;
                    }
                    result => return result,
                }
            }
        })
    }
}

/// Makes the missing ancestors, from the nearest one that can be made downwards.
///
/// It climbs from below, since the nodes far above may be closed to this session.
async fn create_parents(call: &Call, path: &NodePath, acl: &Acl) -> Result<(), Error> {
    let mode = CreateMode::Persistent {
        sequential: false,
        ttl: None,
    };
    let mut missing = Vec::new();
    for ancestor in path.ancestors() {
        match call
            .request(&ancestor, Repeat::Idempotent, |wire| {
                wire.create(&ancestor, &[], mode, acl)
            })
            .await
        {
            Ok(_) => break,
            Err(error) if error.is_node_exists() => break,
            Err(error)
                if error.is_no_node()
                    && ancestor.parent().is_some_and(|above| !above.is_root()) =>
            {
                missing.push(ancestor);
            }
            Err(error) => return Err(error),
        }
    }
    for ancestor in missing.iter().rev() {
        match call
            .request(ancestor, Repeat::Idempotent, |wire| {
                wire.create(ancestor, &[], mode, acl)
            })
            .await
        {
            Ok(_) => {}
            // Someone was faster, or removed the one above again: the node's own create finds out.
            Err(error) if error.is_node_exists() || error.is_no_node() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn mode_of(options: Options) -> Result<CreateMode, &'static str> {
    let Options {
        ephemeral,
        sequential,
        container,
        ttl,
    } = options;
    match (ephemeral, container, ttl) {
        (true, true, _) => Err("a node is ephemeral or a container, not both"),
        (true, false, Some(_)) => {
            Err("an ephemeral node lives as long as its session and has no time to live")
        }
        (false, true, Some(_)) => {
            Err("a container lives as long as it has children and has no time to live")
        }
        (false, true, None) if sequential => Err("a container cannot be sequential"),
        (false, true, None) => Ok(CreateMode::Container),
        (true, false, None) => Ok(CreateMode::Ephemeral { sequential }),
        (false, false, Some(ttl)) if !(1..=MOST_TTL_MILLIS).contains(&ttl.as_millis()) => {
            Err("a time to live is from 1 to 1099511627775 milliseconds")
        }
        (false, false, ttl) => Ok(CreateMode::Persistent { sequential, ttl }),
    }
}

/// The server keeps a time to live in five bytes.
const MOST_TTL_MILLIS: u128 = (1 << 40) - 1;
/// How often parents that vanish again are made anew.
const MOST_ROUNDS: u32 = 16;

#[cfg(test)]
mod tests;
