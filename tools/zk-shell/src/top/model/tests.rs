use super::*;

fn sample(at: u64, server: &str, reading: Reading) -> Sample {
    Sample {
        at,
        server: server.to_owned(),
        asked: at / 500,
        reading,
    }
}

fn figures(role: &str, received: u64, zxid: u64) -> Reading {
    Reading::Figures(Figures {
        version: Some("3.9.6".to_owned()),
        role: Some(role.to_owned()),
        received: Some(received),
        zxid: Some(zxid),
        ..Figures::default()
    })
}

fn model(samples: &[Sample]) -> Model {
    let mut model = Model::new(&["a".to_owned(), "b".to_owned()]);
    for sample in samples {
        model.apply(sample);
    }
    model
}

fn events(model: &Model) -> Vec<&str> {
    model
        .events
        .iter()
        .map(|event| event.text.as_str())
        .collect()
}

#[test]
fn rates_are_differences_over_time() {
    let mut samples = vec![sample(1_000, "a", figures("leader", 100, 1))];
    assert_eq!(model(&samples).servers["a"].rate, None);
    // A second word at the same time does not count.
    samples.push(sample(1_005, "a", figures("leader", 400, 1)));
    assert_eq!(model(&samples).servers["a"].rate, None);
    samples.push(sample(3_000, "a", figures("leader", 300, 1)));
    assert_eq!(model(&samples).servers["a"].rate, Some(100.0));
    // A restarted server counts from zero.
    samples.push(sample(4_000, "a", figures("leader", 10, 1)));
    assert_eq!(model(&samples).servers["a"].rate, None);
    samples.push(sample(5_000, "a", figures("leader", 60, 1)));
    let server = &model(&samples).servers["a"];
    let rates = Vec::from(server.rates.clone());
    assert_eq!(
        (server.rate, rates),
        (Some(50.0), vec![(3_000, 100), (5_000, 50)])
    );
    let rates = (2..=7).map(|second| server.rate_in(second));
    assert_eq!(
        rates.collect::<Vec<_>>(),
        [None, Some(100), Some(100), Some(50), Some(50), None]
    );
}

#[test]
fn own_requests_are_a_rate_over_some_seconds() {
    let samples: Vec<_> = (0..8)
        .map(|second| sample(second * 1_000, "a", figures("leader", second, 1)))
        .collect();
    assert_eq!(model(&samples).servers["a"].own_rate, Some(2.0));
}

#[test]
fn a_killed_leader_is_down_and_the_next_one_leads() {
    let down = || Reading::Down("connection refused".to_owned());
    let mut model = model(&[
        sample(1_000, "a", figures("leader", 1, 0x1_0000_0001)),
        sample(1_000, "b", figures("follower", 1, 0x1_0000_0001)),
        sample(2_000, "a", down()),
        sample(3_000, "a", down()),
        sample(4_000, "b", figures("leader", 2, 0x2_0000_0001)),
    ]);
    let server = &model.servers["a"];
    assert_eq!(server.down.as_ref().map(|down| down.since), Some(2_000));
    assert_eq!(
        (&server.figures.role, server.figures.version.as_deref()),
        (&None, Some("3.9.6"))
    );
    assert_eq!(model.lag("a"), None);
    assert_eq!(
        events(&model),
        [
            "the leader is a",
            "a is down: connection refused",
            "there was no leader for 2s",
            "the leader is b, and no longer a",
        ]
    );
    model.apply(&sample(62_000, "a", figures("follower", 1, 0x2_0000_0000)));
    assert_eq!(events(&model)[4], "a answers again after 1m 0s");
    assert_eq!(model.servers["a"].down, None);
    assert_eq!(model.lag("a"), Some(Lag::Transactions(1)));
}

