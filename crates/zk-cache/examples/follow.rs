//! Follows a subtree over any number of sessions, and prints its changes.
//!
//! ```console
//! $ cargo run --example follow -- 127.0.0.1:2181 /app
//! ```

#![expect(
    clippy::print_stdout,
    reason = "a program that talks to a person in a terminal"
)]

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::Mutex;
use zk_cache::CacheEnd;
use zk_cache::CacheOptions;
use zk_cache::Event;
use zk_cache::Events;
use zk_cache::Snapshot;
use zk_cache::TreeCache;
use zk_core::RetryPolicy;
use zk_core::Session;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let (Some(servers), Some(root)) = (args.next(), args.next()) else {
        anyhow::bail!("usage: follow SERVERS PATH");
    };
    let printed = Snapshot::empty(root).context("the path")?;
    let progress = Arc::new(Mutex::new(Progress {
        printed,
        running: None,
    }));
    Session::builder(servers)
        .session_timeout(Duration::from_secs(4))
        .supervise(RetryPolicy::default(), |session| {
            // This future is dropped when the session is lost, at any moment; its progress is kept outside.
            let progress = Arc::clone(&progress);
            async move { progress.lock().await.follow(&session).await }
        })
        .await?;
    Ok(())
}

/// The progress over all sessions.
struct Progress {
    /// The snapshot after all printed events.
    printed: Snapshot,
    /// The cache of the newest session, and its unread events.
    running: Option<(TreeCache, Events)>,
}

impl Progress {
    async fn follow(&mut self, session: &Session) -> Result<(), CacheEnd> {
        // An ephemeral node shows that the session lives.
        drop(session.create("/alive", "").ephemeral().await);
        if let Some((cache, events)) = &mut self.running {
            // The events before the end of the last session.
            while let Some(event) = events.next().await {
                print(&event);
            }
            self.printed = cache.snapshot();
        }
        let cache = TreeCache::resume(session, &self.printed, &CacheOptions::default());
        let events = cache.events_since(&self.printed);
        let (cache, events) = self.running.insert((cache, events));
        while let Some(event) = events.next().await {
            print(&event);
        }
        Err(cache.ended().await)
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
