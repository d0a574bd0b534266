//! Sessions that are encrypted, or that prove who they are, and what is said of those that are refused.

use std::fs;
use std::time::Duration;

use zk_core::wire::{CertificateRefusal, Certificates, Pem, TlsFailure};
use zk_core::{ConnectError, ErrorKind, Session, SessionBuilder, SessionEnd};
use zk_harness::certificates::{Flaw, Identity};
use zk_harness::{Ensemble, SaslDigest};

use crate::{MAX_WAIT, for_each_release, within};

const SHORT: Duration = Duration::from_secs(5);
/// Enough for several handshakes, of which the client gives each more time than the one before.
const LONG: Duration = Duration::from_secs(15);

fn with_identity(tls: Certificates, identity: &Identity) -> Certificates {
    let text = |path| Pem::Text(fs::read_to_string(path).expect("the harness has written it"));
    tls.with_identity(text(&identity.certificate), text(&identity.key))
}

async fn refusal(builder: SessionBuilder) -> ConnectError {
    let connecting = builder.connect_timeout(LONG).connect();
    let connected = within(MAX_WAIT, "a refusal", connecting).await;
    connected
        .map(|session| session.id())
        .expect_err("it must be refused")
}

/// Waits until no encrypted connection could be made, and returns why.
async fn tls_failure(builder: SessionBuilder) -> TlsFailure {
    match refusal(builder).await {
        ConnectError::NotEncrypted { source, .. } => source,
        other => panic!("it is no failure of TLS: {other:?}"),
    }
}

/// Waits until servers have refused the client, and returns why.
async fn client_refusal(builder: SessionBuilder) -> CertificateRefusal {
    match tls_failure(builder).await {
        TlsFailure::ClientRefused(why) => why,
        other => panic!("the client was not refused: {other}"),
    }
}

#[tokio::test]
async fn encrypted_sessions_work_or_say_what_is_wrong() {
    for_each_release(async |version| {
        let ensemble = Ensemble::builder().servers(1).zookeeper(version);
        let ensemble = ensemble.tls(true).start().await.expect("a server starts");
        let certificates = ensemble.certificates().expect("it has some");
        let authority = fs::read_to_string(certificates.authority()).unwrap();
        let builder = Session::builder(ensemble.secure_connect_string().unwrap());
        let tls = Certificates::trusting(Pem::Text(authority));

        let good = builder
            .clone()
            .tls(with_identity(tls.clone(), &certificates.client()));
        let good = good.connect_timeout(MAX_WAIT);
        let session = good.connect().await.unwrap();
        session.create("/a", "x").await.unwrap();
        session.close().await.unwrap();
        let refusal_of = |flaw| {
            let identity = certificates.flawed_client(flaw);
            client_refusal(builder.clone().tls(with_identity(tls.clone(), &identity)))
        };
        let other = fs::read_to_string(certificates.other_authority()).unwrap();
        let (none, expired, foreign, other) = tokio::join!(
            client_refusal(builder.clone().tls(tls.clone())),
            refusal_of(Flaw::Expired),
            refusal_of(Flaw::OtherAuthority),
            tls_failure(
                builder
                    .clone()
                    .tls(Certificates::trusting(Pem::Text(other)))
            )
        );
        assert_eq!(none, CertificateRefusal::NoCertificate);
        // Servers in Java send the same alert for both.
        let unexplained = CertificateRefusal::Unexplained("CertificateUnknown".to_owned());
        assert_eq!(expired, unexplained);
        assert_eq!(foreign, unexplained);
        assert_eq!(other, TlsFailure::UnknownAuthority);
        let nonsense = refusal(builder.tls(Certificates::trusting(Pem::Text(
            "no certificate".to_owned(),
        ))))
        .await;
        assert!(
            matches!(nonsense, ConnectError::InvalidTls { .. }),
            "{nonsense}"
        );
        ensemble.down().await.expect("the server goes down");
    })
    .await;
}

#[tokio::test]
async fn a_server_with_a_wrong_certificate_is_refused() {
    for_each_release(async |version| {
        let ensemble = Ensemble::builder().servers(3).zookeeper(version);
        let ensemble = ensemble.tls(true).start().await.expect("the servers start");
        let certificates = ensemble.certificates().expect("it has some");
        let addresses = ensemble.secure_connect_string().unwrap();
        let [one, two, three] = addresses.split(',').collect::<Vec<_>>()[..] else {
            panic!("three servers are expected: {addresses}");
        };
        let tls = Certificates::trusting(certificates.authority());
        let tls = with_identity(tls, &certificates.client());
        let builder = |address: &str| {
            let builder = Session::builder(address);
            builder.tls(tls.clone())
        };
        let flaws = [Flaw::OtherHost, Flaw::Expired, Flaw::OtherAuthority];
        let replaced = ensemble.replace_certificates(flaws.map(Some));
        replaced.await.unwrap();
        let [other_host, expired, other_authority] = [one, two, three].map(async |address| {
            let refused = refusal(builder(address)).await;
            println!("{version}: {refused}");
            match refused {
                ConnectError::NotEncrypted { server, source, .. } => {
                    assert_eq!(server.to_string(), address);
                    source
                }
                other => panic!("it is no failure of TLS: {other:?}"),
            }
        });
        let (other_host, expired, other_authority) =
            tokio::join!(other_host, expired, other_authority);
        assert_eq!(
            other_host.to_string(),
            "the server's certificate is for elsewhere.example, not for 127.0.0.1"
        );
        assert!(matches!(other_host, TlsFailure::OtherHost { .. }));
        let year = Duration::from_secs(365 * 24 * 3600);
        assert!(
            matches!(expired, TlsFailure::Expired { ago } if ago > year),
            "{expired:?}"
        );
        assert!(
            expired.to_string().contains("certificate expired"),
            "{expired}"
        );
        assert_eq!(other_authority, TlsFailure::UnknownAuthority);

        ensemble.replace_certificates([None]).await.unwrap();
        let session = builder(one).connect_timeout(MAX_WAIT).connect().await;
        session.unwrap().close().await.unwrap();
        ensemble.down().await.expect("the servers go down");
    })
    .await;
}

