//! Withdraws a request when its requester stops waiting for the answer.

use std::time::Duration;

use zk_core::{Error, ErrorClass, NodePath, Session};

use super::edit_data::edit_data;
use super::wire_format;
use crate::retry::RETRY_PAUSE;

/// A request that may be in the data of a node. Dropping it removes the request, in the background.
#[derive(Debug)]
pub(super) struct Withdrawal {
    session: Session,
    path: NodePath,
    czxid: i64,
    id: String,
    is_armed: bool,
}

impl Withdrawal {
    pub(super) fn new(session: Session, path: NodePath, czxid: i64, id: &str) -> Self {
        Self {
            session,
            path,
            czxid,
            id: id.to_owned(),
            is_armed: false,
        }
    }

    /// From now on the request may be in the data.
    pub(super) fn arm(&mut self) {
        self.is_armed = true;
    }

    /// The node is gone, and the request with it.
    pub(super) fn disarm(&mut self) {
        self.is_armed = false;
    }
}

impl Drop for Withdrawal {
    fn drop(&mut self) {
        if !self.is_armed {
            return;
        }
        let (session, path) = (self.session.clone(), self.path.clone());
        let (czxid, id) = (self.czxid, self.id.clone());
        self.session.finish(async move {
            let withdrawing = withdraw(&session, &path, czxid, &id);
            if !matches!(
                tokio::time::timeout(WITHDRAW_LIMIT, withdrawing).await,
                Ok(Ok(()))
            ) {
                tracing::debug!(%path, "a request to release a lock could not be withdrawn");
            }
        });
    }
}

async fn withdraw(session: &Session, path: &NodePath, czxid: i64, id: &str) -> Result<(), Error> {
    loop {
        let withdrawn = async {
            // The write of the request may still have been in flight when the requester gave up.
            session.sync(path).with_quorum().await?;
            edit_data(session, path, czxid, |data| {
                wire_format::remove_request(data, id)
            })
            .await
        };
        match withdrawn.await {
            Err(error) if error.is_no_node() => return Ok(()),
            Err(error) if error.class() == ErrorClass::Recoverable => {
                session.pause(RETRY_PAUSE).await;
            }
            done => return done,
        }
    }
}

/// The time limit for withdrawing a request. The holder ignores the request after its deadline in any case.
const WITHDRAW_LIMIT: Duration = Duration::from_secs(60);