#[test]
fn lag_is_measured_against_the_leader_at_that_time() {
    let mut samples = vec![
        sample(1_000, "b", figures("leader", 1, 0x1_0000_0010)),
        sample(1_001, "a", figures("follower", 1, 0x1_0000_000e)),
        // The leader is asked again before the follower is.
        sample(2_000, "b", figures("leader", 1, 0x1_0000_0100)),
    ];
    assert_eq!(model(&samples).lag("a"), Some(Lag::Transactions(2)));
    assert_eq!(model(&samples).lag("b"), Some(Lag::Transactions(0)));
    samples.push(sample(2_001, "a", figures("follower", 1, 0x1_0000_0101)));
    assert_eq!(model(&samples).lag("a"), Some(Lag::Transactions(0)));
    samples.push(sample(3_000, "b", figures("leader", 1, 0x2_0000_0001)));
    samples.push(sample(3_001, "a", figures("follower", 1, 0x1_0000_0101)));
    assert_eq!(model(&samples).lag("a"), Some(Lag::OtherEpoch));
    assert_eq!(model(&samples).lag("c"), None);
}

#[test]
fn silence_makes_figures_stale() {
    let mut model = model(&[sample(1_000, "a", figures("leader", 1, 1))]);
    for (now, expected) in [(2_000, None), (5_999, None), (6_000, Some(5_000))] {
        model.tick(now);
        assert_eq!(model.servers["a"].stale_for(model.now), expected, "{now}");
    }
    // Time does not run backwards.
    model.tick(1_000);
    assert_eq!(model.now, 6_000);
    model.apply(&sample(7_000, "a", Reading::Down("gone".to_owned())));
    assert_eq!(model.servers["a"].stale_for(60_000), None);
}

#[test]
fn what_is_missing_is_known_until_it_is_answered() {
    let missing = |word: &str| {
        Reading::Missing(Missing {
            word: word.to_owned(),
            remedy: "list it".to_owned(),
        })
    };
    let words = ["srvr", "mntr", "conf", "dirs", "cons", "wchp", "dump"];
    let refused: Vec<_> = words
        .iter()
        .map(|word| sample(1, "a", missing(word)))
        .collect();
    let mut model = model(&refused);
    assert_eq!(model.servers["a"].missing.len(), words.len());
    let answers = [
        figures("leader", 1, 1),
        Reading::Figures(Figures {
            watches: Some(1),
            ..Figures::default()
        }),
        Reading::Figures(Figures {
            max_connections_per_host: Some(1),
            ..Figures::default()
        }),
        Reading::Figures(Figures {
            log_bytes: Some(1),
            ..Figures::default()
        }),
        Reading::Connections(Vec::new()),
        Reading::Watches(BTreeMap::new()),
        Reading::Ephemerals(BTreeMap::new()),
    ];
    for (at, (word, answer)) in words.into_iter().zip(answers).enumerate() {
        model.apply(&sample(2, "a", answer));
        let missing = &model.servers["a"].missing;
        assert!(!missing.contains_key(word), "{word}");
        assert_eq!(missing.len(), words.len() - at - 1, "{word}");
    }
}

#[test]
fn a_server_that_went_down_lacks_no_words() {
    // A word that is cut off by the end of the server looks like one that it does not know.
    let missing = Reading::Missing(Missing {
        word: "mntr".to_owned(),
        remedy: "list it".to_owned(),
    });
    let mut model = model(&[sample(1, "a", missing)]);
    assert_eq!(model.servers["a"].missing.len(), 1);
    model.apply(&sample(2, "a", Reading::Down("refused".to_owned())));
    assert!(model.servers["a"].missing.is_empty());
}

#[test]
fn rates_of_connections_are_those_of_the_same_connection() {
    let connection = |port, received| Connection {
        host: "h".to_owned(),
        port,
        received,
        ..Connection::default()
    };
    let model = model(&[
        sample(
            1_000,
            "a",
            Reading::Connections(vec![connection(1, 10), connection(2, 10)]),
        ),
        sample(
            6_000,
            "a",
            Reading::Connections(vec![connection(1, 60), connection(3, 99)]),
        ),
    ]);
    let connections = model.servers["a"].connections.iter().flatten();
    let rates: Vec<_> = connections
        .map(|rated| (rated.connection.port, rated.rate))
        .collect();
    assert_eq!(rates, [(1, Some(10.0)), (3, None)]);
}

