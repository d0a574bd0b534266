//! Leaves a round, and waits until it is over.

use zk_core::{Error, ErrorClass, ErrorKind, OwnedNode, Session};

use super::nodes::{OPENED, RoundNodes};
use crate::decision::{LeaveStep, leave_step};
use crate::wait::{PAUSE, repeated, wait_until_gone};

/// Leaves the round and waits until no member is left in it.
///
/// All members but one remove their nodes at once and wait for the opener's, which stays to the last.
pub(crate) async fn leave(
    session: &Session,
    nodes: &RoundNodes,
    round: i64,
    own: OwnedNode,
    opener: &str,
) -> Result<(), Error> {
    if own.path().name() == Some(opener) {
        return wait_for_end(session, nodes, round, Some(own), opener).await;
    }
    let opener_path = nodes.member_named(opener);
    let (deleted, opener_watched) = tokio::join!(
        own.delete(),
        session.exists(&opener_path).watched().into_future()
    );
    deleted?;
    if let Ok((Some(_), mut watch)) = opener_watched {
        watch.changed().await;
    }
    wait_for_end(session, nodes, round, None, opener).await
}

/// Waits until the round that a transaction created is over, and ends it if no other member is left.
pub(crate) async fn wait_for_end(
    session: &Session,
    nodes: &RoundNodes,
    round: i64,
    mut own: Option<OwnedNode>,
    opener: &str,
) -> Result<(), Error> {
    let mut was_refused = false;
    let mut opened = OPENED;
    loop {
        if !is_current(session, nodes, round).await? {
            if let Some(own) = own {
                // Deleted when the round was closed.
                own.keep();
            }
            return Ok(());
        }
        let listed = repeated(session, || session.list(&nodes.round).into_future());
        let members = match listed.await {
            Ok((_, stat)) if stat.czxid != round => continue,
            Ok((names, _)) => RoundNodes::members(names),
            Err(error) if error.is_no_node() => continue,
            Err(error) => return Err(error),
        };
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
        match leave_step(&members, name.as_deref(), opener) {
            LeaveStep::Close => {
                if was_refused {
                    // Another client may have changed the nodes, and written to the state.
                    session.pause(PAUSE).await;
                    let state = repeated(session, || session.exists(&nodes.state).into_future());
                    opened = state.await?.map_or(OPENED, |stat| stat.version.max(OPENED));
                }
                let close = nodes.close(session, own.as_ref().map(OwnedNode::path), opened);
                match close.commit().await {
                    // A member came, or another member has closed it.
                    Err(error) if has_changed(&error) => was_refused = true,
                    Err(error) if error.class() == ErrorClass::Recoverable => {
                        session.sync(&nodes.round).with_quorum().await?;
                    }
                    done => drop(done?),
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

/// Returns whether the round is not over.
async fn is_current(session: &Session, nodes: &RoundNodes, round: i64) -> Result<bool, Error> {
    let read = repeated(session, || session.exists(&nodes.round).into_future());
    Ok(read.await?.is_some_and(|stat| stat.czxid == round))
}

fn has_changed(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::NoNode | ErrorKind::BadVersion | ErrorKind::NotEmpty | ErrorKind::NodeExists
    )
}
