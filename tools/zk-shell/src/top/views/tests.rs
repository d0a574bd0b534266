use super::*;
use crate::top::model::NO_QUORUM;
use crate::top::sample::{Connection, Figures, Missing, Reading, Recipe, Sample, Subtree, Tree};

fn model(readings: Vec<(&str, Reading)>) -> Model {
    let mut model = Model::new(&["a".to_owned(), "b".to_owned()]);
    for (server, reading) in readings {
        model.apply(&Sample {
            at: 10_000,
            server: server.to_owned(),
            asked: 1,
            reading,
        });
    }
    model
}

fn texts(view: View, model: &Model) -> Vec<String> {
    let table = view.table(model).arranged("", view.order());
    let rows = table.rows.iter();
    rows.map(|row| {
        let cells: Vec<_> = row.cells.iter().map(|cell| cell.text.as_str()).collect();
        cells.join("|")
    })
    .collect()
}

fn notes(view: View, model: &Model) -> Vec<String> {
    let table = view.table(model);
    table.notes.iter().map(Note::line).collect()
}

/// The detail of the first row.
fn first_detail(view: View, model: &Model) -> Vec<String> {
    let table = view.table(model);
    view.detail(model, &table.rows[0])
}

fn connection(host: &str, port: u16, session: Option<u64>) -> Connection {
    Connection {
        host: host.to_owned(),
        port,
        session,
        established: Some(4_000),
        timeout: Some(10_000),
        last_operation: Some("PING".to_owned()),
        ..Connection::default()
    }
}

#[test]
fn each_row_has_a_cell_for_each_column() {
    let model = model(vec![
        ("a", Reading::Connections(vec![connection("h", 1, Some(7))])),
        (
            "a",
            Reading::Watches(BTreeMap::from([("/p".to_owned(), vec![7])])),
        ),
        ("", Reading::Tree(tree_of(Some(3)))),
        ("", Reading::Recipe(recipe("/l"))),
    ]);
    for view in View::ALL {
        let table = view.table(&model);
        assert!(!table.rows.is_empty(), "{view:?}");
        for row in &table.rows {
            assert_eq!(row.cells.len(), view.columns().len(), "{view:?}");
        }
        assert!(view.order().column < view.columns().len(), "{view:?}");
    }
}

fn tree_of(compared_with: Option<u64>) -> Tree {
    Tree {
        nodes: 12,
        is_cut: false,
        is_running: false,
        refused: 0,
        failed: 0,
        failure: None,
        compared_with,
        subtrees: vec![Subtree {
            path: "/big".to_owned(),
            children: 3,
            descendants: 9,
            growth: compared_with.map(|_| -2),
            changes: compared_with.map(|_| 4),
        }],
        recipes: Vec::new(),
        more_recipes: 0,
    }
}

fn recipe(path: &str) -> Recipe {
    Recipe {
        path: path.to_owned(),
        kind: RecipeKind::Lock,
        holder: Some("build7/4242".to_owned()),
        session: Some(0x1f),
        since: Some(5_000),
        waiting: 2,
        claimed: None,
        first: vec!["x-lock-0000000001".to_owned()],
        problem: None,
    }
}

#[test]
fn a_recipe_has_its_holder_age_and_waiters() {
    let model = model(vec![("", Reading::Recipe(recipe("/locks/a")))]);
    assert_eq!(
        texts(View::Recipes, &model),
        ["/locks/a|lock|build7/4242|5s|2|-|0s|0x1f"]
    );
    assert_eq!(
        first_detail(View::Recipes, &model),
        ["nodes, in order: 1", "  x-lock-0000000001"]
    );
}

#[test]
fn connections_of_a_host_are_shown_against_the_limit() {
    let limit = |limit| {
        Reading::Figures(Figures {
            max_connections_per_host: Some(limit),
            ..Figures::default()
        })
    };
    let connections = || {
        Reading::Connections(vec![
            connection("h", 1, Some(1)),
            connection("h", 2, Some(2)),
            connection("h", 3, None),
            connection("h", 4, Some(4)),
            connection("other", 1, Some(5)),
        ])
    };
    let known = model(vec![
        ("a", connections()),
        ("b", Reading::Connections(vec![connection("h", 9, Some(1))])),
        ("a", limit(5)),
        ("b", limit(0)),
    ]);
    assert_eq!(
        texts(View::Hosts, &known),
        ["h|5|3|4|5|80%|0", "other|1|1|1|5|20%|0"]
    );
    let table = View::Hosts.table(&known);
    assert_eq!(table.rows[0].emphasis, Emphasis::Alarm);
    assert_eq!(table.rows[1].emphasis, Emphasis::None);
    assert_eq!(first_detail(View::Hosts, &known), ["4 to a", "1 to b"]);
    let unlimited = model(vec![("a", connections()), ("a", limit(0))]);
    assert_eq!(texts(View::Hosts, &unlimited)[0], "h|4|3|4|none|-|0");
    let unknown = model(vec![("a", connections())]);
    assert_eq!(texts(View::Hosts, &unknown)[0], "h|4|3|4|-|-|0");
}

