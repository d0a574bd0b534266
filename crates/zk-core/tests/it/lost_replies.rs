//! Writes without a version whose request or answer is lost, on a real server behind a proxy.

use std::time::Duration;

use zk_core::{Acl, AclEntry, Error, Permissions, Session};
use zk_fault_proxy::{Clients, Match, Route};
use zk_harness::Ensemble;

use crate::{MAX_WAIT, connect};

async fn write(kind: &str, session: &Session, path: &str) -> Result<(), Error> {
    match kind {
        "set" => session.set(path, "new").await.map(drop),
        "create or set" => session.create(path, "new").or_set().await.map(drop),
        "transaction" => {
            let set = session.transaction().check("/").set(path, "new");
            set.commit().await.map(drop)
        }
        "delete" => session.delete(path).await,
        "guaranteed delete" => session.delete(path).guaranteed().await,
        _ => session.set_acl(path, Acl::open()).await.map(drop),
    }
}

/// Rules of another client, which let everybody change them.
fn their_rules() -> Acl {
    let permissions = Permissions::READ | Permissions::ADMIN;
    Acl::new([AclEntry::new(permissions, "world", "anyone")])
}

const KINDS: [&str; 6] = [
    "set",
    "create or set",
    "transaction",
    "delete",
    "guaranteed delete",
    "access rules",
];

#[tokio::test(flavor = "multi_thread")]
async fn repetition_of_a_write_undoes_nothing_on_a_real_server() {
    let ensemble = Ensemble::builder().servers(1).proxied(true);
    let ensemble = ensemble.start().await.expect("a server starts");
    let proxy = ensemble.proxy().expect("it has a proxy");
    let (session, other) = (connect(&ensemble).await, connect(&ensemble).await);
    let client = session.id().as_i64();
    let writes = || Match::writes().session(client);

    // No other client writes, so every write succeeds wherever the link breaks.
    for (at, kind) in KINDS.iter().enumerate() {
        for is_applied in [false, true] {
            let path = format!("/{at}-{is_applied}");
            session.create(&path, "old").await.unwrap();
            let rule = proxy.on(writes()).once();
            let lost = if is_applied {
                rule.cut_on_reply()
            } else {
                rule.drop_then_cut()
            };
            let result = write(kind, &session, &path).await;
            result.unwrap_or_else(|error| panic!("{kind} {is_applied}: {error}"));
            lost.happened(Duration::ZERO).await.unwrap();
            let found = session.exists(&path).await.unwrap();
            assert_eq!(found.is_none(), kind.contains("delete"), "{kind}");
            if let Some(stat) = found
                && *kind != "access rules"
            {
                assert_eq!(session.get(&path).await.unwrap().0, "new");
                assert!(stat.version >= 1);
            }
        }
    }

    // Somebody else writes before the session is back.
    for (at, kind) in KINDS.iter().enumerate() {
        let path = format!("/{at}");
        session.create(&path, "old").await.unwrap();
        proxy
            .route(Clients::Session(client), Route::Refuse)
            .unwrap();
        let lost = proxy.on(writes()).once().cut_on_reply();
        let (result, ()) = tokio::join!(write(kind, &session, &path), async {
            lost.happened(MAX_WAIT).await.unwrap();
            match *kind {
                "delete" | "guaranteed delete" => {
                    other.create(&path, "theirs").await.unwrap();
                }
                "access rules" => {
                    other.set_acl(&path, their_rules()).await.unwrap();
                }
                _ => {
                    other.set(&path, "theirs").await.unwrap();
                }
            }
            proxy
                .route(Clients::Session(client), Route::SameServer)
                .unwrap();
        });
        if *kind == "access rules" {
            let (acl, stat) = other.acl(&path).await.unwrap();
            assert_eq!((acl, stat.aversion), (their_rules(), 2));
        } else {
            assert_eq!(other.get(&path).await.unwrap().0, "theirs", "{kind}");
        }
        // The guaranteed one knows which node it meant, and that is gone.
        assert_eq!(result.is_ok(), *kind == "guaranteed delete", "{result:?}");
        if let Err(error) = result {
            assert!(error.is_outcome_unknown() && !error.is_fatal(), "{error}");
        }
    }
    ensemble.down().await.expect("the server goes down");
}
