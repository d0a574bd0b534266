//! Sessions and recipes on `ClickHouse` Keeper, as far as its differences can be played.
//!
//! `docs/compatibility.md` says what follows for users. Nothing here shows anything about Keeper itself.

use std::time::Duration;

use zk_core::{
    ConnectError, ErrorClass, ErrorKind, RetryPolicy, Session, SessionBuilder, SessionEnd, Update,
};
use zk_fault_proxy::Op;
use zk_lock::FairLock;
use zk_smoke::RECIPES;

mod server;

use server::{Features, Keeper, MIN_SESSION_TIMEOUT, Refusal};

/// For what takes moments on an idle machine, or the timeout of a session.
const LIMIT: Duration = Duration::from_secs(60);

async fn within_limit<T>(what: &str, wanted: impl Future<Output = T>) -> T {
    let Ok(value) = tokio::time::timeout(LIMIT, wanted).await else {
        panic!("waited {LIMIT:?} for this: {what}");
    };
    value
}

fn without_assumed_release(keeper: &Keeper) -> SessionBuilder {
    Session::builder(keeper.connect_string())
}

/// Uses the setting that is advised for Keeper.
fn with_assumed_release(keeper: &Keeper) -> SessionBuilder {
    Session::builder(keeper.connect_string()).assume_release(3, 4)
}

