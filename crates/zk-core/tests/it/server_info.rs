//! What servers know of a session, of their tree and of the ensemble.

use std::collections::BTreeSet;

use zk_core::{ErrorKind, Identity, Session};

use crate::{connect, with_ensemble, with_three};

#[tokio::test(flavor = "multi_thread")]
async fn answers_concern_the_session_and_its_part_of_the_tree() {
    with_ensemble(async |ensemble| {
        let raw = connect(ensemble).await;
        for path in ["/app", "/app/a", "/apple", "/app/space"] {
            raw.create(path, "").await.unwrap();
        }
        let below = format!("{}/app", ensemble.connect_string());
        let chrooted = Session::builder(below).digest_auth("user", "secret");
        let chrooted = chrooted.connect().await.unwrap();
        let space = chrooted.with_namespace("/space").unwrap();
        for (session, path) in [
            (&chrooted, "/a/e"),
            (&chrooted, "/ab"),
            (&space, "/e"),
            (&raw, "/app/a/other"),
        ] {
            session.create(path, "").ephemeral().await.unwrap();
        }
        for (session, at, expected) in [
            (&chrooted, "/", vec!["/a/e", "/ab", "/space/e"]),
            (&chrooted, "/a", vec!["/a/e"]),
            (&chrooted, "/ab", vec!["/ab"]),
            (&chrooted, "/no", vec![]),
            (&space, "/", vec!["/e"]),
            (&raw, "/", vec!["/app/a/other"]),
        ] {
            let found = session.ephemerals(at).await.unwrap();
            let found: BTreeSet<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{at}");
        }
        assert_eq!(chrooted.descendant_count("/").await.unwrap(), 6);
        assert_eq!(chrooted.descendant_count("/a").await.unwrap(), 2);
        assert_eq!(space.descendant_count("/e").await.unwrap(), 0);
        let missing = space.descendant_count("/no").await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NoNode);

        let identities = space.whoami().await.unwrap();
        let expected = |identity: &Identity| {
            [("ip", "127.0.0.1"), ("digest", "user")]
                .contains(&(identity.scheme.as_str(), identity.name.as_str()))
        };
        assert_eq!(identities.len(), 2, "{identities:?}");
        assert!(identities.iter().all(expected), "{identities:?}");
        assert_eq!(raw.whoami().await.unwrap().len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_names_all_servers_below_any_chroot() {
    with_three(async |ensemble| {
        // Another server may not have the chroot yet.
        let server = ensemble.servers()[0].client_address().to_string();
        let raw = Session::builder(&server).connect().await.unwrap();
        raw.create("/app/space", "").parents().await.unwrap();
        let below = format!("{server}/app");
        let chrooted = Session::builder(below).connect().await.unwrap();
        let space = chrooted.with_namespace("/space").unwrap();
        let config = space.config().await.unwrap();
        for id in 1..=3 {
            let line = format!("server.{id}=");
            let is_there = config.text().lines().any(|found| found.starts_with(&line));
            assert!(is_there, "{}", config.text());
        }
        assert_eq!(config.version(), Some(0));
        assert_eq!(config, raw.config().await.unwrap());
    })
    .await;
}
