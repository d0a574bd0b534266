//! Following a service.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use zk_core::Acl;
use zk_discovery::{BadEntry, CacheEnd, Instance, InstanceList, ProviderOptions, RoundRobin};
use zk_sim::Ensemble;
use zk_sim::wait::{pass, soon};

use crate::{instance, known, path, providers, registry, told_until};

#[tokio::test(start_paused = true)]
async fn instances_that_come_change_and_go_are_told() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let providers = providers(&session);
    let mut changes = providers.changes();
    // A service that does not exist has no instances.
    assert_eq!(told_until("sync", &mut changes).await, ["synchronized"]);
    assert!(providers.synchronized().await.unwrap().is_empty());
    let registry = registry(&other);
    let a = registry.register(instance("a", "1")).await.unwrap();
    assert_eq!(told_until("+ a", &mut changes).await, ["+ a 1"]);
    let b = registry.register(instance("b", "1")).await.unwrap();
    a.set_payload("2".to_owned()).await.unwrap();
    assert_eq!(told_until("~", &mut changes).await, ["+ b 1", "~ a 1 -> 2"]);
    b.unregister().await.unwrap();
    assert_eq!(told_until("-", &mut changes).await, ["- b 1"]);
    assert_eq!(known(&providers), [("a".into(), "2".into())]);
    let list = providers.instances();
    assert_eq!(list.get("a").unwrap().address(), Some("10.0.0.7"));
    assert!(list.get("b").is_none() && list.len() == 1 && !list.is_empty());
    // A late consumer receives the present instances.
    let late = told_until("sync", &mut providers.changes()).await;
    assert_eq!(late, ["+ a 2", "synchronized"]);
    assert_eq!(registry.services().await.unwrap(), ["orders"]);
    assert_eq!(
        crate::Registry::new(&session, "/none")
            .unwrap()
            .services()
            .await
            .unwrap(),
        [""; 0]
    );

    // A disconnection is reported, and what changed during it.
    ensemble
        .session(session.id())
        .cut_for(Duration::from_secs(1));
    assert_eq!(told_until("stale", &mut changes).await, ["stale"]);
    assert!(!providers.is_synchronized());
    other.delete(path("a")).await.unwrap();
    let again = registry.register(instance("c", "1")).await.unwrap();
    let told = told_until("sync", &mut changes).await;
    assert_eq!(told, ["- a 2", "+ c 1", "synchronized"]);
    drop(again);
}

/// A client that may create an instance chooses its address, which consumers log and dial.
#[tokio::test(start_paused = true)]
async fn an_address_with_a_control_character_is_quarantined() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let _good = registry(&other)
        .register(instance("good", "1"))
        .await
        .unwrap();
    for (id, address) in [("esc", r"\u001b[2J"), ("line", r"10.0.0.1\nINFO x")] {
        let data =
            format!(r#"{{"name":"orders","id":"{id}","address":"{address}","payload":"p"}}"#);
        other.create(path(id), data).await.unwrap();
    }
    let providers = providers(&session);
    let mut changes = providers.changes();
    told_until("sync", &mut changes).await;
    let list = providers.instances();
    assert_eq!((list.quarantined().len(), list.len()), (2, 1));
    for entry in list.quarantined() {
        assert!(matches!(entry.reason(), BadEntry::ControlCharacter));
    }
}

/// One bad entry is reported once and harms no other one.
#[tokio::test(start_paused = true)]
async fn bad_entries_are_quarantined_until_they_are_mended() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let good = registry(&other)
        .register(instance("good", "1"))
        .await
        .unwrap();
    let entries: [(&str, &[u8]); 5] = [
        ("empty", b""),
        ("id", br#"{"name":"orders","id":"else"}"#),
        ("name", br#"{"name":"else","id":"name"}"#),
        ("syntax", b"{"),
        ("utf8", b"\xff\xfe"),
    ];
    for (name, data) in entries {
        other.create(path(name), data).await.unwrap();
    }
    let providers = providers(&session);
    let mut changes = providers.changes();
    let told = told_until("sync", &mut changes).await;
    let names: Vec<_> = told
        .iter()
        .map(|line| line.split(':').next().unwrap())
        .collect();
    let expected =
        ["empty", "id", "name", "syntax", "utf8"].map(|name| format!("! {}", path(name)));
    assert_eq!(
        names[..5],
        expected.each_ref().map(String::as_str),
        "{told:?}"
    );
    assert_eq!(told[5..], ["+ good 1", "synchronized"]);
    let list = providers.instances();
    assert_eq!((list.quarantined().len(), list.len()), (5, 1));
    let reason = list.quarantined()[2].reason();
    assert!(matches!(reason, BadEntry::OtherService { .. }));

    // Mended, broken in another way, gone.
    let mended = r#"{"name":"orders","id":"syntax","payload":"m"}"#;
    other.set(path("syntax"), mended).await.unwrap();
    let told = told_until("+", &mut changes).await;
    assert_eq!(told, ["released /services/orders/syntax", "+ syntax m"]);
    other.set(path("syntax"), "[").await.unwrap();
    let told = told_until("!", &mut changes).await;
    assert_eq!(told[0], "- syntax m");
    other.delete(path("utf8")).await.unwrap();
    let told = told_until("released", &mut changes).await;
    assert_eq!(told, ["released /services/orders/utf8"]);
    // A quarantined entry is not reported again after a reconnection.
    ensemble.session(session.id()).cut();
    let told = told_until("sync", &mut changes).await;
    assert_eq!(told, ["stale", "synchronized"]);
    drop(good);
}

#[derive(Debug, Serialize)]
struct Touchy;

impl<'de> Deserialize<'de> for Touchy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        assert!(text != "panic", "asked for");
        Ok(Self)
    }
}

