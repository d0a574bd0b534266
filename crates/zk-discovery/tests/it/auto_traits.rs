//! Which public types may move between threads and be shared: a table the compiler checks.

use std::time::Duration;

use zk_discovery::*;

fn is_send<T: Send>() {}
fn is_sync<T: Sync>() {}
fn is_clone<T: Clone>() {}
fn is_error<T: std::error::Error + Send + Sync + 'static>() {}
fn is_send_value<T: Send>(_: &T) {}

macro_rules! send_sync_clone {
    ($($type:ty),* $(,)?) => { $( is_send::<$type>(); is_sync::<$type>(); is_clone::<$type>(); )* };
}

#[test]
fn public_types_are_send_and_sync() {
    send_sync_clone!(
        Candidate<String>,
        Candidates<String>,
        InstanceChange<String>,
        ConsistentHash,
        Curator,
        Dubbo,
        DubboProvider,
        Entry,
        FailureRules,
        Instance<String>,
        InstanceBuilder<String>,
        LeastUsed,
        ListId,
        RegistrationLoss,
        MemberStatus,
        ProviderOptions,
        Providers<String>,
        Quarantined,
        Random,
        Registry,
        Registry<Dubbo>,
        InstanceList<String>,
        QueryError,
        ServiceNameChange,
        Registry<Serverset>,
        Serverset,
        ServersetMember,
        ServiceNames,
        UriSpec,
        WhenTaken,
    );
    is_send::<InstanceChanges<String>>();
    is_send::<Picked<String>>();
    is_sync::<Picked<String>>();
    is_send::<Registration<String>>();
    is_sync::<Registration<String>>();
    is_sync::<RoundRobin>();
    is_send::<Weighted<fn(&Instance<String>) -> u32>>();
    is_sync::<Weighted<fn(&Instance<String>) -> u32>>();
    is_send::<PreferZone<String, fn(&Instance<String>) -> bool, Random>>();
    is_sync::<PreferZone<String, fn(&Instance<String>) -> bool, Random>>();
    is_send::<ServiceNameChanges>();
    is_error::<BadEntry>();
    is_error::<BuildError>();
    is_error::<ParseUriSpecError>();
    is_error::<PickError>();
    is_error::<QueryError>();
    is_error::<RegisterError>();
    is_error::<UpdateError>();
}

#[test]
fn public_futures_are_send() {
    let _ = |registry: Registry, instance: Instance<String>| {
        is_send_value(&registry.register(instance.clone()));
        is_send_value(&registry.keep_registered(&instance));
        let work = |registration: std::sync::Arc<Registration<String>>| async move {
            drop(registration.update(|one| one.set_enabled(false)).await);
        };
        is_send_value(&registry.keep_registered_with(&instance, work));
        is_send_value(&registry.services());
        is_send_value(&registry.query::<String>("a"));
    };
    let _ = |registration: Registration<String>| {
        is_send_value(&registration.lost());
        is_send_value(&registration.instance());
        is_send_value(&registration.update(|_| ()));
        is_send_value(&registration.set_payload(String::new()));
        is_send_value(&registration.unregister());
    };
    let _ = |providers: Providers<String>| {
        is_send_value(&providers.synchronized());
        is_send_value(&providers.pick_timeout(&Random, Duration::ZERO));
    };
    let _ = |names: ServiceNames, mut changes: ServiceNameChanges| {
        is_send_value(&names.synchronized());
        is_send_value(&changes.next());
    };
    let _ = |mut changes: InstanceChanges<String>| is_send_value(&changes.next());
}
