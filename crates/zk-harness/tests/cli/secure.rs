//! Tests `up --tls --auth`, and what `env` prints for clients.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::EnsembleDir;

#[test]
fn env_prints_what_clients_of_a_secure_ensemble_need() {
    let dir = EnsembleDir::new();
    let up = dir.ok(&["up", "-n", "1", "--data", "memory", "--tls", "--auth"]);
    let env: serde_json::Value =
        serde_json::from_str(&dir.ok(&["env", "--format", "json"])).unwrap();
    let value = |name: &str| {
        env[name]
            .as_str()
            .unwrap_or_else(|| panic!("{name}: {env}"))
    };
    for name in ["ZK_TLS_CA", "ZK_TLS_CERTIFICATE", "ZK_TLS_KEY"] {
        let pem = fs::read_to_string(value(name)).unwrap();
        assert!(pem.starts_with("-----BEGIN"), "{name}");
        assert!(up.contains(name), "{up}");
    }
    let connect = value("ZK_CONNECT");
    assert!(up.contains(&format!("connect: {connect}\n")), "{up}");
    let plain = dir.status("default")["servers"][0]["client_port"].to_string();
    assert!(!connect.ends_with(&plain), "{connect} is without TLS");

    let (user, password) = value("ZK_SASL").split_once(':').unwrap();
    assert_eq!((user, password.len()), ("alice", 20));
    assert!(!up.contains(password), "{up}");
    let file = up
        .lines()
        .find_map(|line| line.strip_prefix("credentials, also of the superuser: "));
    let file = Path::new(file.unwrap_or_else(|| panic!("{up}")));
    let mode = fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = fs::read_to_string(file).unwrap();
    assert!(text.starts_with(&format!("ZK_SASL=alice:{password}\nZK_AUTH=super:")));

    let export = dir.ok(&["env"]);
    assert_eq!(export.lines().count(), 5, "{export}");
    assert!(dir.ok(&["up", "--tls", "--auth"]).contains("is already up"));
    dir.ok(&["down"]);

    dir.ok(&["up", "-n", "1", "--data", "memory"]);
    let refused = dir.fails(&["up", "--tls", "--auth"]);
    assert!(
        refused.contains("its connections are not encrypted"),
        "{refused}"
    );
    assert!(
        refused.contains("its clients do not authenticate"),
        "{refused}"
    );
    dir.ok(&["down"]);
}
