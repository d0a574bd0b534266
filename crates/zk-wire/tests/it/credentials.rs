//! Credentials that are added at run time.

use std::time::Duration;

use zk_fault_proxy::{Clients, Close};
use zk_wire::{
    Acl, CreateMode, Credentials, ErrorCode, Reply, Request, RequestErrorKind, SessionEnd,
};

use crate::{connect, epoch_after, expected, node, path, request, start};

fn credentials(scheme: &str, data: &'static str) -> Credentials {
    Credentials {
        scheme: scheme.to_owned(),
        data: data.into(),
    }
}

fn get(at: &str) -> Request {
    Request::GetData {
        path: path(at),
        watch: false,
    }
}

#[tokio::test]
async fn added_credentials_hold_for_all_later_connections() {
    let ensemble = start(1, true).await;
    let client = connect(&ensemble, Duration::from_secs(10)).await;
    for (user, path) in [("ann:pw", "/ann"), ("bob:pw", "/bob")] {
        let added = client.add_auth(credentials("digest", user));
        expected("its acceptance", added)
            .await
            .expect("it is accepted");
        let mut own = node(path, "x", CreateMode::Persistent);
        // It is of all identities that the session has.
        own.acl = Acl::creator_only();
        request(&client, Request::Create(own))
            .await
            .expect("it is created");
    }
    let proxy = ensemble.proxy().unwrap();
    proxy.cut(Clients::All, Close::Rst).await;
    assert_eq!(epoch_after(&client, 1).await, 2);
    for path in ["/ann", "/bob"] {
        request(&client, get(path))
            .await
            .expect("its owner may read it");
    }
    let other = connect(&ensemble, Duration::from_secs(10)).await;
    let refused = request(&other, get("/ann")).await.expect_err("it is ann's");
    assert!(
        matches!(refused.kind, RequestErrorKind::Refused { code, .. } if code == ErrorCode::NO_AUTH),
        "{refused}"
    );
    client.close().await;
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test]
async fn credentials_of_an_unknown_scheme_end_the_session() {
    let ensemble = start(1, false).await;
    let client = connect(&ensemble, Duration::from_secs(10)).await;
    let added = client.add_auth(credentials("nonsense", "x"));
    let refused = expected("its refusal", added)
        .await
        .expect_err("it is refused");
    println!("{refused}");
    assert!(
        matches!(refused.kind, RequestErrorKind::Refused { code, .. } if code == ErrorCode::AUTH_FAILED),
        "{refused}"
    );
    let end = expected("the end", client.connected()).await;
    assert_eq!(end, Err(SessionEnd::AuthFailed));
    let again = client.add_auth(credentials("digest", "a:b")).await;
    assert_eq!(
        again.expect_err("it is over").to_string(),
        "the session is over: the server refused the credentials"
    );
    ensemble.down().await.expect("the server goes down");
}

#[tokio::test]
async fn a_name_outside_the_basic_plane_is_read_as_it_was_given() {
    let ensemble = start(1, false).await;
    let client = connect(&ensemble, Duration::from_secs(10)).await;
    let added = client.add_auth(credentials("digest", "a😀:pw"));
    expected("its acceptance", added)
        .await
        .expect("it is accepted");
    let answer = request(&client, Request::WhoAmI).await;
    let answer = answer.expect("the names can be read");
    let Reply::Identities(identities) = &answer.reply else {
        panic!("{answer:?}");
    };
    let names: Vec<_> = identities.iter().map(|one| one.name.as_str()).collect();
    assert!(names.contains(&"a😀"), "{names:?}");
    assert_eq!(answer.epoch, 1, "the connection stays");
    client.close().await;
    ensemble.down().await.expect("the server goes down");
}
