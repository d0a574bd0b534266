//! What the README shows: submitting, looking, changing the settings, clearing away.

use std::time::Duration;

use master_workers::settings::Settings;
use rustix::process::Signal;
use zk_config::Publisher;
use zk_core::codec::{Text, Toml};
use zk_harness::Ensemble;
use zk_queue::WorkQueue;

use crate::{Process, children, observer, program, signal, tree, until};

/// Runs a command to its end; answers what it printed.
async fn output(connect: &str, arguments: &[&str]) -> String {
    let output = program(connect).args(arguments).output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_settings_leave_the_last_good_ones_and_everyone_says_where_they_are_bad() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let connect = ensemble.connect_string();
    let session = observer(&ensemble).await;
    let bad = session.create(tree().settings, "work = soon").parents();
    bad.await.unwrap();
    let mut anna = Process::start("anna", &connect);
    // There were none before.
    anna.says("settings: the defaults are in force, as ").await;
    session.delete(tree().settings).await.unwrap();

    let publisher = Publisher::new(&session, Toml);
    let settings = Settings {
        work: Duration::from_millis(20),
        ..Settings::default()
    };
    let publish = publisher.publish(tree().settings, &settings);
    publish.await.unwrap();
    anna.says("settings: 4 tasks per worker, 2 at once, each for 20ms")
        .await;
    for (document, complaint) in [
        ("at_once = 3\nwork = soon", "line 2"),
        ("at_once = 0", "at_once is 0"),
    ] {
        session.set(tree().settings, document).await.unwrap();
        let said = anna
            .says("settings: the last good ones stay in force")
            .await;
        let last = said.last().unwrap();
        assert!(
            last.contains(complaint) && last.contains("/app/config"),
            "{last}"
        );
    }

    let printed = output(&connect, &["submit", "--count", "100", "paint fence"]).await;
    assert_eq!(printed, "100 submitted\n");
    until("all is done by anna", async || {
        let printed = output(&connect, &["status"]).await;
        let is_done = printed.ends_with("done          100\n");
        (is_done && printed.starts_with("master       anna\n")).then_some(())
    })
    .await;
    // With work of half a second that would have taken 25 seconds.
    anna.says("has done task 99").await;
    let printed = output(&connect, &["prune", "--keep", "10"]).await;
    assert_eq!(printed, "90 results deleted\n");
    assert_eq!(children(&session, &tree().done).await.len(), 10);

    anna.end().await;
    for path in [tree().workers, tree().assigned, tree().worker_numbers] {
        until(&format!("nothing is left below {path}"), async || {
            children(&session, &path).await.is_empty().then_some(())
        })
        .await;
    }
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_fills_the_inbox_is_told_how_many_were_accepted() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let session = observer(&ensemble).await;
    let inbox = WorkQueue::new(&session, tree().inbox, Text).unwrap();
    let all: Vec<String> = (0..9_998).map(|number| format!("paint {number}")).collect();
    inbox.offer_all(all).await.unwrap();
    let mut submit = program(&ensemble.connect_string());
    submit.args(["submit", "--count", "5", "paint fence"]);
    let refused = submit.output().await.unwrap();
    assert!(!refused.status.success());
    let complaint = String::from_utf8(refused.stderr).unwrap();
    let (accepted, why) = (
        "error: 2 submitted, and not the next one: ",
        "has 10000 items",
    );
    assert!(
        complaint.starts_with(accepted) && complaint.contains(why),
        "{complaint}"
    );
    assert_eq!(inbox.len().await.unwrap(), 10_000);
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_are_found_and_asked_and_one_that_was_killed_is_passed_over() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let connect = ensemble.connect_string();
    let none = program(&connect).arg("ask").output().await.unwrap();
    let complaint = String::from_utf8(none.stderr).unwrap();
    assert!(
        !none.status.success() && complaint.contains("no process can be queried"),
        "{complaint}"
    );

    let [mut anna, ben] = ["anna", "ben"].map(|name| Process::start(name, &connect));
    let session = observer(&ensemble).await;
    let found = tree().services.join("processes").unwrap();
    until("both are registered", async || {
        (children(&session, &found).await.len() == 2).then_some(())
    })
    .await;
    let asked = async || output(&connect, &["ask", "--count", "4"]).await;
    let answers = asked().await;
    let of = |answers: &str, name: &str| {
        let lines = answers.lines();
        lines.filter(|line| line.starts_with(name)).count()
    };
    assert_eq!((of(&answers, "anna: "), of(&answers, "ben: ")), (2, 2));

    signal(&anna.child, Signal::KILL);
    anna.child.wait().await.unwrap();
    // It is registered until its session expires.
    let answers = asked().await;
    assert_eq!(of(&answers, "ben: "), 4, "{answers}");
    until("its registration goes with its session", async || {
        (children(&session, &found).await.len() == 1).then_some(())
    })
    .await;
    ben.end().await;
    until("its registration goes with it", async || {
        children(&session, &found).await.is_empty().then_some(())
    })
    .await;
    ensemble.down().await.unwrap();
}
