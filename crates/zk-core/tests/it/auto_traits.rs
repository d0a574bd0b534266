//! Which public types may move between threads and be shared: tables the compiler checks.

use std::time::Duration;

use zk_core::transport::{
    Link, MultiOp, NewNode, NodeData, Phase, Request, Response, TransportError,
};
use zk_core::*;
use zk_testkit::{assert_impl, assert_send_futures};

#[test]
fn public_types_are_send_sync_and_clone() {
    assert_impl! {
        Send + Sync + Clone:
            Acl, AclEntry, Committed, ConnectDiagnosis, ConnectError, ConnectString, ConnectionState, Counts, Create,
            CreateClaimed, CreateMode, CreateOwned, Delete, DescendantCount, EnsembleConfig, Ephemerals, Error,
            ErrorClass, ErrorKind, Exists, ExistsWatched, Get, GetAcl, GetConfig, GetStat, GetWatched,
            IdempotencyTokens, Identity, Jitter, LeaderTimestamp, List, ListWatched, ListenerEnd, NodePath, NodeTracker,
            MultiResult, Operation, ParseConnectStringError, ParsePathError, Permissions, PersistentNodeError,
            PersistentNodeOptions, PersistentNodeProblem, PersistentNodeState, PresentNode, ReadMany<Vec<String>>,
            RetryPolicy, Sequence, Host, Session, SessionBuilder, SessionEnd, SessionId, Set, SetAcl, Stat,
            StateChanges, Subscribe, Sync, Tracked, TrackedNode, Transaction, Update,
            UpdateData<fn(&[u8]) -> Option<Vec<u8>>>, Updated, WaitForCreation, WaitForDeletion, WatchEvent, WhoAmI,
            NodeData, NewNode, Link, MultiOp, Phase, Request, TransportError;
        Send + Sync: Listener, OwnedNode, PersistentNode, Response, SessionLease, Subscription, Watch;
        Send: OperationFuture<()>;
        Error + Send + Sync:
            CommitError, ConnectDiagnosis, ConnectError, Error, ParseConnectStringError, ParsePathError,
            PersistentNodeError, PersistentNodeProblem, ReplaceError, RunError<Error>, SessionsEnd;
    }
}

#[test]
fn public_futures_are_send() {
    assert_send_futures! {
        'static (session: Session) =>
            session.create("/", "").into_future(), session.get("/").into_future(),
            session.set("/", "").into_future(), session.update("/", |_| None).into_future(),
            session.exists("/").into_future(), session.stat("/").into_future(), session.list("/").into_future(),
            session.get_many(["/"]).into_future(), session.list_many(["/"]).into_future(),
            session.whoami().into_future(), session.ephemerals("/").into_future(),
            session.descendant_count("/").into_future(), session.config().into_future(),
            session.delete("/").into_future(), session.sync("/").into_future(), session.acl("/").into_future(),
            session.set_acl("/", Acl::open()).into_future(), session.get("/").watched().into_future(),
            session.exists("/").watched().into_future(), session.list("/").watched().into_future(),
            session.create("/a", "").owned().into_future(), session.transaction().commit(),
            session.transaction().commit_marked("/"), session.subscribe("/").into_future(),
            session.track("/").into_future(), session.wait_for_creation("/").into_future(),
            session.wait_for_deletion("/").into_future();
        'static (builder: SessionBuilder) => builder.connect();
        (session: Session) =>
            session.close(), session.lost(), session.connected(), session.settled(),
            session.add_auth("digest", "a:b"), session.add_digest_auth("a", "b"), session.pause(Duration::ZERO);
        (changes: StateChanges) => changes.next();
        (lease: SessionLease) => lease.lapsed(), lease.renewed(Duration::ZERO);
        (node: OwnedNode) => node.delete();
        (node: OwnedNode, session: Session) => node.replace_with(session.create("/b", ""));
        (node: PersistentNode) =>
            node.ready(), node.set_data(""), node.remove(), async { node.state().changed().await };
        (tokens: IdempotencyTokens, session: Session) =>
            tokens.fence(Duration::ZERO), tokens.commit(session.transaction());
        (failure: CommitError) => failure.resolve();
        (tracker: NodeTracker) => tracker.available(), tracker.changed();
        (updates: Subscription) =>
            updates.next(), async { updates.for_each(async |_| {}).ended().await };
        (watch: Watch) => watch.changed();
        // A body that lends what it has to functions, as most do.
        'static (_session: Session) =>
            async {
                let name = String::from("/a");
                let body = async |session: Session| lent(&session, &name).await;
                let supervised = Session::builder("h").supervise(RetryPolicy::never(), body);
                supervised.await.is_ok()
            },
            Session::builder("h").supervise(RetryPolicy::never(), async |session: Session| {
                session.get("/").await.map(drop)
            });
    }
}

async fn lent(session: &Session, name: &str) -> Result<(), Error> {
    session.get(name).await.map(drop)
}
