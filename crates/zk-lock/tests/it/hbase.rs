//! Our lock nodes and those of HBase on one path, judged by the rules that HBase 1.x applies to the children.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use zk_core::{NodePath, Session};
use zk_lock::{FairLock, Inspector, Layout, LockOptions, OwnerInfo, RevokeError, RwLock};

use crate::{connect, eventually, names, until_enlisted, with_ensemble};

const PATH: &str = "/table-lock/t";

/// HBase's names up to the number: the kind, and the process that its client adds. It may end in a digit.
const WRITE: &str = "write-4242@build7";
const READ: &str = "read-4242@build7";

/// Returns the number of a child as HBase reads it: from the last ten characters, whatever is before them.
///
/// HBase throws an exception if that is no number.
fn number(name: &str) -> i64 {
    let digits = name.len().checked_sub(10).and_then(|at| name.get(at..));
    let number = digits.and_then(|digits| digits.parse().ok());
    number.unwrap_or_else(|| panic!("HBase fails on {name}"))
}

/// Returns the child whose deletion HBase would wait for with this node of its own; `None` if it holds the lock.
///
/// A writer considers all children, a reader those whose names start as a writer's. Both take the last one with a lower
/// number. Of children with the same number, HBase keeps the one that is listed first.
fn waits_for(own: &str, children: &[String]) -> Option<String> {
    let is_reader = own.starts_with("read-");
    let mut numbered = BTreeMap::new();
    for child in children {
        if !is_reader || child.starts_with("write-") {
            numbered.entry(number(child)).or_insert(child);
        }
    }
    let lower = numbered.range(..number(own)).next_back();
    lower.map(|(_, child)| (*child).clone())
}

/// Returns what HBase passes on of a node's data: without the header that begins with 0xff, if there is one.
fn without_header(data: &[u8]) -> &[u8] {
    match data {
        [0xff, length @ ..] => {
            let (length, rest) = length.split_at(4);
            let length = i32::from_be_bytes(length.try_into().unwrap());
            &rest[usize::try_from(length).unwrap()..]
        }
        data => data,
    }
}

/// Every order in which a server may list these children.
fn orders(children: &[String]) -> Vec<Vec<String>> {
    if children.len() < 2 {
        return vec![children.to_vec()];
    }
    let mut orders = Vec::new();
    for at in 0..children.len() {
        let mut rest = children.to_vec();
        let first = rest.remove(at);
        for mut order in self::orders(&rest) {
            order.insert(0, first.clone());
            orders.push(order);
        }
    }
    orders
}

/// Creates a node as HBase does, and returns its name.
async fn create_theirs(session: &Session, name: &str) -> String {
    let id = [&b"4242@build7"[..], &[0x5a; 8]].concat();
    let length = i32::try_from(id.len()).unwrap().to_be_bytes();
    let data = [&[0xff][..], &length, &id, b"PBUF"].concat();
    let (path, _) = session
        .create(format!("{PATH}/{name}"), data)
        .ephemeral()
        .sequential()
        .parents()
        .await
        .unwrap();
    path.name().unwrap().to_owned()
}

async fn delete(session: &Session, name: &str) {
    session.delete(format!("{PATH}/{name}")).await.unwrap();
}

async fn children(session: &Session) -> Vec<String> {
    names(session, PATH).await
}

fn options() -> LockOptions {
    LockOptions::default().with_layout(Layout::hbase())
}

fn rw(session: &Session) -> RwLock {
    RwLock::with_options(session, PATH, options()).unwrap()
}

/// A contender of ours, which holds the lock from its grant until it is dropped.
struct Ours {
    name: String,
    is_granted: JoinHandle<()>,
    _release: oneshot::Sender<()>,
}

