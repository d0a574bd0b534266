//! Tests `up --tls --auth`, and what `env` prints for clients.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

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

#[test]
fn an_ensemble_of_tls_only_refuses_clients_without_it() {
    let dir = EnsembleDir::new();
    dir.ok(&["up", "-n", "1", "--data", "memory", "--tls-only"]);
    let port = dir.status("default")["servers"][0]["client_port"].clone();
    let port = u16::try_from(port.as_u64().unwrap()).unwrap();
    let refused = plain_request(port);
    assert!(refused.is_none_or(|code| code != 0), "{refused:?}");
    assert!(dir.ok(&["up", "--tls-only"]).contains("is already up"));
    dir.ok(&["down"]);

    dir.ok(&["up", "-n", "1", "--data", "memory", "--tls"]);
    let refused = dir.fails(&["up", "--tls-only"]);
    assert!(
        refused.contains("it serves clients without TLS, too"),
        "{refused}"
    );
    dir.ok(&["down"]);
}

/// Opens a session without TLS, asks for the root's children, and returns the error code of the reply; `None` if the
/// connection is closed instead.
fn plain_request(port: u16) -> Option<i32> {
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    server
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let mut connect = Vec::new();
    // Protocol, last zxid, timeout, session and password.
    connect.extend([0; 12]);
    connect.extend(10_000_i32.to_be_bytes());
    connect.extend([0; 8]);
    connect.extend(16_i32.to_be_bytes());
    connect.extend([0; 16]);
    exchange(&mut server, &connect)?;
    let mut list = Vec::new();
    // Number, type `getChildren`, path and watch.
    list.extend(1_i32.to_be_bytes());
    list.extend(8_i32.to_be_bytes());
    list.extend(1_i32.to_be_bytes());
    list.extend(b"/\0");
    let reply = exchange(&mut server, &list)?;
    Some(i32::from_be_bytes(reply[12..16].try_into().unwrap()))
}

fn exchange(server: &mut TcpStream, request: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(request.len()).unwrap().to_be_bytes();
    server.write_all(&[&length, request].concat()).ok()?;
    let mut length = [0; 4];
    server.read_exact(&mut length).ok()?;
    let mut reply = vec![0; u32::from_be_bytes(length) as usize];
    server.read_exact(&mut reply).ok()?;
    Some(reply)
}
