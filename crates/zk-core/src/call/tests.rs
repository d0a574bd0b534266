//! Calls under transport faults, over a scripted transport in paused time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;

use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use tokio::time::Instant;

use super::*;
use crate::acl::Acl;
use crate::error::ErrorClass;
use crate::retry::Jitter;
use crate::retry::RetryPolicy;
use crate::session::Session;
use crate::stat::SessionId;
use crate::stat::Stat;
use crate::state::ConnectionState;
use crate::transport::CreateRequest;
use crate::transport::Link;
use crate::transport::LinkReceiver;
use crate::transport::LinkSender;
use crate::transport::OpResult;
use crate::transport::Phase;
use crate::transport::Reply;
use crate::transport::SessionEnd;
use crate::transport::Transport;

/// The outcome of one request.
#[derive(Debug, Clone)]
enum Step {
    Answer,
    /// A node with this data and stat exists.
    Found(&'static str, Stat),
    /// The link breaks and is restored before the reply arrives.
    Break,
    Fail(TransportError),
    Silence,
}

/// A transport that replies from a script and records the requests, except the session's own probes.
#[derive(Debug, Clone)]
struct Script(Arc<State>);

#[derive(Debug)]
struct State {
    steps: Mutex<VecDeque<Step>>,
    log: Mutex<Vec<String>>,
    /// Which children a node is said to have.
    children: fn(&str) -> &'static [&'static str],
    link: LinkSender,
    closed: tokio::sync::Notify,
}

impl Script {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::with_children(steps, |_| &[])
    }

    fn with_children(
        steps: impl IntoIterator<Item = Step>,
        children: fn(&str) -> &'static [&'static str],
    ) -> Self {
        Self(Arc::new(State {
            steps: Mutex::new(steps.into_iter().collect()),
            log: Mutex::default(),
            children,
            link: LinkSender::new(Link {
                phase: Phase::Up,
                breaks: 0,
            }),
            closed: tokio::sync::Notify::new(),
        }))
    }

    fn session(&self) -> Session {
        Session::over(self.clone(), "h1,h2:2182/app".parse().unwrap())
    }

    fn sent(&self) -> usize {
        self.log().len()
    }

    fn log(&self) -> Vec<String> {
        self.0.log.lock().unwrap().clone()
    }

    fn set_phase(&self, phase: Phase) {
        self.0.link.send(Link {
            phase,
            ..self.0.link.now()
        });
    }
}

fn stat() -> Stat {
    Stat {
        czxid: 1,
        mzxid: 2,
        pzxid: 3,
        ctime: std::time::SystemTime::UNIX_EPOCH,
        mtime: std::time::SystemTime::UNIX_EPOCH,
        version: 0,
        cversion: 0,
        aversion: 0,
        ephemeral_owner: None,
        data_length: 0,
        num_children: 0,
    }
}

impl Transport for Script {
    fn session_id(&self) -> SessionId {
        SessionId::new(7)
    }

    fn session_timeout(&self) -> Duration {
        Duration::from_secs(6)
    }

    fn link(&self) -> LinkReceiver {
        self.0.link.subscribe()
    }

    fn submit(&self, request: Request) -> Reply {
        let state = Arc::clone(&self.0);
        Box::pin(async move {
            let Some((what, answer)) = answer(&state, request) else {
                return std::future::pending().await;
            };
            state.log.lock().unwrap().push(what);
            let step = state
                .steps
                .lock()
                .unwrap()
                .pop_front()
                .expect("the script has a step for each request");
            match (step, answer) {
                (Step::Answer, answer) => Ok(answer),
                (Step::Break, answer) => {
                    let mut link = state.link.now();
                    link.breaks += 1;
                    state.link.send(link);
                    Ok(answer)
                }
                (Step::Fail(fault), _) => Err(fault),
                (Step::Silence, _) => std::future::pending().await,
                (Step::Found(_, stat), Response::Stat { .. }) => Ok(Response::Stat {
                    stat: Some(stat),
                    watch: None,
                }),
                (Step::Found(data, stat), _) => Ok(Response::Data {
                    data: data.into(),
                    stat,
                    watch: None,
                }),
            }
        })
    }

    fn close(&self) {
        self.0.closed.notify_one();
    }
}

/// How a request is noted and what it is answered; nothing for what a session asks for itself.
fn answer(state: &State, request: Request) -> Option<(String, Response)> {
    let root = NodePath::root();
    Some(match request {
        Request::Sync { path } if path == root => return None,
        Request::Create(CreateRequest { path, .. }) => (
            format!("create {path}"),
            Response::Created { path, stat: stat() },
        ),
        Request::Delete { path, .. } => (format!("delete {path}"), Response::Deleted),
        Request::Get { path, .. } => (
            format!("get {path}"),
            Response::Data {
                data: b"data".to_vec(),
                stat: stat(),
                watch: None,
            },
        ),
        Request::Set { path, .. } => (format!("set {path}"), Response::Set(stat())),
        Request::Exists { path, .. } => (
            format!("exists {path}"),
            Response::Stat {
                stat: None,
                watch: None,
            },
        ),
        Request::List { path, .. } => (
            format!("list {path}"),
            Response::Children {
                names: (state.children)(path.as_str())
                    .iter()
                    .map(|&name| name.to_owned())
                    .collect(),
                stat: stat(),
                watch: None,
            },
        ),
        Request::Sync { path } => (format!("sync {path}"), Response::Synced),
        Request::GetAcl { path } => (
            format!("acl {path}"),
            Response::Acl {
                acl: Acl::open(),
                stat: stat(),
            },
        ),
        Request::SetAcl { path, .. } => (format!("set_acl {path}"), Response::Set(stat())),
        Request::Transaction(parts) => (
            format!("transaction of {}", parts.len()),
            Response::Committed(vec![OpResult::Checked; parts.len()]),
        ),
        Request::AddWatch { .. } => unreachable!("no operation asks for it"),
    })
}

