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
use crate::shared::Shared;
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
    shared: Arc<Shared>,
    session: SessionId,
    timeout: Duration,
    link: LinkReceiver,
    chroot: NodePath,
}

impl SimTransport {
    pub(crate) fn new(
        shared: Arc<Shared>,
        session: SessionId,
        timeout: Duration,
        link: LinkReceiver,
        chroot: NodePath,
    ) -> Self {
        Self {
            shared,
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
        Some(self.shared.with(|world| world.random().u64(..)))
    }

    fn submit(&self, request: Request) -> Reply {
        let shared = Arc::clone(&self.shared);
        let session = self.session;
        let root = self.chroot.clone();
        Box::pin(async move {
            let request = chroot::inward(&root, request);
            let answer = shared.submit(session, Content::Request(request));
            // The ensemble itself must not live on for a request that it does not answer.
            drop(shared);
            let answer = answer
                .await
                .unwrap_or(Err(Fault::Ended(SessionEnd::Closed)));
            answer.map(|response| chroot::outward(&root, response))
        })
    }

    fn close(&self) {
        drop(self.shared.submit(self.session, Content::Close));
    }
}

impl Drop for SimTransport {
    fn drop(&mut self) {
        self.close();
    }
}
