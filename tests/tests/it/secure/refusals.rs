//! What each refusal says: the table in `docs/security.md`.

use std::fmt::Write as _;
use std::time::Duration;

use futures_util::future::join_all;
use zk_core::wire::Certificates;
use zk_core::{
    Acl, AclEntry, ConnectError, Error, ErrorClass, ErrorKind, Identity, Permissions, Session,
    SessionBuilder,
};
use zk_harness::certificates::{self, Flaw};
use zk_harness::{DataStore, Ensemble, SaslDigest, superuser_digest};
use zk_testkit::impostor::impostor;

use super::failure::chain;
use super::{PASSWORDS, assert_documented, soon};

/// How long a refused session is tried: long enough for the first handshakes of servers on a busy machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test]
async fn each_refusal_says_what_its_table_says() {
    let users = SaslDigest::new([("alice", PASSWORDS[0])]).required();
    let ensemble = Ensemble::builder().servers(3).data(DataStore::Memory);
    let superuser = superuser_digest(PASSWORDS[0]);
    let ensemble = ensemble.tls(true).sasl_digest(users).superuser(superuser);
    let ensemble = ensemble.start().await;
    let ensemble = ensemble.expect("the servers start");
    let certificates = ensemble.certificates().expect("it has some");
    let servers = ensemble.secure_connect_string().expect("it has TLS");
    let servers: Vec<&str> = servers.split(',').collect();
    let [one, two, three] = servers[..] else {
        panic!("three servers are expected: {servers:?}");
    };
    let trusting = || Certificates::trusting(certificates.authority());
    let showing = |identity: certificates::Identity| {
        trusting().with_identity(identity.certificate, identity.key)
    };
    let good = || showing(certificates.client());
    let session_of = |server: &str, tls| {
        let builder = Session::builder(server);
        let builder = builder.connect_timeout(CONNECT_TIMEOUT);
        builder.tls(tls)
    };
    let alice = |server: &str, tls| session_of(server, tls).sasl_digest("alice", PASSWORDS[0]);
    let nonsense = ensemble.directory().join("ca.txt");
    std::fs::write(&nonsense, "no certificate").unwrap();

    let plain = ensemble.servers()[0].client_address().to_string();
    let impostor = impostor().await;
    let of_client = refusals([
        ("the client has no certificate", alice(one, trusting())),
        (
            "its certificate has expired",
            alice(one, showing(certificates.flawed_client(Flaw::Expired))),
        ),
        (
            "its certificate is from an unknown authority",
            alice(
                one,
                showing(certificates.flawed_client(Flaw::OtherAuthority)),
            ),
        ),
        ("the port is not one for TLS", alice(&plain, good())),
        (
            "a file cannot be read",
            alice(
                one,
                Certificates::trusting(ensemble.directory().join("none.pem")),
            ),
        ),
        (
            "a file is not PEM",
            alice(one, Certificates::trusting(nonsense.as_path())),
        ),
        (
            "the password is wrong",
            session_of(one, good()).sasl_digest("alice", PASSWORDS[2]),
        ),
        (
            "the server does not know the password",
            Session::builder(impostor.address.to_string())
                .connect_timeout(CONNECT_TIMEOUT)
                .sasl_digest("alice", PASSWORDS[0]),
        ),
    ])
    .await;
    let connected = soon("a session", alice(one, good()).connect()).await;
    let session = connected.expect("nothing is wrong");
    let of_rights = missing_rights(&session).await;
    session.close().await.unwrap();
    let of_passwords = wrong_passwords(async |user, password| {
        let builder = alice(one, good()).digest_auth(user, password);
        soon("a session", builder.connect())
            .await
            .expect("it is granted")
    })
    .await;
    // The servers grant a session, and refuse its first request.
    let connected = soon("a session", session_of(one, good()).connect()).await;
    let nameless = connected.expect("it is granted");
    let refused = soon("a refusal", nameless.get("/").into_future()).await;
    let refused = refused.expect_err("it has no user");
    assert_eq!(refused.kind(), ErrorKind::AuthRequired, "{refused}");
    assert_eq!(refused.class(), ErrorClass::Fatal, "{refused}");
    let of_nameless = (
        "SASL is required, and there is no user",
        "ErrorKind::AuthRequired",
        chain(&refused),
    );

    let flaws = [Flaw::OtherHost, Flaw::Expired, Flaw::OtherAuthority];
    let replaced = ensemble.replace_certificates(flaws.map(Some));
    replaced.await.unwrap();
    let of_server = refusals([
        (
            "the server's certificate is for another host",
            alice(one, good()),
        ),
        ("the server's certificate has expired", alice(two, good())),
        (
            "the server's certificate is from an unknown authority",
            alice(three, good()),
        ),
    ])
    .await;

    let mut table = String::new();
    let all = of_server.into_iter().chain(of_client).chain([of_nameless]);
    for (cause, name, text) in all.chain(of_passwords).chain(of_rights) {
        let text = text.replace(&plain, "zk1:2181");
        let text = text.replace(&impostor.address.to_string(), "zk1:2181");
        let text = servers
            .iter()
            .fold(text, |text, one| text.replace(one, "zk1:2281"));
        let text = text.replace("127.0.0.1", "zk1");
        let directory = ensemble.directory().display().to_string();
        let text = general(&text.replace(&directory, "/etc/app"));
        writeln!(table, "| {cause} | `{name}` | {text} |").unwrap();
    }
    ensemble.down().await.unwrap();
    assert_documented("refusals", &table);
}

