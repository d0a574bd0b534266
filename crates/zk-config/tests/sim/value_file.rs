//! Values that are kept in a file, for a start without servers.

use std::path::Path;
use std::time::{Duration, SystemTime};

use zk_config::{Current, FileProblem, Problem, Subtree, Typed};
use zk_core::codec::Text;
use zk_core::{RetryPolicy, Session, Sessions};
use zk_sim::Ensemble;
use zk_sim::wait::until;

use crate::{PATH, pass, publisher, soon, text};

const WAIT: Duration = Duration::from_secs(5);

fn motto(file: &Path) -> Typed<String> {
    let typed = Typed::node(PATH, Text).unwrap();
    typed.with_file(file, WAIT).build()
}

/// Sessions that never connect.
fn no_servers() -> Sessions {
    Sessions::with_connector(std::future::pending, RetryPolicy::default())
}

/// Waits until a program that starts without servers would read this value from the file.
async fn until_saved(file: &Path, value: &str) {
    until("it is saved", async || {
        std::fs::read(file).is_ok_and(|data| {
            let end = format!("{value}\n");
            data.ends_with(end.as_bytes())
        })
    })
    .await;
}

async fn save(session: &Session, file: &Path, value: &str) -> i64 {
    let motto = motto(file);
    let _following = motto.follow(session);
    let published = publisher(session).publish(PATH, &text(value)).await;
    until_saved(file, value).await;
    published.unwrap().stat.unwrap().mzxid
}

fn files_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

fn is_fresh(current: &Current<String>) -> bool {
    let age = current
        .saved_at()
        .map(|at| SystemTime::now().duration_since(at));
    age.is_some_and(|age| age.unwrap_or_default() < Duration::from_secs(600))
}

#[tokio::test(start_paused = true)]
async fn a_value_is_there_without_servers_and_says_how_old_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("motto.zk");
    // Without a file there is nothing to load, which is no problem.
    let sessions = no_servers();
    let first = motto(&file);
    let following = first.follow(&sessions);
    pass(3 * WAIT).await;
    assert!(first.current().is_none() && first.file_problem().is_none());
    drop(following);

    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let revision = save(&session, &file, "one").await;
    let revision_2 = save(&session, &file, "two").await;
    assert!(revision < revision_2);
    assert_eq!(files_in(directory.path()), ["motto.zk"]);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    let next = motto(&file);
    let _following = next.follow(&sessions);
    let start = tokio::time::Instant::now();
    let current = soon("the file is loaded", next.ready()).await;
    assert!(start.elapsed() >= WAIT, "{:?}", start.elapsed());
    assert_eq!((&***current, current.revision()), ("two", Some(revision_2)));
    assert!(is_fresh(&current));
    assert!(matches!(&*next.problem().unwrap(), Problem::NotRead { .. }));
    assert!(next.file_problem().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_file_never_replaces_a_value_that_was_read() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("motto.zk");
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    save(&session, &file, "old").await;
    let other = directory.path().join("other.zk");
    std::fs::copy(&file, &other).unwrap();
    publisher(&session)
        .publish(PATH, &text("new"))
        .await
        .unwrap();
    // The servers answer in time.
    let in_time = motto(&other);
    let _following = in_time.follow(&session);
    assert_eq!(***soon("it is read", in_time.ready()).await, *"new");
    pass(3 * WAIT).await;
    let current = in_time.current().unwrap();
    assert_eq!((&***current, current.saved_at()), ("new", None));

    // The servers answer after the file was loaded.
    let mut late = motto(&file);
    let _without = late.follow(&no_servers());
    assert_eq!(***soon("the file is loaded", late.changed()).await, *"old");
    let _following = late.follow(&session);
    let current = soon("it is read", late.changed()).await;
    assert_eq!((&***current, current.saved_at()), ("new", None));
    until_saved(&file, "new").await;
    assert!(late.problem().is_none());
}

