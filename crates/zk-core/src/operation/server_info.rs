//! What only servers know: who a session is, what it has created, how large a subtree is, and who serves.

use std::time::Duration;

use zk_wire::{Identity, NodePath};

use super::target::{OperationFuture, Target, operations};
use crate::call::Call;
use crate::ensemble_config::EnsembleConfig;
use crate::error::{Error, ErrorKind, Operation};
use crate::transport::{Request, Response};

operations! {
    WhoAmI => WhoAmI whoami -> Vec<Identity>;
    Ephemerals => Ephemerals ephemerals -> Vec<NodePath>;
    DescendantCount => DescendantCount descendant_count -> u32;
    GetConfig => GetConfig get_config -> EnsembleConfig;
}

/// Returns who a session is to its server; created by [`Session::whoami`](crate::Session::whoami).
///
/// Returns the identities that the server grants permissions to: the address of the client, and one for each accepted
/// credential.
///
/// # Errors
///
/// [`Unsupported`](ErrorKind::Unsupported) from servers before 3.7, or [`ConnectionLost`](ErrorKind::ConnectionLost)
/// from those that close the connection instead and do not name their release.
#[derive(Debug, Clone)]
#[must_use = "nothing is sent until it is awaited"]
pub struct WhoAmI {
    target: Target,
}

/// Lists the ephemeral nodes of a session; created by [`Session::ephemerals`](crate::Session::ephemerals).
///
/// Returns the paths of this session's ephemeral nodes at the given path and below it, in no particular order. The node
/// at the path need not exist.
/// The server that answers may lag behind the others; [`Session::sync`](crate::Session::sync) first makes it catch up.
///
/// # Errors
///
/// [`Unsupported`](ErrorKind::Unsupported) from servers before 3.6, or [`ConnectionLost`](ErrorKind::ConnectionLost)
/// from those that close the connection instead and do not name their release.
#[derive(Debug, Clone)]
#[must_use = "nothing is sent until it is awaited"]
pub struct Ephemerals {
    target: Target,
}

/// Counts the nodes below a node; created by [`Session::descendant_count`](crate::Session::descendant_count).
///
/// Returns the number of all nodes below it, without itself.
/// The server that answers may lag behind the others; [`Session::sync`](crate::Session::sync) first makes it catch up.
///
/// # Errors
///
/// [`NoNode`](ErrorKind::NoNode), [`NoAuth`](ErrorKind::NoAuth). [`Unsupported`](ErrorKind::Unsupported) from servers
/// before 3.6, or [`ConnectionLost`](ErrorKind::ConnectionLost) from those that close the connection instead and do not
/// name their release.
///
/// # Cost
///
/// One round trip, repeated after a connection loss. The server looks at all nodes of its tree.
#[derive(Debug, Clone)]
#[must_use = "nothing is sent until it is awaited"]
pub struct DescendantCount {
    target: Target,
}

/// Reads the configuration of the ensemble; created by [`Session::config`](crate::Session::config).
///
/// It is the same in every namespace and below every chroot.
/// The server that answers may lag behind the others; [`Session::sync`](crate::Session::sync) first makes it catch up.
///
/// # Errors
///
/// [`Unsupported`](ErrorKind::Unsupported) from servers before 3.5. [`NoAuth`](ErrorKind::NoAuth) if an administrator
/// has restricted access to it.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct GetConfig {
    target: Target,
}

async fn whoami(call: Call, path: NodePath) -> Result<Vec<Identity>, Error> {
    let identities = |response| match response {
        Response::Identities(identities) => Some(identities),
        _ => None,
    };
    let answer = call.read(&path, &Request::WhoAmI, identities).await;
    answer.map_err(Error::without_path)
}

async fn ephemerals(call: Call, path: NodePath) -> Result<Vec<NodePath>, Error> {
    let wire = call.wire(&path);
    let request = Request::GetEphemerals {
        prefix: wire.to_string(),
    };
    let paths = |response| match response {
        Response::Paths(paths) => Some(paths),
        _ => None,
    };
    let mut found = call.read(&path, &request, paths).await?;
    // The server compares texts: a prefix `/a` also matches `/ab`.
    found.retain(|path| path.depth_below(&wire).is_some());
    let defaults = call.session().defaults();
    Ok(found.iter().map(|path| defaults.unwire(path)).collect())
}

async fn descendant_count(call: Call, path: NodePath) -> Result<u32, Error> {
    let request = Request::GetAllChildrenNumber {
        path: call.wire(&path),
    };
    let count = |response| match response {
        Response::Count(count) => Some(count),
        _ => None,
    };
    call.read(&path, &request, count).await
}

async fn get_config(call: Call, path: NodePath) -> Result<EnsembleConfig, Error> {
    match call
        .read(&path, &Request::GetConfig { watch: false }, Response::data)
        .await
    {
        Ok((data, _)) => Ok(EnsembleConfig::new(&data)),
        Err(error) if error.is_no_node() => {
            Err(call.error(&path, ErrorKind::Unsupported).attempts_made(1))
        }
        Err(error) => Err(error),
    }
    .map_err(Error::without_path)
}
