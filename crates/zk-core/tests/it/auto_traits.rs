//! Which public types may move between threads and be shared: a table the compiler checks.

use zk_core::*;

fn is_send<T: Send>() {}
fn is_sync<T: std::marker::Sync>() {}
fn is_clone<T: Clone>() {}
fn is_error<T: std::error::Error + Send + std::marker::Sync + 'static>() {}
fn is_send_future<F: Future + Send + 'static>(_: impl Fn(Session) -> F) {}

macro_rules! send_sync_clone {
    ($($type:ty),* $(,)?) => { $( is_send::<$type>(); is_sync::<$type>(); is_clone::<$type>(); )* };
}

#[test]
fn public_types_are_send_sync_and_clone() {
    send_sync_clone!(
        Acl,
        AclEntry,
        OpResult,
        Committed,
        ConnectError,
        ConnectString,
        ConnectionState,
        Counts,
        Create,
        CreateMode,
        CreateClaimed,
        CreateOwned,
        Delete,
        DescendantCount,
        EnsembleConfig,
        Ephemerals,
        Error,
        ErrorClass,
        ErrorKind,
        Exists,
        ExistsWatched,
        Get,
        GetAcl,
        GetConfig,
        GetStat,
        GetWatched,
        IdempotencyTokens,
        Jitter,
        LeaderTimestamp,
        List,
        Identity,
        ListWatched,
        ListenerEnd,
        NodePath,
        NodeTracker,
        Operation,
        ParseConnectStringError,
        ParsePathError,
        PersistentNodeError,
        PersistentNodeOptions,
        PersistentNodeProblem,
        PersistentNodeState,
        PresentNode,
        ReadMany<Vec<String>>,
        Permissions,
        RetryPolicy,
        Sequence,
        ServerAddress,
        Session,
        SessionBuilder,
        SessionEnd,
        SessionId,
        Set,
        SetAcl,
        Stat,
        StateChanges,
        Subscribe,
        Sync,
        Tracked,
        TrackedNode,
        Transaction,
        ConnectDiagnosis,
        Update,
        UpdateData<fn(&[u8]) -> Option<Vec<u8>>>,
        Updated,
        WaitForCreation,
        WaitForDeletion,
        WatchEvent,
        WhoAmI,
        transport::Bytes,
        transport::Op,
        transport::CreateRequest,
        transport::TransportError,
        transport::Link,
        transport::Phase,
        transport::Request,
    );
    is_send::<PersistentNode>();
    is_sync::<PersistentNode>();
    is_error::<PersistentNodeError>();
    is_error::<PersistentNodeProblem>();
    is_send::<OwnedNode>();
    is_sync::<OwnedNode>();
    is_send::<SessionLease>();
    is_sync::<SessionLease>();
    is_send::<Listener>();
    is_sync::<Listener>();
    is_send::<Subscription>();
    is_sync::<Subscription>();
    is_send::<Watch>();
    is_sync::<Watch>();
    is_send::<transport::Response>();
    is_sync::<transport::Response>();
    is_send::<OperationFuture<()>>();
    is_error::<CommitError>();
    is_error::<ReplaceError>();
    is_error::<RunError<Error>>();
    is_error::<SessionsEnd>();
    is_error::<ConnectError>();
    is_error::<Error>();
    is_error::<ParseConnectStringError>();
    is_error::<ParsePathError>();
    is_error::<ConnectDiagnosis>();
}

