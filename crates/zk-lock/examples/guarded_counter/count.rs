//! Counts in a fenced store.

use std::error::Error;
use std::sync::Arc;

use tokio::sync::Mutex;
use tokio::task::JoinSet;
use zk_core::Session;
use zk_lock::{FairLock, FencingToken};

/// A store that refuses requests with an older token than a request before.
#[derive(Debug, Default)]
pub(crate) struct Store {
    pub(crate) value: u64,
    /// The tokens in the order in which they were seen.
    pub(crate) tokens: Vec<FencingToken>,
}

impl Store {
    fn read(&mut self, token: FencingToken) -> Result<u64, &'static str> {
        if self.tokens.last() > Some(&token) {
            return Err("somebody with a newer token has been here");
        }
        if self.tokens.last() < Some(&token) {
            self.tokens.push(token);
        }
        Ok(self.value)
    }

    fn write(&mut self, token: FencingToken, value: u64) -> Result<(), &'static str> {
        self.read(token)?;
        self.value = value;
        Ok(())
    }
}

/// Lets `tasks` tasks add one `rounds` times each, and returns the store at the end.
pub(crate) async fn count(
    servers: &str,
    tasks: usize,
    rounds: usize,
) -> Result<Store, Box<dyn Error>> {
    let store = Arc::new(Mutex::new(Store::default()));
    let mut counting = JoinSet::new();
    for _ in 0..tasks {
        let session = Session::builder(servers).connect().await?;
        let lock = FairLock::new(&session, "/examples/guarded-counter")?;
        let store = Arc::clone(&store);
        counting.spawn(async move {
            for _ in 0..rounds {
                let added = lock.run(async |token| {
                    let value = store.lock().await.read(token)?;
                    // Without the lock, others would read the same value here.
                    tokio::task::yield_now().await;
                    store.lock().await.write(token, value + 1)
                });
                added.await.expect("the lock is not lost")?;
            }
            session.close().await.expect("the session ends");
            Ok::<(), &str>(())
        });
    }
    while let Some(counted) = counting.join_next().await {
        counted??;
    }
    let mut store = Arc::into_inner(store)
        .ok_or("all tasks have ended")?
        .into_inner();
    // A request with an old token is refused.
    let first = store.tokens[0];
    store.write(first, 0).expect_err("an old token");
    Ok(store)
}
