//! Every interleaving of changes, notifications, reads and connection losses that a small model server can produce.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A model server: a tree, a transaction counter, and the messages in flight to and from one client.
#[derive(Debug, Default)]
struct Server {
    nodes: BTreeMap<String, Stat>,
    zxid: i64,
    is_watched: bool,
    /// Each with whether it is the last of those sent together.
    requests: VecDeque<(ReadRequest, bool)>,
    /// Of the requests sent together, before the last of them is executed.
    unfinished: Vec<(ReadRequest, ReadReply)>,
    replies: VecDeque<(ReadRequest, ReadReply)>,
    notifications: VecDeque<(NodePath, WatchEvent)>,
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

    fn notify(&mut self, path: &str, event: WatchEvent) {
        if self.is_watched {
            self.notifications.push_back((at(path), event));
        }
    }

    fn update_parent(&mut self, path: &str, change: i32) {
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
        let mut stat = Stat::default();
        (stat.czxid, stat.mzxid, stat.pzxid) = (self.zxid, self.zxid, self.zxid);
        self.nodes.insert(path.to_owned(), stat);
        self.update_parent(path, 1);
        self.notify(path, WatchEvent::Created);
    }

    fn delete(&mut self, path: &str) {
        let below = format!("{path}/");
        let all = self.nodes.keys().rev();
        let all = all.filter(|it| *it == path || it.starts_with(&below));
        for gone in all.cloned().collect::<Vec<_>>() {
            self.nodes.remove(&gone);
            self.update_parent(&gone, -1);
            self.notify(&gone, WatchEvent::Deleted);
        }
    }

    fn set(&mut self, path: &str) {
        let zxid = self.zxid;
        if let Some(stat) = self.nodes.get_mut(path) {
            stat.mzxid = zxid;
            stat.version += 1;
            self.notify(path, WatchEvent::DataChanged);
        }
    }

    fn receive(&mut self, requests: Vec<ReadRequest>) {
        let last = requests.len() - 1;
        let requests = requests.into_iter().enumerate();
        self.requests
            .extend(requests.map(|(at, request)| (request, at == last)));
    }

    /// Executes the oldest read, and replies to those sent together after the last of them.
    fn serve(&mut self) {
        let Some((request, is_last)) = self.requests.pop_front() else {
            return;
        };
        let stat = self.nodes.get(request.path.as_str()).copied();
        let reply = match (request.kind, stat) {
            (ReadKind::Sync, _) => ReadReply::Synced,
            (_, None) => ReadReply::NoNode,
            (ReadKind::Stat, Some(stat)) => ReadReply::Stat(stat),
            (ReadKind::Data, Some(stat)) => ReadReply::Data(data(&stat).into(), stat),
            (ReadKind::Children, Some(stat)) => {
                ReadReply::Children(self.names(request.path.as_str()), stat)
            }
        };
        self.unfinished.push((request, reply));
        if is_last {
            self.replies.extend(self.unfinished.drain(..));
        }
    }

    fn drop_messages(&mut self) {
        self.requests.clear();
        self.unfinished.clear();
        self.replies.clear();
        self.notifications.clear();
    }
}

/// Returns the data of a node, which differs after each change, also in its length.
fn data(stat: &Stat) -> Vec<u8> {
    let padding = usize::try_from(stat.mzxid % 3).unwrap() * 40;
    format!("{}{}", stat.mzxid, " ".repeat(padding)).into_bytes()
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
    Recreate(usize),
    /// Sends up to so many reads together.
    Send(usize),
    Serve,
    Notify,
    Reply,
    Fail,
    /// Refuses to read the node together with others.
    Refuse,
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
        2 => path.prop_map(Act::Recreate),
        6 => (1..4_usize).prop_map(Act::Send),
        6 => Just(Act::Serve),
        4 => Just(Act::Notify),
        6 => Just(Act::Reply),
        1 => Just(Act::Fail),
        1 => Just(Act::Refuse),
        1 => Just(Act::Break),
        2 => Just(Act::Watch),
        1 => Just(Act::Overflow),
    ]
}

