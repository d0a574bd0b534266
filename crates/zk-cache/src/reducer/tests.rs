use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A tree on a server that numbers its transactions, and what is on its way to and from one client.
#[derive(Debug, Default)]
struct Server {
    nodes: BTreeMap<String, Stat>,
    zxid: i64,
    is_watched: bool,
    asked: VecDeque<Ask>,
    answers: VecDeque<(Ask, Answer)>,
    notices: VecDeque<(NodePath, WatchEvent)>,
}

impl Server {
    fn exists(&self, path: &str) -> bool {
        self.nodes.contains_key(path)
    }

    fn names(&self, path: &str) -> Vec<String> {
        let below = format!("{path}/");
        let names = self.nodes.keys().filter_map(|it| it.strip_prefix(&below));
        let names = names.filter(|name| !name.contains('/'));
        names.map(str::to_owned).collect()
    }

    fn tell(&mut self, path: &str, event: WatchEvent) {
        if self.is_watched {
            self.notices.push_back((at(path), event));
        }
    }

    fn of_parent(&mut self, path: &str, change: i32) {
        let (parent, _) = path.rsplit_once('/').unwrap();
        let zxid = self.zxid;
        if let Some(stat) = self.nodes.get_mut(parent) {
            stat.pzxid = zxid;
            stat.cversion += 1;
            stat.num_children = stat.num_children.checked_add_signed(change).unwrap();
        }
    }

    fn create(&mut self, path: &str) {
        let (parent, _) = path.rsplit_once('/').unwrap();
        if self.exists(path) || !(path == ROOT || self.exists(parent)) {
            return;
        }
        let mut stat = Stat::zeroed();
        (stat.czxid, stat.mzxid, stat.pzxid) = (self.zxid, self.zxid, self.zxid);
        self.nodes.insert(path.to_owned(), stat);
        self.of_parent(path, 1);
        self.tell(path, WatchEvent::Created);
    }

    fn delete(&mut self, path: &str) {
        let below = format!("{path}/");
        let all = self.nodes.keys().rev();
        let all = all.filter(|it| *it == path || it.starts_with(&below));
        for gone in all.cloned().collect::<Vec<_>>() {
            self.nodes.remove(&gone);
            self.of_parent(&gone, -1);
            self.tell(&gone, WatchEvent::Deleted);
        }
    }

    fn set(&mut self, path: &str) {
        let zxid = self.zxid;
        if let Some(stat) = self.nodes.get_mut(path) {
            stat.mzxid = zxid;
            stat.version += 1;
            self.tell(path, WatchEvent::DataChanged);
        }
    }

    /// Answers the request that came first.
    fn serve(&mut self) {
        let Some(ask) = self.asked.pop_front() else {
            return;
        };
        let stat = self.nodes.get(ask.path.as_str()).copied();
        let answer = match (ask.what, stat) {
            (What::Sync, _) => Answer::Synced,
            (_, None) => Answer::Missing,
            (What::Stat, Some(stat)) => Answer::Stat(stat),
            (What::Data, Some(stat)) => Answer::Data(data(&stat), stat),
            (What::Children, Some(stat)) => Answer::Children(self.names(ask.path.as_str()), stat),
        };
        self.answers.push_back((ask, answer));
    }

    fn forget(&mut self) {
        self.asked.clear();
        self.answers.clear();
        self.notices.clear();
    }
}

/// The data of a node is different after each change.
fn data(stat: &Stat) -> Vec<u8> {
    stat.mzxid.to_string().into_bytes()
}

fn at(path: &str) -> NodePath {
    path.parse().unwrap()
}

#[derive(Debug, Clone)]
enum Act {
    Create(usize),
    Delete(usize),
    Set(usize),
    /// Deletes and creates in one transaction.
    Renew(usize),
    Ask,
    Serve,
    Notice,
    Answer,
    Fail,
    Break,
    Watch,
    Overflow,
}

