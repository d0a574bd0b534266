//! Two holders; the first one writes too late.

use std::error::Error;
use std::path::Path;

use zk_core::Session;
use zk_lock::FairLock;

use super::file::{Refused, update};

/// Lets a holder lose its lock in the middle of its work, and returns how the file refused it.
pub(crate) async fn play(servers: &str, path: &Path) -> Result<String, Box<dyn Error>> {
    let session = Session::builder(servers).connect().await?;
    let lock = FairLock::new(&session, "/examples/fenced-file")?;

    let late = lock.acquire().await?;
    update(path, late.fencing_token(), |_| "100".to_owned())??;

    // An operator removes it, and the next contender is granted the lock.
    let inspector = lock.inspector();
    let snapshot = inspector.snapshot().await?;
    let holder = snapshot.holders().next().ok_or("it is held")?;
    inspector.remove(holder.contender()).await?;
    let next = lock.acquire().await?;
    update(path, next.fencing_token(), |balance| {
        format!("{balance} + 50")
    })??;
    next.release().await?;

    // The first one has not checked its guard, and resumes.
    let refused = update(path, late.fencing_token(), |_| "100 + 10".to_owned())?;
    let Err(refused) = refused else {
        return Err("the file took what came too late".into());
    };
    session.close().await?;
    Ok(refused.to_string())
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { token, highest } = self;
        write!(f, "token {token} is too old, {highest} has been here")
    }
}

impl Error for Refused {}
