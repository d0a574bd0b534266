//! What the README shows: submitting, looking, changing the settings, clearing away.

use std::time::Duration;

use master_workers::settings::Settings;
use zk_config::Publisher;
use zk_core::codec::Toml;
use zk_harness::Ensemble;

use crate::Process;
use crate::children;
use crate::observer;
use crate::program;
use crate::tree;
use crate::until;

/// Runs a command to its end; answers what it printed.
async fn output(connect: &str, arguments: &[&str]) -> String {
    let output = program(connect).args(arguments).output().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

// covers: G3 E1 I2 L3
#[tokio::test(flavor = "multi_thread")]
async fn bad_settings_leave_the_last_good_ones_and_everyone_says_where_they_are_bad() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let connect = ensemble.connect_string();
    let session = observer(&ensemble).await;
    let mut anna = Process::start("anna", &connect);
    anna.says(" is the master, with token ").await;

    let publisher = Publisher::new(&session, Toml);
    let settings = Settings {
        work: Duration::from_millis(20),
        ..Settings::default()
    };
    let publish = publisher.publish(tree().settings(), &settings);
    publish.await.unwrap();
    anna.says("settings: 4 tasks per worker, 2 at once, each for 20ms")
        .await;
    for (document, complaint) in [
        ("at_once = 3\nwork = soon", "line 2"),
        ("at_once = 0", "at_once is 0"),
    ] {
        session.set(tree().settings(), document).await.unwrap();
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
    let printed = until("all is done", async || {
        let printed = output(&connect, &["status"]).await;
        printed.ends_with("done          100\n").then_some(printed)
    })
    .await;
    assert!(printed.starts_with("master       anna\n"), "{printed}");
    // With work of half a second that would have taken 25 seconds.
    anna.says("has done task 99").await;
    let printed = output(&connect, &["prune", "--keep", "10"]).await;
    assert_eq!(printed, "90 results deleted\n");
    assert_eq!(children(&session, &tree().done()).await.len(), 10);

    anna.end().await;
    for path in [tree().workers(), tree().assigned(), tree().worker_numbers()] {
        assert_eq!(children(&session, &path).await, [] as [&str; 0], "{path}");
    }
    ensemble.down().await.unwrap();
}