/// A cause, the error, and its text with all sources.
type Refusal = (&'static str, &'static str, String);

/// Tries to connect, at the same time, and returns the errors.
async fn refusals<const N: usize>(all: [(&'static str, SessionBuilder); N]) -> Vec<Refusal> {
    let refused = all.map(async |(cause, builder)| {
        let connected = soon(cause, builder.connect()).await;
        let error = connected.map(|session| session.id()).expect_err(cause);
        let name = match &error {
            ConnectError::NotEncrypted { .. } => "ConnectError::NotEncrypted",
            ConnectError::InvalidTls { .. } => "ConnectError::InvalidTls",
            ConnectError::AuthFailed => "ConnectError::AuthFailed",
            ConnectError::NotProved { .. } => "ConnectError::NotProved",
            other => panic!("{cause}: {other:?}"),
        };
        (cause, name, chain(&error))
    });
    join_all(refused).await
}

/// Reads a node of another user as him and as the superuser, with wrong passwords. Servers accept any password of the
/// scheme `digest`: with another one the user is another identity.
async fn wrong_passwords(session_of: impl AsyncFn(&str, &str) -> Session) -> Vec<Refusal> {
    let bob = session_of("bob", PASSWORDS[1]).await;
    let own = bob.create("/of-bob", "").acl(Acl::creator_only());
    own.await.unwrap();
    let (acl, _) = bob.acl("/of-bob").await.unwrap();
    let entries = acl.entries().iter();
    let of_bob = entries.filter(|entry| entry.scheme() == "digest").cloned();
    bob.set_acl("/of-bob", Acl::new(of_bob)).await.unwrap();
    bob.get("/of-bob").await.expect("it is his");
    bob.close().await.unwrap();
    let superuser = session_of("super", PASSWORDS[0]).await;
    superuser.get("/of-bob").await.expect("no ACL restricts it");
    superuser.close().await.unwrap();
    let mut refused = Vec::new();
    for (cause, user) in [
        ("the password of the scheme `digest` is wrong", "bob"),
        ("the password of the superuser is wrong", "super"),
    ] {
        let session = session_of(user, PASSWORDS[2]).await;
        let error = session.get("/of-bob").await.expect_err(cause);
        assert_eq!(error.kind(), ErrorKind::NoAuth, "{cause}: {error}");
        let identities = session.whoami().await.unwrap();
        let has = |scheme, name| {
            let is_it = |one: &Identity| (&*one.scheme, &*one.name) == (scheme, name);
            identities.iter().any(is_it)
        };
        assert!(
            has("digest", user) && has("sasl", "alice"),
            "{identities:?}"
        );
        assert!(!has("super", ""), "{identities:?}");
        refused.push((cause, "ErrorKind::NoAuth", chain(&error)));
        session.close().await.unwrap();
    }
    refused
}

/// Tries what the user has no right to.
async fn missing_rights(session: &Session) -> Vec<Refusal> {
    let permits = |rights| Acl::new([AclEntry::new(rights, "sasl", "alice")]);
    session.create("/app", "").await.unwrap();
    session.create("/app/node", "").await.unwrap();
    let writes = permits(Permissions::WRITE);
    session.create("/secret", "").acl(writes).await.unwrap();
    session
        .set_acl("/app/node", permits(Permissions::READ))
        .await
        .unwrap();
    session
        .set_acl("/app", permits(Permissions::READ))
        .await
        .unwrap();
    let transaction = session.transaction().check_version("/app", 0);
    let transaction = transaction.set("/app/node", "new");
    let refused: [(&str, Result<(), Error>); 6] = [
        ("no right to read", session.get("/secret").await.map(drop)),
        (
            "no right to write",
            session.set("/app/node", "").await.map(drop),
        ),
        (
            "no right to create",
            session.create("/app/other", "").await.map(drop),
        ),
        (
            "no right to delete",
            session.delete("/app/node").await.map(drop),
        ),
        (
            "no right to change the rights",
            session.set_acl("/app", Acl::open()).await.map(drop),
        ),
        (
            "no right to a part of a transaction",
            transaction.commit().await.map(drop),
        ),
    ];
    let refused = refused.map(|(cause, result)| {
        let error = result.expect_err(cause);
        assert_eq!(error.kind(), ErrorKind::NoAuth, "{cause}: {error}");
        assert_eq!(error.class(), ErrorClass::Outcome, "{cause}: {error}");
        (cause, "ErrorKind::NoAuth", chain(&error))
    });
    refused.into()
}

/// Replaces what the date has to do with.
fn general(text: &str) -> String {
    match text.split_once(" days ago") {
        Some((before, after)) => {
            let before = before.trim_end_matches(|digit: char| digit.is_ascii_digit());
            format!("{before}… days ago{after}")
        }
        None => text.to_owned(),
    }
}