fn acts() -> impl Strategy<Value = Act> {
    let path = 0..PATHS.len();
    prop_oneof![
        3 => path.clone().prop_map(Act::Create),
        1 => path.clone().prop_map(Act::Delete),
        2 => path.clone().prop_map(Act::Set),
        2 => path.prop_map(Act::Renew),
        6 => Just(Act::Ask),
        6 => Just(Act::Serve),
        4 => Just(Act::Notice),
        6 => Just(Act::Answer),
        1 => Just(Act::Fail),
        1 => Just(Act::Break),
        2 => Just(Act::Watch),
        1 => Just(Act::Overflow),
    ]
}

/// A cache of the server, and everything it told, played over what there was.
struct Client {
    server: Server,
    reducer: Reducer,
    played: BTreeMap<String, Node>,
    newest: BTreeMap<String, i64>,
}

impl Client {
    fn new() -> Self {
        Self {
            server: Server::default(),
            reducer: Reducer::new(at(ROOT), &CacheOptions::default(), None),
            played: BTreeMap::new(),
            newest: BTreeMap::new(),
        }
    }

    fn act(&mut self, act: &Act) {
        let server = &mut self.server;
        match *act {
            Act::Create(path) => {
                server.zxid += 1;
                server.create(PATHS[path]);
            }
            Act::Delete(path) => {
                server.zxid += 1;
                server.delete(PATHS[path]);
            }
            Act::Set(path) => {
                server.zxid += 1;
                server.set(PATHS[path]);
            }
            Act::Renew(path) => {
                server.zxid += 1;
                server.delete(PATHS[path]);
                server.create(PATHS[path]);
            }
            Act::Ask => server.asked.extend(self.reducer.next()),
            Act::Serve => server.serve(),
            Act::Notice => {
                if let Some((path, event)) = server.notices.pop_front() {
                    self.reducer.changed(&path, event);
                }
            }
            Act::Answer => {
                if let Some((ask, answer)) = server.answers.pop_front() {
                    self.reducer.answered(&ask, answer);
                }
            }
            Act::Fail => {
                if let Some((ask, _)) = server.answers.pop_front() {
                    self.reducer.answered(&ask, Answer::Failed);
                }
            }
            Act::Break => {
                server.forget();
                server.is_watched = false;
                self.reducer.stale();
            }
            Act::Watch if server.is_watched => {}
            Act::Watch => {
                server.is_watched = true;
                self.reducer.resynchronize();
            }
            Act::Overflow if server.is_watched => {
                server.notices.clear();
                self.reducer.resynchronize();
            }
            Act::Overflow => {}
        }
        if !self.server.is_watched {
            assert_eq!(self.reducer.next(), None, "it reads without a watch");
        }
        self.play();
    }

    fn play(&mut self) {
        let Some((events, snapshot)) = self.reducer.flush() else {
            return;
        };
        for event in events {
            let (path, zxid) = match &event {
                Event::Created(new) => {
                    assert!(
                        self.played
                            .insert(new.path().to_string(), new.clone())
                            .is_none(),
                        "{event:?}"
                    );
                    (new.path(), new.stat().mzxid)
                }
                Event::Changed { old, new } => {
                    let before = self.played.insert(new.path().to_string(), new.clone());
                    let before = before.unwrap_or_else(|| panic!("{event:?}"));
                    assert!(
                        before.says_the_same(old) && before.is_same(new),
                        "{event:?}"
                    );
                    (new.path(), new.stat().mzxid)
                }
                Event::Deleted(old) => {
                    let before = self.played.remove(old.path().as_str());
                    let before = before.unwrap_or_else(|| panic!("{event:?}"));
                    assert!(
                        before.is_same(old) && before.says_the_same(old),
                        "{event:?}"
                    );
                    continue;
                }
                _ => continue,
            };
            let before = self.newest.insert(path.to_string(), zxid);
            assert!(before < Some(zxid), "{event:?} after {before:?}");
        }
        let shown: Vec<_> = snapshot
            .nodes()
            .map(|node| node.path().to_string())
            .collect();
        assert_eq!(
            shown.len(),
            snapshot.len(),
            "a node without a parent: {shown:?}"
        );
        assert!(
            self.played
                .keys()
                .eq(shown.iter().collect::<std::collections::BTreeSet<_>>())
        );
    }

