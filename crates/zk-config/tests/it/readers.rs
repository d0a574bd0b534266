//! Readers on a real server: an initial value, and several keys that change in one transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt;
use zk_config::{
    Event, Events, FollowHandle, ListenMode, Listener, Publisher, Typed, ValueDelivery,
};
use zk_core::Session;
use zk_core::codec::{Codec, Text};
use zk_fault_proxy::{Clients, Close, Match};
use zk_harness::{DataStore, Ensemble};

use crate::scenario::{expect_events, next};
use crate::{connect, soon};

/// The number of publications.
const PUBLICATIONS: usize = 300;
/// The key that exists at the start.
const MOTTO: &str = "/present/motto";
const KEYS: [&str; 5] = ["a", "b/c", "b/d", "e", "f"];

#[tokio::test(flavor = "multi_thread")]
async fn readers_get_initial_values_and_never_a_mixture() {
    let ensemble = Ensemble::builder()
        .servers(1)
        .data(DataStore::Memory)
        .proxied(true)
        .start();
    let ensemble = ensemble.await.expect("a server starts");
    tokio::join!(
        an_initial_value_is_delivered_or_skipped(&ensemble),
        keys_of_one_transaction_are_seen_together(&ensemble),
    );
    ensemble.down().await.expect("the server goes down");
}

async fn an_initial_value_is_delivered_or_skipped(ensemble: &Ensemble) {
    let (session, publishing) = (connect(ensemble).await, connect(ensemble).await);
    let publisher = Publisher::new(&publishing, Text);
    let publish = async |value: &str| publisher.publish(MOTTO, &value.to_owned()).await.unwrap();
    publish("one").await;
    let listener = Listener::new(&session, MOTTO, Text).unwrap();
    let mut all = listener.clone().events::<String>();
    let mut once = listener.clone().mode(ListenMode::Once).events::<String>();
    let skipping = listener.initial(ValueDelivery::Skip);
    let mut next_once = skipping.clone().mode(ListenMode::Once).events::<String>();
    let mut skipping = skipping.events::<String>();
    let Some(Event::Present(value)) = soon("the node exists", all.next()).await else {
        panic!("the node exists");
    };
    assert_eq!(value.value, "one");
    assert_eq!(value.stat, publishing.stat(MOTTO).await.unwrap());
    expect_events(&mut once, &["present one"]).await;
    assert_eq!(next(&mut once).await, None);
    for events in [&mut skipping, &mut next_once] {
        has_read_and_skipped(ensemble, &session, events).await;
    }
    publish("two").await;
    for events in [&mut all, &mut skipping, &mut next_once] {
        expect_events(events, &["changed two"]).await;
    }
    assert_eq!(next(&mut next_once).await, None);

    // A reconnect does not repeat the value; later changes and the end are reported.
    let mut late = Listener::new(&session, MOTTO, Text)
        .unwrap()
        .events::<String>();
    expect_events(&mut late, &["present two"]).await;
    cut(ensemble, &session).await;
    publish("three").await;
    for events in [&mut late, &mut all, &mut skipping] {
        expect_events(events, &["changed three"]).await;
    }
    publisher.remove(MOTTO).await.unwrap();
    for events in [&mut late, &mut all, &mut skipping] {
        expect_events(events, &["deleted"]).await;
    }
    ensemble.expire(session.id().as_i64()).await.unwrap();
    for events in [&mut late, &mut all, &mut skipping] {
        expect_events(events, &["session lost"]).await;
        assert_eq!(next(events).await, None);
    }
}

