//! Servers with TLS and SASL, seen by ZooKeeper's own client.

use zk_harness::SaslDigest;

use crate::support::{for_each_release, in_memory, java_shell};

#[cfg(feature = "tls")]
#[tokio::test]
async fn no_other_user_can_read_the_files_of_an_ensemble() {
    use std::os::unix::fs::PermissionsExt as _;
    use zk_harness::{Ensemble, superuser_digest};
    let users = SaslDigest::new([("alice", "secret")]);
    let ensemble = in_memory(1).tls(true).sasl_digest(users);
    let ensemble = ensemble.superuser(superuser_digest("secret"));
    let ensemble = ensemble.start().await.unwrap();
    ensemble.replace_certificates([None]).await.unwrap();
    let ensemble = Ensemble::attach(&ensemble.detach().unwrap()).unwrap();
    ensemble.kill_all().await.unwrap();
    let mut paths: Vec<_> = ensemble.directories().map(ToOwned::to_owned).collect();
    let mut modes = std::collections::BTreeMap::new();
    while let Some(path) = paths.pop() {
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap();
            paths.extend(entries.map(|entry| entry.unwrap().path()));
        }
        modes.insert(path, metadata.permissions().mode());
    }
    ensemble.down().await.unwrap();
    for name in [
        "ensemble.json",
        "zoo-1.cfg",
        "jaas.conf",
        "certificate.pem",
        "peer-certificate.pem",
        "ca-key.pem",
        "client-key.pem",
        "server.log",
        "myid",
        "version-2",
    ] {
        let is_there = modes.keys().any(|path| path.ends_with(name));
        assert!(is_there, "{name} is not in {modes:?}");
    }
    for (path, mode) in modes {
        assert_eq!(mode & 0o077, 0, "{} has {mode:o}", path.display());
    }
}

/// Properties with which the client in Java uses TLS.
#[cfg(feature = "tls")]
fn tls_properties(
    authority: &std::path::Path,
    client: Option<&zk_harness::certificates::Identity>,
    directory: &std::path::Path,
) -> Vec<String> {
    let mut properties = vec![
        "-Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty".to_owned(),
        "-Dzookeeper.client.secure=true".to_owned(),
        "-Dzookeeper.ssl.trustStore.type=PEM".to_owned(),
        format!(
            "-Dzookeeper.ssl.trustStore.location={}",
            authority.display()
        ),
    ];
    if let Some(client) = client {
        let both = directory.join("client-of-test.pem");
        let texts = [&client.key, &client.certificate].map(|file| std::fs::read(file).unwrap());
        std::fs::write(&both, texts.concat()).unwrap();
        properties.push("-Dzookeeper.ssl.keyStore.type=PEM".to_owned());
        properties.push(format!(
            "-Dzookeeper.ssl.keyStore.location={}",
            both.display()
        ));
    }
    properties
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn servers_with_tls_require_a_certificate_of_their_authority() {
    use zk_harness::certificates::Flaw;
    for_each_release(async |version| {
        let ensemble = in_memory(3).zookeeper(version).tls(true);
        let ensemble = ensemble.start().await.unwrap();
        let certificates = ensemble.certificates().unwrap();
        let servers = ensemble.secure_connect_string().unwrap();
        let good = certificates.client();
        let flawed = certificates.flawed_client(Flaw::OtherAuthority);
        for (client, authority, expected) in [
            (Some(&good), certificates.authority(), "[zookeeper]"),
            (None, certificates.authority(), "Received fatal alert"),
            (
                Some(&flawed),
                certificates.authority(),
                "Received fatal alert",
            ),
            (Some(&good), certificates.other_authority(), "PKIX path"),
        ] {
            let properties = tls_properties(&authority, client, ensemble.directory());
            java_shell::expect(&ensemble, &servers, &properties, &["ls", "/"], expected).await;
        }
        let log = ensemble.servers()[0].log_tail(10_000);
        assert!(
            log.contains("Creating TLS-only quorum server socket"),
            "{log}"
        );
        ensemble.down().await.unwrap();
    })
    .await;
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn a_server_shows_a_replaced_certificate_after_a_restart() {
    use zk_harness::certificates::Flaw;
    let ensemble = in_memory(1).tls(true).start().await.unwrap();
    let certificates = ensemble.certificates().unwrap();
    certificates.replace_server(1, Some(Flaw::Expired)).unwrap();
    let server = &ensemble.servers()[0];
    server.restart().await.unwrap();
    ensemble.wait_serving().await.unwrap();
    let client = certificates.client();
    let properties = tls_properties(
        &certificates.authority(),
        Some(&client),
        ensemble.directory(),
    );
    let servers = ensemble.secure_connect_string().unwrap();
    let refusal = "CertificateExpiredException";
    java_shell::expect(&ensemble, &servers, &properties, &["ls", "/"], refusal).await;
    ensemble.down().await.unwrap();
}

#[tokio::test]
async fn servers_with_sasl_know_their_users() {
    for_each_release(async |version| {
        for required in [false, true] {
            let mut users = SaslDigest::new([("alice", "secret")]);
            users.required = required;
            let ensemble = in_memory(1).zookeeper(version).sasl_digest(users);
            let ensemble = ensemble.start().await.unwrap();
            let servers = ensemble.connect_string();
            let without = if required {
                (
                    None,
                    "ls /",
                    "Session closed because client failed to authenticate",
                )
            } else {
                (None, "whoami", "ip: 127.0.0.1")
            };
            for (password, command, expected) in [
                (Some("secret"), "whoami", "sasl: alice"),
                (Some("wrong"), "whoami", "AuthFailed"),
                without,
            ] {
                let properties = password
                    .map(|password| jaas_properties(&ensemble, password))
                    .unwrap_or_default();
                let command: Vec<_> = command.split(' ').collect();
                java_shell::expect(&ensemble, &servers, &properties, &command, expected).await;
            }
            ensemble.down().await.unwrap();
        }
    })
    .await;
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn tls_is_refused_together_with_links() {
    let started = in_memory(3).tls(true).quorum_links(true).start().await;
    assert_eq!(
        started.unwrap_err().to_string(),
        "tls = true: not supported with quorum_links, because the links have to read what servers send; omit one of them"
    );
    let plain = in_memory(1).start().await.unwrap();
    let without = "the ensemble has no certificates: start it with `Ensemble::builder().tls(true)`";
    assert_eq!(plain.certificates().unwrap_err().to_string(), without);
    assert_eq!(
        plain.secure_connect_string().unwrap_err().to_string(),
        without
    );
    plain.down().await.unwrap();
}

/// Returns properties with which the client in Java authenticates.
fn jaas_properties(ensemble: &zk_harness::Ensemble, password: &str) -> Vec<String> {
    let file = ensemble.directory().join(format!("client-{password}.conf"));
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule";
    let text = format!(
        "Client {{\n    {module} required\n    username=\"alice\" password=\"{password}\";\n}};\n"
    );
    std::fs::write(&file, text).unwrap();
    vec![
        format!("-Djava.security.auth.login.config={}", file.display()),
        "-Dzookeeper.fips-mode=false".to_owned(),
    ]
}