fn lost() -> Step {
    Step::Fail(TransportError::Lost("connection reset".to_owned()))
}

fn refused(kind: ErrorKind) -> Step {
    Step::Fail(TransportError::Refused(kind, None))
}

fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

// covers: C1
#[tokio::test(start_paused = true)]
async fn read_is_repeated_until_it_is_answered() {
    let later = Step::Fail(TransportError::Later(ErrorKind::Throttled));
    let trouble = Step::Fail(TransportError::Server(
        "unexpected error code: -1".to_owned(),
    ));
    let script = Script::new([lost(), later, trouble, Step::Answer]);
    let (data, _) = script.session().get("/a").await.unwrap();
    assert_eq!((data.as_slice(), script.sent()), (b"data".as_slice(), 4));
}

#[tokio::test(start_paused = true)]
async fn read_ends_at_the_deadline_with_the_last_fault() {
    let script = Script::new(vec![lost(); 100]);
    let start = Instant::now();
    let error = script
        .session()
        .with_retry(RetryPolicy::default().jitter(Jitter::None))
        .get("/a")
        .timeout(Duration::from_secs(3))
        .await
        .unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    assert_eq!(
        (error.kind(), error.class()),
        (ErrorKind::ConnectionLost, ErrorClass::Recoverable)
    );
    assert_eq!(error.attempts() as usize, script.sent());
    assert_eq!(
        chain(&error),
        "get /a: the connection broke after 8 attempts: connection reset"
    );
    assert!(!error.is_outcome_unknown());
}

/// A session that makes no request again.
fn strict(script: &Script) -> Session {
    script.session().with_retry(RetryPolicy::never())
}

#[tokio::test(start_paused = true)]
async fn outcome_of_a_write_that_is_not_answered_is_unknown() {
    let trouble = || {
        Step::Fail(TransportError::Server(
            "unexpected error code: -7".to_owned(),
        ))
    };
    for step in [lost(), trouble(), Step::Silence] {
        let script = || Script::new([step.clone(), Step::Answer]);
        let scripts = [script(), script(), script(), script(), script()];
        let errors = [
            strict(&scripts[0]).set("/a", "x").await.unwrap_err(),
            strict(&scripts[1])
                .create("/a", "")
                .parents()
                .await
                .unwrap_err(),
            strict(&scripts[2]).delete("/a").await.unwrap_err(),
            strict(&scripts[3])
                .set_acl("/a", Acl::open())
                .await
                .unwrap_err(),
            strict(&scripts[4])
                .transaction()
                .set("/a", "")
                .commit()
                .await
                .unwrap_err(),
        ];
        for (error, script) in errors.iter().zip(&scripts) {
            assert_eq!(
                (error.kind(), error.class(), script.sent()),
                (ErrorKind::OutcomeUnknown, ErrorClass::Recoverable, 1),
                "{step:?}: {error}"
            );
            assert!(error.is_outcome_unknown());
        }
    }
}

// covers: C3 C13
#[tokio::test(start_paused = true)]
async fn writes_that_nothing_can_judge_are_not_repeated() {
    let scripts: Vec<_> = (0..4)
        .map(|_| Script::new([lost(), Step::Answer]))
        .collect();
    let session = |at: usize| scripts[at].session();
    let errors = [
        session(0).create("/a-", "").sequential().await.unwrap_err(),
        session(1)
            .transaction()
            .set("/a", "1")
            .set("/a", "2")
            .commit()
            .await
            .unwrap_err(),
        session(2)
            .transaction()
            .set_version("/a", "", 1)
            .commit()
            .await
            .unwrap_err(),
        session(3)
            .transaction()
            .check("/l")
            .delete("/a")
            .commit()
            .await
            .unwrap_err(),
    ];
    for (error, script) in errors.iter().zip(&scripts) {
        assert_eq!(
            (error.kind(), script.sent()),
            (ErrorKind::OutcomeUnknown, 1),
            "{error}"
        );
    }
}

/// A write of each kind that names no version, by a session that has just read the node.
async fn write_after_reading(kind: usize, script: &Script) -> Result<(), Error> {
    let session = script.session();
    session.get("/a").await?;
    match kind {
        0 => session.set("/a", "x").await.map(drop),
        1 => session.set_acl("/a", Acl::open()).await.map(drop),
        2 => session.delete("/a").await,
        3 => session.create("/a", "x").or_set().await.map(drop),
        _ => {
            let guarded = session.transaction().set("/a", "x").check("/l");
            guarded.commit().await.map(drop)
        }
    }
}

// covers: C3 C13
#[tokio::test(start_paused = true)]
async fn write_is_repeated_over_what_was_there_before() {
    for (kind, write, look) in [
        (0, "set /a", "get /a"),
        (1, "set_acl /a", "acl /a"),
        (2, "delete /a", "exists /a"),
        (4, "transaction of 2", "get /a"),
    ] {
        // The node is as it was read.
        let found = match kind {
            1 => Step::Answer,
            _ => Step::Found("y", stat()),
        };
        let script = Script::new([Step::Answer, lost(), Step::Answer, found, Step::Answer]);
        write_after_reading(kind, &script).await.unwrap();
        assert_eq!(script.log(), ["get /a", write, "sync /a", look, write]);
    }
}

