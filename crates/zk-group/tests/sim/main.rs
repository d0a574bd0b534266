//! Groups on a simulated ensemble, under paused time: each failure happens exactly where the test wants it.

#![cfg(test)]

use zk_core::{Session, SessionSource, Sessions};
use zk_group::{Group, Layout, Members, Membership};
use zk_sim::wait::soon;

mod chaos;
mod following;
mod joining;
mod layout;
#[cfg(feature = "partitioner")]
mod partitioner;

const PATH: &str = "/groups/workers";

fn join(sessions: impl Into<SessionSource>, id: &str, payload: &str) -> Membership {
    Membership::join(sessions, PATH, id, payload).expect("a good path and id")
}

fn join_with(sessions: impl Into<SessionSource>, id: &str, layout: Layout) -> Membership {
    Membership::join_with(sessions, PATH, id, "", layout).expect("a good path and id")
}

async fn joined(membership: &Membership) {
    let ready = soon("it is a member", membership.ready()).await;
    ready.expect("nothing refuses it");
}

/// Waits until a view shows exactly these ids.
async fn shows(group: &Group, expected: &[&str]) -> Members {
    let is_so =
        |members: &Members| members.is_synchronized() && members.ids().eq(expected.iter().copied());
    let members = soon(&format!("the group is {expected:?}"), group.wait_for(is_so)).await;
    members.expect("the view goes on")
}

async fn current(sessions: &Sessions) -> Session {
    let session = soon("there is a session", sessions.session()).await;
    session.expect("there will be one")
}