#[tokio::test]
async fn a_password_is_proved_or_refused() {
    for_each_release(async |version| {
        let mut users = SaslDigest::new([("alice", "secret")]);
        users.required = true;
        let ensemble = Ensemble::builder().servers(1).zookeeper(version);
        let ensemble = ensemble.sasl_digest(users).start().await;
        let ensemble = ensemble.expect("a server starts");
        let builder = Session::builder(ensemble.connect_string());
        let right = builder.clone().sasl_digest("alice", "secret");
        assert!(!format!("{right:?}").contains("secret"), "{right:?}");
        let session = right.connect_timeout(MAX_WAIT).connect().await.unwrap();
        session.create("/a", "x").await.unwrap();
        session.close().await.unwrap();
        let wrong = refusal(builder.sasl_digest("alice", "guess")).await;
        assert!(matches!(wrong, ConnectError::AuthFailed), "{wrong}");
        ensemble.down().await.expect("the server goes down");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_requires_authentication_says_so() {
    let ensemble = Ensemble::builder().servers(1).zookeeper("3.9");
    let ensemble = ensemble
        .property("enforce.auth.enabled", "true")
        .property("enforce.auth.schemes", "digest");
    let ensemble = ensemble.start().await.expect("a server starts");
    let builder = Session::builder(ensemble.connect_string());
    let session = builder.clone().connect().await.unwrap();
    let refused = session.create("/a", "").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::AuthRequired, "{refused}");
    assert!(!refused.is_outcome_unknown(), "{refused}");
    let lost = within(MAX_WAIT, "the end of the session", session.lost());
    assert_eq!(lost.await, SessionEnd::AuthRequired);
    let chrooted = Session::builder(format!("{}/app", ensemble.connect_string()));
    let chrooted = chrooted.connect().await;
    assert!(
        matches!(chrooted, Err(ConnectError::AuthRequired)),
        "{chrooted:?}"
    );
    let session = builder.digest_auth("alice", "secret").connect().await;
    let session = session.unwrap();
    session.create("/a", "").await.unwrap();
    session.close().await.unwrap();
    ensemble.down().await.expect("the server goes down");
}

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
    let tls = Certificates::trusting(certificates.authority())
        .with_identity(certificate.as_path(), key.as_path());
    let builder = Session::builder(ensemble.secure_connect_string().unwrap());
    let builder = builder.tls(tls);
    let session = builder.clone().session_timeout(MAX_WAIT);
    let session = session.connect().await.unwrap();
    let id = session.id();

    // An expired one is read by the next connection, and refused.
    replace(&certificates.flawed_client(Flaw::Expired));
    let expired = client_refusal(builder.clone()).await;
    let unexplained = |why: &_| matches!(why, CertificateRefusal::Unexplained(_));
    assert!(unexplained(&expired), "{expired}");
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

#[tokio::test]
async fn a_session_survives_a_new_authority_of_the_servers() {
    // Longer than all that happens here takes.
    let session_timeout = Duration::from_secs(600);
    let ensemble = Ensemble::builder().servers(3).tls(true);
    let ensemble = ensemble.max_session_timeout(session_timeout).start().await;
    let ensemble = ensemble.expect("the servers start");
    let certificates = ensemble.certificates().expect("it has some");
    let authorities = ensemble.directory().join("authorities.pem");
    fs::copy(certificates.authority(), &authorities).unwrap();
    let builder = |authorities| {
        let tls = with_identity(Certificates::trusting(authorities), &certificates.client());
        let builder = Session::builder(ensemble.secure_connect_string().unwrap()).tls(tls);
        let builder = builder.connect_timeout(MAX_WAIT);
        builder.session_timeout(session_timeout)
    };
    let informed = builder(authorities.clone()).connect().await.unwrap();
    let other = builder(certificates.authority()).connect().await.unwrap();
    let ids = (informed.id(), other.id());
    informed.create("/a", "x").ephemeral().await.unwrap();

    let text = |file| fs::read_to_string(file).expect("the harness has written it");
    let both = [certificates.authority(), certificates.other_authority()].map(text);
    fs::write(&authorities, both.concat()).unwrap();
    let flaw = Some(Flaw::OtherAuthority);
    let replaced = ensemble.replace_certificates([flaw; 3]);
    replaced.await.unwrap();

    let connected = within(MAX_WAIT, "a new connection", informed.connected());
    connected.await.unwrap();
    let node = informed.stat("/a").await.unwrap();
    assert_eq!(node.ephemeral_owner, Some(informed.id()));
    // The other session knows neither server, so it stays without a connection.
    let unsent = other.get("/a").timeout(SHORT).await.unwrap_err();
    assert_eq!(unsent.kind(), ErrorKind::NotConnected, "{unsent}");
    let refused = tls_failure(builder(certificates.authority())).await;
    assert_eq!(refused, TlsFailure::UnknownAuthority);
    ensemble.replace_certificates([None]).await.unwrap();
    let connected = within(MAX_WAIT, "a connection to server 1", other.connected());
    connected.await.unwrap();
    assert_eq!((informed.id(), other.id()), ids);
    informed.close().await.unwrap();
    other.close().await.unwrap();
    ensemble.down().await.expect("the servers go down");
}
