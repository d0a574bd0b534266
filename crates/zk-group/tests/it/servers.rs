//! Members whose sessions expire and whose connections break.

use std::time::Duration;

use zk_core::{RetryPolicy, Session, Sessions};
use zk_fault_proxy::Match;
use zk_group::{Group, Members, Membership};
use zk_harness::Ensemble;
use zk_sim::wait::soon;

const MAX_WAIT: Duration = Duration::from_secs(60);

fn sessions(ensemble: &Ensemble) -> Sessions {
    let builder = Session::builder(ensemble.connect_string()).connect_timeout(MAX_WAIT);
    builder.sessions(RetryPolicy::constant(Duration::from_millis(50)))
}

async fn shows(group: &Group, expected: &[&str]) -> Members {
    let is_so =
        |members: &Members| members.is_synchronized() && members.ids().eq(expected.iter().copied());
    let members = soon(&format!("the group is {expected:?}"), group.wait_for(is_so)).await;
    members.expect("the view goes on")
}

/// Lost replies, an expired session, a deleted group; and an observer.
#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_on_real_servers() {
    let ensemble = Ensemble::builder().servers(3).proxied(true);
    let ensemble = ensemble.start().await.expect("three servers start");
    let proxy = ensemble.proxy().expect("it has a proxy");
    let observer = Session::builder(ensemble.connect_string())
        .connect_timeout(MAX_WAIT)
        .connect()
        .await
        .unwrap();
    let group = Group::start(&observer, "/workers").unwrap();
    let (ours, theirs) = (sessions(&ensemble), sessions(&ensemble));
    let session = ours.session().await.unwrap();
    let writes = Match::writes().session(session.id().as_i64());
    let lost = proxy.on(writes).once().cut_on_reply();
    let one = Membership::join(&ours, "/workers", "one", "1").unwrap();
    let two = Membership::join(&theirs, "/workers", "two", "2").unwrap();
    shows(&group, &["one", "two"]).await;
    soon("the reply is lost", lost.happened(MAX_WAIT))
        .await
        .unwrap();
    soon("it is written", one.set_payload("3")).await.unwrap();
    let written = |members: &Members| members.get("one").is_some_and(|one| one.payload == "3");
    soon("it is seen", two.group().wait_for(written))
        .await
        .unwrap();

    ensemble.expire(session.id().as_i64()).await.unwrap();
    soon("the session is lost", session.lost()).await;
    assert!(
        one.group()
            .members()
            .iter()
            .all(|one| one.session != session.id())
    );
    let again = |members: &Members| {
        members
            .get("one")
            .is_some_and(|one| one.session != session.id() && one.payload == "3")
    };
    soon("it has joined again", group.wait_for(again))
        .await
        .unwrap();
    observer.delete("/workers").recursive().await.unwrap();
    shows(&group, &["one", "two"]).await;
    shows(one.group(), &["one", "two"]).await;

    soon("it leaves", two.leave()).await.unwrap();
    shows(one.group(), &["one"]).await;
    drop(one);
    shows(&group, &[]).await;
    ensemble.down().await.expect("the servers go down");
}