// covers: C3 C13
#[tokio::test(start_paused = true)]
async fn write_is_not_repeated_over_what_came_after() {
    let newer = Stat {
        czxid: 9,
        mzxid: 9,
        ..stat()
    };
    for (kind, write, look) in [
        (0, "set /a", "get /a"),
        (2, "delete /a", "exists /a"),
        (4, "transaction of 2", "get /a"),
    ] {
        let found = Step::Found("y", newer);
        let script = Script::new([Step::Answer, lost(), Step::Answer, found, Step::Answer]);
        let error = write_after_reading(kind, &script).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
        assert_eq!(script.log(), ["get /a", write, "sync /a", look]);
    }
    // A create that becomes a write is one.
    let steps = |found| {
        let exists = refused(ErrorKind::NodeExists);
        [Step::Answer, lost(), exists, found, Step::Answer]
    };
    let script = Script::new(steps(Step::Found("y", newer)));
    let error = write_after_reading(3, &script).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    assert_eq!(
        script.log(),
        ["get /a", "create /a", "create /a", "get /a"],
        "what another client wrote stays"
    );
    let script = Script::new(steps(Step::Found("y", stat())));
    write_after_reading(3, &script).await.unwrap();
    assert_eq!(script.log().last().unwrap(), "set /a");
}

