//! What is wrong is said at once, in words that name it.

use std::time::Duration;

use zk_core::{ConnectError, ErrorKind, Session};
use zk_harness::Ensemble;

use crate::{MAX_WAIT, connect, with_ensemble, within};

#[tokio::test(flavor = "multi_thread")]
async fn bad_paths_and_too_much_data_are_refused_unsent() {
    with_ensemble(async |ensemble| {
        let session = connect(ensemble).await;
        let long = format!("/{}", "x".repeat(1 << 20));
        for (path, kind, words) in [
            ("", ErrorKind::InvalidPath, "path is empty"),
            (
                "a/b",
                ErrorKind::InvalidPath,
                "does not start with '/'; write \"/a/b\"",
            ),
            ("/a/", ErrorKind::InvalidPath, "ends with '/'; write \"/a\""),
            ("/a//b", ErrorKind::InvalidPath, "empty component at byte 3"),
            ("//", ErrorKind::InvalidPath, "empty component at byte 1"),
            ("/a\0b", ErrorKind::InvalidPath, "U+0000 at byte 2"),
            ("/a/../b", ErrorKind::InvalidPath, "component \"..\""),
            (long.as_str(), ErrorKind::TooLarge, "path and acl take"),
        ] {
            let errors = [
                session.create(path, "").await.unwrap_err(),
                session.create(path, "").owned().await.unwrap_err(),
                session.get(path).await.unwrap_err(),
                session.exists(path).watched().await.unwrap_err(),
                session.set(path, "").await.unwrap_err(),
                session.delete(path).recursive().await.unwrap_err(),
                session.delete(path).guaranteed().await.unwrap_err(),
                session.list(path).await.unwrap_err(),
                session.sync(path).await.unwrap_err(),
                session.acl(path).await.unwrap_err(),
                session
                    .transaction()
                    .set(path, "")
                    .commit()
                    .await
                    .unwrap_err(),
            ];
            for error in errors {
                assert_eq!(
                    (error.kind(), error.attempts()),
                    (kind, 0),
                    "{:?}",
                    error.operation()
                );
                let source = std::error::Error::source(&error).map(ToString::to_string);
                let text = format!("{error}: {}", source.unwrap_or_default());
                // The message for a long path repeats it; its words are what counts.
                let is_said = text.contains(words)
                    || (kind == ErrorKind::TooLarge && text.contains("the parts take"));
                assert!(is_said, "{}", &text[..text.len().min(300)]);
            }
        }
        // Servers of 3.4 accept this, so the server is asked.
        let old = "/a\u{7f}";
        let error = session.create(old, "").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(session.exists(old).await.unwrap(), None);
        assert_eq!(
            session.delete(old).await.unwrap_err().kind(),
            ErrorKind::NoNode
        );
        for size in [(1 << 20) + 1, 10 << 20] {
            let errors = [
                session.create("/big", vec![0; size]).await.unwrap_err(),
                session.set("/big", vec![0; size]).await.unwrap_err(),
                session
                    .create("/big", vec![0; size])
                    .protected()
                    .await
                    .unwrap_err(),
                session
                    .transaction()
                    .create("/big", vec![0; size])
                    .commit()
                    .await
                    .unwrap_err(),
            ];
            for error in errors {
                assert_eq!((error.kind(), error.attempts()), (ErrorKind::TooLarge, 0));
            }
        }
        assert_eq!(session.counters().connection_losses, 0);
        assert_eq!(session.list("/").await.unwrap().0, ["zookeeper"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_addresses_are_named() {
    with_ensemble(async |ensemble| {
        let connect = async |text: &str| {
            let builder = Session::builder(text).connect_timeout(Duration::from_secs(5));
            let connected = within(MAX_WAIT, "an error", builder.connect()).await;
            connected.unwrap_err()
        };
        for (text, words) in [
            ("", "the connect string is empty"),
            ("127.0.0.1:1,", "host 2"),
            ("127.0.0.1:99999", "a port is a number from 1 to 65535"),
            ("127.0.0.1:1/a/", "a chroot that is no path: path \"/a/\""),
            ("127.0.0.1:1/a,127.0.0.1:2", "chroot"),
        ] {
            let error = connect(text).await;
            assert!(matches!(error, ConnectError::ConnectString(_)), "{error:?}");
            assert!(error.to_string().contains(words), "{error}");
        }
        for (text, words) in [
            ("127.0.0.1:1", "127.0.0.1:1 refused the connection"),
            ("no.such.host.invalid:1", "no.such.host.invalid:1 "),
        ] {
            let error = connect(text).await;
            assert!(matches!(error, ConnectError::Unanswered(_)), "{error:?}");
            assert!(error.to_string().contains(words), "{error}");
        }
        let missing = Session::builder(format!("{}/no/such", ensemble.connect_string()));
        let missing = missing.connect_timeout(MAX_WAIT).connect();
        let error = missing.await.unwrap_err();
        assert!(matches!(error, ConnectError::NoChroot { .. }), "{error:?}");
        assert!(error.to_string().contains("/no/such"), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_connections_are_named_as_a_cause() {
    let ensemble = Ensemble::builder().servers(1).max_client_connections(2);
    let ensemble = ensemble.start().await.expect("a server starts");
    let address = ensemble.connect_string();
    let mut sessions = Vec::new();
    let refused = loop {
        let builder = Session::builder(&address).connect_timeout(Duration::from_secs(10));
        match within(MAX_WAIT, "a session or an error", builder.connect()).await {
            Ok(session) => sessions.push(session),
            Err(refused) => break refused,
        }
    };
    assert!(refused.to_string().contains("maxClientCnxns"), "{refused}");
    assert_eq!(sessions.len(), 2);
    ensemble.down().await.expect("the server goes down");
}