#[test]
fn nodes_that_can_be_read_again_end_the_problem() {
    let mut model = model(&[sample(1, "", Reading::NoSession("no quorum".to_owned()))]);
    assert_eq!(model.no_session.as_deref(), Some("no quorum"));
    model.apply(&sample(2, "", Reading::Recipe(lock("/l"))));
    assert_eq!(
        (model.no_session, model.recipes.len(), model.servers.len()),
        (None, 1, 2)
    );
}

#[test]
fn a_report_is_complete_when_all_of_it_was_read() {
    let missing = |word: &str| {
        Reading::Missing(Missing {
            word: word.to_owned(),
            remedy: String::new(),
        })
    };
    let words = [Word::Srvr, Word::Wchp];
    let is_complete = |model: &Model, paths: &[&str], has_tree| {
        let paths: Vec<_> = paths.iter().map(|path| (*path).to_owned()).collect();
        model.is_complete(&words, &paths, has_tree)
    };
    let mut model = Model::new(&["a".to_owned()]);
    for reading in [figures("leader", 1, 1), missing("wchp")] {
        assert!(!is_complete(&model, &[], false));
        model.apply(&sample(1_000, "a", reading));
    }
    // A rate is missing.
    assert!(!is_complete(&model, &[], false));
    model.apply(&sample(2_000, "a", figures("leader", 2, 1)));
    assert!(is_complete(&model, &[], false));
    assert!(!is_complete(&model, &["/l"], false));
    assert!(!is_complete(&model, &[], true));
    model.apply(&sample(2_000, "", Reading::NoSession("refused".to_owned())));
    assert!(is_complete(&model, &["/l"], true));
    let mut down = Model::new(&["a".to_owned()]);
    down.apply(&sample(1, "a", Reading::Down("refused".to_owned())));
    assert!(is_complete(&down, &[], false));
    down.apply(&sample(1, "a", figures(NO_QUORUM, 1, 1)));
    assert!(is_complete(&down, &[], false));
}

#[test]
fn events_and_histories_are_bounded() {
    let mut model = Model::default();
    for at in 0..2_000 {
        let reading = if at % 2 == 0 {
            Reading::Down("gone".to_owned())
        } else {
            figures("follower", at, at)
        };
        model.apply(&sample(at * 1_000, "a", reading));
        model.apply(&sample(at * 1_000, "b", figures("follower", at, at)));
    }
    assert_eq!(model.events.len(), EVENTS);
    assert_eq!(model.servers["b"].rates.len(), RATES);
    assert_eq!(model.servers["b"].zxids.len(), ZXIDS);
}

/// A lock that is held, with two waiters.
fn lock(path: &str) -> Recipe {
    Recipe {
        path: path.to_owned(),
        kind: RecipeKind::Lock,
        holder: Some("build7".to_owned()),
        session: None,
        since: Some(500),
        waiting: 2,
        claimed: None,
        first: Vec::new(),
        problem: None,
    }
}

#[test]
fn a_recipe_that_cannot_be_read_is_shown_as_it_was_read_last() {
    let failed = |path: &str| {
        Reading::Recipe(Recipe {
            kind: RecipeKind::Unknown,
            holder: None,
            waiting: 0,
            problem: Some("timed out".to_owned()),
            ..lock(path)
        })
    };
    let mut model = model(&[
        sample(1_000, "", Reading::Recipe(lock("/l"))),
        sample(7_000, "", failed("/l")),
        sample(7_000, "", failed("/new")),
    ]);
    let (read_at, known) = &model.recipes["/l"];
    let holder = known.holder.as_deref();
    assert_eq!(
        (*read_at, holder, known.waiting),
        (1_000, Some("build7"), 2)
    );
    assert_eq!(known.problem.as_deref(), Some("timed out"));
    assert_eq!(model.recipes["/new"].1.kind, RecipeKind::Unknown);
    model.apply(&sample(8_000, "", Reading::Recipe(lock("/l"))));
    let (read_at, known) = &model.recipes["/l"];
    assert_eq!((*read_at, known.problem.as_ref()), (8_000, None));
}