/// Publishes in bursts, and replaces all keys each time. One reader loses its connection now and then, and one starts
/// late.
async fn keys_of_one_transaction_are_seen_together(ensemble: &Ensemble) {
    let (writing, reading) = (connect(ensemble).await, connect(ensemble).await);
    let cut_off = connect(ensemble).await;
    let publisher = Publisher::new(&writing, Text);
    let mut readers = vec![Reader::start(&reading), Reader::start(&cut_off)];
    for round in 0..PUBLICATIONS {
        let mut all = publisher.transaction();
        for key in KEYS {
            all = all.set(format!("/swapped/{key}"), &round.to_string());
        }
        all.publish().await.unwrap();
        if round == PUBLICATIONS / 2 {
            readers.push(Reader::start(&reading));
        }
        if round % 40 == 25 {
            cut(ensemble, &cut_off).await;
        }
        if round % BURST == BURST - 1 {
            for reader in &mut readers {
                reader.reaches(&round.to_string()).await;
            }
        }
    }
    for reader in readers {
        let judged = soon("the last one is judged", reader.judging).await;
        judged.expect("no reader saw a mixture");
    }
}

/// The number of publications after which all readers must have caught up.
const BURST: usize = 10;

type Keys = BTreeMap<String, String>;

/// A reader of all keys as one value.
struct Reader {
    typed: Typed<Keys>,
    _following: FollowHandle,
    /// Checks each value up to the last one.
    judging: tokio::task::JoinHandle<()>,
}

impl Reader {
    fn start(session: &Session) -> Self {
        let typed = Typed::<Keys>::subtree("/swapped", |tree| {
            let texts = tree.iter().map(|(name, data)| {
                let text = Codec::<String>::decode(&Text, data)?;
                Ok((name.to_owned(), text))
            });
            texts.collect()
        });
        let typed = typed.unwrap().build();
        let following = typed.follow(session);
        let mut judged = typed.clone();
        let judging = tokio::spawn(async move {
            let last = (PUBLICATIONS - 1).to_string();
            let mut newest = None;
            loop {
                let current = judged.changed().await;
                assert!(current.revision() > newest || current.is_empty());
                newest = current.revision();
                if publication(&current) == Some(&last) {
                    break;
                }
            }
        });
        Self {
            typed,
            _following: following,
            judging,
        }
    }

    /// Waits until it has seen a publication.
    async fn reaches(&mut self, wanted: &str) {
        let reached = async {
            loop {
                let current = self.typed.changed().await;
                if publication(&current).is_some_and(|seen| seen == wanted) {
                    break;
                }
            }
        };
        soon(&format!("publication {wanted} is seen"), reached).await;
    }
}

/// Returns the publication that all keys are from; `None` before the first one.
fn publication(keys: &Keys) -> Option<&String> {
    // The root and `b` have no values.
    let values: Vec<_> = keys.values().filter(|value| !value.is_empty()).collect();
    assert!(
        values.is_empty() || values.len() == KEYS.len(),
        "some keys are missing: {keys:?}"
    );
    let first = *values.first()?;
    assert!(
        values.iter().all(|value| *value == first),
        "a mixture of publications: {keys:?}"
    );
    Some(first)
}

/// Waits until a listener has read the value, and checks that it does not deliver it.
async fn has_read_and_skipped(ensemble: &Ensemble, session: &Session, events: &mut Events<String>) {
    let proxy = ensemble.proxy().expect("the ensemble has a proxy");
    let replies = Match::get(MOTTO).session(session.id().as_i64()).reply();
    let before = proxy.log().count(&replies);
    tokio::select! {
        event = events.next() => panic!("the listener delivers nothing: {event:?}"),
        read = proxy.wait_for(&replies, before + 1, Duration::from_secs(30)) => read.unwrap(),
    }
    // The reply to `sync` arrives after the value.
    session.sync("/").with_quorum().await.unwrap();
    let nothing = events.next().now_or_never();
    assert!(
        nothing.is_none(),
        "the listener delivers nothing: {nothing:?}"
    );
}

/// Cuts the connection of a session, which reconnects at once.
async fn cut(ensemble: &Ensemble, session: &Session) {
    let proxy = ensemble.proxy().expect("the ensemble has a proxy");
    let its = Clients::Session(session.id().as_i64());
    proxy.cut(its, Close::Rst).await;
}
