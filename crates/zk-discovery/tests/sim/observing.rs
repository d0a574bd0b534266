//! What is said by `tracing` events.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};
use zk_discovery::RegistrationLoss;
use zk_sim::Ensemble;
use zk_sim::wait::{pass, soon};

use crate::{instance, path, providers, register, registry};

/// Keeps the events of this crate of the level warn, a line each.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{field}={value:?} ").expect("a String takes everything");
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN && metadata.target().starts_with("zk_discovery")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_node_of_ours_that_somebody_removes_is_said() {
    let recorder = Recorder::default();
    let _guard = tracing::subscriber::set_default(recorder.clone());
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let gone = registry(&session).register(instance("b", "1")).await;
    gone.unwrap().unregister().await.unwrap();
    let registration = register(&session, "1").await;
    other.delete(path("a")).await.unwrap();
    assert_eq!(
        soon("the loss is reported", registration.lost()).await,
        RegistrationLoss::Deleted
    );
    assert_eq!(
        recorder.0.lock().unwrap().as_slice(),
        ["message=another client removed a registered node path=/services/orders/a "]
    );
}

#[tokio::test(start_paused = true)]
async fn a_bad_entry_is_said_once_and_without_what_it_has() {
    let recorder = Recorder::default();
    let _guard = tracing::subscriber::set_default(recorder.clone());
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let data = r#"{"name":"orders","id":"a","payload":4711}"#;
    other.create(path("a"), data).parents().await.unwrap();
    let providers = providers(&session);
    soon("it is read", providers.synchronized()).await.unwrap();
    ensemble.session(session.id()).cut();
    pass(Duration::from_secs(5)).await;
    let said = recorder.0.lock().unwrap().clone();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(
        said[0].contains("/services/orders/a") && said[0].contains("JSON: Shape"),
        "{said:?}"
    );
    assert!(!said[0].contains("4711"), "{said:?}");
}
