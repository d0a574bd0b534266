//! The shell on servers that require a certificate and a password.

use zk_harness::{Ensemble, SaslDigest};

use crate::{command, finish};

#[tokio::test(flavor = "multi_thread")]
async fn certificates_and_passwords_come_from_the_environment() {
    let users = SaslDigest::new([("alice", "hunter2")]).required();
    let ensemble = Ensemble::builder().servers(1).tls(true).sasl_digest(users);
    let ensemble = ensemble.start().await.expect("a server starts");
    let connect = ensemble.secure_connect_string().unwrap();
    let certificates = ensemble.certificates().unwrap();
    let client = certificates.client();
    let zk = async |sasl: &str, has_key: bool| {
        let mut command = command(&connect, &["ls", "/", "--timeout", "20s"]);
        command
            .env("ZK_SASL", sasl)
            .env("ZK_TLS_CA", certificates.authority())
            .env("ZK_TLS_CERTIFICATE", &client.certificate);
        if has_key {
            command.env("ZK_TLS_KEY", &client.key);
        }
        let output = finish(command, b"").await;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        assert!(!said.contains("hunter"), "{said}");
        (output.status.code(), said)
    };
    let listed = zk("alice:hunter2", true).await;
    assert_eq!(listed, (Some(0), "[zookeeper]\n".to_owned()));
    let (status, wrong) = zk("alice:hunter3", true).await;
    assert_eq!(status, Some(1));
    assert!(
        wrong.contains("refused the session's credentials"),
        "{wrong}"
    );
    let (status, incomplete) = zk("alice:hunter2", false).await;
    assert_eq!(status, Some(2));
    assert!(incomplete.contains("ZK_TLS_KEY"), "{incomplete}");
    ensemble.down().await.expect("the server goes down");
}
