//! Picking, and the policies of an empty, a stale and a failing list.

use std::collections::BTreeSet;
use std::time::Duration;

use zk_core::Session;
use zk_discovery::{
    ConsistentHash, FailureRules, LeastUsed, PickError, PreferZone, ProviderOptions, Providers,
    Random, Registration, RoundRobin, Weighted, WhenAllEjected, WhenStale,
};
use zk_sim::wait::{pass, polled, soon};
use zk_sim::{Ensemble, matching};

use crate::{instance, path, registry, told_until};

struct Stage {
    ensemble: Ensemble,
    session: Session,
    held: Vec<Registration<String>>,
    providers: Providers<String>,
}

async fn stage(ids: &[&str], options: ProviderOptions) -> Stage {
    let ensemble = Ensemble::new(3);
    let (session, other) = (ensemble.connect().await, ensemble.connect().await);
    let mut held = Vec::new();
    for id in ids {
        held.push(registry(&other).register(instance(id, "x")).await.unwrap());
    }
    let providers = registry(&session)
        .providers_with("orders", options)
        .unwrap();
    assert!(matches!(providers.pick(&Random), Err(PickError::Loading)));
    soon("it is read", providers.synchronized()).await.unwrap();
    Stage {
        ensemble,
        session,
        held,
        providers,
    }
}

fn picks(providers: &Providers<String>, strategy: &RoundRobin, times: usize) -> String {
    let pick = |_| providers.pick(strategy).unwrap().id().to_owned();
    (0..times).map(pick).collect()
}

#[tokio::test(start_paused = true)]
async fn enabled_instances_are_picked_by_the_strategy() {
    let stage = stage(&["a", "b", "c"], ProviderOptions::default()).await;
    let providers = &stage.providers;
    assert_eq!(picks(providers, &RoundRobin::new(), 7), "abcabca");
    // Held ones count as used until they are dropped.
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(providers.pick(&LeastUsed).unwrap());
    }
    let ids: BTreeSet<_> = held.iter().map(|one| one.id().to_owned()).collect();
    assert_eq!(ids.len(), 3);
    let free = held.pop().unwrap();
    let id = free.id().to_owned();
    // That it is updated changes nothing about it.
    let its = stage.held.iter().find(|one| one.path().name() == Some(&id));
    its.unwrap().set_payload("y".to_owned()).await.unwrap();
    soon("the update is seen", async {
        while providers.instances().get(&id).unwrap().payload() != "y" {
            pass(Duration::from_millis(1)).await;
        }
    })
    .await;
    let ids: BTreeSet<_> = (0..60)
        .map(|_| providers.pick(&LeastUsed).unwrap().id().to_owned())
        .collect();
    assert_eq!(ids.len(), 3, "it is still in use once, as the others are");
    drop(free);
    for _ in 0..20 {
        assert_eq!(providers.pick(&LeastUsed).unwrap().id(), id);
    }
    let same = providers
        .pick(&ConsistentHash::of("k"))
        .unwrap()
        .id()
        .to_owned();
    for _ in 0..20 {
        assert_eq!(providers.pick(&ConsistentHash::of("k")).unwrap().id(), same);
    }
    // One that is not enabled is known and passed over.
    stage.held[1]
        .update(|one| one.set_enabled(false))
        .await
        .unwrap();
    pass(Duration::from_secs(1)).await;
    assert_eq!(picks(providers, &RoundRobin::new(), 4), "acac");
    assert_eq!(providers.instances().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_is_an_error_at_once_or_waited_for() {
    let stage = stage(&["a"], ProviderOptions::default()).await;
    let providers = &stage.providers;
    let second = Duration::from_secs(1);
    assert_eq!(
        providers.pick_timeout(&Random, second).await.unwrap().id(),
        "a"
    );
    stage.held[0].unregister().await.unwrap();
    pass(second).await;
    let error = providers.pick(&Random).unwrap_err();
    assert_eq!(error.to_string(), "service orders has no enabled instance");
    let began = tokio::time::Instant::now();
    let error = providers
        .pick_timeout(&Random, 3 * second)
        .await
        .unwrap_err();
    assert!(matches!(error, PickError::Empty { .. }));
    assert_eq!(began.elapsed(), 3 * second);
    let mut waiting = Box::pin(providers.pick_timeout(&Random, Duration::MAX));
    assert!(polled(1, &mut waiting).await.is_none());
    let other = stage.ensemble.connect().await;
    let _b = registry(&other).register(instance("b", "x")).await.unwrap();
    assert_eq!(soon("there is one", waiting).await.unwrap().id(), "b");
    stage.ensemble.expire(stage.session.id());
    stage.session.lost().await;
    let ended = soon("it ends", providers.pick_timeout(&Random, Duration::MAX)).await;
    assert_eq!(ended.unwrap().id(), "b");
}

/// No server for a minute, and the instances are well.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_ensemble_is_none_of_the_service() {
    let second = Duration::from_secs(1);
    let stage = stage(&["a", "b"], ProviderOptions::default()).await;
    let providers = &stage.providers;
    assert!(!providers.pick(&Random).unwrap().is_stale());
    let mut changes = providers.changes();
    told_until("synchronized", &mut changes).await;
    for server in 1..=3 {
        stage.ensemble.server(server).stop();
    }
    told_until("stale", &mut changes).await;
    for _ in 0..60 {
        pass(second).await;
        let picked = providers.pick(&Random).unwrap();
        assert!(picked.is_stale());
        assert!(!providers.is_synchronized());
    }
    let ended = told_until("ended", &mut changes).await;
    assert_eq!(ended, ["ended: the session is over"]);
    assert!(stage.session.state().is_lost());
    for server in 1..=3 {
        stage.ensemble.server(server).start();
    }
    // The instances had another one, which is over as well.
    for session in stage.ensemble.sessions() {
        stage.ensemble.expire(session);
    }

    // The next session takes over, and until it has read the list, what was known stays.
    let next = stage.ensemble.connect().await;
    let held = stage.ensemble.on(matching::gets(&path("*"))).every().hold();
    let _c = registry(&next).register(instance("c", "x")).await.unwrap();
    providers.follow(&next);
    let known = providers.instances();
    let mut changes = providers.changes_since(&known);
    pass(second).await;
    assert_eq!(picks(providers, &RoundRobin::new(), 2), "ab");
    assert!(providers.pick(&Random).unwrap().is_stale());
    held.release();
    let told = told_until("synchronized", &mut changes).await;
    assert_eq!(told, ["- a x", "- b x", "+ c x", "synchronized"]);
    assert_eq!(picks(providers, &RoundRobin::new(), 2), "cc");
    assert!(!providers.pick(&Random).unwrap().is_stale());
}

