//! What a call makes of faults, over a scripted transport in paused time.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use tokio::time::Instant;

use super::*;
use crate::acl::Acl;
use crate::error::ErrorClass;
use crate::session::Session;
use crate::stat::SessionId;
use crate::stat::Stat;
use crate::transport::CreateMode;
use crate::transport::Ending;

/// What becomes of one request.
#[derive(Debug, Clone)]
enum Step {
    Answer,
    Fail(Fault),
    Silence,
}

/// A transport that answers from a script and counts what was sent.
#[derive(Debug, Clone)]
struct Script {
    steps: Arc<Mutex<VecDeque<Step>>>,
    sent: Arc<AtomicUsize>,
    log: Arc<Mutex<Vec<String>>>,
    /// Which children a node is said to have.
    children: fn(&str) -> &'static [&'static str],
    is_down: Arc<AtomicBool>,
    ending: Arc<Mutex<Option<Ending>>>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            steps: Arc::default(),
            sent: Arc::default(),
            log: Arc::default(),
            children: |_| &[],
            is_down: Arc::default(),
            ending: Arc::default(),
        }
    }
}

impl Script {
    fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: Arc::new(Mutex::new(steps.into_iter().collect())),
            ..Self::default()
        }
    }

    fn session(&self) -> Session {
        let servers = "h1,h2:2182/app".parse().unwrap();
        Session::over(Box::new(self.clone()), servers, Duration::from_secs(10))
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    fn log(&self) -> Vec<String> {
        self.log.lock().unwrap().clone()
    }

    fn reply<T: Send + 'static>(&self, what: String, value: T) -> Reply<T> {
        let script = self.clone();
        Box::pin(async move {
            script.sent.fetch_add(1, Ordering::SeqCst);
            script.log.lock().unwrap().push(what);
            let step = script
                .steps
                .lock()
                .unwrap()
                .pop_front()
                .expect("the script has a step for each request");
            match step {
                Step::Answer => Ok(value),
                Step::Fail(fault) => Err(fault),
                Step::Silence => std::future::pending().await,
            }
        })
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
    fn connected(&self) -> Reply<()> {
        let script = self.clone();
        Box::pin(async move {
            let ending = *script.ending.lock().unwrap();
            match ending {
                Some(ending) => Err(Fault::Ended(ending)),
                None if script.is_down.load(Ordering::SeqCst) => std::future::pending().await,
                None => Ok(()),
            }
        })
    }
    fn is_connected(&self) -> bool {
        !self.is_down.load(Ordering::SeqCst)
    }
    fn ended(&self) -> Pin<Box<dyn Future<Output = Ending> + Send>> {
        match *self.ending.lock().unwrap() {
            Some(ending) => Box::pin(std::future::ready(ending)),
            None => Box::pin(std::future::pending()),
        }
    }
    fn create(&self, path: &NodePath, _: &[u8], _: CreateMode, _: &Acl) -> Reply<(NodePath, Stat)> {
        self.reply(format!("create {path}"), (path.clone(), stat()))
    }
    fn delete(&self, path: &NodePath, _: Option<i32>) -> Reply<()> {
        self.reply(format!("delete {path}"), ())
    }
    fn get(&self, path: &NodePath) -> Reply<(Vec<u8>, Stat)> {
        self.reply(format!("get {path}"), (b"data".to_vec(), stat()))
    }
    fn set(&self, path: &NodePath, _: &[u8], _: Option<i32>) -> Reply<Stat> {
        self.reply(format!("set {path}"), stat())
    }
    fn exists(&self, path: &NodePath) -> Reply<Option<Stat>> {
        self.reply(format!("exists {path}"), Some(stat()))
    }
    fn list(&self, path: &NodePath) -> Reply<(Vec<String>, Stat)> {
        let names = (self.children)(path.as_str())
            .iter()
            .map(|&name| name.to_owned())
            .collect();
        self.reply(format!("list {path}"), (names, stat()))
    }
    fn sync(&self, path: &NodePath) -> Reply<()> {
        self.reply(format!("sync {path}"), ())
    }
    fn acl(&self, path: &NodePath) -> Reply<(Acl, Stat)> {
        self.reply(format!("acl {path}"), (Acl::open(), stat()))
    }
    fn set_acl(&self, path: &NodePath, _: &Acl, _: Option<i32>) -> Reply<Stat> {
        self.reply(format!("set_acl {path}"), stat())
    }
    fn close(&self) {}
}

fn lost() -> Step {
    Step::Fail(Fault::Lost("connection reset".to_owned()))
}

