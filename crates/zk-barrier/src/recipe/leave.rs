//! Leaves a round in the layout of the recipe, and waits until all others have left that were in it.

use std::collections::BTreeSet;

use zk_core::{Error, ErrorClass, OwnedNode, Session};

use super::RecipeNodes;
use crate::decision::{LeaveStep, leave_step};
use crate::wait::{repeated, wait_until_gone};

/// Leaves the round that was opened by transaction `ready`, if that is known.
///
/// The member with the lowest name stays to the last, and all others wait for it. Curator's members do not stay, which
/// only means that another one is waited for then. Members that come later are of the next round, and not waited for.
pub(crate) async fn leave(
    session: &Session,
    nodes: &RecipeNodes,
    own: OwnedNode,
    ready: Option<i64>,
) -> Result<(), Error> {
    let mut own = Some(own);
    let mut round: Option<BTreeSet<String>> = None;
    loop {
        let listed = repeated(session, || session.list(&nodes.path).into_future());
        let mut members = match listed.await {
            Ok((names, _)) => RecipeNodes::members(names),
            Err(error) if error.is_no_node() => Vec::new(),
            Err(error) => return Err(error),
        };
        let round = round.get_or_insert_with(|| members.iter().cloned().collect());
        members.retain(|name| round.contains(name));
        let name = own.as_ref().and_then(|own| own.path().name());
        let name = name.map(str::to_owned);
        if let Some(name) = &name
            && !members.contains(name)
            && let Some(gone) = own.take()
        {
            // Another client deleted it, or a transaction whose reply was lost.
            gone.keep();
            continue;
        }
        match leave_step(&members, name.as_deref(), "") {
            LeaveStep::Close => {
                if close(session, nodes, &mut own, ready).await? {
                    return Ok(());
                }
            }
            LeaveStep::Stay { until_gone } => {
                wait_until_gone(session, &nodes.member_named(until_gone)).await?;
            }
            LeaveStep::Go { until_gone } => {
                let until_gone = nodes.member_named(until_gone);
                if let Some(own) = own.take() {
                    own.delete().await?;
                }
                wait_until_gone(session, &until_gone).await?;
            }
        }
    }
}

/// Removes the last member and `ready`; returns false if the nodes have to be read again.
///
/// Only the `ready` of this round is removed: Curator's members, each of which removes it at its end, may remove that of
/// the next one.
async fn close(
    session: &Session,
    nodes: &RecipeNodes,
    own: &mut Option<OwnedNode>,
    ready: Option<i64>,
) -> Result<bool, Error> {
    let found = repeated(session, || session.exists(&nodes.ready).into_future()).await?;
    let is_ours = found.is_some_and(|stat| ready == Some(stat.czxid));
    match (own.take(), found) {
        (Some(last), Some(_)) if is_ours => {
            let both = session.transaction().delete(last.path());
            match both.delete(&nodes.ready).commit().await {
                Ok(_) => {
                    last.keep();
                    Ok(true)
                }
                Err(error) if error.is_no_node() => {
                    *own = Some(last);
                    Ok(false)
                }
                Err(error) if error.class() == ErrorClass::Recoverable => {
                    *own = Some(last);
                    session.sync(&nodes.path).with_quorum().await?;
                    Ok(false)
                }
                Err(error) => Err(error),
            }
        }
        (Some(last), _) => last.delete().await.map(|()| true),
        (None, Some(stat)) if is_ours => {
            let delete = session.delete(&nodes.ready).created_by(stat.czxid);
            match delete.await {
                Err(error) if !error.is_no_node() => Err(error),
                _ => Ok(true),
            }
        }
        (None, _) => Ok(true),
    }
}