#[tokio::test(start_paused = true)]
async fn a_limit_on_what_is_stale_holds_beyond_the_end_of_the_session() {
    let second = Duration::from_secs(1);
    for (policy, is_picked) in [
        (WhenStale::UseFor(60 * second), true),
        (WhenStale::UseFor(20 * second), false),
        (WhenStale::Refuse, false),
    ] {
        let stage = stage(&["a"], ProviderOptions::default().with_stale(policy)).await;
        stage.ensemble.session(stage.session.id()).partition();
        soon("the session is over", stage.session.lost()).await;
        pass(30 * second).await;
        let picked = stage.providers.pick(&Random);
        assert_eq!(picked.is_ok(), is_picked, "{policy:?}");
        assert!(matches!(picked, Ok(_) | Err(PickError::Ended(_))));
    }
}

/// One session may take over from another one that lives, and the end of that is none.
#[tokio::test(start_paused = true)]
async fn another_session_takes_over_from_one_that_lives() {
    let stage = stage(&["a", "b"], ProviderOptions::default()).await;
    let providers = &stage.providers;
    let used = providers.pick(&RoundRobin::new()).unwrap();
    assert_eq!(used.id(), "a");
    let mut changes = providers.changes();
    told_until("synchronized", &mut changes).await;
    let next = stage.ensemble.connect().await;
    providers.follow(&next);
    let told = told_until("synchronized", &mut changes).await;
    assert_eq!(told, ["stale", "synchronized"]);
    stage.ensemble.expire(stage.session.id());
    soon("the first one is over", stage.session.lost()).await;
    stage.held[1].set_payload("y".to_owned()).await.unwrap();
    let told = told_until("~", &mut changes).await;
    assert_eq!(told, ["~ b x -> y"]);
    assert!(providers.is_synchronized());
    // What was in use is so still.
    assert_eq!(providers.pick(&LeastUsed).unwrap().id(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_stale_list_is_used_as_the_policy_says() {
    let second = Duration::from_secs(1);
    for (policy, after_1, after_4) in [
        (WhenStale::Use, true, true),
        (WhenStale::UseFor(3 * second), true, false),
        (WhenStale::Refuse, false, false),
    ] {
        let stage = stage(&["a"], ProviderOptions::default().with_stale(policy)).await;
        let providers = &stage.providers;
        stage.ensemble.session(stage.session.id()).partition();
        soon("the break is noticed", async {
            let mut changes = providers.changes();
            while !matches!(
                changes.next().await,
                Some(zk_discovery::InstanceChange::Stale)
            ) {}
        })
        .await;
        pass(second).await;
        assert_eq!(providers.pick(&Random).is_ok(), after_1, "{policy:?}");
        pass(3 * second).await;
        let pick = providers.pick(&Random);
        assert_eq!(pick.is_ok(), after_4, "{policy:?}");
        if let Err(error) = pick {
            assert!(matches!(error, PickError::Stale { .. }), "{error}");
        }
        stage.ensemble.session(stage.session.id()).heal();
        let healed = providers.pick_timeout(&Random, 10 * second).await;
        assert_eq!(healed.unwrap().id(), "a");
    }
}

#[tokio::test(start_paused = true)]
async fn instances_that_fail_are_set_aside_for_a_time() {
    let second = Duration::from_secs(1);
    let rules = FailureRules::default()
        .with_failures(2)
        .with_within(5 * second)
        .with_ejection_time(10 * second);
    let options = ProviderOptions::default().with_failures(rules);
    let stage = stage(&["a", "b"], options).await;
    let providers = &stage.providers;
    let turn = RoundRobin::new();
    let one = providers.pick(&turn).unwrap();
    assert!(!one.failed());
    assert_eq!(picks(providers, &RoundRobin::new(), 4), "abab");
    assert!(providers.report_failure("a"));
    assert_eq!(picks(providers, &RoundRobin::new(), 4), "bbbb");
    // All of them: the default is to use them all the same.
    assert!(!providers.report_failure("b") && providers.report_failure("b"));
    assert_eq!(picks(providers, &RoundRobin::new(), 4), "abab");
    pass(9 * second).await;
    providers.report_failure("b");
    pass(4 * second).await;
    assert_eq!(picks(providers, &RoundRobin::new(), 4), "abab");
    for _ in 0..9 {
        assert!(!providers.report_failure("unknown"));
    }
}

#[tokio::test(start_paused = true)]
async fn when_all_are_set_aside_a_pick_waits_for_the_first_to_come_back() {
    let rules = FailureRules::default().with_failures(1);
    let options = ProviderOptions::default()
        .with_failures(rules)
        .with_all_ejected(WhenAllEjected::Refuse);
    let stage = stage(&["a", "b"], options).await;
    let providers = &stage.providers;
    providers.report_failure("b");
    // More than what chance adds, so that it is the first.
    pass(Duration::from_secs(8)).await;
    providers.report_failure("a");
    let error = providers.pick(&Random).unwrap_err();
    assert!(matches!(error, PickError::AllEjected { .. }), "{error}");
    let began = tokio::time::Instant::now();
    let picked = providers
        .pick_timeout(&Random, Duration::from_secs(60))
        .await;
    assert_eq!(picked.unwrap().id(), "b");
    // By chance it is up to a quarter longer.
    let waited = began.elapsed().as_secs_f64();
    assert!((21.9..22.0 + 7.6).contains(&waited), "{waited}");
    let error = providers
        .pick_timeout(&RoundRobin::new(), Duration::ZERO)
        .await;
    assert_eq!(error.unwrap().id(), "b");
}

/// The first instance that returns does not get the load of all.
#[tokio::test(start_paused = true)]
async fn while_most_are_set_aside_all_are_picked_from() {
    let rules = FailureRules::default().with_failures(1);
    let options = ProviderOptions::default().with_failures(rules);
    let stage = stage(&["a", "b", "c", "d"], options).await;
    let providers = &stage.providers;
    for (failed, expected) in [
        ("a", "bcdbcd"),
        ("b", "cdcdcd"),
        ("c", "abcdab"),
        ("d", "abcdab"),
    ] {
        assert!(providers.report_failure(failed));
        assert_eq!(picks(providers, &RoundRobin::new(), 6), expected);
    }
    // They come back one by one, and until half of them are there none is preferred.
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        pass(Duration::from_millis(200)).await;
        seen.insert(picks(providers, &RoundRobin::new(), 4));
    }
    let fewest = seen
        .iter()
        .map(|picked| picked.chars().collect::<BTreeSet<_>>().len());
    assert!(fewest.min() >= Some(2), "{seen:?}");
    assert_eq!(picks(providers, &RoundRobin::new(), 4), "abcd");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_registered_anew_begins_without_failures() {
    let rules = FailureRules::default().with_failures(1);
    let options = ProviderOptions::default().with_failures(rules);
    let stage = stage(&["a", "b"], options).await;
    let providers = &stage.providers;
    let turn = RoundRobin::new();
    let (old, late) = (
        providers.pick(&turn).unwrap(),
        providers.pick(&turn).unwrap(),
    );
    assert_eq!((old.id(), late.id()), ("a", "b"));
    assert!(old.failed());
    assert_eq!(picks(providers, &RoundRobin::new(), 2), "bb");
    for one in &stage.held {
        one.unregister().await.unwrap();
    }
    let other = stage.ensemble.connect().await;
    let registry = registry(&other);
    let _held = [
        registry.register(instance("a", "y")).await.unwrap(),
        registry.register(instance("b", "y")).await.unwrap(),
    ];
    pass(Duration::from_secs(1)).await;
    assert_eq!(picks(providers, &RoundRobin::new(), 4), "abab");
    // What was picked before is another one.
    assert!(!late.failed());
    assert_eq!(picks(providers, &RoundRobin::new(), 4), "abab");
}

/// The first letter of an id is its zone, and the payload its weight.
#[tokio::test(start_paused = true)]
async fn zones_and_weights_follow_registrations_updates_and_ejections() {
    let rules = FailureRules::default()
        .with_failures(1)
        .with_max_ejected(50);
    let options = ProviderOptions::default().with_failures(rules);
    let stage = stage(&["a1", "a2", "b1", "b2", "b3", "b4"], options).await;
    let providers = &stage.providers;
    let weight = |one: &zk_discovery::Instance<String>| one.payload().parse().unwrap_or(1);
    let strategy = PreferZone::new(
        |one: &zk_discovery::Instance<String>| one.id().starts_with('a'),
        Weighted::by(weight),
    );
    let picked = || {
        let mut counts = std::collections::BTreeMap::<_, usize>::new();
        for _ in 0..4_000 {
            let picked = providers.pick(&strategy).unwrap();
            *counts.entry(picked.id().to_owned()).or_default() += 1;
        }
        counts
    };
    let ids = |counts: &std::collections::BTreeMap<String, usize>| {
        let ids: Vec<_> = counts.keys().map(String::as_str).collect();
        ids.join(" ")
    };
    assert_eq!(ids(&picked()), "a1 a2");
    // An update changes the weight.
    stage.held[1].set_payload("9".to_owned()).await.unwrap();
    soon("the update is seen", async {
        while providers.instances().get("a2").unwrap().payload() != "9" {
            pass(Duration::from_millis(10)).await;
        }
    })
    .await;
    let counts = picked();
    assert!((3_400..3_800).contains(&counts["a2"]), "{counts:?}");
    // Ejected instances leave the zone, and an empty zone is left.
    assert!(providers.report_failure("a2"));
    assert_eq!(ids(&picked()), "a1");
    assert!(providers.report_failure("a1"));
    assert_eq!(ids(&picked()), "b1 b2 b3 b4");
    // They return.
    pass(Duration::from_secs(60)).await;
    assert_eq!(ids(&picked()), "a1 a2");
    // So it is with a disabled one, and one that is gone.
    stage.held[0]
        .update(|one| one.set_enabled(false))
        .await
        .unwrap();
    stage.held[1].unregister().await.unwrap();
    soon("the changes are seen", async {
        while providers.instances().len() > 5
            || providers.instances().get("a1").unwrap().is_enabled()
        {
            pass(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(ids(&picked()), "b1 b2 b3 b4");
}
