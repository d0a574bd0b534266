//! A member that shares items with another one.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use zk_core::Session;
use zk_group::partitioner::{ItemGuard, Partitioner, PartitionerOptions};
use zk_sweep::{Scene, names, settled};

const ITEMS: [&str; 2] = ["a", "b"];

/// The highest fencing token of each item.
type Tokens = Mutex<BTreeMap<String, u64>>;

/// A member, and the items that its application has.
struct Application<'a> {
    partitioner: Partitioner,
    owned: Vec<ItemGuard>,
    tokens: &'a Tokens,
    what: &'a str,
}

impl<'a> Application<'a> {
    fn start(scene: &'a Scene, session: &Session, id: &str, tokens: &'a Tokens) -> Self {
        let options = PartitionerOptions::default().with_settle_time(Duration::from_millis(100));
        let path = scene.path.as_str();
        Self {
            partitioner: Partitioner::start_with(session, path, id, ITEMS, options)
                .expect("the arguments are good"),
            owned: Vec::new(),
            tokens,
            what: &scene.what,
        }
    }

    /// Takes items, and releases those that are lost or to be released, until these are `count` items, which are its share.
    async fn owns(&mut self, count: usize) {
        let mut looks = tokio::time::interval(Duration::from_millis(50));
        loop {
            tokio::select! {
                guard = self.partitioner.next() => self.take(guard.expect(self.what)),
                _ = looks.tick() => {}
            }
            self.owned
                .retain(|guard| guard.is_valid() && !guard.is_release_requested());
            if self.owned.len() == count && self.partitioner.share().len() == count {
                return;
            }
        }
    }

    fn take(&mut self, guard: ItemGuard) {
        let (item, token) = (guard.item().to_owned(), guard.fencing_token().as_u64());
        let is_twin = self.owned.iter().any(|owned| owned.item() == item);
        assert!(!is_twin, "{}: it has {item} twice", self.what);
        let mut tokens = self.tokens.lock().unwrap();
        let last = tokens.entry(item.clone()).or_default();
        let is_late = *last >= token && guard.is_valid();
        assert!(!is_late, "{}: {item} has {token} after {last}", self.what);
        *last = token.max(*last);
        drop(tokens);
        self.owned.push(guard);
    }
}

/// It owns all items alone, shares them with another member, and leaves.
pub(super) async fn shares(scene: Scene) {
    let what = &scene.what;
    let tokens = Tokens::default();
    let mut ours = Application::start(&scene, &scene.struck, "ours", &tokens);
    ours.owns(2).await;
    let mut theirs = Application::start(&scene, &scene.observer, "theirs", &tokens);
    tokio::join!(ours.owns(1), theirs.owns(1));
    assert_ne!(ours.owned[0].item(), theirs.owned[0].item(), "{what}");
    let ours = (ours.partitioner.leave(), ours.owned);
    ours.0.await.expect(what);
    for guard in ours.1 {
        guard.release_requested().await;
    }
    theirs.owns(2).await;

    for guard in theirs.owned {
        guard.release().await.expect("nothing strikes this one");
    }
    let left = theirs.partitioner.leave().await;
    left.expect("nothing strikes this one");
    settled(&scene).await;
    let party = names(&scene.observer, &format!("{}/party", scene.path)).await;
    assert!(party.is_empty(), "{what}: left behind: {party:?}");
    for item in ITEMS {
        let locks = names(&scene.observer, &format!("{}/locks/{item}", scene.path)).await;
        assert!(locks.is_empty(), "{what}: left behind: {locks:?}");
    }
}