fn refused(kind: ErrorKind) -> Step {
    Step::Fail(Fault::Refused(kind, None))
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
    let later = Step::Fail(Fault::Later(ErrorKind::Throttled));
    let trouble = Step::Fail(Fault::Server("unexpected error code: -1".to_owned()));
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

#[tokio::test(start_paused = true)]
async fn write_with_a_lost_answer_is_sent_once_and_its_outcome_is_unknown() {
    let trouble = || Step::Fail(Fault::Server("unexpected error code: -7".to_owned()));
    for step in [lost(), trouble(), Step::Silence] {
        let script = Script::new([step.clone(), Step::Answer]);
        let session = script.session();
        let error = session.set("/a", "x").await.unwrap_err();
        assert_eq!(
            (error.kind(), script.sent()),
            (ErrorKind::OutcomeUnknown, 1),
            "{step:?}"
        );
        assert!(error.is_outcome_unknown());
        let others = [
            Script::new([step.clone(), Step::Answer]),
            Script::new([step.clone(), Step::Answer]),
            Script::new([step.clone(), Step::Answer]),
        ];
        let create = others[0]
            .session()
            .create("/a", "")
            .parents()
            .await
            .unwrap_err();
        let delete = others[1].session().delete("/a").await.unwrap_err();
        let set_acl = others[2]
            .session()
            .set_acl("/a", Acl::open())
            .await
            .unwrap_err();
        for (error, script) in [create, delete, set_acl].iter().zip(&others) {
            assert_eq!(
                (error.kind(), script.sent()),
                (ErrorKind::OutcomeUnknown, 1),
                "{step:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn write_the_server_did_not_take_is_repeated() {
    let moved = Step::Fail(Fault::Later(ErrorKind::SessionMoved));
    let script = Script::new([moved, Step::Answer]);
    script.session().delete("/a").await.unwrap();
    assert_eq!(script.sent(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_while_the_session_is_not_connected() {
    let script = Script::default();
    script.is_down.store(true, Ordering::SeqCst);
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
        "list /a: no answer in time (waited 10s for the answer)"
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
        assert_eq!(kind.class(), ErrorClass::Outcome);
        assert!(!write.is_outcome_unknown());
    }
}

#[tokio::test(start_paused = true)]
async fn lost_session_is_fatal_and_says_whether_a_write_was_in_flight() {
    for (ending, kind) in [
        (Ending::Expired, ErrorKind::SessionExpired),
        (Ending::AuthFailed, ErrorKind::AuthFailed),
        (Ending::Closed, ErrorKind::SessionClosed),
    ] {
        let script = Script::new([
            Step::Fail(Fault::Ended(ending)),
            Step::Fail(Fault::Ended(ending)),
        ]);
        let session = script.session();
        let in_flight = session.set("/a", "x").await.unwrap_err();
        let read = session.get("/a").await.unwrap_err();
        *script.ending.lock().unwrap() = Some(ending);
        let later = session.set("/a", "x").await.unwrap_err();
        session.lost().await;
        let unknown = [&in_flight, &read, &later].map(Error::is_outcome_unknown);
        assert_eq!((unknown, script.sent()), ([true, false, false], 2));
        for error in [in_flight, read, later] {
            assert_eq!((error.kind(), error.class()), (kind, ErrorClass::Fatal));
        }
        assert_eq!(session.close().await.is_ok(), ending == Ending::Closed);
    }
}

#[tokio::test(start_paused = true)]
async fn closing_without_an_acknowledgement_ends_at_the_deadline() {
    let error = Script::default().session().close().await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "close: no answer in time (waited 10s for h1:2181,h2:2182/app to acknowledge the end of session 0x7)"
    );
}

#[tokio::test(start_paused = true)]
async fn bad_requests_are_refused_before_anything_is_sent() {
    let script = Script::default();
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
    let mut script = Script::new(vec![Step::Answer; 8]);
    script.children = |path| match path {
        "/t" => &["a", "b"],
        "/t/a" => &["x"],
        _ => &[],
    };
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
    let mut script = Script::new([Step::Answer, Step::Answer, lost(), Step::Answer]);
    script.children = |path| if path == "/t" { &["a"] } else { &[] };
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
async fn write_the_server_did_not_take_is_not_in_doubt_when_the_session_ends() {
    let script = Script::new([Step::Fail(Fault::Later(ErrorKind::Throttled))]);
    let session = script.session();
    let (result, ()) = tokio::join!(session.set("/a", "x").into_future(), async {
        *script.ending.lock().unwrap() = Some(Ending::Expired);
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
        "set /a: no answer in time (not sent, the 0ns it was given were over)"
    );
}

#[tokio::test(start_paused = true)]
async fn long_paths_and_acls_are_refused_before_anything_is_sent() {
    let script = Script::default();
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
    let lost = || Fault::Lost(String::new());
    let server = || Fault::Server(String::new());
    for (fault, read, write) in [
        (lost(), true, false),
        (server(), true, false),
        (Fault::Later(ErrorKind::Throttled), true, true),
        (Fault::Refused(ErrorKind::NoNode, None), false, false),
        (Fault::Ended(Ending::Expired), false, false),
    ] {
        assert_eq!(may_retry(Repeat::Read, &fault), read, "{fault:?}");
        assert_eq!(may_retry(Repeat::Idempotent, &fault), read, "{fault:?}");
        assert_eq!(may_retry(Repeat::Never, &fault), write, "{fault:?}");
    }
}

#[test]
fn pauses_double_up_to_a_second() {
    let millis: Vec<_> = (1..=8)
        .map(|attempts| pause_before(attempts).as_millis())
        .collect();
    assert_eq!(millis, [20, 40, 80, 160, 320, 640, 1000, 1000]);
    assert_eq!(pause_before(u32::MAX), Duration::from_secs(1));
}
