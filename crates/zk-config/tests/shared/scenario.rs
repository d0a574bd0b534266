//! Two nodes and two listeners: one receives the first value, also that of a creation; the other receives only changes,
//! for ever. Three rounds of publications, with a deletion of both nodes before the third.

use std::time::Duration;

use zk_config::{Event, Events, ListenMode, Listener, Publisher, ValueDelivery};
use zk_core::Session;
use zk_core::codec::Text;

/// Formats an event without its stat.
pub(crate) fn describe(event: &Event<String>) -> String {
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

/// Waits up to 30 seconds for the next event; `None` at the end.
pub(crate) async fn next(events: &mut Events<String>) -> Option<String> {
    let event = tokio::time::timeout(Duration::from_secs(30), events.next()).await;
    event
        .expect("an event comes within 30 s")
        .as_ref()
        .map(describe)
}

/// Asserts that these events arrive in order.
pub(crate) async fn expect_events(events: &mut Events<String>, expected: &[&str]) {
    for expected in expected {
        assert_eq!(next(events).await.as_deref(), Some(*expected));
    }
}

/// Asserts that the last published value is reported as a change.
///
/// A slow listener may read the node only with its second value, and then reports a creation. So this publishes another
/// value until one is reported as a change.
async fn expect_change(
    publisher: &Publisher<Text>,
    path: &str,
    events: &mut Events<String>,
    value: &str,
) {
    for attempt in 1..=15 {
        let event = tokio::time::timeout(Duration::from_secs(2), events.next()).await;
        if let Ok(event) = event {
            let event = describe(&event.expect("the listener continues"));
            let is_change = event == format!("changed {value}") || is_again(&event);
            assert!(is_change, "{event}");
            return;
        }
        let again = format!("again {attempt}");
        publisher.publish(path, &again).await.unwrap();
    }
    panic!("no change is reported within half a minute");
}

fn is_again(event: &str) -> bool {
    event.starts_with("changed again ")
}

/// Publishes on one session and listens on another, and checks each listener after each round.
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
        .on_create(ValueDelivery::Deliver)
        .mode(ListenMode::Once)
        .events::<String>();
    let mut ever = Listener::new(listening, EVER, Text)
        .unwrap()
        .initial(ValueDelivery::Skip)
        .on_create(ValueDelivery::Skip)
        .events::<String>();
    expect_events(&mut once, &["absent"]).await;
    expect_events(&mut ever, &["absent"]).await;

    publish("one").await;
    expect_events(&mut once, &["created one"]).await;
    assert_eq!(
        next(&mut once).await,
        None,
        "it has delivered its one value"
    );
    // The creation is not delivered.
    let nothing = tokio::time::timeout(Duration::from_millis(500), ever.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");

    publish("two").await;
    expect_change(&publisher, EVER, &mut ever, "two").await;

    for path in [ONCE, EVER] {
        publisher.remove(path).await.unwrap();
    }
    let mut event = next(&mut ever).await;
    while event.as_deref().is_some_and(is_again) {
        event = next(&mut ever).await;
    }
    assert_eq!(event.as_deref(), Some("deleted"));

    publish("three").await;
    // The second creation is not delivered either: the next event is a later change.
    let nothing = tokio::time::timeout(Duration::from_millis(500), ever.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
    publisher.publish(EVER, &"last".to_owned()).await.unwrap();
    expect_change(&publisher, EVER, &mut ever, "last").await;
    assert_eq!(next(&mut once).await, None);
}