/// A cache of the server, and the result of applying all its events.
struct Client {
    server: Server,
    reducer: Reducer,
    /// The nodes after all events so far.
    played: BTreeMap<String, Node>,
    /// The newest `mzxid` reported of each path.
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
            Act::Recreate(path) => {
                server.zxid += 1;
                server.delete(PATHS[path]);
                server.create(PATHS[path]);
            }
            Act::Send(most) => {
                if let Some(requests) = self.reducer.next(most) {
                    assert!(requests.len() <= most);
                    server.receive(requests);
                }
            }
            Act::Serve => server.serve(),
            Act::Notify => {
                if let Some((path, event)) = server.notifications.pop_front() {
                    self.reducer.changed(&path, event);
                }
            }
            Act::Reply => {
                if let Some((request, reply)) = server.replies.pop_front() {
                    self.reducer.answered(&request, reply);
                }
            }
            Act::Fail => {
                if let Some((request, _)) = server.replies.pop_front() {
                    self.reducer.answered(&request, ReadReply::Failed);
                }
            }
            Act::Refuse => {
                let of_data = |(request, _): &(ReadRequest, _)| request.kind == ReadKind::Data;
                if server.replies.front().is_some_and(of_data) {
                    let (request, _) = server.replies.pop_front().unwrap();
                    self.reducer.answered(&request, ReadReply::RefusedTogether);
                }
            }
            Act::Break => {
                server.drop_messages();
                server.is_watched = false;
                self.reducer.stale();
            }
            Act::Watch if server.is_watched => {}
            Act::Watch => {
                server.is_watched = true;
                self.reducer.resynchronize();
            }
            Act::Overflow if server.is_watched => {
                server.notifications.clear();
                self.reducer.resynchronize();
            }
            Act::Overflow => {}
        }
        if !self.server.is_watched {
            assert_eq!(
                self.reducer.next(1),
                None,
                "the reducer reads without a watch"
            );
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
                        before.has_content(old.mzxid(), old.data()) && before.is_same(new),
                        "{event:?}"
                    );
                    (new.path(), new.stat().mzxid)
                }
                Event::Deleted(old) => {
                    let before = self.played.remove(old.path());
                    let before = before.unwrap_or_else(|| panic!("{event:?}"));
                    assert!(
                        before.is_same(old) && before.has_content(old.mzxid(), old.data()),
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

    /// Delivers all messages until nothing is in flight.
    fn settle(&mut self) {
        self.act(&Act::Watch);
        for _ in 0..10_000 {
            if self.reducer.has_failed() {
                self.reducer.retry_failed();
            }
            for act in [Act::Notify, Act::Send(2), Act::Serve, Act::Reply] {
                self.act(&act);
            }
            let server = &self.server;
            let is_quiet = server.requests.is_empty() && server.replies.is_empty();
            if is_quiet && server.notifications.is_empty() && self.reducer.pending.is_empty() {
                return;
            }
        }
        panic!("reads never end: {:?}", self.reducer.pending);
    }

    fn judge(&self) {
        let now = &self.reducer.current;
        assert_eq!(now.state, CacheState::Synchronized);
        let here = now.store.subtree(now.root.as_str());
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
        // A child list that counts as complete is complete, so that the next resynchronisation misses nothing.
        for (path, version) in &self.reducer.listed {
            let stat = self.server.nodes[path.as_str()];
            let known = now.store.children(path.as_str()).count();
            if *version == ChildListVersion::of(&stat) {
                assert_eq!(known, usize::try_from(stat.num_children).unwrap());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_messages_leads_to_the_contents_of_the_server(
        acts in proptest::collection::vec(acts(), 1..250)
    ) {
        let mut client = Client::new();
        for act in &acts {
            client.act(act);
        }
        client.settle();
        client.judge();
        // Again after a connection loss without changes, and after one in which every node changes.
        client.act(&Act::Break);
        client.settle();
        client.judge();
        client.act(&Act::Break);
        for path in 0..PATHS.len() {
            client.act(&Act::Recreate(path));
        }
        client.settle();
        client.judge();
    }
}

/// Judges a cache that is smaller than the tree: what it has is right, and where something is left out it says so.
fn judge_part(client: &Client) {
    let now = &client.reducer.current;
    assert_eq!(now.state, CacheState::Synchronized);
    assert_eq!((client.reducer.new_left, client.reducer.refused), (0, 0));
    let is_partial = |path: &str| now.partial_reads.get(&at(path)).is_some();
    for node in now.store.subtree(ROOT) {
        let stat = client.server.nodes.get(node.path());
        let is_newest = stat.is_some_and(|stat| node.has_data_of(stat));
        assert!(is_newest || stat.is_some() && is_partial(node.path()));
    }
    for path in client.server.nodes.keys() {
        let (parent, _) = path.rsplit_once('/').unwrap();
        let is_expected = path == ROOT || now.store.get(parent).is_some();
        let is_reported = is_partial(if path == ROOT { path } else { parent });
        assert!(!is_expected || is_reported || now.store.get(path).is_some());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn a_full_cache_stays_right_and_within_its_limits(
        acts in proptest::collection::vec(acts(), 1..250),
        nodes in 3..9_usize,
        bytes in 500..1200_usize,
        content in prop_oneof![Just(Content::Full), Just(Content::StatOnly)],
    ) {
        let limits = CacheOptions::default().with_max_nodes(nodes).with_max_bytes(bytes);
        let mut client = Client::new();
        client.reducer = Reducer::new(at(ROOT), &limits.with_content(content), None);
        let is_within = |reducer: &Reducer| {
            let store = &reducer.current.store;
            store.len() + reducer.new_left <= nodes && store.bytes() <= bytes
        };
        for act in &acts {
            client.act(act);
            prop_assert!(is_within(&client.reducer));
        }
        client.settle();
        judge_part(&client);
        client.act(&Act::Break);
        client.settle();
        judge_part(&client);
        // When there is room, what was left out is read without another connection loss.
        for path in 2..PATHS.len() {
            client.act(&Act::Delete(path));
        }
        client.settle();
        prop_assert_eq!(client.reducer.current.partial_reads.size(), 0);
        prop_assert_eq!(client.reducer.current.store.len(), client.server.nodes.len());
    }
}

/// Names of nodes that are still to be read are memory as well.
#[test]
fn a_full_cache_queues_no_reads() {
    let options = CacheOptions::default().with_max_nodes(100);
    let mut reducer = Reducer::new(at(ROOT), &options, None);
    reducer.resynchronize();
    let stat = Stat {
        num_children: 1000,
        ..Stat::default()
    };
    let names: Vec<_> = (0..1000).map(|name| name.to_string()).collect();
    let (mut sent, mut most) = (0, 0);
    while let Some(requests) = reducer.next(1) {
        sent += 1;
        assert!(sent < 1000, "it reads for ever");
        for request in requests {
            let reply = match request.kind {
                ReadKind::Sync => ReadReply::Synced,
                ReadKind::Stat => ReadReply::Stat(stat),
                ReadKind::Data => ReadReply::Data(Bytes::new(), stat),
                ReadKind::Children => ReadReply::Children(names.clone(), stat),
            };
            reducer.answered(&request, reply);
            most = most.max(reducer.pending.len());
        }
        if sent < 500 {
            reducer.changed(&at(&format!("{ROOT}/{}", 999 - sent)), WatchEvent::Created);
        }
    }
    assert_eq!(reducer.current.store.len(), 100);
    assert!(most <= 100, "{most} pending reads");
    assert!(reducer.is_synchronized());
    let reason = PartialRead::TooManyNodes { limit: 100 };
    assert!(
        reducer
            .current
            .partial_reads
            .values()
            .all(|it| *it == reason)
    );
}

/// Every order of a few changes, with the reads at every possible moment.
#[test]
fn every_short_history_is_reported_correctly() {
    let changes = [
        Act::Create(0),
        Act::Delete(0),
        Act::Recreate(0),
        Act::Create(1),
        Act::Set(1),
        Act::Recreate(1),
        Act::Break,
        Act::Overflow,
    ];
    let mut histories = 0;
    for first in &changes {
        for second in &changes {
            for third in &changes {
                // The progress of reads between the changes: two bits per pause count the rounds of send, serve and
                // reply.
                for pauses in 0..64 {
                    let mut client = Client::new();
                    client.act(&Act::Create(0));
                    client.act(&Act::Create(1));
                    client.act(&Act::Watch);
                    for (place, change) in [first, second, third].into_iter().enumerate() {
                        for _ in 0..(pauses >> (2 * place)) & 3 {
                            client.act(&Act::Notify);
                            client.act(&Act::Send(1));
                            client.act(&Act::Serve);
                            client.act(&Act::Reply);
                        }
                        client.act(&Act::Watch);
                        client.act(&Act::Send(1));
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

#[test]
fn a_resync_without_changes_reads_each_stat_once_without_events() {
    let mut client = Client::new();
    for path in 0..PATHS.len() {
        client.act(&Act::Create(path));
    }
    client.settle();
    client.act(&Act::Break);
    client.act(&Act::Watch);
    let sent = read_one_by_one(&mut client);
    let (events, _) = client.reducer.flush().unwrap();
    assert!(
        matches!(events[..], [Event::Synchronized { .. }]),
        "{events:?}"
    );
    assert_eq!(sent.len(), 1 + PATHS.len());
    assert!(
        sent[1..].iter().all(|kind| *kind == ReadKind::Stat),
        "{sent:?}"
    );
}

/// An ensemble that was set up anew by the same script has the same transactions, perhaps with other data.
#[test]
fn other_data_of_the_same_transactions_is_read_in_the_next_session() {
    let changes: [fn(&mut Stat); 4] = [
        |_| {},
        |stat| stat.version += 1,
        |stat| stat.mtime += std::time::Duration::from_millis(1),
        |stat| stat.data_length += 1,
    ];
    for (at, change) in changes.into_iter().enumerate() {
        let mut client = Client::new();
        client.act(&Act::Create(0));
        client.settle();
        client.reducer.end_session();
        change(client.server.nodes.get_mut(ROOT).unwrap());
        client.reducer.resynchronize();
        let sent = read_one_by_one(&mut client);
        let is_read = sent.contains(&ReadKind::Data);
        assert_eq!(is_read, at > 0, "{sent:?}");
    }
}

#[test]
fn nodes_are_up_to_date_only_after_a_sync_that_succeeded() {
    let mut client = Client::new();
    client.act(&Act::Create(0));
    client.act(&Act::Watch);
    for act in [Act::Send(1), Act::Serve, Act::Fail] {
        client.act(&act);
    }
    // All is read, perhaps from a server that lags behind.
    assert_eq!(read_one_by_one(&mut client), [ReadKind::Data]);
    assert!(client.reducer.has_failed() && !client.reducer.is_synchronized());
    client.reducer.retry_failed();
    assert_eq!(read_one_by_one(&mut client)[0], ReadKind::Sync);
    client.judge();
}

/// Sends each read alone until there are no more, and returns their kinds.
fn read_one_by_one(client: &mut Client) -> Vec<ReadKind> {
    let mut sent = Vec::new();
    while let Some(mut requests) = client.reducer.next(1) {
        let request = requests.pop().unwrap();
        sent.push(request.kind);
        client.server.receive(vec![request]);
        client.server.serve();
        let (request, reply) = client.server.replies.pop_front().unwrap();
        client.reducer.answered(&request, reply);
    }
    sent
}

/// Sends what there is, up to 64 reads at a time, and returns the kinds of the reads of each request.
fn exchange(
    client: &mut Client,
    mut reply: impl FnMut(usize, ReadReply) -> ReadReply,
) -> Vec<Vec<ReadKind>> {
    let mut sent = Vec::new();
    while let Some(requests) = client.reducer.next(64) {
        assert!(sent.len() < 20, "reads never end");
        let nodes = requests.len();
        sent.push(requests.iter().map(|it| it.kind).collect());
        client.server.receive(requests);
        for _ in 0..nodes {
            client.server.serve();
        }
        while let Some((request, read)) = client.server.replies.pop_front() {
            client.reducer.answered(&request, reply(nodes, read));
        }
    }
    sent
}

#[test]
fn a_resync_reads_small_nodes_together_and_copies_nothing() {
    use ReadKind::{Data, Stat, Sync};
    let mut client = Client::new();
    for path in 0..PATHS.len() {
        client.act(&Act::Create(path));
    }
    client.settle();
    let before = Snapshot(Arc::new(client.reducer.current.clone()));
    client.act(&Act::Break);
    client.act(&Act::Watch);
    let sent = exchange(&mut client, |_, read| read);
    // The root, its three children, their three, and the last.
    let expected = [
        vec![Sync],
        vec![Stat],
        vec![Data; 3],
        vec![Data; 3],
        vec![Stat],
    ];
    assert_eq!(sent, expected);
    let (events, after) = client.reducer.flush().unwrap();
    assert!(
        matches!(events[..], [Event::Synchronized { .. }]),
        "{events:?}"
    );
    for (old, new) in before.nodes().zip(after.nodes()) {
        assert!(std::ptr::eq(old.path(), new.path()), "{old:?} was copied");
    }
    // A node that is refused together is sent alone, as it would have been at first.
    client.act(&Act::Break);
    client.act(&Act::Watch);
    let refuse = |nodes, read| {
        if nodes == 3 {
            ReadReply::RefusedTogether
        } else {
            read
        }
    };
    let sent = exchange(&mut client, refuse);
    let alone = vec![vec![Stat]; 3];
    let expected = [
        &[vec![Sync], vec![Stat], vec![Data; 3]],
        &*alone,
        &[vec![Data; 3]],
        &*alone,
        &[vec![Stat]],
    ];
    assert_eq!(sent, expected.concat());
    client.judge();
}

#[test]
fn a_node_with_too_many_children_is_reported_and_not_listed() {
    let options = CacheOptions::default().with_max_children(2);
    let mut client = Client::new();
    client.reducer = Reducer::new(at(ROOT), &options, None);
    for path in [0, 1, 2, 3] {
        client.act(&Act::Create(path));
    }
    client.settle();
    let partial: Vec<_> = client.reducer.current.partial_reads.iter().collect();
    assert_eq!(
        partial,
        [(
            &at(ROOT),
            &PartialRead::TooManyChildren { count: 3, limit: 2 }
        )]
    );
    assert_eq!(client.reducer.current.store.len(), 1);
    // With fewer children they are listed after a resynchronisation: a watch reports no child list.
    client.act(&Act::Delete(3));
    client.act(&Act::Break);
    client.settle();
    assert_eq!(client.reducer.current.partial_reads.size(), 0);
    client.judge();
}

#[test]
fn a_refused_read_is_not_repeated() {
    let mut client = Client::new();
    for path in [0, 1] {
        client.act(&Act::Create(path));
    }
    client.act(&Act::Watch);
    let mut sent = 0;
    while let Some(requests) = client.reducer.next(1) {
        sent += 1;
        assert!(sent < 20, "the refused read is repeated for ever");
        client.server.receive(requests);
        client.server.serve();
        let (request, reply) = client.server.replies.pop_front().unwrap();
        let is_secret = request.path == at(PATHS[1]);
        let refused = ReadReply::Refused(ErrorKind::NoAuth);
        client
            .reducer
            .answered(&request, if is_secret { refused } else { reply });
    }
    let now = &client.reducer.current;
    assert_eq!(now.state, CacheState::Synchronized);
    assert_eq!(now.store.get(PATHS[1]), None);
    assert_eq!(
        now.partial_reads.get(&at(PATHS[1])),
        Some(&PartialRead::Node(ErrorKind::NoAuth))
    );
    assert_eq!(
        sent, 4,
        "sync, the root, its children, and the refused node"
    );
    // When access is granted, the next resynchronisation reads it.
    client.act(&Act::Break);
    client.settle();
    client.judge();
    assert_eq!(client.reducer.current.partial_reads.size(), 0);
}

/// Completes a resynchronisation during which the server refuses to return `secret`.
fn settle_without(client: &mut Client, secret: &str) {
    client.act(&Act::Watch);
    for _ in 0..100 {
        client.act(&Act::Notify);
        client.act(&Act::Send(1));
        client.act(&Act::Serve);
        for (request, reply) in &mut client.server.replies {
            if request.path == at(secret) && request.kind != ReadKind::Sync {
                *reply = ReadReply::Refused(ErrorKind::NoAuth);
            }
        }
        client.act(&Act::Reply);
    }
    assert_eq!(client.reducer.current.state, CacheState::Synchronized);
}

#[test]
fn a_partial_read_is_cleared_when_the_node_is_deleted() {
    // The refused node, the deleted node at or above it, and whether that has a sibling.
    for (secret, deleted, has_sibling) in [
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
        if has_sibling {
            client.act(&Act::Create(2));
        }
        settle_without(&mut client, secret);
        let partial = client.reducer.current.partial_reads.get(&at(secret));
        assert_eq!(partial, Some(&PartialRead::Node(ErrorKind::NoAuth)));
        client.act(&Act::Break);
        client.act(&Act::Delete(deleted));
        client.settle();
        let left: Vec<_> = client.reducer.current.partial_reads.iter().collect();
        assert_eq!(left, [], "{secret}, deleted with {}", PATHS[deleted]);
        client.judge();
    }
}

#[test]
fn a_refused_list_is_tried_again_when_the_node_changes() {
    let mut client = Client::new();
    for path in [0, 1, 4] {
        client.act(&Act::Create(path));
    }
    client.act(&Act::Watch);
    for _ in 0..100 {
        client.act(&Act::Send(1));
        client.act(&Act::Serve);
        for (request, reply) in &mut client.server.replies {
            if request.path == at(PATHS[1]) && request.kind == ReadKind::Children {
                *reply = ReadReply::Refused(ErrorKind::NoAuth);
            }
        }
        client.act(&Act::Reply);
    }
    let now = &client.reducer.current;
    assert_eq!(now.state, CacheState::Synchronized);
    assert_eq!(
        now.partial_reads.get(&at(PATHS[1])),
        Some(&PartialRead::Children(ErrorKind::NoAuth))
    );
    client.act(&Act::Set(1));
    client.settle();
    assert_eq!(client.reducer.current.partial_reads.size(), 0);
    client.judge();
}

#[test]
fn the_child_limit_holds_for_later_children() {
    let options = CacheOptions::default().with_max_children(2);
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
        let partial: Vec<_> = client.reducer.current.partial_reads.iter().collect();
        assert_eq!(
            partial,
            [(
                &at(ROOT),
                &PartialRead::TooManyChildren { count: 3, limit: 2 }
            )]
        );
        assert_eq!(
            client.reducer.current.store.len(),
            3,
            "cached children stay"
        );
        // Cached children stay up to date.
        client.act(&Act::Set(1));
        client.act(&Act::Create(4));
        client.settle();
        assert_eq!(client.reducer.current.store.len(), 4);
        client.act(&Act::Delete(4));
        // Deleting a child, cached or left out, makes room for the others.
        client.act(&Act::Delete(2));
        client.settle();
        assert_eq!(client.reducer.current.partial_reads.size(), 0);
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
    assert_eq!(
        client.reducer.current.partial_reads.size(),
        1,
        "the number of children is the same"
    );
    client.act(&Act::Delete(3));
    client.settle();
    assert_eq!(client.reducer.current.partial_reads.size(), 0);
    client.judge();
}

const ROOT: &str = "/t";
const PATHS: [&str; 8] = [
    "/t", "/t/a", "/t/b", "/t/c", "/t/a/1", "/t/a/2", "/t/b/1", "/t/a/1/x",
];