#[tokio::test(start_paused = true)]
async fn entries_whose_decoder_panics_or_that_are_too_large_are_quarantined() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let registry = registry(&session);
    let _held = [
        registry.register(instance("a", "panic")).await.unwrap(),
        registry
            .register(instance("b", &"x".repeat(500)))
            .await
            .unwrap(),
        registry.register(instance("c", "fine")).await.unwrap(),
    ];
    let options = ProviderOptions::default().with_most_bytes(400);
    let providers = registry
        .providers_with::<Touchy>("orders", options)
        .unwrap();
    let list = soon("it is read", providers.synchronized()).await.unwrap();
    let reasons: Vec<_> = list
        .quarantined()
        .iter()
        .map(|one| one.reason().clone())
        .collect();
    assert!(
        matches!(
            reasons[..],
            [BadEntry::Panicked, BadEntry::TooLarge { most: 400, .. }]
        ),
        "{reasons:?}"
    );
    assert_eq!(list.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn entries_that_may_not_be_read_are_quarantined() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (
        ensemble.connect().await,
        ensemble.connect().digest("u", "p").await,
    );
    let _good = registry(&other)
        .register(instance("good", "1"))
        .await
        .unwrap();
    let secret = Acl::creator_only();
    other.create(path("secret"), "x").acl(secret).await.unwrap();
    let providers = providers(&session);
    let told = told_until("sync", &mut providers.changes()).await;
    assert_eq!(told.len(), 3, "{told:?}");
    // In any order: a node that is refused together with others is read again, alone.
    let unreadable = "! /services/orders/secret: the session may not read it";
    assert!(
        told.iter().any(|change| change.starts_with(unreadable)),
        "{told:?}"
    );
}

/// A consumer that sleeps receives the difference, however much has happened.
#[tokio::test(start_paused = true)]
async fn a_slow_consumer_is_told_the_difference() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let providers = providers(&session);
    let mut changes = providers.changes();
    told_until("sync", &mut changes).await;
    let base: InstanceList<String> = providers.instances();
    let a = registry(&other).register(instance("a", "")).await.unwrap();
    for number in 0..500 {
        a.set_payload(number.to_string()).await.unwrap();
        let passing = registry(&other).register(instance("b", "x")).await.unwrap();
        passing.unregister().await.unwrap();
    }
    pass(Duration::from_secs(1)).await;
    assert_eq!(told_until("+", &mut changes).await, ["+ a 499"]);
    assert_eq!(
        told_until("+", &mut providers.changes_since(&base)).await,
        ["+ a 499"]
    );
    // A node that was created again is reported as such.
    drop(a);
    other.settled().await;
    let _a = registry(&other)
        .register(instance("a", "499"))
        .await
        .unwrap();
    pass(Duration::from_secs(1)).await;
    assert_eq!(told_until("+", &mut changes).await, ["- a 499", "+ a 499"]);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_session_or_its_last_handle_and_leaves_no_watch() {
    let ensemble = Ensemble::new(3);
    let session = ensemble.connect().await;
    let a = registry(&session)
        .register(instance("a", "1"))
        .await
        .unwrap();
    let first = providers(&session);
    let clone = first.clone();
    let mut changes = first.changes();
    told_until("sync", &mut changes).await;
    let picked = first.pick(&zk_discovery::Random).unwrap();
    drop((first, clone));
    assert_eq!(
        told_until("ended", &mut changes).await,
        ["ended: the cache was stopped"]
    );
    assert!(changes.next().await.is_none());
    assert_eq!(picked.payload(), "1");
    a.unregister().await.unwrap();
    drop(a);
    ensemble.assert_nothing_left([session.clone()]).await;

    let second = providers(&session);
    let mut changes = second.changes();
    told_until("sync", &mut changes).await;
    ensemble.expire(session.id());
    let told = told_until("ended", &mut changes).await;
    assert_eq!(told.last().unwrap(), "ended: the session is over");
    let end = second.synchronized().await.unwrap_err();
    assert!(matches!(end, CacheEnd::SessionLost));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_instances_are_read_once_each() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let registry = registry(&other);
    let mut held = Vec::new();
    for number in 0..1000 {
        let one: Instance<String> = instance(&format!("{number:04}"), "x");
        held.push(registry.register(one).await.unwrap());
    }
    let before = ensemble.request_count();
    let providers = Arc::new(providers(&session));
    let list = soon("all are read", providers.synchronized())
        .await
        .unwrap();
    assert_eq!(list.len(), 1000);
    let requests = ensemble.request_count() - before;
    assert!(requests < 1020, "{requests} requests");
    let before = ensemble.request_count();
    for _ in 0..1000 {
        drop(providers.pick(&zk_discovery::Random).unwrap());
    }
    assert_eq!(ensemble.request_count(), before);
}

