//! Which public types may move between threads and be shared: tables the compiler checks.

use std::sync::Arc;
use std::time::Duration;

use zk_discovery::*;
use zk_testkit::{assert_impl, assert_send_futures};

#[test]
fn public_types_are_send_and_sync() {
    assert_impl! {
        Send + Sync + Clone:
            Candidate<String>, Candidates<String>, ConsistentHash, Curator, Dubbo, DubboProvider, Entry, FailureRules,
            Instance<String>, InstanceBuilder<String>, InstanceChange<String>, InstanceList<String>, LeastUsed, ListId,
            MemberStatus, ProviderOptions, Providers<String>, Quarantined, QueryError, Random, RegistrationLoss,
            Registry, Registry<Dubbo>, Registry<Serverset>, ServiceNameChange, ServiceNames, Serverset,
            ServersetMember, UriSpec, WhenTaken;
        Send + Sync:
            Picked<String>, PreferZone<String, fn(&Instance<String>) -> bool, Random>, Registration<String>,
            Weighted<fn(&Instance<String>) -> u32>;
        Send: InstanceChanges<String>, ServiceNameChanges;
        Sync: RoundRobin;
        Error + Send + Sync:
            BadEntry, BuildError, ParseUriSpecError, PickError, QueryError, RegisterError, UpdateError;
    }
}

#[test]
fn public_futures_are_send() {
    let work = |registration: Arc<Registration<String>>| async move {
        drop(registration.update(|one| one.set_enabled(false)).await);
    };
    assert_send_futures! {
        (registry: Registry, instance: Instance<String>) =>
            registry.register(instance), registry.keep_registered(&instance),
            registry.keep_registered_with(&instance, work);
        (registry: Registry) => registry.services(), registry.query::<String>("a");
        (registration: Registration<String>) =>
            registration.lost(), registration.instance(), registration.update(|_| ()),
            registration.set_payload(String::new()), registration.unregister();
        (providers: Providers<String>) =>
            providers.synchronized(), providers.pick_timeout(&Random, Duration::ZERO);
        (names: ServiceNames) => names.synchronized();
        (changes: ServiceNameChanges) => changes.next();
        (changes: InstanceChanges<String>) => changes.next();
    }
}