// covers: C3
#[tokio::test(start_paused = true)]
async fn write_whose_data_is_there_is_done() {
    let script = Script::new([lost(), Step::Answer, Step::Found("x", stat())]);
    assert_eq!(script.session().set("/a", "x").await.unwrap(), stat());
    let script = Script::new([
        lost(),
        refused(ErrorKind::NodeExists),
        Step::Found("x", stat()),
    ]);
    let made = script.session().create("/a", "x").or_set().await.unwrap();
    assert_eq!(made.1, stat());
    // A transaction is made again, under the version that was found, and its checks with it.
    let set = [lost(), Step::Answer, Step::Found("x", stat())];
    let again = |step| Script::new(set.clone().into_iter().chain([step]));
    let script = again(Step::Answer);
    let guarded = async |script: &Script| {
        let session = script.session();
        let guarded = session.transaction().check("/l").set("/a", "x");
        guarded.commit().await
    };
    guarded(&script).await.unwrap();
    assert_eq!(script.sent(), 4);
    let refused_at = |index, kind| Step::Fail(TransportError::RefusedAt { index, kind });
    let beaten = guarded(&again(refused_at(1, ErrorKind::BadVersion))).await;
    assert_eq!(beaten.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    let unguarded = guarded(&again(refused_at(0, ErrorKind::NoNode))).await;
    let error = unguarded.unwrap_err();
    assert_eq!(
        (
            error.kind(),
            error.failed_part(),
            error.is_outcome_unknown()
        ),
        (ErrorKind::NoNode, Some(0), true)
    );
}

// covers: C3
#[tokio::test(start_paused = true)]
async fn repeated_delete_that_finds_nothing_is_done() {
    let script = Script::new([lost(), Step::Answer, Step::Answer]);
    script.session().delete("/a").version(3).await.unwrap();
    assert_eq!(script.log(), ["delete /a", "sync /a", "exists /a"]);
    // Without doubt it is the answer.
    let script = Script::new([refused(ErrorKind::NoNode)]);
    assert!(
        script
            .session()
            .delete("/a")
            .await
            .unwrap_err()
            .is_no_node()
    );
}

// covers: C3
#[tokio::test(start_paused = true)]
async fn repeated_create_that_finds_a_node_judges_whose_it_is() {
    let mine = Stat {
        ephemeral_owner: Some(SessionId::new(7)),
        ..stat()
    };
    let other = Stat {
        ephemeral_owner: Some(SessionId::new(8)),
        ..stat()
    };
    let script = |found: Step| Script::new([lost(), refused(ErrorKind::NodeExists), found]);
    let ephemeral = async |found| {
        let session = script(Step::Found("x", found)).session();
        session.create("/a", "x").ephemeral().await
    };
    assert_eq!(ephemeral(mine).await.unwrap().1, mine);
    assert!(ephemeral(other).await.unwrap_err().is_node_exists());

    let persistent = async |data| {
        let session = script(Step::Found(data, stat())).session();
        session.create("/a", "x").await.unwrap_err()
    };
    assert!(persistent("y").await.is_node_exists());
    let unknown = persistent("x").await;
    assert_eq!(
        unknown.to_string(),
        "create /a: outcome unknown, the request was sent and no reply arrived \
         (a node exists, and its state does not show whether this call created it) after 2 attempts"
    );
    assert!(unknown.is_outcome_unknown());
    let session = script(Step::Found("x", stat())).session();
    assert_eq!(
        session.create("/a", "x").idempotent().await.unwrap().1,
        stat()
    );
    // Without doubt an existing node is somebody else's.
    let session = Script::new([refused(ErrorKind::NodeExists)]).session();
    assert!(
        session
            .create("/a", "x")
            .idempotent()
            .await
            .unwrap_err()
            .is_node_exists()
    );
}

// covers: C3
#[tokio::test(start_paused = true)]
async fn ephemeral_node_of_another_call_is_not_ours() {
    let mine = Stat {
        ephemeral_owner: Some(SessionId::new(7)),
        ..stat()
    };
    let newer = Stat { czxid: 9, ..mine };
    let script = Script::new([
        Step::Answer,
        lost(),
        refused(ErrorKind::NodeExists),
        Step::Found("x", mine),
        Step::Answer,
        lost(),
        refused(ErrorKind::NodeExists),
        Step::Found("x", newer),
        lost(),
        refused(ErrorKind::NodeExists),
        Step::Found("y", Stat { czxid: 10, ..mine }),
    ]);
    let session = script.session();
    let create = || session.create("/a", "x").ephemeral();
    create().await.unwrap();
    assert!(create().await.unwrap_err().is_node_exists());
    // Once it was deleted, a node found there is a new one.
    session.delete("/a").await.unwrap();
    assert_eq!(create().await.unwrap().1, newer);
    // Its data is another call's.
    assert!(create().await.unwrap_err().is_node_exists());
}

// covers: C3
#[tokio::test(start_paused = true)]
async fn ephemeral_node_may_be_deleted_while_it_is_made() {
    let script = Script::new([lost(), Step::Answer, Step::Answer]);
    let session = script.session();
    let create = session.create("/e", "").ephemeral().into_future();
    let (created, deleted) = tokio::join!(create, session.delete("/e").into_future());
    created.unwrap();
    deleted.unwrap();
    assert_eq!(script.log(), ["create /e", "delete /e", "create /e"]);
}

// covers: C3
#[tokio::test(start_paused = true)]
async fn ephemeral_node_of_two_concurrent_calls_is_unknown() {
    let mine = Stat {
        ephemeral_owner: Some(SessionId::new(7)),
        ..stat()
    };
    let exists = || refused(ErrorKind::NodeExists);
    let found = || Step::Found("x", mine);
    let script = Script::new([lost(), lost(), exists(), found(), exists(), found()]);
    let session = script
        .session()
        .with_retry(RetryPolicy::constant(Duration::from_millis(50)).jitter(Jitter::None));
    let create = || session.create("/a", "x").ephemeral().into_future();
    let (one, other) = tokio::join!(create(), create());
    // Whichever looks first cannot tell. Once it has given up, the other one is alone.
    let ((Ok(_), Err(error)) | (Err(error), Ok(_))) = (&one, &other) else {
        panic!("{one:?} {other:?}");
    };
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
}

// covers: C3
#[tokio::test(start_paused = true)]
async fn repeated_versioned_write_judges_whose_version_it_is() {
    let next = Stat {
        version: 5,
        ..stat()
    };
    let write = async |found: Step, idempotent: bool| {
        let script = Script::new([lost(), Step::Answer, found]);
        let set = script.session().set("/a", "x").version(4);
        if idempotent {
            set.idempotent().await
        } else {
            set.await
        }
    };
    assert_eq!(write(Step::Found("x", next), true).await.unwrap(), next);
    let kind = async |found, idempotent| write(found, idempotent).await.unwrap_err().kind();
    assert_eq!(
        kind(Step::Found("x", next), false).await,
        ErrorKind::OutcomeUnknown
    );
    assert_eq!(
        kind(Step::Found("y", next), true).await,
        ErrorKind::BadVersion
    );
    assert_eq!(
        kind(Step::Found("x", stat()), true).await,
        ErrorKind::OutcomeUnknown
    );
    let gone = write(refused(ErrorKind::NoNode), true).await.unwrap_err();
    assert_eq!(
        (gone.kind(), gone.is_outcome_unknown()),
        (ErrorKind::NoNode, true)
    );
}

// covers: C12
#[tokio::test(start_paused = true)]
async fn create_or_set_goes_on_until_one_of_them_works() {
    let script = Script::new([
        refused(ErrorKind::NodeExists),
        refused(ErrorKind::NoNode),
        refused(ErrorKind::NodeExists),
        Step::Answer,
    ]);
    let (path, _) = script.session().create("/a", "x").or_set().await.unwrap();
    assert_eq!(path.as_str(), "/a");
    assert_eq!(script.log(), ["create /a", "set /a", "create /a", "set /a"]);
}

// covers: C2
#[tokio::test(start_paused = true)]
async fn each_call_has_a_fresh_budget_of_retries() {
    let script = Script::new(vec![lost(); 6]);
    let policy = RetryPolicy::constant(Duration::from_millis(100)).at_most(2);
    let session = script.session().with_retry(policy);
    for _ in 0..2 {
        let start = Instant::now();
        let error = session.get("/a").await.unwrap_err();
        assert_eq!((error.attempts(), start.elapsed().as_millis()), (3, 200));
    }
    assert_eq!(session.counters().retries, 4);
}

// covers: C13
#[tokio::test(start_paused = true)]
async fn refused_transaction_names_its_part() {
    let script = Script::new([Step::Fail(TransportError::RefusedAt {
        index: 1,
        kind: ErrorKind::BadVersion,
    })]);
    let session = script.session();
    let transaction = session.transaction().check("/a").set_version("/b", "x", 3);
    let error = transaction.delete("/c").commit().await.unwrap_err();
    assert_eq!(
        (error.failed_part(), error.kind()),
        (Some(1), ErrorKind::BadVersion)
    );
    assert_eq!(
        error.to_string(),
        "transaction /b: the node has another version (part 2 of 3)"
    );
    let error = session
        .transaction()
        .check("/a")
        .set("b", "")
        .commit()
        .await
        .unwrap_err();
    assert_eq!(
        (error.failed_part(), error.kind()),
        (Some(1), ErrorKind::InvalidPath)
    );
    assert!(session.transaction().commit().await.unwrap().is_empty());
    assert_eq!(script.sent(), 1);
}

// covers: C18
#[tokio::test(start_paused = true)]
async fn namespace_is_before_every_path_and_in_none_of_the_answers() {
    let script = Script::new(vec![Step::Answer; 5]);
    let session = script.session().with_namespace("/ns").unwrap();
    let inner = session.with_namespace("/in").unwrap();
    let (path, _) = inner.create("/a", "").await.unwrap();
    assert_eq!(path.as_str(), "/a");
    session.get("/").await.unwrap();
    session.delete("/ns2").await.unwrap();
    inner.transaction().set("/b", "").commit().await.unwrap();
    assert_eq!(inner.namespace().as_str(), "/ns/in");
    assert_eq!(
        script.log(),
        [
            "create /ns/in/a",
            "get /ns",
            "delete /ns/ns2",
            "transaction of 1"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn write_the_server_did_not_take_is_repeated() {
    let moved = Step::Fail(TransportError::Later(ErrorKind::SessionMoved));
    let script = Script::new([moved, Step::Answer]);
    script.session().delete("/a").await.unwrap();
    assert_eq!(script.sent(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_while_the_session_is_not_connected() {
    let script = Script::new([]);
    script.set_phase(Phase::Down);
    let session = script.session();
    let start = Instant::now();
    let error = session
        .create("/a", "")
        .timeout(Duration::from_secs(2))
        .await
        .unwrap_err();
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    assert_eq!(
        (error.kind(), error.attempts(), script.sent()),
        (ErrorKind::NotConnected, 0, 0)
    );
    assert!(!error.is_outcome_unknown());
    assert_eq!(
        error.to_string(),
        "create /a: not sent, the session was not connected (waited 2s for a connection to h1:2181,h2:2182/app)"
    );
    assert_eq!(
        session.get("/a").await.unwrap_err().kind(),
        ErrorKind::NotConnected
    );
    assert_eq!(
        start.elapsed(),
        Duration::from_secs(12),
        "the session's default bounds the second call"
    );
}

#[tokio::test(start_paused = true)]
async fn silent_server_ends_a_read_at_the_deadline() {
    let script = Script::new([Step::Silence]);
    let error = script.session().list("/a").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "list /a: no reply in time (waited 10s for the reply)"
    );
}

#[tokio::test(start_paused = true)]
async fn definite_answers_are_not_repeated() {
    for kind in [
        ErrorKind::NoNode,
        ErrorKind::NodeExists,
        ErrorKind::BadVersion,
        ErrorKind::NotEmpty,
        ErrorKind::ParentIsEphemeral,
        ErrorKind::NoAuth,
        ErrorKind::InvalidAcl,
        ErrorKind::QuotaExceeded,
        ErrorKind::ReadOnlyServer,
        ErrorKind::Unsupported,
        ErrorKind::InvalidArgument,
    ] {
        let script = Script::new([refused(kind), refused(kind)]);
        let read = script.session().get("/a").await.unwrap_err();
        let write = script.session().set("/a", "").await.unwrap_err();
        assert_eq!((read.kind(), write.kind(), script.sent()), (kind, kind, 2));
        let class = match kind {
            ErrorKind::ReadOnlyServer => ErrorClass::Recoverable,
            _ => ErrorClass::Outcome,
        };
        assert_eq!(kind.class(), class);
        assert!(!write.is_outcome_unknown());
    }
}

#[tokio::test(start_paused = true)]
async fn lost_session_is_fatal_and_says_whether_a_write_was_in_flight() {
    for (ending, kind) in [
        (SessionEnd::Expired, ErrorKind::SessionExpired),
        (SessionEnd::AuthFailed, ErrorKind::AuthFailed),
        (SessionEnd::Closed, ErrorKind::SessionClosed),
        (SessionEnd::RuntimeEnded, ErrorKind::SessionClosed),
    ] {
        let script = Script::new([
            Step::Fail(TransportError::Ended(ending)),
            Step::Fail(TransportError::Ended(ending)),
        ]);
        let session = script.session();
        let in_flight = session.set("/a", "x").await.unwrap_err();
        let read = session.get("/a").await.unwrap_err();
        script.set_phase(Phase::Over(ending));
        let later = session.set("/a", "x").await.unwrap_err();
        assert_eq!(session.lost().await, ending);
        let unknown = [&in_flight, &read, &later].map(Error::is_outcome_unknown);
        // A client that is closed may be so because of another handle; the other endings are final at once.
        let sent = if kind == ErrorKind::SessionClosed {
            2
        } else {
            1
        };
        assert_eq!((unknown, script.sent()), ([true, false, false], sent));
        for error in [in_flight, read, later] {
            assert_eq!((error.kind(), error.class()), (kind, ErrorClass::Fatal));
        }
        assert_eq!(session.close().await.is_ok(), ending == SessionEnd::Closed);
    }
}

// covers: C6
#[tokio::test(start_paused = true)]
async fn caller_that_sees_the_session_end_finds_it_lost() {
    let script = Script::new([Step::Fail(TransportError::Ended(SessionEnd::Expired))]);
    let session = script.session();
    let mut changes = session.state_changes();
    assert_eq!(changes.next().await, Some(ConnectionState::Connected));
    assert!(session.get("/a").await.unwrap_err().is_fatal());
    // The transport has not updated the link.
    let lost = ConnectionState::Lost(SessionEnd::Expired);
    assert_eq!(session.state(), lost);
    assert_eq!(session.lost().now_or_never(), Some(SessionEnd::Expired));
    let later: Vec<_> = session.state_changes().into_stream().collect().await;
    assert_eq!(later, [lost]);
    assert_eq!(changes.next().await, Some(lost));
    // A later update does not revive the session.
    script.set_phase(Phase::Up);
    assert_eq!(session.state(), lost);
    assert_eq!(changes.next().await, None);
    assert_eq!(session.valid_until(), None);
    let error = session.set("/a", "").await.unwrap_err();
    assert_eq!((error.is_fatal(), error.attempts()), (true, 0));
}

#[tokio::test(start_paused = true)]
async fn calls_after_the_closing_do_not_wait_for_a_connection() {
    let script = Script::new([]);
    let session = script
        .session()
        .with_operation_timeout(Duration::from_secs(1));
    script.set_phase(Phase::Down);
    session.close().await.unwrap_err();
    let start = Instant::now();
    let error = session.get("/a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SessionClosed);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// The log with the unique ids left out, once it is seen that all are the same.
fn without_id(log: &[String]) -> Vec<String> {
    let ids: Vec<_> = log
        .iter()
        .filter_map(|line| line.split_once("_c_").map(|(_, rest)| &rest[..36]))
        .collect();
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]), "{log:?}");
    let id = ids.first().copied().unwrap_or_default();
    log.iter().map(|line| line.replace(id, "ID")).collect()
}

// covers: C4
#[tokio::test(start_paused = true)]
async fn protected_create_searches_after_sync_on_a_stable_link() {
    let script = Script::new([
        lost(),
        Step::Answer,
        Step::Break,
        Step::Answer,
        Step::Answer,
        Step::Answer,
        // Whether there are two of them now.
        Step::Answer,
        Step::Answer,
    ]);
    let create = script.session().create("/l/n-", "").sequential();
    create.ephemeral().protected().await.unwrap();
    assert_eq!(
        without_id(&script.log()),
        [
            "create /l/_c_ID-n-",
            "sync /l",
            "list /l",
            "sync /l",
            "list /l",
            "create /l/_c_ID-n-",
            "sync /l",
            "list /l",
        ]
    );
}

// covers: C4
#[tokio::test(start_paused = true)]
async fn protected_create_that_fails_unknown_is_cleaned_up() {
    let answers = || vec![Step::Answer; 4];
    for (steps, kind) in [
        (vec![lost()], ErrorKind::OutcomeUnknown),
        (vec![Step::Silence], ErrorKind::OutcomeUnknown),
        (vec![refused(ErrorKind::NoAuth)], ErrorKind::NoAuth),
    ] {
        let script = Script::new(steps.into_iter().chain(answers()));
        let session = strict(&script);
        let error = session.create("/l/n", "").protected().await.unwrap_err();
        assert_eq!(error.kind(), kind);
        session.settled().await;
        let log = without_id(&script.log());
        if kind == ErrorKind::NoAuth {
            assert_eq!(log, ["create /l/_c_ID-n"], "nothing was made");
        } else {
            assert_eq!(log[log.len() - 2..], ["sync /l", "list /l"], "{log:?}");
        }
    }
    // A first try that is in doubt is cleaned up after, although the second one was refused.
    let script = Script::new([
        lost(),
        Step::Answer,
        Step::Answer,
        refused(ErrorKind::NoAuth),
        Step::Answer,
        Step::Answer,
    ]);
    let session = script.session();
    let error = session.create("/l/n", "").protected().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoAuth);
    session.settled().await;
    assert_eq!(script.sent(), 6, "{:?}", script.log());
}

// covers: C12
#[tokio::test(start_paused = true)]
async fn guaranteed_delete_minds_the_version_in_the_background() {
    let version = |version| Stat { version, ..stat() };
    let run = async |later: Stat| {
        let script = Script::new([
            Step::Answer,
            Step::Found("", version(3)),
            lost(),
            Step::Answer,
            Step::Found("", later),
            Step::Answer,
        ]);
        let session = strict(&script);
        let delete = session.delete("/a").version(3).guaranteed();
        assert!(delete.await.unwrap_err().is_outcome_unknown());
        session.settled().await;
        script.log()
    };
    let looked = ["sync /a", "exists /a", "delete /a", "sync /a", "exists /a"];
    let deleted = [
        "sync /a",
        "exists /a",
        "delete /a",
        "sync /a",
        "exists /a",
        "delete /a",
    ];
    assert_eq!(run(version(3)).await, deleted);
    assert_eq!(run(version(4)).await, looked, "it has changed since");
    let other = Stat {
        czxid: 9,
        ..version(3)
    };
    assert_eq!(run(other).await, looked, "another node has taken its place");
}

// covers: C3 C13
#[tokio::test(start_paused = true)]
async fn version_that_means_any_is_refused_with_the_remedy() {
    let session = Script::new([]).session();
    let errors = [
        session.set("/a", "").version(-1).await.unwrap_err(),
        session.delete("/a").version(-1).await.unwrap_err(),
        session
            .delete("/a")
            .guaranteed()
            .version(-1)
            .await
            .unwrap_err(),
        session
            .set_acl("/a", Acl::open())
            .version(-1)
            .await
            .unwrap_err(),
        session
            .transaction()
            .check_version("/a", -1)
            .commit()
            .await
            .unwrap_err(),
        session
            .transaction()
            .set_version("/a", "", -1)
            .commit()
            .await
            .unwrap_err(),
        session
            .transaction()
            .delete_version("/a", -1)
            .commit()
            .await
            .unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        let remedy =
            "version -1 means any version to servers; to ask for none, leave the version away";
        assert!(error.to_string().contains(remedy), "{error}");
    }
    // Versions wrap around: any other negative one occurs.
    let script = Script::new([Step::Answer, Step::Answer]);
    let session = script.session();
    session.set("/a", "").version(i32::MIN).await.unwrap();
    session.delete("/a").version(-2).await.unwrap();
}

// covers: C5
#[test]
fn what_may_work_later_is_recoverable() {
    for kind in [ErrorKind::TooManyWatches, ErrorKind::ReadOnlyServer] {
        assert_eq!(kind.class(), ErrorClass::Recoverable, "{kind:?}");
    }
}

// covers: C6
#[tokio::test(start_paused = true)]
async fn dropped_session_is_closed_although_its_cleanup_fails() {
    let trouble = Step::Fail(TransportError::Server(
        "unexpected error code: -1".to_owned(),
    ));
    let script = Script::new([vec![Step::Answer], vec![trouble; 10_000]].concat());
    let session = script.session();
    let owned = session.create("/a", "").owned().await.unwrap();
    drop((owned, session));
    let start = Instant::now();
    let closed = tokio::time::timeout(Duration::from_secs(600), script.0.closed.notified());
    closed.await.expect("the session is closed at last");
    assert_eq!(start.elapsed(), crate::engine::cleanup::LONGEST_CLEANUP);
    assert!(script.sent() > 10, "it was tried again and again");
}

// covers: C12
#[tokio::test(start_paused = true)]
async fn guaranteed_delete_looks_once_the_server_has_caught_up() {
    let script = Script::new([Step::Answer, Step::Found("", stat()), Step::Answer]);
    script.session().delete("/a").guaranteed().await.unwrap();
    assert_eq!(script.log(), ["sync /a", "exists /a", "delete /a"]);
    let script = Script::new([Step::Answer, Step::Answer]);
    let delete = script.session().delete("/a").guaranteed();
    assert!(delete.await.unwrap_err().is_no_node());
}

// covers: C3 C12
#[tokio::test(start_paused = true)]
async fn guaranteed_delete_spares_the_node_that_came_after() {
    let newer = Stat { czxid: 9, ..stat() };
    let run = async |found| {
        let script = Script::new([
            Step::Answer,
            Step::Found("", stat()),
            lost(),
            Step::Answer,
            found,
            Step::Answer,
        ]);
        script.session().delete("/a").guaranteed().await.unwrap();
        script.log()
    };
    let looked = ["sync /a", "exists /a", "delete /a", "sync /a", "exists /a"];
    assert_eq!(run(Step::Found("", newer)).await, looked);
    let deleted = [&looked[..], &["delete /a"]].concat();
    assert_eq!(run(Step::Found("", stat())).await, deleted);
    // Written in between: it is deleted all the same, under the version that it has then.
    let written = Stat {
        version: 1,
        ..stat()
    };
    let script = Script::new([
        Step::Answer,
        Step::Found("", stat()),
        refused(ErrorKind::BadVersion),
        Step::Answer,
        Step::Found("", written),
        Step::Answer,
    ]);
    script.session().delete("/a").guaranteed().await.unwrap();
    assert_eq!(script.log(), deleted);
}

// covers: C6
#[tokio::test(start_paused = true)]
async fn background_removal_ends_with_the_session() {
    let script = Script::new([Step::Answer, Step::Silence]);
    let session = script.session();
    drop(session.create("/a", "").owned().await.unwrap());
    let mut settled = std::pin::pin!(session.settled());
    let early = tokio::time::timeout(Duration::from_secs(60), &mut settled).await;
    assert!(early.is_err(), "the server is silent");
    script.set_phase(Phase::Over(SessionEnd::Expired));
    settled.await;
}

#[tokio::test(start_paused = true)]
async fn closing_without_an_acknowledgement_ends_at_the_deadline() {
    let error = Script::new([]).session().close().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "close: no reply in time (no reply from h1:2181,h2:2182/app to closing session 0x7 within 10s)"
    );
}

#[tokio::test(start_paused = true)]
async fn bad_requests_are_refused_before_anything_is_sent() {
    let script = Script::new([]);
    let session = script.session();
    let big = vec![0; 1 << 20];
    let created = [
        (
            session.create("a", "").await,
            ErrorKind::InvalidPath,
            "create: not a valid path",
        ),
        (
            session.create("/", "").await,
            ErrorKind::InvalidArgument,
            "create /: not possible (the root always exists)",
        ),
        (
            session.create("/a", "").ephemeral().container().await,
            ErrorKind::InvalidArgument,
            "create /a: not possible (a node is ephemeral or a container, not both)",
        ),
        (
            session.create("/a", "").acl(Acl::new([])).await,
            ErrorKind::InvalidAcl,
            "create /a: the server does not accept the acl (it has no entry)",
        ),
        (
            session.create("/a", big.clone()).await,
            ErrorKind::TooLarge,
            "create /a: the request is too large (1048576 bytes of data; with this path at most 1048482 fit, so store \
             it in pieces or elsewhere)",
        ),
    ];
    for (result, kind, message) in created {
        let error = result.unwrap_err();
        assert_eq!((error.kind(), error.to_string().as_str()), (kind, message));
    }
    assert_eq!(
        session.set("/a", big).await.unwrap_err().kind(),
        ErrorKind::TooLarge
    );
    assert_eq!(
        session.delete("/").await.unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        session
            .delete("/a")
            .recursive()
            .version(1)
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(
        session
            .set_acl("/a", Acl::new([]))
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidAcl
    );
    assert_eq!(script.sent(), 0);
}

#[tokio::test(start_paused = true)]
async fn missing_parents_are_made_from_the_nearest_one_that_can_be() {
    let no_node = || refused(ErrorKind::NoNode);
    let exists = || refused(ErrorKind::NodeExists);
    // The answer to the first parent is lost once, and another client makes /a/b/c meanwhile.
    let script = Script::new([
        no_node(),
        lost(),
        no_node(),
        no_node(),
        Step::Answer,
        Step::Answer,
        exists(),
        Step::Answer,
    ]);
    let (path, _) = script
        .session()
        .create("/a/b/c/d", "")
        .parents()
        .await
        .unwrap();
    assert_eq!(path.as_str(), "/a/b/c/d");
    assert_eq!(
        script.log(),
        [
            "/a/b/c/d", "/a/b/c", "/a/b/c", "/a/b", "/a", "/a/b", "/a/b/c", "/a/b/c/d"
        ]
        .map(|path| format!("create {path}"))
    );
}

#[tokio::test(start_paused = true)]
async fn missing_chroot_ends_the_making_of_parents() {
    let script = Script::new(vec![refused(ErrorKind::NoNode); 3]);
    let error = script
        .session()
        .create("/a/b", "")
        .parents()
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), script.log()),
        (
            ErrorKind::NoNode,
            vec!["create /a/b".to_owned(), "create /a".to_owned()]
        )
    );
}

#[tokio::test(start_paused = true)]
async fn recursive_delete_goes_from_the_leaves_to_the_root() {
    let script = Script::with_children(vec![Step::Answer; 8], |path| match path {
        "/t" => &["a", "b"],
        "/t/a" => &["x"],
        _ => &[],
    });
    script.session().delete("/t").recursive().await.unwrap();
    let listed = ["/t", "/t/a", "/t/b", "/t/a/x"].map(|path| format!("list {path}"));
    let deleted = ["/t/a/x", "/t/b", "/t/a", "/t"].map(|path| format!("delete {path}"));
    assert_eq!(script.log(), [listed, deleted].concat());
}

#[tokio::test(start_paused = true)]
async fn recursive_delete_gives_up_when_new_nodes_keep_appearing() {
    let round = [Step::Answer, refused(ErrorKind::NotEmpty)];
    let script = Script::new(round.into_iter().cycle().take(100));
    let error = script.session().delete("/t").recursive().await.unwrap_err();
    assert_eq!((error.kind(), script.sent()), (ErrorKind::NotEmpty, 32));
    assert_eq!(
        error.to_string(),
        "delete /t: the node has children (new nodes keep appearing below it) after 16 attempts"
    );
}

#[tokio::test(start_paused = true)]
async fn recursive_delete_with_a_lost_answer_says_where_it_stopped() {
    let steps = [Step::Answer, Step::Answer, Step::Silence, Step::Answer];
    let script = Script::with_children(steps, |path| if path == "/t" { &["a"] } else { &[] });
    let error = script.session().delete("/t").recursive().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.path().map(NodePath::as_str)),
        (ErrorKind::OutcomeUnknown, Some("/t/a"))
    );
}

