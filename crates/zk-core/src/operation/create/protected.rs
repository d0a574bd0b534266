//! Creating a node under a name that nobody else has.
//!
//! When the answer to a create is lost, the name tells whether the node was made: ZooKeeper's own lock recipe has had
//! this hole since ever (ZOOKEEPER-1262), and Curator's protection closes all of it but one: it looks for the node
//! without making the server catch up first.

use std::sync::Arc;

use super::parents;
use crate::call::Call;
use crate::call::Repeat;
use crate::engine::Engine;
use crate::engine::cleanup;
use crate::engine::cleanup::Job;
use crate::error::Error;
use crate::path::NodePath;
use crate::stat::Stat;
use crate::transport::CreateMode;
use crate::transport::CreateRequest;
use crate::transport::Request;
use crate::transport::Response;

/// Creates the node, and finds it again when the answer is lost. Answers the path on the wire.
///
/// `prefix` is the name that nobody else has, without the number that the server may append.
///
/// If this is dropped, or fails without knowing, what may have been made is removed in the background.
pub(super) async fn create(
    call: &Call,
    path: &NodePath,
    request: CreateRequest,
    prefix: String,
    parents: Option<CreateMode>,
) -> Result<(NodePath, Stat), Error> {
    let is_ephemeral = matches!(request.mode, CreateMode::Ephemeral { .. });
    let parent = request.path.parent().unwrap_or_else(NodePath::root);
    let mut cleanup = Cleanup::new(
        call,
        Job::Abandoned {
            parent: parent.clone(),
            prefix: prefix.clone(),
            is_ephemeral,
        },
    );
    let mut rounds = 0;
    let mut attempts = 0;
    let mut was_in_doubt = false;
    loop {
        attempts += 1;
        let answer = call
            .request(
                path,
                Repeat::Never,
                &Request::Create(request.clone()),
                Response::created,
            )
            .await;
        let error = match answer.result {
            Ok((made, stat)) => {
                if was_in_doubt {
                    remove_twins(call, path, &parent, &prefix, &made).await?;
                }
                cleanup.job = None;
                return Ok((made, stat));
            }
            Err(error) => error,
        };
        if error.is_no_node()
            && rounds < super::MOST_ROUNDS
            && let Some(mode) = parents
        {
            rounds += 1;
            parents::create(call, &request, mode).await?;
            continue;
        }
        if !error.is_outcome_unknown() {
            if attempts == 1 {
                cleanup.job = None;
            }
            return Err(error);
        }
        if error.is_fatal() {
            return Err(error);
        }
        was_in_doubt = true;
        match find(call, path, &parent, &prefix, is_ephemeral).await {
            Ok(Some(found)) => {
                tracing::debug!(path = %found.0, "found the node whose creation was in doubt");
                cleanup.job = None;
                return Ok(found);
            }
            Ok(None) => {}
            // The first error says more than one about looking for its node; but a lost session is a lost session.
            Err(found) if found.is_fatal() => return Err(found.maybe_applied()),
            Err(_) => return Err(error),
        }
        if !call.may_try_again(attempts).await {
            return Err(error);
        }
    }
}

/// Removes what earlier tries may have made in spite of all: a contender that waits for its own first node waits for
/// ever, and everyone behind it.
///
/// "Not found" was final if the two requests of the look went to one server, which is told from the breaks of the link;
/// and those are noted by another task, a moment after they happened.
async fn remove_twins(
    call: &Call,
    path: &NodePath,
    parent: &NodePath,
    prefix: &str,
    made: &NodePath,
) -> Result<(), Error> {
    let engine = call.engine();
    call.until_told(path, || async move {
        for twin in cleanup::find(engine, parent, prefix).await? {
            if twin != *made {
                tracing::warn!(%twin, "removing a second node of one create");
                cleanup::delete(engine, &twin, None).await?;
            }
        }
        Ok(())
    })
    .await
}

/// Looks for the node on a server that has caught up, as long as the call lasts.
async fn find(
    call: &Call,
    path: &NodePath,
    parent: &NodePath,
    prefix: &str,
    is_ephemeral: bool,
) -> Result<Option<(NodePath, Stat)>, Error> {
    let engine = call.engine();
    let session = engine.transport().session_id();
    call.until_told(path, || async move {
        for found in cleanup::find(engine, parent, prefix).await? {
            let request = Request::Exists {
                path: found.clone(),
                watch: false,
            };
            let stat = match engine.send(request).await? {
                Response::Stat { stat, .. } => stat,
                other => return Err(cleanup::unexpected(&other)),
            };
            // Nobody else has the name; but what is about to vanish with another session is not ours.
            if let Some(stat) = stat
                && (!is_ephemeral || stat.ephemeral_owner == Some(session))
            {
                return Ok(Some((found, stat)));
            }
        }
        Ok(None)
    })
    .await
}

/// Removes what a create may have left, unless it is told that there is nothing.
pub(super) struct Cleanup {
    engine: Arc<Engine>,
    pub(super) job: Option<Job>,
}

impl Cleanup {
    pub(super) fn new(call: &Call, job: Job) -> Self {
        Self {
            engine: Arc::clone(call.session().engine()),
            job: Some(job),
        }
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            self.engine.clean_up(job);
        }
    }
}
