//! A session of the ensemble as `zk-core` sees it.

use std::sync::Arc;
use std::time::Duration;

use zk_core::NodePath;
use zk_core::SessionId;
use zk_core::transport::Fault;
use zk_core::transport::LinkReceiver;
use zk_core::transport::Reply;
use zk_core::transport::Request;
use zk_core::transport::SessionEnd;
use zk_core::transport::Transport;

use crate::chroot;
use crate::driver::Driver;
use crate::world::Content;

/// One session of an [`Ensemble`](crate::Ensemble), on the wire.
///
/// Most tests want the [`Session`](zk_core::Session) on top of it; this is for tests of what is below.
///
/// # Dropping
///
/// Ends the session, as [`close`](Transport::close) does.
#[derive(Debug)]
pub struct SimTransport {
    driver: Arc<Driver>,
    session: SessionId,
    timeout: Duration,
    link: LinkReceiver,
    chroot: NodePath,
}

impl SimTransport {
    pub(crate) fn new(
        driver: Arc<Driver>,
        session: SessionId,
        timeout: Duration,
        link: LinkReceiver,
        chroot: NodePath,
    ) -> Self {
        Self {
            driver,
            session,
            timeout,
            link,
            chroot,
        }
    }
}

impl Transport for SimTransport {
    fn session_id(&self) -> SessionId {
        self.session
    }

    fn session_timeout(&self) -> Duration {
        self.timeout
    }

    fn link(&self) -> LinkReceiver {
        self.link.clone()
    }

    fn draw(&self) -> Option<u64> {
        Some(self.driver.with(|world| world.random().u64(..)))
    }

    fn submit(&self, request: Request) -> Reply {
        let driver = Arc::clone(&self.driver);
        let session = self.session;
        let root = self.chroot.clone();
        Box::pin(async move {
            let request = chroot::to_server(&root, request);
            let answer = driver.submit(session, Content::Request(request));
            // The ensemble itself must not live on for a request that it does not answer.
            drop(driver);
            let answer = answer
                .await
                .unwrap_or(Err(Fault::Ended(SessionEnd::Closed)));
            answer.map(|response| chroot::to_session(&root, response))
        })
    }

    fn close(&self) {
        drop(self.driver.submit(self.session, Content::Close));
    }
}

impl Drop for SimTransport {
    fn drop(&mut self) {
        self.close();
    }
}
