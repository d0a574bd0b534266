//! What a session tells an operator: spans, counters, and no credentials.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Metadata, span};
use tracing_core::span::Current;
use zk_core::{Acl, Session};

use crate::{MAX_WAIT, connect, is_ready, with_ensemble};

/// A subscriber that records all spans and events, at every level and of every crate.
#[derive(Debug, Clone, Default)]
struct Recorder(Arc<Mutex<Record>>);

#[derive(Debug, Default)]
struct Record {
    spans: Vec<(&'static Metadata<'static>, BTreeMap<&'static str, String>)>,
    /// The spans that are entered, on the one thread of a test.
    entered: Vec<span::Id>,
    text: String,
}

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl tracing::Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        let mut record = self.0.lock().unwrap();
        writeln!(record.text, "{} {fields:?}", attributes.metadata().name()).unwrap();
        record.spans.push((attributes.metadata(), fields));
        span::Id::from_u64(record.spans.len() as u64)
    }

    fn record(&self, id: &span::Id, values: &span::Record<'_>) {
        let mut record = self.0.lock().unwrap();
        let at = usize::try_from(id.into_u64()).unwrap() - 1;
        let mut fields = BTreeMap::new();
        values.record(&mut Fields(&mut fields));
        writeln!(record.text, "{fields:?}").unwrap();
        record.spans[at].1.extend(fields);
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let target = event.metadata().target();
        writeln!(self.0.lock().unwrap().text, "{target} {fields:?}").unwrap();
    }

    fn enter(&self, id: &span::Id) {
        self.0.lock().unwrap().entered.push(id.clone());
    }

    fn exit(&self, _: &span::Id) {
        self.0.lock().unwrap().entered.pop();
    }

    fn current_span(&self) -> Current {
        let record = self.0.lock().unwrap();
        match record.entered.last() {
            Some(id) => {
                let at = usize::try_from(id.into_u64()).unwrap() - 1;
                Current::new(id.clone(), record.spans[at].0)
            }
            None => Current::none(),
        }
    }
}

impl Recorder {
    /// Returns all events, one per line.
    fn text(&self) -> String {
        self.0.lock().unwrap().text.clone()
    }

    /// The spans of operations, as operation, path, attempts and outcome.
    fn operations(&self) -> Vec<[String; 4]> {
        let record = self.0.lock().unwrap();
        let operations = record
            .spans
            .iter()
            .filter(|(metadata, _)| metadata.name() == "zk.operation");
        operations
            .map(|(_, fields)| {
                ["operation", "path", "attempts", "outcome"]
                    .map(|field| fields.get(field).cloned().unwrap_or_default())
            })
            .collect()
    }
}

#[tokio::test]
async fn each_operation_has_a_span_with_path_attempts_and_outcome() {
    with_ensemble(async |ensemble| {
        let recorder = Recorder::default();
        let _guard = tracing::subscriber::set_default(recorder.clone());
        let session = connect(ensemble).await;
        session.create("/a", "").await.unwrap();
        session.get("/no").await.unwrap_err();
        session
            .transaction()
            .check("/a")
            .set("/a", "x")
            .commit()
            .await
            .unwrap();
        session.delete("/a").version(7).await.unwrap_err();
        session.get("/a").watched().await.unwrap();
        assert_eq!(
            recorder.operations(),
            [
                ["create", "/a", "1", "ok"],
                ["get", "/no", "1", "NoNode"],
                ["transaction", "/a", "1", "ok"],
                ["delete", "/a", "1", "BadVersion"],
                ["get", "/a", "1", "ok"],
            ]
        );
    })
    .await;
}

#[tokio::test]
async fn counters_tell_calls_retries_breaks_and_watches() {
    with_ensemble(async |ensemble| {
        let session = Session::builder(ensemble.connect_string())
            .session_timeout(MAX_WAIT)
            .operation_timeout(MAX_WAIT)
            .connect()
            .await
            .unwrap();
        assert_eq!(session.counters(), zk_core::Counts::default());
        session.create("/a", "").await.unwrap();
        let (_, _, _watch) = session.get("/a").watched().await.unwrap();
        let counts = session.counters();
        assert_eq!((counts.calls, counts.watches, counts.retries), (2, 1, 0));

        // The answer to a read is lost: it is made again.
        let server = ensemble.server(1).unwrap();
        server.pause().await.unwrap();
        let mut read = session.get("/a").into_future();
        assert!(!is_ready(&mut read).await);
        server.kill().await.unwrap();
        server.start().unwrap();
        read.await.unwrap();
        let counts = session.counters();
        assert_eq!((counts.calls, counts.watches), (3, 1));
        assert!(
            counts.retries >= 1 && counts.connection_losses >= 1,
            "{counts:?}"
        );
    })
    .await;
}

#[tokio::test]
async fn credentials_are_in_no_log_error_or_debug_output() {
    with_ensemble(async |ensemble| {
        let recorder = Recorder::default();
        let _guard = tracing::subscriber::set_default(recorder.clone());
        let builder = Session::builder(ensemble.connect_string())
            .session_timeout(MAX_WAIT)
            .operation_timeout(MAX_WAIT)
            .digest_auth("alice", "hunter2");
        let mut texts = vec![format!("{builder:?}")];
        let session = builder.clone().connect().await.unwrap();
        let create = session
            .create("/private", "secret-data")
            .acl(Acl::creator_only());
        texts.push(format!("{create:?}"));
        create.await.unwrap();
        let set = session.set("/private", "secret-data");
        texts.push(format!("{set:?}"));
        set.await.unwrap();
        let transaction = session.transaction().set("/private", "secret-data");
        texts.push(format!("{transaction:?}"));
        transaction.commit().await.unwrap();
        let owned = session
            .create("/owned", "secret-data")
            .owned()
            .await
            .unwrap();
        texts.push(format!("{session:?} {owned:?} {:?}", session.keep_lease()));
        let stranger = connect(ensemble).await;
        texts.push(format!("{:?}", stranger.get("/private").await.unwrap_err()));
        // The credentials are sent again after a break.
        let server = ensemble.server(1).unwrap();
        server.kill().await.unwrap();
        server.start().unwrap();
        session.get("/private").await.unwrap();
        drop(owned);
        session.close().await.unwrap();
        let bad = Session::builder("alice:hunter2@127.0.0.1:1/x")
            .connect()
            .await
            .unwrap_err();
        texts.push(format!("{bad:?} {bad}"));

        texts.push(recorder.text());
        // zk-wire logs nothing; what zk-core logs shows then that the recorder was listening.
        assert!(recorder.text().contains("connected"), "it was listening");
        for text in texts {
            for secret in ["hunter2", "secret-data"] {
                let at = text.find(secret);
                assert!(
                    at.is_none(),
                    "{secret} in {:?}",
                    at.map(|at| &text[at.saturating_sub(200)..])
                );
            }
        }
    })
    .await;
}
