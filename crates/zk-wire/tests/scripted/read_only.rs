//! Servers that are cut off from the quorum and answer reads.

use std::time::Duration;

use zk_wire::{Client, Config, ConnectionState};

use crate::server::{Script, Server, host, nowhere};
use crate::state;

const READ_ONLY: Script = Script {
    session_id: 0x999,
    read_only: true,
    unknown: 0,
    unanswered: 0,
    silent: 0,
};

fn connected_id(state: &ConnectionState, wanted: bool) -> Option<i64> {
    match state {
        ConnectionState::Connected {
            session_id,
            read_only,
            ..
        } if *read_only == wanted => Some(*session_id),
        _ => None,
    }
}

#[tokio::test]
async fn a_writable_server_is_moved_to_when_it_is_there() {
    let cut_off = Server::start(READ_ONLY).await;
    let later = nowhere().await;
    let mut config = Config::new(Duration::from_secs(10));
    config.read_only = true;
    let client = Client::new(vec![cut_off.host(), host(later)], config);
    let read_only = |state: &ConnectionState| connected_id(state, true).is_some();
    let now = state(&client, "a read-only session", read_only).await;
    assert_eq!(connected_id(&now, true), Some(0x999));
    assert_eq!(
        client.saved_session(),
        None,
        "the ensemble does not know it"
    );
    let _writable = Server::start_at(later, Script::default()).await;
    let writable = |state: &ConnectionState| connected_id(state, false).is_some();
    let now = state(&client, "a writable session", writable).await;
    assert_eq!(
        connected_id(&now, false),
        Some(0x100),
        "a session of its own"
    );
    let saved = client.saved_session().expect("the ensemble knows it");
    assert_eq!((saved.id, saved.password.as_ref()), (0x100, &[7; 16][..]));
    assert!(!format!("{saved:?}").contains("x07"));
}

#[tokio::test]
async fn a_writable_server_comes_first() {
    // Whichever host is dialled first.
    for seed in 0..8 {
        let cut_off = Server::start(READ_ONLY).await;
        let writable = Server::start(Script::default()).await;
        let mut config = Config::new(Duration::from_secs(10));
        (config.read_only, config.seed) = (true, Some(seed));
        let client = Client::new(vec![cut_off.host(), writable.host()], config);
        let connected =
            |state: &ConnectionState| matches!(state, ConnectionState::Connected { .. });
        let now = state(&client, "a session", connected).await;
        assert_eq!(connected_id(&now, false), Some(0x100), "{now:?}");
        assert_eq!(cut_off.granted(), 0);
    }
}
