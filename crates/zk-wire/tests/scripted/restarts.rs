//! The only server, killed and started again.

use std::time::Duration;

use tokio::time::Instant;
use zk_wire::{Client, Config, ConnectionState};

use crate::server::{Script, Server};
use crate::{expected, state};

#[tokio::test(start_paused = true)]
async fn a_silent_start_costs_about_a_second() {
    for down in [0, 10, 100, 1000, 10_000].map(Duration::from_millis) {
        let killed = Server::start(Script::default()).await;
        let address = killed.address();
        let config = Config::new(Duration::from_secs(30));
        let client = Client::new(vec![killed.host()], config);
        expected("a session", client.connected())
            .await
            .expect("it is granted");
        drop(killed);
        let is_lost = |state: &ConnectionState| *state != connected(1);
        state(&client, "the loss", is_lost).await;
        let back = state(&client, "no connection", |state| *state == connected(2));
        assert!(tokio::time::timeout(down, back).await.is_err());
        // What it accepts while it starts, a real one may leave without an answer for ever.
        let silent = 1;
        let script = Script {
            silent,
            ..Script::default()
        };
        let mut started = Server::start_at(address, script).await;
        let accepted = started.accepted.wait_for(|count| *count == 1);
        drop(expected("a dial", accepted).await);
        let silent = Instant::now();
        state(&client, "a connection", |state| *state == connected(2)).await;
        let waited = silent.elapsed();
        assert!(waited < Duration::from_millis(1100), "{waited:?}");
    }
}

fn connected(epoch: u64) -> ConnectionState {
    ConnectionState::Connected {
        session_id: 0x100,
        epoch,
        timeout: Duration::from_secs(30),
        read_only: false,
    }
}
