//! Follows a subtree over any number of sessions, and prints its changes.
//!
//! ```console
//! $ cargo run --example follow -- 127.0.0.1:2181 /app
//! ```

#![expect(
    clippy::print_stdout,
    reason = "a program that talks to a person in a terminal"
)]

use std::time::Duration;

use zk_cache::{CacheEnd, Event, TreeCache};
use zk_core::{RetryPolicy, Session};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(servers), Some(root)) = (args.next(), args.next()) else {
        anyhow::bail!("usage: follow SERVERS PATH");
    };
    let sessions = Session::builder(servers)
        .session_timeout(Duration::from_secs(4))
        .sessions(RetryPolicy::default());
    let cache = TreeCache::start(&sessions, root)?;
    let mut events = cache.events();
    while let Some(event) = events.next().await {
        print(&event);
    }
    match cache.ended().await {
        CacheEnd::SessionLost => {
            // Why there is no further session.
            sessions.session().await?;
            Ok(())
        }
        end => Err(end.into()),
    }
}

fn print(event: &Event) {
    match event {
        Event::Created(node) => println!("created {}", node.path()),
        Event::Changed { new, .. } => println!("changed {}", new.path()),
        Event::Deleted(node) => println!("deleted {}", node.path()),
        Event::Synchronized { .. } => println!("synchronized"),
        Event::Stale => println!("stale"),
        Event::Incomplete { path, reason } => println!("incomplete {path}: {reason}"),
        Event::Ended(end) => println!("ended: {end}"),
        other => println!("{other:?}"),
    }
}
