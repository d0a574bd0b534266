//! Two nodes and two listeners: one for the first value, with delivery on create; one for ever, with delivery only of
//! changes. Three rounds of publishing, and both nodes are deleted between the second and the third.

use std::time::Duration;

use zk_config::Delivery;
use zk_config::Event;
use zk_config::Events;
use zk_config::Lasting;
use zk_config::Listener;
use zk_config::Publisher;
use zk_core::Session;
use zk_core::codec::Text;

/// What an event says, without its stat.
pub(crate) fn told(event: &Event<String>) -> String {
    match event {
        Event::Present(value) => format!("present {}", value.value),
        Event::Created(value) => format!("created {}", value.value),
        Event::Changed(value) => format!("changed {}", value.value),
        Event::Absent => "absent".to_owned(),
        Event::Deleted => "deleted".to_owned(),
        Event::SessionLost => "session lost".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Takes the next event, within half a minute; `None` at the end.
pub(crate) async fn next(events: &mut Events<String>) -> Option<String> {
    let event = tokio::time::timeout(Duration::from_secs(30), events.next()).await;
    event
        .expect("an event comes within 30 s")
        .as_ref()
        .map(told)
}

/// Asserts that these events come, one after the other.
pub(crate) async fn tells(events: &mut Events<String>, expected: &[&str]) {
    for expected in expected {
        assert_eq!(next(events).await.as_deref(), Some(*expected));
    }
}

/// Asserts that the value that was published last is told as a change.
///
/// A listener that is late sees the node together with its second value, and takes that for its creation: then another
/// value is published, until one is a change.
async fn changed(
    publisher: &Publisher<Text>,
    path: &str,
    events: &mut Events<String>,
    value: &str,
) {
    for attempt in 1..=15 {
        let event = tokio::time::timeout(Duration::from_secs(2), events.next()).await;
        if let Ok(event) = event {
            let told = told(&event.expect("it goes on"));
            let is_it = told == format!("changed {value}") || is_again(&told);
            assert!(is_it, "{told}");
            return;
        }
        let again = format!("again {attempt}");
        publisher.publish(path, &again).await.unwrap();
    }
    panic!("no change is told after half a minute");
}

fn is_again(told: &str) -> bool {
    told.starts_with("changed again ")
}

/// Publishes by one session and listens by another; each listener is asked after each round.
pub(crate) async fn play(publishing: &Session, listening: &Session) {
    const ONCE: &str = "/app/once";
    const EVER: &str = "/app/ever";
    let publisher = Publisher::new(publishing, Text);
    let publish = async |value: &str| {
        for path in [ONCE, EVER] {
            publisher.publish(path, &value.to_owned()).await.unwrap();
        }
    };
    let mut once = Listener::new(listening, ONCE, Text)
        .unwrap()
        .on_create(Delivery::Deliver)
        .lasting(Lasting::Once)
        .events::<String>();
    let mut ever = Listener::new(listening, EVER, Text)
        .unwrap()
        .initial(Delivery::Skip)
        .on_create(Delivery::Skip)
        .events::<String>();
    tells(&mut once, &["absent"]).await;
    tells(&mut ever, &["absent"]).await;

    publish("one").await;
    tells(&mut once, &["created one"]).await;
    assert_eq!(next(&mut once).await, None, "it has had its one value");
    // The creation is not delivered.
    let nothing = tokio::time::timeout(Duration::from_millis(500), ever.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");

    publish("two").await;
    changed(&publisher, EVER, &mut ever, "two").await;

    for path in [ONCE, EVER] {
        publisher.remove(path).await.unwrap();
    }
    let mut told = next(&mut ever).await;
    while told.as_deref().is_some_and(is_again) {
        told = next(&mut ever).await;
    }
    assert_eq!(told.as_deref(), Some("deleted"));

    publish("three").await;
    // And not its creation: the next thing told is a change that comes after it.
    let nothing = tokio::time::timeout(Duration::from_millis(500), ever.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    publisher.publish(EVER, &"last".to_owned()).await.unwrap();
    changed(&publisher, EVER, &mut ever, "last").await;
    assert_eq!(next(&mut once).await, None);
}