#[test]
fn sessions_have_their_ephemeral_nodes() {
    let connections =
        Reading::Connections(vec![connection("h", 1, Some(7)), connection("h", 2, None)]);
    let without = model(vec![("a", connections.clone())]);
    assert_eq!(
        texts(View::Sessions, &without),
        ["0x7|h|1|a|-|0|-|-|6s|-|10s|PING|0"]
    );
    let dump = BTreeMap::from([(7, vec!["/e".to_owned(), "/f\u{1b}[2J".to_owned()])]);
    let with = model(vec![("a", connections), ("b", Reading::Ephemerals(dump))]);
    assert_eq!(
        texts(View::Sessions, &with),
        ["0x7|h|1|a|-|0|-|2|6s|-|10s|PING|0"]
    );
    assert_eq!(
        first_detail(View::Sessions, &with),
        ["ephemeral nodes: 2", "  /e", "  /f\\u{1b}[2J"]
    );
}

#[test]
fn watches_are_shown_by_path_and_by_session() {
    let watches = |sessions: &[u64]| {
        Reading::Watches(BTreeMap::from([
            ("/p".to_owned(), sessions.to_vec()),
            ("/q".to_owned(), vec![sessions[0]]),
        ]))
    };
    let model = model(vec![("a", watches(&[1, 2])), ("b", watches(&[3]))]);
    assert_eq!(texts(View::Watches, &model), ["/p|3|2", "/q|2|2"]);
    assert_eq!(
        texts(View::Watchers, &model),
        ["0x1|a|2|/p", "0x3|b|2|/p", "0x2|a|1|/p"]
    );
    assert_eq!(
        first_detail(View::Watches, &model),
        ["sessions: 3", "  0x1 at a", "  0x2 at a", "  0x3 at b"]
    );
    assert_eq!(
        first_detail(View::Watchers, &model),
        ["watched paths: 2", "  /p", "  /q"]
    );
}

#[test]
fn a_tree_says_what_it_is_compared_with() {
    let first = model(vec![("", Reading::Tree(tree_of(None)))]);
    assert_eq!(texts(View::Tree, &first), ["/big|9|3|-|-"]);
    assert_eq!(
        notes(View::Tree, &first),
        ["  12 nodes 0s ago; press c again to see what has changed since"]
    );
    let second = model(vec![("", Reading::Tree(tree_of(Some(61_000))))]);
    assert_eq!(texts(View::Tree, &second), ["/big|9|3|-2|4"]);
    assert_eq!(
        notes(View::Tree, &second),
        ["  12 nodes 0s ago; growth and changes since the crawl 1m 1s before"]
    );
    assert_eq!(
        notes(View::Tree, &model(vec![])),
        ["  the tree was not crawled yet: press c"]
    );
}

#[test]
fn what_is_missing_is_said_where_it_is_needed() {
    let missing = |word: Word| {
        Reading::Missing(Missing {
            word: word.as_str().to_owned(),
            remedy: "list it".to_owned(),
        })
    };
    for (word, views) in [
        (Word::Srvr, &[View::Servers][..]),
        (Word::Mntr, &[View::Servers]),
        (Word::Dirs, &[View::Servers]),
        (Word::Conf, &[View::Servers, View::Hosts]),
        (Word::Cons, &[View::Sessions, View::Hosts]),
        (Word::Dump, &[View::Sessions]),
        (Word::Wchp, &[View::Watches, View::Watchers]),
    ] {
        let one = model(vec![("a", missing(word))]);
        let both = model(vec![("a", missing(word)), ("b", missing(word))]);
        let name = word.as_str();
        for view in View::ALL {
            let is_said = |model: &Model, line: String| notes(view, model).contains(&line);
            let expected = views.contains(&view);
            let line = format!("! {name} is not available from a: list it");
            assert_eq!(is_said(&one, line), expected, "{name} {view:?}");
            let line = format!("! {name} is not available from 2 servers: list it");
            assert_eq!(is_said(&both, line), expected, "{name} {view:?}");
        }
    }
}

