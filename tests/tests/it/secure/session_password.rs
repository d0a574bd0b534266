//! Computes the passwords of sessions, with which any client can resume or close them, as the servers do.

use std::net::SocketAddr;

use zk_wire::{Client, Config, Host};

use super::SOON;

/// Returns the password of the session with this id: `new Random(id ^ 0xB3415C00L).nextBytes(16)` in Java.
pub(super) fn session_password(session: i64) -> [u8; 16] {
    const MULTIPLIER: i64 = 0x5_DEEC_E66D;
    const MASK: i64 = (1 << 48) - 1;
    let mut seed = (session ^ 0xB341_5C00 ^ MULTIPLIER) & MASK;
    let mut password = [0; 16];
    for word in password.chunks_exact_mut(4) {
        seed = seed.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        let number = seed >> 16;
        word.copy_from_slice(&number.to_le_bytes()[..4]);
    }
    password
}

/// Compares the computed password of a new session with the granted one.
pub(super) async fn check(server: SocketAddr) {
    let host = Host {
        name: server.ip().to_string(),
        port: server.port(),
    };
    let client = Client::new(vec![host], Config::new(SOON));
    client.connected().await.expect("a session is granted");
    let session = client.saved_session().expect("it is granted");
    assert_eq!(session.password, session_password(session.id)[..]);
    client.close().await;
}
