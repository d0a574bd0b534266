//! Registering and following on a simulated ensemble, under paused time.

#![cfg(test)]

use zk_core::Session;
use zk_discovery::{Instance, InstanceChange, InstanceChanges, Providers, Registration, Registry};
use zk_sim::Ensemble;
use zk_sim::wait::soon;

mod chaos;
mod following;
mod formats;
mod gaps;
mod keeping;
mod layout;
mod observing;
mod persistent;
mod picking;
mod querying;
mod registering;
mod serversets;
mod service_names;
mod taken;
mod updating;

/// Below it are the services of the tests.
const BASE: &str = "/services";

/// The service of the tests.
const SERVICE: &str = "orders";

fn registry(session: &Session) -> Registry {
    Registry::new(session, BASE).expect("a good path")
}

fn providers(session: &Session) -> Providers<String> {
    registry(session)
        .providers(SERVICE)
        .expect("a good service")
}

fn instance(id: &str, payload: &str) -> Instance<String> {
    Instance::builder(SERVICE, payload.to_owned())
        .id(id)
        .address("10.0.0.7")
        .port(8080)
        .build()
        .expect("a good instance")
}

/// Registers the instance `a`.
async fn register(session: &Session, payload: &str) -> Registration<String> {
    let registered = registry(session).register(instance("a", payload)).await;
    registered.expect("its place is free")
}

fn path(id: &str) -> String {
    format!("{BASE}/{SERVICE}/{id}")
}

/// The ids and payloads below the service, as the leader has them.
fn registered(ensemble: &Ensemble) -> Vec<(String, String)> {
    let below = format!("{BASE}/{SERVICE}/");
    let tree = ensemble.tree();
    let nodes = tree.nodes();
    nodes
        .filter(|(path, _)| path.as_str().starts_with(&below))
        .map(|(path, node)| {
            let id = path.name().expect("it is below the service").to_owned();
            (id, payload(node.data()))
        })
        .collect()
}

/// The payload in the data of a node.
fn payload(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data);
    let rest = text.split_once(r#""payload":""#).map(|(_, rest)| rest);
    let payload = rest.and_then(|rest| rest.split_once('"'));
    payload.map_or_else(|| format!("? {text}"), |(payload, _)| payload.to_owned())
}

/// The ids and payloads that a consumer knows.
fn known(providers: &Providers<String>) -> Vec<(String, String)> {
    let list = providers.instances();
    let pairs = list
        .instances()
        .map(|one| (one.id().to_owned(), one.payload().clone()));
    pairs.collect()
}

/// The next changes, in few words, up to the one that is so.
async fn told_until(what: &str, changes: &mut InstanceChanges<String>) -> Vec<String> {
    let mut told = Vec::new();
    soon(what, async {
        loop {
            let change = changes.next().await;
            let change = change.unwrap_or_else(|| panic!("it ended before {what}: {told:?}"));
            told.push(in_words(&change));
            if told.last().is_some_and(|last| last.starts_with(what)) {
                break;
            }
        }
    })
    .await;
    told
}

fn in_words(change: &InstanceChange<String>) -> String {
    let text = |one: &Instance<String>| format!("{} {}", one.id(), one.payload());
    match change {
        InstanceChange::Added(one) => format!("+ {}", text(one)),
        InstanceChange::Updated { old, new } => format!("~ {} -> {}", text(old), new.payload()),
        InstanceChange::Removed(one) => format!("- {}", text(one)),
        InstanceChange::Quarantined(entry) => format!("! {}: {}", entry.path(), entry.reason()),
        InstanceChange::Released(entry) => format!("released {}", entry.path()),
        InstanceChange::Stale => "stale".to_owned(),
        InstanceChange::Synchronized => "synchronized".to_owned(),
        InstanceChange::Incomplete(gap) => format!("incomplete: {gap}"),
        InstanceChange::Ended(end) => format!("ended: {end}"),
        other => format!("{other:?}"),
    }
}
