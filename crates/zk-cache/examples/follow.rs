//! Follows a subtree, over any number of sessions, and prints what happens to it.
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
use zk_cache::CacheOptions;
use zk_cache::End;
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
    let known = Snapshot::empty(root).context("the path")?;
    let following = Arc::new(Mutex::new(Following {
        known,
        running: None,
    }));
    Session::builder(servers)
        .session_timeout(Duration::from_secs(4))
        .supervise(RetryPolicy::default(), |session| {
            // This is dropped when the session is lost, at any moment; what it has told and what not is kept outside.
            let following = Arc::clone(&following);
            async move { following.lock().await.follow(&session).await }
        })
        .await?;
    Ok(())
}

/// What is known, and told.
struct Following {
    /// What has been told.
    known: Snapshot,
    /// The cache of the newest session, and what it has still to tell.
    running: Option<(TreeCache, Events)>,
}

impl Following {
    async fn follow(&mut self, session: &Session) -> Result<(), End> {
        // Goes with the session, for whoever wants to see that this one lives.
        drop(session.create("/alive", "").ephemeral().await);
        if let Some((cache, events)) = &mut self.running {
            // What the last session has told before its end.
            while let Some(event) = events.next().await {
                tell(&event);
            }
            self.known = cache.snapshot();
        }
        let cache = TreeCache::resume(session, &self.known, &CacheOptions::default());
        let events = cache.events_since(&self.known);
        let (cache, events) = self.running.insert((cache, events));
        while let Some(event) = events.next().await {
            tell(&event);
        }
        Err(cache.ended().await)
    }
}

fn tell(event: &Event) {
    match event {
        Event::Created(node) => println!("created {}", node.path()),
        Event::Changed { new, .. } => println!("changed {}", new.path()),
        Event::Deleted(node) => println!("deleted {}", node.path()),
        Event::Synchronized { .. } => println!("synchronized"),
        Event::Stale => println!("stale"),
        Event::Incomplete { path, gap } => println!("incomplete {path}: {gap}"),
        Event::Ended(end) => println!("ended: {end}"),
        other => println!("{other:?}"),
    }
}