async fn connect(keeper: &Keeper) -> Session {
    let connecting = with_assumed_release(keeper).connect();
    connecting.await.expect("a session is granted")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_not_resumed_is_lost_with_its_lock() {
    let keeper = Keeper::start(Features::NEW).await;
    let first = with_assumed_release(&keeper).session_timeout(MIN_SESSION_TIMEOUT);
    let first = first.connect().await.unwrap();
    let guard = FairLock::new(&first, "/lock").unwrap().acquire().await;
    let guard = guard.unwrap();
    assert!(guard.is_valid());

    keeper.cut();
    let end = within_limit("the session is known to be lost", first.lost()).await;
    assert_eq!(end, SessionEnd::Expired);
    assert!(!guard.is_valid(), "the new session does not have the node");
    within_limit("the guard ends", guard.lost()).await;

    // Its node is there until Keeper ends the old session.
    let second = connect(&keeper).await;
    let lock = FairLock::new(&second, "/lock").unwrap();
    let early = lock.try_acquire().await.unwrap();
    assert!(early.is_none(), "the first holder may not have noticed");
    let next = within_limit("the old session ends", lock.acquire())
        .await
        .unwrap();
    assert!(next.fencing_token() > guard.fencing_token());
    assert!(!guard.is_valid() && next.is_valid());
    next.release().await.unwrap();
    second.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_is_raised_to_ten_seconds() {
    let keeper = Keeper::start(Features::NEW).await;
    for (asked, granted) in [(1, 10), (12, 12)] {
        let session = without_assumed_release(&keeper).session_timeout(Duration::from_secs(asked));
        let session = session.connect().await.unwrap();
        assert_eq!(session.session_timeout(), Duration::from_secs(granted));
        session.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_operation_costs_the_session_and_is_reported() {
    for (features, unknown) in [(Features::NEW, Op::WhoAmI), (Features::OLD, Op::Create2)] {
        let keeper = Keeper::start(features).await;
        let session = without_assumed_release(&keeper).connect().await.unwrap();
        // They leave in this order: what is sent behind the unknown one is in flight when the connection ends.
        let (unknown_one, create, read) = tokio::join!(
            async {
                match unknown {
                    Op::WhoAmI => session.whoami().await.map(drop),
                    _ => session.create("/b", "").await.map(drop),
                }
            },
            session.create("/a", "").into_future(),
            session.get("/keeper/api_version").into_future(),
        );
        let error = unknown_one.unwrap_err();
        assert!(error.is_fatal(), "{unknown}: {error:?}");
        let error = create.unwrap_err();
        // It depends on timing whether it was sent: if not, its outcome is known.
        assert!(error.is_fatal(), "{error:?}");
        let error = read.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::SessionExpired, "{error:?}");
        assert_eq!(session.lost().await, SessionEnd::Expired);
        assert_eq!(keeper.unknown(), [unknown]);
        assert_eq!(keeper.ensemble.tree().node("/a"), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_a_reply_may_have_been_applied() {
    let keeper = Keeper::start(Features::NEW).await;
    let session = without_assumed_release(&keeper).connect().await.unwrap();
    let (unknown_one, create) = tokio::join!(
        async {
            let withheld = keeper.withholds_reply_to_create();
            within_limit("the reply is withheld", withheld).await;
            session.whoami().await
        },
        session.create("/a", "").into_future(),
    );
    let error = unknown_one.unwrap_err();
    assert!(error.is_fatal(), "{error:?}");
    let error = create.unwrap_err();
    assert!(error.is_fatal() && error.is_outcome_unknown(), "{error:?}");
    assert!(keeper.ensemble.tree().node("/a").is_some());
    assert_eq!(keeper.unknown(), [Op::WhoAmI]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_release_a_lock_with_new_parents_costs_one() {
    let keeper = Keeper::start(Features::NEW).await;
    let session = without_assumed_release(&keeper).connect().await.unwrap();
    let lock = FairLock::new(&session, "/locks/one").unwrap();
    let error = within_limit("the acquire fails", lock.acquire())
        .await
        .unwrap_err();
    assert_eq!(error.class(), ErrorClass::Fatal, "{error}");
    assert_eq!(keeper.unknown(), [Op::CreateContainer]);
    // Parents that are there need no container.
    let session = connect(&keeper).await;
    session.create("/locks", "").await.unwrap();
    let session = without_assumed_release(&keeper).connect().await.unwrap();
    session.create("/locks/one", "").await.unwrap();
    let lock = FairLock::new(&session, "/locks/one").unwrap();
    lock.acquire().await.unwrap().release().await.unwrap();
    session.close().await.unwrap();
    assert_eq!(keeper.unknown(), [Op::CreateContainer]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_close_is_confirmed_by_the_next_connection() {
    let keeper = Keeper::start(Features::NEW).await;
    let session = connect(&keeper).await;
    let id = session.id();
    session.create("/own", "").ephemeral().await.unwrap();
    within_limit("the session is closed", session.close())
        .await
        .unwrap();
    assert_eq!(keeper.ensemble.tree().node("/own"), None);
    let left = keeper.ensemble.sessions();
    assert!(left.len() == 1 && left[0] != id, "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_an_assumed_release_nothing_unknown_is_sent() {
    for features in [Features::NEW, Features::OLD] {
        let keeper = Keeper::start(features).await;
        let session = connect(&keeper).await;
        let (path, stat) = session
            .create("/a/b", "data")
            .container_parents()
            .await
            .unwrap();
        assert_eq!(session.exists(&path).await.unwrap(), Some(stat));
        let changes = session.transaction().create("/a/c", "").delete("/a/b");
        changes.commit().await.unwrap();
        let found = session.get_many(["/a/b", "/a/c"]).await.unwrap();
        assert!(found[0].is_err() && found[1].is_ok(), "{found:?}");
        for error in [
            session.whoami().await.err(),
            session.ephemerals("/").await.err(),
            session.descendant_count("/").await.err(),
            session.create("/c", "").container().await.err(),
            session
                .create("/t", "")
                .ttl(Duration::from_secs(1))
                .await
                .err(),
            session
                .get_many(["/a", "/a/c"])
                .in_one_request()
                .await
                .err(),
        ] {
            let error = error.expect("it is refused before it is sent");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
        assert_eq!(session.counters().connection_losses, 0);
        session.close().await.unwrap();
        assert_eq!(keeper.unknown(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_recipe_works_with_an_assumed_release() {
    for features in [Features::NEW, Features::OLD] {
        let keeper = Keeper::start(features).await;
        for recipe in RECIPES {
            let [one, other] = [connect(&keeper).await, connect(&keeper).await];
            let result = within_limit(recipe.name, (recipe.run)(&one, &other)).await;
            result.unwrap_or_else(|error| panic!("{}: {error:#}", recipe.name));
            for session in [one, other] {
                assert_eq!(session.counters().connection_losses, 0, "{}", recipe.name);
                session.close().await.unwrap();
            }
        }
        assert_eq!(keeper.unknown(), []);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recursive_event_names_the_watched_node() {
    let keeper = Keeper::start(Features::NEW).await;
    let session = without_assumed_release(&keeper).connect().await.unwrap();
    session.create("/a/b", "").parents().await.unwrap();
    let mut updates = session.subscribe("/a").recursive().await.unwrap();
    let first = within_limit("the watch is set", updates.next()).await;
    assert_eq!(first, Some(Update::Resynchronize));
    session.set("/a/b", "new").await.unwrap();
    match within_limit("the change is reported", updates.next()).await {
        Some(Update::Changed { path, .. }) => assert_eq!(path.as_str(), "/a"),
        other => panic!("{other:?}"),
    }
    session.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_leader_grants_no_session() {
    let keeper = Keeper::start(Features::NEW).await;
    keeper.set_active(false);
    let refused = without_assumed_release(&keeper).connect_timeout(Duration::from_secs(2));
    let error = refused.connect().await.map(|session| session.id());
    let error = error.expect_err("there is no session");
    assert!(matches!(error, ConnectError::Unanswered(_)), "{error:?}");

    let connecting = without_assumed_release(&keeper)
        .connect_timeout(LIMIT)
        .connect();
    let electing = async {
        within_limit("a session is refused", keeper.refuses_session()).await;
        keeper.set_active(true);
    };
    let (session, ()) = tokio::join!(connecting, electing);
    let session = session.expect("there is a leader now");
    assert!(session.id().as_i64() > 0, "{}", session.id());
    session.get("/keeper/feature_flags").await.unwrap();
    session.close().await.unwrap();
}

/// The numbers of the errors in `src/Common/ZooKeeper/IKeeper.h`, the kind of error that a read returns and its source, and
/// whether a write may have been applied.
const CODES: [(i32, ErrorKind, Option<&str>, bool); 27] = [
    (-1, ErrorKind::ServerError, Some("SystemError (-1)"), true),
    (
        -2,
        ErrorKind::ServerError,
        Some("RuntimeInconsistency (-2)"),
        true,
    ),
    (
        -3,
        ErrorKind::ServerError,
        Some("DataInconsistency (-3)"),
        true,
    ),
    (
        -4,
        ErrorKind::ServerError,
        Some("ConnectionLoss (-4)"),
        true,
    ),
    (-5, ErrorKind::InvalidArgument, None, false),
    (-6, ErrorKind::Unsupported, None, false),
    (
        -7,
        ErrorKind::ServerError,
        Some("OperationTimeout (-7)"),
        true,
    ),
    (-8, ErrorKind::InvalidArgument, None, false),
    (-9, ErrorKind::ServerError, Some("error -9"), true),
    // Its soft limit of memory; of Keeper alone.
    (-10, ErrorKind::ServerError, Some("error -10"), true),
    (-100, ErrorKind::InvalidArgument, None, false),
    (-101, ErrorKind::NoNode, None, false),
    (-102, ErrorKind::NoAuth, None, false),
    (-103, ErrorKind::BadVersion, None, false),
    (-108, ErrorKind::ParentIsEphemeral, None, false),
    (-110, ErrorKind::NodeExists, None, false),
    (-111, ErrorKind::NotEmpty, None, false),
    (-112, ErrorKind::SessionExpired, None, true),
    (-113, ErrorKind::InvalidArgument, None, false),
    (-114, ErrorKind::InvalidAcl, None, false),
    (-115, ErrorKind::AuthFailed, None, true),
    (-116, ErrorKind::InvalidArgument, None, false),
    (-117, ErrorKind::InvalidArgument, None, false),
    (-118, ErrorKind::SessionMoved, None, false),
    (-119, ErrorKind::ReadOnlyServer, None, false),
    (-121, ErrorKind::InvalidArgument, None, false),
    // Of no release that we know.
    (-1000, ErrorKind::InvalidArgument, None, false),
];

#[tokio::test(flavor = "multi_thread")]
async fn each_error_code_of_keeper_is_a_typed_error() {
    let keeper = Keeper::start(Features::NEW).await;
    let other = connect(&keeper).await;
    other.create("/a", "old").await.unwrap();
    for (code, kind, text, may_be_applied) in CODES {
        for op in [Op::GetData, Op::SetData] {
            let session = connect(&keeper).await;
            let once = session.with_retry(RetryPolicy::never());
            keeper.refuse(Refusal {
                op,
                code,
                is_carried_out: false,
                times: 1,
            });
            let result = within_limit("the request fails", async {
                match op {
                    Op::GetData => once.get("/a").await.map(drop),
                    _ => once.set("/a", "new").await.map(drop),
                }
            });
            let error = result.await.expect_err("it is refused");
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            println!("{code}: {error}: {cause:?}");
            assert_eq!(cause.as_deref(), text, "{code}: {error}");
            let is_write = op == Op::SetData;
            let expected = match kind {
                ErrorKind::ServerError if is_write => ErrorKind::OutcomeUnknown,
                kind => kind,
            };
            assert_eq!(error.kind(), expected, "{code}: {error}");
            let is_unknown = is_write && may_be_applied;
            assert_eq!(error.is_outcome_unknown(), is_unknown, "{code}: {error}");
            if error.is_fatal() {
                within_limit("the session is over", session.lost()).await;
            } else {
                let (data, _) = session.get("/a").await.unwrap();
                assert_eq!(data, "old", "{code}: the session goes on");
                session.close().await.unwrap();
            }
        }
    }
    other.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_create_that_keeper_gave_up_on_is_searched_for() {
    let keeper = Keeper::start(Features::NEW).await;
    // A timeout, the loss of the leader, and the limit of memory, which is checked before anything is done.
    for (number, (code, is_carried_out)) in [
        (-7, true),
        (-7, false),
        (-4, true),
        (-4, false),
        (-10, false),
    ]
    .into_iter()
    .enumerate()
    {
        let session = connect(&keeper).await;
        let path = format!("/lock-{number}");
        session.create(&path, "").await.unwrap();
        keeper.refuse(Refusal {
            op: Op::Create,
            code,
            is_carried_out,
            times: 1,
        });
        let lock = FairLock::new(&session, &path).unwrap();
        let guard = within_limit("the lock is acquired", lock.acquire()).await;
        let guard = guard.unwrap();
        assert!(guard.is_valid(), "{code}");
        let (names, _) = session.list(&path).await.unwrap();
        assert_eq!(
            names.len(),
            1,
            "{code}: no contender is left over: {names:?}"
        );
        assert_eq!(session.counters().connection_losses, 0, "{code}");
        guard.release().await.unwrap();
        session.close().await.unwrap();
    }
}