    /// Lets everything that is on its way arrive.
    fn settle(&mut self) {
        self.act(&Act::Watch);
        for _ in 0..10_000 {
            if self.reducer.has_failed() {
                self.reducer.try_again();
            }
            for act in [Act::Notice, Act::Ask, Act::Serve, Act::Answer] {
                self.act(&act);
            }
            let server = &self.server;
            let is_quiet = server.asked.is_empty() && server.answers.is_empty();
            if is_quiet && server.notices.is_empty() && self.reducer.jobs.is_empty() {
                return;
            }
        }
        panic!("it never rests: {:?}", self.reducer.jobs);
    }

    fn judge(&self) {
        let now = &self.reducer.now;
        assert_eq!(now.state, State::Synchronized);
        let here = now.store.below(&now.root);
        let here: BTreeMap<_, _> = here
            .map(|node| {
                let stat = node.stat();
                (
                    node.path().to_string(),
                    (stat.czxid, stat.mzxid, node.data().unwrap().to_vec()),
                )
            })
            .collect();
        let there = self.server.nodes.iter();
        let there: BTreeMap<_, _> = there
            .map(|(path, stat)| (path.clone(), (stat.czxid, stat.mzxid, data(stat))))
            .collect();
        assert_eq!(here, there);
        let shown = self
            .server
            .nodes
            .values()
            .flat_map(|it| [it.czxid, it.mzxid])
            .max();
        assert!(now.synced_at >= shown, "{:?} < {shown:?}", now.synced_at);
        // What was read of the children is of a certain list, so that nothing is missed after the next break.
        for (path, mark) in &self.reducer.listed {
            let stat = self.server.nodes[path.as_str()];
            let known = now.store.children(path).count();
            if *mark == Mark::of(&stat) {
                assert_eq!(known, usize::try_from(stat.num_children).unwrap());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    // covers: K4
    // against traps T1 T4 X13
    #[test]
    fn whatever_comes_in_whichever_order_the_cache_ends_up_with_what_there_is(
        acts in proptest::collection::vec(acts(), 1..250)
    ) {
        let mut client = Client::new();
        for act in &acts {
            client.act(act);
        }
        client.settle();
        client.judge();
        // And once more, after a break in which nothing happens and one in which everything changes.
        client.act(&Act::Break);
        client.settle();
        client.judge();
        client.act(&Act::Break);
        for path in 0..PATHS.len() {
            client.act(&Act::Renew(path));
        }
        client.settle();
        client.judge();
    }
}

/// Every order of a few changes, each read at every moment there is.
// covers: K4
// against traps T3
#[test]
fn all_short_histories_are_told_right() {
    let changes = [
        Act::Create(0),
        Act::Delete(0),
        Act::Renew(0),
        Act::Create(1),
        Act::Set(1),
        Act::Renew(1),
        Act::Break,
        Act::Overflow,
    ];
    let mut histories = 0;
    for first in &changes {
        for second in &changes {
            for third in &changes {
                // How far reads go between the changes: each pause is so many steps of asking, serving and answering.
                for pauses in 0..64 {
                    let mut client = Client::new();
                    client.act(&Act::Create(0));
                    client.act(&Act::Create(1));
                    client.act(&Act::Watch);
                    for (place, change) in [first, second, third].into_iter().enumerate() {
                        for _ in 0..(pauses >> (2 * place)) & 3 {
                            client.act(&Act::Notice);
                            client.act(&Act::Ask);
                            client.act(&Act::Serve);
                            client.act(&Act::Answer);
                        }
                        client.act(&Act::Watch);
                        client.act(&Act::Ask);
                        client.act(change);
                    }
                    client.settle();
                    client.judge();
                    histories += 1;
                }
            }
        }
    }
    assert_eq!(histories, 8 * 8 * 8 * 64);
}

/// Looks at a quiet tree again: what does it cost?
// covers: K4
#[test]
fn a_break_in_which_nothing_happens_costs_one_look_at_each_node_and_tells_nothing() {
    let mut client = Client::new();
    for path in 0..PATHS.len() {
        client.act(&Act::Create(path));
    }
    client.settle();
    client.act(&Act::Break);
    client.act(&Act::Watch);
    let mut asked = Vec::new();
    while let Some(ask) = client.reducer.next() {
        asked.push(ask.what);
        client.server.asked.push_back(ask);
        client.server.serve();
        let (ask, answer) = client.server.answers.pop_front().unwrap();
        client.reducer.answered(&ask, answer);
    }
    let (events, _) = client.reducer.flush().unwrap();
    assert!(
        matches!(events[..], [Event::Synchronized { .. }]),
        "{events:?}"
    );
    assert_eq!(asked.len(), 1 + PATHS.len());
    assert!(
        asked[1..].iter().all(|what| *what == What::Stat),
        "{asked:?}"
    );
}

// against traps X12
#[test]
fn a_node_with_too_many_children_is_told_and_not_listed() {
    let options = CacheOptions::default().with_most_children(2);
    let mut client = Client::new();
    client.reducer = Reducer::new(at(ROOT), &options, None);
    for path in [0, 1, 2, 3] {
        client.act(&Act::Create(path));
    }
    client.settle();
    let gaps: Vec<_> = client.reducer.now.gaps.iter().collect();
    assert_eq!(
        gaps,
        [(&at(ROOT), &Gap::TooManyChildren { count: 3, most: 2 })]
    );
    assert_eq!(client.reducer.now.store.len(), 1);
    // With fewer, they are looked at: a change of the children alone is not told of the parent.
    client.act(&Act::Delete(3));
    client.act(&Act::Break);
    client.settle();
    assert_eq!(client.reducer.now.gaps.size(), 0);
    client.judge();
}

#[test]
fn a_read_that_the_server_refuses_is_made_once() {
    let mut client = Client::new();
    for path in [0, 1] {
        client.act(&Act::Create(path));
    }
    client.act(&Act::Watch);
    let mut asked = 0;
    while let Some(ask) = client.reducer.next() {
        asked += 1;
        assert!(asked < 20, "it asks for ever");
        client.server.asked.push_back(ask);
        client.server.serve();
        let (ask, answer) = client.server.answers.pop_front().unwrap();
        let is_secret = ask.path == at(PATHS[1]);
        let refused = Answer::Refused(ErrorKind::NoAuth);
        client
            .reducer
            .answered(&ask, if is_secret { refused } else { answer });
    }
    let now = &client.reducer.now;
    assert_eq!(now.state, State::Synchronized);
    assert_eq!(now.store.get(&at(PATHS[1])), None);
    assert_eq!(
        now.gaps.get(&at(PATHS[1])),
        Some(&Gap::Node(ErrorKind::NoAuth))
    );
    assert_eq!(
        asked, 4,
        "sync, the root, its children, and the one that is refused"
    );
    // Once it may be read, it is found at the next look.
    client.act(&Act::Break);
    client.settle();
    client.judge();
    assert_eq!(client.reducer.now.gaps.size(), 0);
}

/// Walks through everything, while the server refuses to tell of `secret`.
fn settle_without(client: &mut Client, secret: &str) {
    client.act(&Act::Watch);
    for _ in 0..100 {
        client.act(&Act::Notice);
        client.act(&Act::Ask);
        client.act(&Act::Serve);
        for (ask, answer) in &mut client.server.answers {
            if ask.path == at(secret) && ask.what != What::Sync {
                *answer = Answer::Refused(ErrorKind::NoAuth);
            }
        }
        client.act(&Act::Answer);
    }
    assert_eq!(client.reducer.now.state, State::Synchronized);
}

// covers: K3
#[test]
fn what_could_not_be_read_is_missing_no_longer_when_it_is_gone() {
    // The node that is refused, the one that goes with it, and whether there are others beside that.
    for (secret, goes, beside) in [
        ("/t/a", 1, true),
        ("/t/a", 1, false),
        ("/t/a/1", 1, true),
        ("/t/a/1", 1, false),
        ("/t/a/1", 0, true),
    ] {
        let mut client = Client::new();
        for path in [0, 1, 4] {
            client.act(&Act::Create(path));
        }
        if beside {
            client.act(&Act::Create(2));
        }
        settle_without(&mut client, secret);
        let gap = client.reducer.now.gaps.get(&at(secret));
        assert_eq!(gap, Some(&Gap::Node(ErrorKind::NoAuth)));
        client.act(&Act::Break);
        client.act(&Act::Delete(goes));
        client.settle();
        let left: Vec<_> = client.reducer.now.gaps.iter().collect();
        assert_eq!(left, [], "{secret} went with {}", PATHS[goes]);
        client.judge();
    }
}

// covers: K3
#[test]
fn children_that_cannot_be_listed_are_looked_for_again_when_the_node_changes() {
    let mut client = Client::new();
    for path in [0, 1, 4] {
        client.act(&Act::Create(path));
    }
    client.act(&Act::Watch);
    for _ in 0..100 {
        client.act(&Act::Ask);
        client.act(&Act::Serve);
        for (ask, answer) in &mut client.server.answers {
            if ask.path == at(PATHS[1]) && ask.what == What::Children {
                *answer = Answer::Refused(ErrorKind::NoAuth);
            }
        }
        client.act(&Act::Answer);
    }
    let now = &client.reducer.now;
    assert_eq!(now.state, State::Synchronized);
    assert_eq!(
        now.gaps.get(&at(PATHS[1])),
        Some(&Gap::Children(ErrorKind::NoAuth))
    );
    client.act(&Act::Set(1));
    client.settle();
    assert_eq!(client.reducer.now.gaps.size(), 0);
    client.judge();
}

// against traps X12
#[test]
fn the_limit_of_children_holds_for_those_that_come_later() {
    let options = CacheOptions::default().with_most_children(2);
    let mut client = Client::new();
    client.reducer = Reducer::new(at(ROOT), &options, None);
    for path in [0, 1, 2] {
        client.act(&Act::Create(path));
    }
    client.settle();
    client.judge();
    for _ in 0..3 {
        client.act(&Act::Create(3));
        client.settle();
        let gaps: Vec<_> = client.reducer.now.gaps.iter().collect();
        assert_eq!(
            gaps,
            [(&at(ROOT), &Gap::TooManyChildren { count: 3, most: 2 })]
        );
        assert_eq!(client.reducer.now.store.len(), 3, "it has what it had");
        // What it has is followed.
        client.act(&Act::Set(1));
        client.act(&Act::Create(4));
        client.settle();
        assert_eq!(client.reducer.now.store.len(), 4);
        client.act(&Act::Delete(4));
        // With one that is left out gone, or one that it has, there is room for the others.
        client.act(&Act::Delete(2));
        client.settle();
        assert_eq!(client.reducer.now.gaps.size(), 0);
        client.judge();
        client.act(&Act::Delete(3));
        client.act(&Act::Create(2));
        client.settle();
        client.judge();
    }
    client.act(&Act::Create(3));
    client.settle();
    client.act(&Act::Set(0));
    client.settle();
    assert_eq!(client.reducer.now.gaps.size(), 1, "there are as many still");
    client.act(&Act::Delete(3));
    client.settle();
    assert_eq!(client.reducer.now.gaps.size(), 0);
    client.judge();
}

const ROOT: &str = "/t";
const PATHS: [&str; 8] = [
    "/t", "/t/a", "/t/b", "/t/c", "/t/a/1", "/t/a/2", "/t/b/1", "/t/a/1/x",
];
