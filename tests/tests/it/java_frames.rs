//! What ZooKeeper's own client and a server of the same release send for every operation.
//!
//! The frames are recorded and compared with the golden files of zk-wire, whose own tests encode and decode the same
//! frames. `RECORD_FRAMES=1` writes these files instead:
//! `RECORD_FRAMES=1 cargo nextest run --all-features -p zk-tests java_frames`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use zk_harness::Ensemble;
use zk_tests::peers::{JavaClient, JavaStep};

use self::recorder::{Frame, Recorder};
use self::transcript::Transcript;

mod recorder;
mod transcript;

/// How long a server may take to reply to all requests of a step; a ping is sent after half a second.
const MAX_WAIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn frames_of_3_4_are_those_of_the_golden_file() {
    compare("3.4").await;
}

#[tokio::test]
async fn frames_of_3_8_are_those_of_the_golden_file() {
    compare("3.8").await;
}

#[tokio::test]
async fn frames_of_3_9_are_those_of_the_golden_file() {
    compare("3.9").await;
}

/// Records the frames of a series, and compares them with its golden file.
async fn compare(series: &str) {
    let file = golden_file(series);
    let recorded = record(series).await;
    if std::env::var_os("RECORD_FRAMES").is_some() {
        std::fs::write(&file, recorded).expect("the golden file can be written");
        return;
    }
    let golden = std::fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{} cannot be read: {error}", file.display()));
    let [actual, expected] = [&recorded, &golden].map(|text| transcript::comparable(text));
    for (number, (actual, expected)) in actual.iter().zip(&expected).enumerate() {
        assert_eq!(
            actual,
            expected,
            "line {} of the steps of {series}",
            number + 1
        );
    }
    assert_eq!(actual.len(), expected.len(), "the steps of {series}");
}

fn golden_file(series: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.join(format!("../crates/zk-wire/tests/golden/java-{series}.txt"))
}

/// Lets the client of a series perform all operations on a server of the series, and returns what both have sent.
async fn record(series: &str) -> String {
    let ensemble = Ensemble::builder().servers(1).zookeeper(series);
    let ensemble = ensemble.start().await.expect("a server starts");
    let server = ensemble.servers()[0].client_address();
    let recorder = Recorder::bind(server).await.expect("a port is free");
    let address = recorder.address().to_string();
    let client = JavaClient::start(ensemble.distribution(), &address).await;
    let client = client.expect("the Java client starts");
    let transcript = Transcript::of_release(ensemble.version());
    let text = tokio::select! {
        error = recorder.serve() => panic!("the recorder cannot accept connections: {error}"),
        text = perform(client, &recorder, transcript) => text,
    };
    ensemble.down().await.expect("the server goes down");
    text
}

/// Goes through all steps of the client, and writes down each.
async fn perform(
    mut client: JavaClient,
    recorder: &Recorder,
    mut transcript: Transcript,
) -> String {
    loop {
        match client.step().await.expect("all operations succeed") {
            JavaStep::Performed(name) => {
                let is_ping = name == "ping";
                let frames = tokio::time::timeout(MAX_WAIT, async {
                    while !is_settled(&recorder.frames(), is_ping) {
                        recorder.changed().await;
                    }
                    recorder.take()
                });
                let frames = frames.await.unwrap_or_else(|_| {
                    let frames = recorder.take();
                    panic!("not within {MAX_WAIT:?}: all replies of {name}, but {frames:?}")
                });
                transcript.step(&name, pings_apart(frames, is_ping));
            }
            JavaStep::Cut => recorder.cut(),
            JavaStep::End => return transcript.into_text(),
        }
        client.proceed().await.expect("the client goes on");
    }
}

/// Returns whether there is a request, or a ping, and every request has its reply.
fn is_settled(frames: &[Frame], is_ping: bool) -> bool {
    let counted = |is_request: bool| {
        let frames = frames.iter().filter(|frame| frame.is_ping() == is_ping);
        let frames = frames.filter(|frame| !frame.is_notification());
        frames
            .filter(|frame| frame.is_request == is_request)
            .count()
    };
    counted(true) > 0 && counted(true) == counted(false)
}

/// Keeps either one ping with its reply, or everything else: pings are sent at any time.
fn pings_apart(mut frames: Vec<Frame>, is_ping: bool) -> Vec<Frame> {
    frames.retain(|frame| frame.is_ping() == is_ping);
    if is_ping {
        frames.truncate(2);
    }
    // After a reconnect, requests and replies pass each other.
    frames.sort_by_key(|frame| !frame.is_request);
    frames
}
