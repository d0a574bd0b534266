//! The errors of a connection attempt.

use std::time::Instant;

use super::*;

fn below() -> Config {
    let mut config = Config::new(DEFAULT_TIMEOUT);
    config.chroot = NodePath::parse("/app").unwrap();
    config
}

#[tokio::test]
async fn bad_options_are_refused_at_once() {
    let builder = || Session::builder("127.0.0.1:1");
    for (builder, message) in [
        (
            builder().session_timeout(Duration::ZERO),
            "session timeout is not valid: it must be from 1 to 2147483647 milliseconds",
        ),
        (
            builder().session_timeout(Duration::MAX),
            "session timeout is not valid: it must be from 1 to 2147483647 milliseconds",
        ),
        (
            builder().connect_timeout(Duration::ZERO),
            "connect timeout is not valid: it must be longer than zero",
        ),
        (
            builder().operation_timeout(Duration::ZERO),
            "operation timeout is not valid: it must be longer than zero",
        ),
        (
            builder().digest_auth("", "secret"),
            "digest user is not valid: it must not be empty nor have a ':' in it",
        ),
        (
            builder().digest_auth("a:b", "secret"),
            "digest user is not valid: it must not be empty nor have a ':' in it",
        ),
        (
            builder().config(below()),
            "chroot is not valid: write it behind the hosts of the connect string",
        ),
        (
            builder().track_ensemble().host_provider(Vec::new()),
            "track_ensemble is not valid: the hosts come from the provider; omit it or the provider",
        ),
        (
            builder().max_buffer(1023),
            "max_buffer is not valid: it must be from 1024 to 2147483647 bytes",
        ),
        (
            Session::builder("a:b"),
            r#"host 1 of the connect string, "a:b": a port is a number from 1 to 65535"#,
        ),
    ] {
        let error = builder.connect().await.expect_err("must be refused");
        assert_eq!(error.to_string(), message);
        assert!(
            !matches!(error, ConnectError::Unanswered(_)),
            "it tried to connect"
        );
    }
}

#[tokio::test]
async fn closed_port_is_reported_within_the_connect_timeout() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let start = Instant::now();
    let builder = Session::builder(address.to_string()).connect_timeout(Duration::from_millis(600));
    let error = builder
        .connect()
        .await
        .expect_err("no server listens there");
    assert_eq!(
        error.to_string(),
        format!(
            "no server granted a session within 600ms: {address} refused the connection (nothing listens there)"
        )
    );
    let took = start.elapsed();
    assert!(
        (Duration::from_millis(450)..DEFAULT_TIMEOUT).contains(&took),
        "took {took:?}"
    );
}

#[tokio::test]
async fn the_hosts_of_a_provider_are_those_that_an_error_names() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let provided: ConnectString = address.to_string().parse().unwrap();
    let builder = Session::builder("nowhere.invalid").host_provider(provided.hosts);
    let builder = builder.connect_timeout(Duration::from_millis(600));
    let error = builder
        .connect()
        .await
        .expect_err("no server listens there");
    let text = error.to_string();
    assert!(text.contains(&address.to_string()), "{text}");
    assert!(!text.contains("nowhere"), "{text}");
}

#[tokio::test]
async fn silent_server_is_given_up_within_the_connect_timeout() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let start = Instant::now();
    let builder = Session::builder(address.to_string()).connect_timeout(Duration::from_millis(600));
    let error = builder
        .connect()
        .await
        .expect_err("no server reads from it");
    assert_eq!(
        error.to_string(),
        format!(
            "no server granted a session within 600ms: {address} accepted the connection but does not reply (hung or paused?)"
        )
    );
    assert!(
        start.elapsed() < DEFAULT_TIMEOUT,
        "took {:?}",
        start.elapsed()
    );
}

#[test]
fn credentials_are_not_in_debug_output() {
    let text = format!(
        "{:?}",
        Session::builder("h")
            .digest_auth("alice", "hunter2")
            .auth("ours", "alice-hunter2")
    );
    assert!(text.contains("digest") && text.contains("ours"), "{text}");
    assert!(
        !text.contains("alice") && !text.contains("hunter2"),
        "{text}"
    );
}

/// A server in the middle answers the last token with a proof of its own invention.
#[cfg(feature = "sasl")]
#[tokio::test]
async fn a_server_that_does_not_know_the_password_is_named() {
    let mut impostor = zk_testkit::impostor::impostor().await;
    let began = Instant::now();
    let builder = Session::builder(impostor.address.to_string())
        .sasl_digest("owner", "s3cret")
        .connect_timeout(Duration::from_secs(120));
    let error = builder.connect().await.expect_err("it has no proof");
    let text = error.to_string();
    assert!(
        text.starts_with(&format!(
            "no session, because SASL with {} failed: the server has not proved",
            impostor.address
        )),
        "{text}"
    );
    assert!(!text.contains("s3cret"), "{text}");
    // It was not asked until the timeout.
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "{:?}",
        began.elapsed()
    );
    let mut proofs = 0;
    while impostor.proofs.try_recv().is_ok() {
        proofs += 1;
    }
    assert_eq!(proofs, 3);
    assert!(impostor.requests.try_recv().is_err(), "no request was sent");
}