#[test]
fn public_futures_are_send() {
    is_send_future(|session| session.create("/", "").into_future());
    is_send_future(|session| session.get("/").into_future());
    is_send_future(|session| session.set("/", "").into_future());
    is_send_future(|session| session.update("/", |_| None).into_future());
    is_send_future(|session| session.exists("/").into_future());
    is_send_future(|session| session.stat("/").into_future());
    is_send_future(|session| session.list("/").into_future());
    is_send_future(|session| session.get_many(["/"]).into_future());
    is_send_future(|session| session.list_many(["/"]).into_future());
    is_send_future(|session| session.whoami().into_future());
    is_send_future(|session| async move {
        let node = PersistentNode::start(&session, "/a", "", PersistentNodeOptions::container());
        let node = node.expect("a good path");
        let mut state = node.state();
        let created = (node.ready().await, node.set_data("").await);
        (created, state.changed().await, node.remove().await)
    });
    is_send_future(|session| session.ephemerals("/").into_future());
    is_send_future(|session| session.descendant_count("/").into_future());
    is_send_future(|session| session.config().into_future());
    is_send_future(|session| session.delete("/").into_future());
    is_send_future(|session| session.sync("/").into_future());
    is_send_future(|session| session.acl("/").into_future());
    is_send_future(|session| session.set_acl("/", Acl::open()).into_future());
    is_send_future(|session| async move { session.close().await });
    is_send_future(|session| async move { session.lost().await });
    is_send_future(|session| async move { session.connected().await });
    is_send_future(|session| async move { session.add_auth("digest", "a:b").await });
    is_send_future(|session| async move { session.add_digest_auth("a", "b").await });
    is_send_future(|session| async move { session.pause(std::time::Duration::ZERO).await });
    is_send_future(|_| Session::builder("h").connect());
    is_send_future(|session| session.get("/").watched().into_future());
    is_send_future(|session| session.exists("/").watched().into_future());
    is_send_future(|session| session.list("/").watched().into_future());
    is_send_future(|session| session.create("/a", "").owned().into_future());
    is_send_future(|session| session.transaction().commit());
    is_send_future(|session| session.transaction().commit_marked("/"));
    is_send_future(|session| async move {
        let tokens = IdempotencyTokens::new(&session, NodePath::root());
        drop(tokens.fence(std::time::Duration::ZERO).await);
        match tokens.commit(session.transaction()).await {
            Err(failure) => failure.resolve().await,
            committed => Ok(committed?),
        }
    });
    is_send_future(|session| session.subscribe("/").into_future());
    is_send_future(|session| session.track("/").into_future());
    is_send_future(|session| session.wait_for_creation("/").into_future());
    is_send_future(|session| session.wait_for_deletion("/").into_future());
    is_send_future(|session| async move {
        let mut updates = session.subscribe("/").await?;
        Ok::<_, Error>(updates.next().await)
    });
    is_send_future(|session| async move {
        let mut tracker = session.track("/").await?;
        tracker.available().await;
        Ok::<_, Error>(tracker.changed().await)
    });
    is_send_future(|session| async move {
        let updates = session.subscribe("/").await?;
        Ok::<_, Error>(updates.for_each(async |_| {}).ended().await)
    });
    is_send_future(|session| async move { session.settled().await });
    is_send_future(|session| async move { session.state_changes().next().await });
    is_send_future(|session| async move { session.keep_lease().lapsed().await });
    is_send_future(|session| async move {
        session
            .keep_lease()
            .renewed(std::time::Duration::ZERO)
            .await
    });
    is_send_future(|session| async move { session.create("/a", "").owned().await?.delete().await });
    is_send_future(|session| async move {
        let node = session.create("/a", "").owned().await?;
        let replaced = node.replace_with(session.create("/b", "")).await;
        Ok::<_, Error>(replaced.is_ok())
    });
    is_send_future(|session| async move {
        let (_, _, mut watch) = session.get("/").watched().await?;
        Ok::<_, Error>(watch.changed().await)
    });
    // A body that lends what it has to functions, as most do.
    is_send_future(|_| async move {
        let name = String::from("/a");
        let body = async |session: Session| lent(&session, &name).await;
        Session::builder("h")
            .supervise(RetryPolicy::never(), body)
            .await
            .is_ok()
    });
    is_send_future(|_| {
        let supervised = Session::builder("h")
            .supervise(RetryPolicy::never(), async |session: Session| {
                session.get("/").await.map(drop)
            });
        async move { supervised.await.is_ok() }
    });
}

async fn lent(session: &Session, name: &str) -> Result<(), Error> {
    session.get(name).await.map(drop)
}
