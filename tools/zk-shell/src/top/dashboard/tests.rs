use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyModifiers};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::*;
use crate::top::Live;
use crate::top::clock::Clock;
use crate::top::sample::Reading;

/// A dashboard of one server that reads nothing by itself.
fn dashboard() -> Dashboard<TestBackend> {
    let live = Live {
        clock: Clock::start(),
        samples: mpsc::channel(1).1,
        views: watch::channel([View::Servers].into()).0,
        crawls: mpsc::channel(1).0,
        recorder: None,
        _tasks: JoinSet::new(),
    };
    let Ok(terminal) = Terminal::new(TestBackend::new(80, 24));
    Dashboard {
        terminal,
        model: Model::new(&[SERVER.to_owned()]),
        screen: Screen::new(View::Servers),
        source: Source::Live(live),
        frozen: None,
        has_colours: false,
    }
}

fn shown(dashboard: &mut Dashboard<TestBackend>) -> String {
    dashboard.draw().expect("a terminal in memory");
    dashboard.terminal.backend().to_string()
}

async fn press(dashboard: &mut Dashboard<TestBackend>, key: char) {
    let key = KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE);
    assert!(!dashboard.press(key).await.expect("no recording"));
}

/// The server is down and back again, at each second in turn.
fn samples(seconds: std::ops::Range<u64>) -> impl Iterator<Item = Sample> {
    seconds.map(|second| Sample {
        at: second * 1_000,
        server: SERVER.to_owned(),
        asked: second,
        reading: if second % 2 == 0 {
            Reading::Down("refused".to_owned())
        } else {
            Reading::Connections(Vec::new())
        },
    })
}

const SERVER: &str = "zk1:2181";

#[tokio::test]
async fn a_paused_dashboard_shows_the_moment_of_the_pause() {
    let mut dashboard = dashboard();
    for sample in samples(0..2) {
        dashboard.take(sample).expect("no recording");
    }
    press(&mut dashboard, 'p').await;
    let paused = shown(&mut dashboard);
    assert!(paused.contains("live, paused"), "{paused}");
    assert!(paused.contains("1 of 1 servers serving"), "{paused}");
    for sample in samples(2..3) {
        dashboard.take(sample).expect("no recording");
    }
    dashboard.tick().await.expect("no recording");
    assert_eq!(shown(&mut dashboard), paused);
    press(&mut dashboard, 'p').await;
    let live = shown(&mut dashboard);
    assert!(!live.contains("paused"), "{live}");
    assert!(live.contains("0 of 1 servers serving"), "{live}");
}

#[tokio::test]
async fn a_long_pause_keeps_a_bounded_past() {
    let mut dashboard = dashboard();
    let kept = |dashboard: &Dashboard<TestBackend>| {
        let bytes = format!("{:?}", dashboard.model).len();
        let frozen = dashboard.frozen.as_ref().map(|model| format!("{model:?}"));
        (bytes, frozen)
    };
    for sample in samples(0..1_000) {
        dashboard.take(sample).expect("no recording");
    }
    press(&mut dashboard, 'p').await;
    let (before, frozen) = kept(&dashboard);
    assert!(frozen.is_some());
    for sample in samples(1_000..9_000) {
        dashboard.take(sample).expect("no recording");
    }
    let (after, frozen_later) = kept(&dashboard);
    // Later times have more digits.
    assert!(after < before * 5 / 4, "{before} bytes, then {after}");
    assert_eq!(frozen_later, frozen);
    press(&mut dashboard, 'p').await;
    assert!(dashboard.frozen.is_none());
}