/// Of the list of providers that have ended only the instances count.
#[tokio::test(start_paused = true)]
async fn changes_continue_from_the_list_of_the_last_session() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let registry = registry(&other);
    let a = registry.register(instance("a", "1")).await.unwrap();
    let _b = registry.register(instance("b", "1")).await.unwrap();
    let first = providers(&session);
    let mut changes = first.changes();
    told_until("sync", &mut changes).await;
    ensemble.expire(session.id());
    told_until("ended", &mut changes).await;
    let last = first.instances();
    a.unregister().await.unwrap();
    let _c = registry.register(instance("c", "1")).await.unwrap();

    let next = ensemble.connect().await;
    let second = providers(&next);
    soon("it is read", second.synchronized()).await.unwrap();
    let mut changes = second.changes_since(&last);
    let told = told_until("sync", &mut changes).await;
    assert_eq!(told, ["- a 1", "+ c 1", "synchronized"]);
    let told = told_until("sync", &mut second.changes_since(&second.instances())).await;
    assert_eq!(told, ["synchronized"]);
    let _d = registry.register(instance("d", "1")).await.unwrap();
    assert_eq!(told_until("+", &mut changes).await, ["+ d 1"]);
}

/// A payload may be a secret, and a parser quotes it.
#[tokio::test(start_paused = true)]
async fn what_a_bad_entry_has_is_not_in_the_debug_output() {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let data = r#"{"name":"orders","id":"a","payload":4711}"#;
    other.create(path("a"), data).parents().await.unwrap();
    let providers = providers(&session);
    let list = soon("it is read", providers.synchronized()).await.unwrap();
    let entry = &list.quarantined()[0];
    // It can be asked for.
    assert!(entry.reason().to_string().contains("decoded"), "{entry:?}");
    let shown = format!(
        "{entry:?} {:?}",
        zk_discovery::InstanceChange::<String>::Quarantined(entry.clone())
    );
    assert!(
        !shown.contains("4711") && shown.contains("JSON: Shape"),
        "{shown}"
    );
}

/// The consumers and the registered instance keep their handles over sessions.
#[tokio::test(start_paused = true)]
async fn providers_and_registrations_go_on_with_the_next_session() {
    let ensemble = Ensemble::new(3);
    let (ours, theirs) = (ensemble.open_sessions(), ensemble.open_sessions());
    let registered =
        theirs.keep(async |session| registry(&session).register(instance("a", "1")).await);
    soon("it is registered", registered.ready()).await.unwrap();
    let first = soon("there is a session", ours.session()).await.unwrap();
    let providers = providers(&first);
    providers.follow(&ours);
    soon("it is read", providers.synchronized()).await.unwrap();
    let mut changes = providers.changes();
    assert_eq!(
        told_until("sync", &mut changes).await,
        ["+ a 1", "synchronized"]
    );
    for _ in 0..3 {
        let session = soon("there is a session", ours.session()).await.unwrap();
        ensemble.session(session.id()).partition();
        let other = registry(&theirs.current().unwrap());
        let beside = other.register(instance("b", "1")).await.unwrap();
        ensemble.expire(session.id());
        // It can be picked from meanwhile, and nothing that stayed flaps.
        assert!(providers.pick(&RoundRobin::new()).is_ok());
        assert_eq!(
            told_until("sync", &mut changes).await,
            ["stale", "+ b 1", "synchronized"]
        );
        beside.unregister().await.unwrap();
        assert_eq!(told_until("- b", &mut changes).await, ["- b 1"]);
    }
    // The instance comes back with the next session of its process.
    ensemble.expire(
        soon("there is a session", theirs.session())
            .await
            .unwrap()
            .id(),
    );
    assert_eq!(told_until("- a", &mut changes).await, ["- a 1"]);
    assert_eq!(told_until("+ a", &mut changes).await, ["+ a 1"]);
    drop(registered);
    assert_eq!(told_until("- a", &mut changes).await, ["- a 1"]);
}
