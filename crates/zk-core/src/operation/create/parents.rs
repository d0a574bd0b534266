//! Creating the nodes above a node.

use zk_wire::NodePath;

use crate::call::{Call, Repeat};
use crate::error::{Error, ErrorKind};
use crate::transport::{CreateMode, NewNode, NodeData, Request, Response};

/// Makes the missing ancestors of a node that is to be made, from the nearest one that can be made downwards.
///
/// It climbs from below, since the nodes far above may be closed to this session. The chroot is not made.
pub(super) async fn create(call: &Call, node: &NewNode, mode: CreateMode) -> Result<(), Error> {
    let chroot = &call.engine().servers.chroot;
    let is_in_chroot = |node: &NodePath| node.parent().is_none_or(|above| above == *chroot);
    if is_in_chroot(&node.path) {
        let path = call.session().defaults().unwire(&node.path);
        return Err(call.error(&path, ErrorKind::NoNode));
    }
    let mut missing = Vec::new();
    for ancestor in node.path.ancestors() {
        match create_one(call, &ancestor, node, mode).await {
            Ok(()) => break,
            Err(error) if error.is_no_node() && !is_in_chroot(&ancestor) => missing.push(ancestor),
            Err(error) => return Err(error),
        }
    }
    for ancestor in missing.iter().rev() {
        match create_one(call, ancestor, node, mode).await {
            Ok(()) => {}
            // Someone removed the one above again: the node's own create finds out.
            Err(error) if error.is_no_node() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes one ancestor; that it is there is all that counts.
async fn create_one(
    call: &Call,
    ancestor: &NodePath,
    node: &NewNode,
    mode: CreateMode,
) -> Result<(), Error> {
    let has_no_containers = call.engine().is_older_than(3, 5);
    let request = Request::Create2(NewNode {
        path: ancestor.clone(),
        data: NodeData::default(),
        mode: match mode {
            CreateMode::Container if has_no_containers => CreateMode::Persistent,
            mode => mode,
        },
        acl: node.acl.clone(),
    });
    let path = call.session().defaults().unwire(ancestor);
    let create = call.request(&path, Repeat::Write, &request, Response::created);
    match create.await.result {
        Err(error) if !error.is_node_exists() => Err(error),
        _ => Ok(()),
    }
}

/// How often parents that vanish again are made anew.
pub(super) const MOST_ROUNDS: u32 = 16;
