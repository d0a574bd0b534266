//! Sessions that are encrypted, or that prove who they are, and what is said of those that are refused.

use std::fs;
use std::time::Duration;

use zk_core::ConnectError;
use zk_core::ProtocolClient;
use zk_core::Session;
use zk_core::SessionBuilder;
use zk_core::Tls;
use zk_harness::Ensemble;
use zk_harness::SaslDigest;
use zk_harness::certificates::Flaw;
use zk_harness::certificates::Identity;

use crate::MAX_WAIT;
use crate::within;

const SHORT: Duration = Duration::from_secs(3);

fn with_identity(tls: Tls, identity: &Identity) -> Tls {
    let text = |path| fs::read_to_string(path).expect("the harness has written it");
    tls.with_identity(text(&identity.certificate), text(&identity.key))
}

async fn refusal(builder: SessionBuilder) -> ConnectError {
    let connected = within(
        MAX_WAIT,
        "a refusal",
        builder.connect_timeout(SHORT).connect(),
    );
    let connected = connected.await;
    connected
        .map(|session| session.id())
        .expect_err("it must be refused")
}

// covers: C1 C22
#[tokio::test]
async fn encrypted_sessions_work_or_say_what_is_wrong() {
    for version in ["3.8", "3.9"] {
        let ensemble = Ensemble::builder().servers(1).zookeeper(version);
        let ensemble = ensemble.tls(true).start().await.expect("a server starts");
        let certificates = ensemble.certificates().expect("it has some");
        let authority = fs::read_to_string(certificates.authority()).unwrap();
        let builder = Session::builder(ensemble.secure_connect_string().unwrap());
        let tls = Tls::trusting(authority);

        let good = builder
            .clone()
            .tls(with_identity(tls.clone(), &certificates.client()));
        // The other client cannot choose between the two cryptographic libraries of this test build.
        let session = good.client(ProtocolClient::ZkWire).connect().await.unwrap();
        session.create("/a", "x").await.unwrap();
        session.close().await.unwrap();
        let none = refusal(builder.clone().tls(tls.clone())).await;
        assert!(matches!(none, ConnectError::NotEncrypted { .. }), "{none}");
        assert!(
            none.to_string().contains("the client's certificate"),
            "{none}"
        );
        let expired = certificates.flawed_client(Flaw::Expired);
        let expired = refusal(builder.clone().tls(with_identity(tls.clone(), &expired))).await;
        assert!(
            expired.to_string().contains("the client's certificate"),
            "{expired}"
        );
        let other = fs::read_to_string(certificates.other_authority()).unwrap();
        let other = refusal(builder.clone().tls(Tls::trusting(other))).await;
        assert!(
            other
                .to_string()
                .contains("not signed by a trusted authority"),
            "{other}"
        );
        let nonsense = refusal(builder.tls(Tls::trusting("no certificate"))).await;
        assert!(
            matches!(nonsense, ConnectError::InvalidTls { .. }),
            "{nonsense}"
        );
        ensemble.down().await.expect("the server goes down");
    }
}

// covers: C1 C22
#[tokio::test]
async fn a_password_is_proved_or_refused() {
    for version in ["3.8", "3.9"] {
        let mut users = SaslDigest::new([("alice", "secret")]);
        users.required = true;
        let ensemble = Ensemble::builder().servers(1).zookeeper(version);
        let ensemble = ensemble.sasl_digest(users).start().await;
        let ensemble = ensemble.expect("a server starts");
        let builder = Session::builder(ensemble.connect_string());
        let right = builder.clone().sasl_digest("alice", "secret");
        assert!(!format!("{right:?}").contains("secret"), "{right:?}");
        let session = right.connect().await.unwrap();
        session.create("/a", "x").await.unwrap();
        session.close().await.unwrap();
        let wrong = refusal(builder.sasl_digest("alice", "guess")).await;
        assert!(matches!(wrong, ConnectError::AuthFailed), "{wrong}");
        ensemble.down().await.expect("the server goes down");
    }
}

// covers: S1
#[tokio::test]
async fn a_replaced_certificate_is_used_without_a_restart() {
    let ensemble = Ensemble::builder().servers(1).tls(true).start().await;
    let ensemble = ensemble.expect("a server starts");
    let certificates = ensemble.certificates().expect("it has some");
    let (certificate, key) = (
        ensemble.directory().join("certificate-in-use.pem"),
        ensemble.directory().join("key-in-use.pem"),
    );
    let replace = |by: &Identity| {
        fs::copy(&by.key, &key).unwrap();
        fs::copy(&by.certificate, &certificate).unwrap();
    };
    replace(&certificates.client());
    let tls = Tls::trusting_file(certificates.authority()).with_identity_files(&certificate, &key);
    let builder = Session::builder(ensemble.secure_connect_string().unwrap());
    let builder = builder.client(ProtocolClient::ZkWire).tls(tls);
    let session = builder.clone().session_timeout(MAX_WAIT);
    let session = session.connect().await.unwrap();
    let id = session.id();

    // An expired one is read by the next connection, and refused.
    replace(&certificates.flawed_client(Flaw::Expired));
    let expired = refusal(builder.clone()).await;
    assert!(
        expired.to_string().contains("the client's certificate"),
        "{expired}"
    );
    ensemble.servers()[0].restart().await.unwrap();
    ensemble.wait_serving().await.unwrap();
    let unanswered = session.get("/").timeout(SHORT).await;
    assert!(unanswered.is_err(), "the running session reads it, too");
    replace(&certificates.client());
    let connected = within(MAX_WAIT, "a new connection", session.connected());
    connected.await.unwrap();
    session.create("/a", "x").await.unwrap();
    assert_eq!(session.id(), id);

    fs::remove_file(&key).unwrap();
    let missing = refusal(builder).await;
    assert!(
        matches!(&missing, ConnectError::InvalidTls { problem, .. } if problem.contains("key-in-use.pem")),
        "{missing}"
    );
    session.close().await.unwrap();
    ensemble.down().await.expect("the server goes down");
}