#[test]
fn a_server_shows_its_state_in_its_role() {
    let role = |role: &str| {
        Reading::Figures(Figures {
            role: Some(role.to_owned()),
            ..Figures::default()
        })
    };
    let mut model = model(vec![
        ("a", role("leader")),
        ("b", role(NO_QUORUM)),
        ("c", Reading::Down("refused".to_owned())),
        (
            "d",
            Reading::Missing(Missing {
                word: "srvr".to_owned(),
                remedy: "list it".to_owned(),
            }),
        ),
    ]);
    let shown = |model: &Model| {
        let rows = View::Servers.table(model).rows;
        rows.into_iter()
            .map(|row| (row.cells[1].text.clone(), row.emphasis))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        shown(&model),
        [
            ("leader".to_owned(), Emphasis::Strong),
            ("no quorum".to_owned(), Emphasis::Alarm),
            ("down 0s".to_owned(), Emphasis::Alarm),
            ("up, role unknown".to_owned(), Emphasis::None),
        ]
    );
    model.tick(30_000);
    let roles: Vec<_> = shown(&model).into_iter().map(|(role, _)| role).collect();
    assert_eq!(
        roles,
        ["leader?", "no quorum?", "down 20s", "up, role unknown"]
    );
    assert!(notes(View::Servers, &model).contains(&"! a: the figures are 20s old".to_owned()));
}

#[test]
fn sizes_are_shown_in_powers_of_1024() {
    for (number, expected) in [
        (0, "0B"),
        (1_023, "1023B"),
        (1_024, "1.0K"),
        (10_240, "10K"),
        (67_108_880, "64M"),
        (u64::MAX, "16777216T"),
    ] {
        assert_eq!(bytes(Some(number)).text, expected);
    }
    assert_eq!(bytes(None), Cell::unknown());
}

#[test]
fn sessions_with_the_same_id_at_two_servers_have_rows_of_their_own() {
    let connections = |port| Reading::Connections(vec![connection("h", port, Some(7))]);
    let moved = model(vec![("a", connections(1)), ("b", connections(2))]);
    let watches = |path: &str| Reading::Watches(BTreeMap::from([(path.to_owned(), vec![7])]));
    let watching = model(vec![("a", watches("/p")), ("b", watches("/q"))]);
    for (view, model) in [(View::Sessions, &moved), (View::Watchers, &watching)] {
        let table = view.table(model);
        let places = table.rows.iter().map(|row| table.position(&table.id(row)));
        assert_eq!(places.collect::<Vec<_>>(), [Some(0), Some(1)], "{view:?}");
    }
    // No row has an id that is empty.
    for view in View::ALL {
        let has_id = view.columns().iter().any(|column| column.is_in_id);
        assert!(has_id, "{view:?}");
    }
}

#[test]
fn recipes_say_what_was_not_read_and_that_clocks_differ() {
    let failed = |path: &str| Recipe {
        kind: RecipeKind::Unknown,
        holder: None,
        since: None,
        problem: Some("timed out".to_owned()),
        ..recipe(path)
    };
    let ahead = Recipe {
        since: Some(17_000),
        ..recipe("/l")
    };
    let found = Tree {
        more_recipes: 3,
        ..tree_of(None)
    };
    let mut model = model(vec![
        ("", Reading::Recipe(ahead)),
        ("", Reading::Recipe(failed("/a"))),
        ("", Reading::Recipe(failed("/b"))),
        ("", Reading::Tree(found)),
    ]);
    model.tick(12_000);
    assert_eq!(
        texts(View::Recipes, &model),
        [
            "/l|lock|build7/4242|0s|2|-|2s|0x1f",
            "/a|unknown|-|-|-|-|2s|0x1f",
            "/b|unknown|-|-|-|-|2s|0x1f",
        ]
    );
    assert_eq!(
        notes(View::Recipes, &model),
        [
            "! /a could not be read, nor 1 other: timed out",
            "  the crawl found 3 more: name those to be shown with --watch-path",
            "! the clock of the servers is 7s ahead of the one here: ages are too low by that",
        ]
    );
}

#[test]
fn a_crawl_says_what_it_could_not_count_and_why() {
    let partial = Tree {
        refused: 2,
        failed: 3,
        failure: Some("list /a: timed out".to_owned()),
        ..tree_of(None)
    };
    assert_eq!(
        notes(View::Tree, &model(vec![("", Reading::Tree(partial))])),
        [
            "! 12 nodes 0s ago; the counts are too low, and compared with no other crawl",
            "! the children of 3 nodes could not be listed: press c to try again; first list /a: timed out",
            "! this session may not list the children of 2 nodes: set ZK_AUTH",
        ]
    );
}