impl Ours {
    /// Joins the queue as a reader or a writer.
    async fn join(session: &Session, observer: &Session, is_reader: bool) -> Self {
        let before: BTreeSet<_> = names(observer, PATH).await.into_iter().collect();
        let lock = rw(session);
        let (release, released) = oneshot::channel();
        let (grant, granted) = oneshot::channel();
        tokio::spawn(async move {
            if is_reader {
                let guard = lock.reader().acquire().await.unwrap();
                grant.send(()).unwrap();
                drop(released.await);
                guard.release().await.unwrap();
            } else {
                let guard = lock.writer().acquire().await.unwrap();
                grant.send(()).unwrap();
                drop(released.await);
                guard.release().await.unwrap();
            }
        });
        until_enlisted(observer, PATH, before.len() + 1).await;
        let listed = names(observer, PATH).await;
        let name = listed.into_iter().find(|name| !before.contains(name));
        Self {
            name: name.unwrap(),
            is_granted: tokio::spawn(async move { granted.await.unwrap() }),
            _release: release,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hbases_rule_and_ours_agree_on_the_holders_of_a_mixed_queue() {
    with_ensemble(async |ensemble| {
        let (session, theirs) = (connect(ensemble).await, connect(ensemble).await);
        let inspector = Inspector::with_layout(&session, PATH, Layout::hbase()).unwrap();
        // Writers and readers of both, in this order: ours are in capital letters.
        let mut queue = Vec::new();
        for kind in "wRrWwrRWRr".chars() {
            queue.push(match kind {
                'w' => Err(create_theirs(&theirs, WRITE).await),
                'r' => Err(create_theirs(&theirs, READ).await),
                kind => Ok(Ours::join(&session, &theirs, kind == 'R').await),
            });
        }
        while !queue.is_empty() {
            let listed = children(&session).await;
            assert_eq!(listed.len(), queue.len());
            let holders: BTreeSet<_> = listed
                .iter()
                .filter(|own| waits_for(own, &listed).is_none())
                .cloned()
                .collect();
            let snapshot = inspector.snapshot().await.unwrap();
            assert!(snapshot.foreign_children().is_empty(), "{snapshot:?}");
            let by_our_rule = snapshot
                .holders()
                .map(|it| it.contender().name().to_owned());
            assert_eq!(by_our_rule.collect::<BTreeSet<_>>(), holders);
            for ours in queue.iter().filter_map(|it| it.as_ref().ok()) {
                if holders.contains(&ours.name) {
                    eventually("ours is granted the lock", async || {
                        ours.is_granted.is_finished()
                    })
                    .await;
                } else {
                    assert!(
                        !ours.is_granted.is_finished(),
                        "{} in {listed:?}",
                        ours.name
                    );
                }
            }
            // The last holder leaves first: of several readers, that is not the first in the queue.
            let last = queue.iter().rposition(|it| match it {
                Ok(ours) => holders.contains(&ours.name),
                Err(name) => holders.contains(name),
            });
            match queue.remove(last.expect("some contender holds the lock")) {
                Ok(ours) => drop(ours),
                Err(name) => delete(&theirs, &name).await,
            }
            until_enlisted(&session, PATH, queue.len()).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hbases_rule_waits_for_our_nodes_in_every_order_of_the_list() {
    with_ensemble(async |ensemble| {
        let (session, theirs) = (connect(ensemble).await, connect(ensemble).await);
        let lock = rw(&session);
        // A writer that becomes a reader, with contenders of HBase behind it.
        let writer = lock.writer().acquire().await.unwrap();
        let written = writer.path().name().unwrap().to_owned();
        let behind = [
            create_theirs(&theirs, READ).await,
            create_theirs(&theirs, WRITE).await,
        ];
        for order in orders(&children(&session).await) {
            assert_eq!(waits_for(&written, &order), None);
            assert_eq!(waits_for(&behind[0], &order).as_ref(), Some(&written));
            assert_eq!(waits_for(&behind[1], &order).as_ref(), Some(&behind[0]));
        }
        let reader = writer.downgrade().await.unwrap();
        let read = reader.path().name().unwrap().to_owned();
        assert_eq!(number(&read), number(&written));
        delete(&theirs, &behind[0]).await;
        let mut listed = children(&session).await;
        assert_eq!(listed.len(), 2);
        for order in orders(&listed) {
            assert_eq!(waits_for(&behind[1], &order).as_ref(), Some(&read));
        }
        // While both nodes with one number are there, it waits for either, and so lists again before it holds the lock.
        listed.push(written.clone());
        for order in orders(&listed) {
            let waited = waits_for(&behind[1], &order).unwrap();
            assert!(waited == read || waited == written, "{waited}");
        }
        delete(&theirs, &behind[1]).await;
        reader.release().await.unwrap();

        // A mutex is a writer. Its data has no header for HBase to misread.
        let held = FairLock::with_options(&session, PATH, options()).unwrap();
        let held = held.acquire().await.unwrap();
        for name in [READ, WRITE] {
            let behind = create_theirs(&theirs, name).await;
            let waited = waits_for(&behind, &children(&session).await);
            assert_eq!(waited.as_deref(), held.path().name());
            delete(&theirs, &behind).await;
        }
        let (data, _) = session.get(held.path()).await.unwrap();
        assert_eq!(without_header(&data), &data[..]);
        held.release().await.unwrap();
        until_enlisted(&session, PATH, 0).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_leaves_hbases_node_as_it_was() {
    with_ensemble(async |ensemble| {
        let (session, theirs) = (connect(ensemble).await, connect(ensemble).await);
        let name = create_theirs(&theirs, WRITE).await;
        let inspector = Inspector::with_layout(&session, PATH, Layout::hbase()).unwrap();
        let holder = inspector.first_contender().await.unwrap().unwrap();
        assert_eq!(holder.name(), name);
        assert_eq!(without_header(holder.owner()), b"PBUF");
        assert_eq!(OwnerInfo::parse(holder.owner()), None);
        let asked = inspector.revoke(&holder).limit(Duration::from_secs(20));
        let error = asked.await.unwrap_err();
        assert!(
            matches!(error, RevokeError::ForeignData { .. }),
            "{error:?}"
        );
        // HBase deletes its node only with the version that it read when it was granted the lock.
        let path = NodePath::parse(&format!("{PATH}/{name}")).unwrap();
        assert_eq!(session.stat(&path).await.unwrap().version, 0);
        theirs.delete(&path).version(0).await.unwrap();
    })
    .await;
}
