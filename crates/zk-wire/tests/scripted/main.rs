//! The client against servers that follow a script.

#![cfg(test)]

use std::time::Duration;

use zk_wire::{Client, ConnectionState};

mod deadlines;
mod host_provider;
mod read_only;
mod releases;
mod restarts;
mod server;

/// How long a test waits for what it expects.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// Waits for what is expected, and says so if it does not come.
async fn expected<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(MAX_WAIT, waiting).await;
    waited.unwrap_or_else(|_| panic!("not within {MAX_WAIT:?}: {what}"))
}

/// Waits for a state of the client, and returns it.
async fn state(
    client: &Client,
    what: &str,
    is_it: impl Fn(&ConnectionState) -> bool,
) -> ConnectionState {
    let mut states = client.states();
    let state = expected(what, states.wait_for(|state| is_it(state))).await;
    state.expect("the client runs").clone()
}
