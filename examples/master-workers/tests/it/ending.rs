//! A process that is asked to stop and cannot do so at once.

use std::time::Duration;

use master_workers::settings::Settings;
use master_workers::submit::submit;
use rustix::process::Signal;
use zk_config::Publisher;
use zk_core::codec::Toml;
use zk_harness::Ensemble;

use crate::{MAX_WAIT, Process, children, ended, observer, signal, tree};

#[tokio::test(flavor = "multi_thread")]
async fn who_is_late_ends_with_an_error_and_its_session_with_it() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let session = observer(&ensemble).await;
    let settings = Settings {
        work: Duration::from_secs(3600),
        ..Settings::default()
    };
    let publisher = Publisher::new(&session, Toml);
    let publish = publisher.publish(tree().settings, &settings);
    publish.await.unwrap();
    let connect = ensemble.connect_string();
    // It would take fifteen seconds for the ensemble to take it for dead.
    let mut anna = Process::start_with("anna", &connect, &["--grace", "1"]);
    anna.says("each for 3600s").await;
    submit(&session, &tree(), ["paint".to_owned()])
        .await
        .unwrap();
    anna.says(" begins task 0").await;
    signal(&anna.child, Signal::TERM);
    anna.says(" stops: it finishes 1 tasks").await;
    let ended = tokio::time::timeout(MAX_WAIT, anna.child.wait()).await;
    let status = ended.expect("it ends when its time is up").unwrap();
    assert_eq!(status.code(), Some(1));
    for path in [tree().workers, tree().election] {
        assert_eq!(children(&session, &path).await, [] as [&str; 0], "{path}");
    }
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_session_ends_at_once() {
    let ensemble = Ensemble::builder().servers(1).start().await.unwrap();
    let mut anna = Process::start("anna", &ensemble.connect_string());
    anna.says(" is worker ").await;
    ensemble.server(1).unwrap().kill().await.unwrap();
    signal(&anna.child, Signal::TERM);
    let said = anna.says(" ends without a session").await;
    assert!(
        !said.iter().any(|it| it.contains(" has session ")),
        "{said:?}"
    );
    ended(&mut anna.child).await;
    ensemble.down().await.unwrap();
}