#[tokio::test(start_paused = true)]
async fn parent_with_a_lost_answer_has_an_unknown_outcome() {
    let silent = vec![refused(ErrorKind::NoNode), Step::Silence];
    let mut broken = vec![lost(); 100];
    broken[0] = refused(ErrorKind::NoNode);
    for steps in [silent, broken] {
        let script = Script::new(steps);
        let error = script
            .session()
            .create("/a/b", "")
            .parents()
            .await
            .unwrap_err();
        assert_eq!(
            (error.kind(), error.path().map(NodePath::as_str)),
            (ErrorKind::OutcomeUnknown, Some("/a"))
        );
        assert!(error.is_outcome_unknown());
    }
}

#[tokio::test(start_paused = true)]
async fn refused_write_has_a_known_outcome_when_the_session_ends() {
    let script = Script::new([Step::Fail(TransportError::Later(ErrorKind::Throttled))]);
    let session = script.session();
    let (result, ()) = tokio::join!(session.set("/a", "x").into_future(), async {
        script.set_phase(Phase::Over(SessionEnd::Expired));
    });
    let error = result.unwrap_err();
    assert_eq!(
        (error.kind(), script.sent()),
        (ErrorKind::SessionExpired, 1)
    );
    assert!(!error.is_outcome_unknown(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_after_the_deadline() {
    let script = Script::new([Step::Answer, Step::Answer]);
    let session = script.session();
    let write = session
        .set("/a", "x")
        .timeout(Duration::ZERO)
        .await
        .unwrap_err();
    let read = session.get("/a").timeout(Duration::ZERO).await.unwrap_err();
    assert_eq!(script.sent(), 0);
    for error in [&write, &read] {
        assert_eq!((error.kind(), error.attempts()), (ErrorKind::TimedOut, 0));
        assert!(!error.is_outcome_unknown());
    }
    assert_eq!(
        write.to_string(),
        "set /a: no reply in time (not sent, its time limit of 0ns had passed)"
    );
}

#[tokio::test(start_paused = true)]
async fn long_paths_and_acls_are_refused_before_anything_is_sent() {
    let script = Script::new([]);
    let session = script.session();
    let long = format!("/{}", "x".repeat(1 << 20));
    let acl = Acl::new(vec![Acl::open().entries()[0].clone(); 50_000]);
    let errors = [
        session.get(&long).await.unwrap_err(),
        session.delete(&long).await.unwrap_err(),
        session.set_acl("/a", acl).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{:?}", error.operation());
    }
    assert_eq!(script.sent(), 0);
}

#[test]
fn only_what_cannot_have_been_applied_twice_is_retried() {
    let lost = || TransportError::Lost(String::new());
    let server = || TransportError::Server(String::new());
    for (fault, read, write) in [
        (lost(), true, false),
        (server(), true, false),
        (TransportError::Later(ErrorKind::Throttled), true, true),
        (
            TransportError::Refused(ErrorKind::NoNode, None),
            false,
            false,
        ),
        (TransportError::Ended(SessionEnd::Expired), false, false),
    ] {
        assert_eq!(may_retry(Repeat::Read, &fault), read, "{fault:?}");
        assert_eq!(may_retry(Repeat::Write, &fault), read, "{fault:?}");
        assert_eq!(may_retry(Repeat::Never, &fault), write, "{fault:?}");
    }
}