/// A server that lags has an older value than the file; servers that were set up anew have an older revision.
#[tokio::test(start_paused = true)]
async fn only_servers_that_caught_up_replace_the_value_of_a_newer_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("motto.zk");
    let ensemble = Ensemble::new(3);
    let writer = ensemble.connect().server(3).await;
    publisher(&writer)
        .publish(PATH, &text("old"))
        .await
        .unwrap();
    pass(Duration::from_secs(1)).await;
    let behind = ensemble.connect().server(1).await;
    ensemble.server(1).lag_by(Duration::from_secs(60));
    let revision = save(&writer, &file, "new").await;
    let mut typed = motto(&file);
    let without = typed.follow(&no_servers());
    soon("the file is loaded", typed.changed()).await;
    drop(without);
    let _following = typed.follow(&behind);
    let current = soon("the server catches up", typed.changed()).await;
    assert_eq!((&***current, current.revision()), ("new", Some(revision)));
    assert_eq!(current.saved_at(), None);

    let anew = Ensemble::new(1);
    let session = anew.connect().await;
    let published = publisher(&session).publish(PATH, &text("anew")).await;
    assert!(published.unwrap().stat.unwrap().mzxid < revision);
    let mut typed = motto(&file);
    let _without = typed.follow(&no_servers());
    assert_eq!(***soon("the file is loaded", typed.changed()).await, *"new");
    let _following = typed.follow(&session);
    assert_eq!(***soon("it is read", typed.changed()).await, *"anew");
    assert!(typed.problem().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_bad_or_gone_at_the_start_is_taken_from_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("motto.zk");
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    save(&session, &file, "good").await;
    for is_deleted in [false, true] {
        if is_deleted {
            session.delete(PATH).await.unwrap();
        } else {
            session.set(PATH, b"\xff".as_slice()).await.unwrap();
        }
        let typed = motto(&file);
        let _following = typed.follow(&session);
        let current = soon("the file is loaded", typed.ready()).await;
        assert_eq!(***current, *"good");
        let problem = typed.problem().unwrap();
        assert_eq!(matches!(&*problem, Problem::Absent { .. }), is_deleted);
        assert_eq!(matches!(&*problem, Problem::Invalid(_)), !is_deleted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_cannot_be_used_is_reported_and_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("motto.zk");
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    save(&session, &file, "one").await;
    let good = std::fs::read(&file).unwrap();
    let loaded = async |typed: Typed<String>| {
        let _following = typed.follow(&no_servers());
        until("it is reported", async || typed.file_problem().is_some()).await;
        assert!(typed.current().is_none());
        typed.file_problem().unwrap()
    };
    let problem = loaded({
        std::fs::write(&file, &good[..good.len() - 3]).unwrap();
        motto(&file)
    });
    let problem = problem.await;
    assert!(
        matches!(&*problem, FileProblem::Damaged { .. }),
        "{problem}"
    );
    assert!(problem.to_string().contains("motto.zk"), "{problem}");
    std::fs::write(&file, "motto = 1\n").unwrap();
    let problem = loaded(motto(&file)).await;
    assert!(
        matches!(&*problem, FileProblem::OtherSubject { .. }),
        "{problem}"
    );
    std::fs::write(&file, &good).unwrap();
    let typed = Typed::node("/app/other", Text).unwrap();
    let problem = loaded(typed.with_file(&file, WAIT).build()).await;
    assert!(
        matches!(&*problem, FileProblem::OtherSubject { .. }),
        "{problem}"
    );
    let message = problem.to_string();
    assert!(
        message.contains(PATH) && message.contains("/app/other"),
        "{message}"
    );
    let typed = Typed::node(PATH, Text).unwrap().with_file(&file, WAIT);
    let problem = loaded(typed.validated(|_| Err(text("never"))).build()).await;
    assert!(problem.to_string().contains("never"), "{problem}");

    // It is replaced by the next value, and a file that cannot be written is reported.
    let typed = motto(&file);
    let following = typed.follow(&session);
    publisher(&session)
        .publish(PATH, &text("two"))
        .await
        .unwrap();
    until_saved(&file, "two").await;
    drop(following);
    let nowhere = directory.path().join("none/motto.zk");
    let typed = motto(&nowhere);
    let _following = typed.follow(&session);
    until("it is reported", async || typed.file_problem().is_some()).await;
    let problem = typed.file_problem().unwrap();
    assert!(
        matches!(&*problem, FileProblem::Unwritable { .. }),
        "{problem}"
    );
    assert_eq!(***typed.current().unwrap(), *"two");
    // The next change is written again, and the problem is over.
    std::fs::create_dir(directory.path().join("none")).unwrap();
    publisher(&session)
        .publish(PATH, &text("three"))
        .await
        .unwrap();
    until_saved(&nowhere, "three").await;
    until("the problem is over", async || {
        typed.file_problem().is_none()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_newest_of_many_changes_of_a_subtree_is_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("app.zk");
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let build = || {
        let typed = Typed::subtree("/app", |nodes: &Subtree| Ok(nodes.clone())).unwrap();
        typed.with_file(&file, WAIT).build()
    };
    let typed = build();
    let following = typed.follow(&session);
    for round in 0..100 {
        let publisher = publisher(&session);
        let publishing = publisher.transaction();
        let publishing = publishing.set("/app/a", &format!("{round}"));
        let publishing = publishing.set("/app/b", &format!("{round}"));
        publishing.publish().await.unwrap();
    }
    until_saved(&file, "99").await;
    drop(following);
    assert_eq!(files_in(directory.path()), ["app.zk"]);
    let next = build();
    let _following = next.follow(&no_servers());
    let current = soon("the file is loaded", next.ready()).await;
    assert_eq!(**current, **typed.current().unwrap());
    assert_eq!(current.subtree(), Some(&**current));
    assert_eq!(current.get("a"), Some(&b"99"[..]));
}