#[test]
fn a_recipe_that_is_gone_is_dropped_and_not_waited_for() {
    let mut model = Model::new(&[]);
    let found = |paths: &[&str]| Tree {
        recipes: paths.iter().map(|path| (*path).to_owned()).collect(),
        ..tree(false)
    };
    model.apply(&sample(1_000, "", Reading::Tree(found(&["/a", "/b"]))));
    model.apply(&sample(1_000, "", Reading::Recipe(lock("/a"))));
    assert!(!model.is_complete(&[], &[], true));
    model.apply(&sample(2_000, "", Reading::RecipeGone("/b".to_owned())));
    assert!(model.is_complete(&[], &[], true));
    model.apply(&sample(3_000, "", Reading::RecipeGone("/a".to_owned())));
    assert!(model.recipes.is_empty());
}

fn tree(is_running: bool) -> Tree {
    Tree {
        nodes: 7,
        is_cut: false,
        is_running,
        refused: 0,
        failed: 0,
        failure: None,
        compared_with: None,
        subtrees: Vec::new(),
        recipes: Vec::new(),
        more_recipes: 0,
    }
}

#[test]
fn the_last_crawl_is_shown_while_the_next_one_runs() {
    let mut model = model(&[
        sample(1_000, "", Reading::Tree(tree(false))),
        sample(9_000, "", Reading::Tree(tree(true))),
    ]);
    assert_eq!(model.tree.as_ref().map(|(at, _)| *at), Some(1_000));
    assert_eq!(model.crawling, Some(7));
    assert!(!model.is_complete(&[], &[], true));
    model.apply(&sample(10_000, "", Reading::Tree(tree(false))));
    assert_eq!(model.tree.as_ref().map(|(at, _)| *at), Some(10_000));
    assert_eq!(model.crawling, None);
}

#[test]
fn the_time_without_a_leader_is_counted() {
    let mut model = model(&[]);
    assert_eq!(model.leadership(), Leadership::NeverSeen);
    model.apply(&sample(1_000, "a", figures("leader", 1, 0x1_0000_0001)));
    assert_eq!(model.leadership(), Leadership::Leader("a"));
    let no_quorum = Figures {
        role: Some(NO_QUORUM.to_owned()),
        ..Figures::default()
    };
    model.apply(&sample(2_000, "a", Reading::Figures(no_quorum)));
    model.apply(&sample(3_000, "b", Reading::Down("refused".to_owned())));
    model.tick(4_000);
    assert_eq!(model.leadership(), Leadership::LostFor(2_000));
    // Of a server that does not serve only what is still true is shown.
    let figures_of_a = &model.servers["a"].figures;
    assert_eq!(figures_of_a.received, None);
    assert_eq!(figures_of_a.version.as_deref(), Some("3.9.6"));
    model.apply(&sample(5_000, "a", figures("leader", 1, 0x2_0000_0001)));
    assert_eq!(model.leadership(), Leadership::Leader("a"));
    // The old leader hangs, and its last figures still say that it leads.
    model.apply(&sample(6_000, "b", figures("leader", 1, 0x3_0000_0001)));
    assert_eq!(model.leadership(), Leadership::Leader("b"));
    model.apply(&sample(7_000, "a", figures("leader", 1, 0x2_0000_0001)));
    assert_eq!(model.leadership(), Leadership::Leader("b"));
    assert_eq!(
        events(&model),
        [
            "the leader is a",
            "a does not serve: it has no quorum",
            "b is down: refused",
            "there was no leader for 3s",
            "the leader is a again",
            "b answers again after 3s",
            "the leader is b, and no longer a",
        ]
    );
}
