//! Keeps an instance registered over any number of sessions.
//!
//! `cargo run -p zk-discovery --example serve -- 127.0.0.1:2181 /services orders orders-1`

use std::sync::Mutex;
use std::time::Duration;

use anyhow::Context as _;
use zk_core::{RetryPolicy, Session, SessionId};
use zk_discovery::{Instance, RegisterError, Registry};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut args = std::env::args().skip(1);
    let mut next = |what| args.next().with_context(|| format!("name {what}"));
    let connect = next("the servers")?;
    let (base, service, id) = (next("a path")?, next("a service")?, next("an id")?);
    let instance = Instance::builder(service, "payload".to_owned())
        .id(id)
        .address("127.0.0.1")
        .port(8080)
        .build()?;
    // What an earlier session of this process has left need not be waited for.
    let previous: Mutex<Vec<SessionId>> = Mutex::default();
    Session::builder(connect)
        .session_timeout(Duration::from_secs(4))
        .supervise(RetryPolicy::default(), async |session| {
            let earlier = previous.lock().expect("no holder panics").clone();
            previous
                .lock()
                .expect("no holder panics")
                .push(session.id());
            let registry = Registry::new(&session, base.as_str())?.succeeding(earlier);
            Err::<(), RegisterError>(registry.keep_registered(&instance).await)
        })
        .await?;
    Ok(())
}
