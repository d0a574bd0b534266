//! The rows that need other settings of the servers, and so servers of their own.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use zk_core::wire::{Certificates, Pem};
use zk_core::{ConnectError, ConnectionState, ErrorKind, Session};
use zk_harness::{DataStore, Ensemble, EnsembleBuilder, SaslDigest};

use super::{LIMIT, Outcome, Row, Servers, session_builder, within};

pub(super) const ROWS: &[Row] = &[
    ("TLS", |servers| Box::pin(tls(servers))),
    ("SASL with DIGEST-MD5", |servers| Box::pin(sasl(servers))),
    ("reads from a server without a quorum", |servers| {
        Box::pin(read_only(servers))
    }),
];

/// Starts to describe servers of the version that the other rows run.
fn builder(servers: &Servers) -> EnsembleBuilder {
    let builder = Ensemble::builder().data(DataStore::Memory);
    match servers.version {
        Some(version) => builder.zookeeper(version),
        None => builder,
    }
}

async fn tls(servers: &Servers) -> anyhow::Result<Outcome> {
    // Servers of 3.4 have no port for it. Newer ones show that the certificates are good, and so not what is refused.
    let lacks_tls = servers.ensemble.version().starts_with("3.4.");
    let builder = if lacks_tls {
        builder(servers).zookeeper("3.9")
    } else {
        builder(servers)
    };
    let ensemble = builder.servers(1).tls(true).start().await?;
    let certificates = ensemble.certificates()?;
    let text = |path: &Path| std::fs::read_to_string(path).context("the harness has written it");
    let identity = certificates.client();
    let tls = Certificates::trusting(Pem::Text(text(&certificates.authority())?)).with_identity(
        Pem::Text(text(&identity.certificate)?),
        Pem::Text(text(&identity.key)?),
    );
    let encrypted = |address: String| Session::builder(address).tls(tls.clone());
    let session = encrypted(ensemble.secure_connect_string()?)
        .connect()
        .await?;
    session.create("/encrypted", "").await?;
    session.close().await?;
    ensemble.down().await?;
    if !lacks_tls {
        return Ok(Outcome::Works);
    }
    let address = servers.ensemble.direct_connect_string();
    let session = encrypted(address).connect_timeout(Duration::from_secs(5));
    match session.connect().await {
        Err(ConnectError::NotEncrypted { .. }) => Ok(Outcome::Refused),
        Err(other) => Err(other.into()),
        Ok(_) => bail!("a session that is not encrypted"),
    }
}

async fn sasl(servers: &Servers) -> anyhow::Result<Outcome> {
    let users = SaslDigest::new([("alice", "secret")]);
    let ensemble = builder(servers)
        .servers(1)
        .sasl_digest(users)
        .start()
        .await?;
    let session = session_builder(&ensemble, ensemble.connect_string());
    let right = session
        .clone()
        .sasl_digest("alice", "secret")
        .connect()
        .await?;
    right
        .create("/proved", "")
        .acl(zk_core::Acl::new([zk_core::AclEntry::new(
            zk_core::Permissions::ALL,
            "sasl",
            "alice",
        )]))
        .await?;
    ensure!(right.get("/proved").await?.0.is_empty());
    let wrong = session.clone().sasl_digest("alice", "guess");
    let wrong = wrong
        .connect_timeout(Duration::from_secs(4))
        .connect()
        .await;
    let outcome = match wrong.err().context("the password is wrong")? {
        ConnectError::AuthFailed => Outcome::Works,
        // The servers close the connection without a reply.
        ConnectError::Unanswered(_) => {
            Outcome::Degraded("but a wrong password is reported as no answer")
        }
        other => return Err(other.into()),
    };
    let without = session.connect().await?;
    without.sync("/").await?;
    let refused = without
        .get("/proved")
        .await
        .err()
        .context("it is not permitted")?;
    ensure!(refused.kind() == ErrorKind::NoAuth, "{refused}");
    for session in [right, without] {
        session.close().await?;
    }
    ensemble.down().await?;
    Ok(outcome)
}

async fn read_only(servers: &Servers) -> anyhow::Result<Outcome> {
    let ensemble = builder(servers)
        .servers(3)
        .tick_time(Duration::from_millis(500))
        .read_only_mode(true)
        .start()
        .await?;
    let [one, two, three] = ensemble.servers() else {
        bail!("three servers are expected");
    };
    let session = session_builder(&ensemble, three.client_address().to_string());
    let writer = session.clone().connect().await?;
    writer.create("/read", "data").await?;
    writer.close().await?;
    for server in [one, two] {
        server.kill().await?;
    }
    within(LIMIT, "the server that is left is read-only", async {
        let mut polls = tokio::time::interval(Duration::from_millis(50));
        while three.four_letter("isro").await.ok().as_deref() != Some("ro") {
            polls.tick().await;
        }
    })
    .await?;
    let session = session
        .connect_timeout(Duration::from_secs(40))
        .allow_read_only()
        .connect()
        .await?;
    ensure!(session.state() == ConnectionState::ReadOnly);
    ensure!(session.get("/read").await?.0 == "data");
    let refused = session.set("/read", "new").await.err();
    let refused = refused.context("nothing is written")?;
    ensure!(refused.kind() == ErrorKind::ReadOnlyServer, "{refused}");
    ensemble.down().await?;
    Ok(Outcome::Works)
}
