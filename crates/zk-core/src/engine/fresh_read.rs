//! Reads from a server that has caught up with the leader, to find out what became of a write with a lost reply.

use zk_wire::{NodePath, Stat};

use super::Engine;
use super::catch_up::CatchUp;
use crate::error::ErrorKind;
use crate::join_all::join_all;
use crate::transport::{NodeData, Request, Response, TransportError, child_of};

/// Reads from a server that has caught up.
///
/// Both requests are sent at once. If the link breaks meanwhile, different servers may have answered them.
pub(crate) async fn read_fresh(
    engine: &Engine,
    path: &NodePath,
    with: CatchUp,
    read: Request,
) -> Result<Result<Response, TransportError>, TransportError> {
    let before = engine.link_now();
    let requests = [with.request(path), read];
    let mut answers = join_all(requests.map(|request| engine.send(request))).await;
    let answer = answers.pop();
    if let Some(caught_up) = answers.pop() {
        with.check_reply(caught_up)?;
    }
    match answer {
        Some(answer) if engine.link_now().breaks == before.breaks => Ok(answer),
        _ => Err(TransportError::Lost(
            "the connection moved while a server caught up".to_owned(),
        )),
    }
}

/// Lists the children of `parent` whose names begin with `prefix`, on a server that has caught up.
///
/// A lagging server may show none although one is about to appear.
/// Once the session has moved to another server and that one has caught up, the leader refuses a create that is still
/// on its way through the old server. A node that is not found then does not appear later.
pub(crate) async fn find(
    engine: &Engine,
    parent: &NodePath,
    prefix: &str,
) -> Result<Vec<NodePath>, TransportError> {
    let list = Request::GetChildren2 {
        path: parent.clone(),
        watch: false,
    };
    let listed = read_fresh(engine, parent, CatchUp::Proposed, list).await?;
    match listed {
        Ok(Response::Children { names, .. }) => Ok(names
            .iter()
            .filter(|name| name.starts_with(prefix))
            .map(|name| child_of(parent, name))
            .collect()),
        Ok(other) => Err(other.unexpected()),
        Err(TransportError::Refused(ErrorKind::NoNode, _)) => Ok(Vec::new()),
        Err(fault) => Err(fault),
    }
}

/// Returns the stat of the node at `path` if it belongs to this session, has this data, and was created after `seen`, on a
/// server that has caught up.
///
/// As with [`find`], a node that is not found then does not appear later.
pub(crate) async fn find_claimed(
    engine: &Engine,
    path: &NodePath,
    data: &NodeData,
    seen: i64,
) -> Result<Option<Stat>, TransportError> {
    let get = Request::GetData {
        path: path.clone(),
        watch: false,
    };
    match read_fresh(engine, path, CatchUp::Proposed, get).await? {
        Ok(Response::Data {
            data: found, stat, ..
        }) => {
            let is_ours = stat.ephemeral_owner == Some(engine.transport().session_id());
            Ok((is_ours && found == *data && stat.czxid > seen).then_some(stat))
        }
        Ok(other) => Err(other.unexpected()),
        Err(TransportError::Refused(ErrorKind::NoNode, _)) => Ok(None),
        Err(fault) => Err(fault),
    }
}
