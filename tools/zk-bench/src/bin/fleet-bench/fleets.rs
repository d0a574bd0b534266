//! Opens sessions, lets them hold a lock each, and closes them.

use anyhow::{Context as _, ensure};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use zk_core::Session;
use zk_lock::{FairLock, Guard};
use zk_wire::{Client, Config};

use crate::SESSION_TIMEOUT;

/// Opens sessions of the plain wire client.
pub(crate) async fn plain_clients(servers: &[String], count: u32) -> anyhow::Result<Vec<Client>> {
    concurrently(in_turn(servers, count), async |server| {
        let client = Client::from_connect_string(&server, Config::new(SESSION_TIMEOUT))?;
        let connected = tokio::time::timeout(SESSION_TIMEOUT, client.connected()).await;
        connected.with_context(|| format!("no session within {SESSION_TIMEOUT:?}"))??;
        Ok(client)
    })
    .await
}

/// Ends the sessions of plain clients.
pub(crate) async fn close_plain(clients: Vec<Client>) -> anyhow::Result<()> {
    concurrently(clients, async |client| {
        let closed = tokio::time::timeout(SESSION_TIMEOUT, client.close()).await;
        closed.with_context(|| format!("a session was not closed within {SESSION_TIMEOUT:?}"))?;
        Ok(())
    })
    .await?;
    Ok(())
}

/// Opens sessions, with the connect strings in turn.
pub(crate) async fn sessions(servers: &[String], count: u32) -> anyhow::Result<Vec<Session>> {
    concurrently(in_turn(servers, count), async |server| {
        let builder = Session::builder(&server).session_timeout(SESSION_TIMEOUT);
        Ok(builder.connect().await?)
    })
    .await
}

/// Lets each session acquire a lock of its own.
pub(crate) async fn hold(sessions: &[Session]) -> anyhow::Result<Vec<Guard>> {
    concurrently(sessions.iter().enumerate(), async |(at, session)| {
        Ok(FairLock::new(session, format!("/fleet/{at}"))?
            .acquire()
            .await?)
    })
    .await
}

/// Releases the locks, all of which must still be held.
pub(crate) async fn release(guards: Vec<Guard>) -> anyhow::Result<()> {
    let lost = guards.iter().filter(|guard| !guard.is_valid()).count();
    ensure!(
        lost == 0,
        "{lost} of {} locks were no longer valid at the end: the figures are not those of holders",
        guards.len()
    );
    concurrently(guards, async |guard| Ok(guard.release().await?)).await?;
    Ok(())
}

/// Ends the sessions.
pub(crate) async fn close(sessions: Vec<Session>) -> anyhow::Result<()> {
    concurrently(sessions, async |session| Ok(session.close().await?)).await?;
    Ok(())
}

fn in_turn(servers: &[String], count: u32) -> impl Iterator<Item = String> {
    (0..count)
        .zip(servers.iter().cycle().cloned())
        .map(|it| it.1)
}

/// Does something with each item, for some of them at a time.
async fn concurrently<I, T>(
    items: impl IntoIterator<Item = I>,
    act: impl AsyncFn(I) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let act = &act;
    let all = stream::iter(items).map(async |item| act(item).await);
    all.buffer_unordered(AT_ONCE).try_collect().await
}

/// The number of sessions opened, or locks acquired, concurrently.
const AT_ONCE: usize = 50;
