//! Taking a request back when nobody waits for its answer any more.

use std::time::Duration;

use tokio::runtime::Handle;
use zk_core::Error;
use zk_core::ErrorKind;
use zk_core::NodePath;
use zk_core::Session;

use super::PAUSE;
use super::wire_format;

/// A request that may stand in the data of a node. Dropping it takes the request away, in the background.
#[derive(Debug)]
pub(super) struct Withdrawal {
    session: Session,
    path: NodePath,
    czxid: i64,
    id: String,
    is_needed: bool,
}

impl Withdrawal {
    pub(super) fn new(session: Session, path: NodePath, czxid: i64, id: &str) -> Self {
        Self {
            session,
            path,
            czxid,
            id: id.to_owned(),
            is_needed: false,
        }
    }

    /// From now on there may be something to take away.
    pub(super) fn is_needed(&mut self, is_needed: bool) {
        self.is_needed |= is_needed;
    }

    /// The node is gone, and the request with it.
    pub(super) fn is_needless(&mut self) {
        self.is_needed = false;
    }
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        if !self.is_needed {
            return;
        }
        // Without a runtime the session is about to end as well.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let (session, path) = (self.session.clone(), self.path.clone());
        let (czxid, id) = (self.czxid, self.id.clone());
        drop(runtime.spawn(async move {
            let withdrawing = withdraw(&session, &path, czxid, &id);
            match tokio::time::timeout(PATIENCE, withdrawing).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::debug!(%path, %error, "a request to release a lock stays where it is");
                }
                Err(_) => {
                    tracing::debug!(%path, "a request to release a lock stays where it is: no answer");
                }
            }
        }));
    }
}

async fn withdraw(session: &Session, path: &NodePath, czxid: i64, id: &str) -> Result<(), Error> {
    loop {
        match attempt(session, path, czxid, id).await {
            Err(error) if error.is_no_node() => return Ok(()),
            // The holder or another one who asks was quicker.
            Err(error) if error.kind() == ErrorKind::BadVersion => {}
            Err(error) if error.class() == zk_core::ErrorClass::Recoverable => {
                drop(tokio::time::timeout(PAUSE, session.lost()).await);
            }
            done => return done,
        }
    }
}

async fn attempt(session: &Session, path: &NodePath, czxid: i64, id: &str) -> Result<(), Error> {
    // The request itself may have been on its way when its caller gave up.
    session.sync(path).await?;
    let (data, stat) = session.get(path).await?;
    match wire_format::withdrawn(&data, id) {
        Some(data) if stat.czxid == czxid => {
            let write = session.set(path, data).version(stat.version);
            write.await.map(drop)
        }
        _ => Ok(()),
    }
}

/// How long a request is tried to be taken back. The holder does not honour it for longer than it was meant to stand.
const PATIENCE: Duration = Duration::from_secs(60);
