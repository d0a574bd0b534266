//! What reads the nodes of others, for each recipe: with samples of what it expects to find.

use std::num::NonZeroU32;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use zk_barrier::{DoubleBarrier, Layout as BarrierLayout};
use zk_cache::{CacheOptions, ChildrenCache, NodeCache, TreeCache};
use zk_config::{Layers, Listener, Profiles, PublishOptions, Publisher, Typed, TypedBuilder};
use zk_core::codec::Text;
use zk_core::{NodePath, PersistentNode, PersistentNodeOptions, Session};
use zk_counter::{AtomicCounter, CounterOptions, Format, SharedCount, SharedValue};
use zk_discovery::{Dubbo, DubboProvider, Registry, RoundRobin, Serverset, ServersetMember};
use zk_group::partitioner::Partitioner;
use zk_group::{Group, Layout as GroupLayout, Membership};
use zk_id::{BlockIds, SequenceIds, Snowflakes, WorkerIds, ZxidIds};
use zk_leader::{Breadcrumb, ElectionOptions, LeaderLatch, StepDownPolicy};
use zk_lock::{
    FairLock, Inspector, Layout as LockLayout, LockOptions, OneShotLease, OneShotLeaseOptions,
    OwnerInfo, RaceLock, Reap, RwLock, Semaphore,
};
use zk_queue::{Layout as QueueLayout, Queue, QueueOptions, WorkLayout, WorkOptions, WorkQueue};
use zk_sim::Ensemble;

use crate::data;
use crate::input::{Input, PATH};

/// A recipe, where others can put nodes, and samples.
pub(crate) struct Reader {
    pub(crate) name: &'static str,
    /// Below the path of the recipe. A place that ends with a slash gets children, all others are nodes.
    pub(crate) places: &'static [&'static str],
    pub(crate) names: &'static [&'static str],
    pub(crate) data: &'static [&'static [u8]],
}

macro_rules! protected {
    ($rest:literal) => {
        concat!("_c_7a3a7cd7-5bc6-4b9c-8a38-5b7f0b0f2a10-", $rest)
    };
}

const OWNER: &[u8] = b"owner: host/7\nlabel: nightly \\u{1b}\n\npayload";

pub(crate) const READERS: &[Reader] = &[
    Reader {
        name: "lock, curator",
        places: &["/", ""],
        names: &[protected!("lock-0000000003"), protected!("__WRIT__0000000001"), protected!("__READ__0000000002")],
        data: &[OWNER, b"__REVOKE__", b"10.0.0.1"],
    },
    Reader {
        name: "lock, kazoo",
        places: &["/", ""],
        names: &["0123456789abcdef0123456789abcdef__lock__0000000001", "0123456789abcdef0123456789abcdef__rlock__0000000002"],
        data: &[b"host", OWNER],
    },
    Reader {
        name: "lock, hbase",
        places: &["/", ""],
        names: &["write-0000000001", "read-0000000002"],
        data: &[b"PBUF", OWNER],
    },
    Reader {
        name: "lock, zookeeper",
        places: &["/", ""],
        names: &["x-72057594037927936-0000000001", "x--1--2147483648"],
        data: &[b"", OWNER],
    },
    Reader {
        name: "reader and writer",
        places: &["/", ""],
        names: &[protected!("__WRIT__0000000001"), protected!("__READ__0000000002")],
        data: &[b"", OWNER],
    },
    Reader {
        name: "semaphore",
        places: &["/leases/", "/locks/", "/leases", ""],
        names: &[protected!("lease-0000000001"), protected!("lock-0000000001")],
        data: &[b"3", b" 4294967295\n", OWNER],
    },
    Reader {
        name: "race lock",
        places: &[""],
        names: &[],
        data: &[OWNER, b""],
    },
    Reader {
        name: "one-shot lease",
        places: &[""],
        names: &[],
        data: &[
            br#"{"version": 1, "holder": "a", "end": "2033-05-18T03:33:20"}"#,
            br#"{"version": 1, "holder": "a", "end": "2033-05-18T03:33:20.123456"}"#,
        ],
    },
    Reader {
        name: "requests to a holder",
        places: &["/"],
        names: &[protected!("lock-0000000003")],
        data: &[
            b"owner: host/7\nrevoke: 1f 60000 host/8 a\\nreason\nrevoke: 20 18446744073709551615 host/8\n\npayload",
            b"owner: host/7\nrevoke-answer: 1f refused no\\n\nrevoke-answer: 20 accepted",
            b"__REVOKE__",
            OWNER,
        ],
    },
    Reader {
        name: "election",
        places: &["/", "/ActiveBreadCrumb"],
        names: &[protected!("latch-0000000001"), protected!("lock-0000000002")],
        data: &[b"host-7", OWNER],
    },
    Reader {
        name: "queue",
        places: &["/", "", "-receipts/", "-receipts", "-segments/", "-segments"],
        names: &["qn-0000000001", "w-5-18f3a-0-0000000002", "w-n2147483648-ffffffffffffffff-4294967295-0000000003", "entry-100-0000000003", "queue-0000000002", "queue-0000012C0000000003", "queue-18F3A0000000004", "queue-|id|0000000005", "1", "s-1", "_c_7a3a7cd7-5bc6-4b9c-8a38-5b7f0b0f2a10-receipt"],
        data: &[b"item", b"\x00\x01\x00\x01\x01\x00\x00\x00\x02AB\x02", b"2", b"zk-queue native"],
    },
    Reader {
        name: "work queue",
        places: &["/items/", "/claims/", "/dead/", "/dead/w-0-0-0-0000000001-4294967300/", "/segments/", "/receipts/", "/", "", "/locks/"],
        names: &["w-5-18f3a-0-0000000002", "0-w-0-0-0-0000000001", "2-w-5-18f3a-1-0000000002", "w-0-0-0-0000000001-4294967300", "entry-100-0000000003", "1", "note"],
        data: &[b"item", b"\x00\x01\x00\x01\x01\x00\x00\x00\x02AB\x02", b"1", b"zk-queue native"],
    },
    Reader {
        name: "discovery, curator",
        places: &["/mail/", "/mail", "/"],
        names: &["one", "two"],
        data: &[
            br#"{"name":"mail","id":"one","address":"127.0.0.1","port":1,"sslPort":null,"payload":"x","registrationTimeUTC":1700000000000,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false}]},"enabled":true}"#,
            br#"{"name":"mail","id":"two","payload":{"@class":"java.lang.String"}}"#,
        ],
    },
    Reader {
        name: "discovery, serverset",
        places: &["/mail/", "/mail"],
        names: &["member_0000000001", "member_-2147483648"],
        data: &[
            br#"{"serviceEndpoint":{"host":"a","port":1},"additionalEndpoints":{"admin":{"host":"a","port":2}},"status":"ALIVE","shard":3}"#,
        ],
    },
    Reader {
        name: "discovery, dubbo",
        places: &["/mail/providers/", "/mail/configurators/", "/mail"],
        names: &["dubbo%3A%2F%2F10.0.0.1%3A20880%2Fmail%3Fanyhost%3Dtrue%26weight%3D100", "one"],
        data: &[b"", b"10.0.0.1"],
    },
    Reader {
        name: "config",
        places: &["", "/"],
        names: &["00000000000000ff-0123456789abcdef-00000001", "limit"],
        data: &[b"a = 1\n[b]\nc = \"d\"\n", b"{}", b""],
    },
    Reader {
        name: "history",
        places: &["/"],
        names: &["00000000000000ff-0123456789abcdef-00000001", "ffffffffffffffff-ffffffffffffffff-ffffffff"],
        data: &[b"value", b""],
    },
    Reader {
        name: "counter",
        places: &["", "/"],
        names: &["zk-counter", "token"],
        data: &[b"\x00\x00\x00\x00\x00\x00\x00\x07", b"\x00\x00\x00\x07", b"7", b"-9223372036854775808"],
    },
    Reader {
        name: "barrier",
        places: &["/", "", "/ready", "/round/", "/round/state"],
        names: &["ready", "7a3a7cd7-5bc6-4b9c-8a38-5b7f0b0f2a10", protected!("member"), "state"],
        data: &[b"1", b""],
    },
    Reader {
        name: "group",
        places: &["/", "/party/", "/locks/", ""],
        names: &["one", "0123456789abcdef0123456789abcdef__party__", "0123456789abcdef0123456789abcdef-one"],
        data: &[b"payload", b""],
    },
    Reader {
        name: "ids",
        places: &["", "/"],
        names: &["worker-00000", "worker-00003", "mark-00000", "mark-4294967295", "id-0000000003", "token"],
        data: &[b"zk-id 4 workers", b"zk-id snowflakes of 41+10+12 bits", b"1700000000123 0x7-1", b"18446744073709551615 x", b"99999999999999999 x", b"\x7f\xff\xff\xff\xff\xff\xff\xff"],
    },
    Reader {
        name: "caches",
        places: &["/", "/deep/", "/deep", ""],
        names: &["one", "two", DEEP_NAME],
        data: &[b"value", b"\xff", b""],
    },
    Reader {
        name: "layers and subtrees",
        places: &["/", "/application/", "/orders,production/", ""],
        names: &["application", "orders,production", "size", "pool/size"],
        data: &[b"", b"", b"7", b"8", b"size = 7\npool = { size = 1 }\n", b"\xff"],
    },
    Reader {
        name: "deep subtree",
        places: &["/"],
        names: &[DEEP_NAME],
        data: &[b"7"],
    },
    Reader {
        name: "operations",
        places: &["/", "/one/", ""],
        names: &["one", "one0000000001", "touch", protected!("one0000000002"), "-2147483648"],
        data: &[b"value", b""],
    },
    Reader {
        name: "typed values",
        places: &["", "/"],
        names: &["limit", "json", "toml", "key", "gzip"],
        data: &[br#"{"size":3,"a":[1.5e3,null,"\ud83d\ude00"]}"#, &DEEP_JSON, &DEEP_TOML, &LONG_TOML_KEY, GZIP],
    },
    Reader {
        name: "ensemble configuration",
        places: &[""],
        names: &[],
        data: &[
            b"server.1=a:2888:3888:participant;0.0.0.0:2181\nserver.2=[fe80::1]:2888:3888:observer;[::]:2181\nversion=1a0000000f",
            b"server.1=h:1:2|g:1:2:participant;c:3;c:4\ngroup.1=1:2\nversion=0\n",
        ],
    },
];

/// `{"size":3}`, compressed.
const GZIP: &[u8] = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xab\x56\x2a\xce\xac\x4a\x55\xb2\x32\xae\x05\x00\xa1\x9a\xa6\x7f\x0a\x00\x00\x00";
/// Deeper than a parser may go without care for its stack.
static DEEP_JSON: [u8; 100_000] = [b'['; 100_000];
static DEEP_TOML: [u8; 100_000] = {
    let mut deep = [b'['; 100_000];
    (deep[0], deep[1]) = (b'a', b'=');
    deep
};
static LONG_TOML_KEY: [u8; 100_001] = {
    let mut key = [b'a'; 100_001];
    let mut at = 1;
    while at < key.len() - 2 {
        key[at] = b'.';
        at += 2;
    }
    (key[at], key[at + 1]) = (b'=', b'1');
    key
};

/// A level deeper than a subtree is read.
const DEEP_NAME: &str = {
    const NAME: [u8; 257] = {
        let mut name = [b'/'; 257];
        let mut at = 0;
        while at < name.len() {
            name[at] = b'a';
            at += 2;
        }
        name
    };
    match str::from_utf8(&NAME) {
        Ok(name) => name,
        Err(_) => panic!("it is ASCII"),
    }
};

/// Puts the nodes there, lets the recipe read them and act on them, and returns how many nodes the servers accepted.
pub(crate) fn check(input: &Input) -> usize {
    count_panics();
    let before = PANICS.load(Ordering::SeqCst);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let kept = runtime.block_on(async {
        let ensemble = Ensemble::builder().servers(1).build();
        let other = ensemble.connect().await;
        let mut kept = 0;
        for node in &input.nodes {
            let create = other
                .create(node.path.as_str(), node.data.clone())
                .parents();
            let created = match create.await {
                Err(error) if error.is_node_exists() => other
                    .set(node.path.as_str(), node.data.clone())
                    .await
                    .map(drop),
                other => other.map(drop),
            };
            kept += usize::from(created.is_ok());
        }
        let session = ensemble.connect().await;
        let read = read(
            READERS[input.reader].name,
            &ensemble,
            &session,
            &other,
            &input.inbox,
        );
        // Some wait for nodes that are never made.
        drop(tokio::time::timeout(Duration::from_secs(600), read).await);
        drop(session.close().await);
        kept
    });
    drop(runtime);
    assert_eq!(PANICS.load(Ordering::SeqCst), before, "a task has panicked");
    kept
}

/// How often anything has panicked in this process: a runtime hides the panic of a task.
static PANICS: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            hook(info);
        }));
    });
}

/// Does what fails or succeeds, as long as it does not panic.
macro_rules! tried {
    ($($call:expr),* $(,)?) => {$(
        if let Ok(value) = tokio::time::timeout(SHORT, $call).await {
            drop(format!("{value:?}"));
        }
    )*};
}

/// Simulated.
const SHORT: Duration = Duration::from_secs(20);

async fn read(name: &str, ensemble: &Ensemble, session: &Session, other: &Session, inbox: &[u8]) {
    const TWO: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);
    let text = String::from_utf8_lossy(inbox);
    drop((
        OwnerInfo::parse(inbox),
        text.parse::<zk_queue::ItemId>(),
        zk_discovery::UriSpec::parse(&text),
    ));
    drop((
        NodePath::parse(&text),
        zk_core::Sequence::parse(&text),
        text.parse::<zk_core::ConnectString>(),
        zk_id::Id::from_base62(&text),
        zk_id::Id::from_crockford(&text),
    ));
    match name {
        "lock, curator" => locks(session, LockLayout::curator()).await,
        "lock, kazoo" => locks(session, LockLayout::kazoo()).await,
        "lock, hbase" => locks(session, LockLayout::hbase()).await,
        "lock, zookeeper" => locks(session, LockLayout::zookeeper()).await,
        "reader and writer" => {
            let lock = RwLock::new(session, PATH).unwrap();
            tried!(lock.reader().try_acquire(), lock.writer().try_acquire());
            tried!(
                lock.reader().acquire_timeout(SHORT),
                lock.writer().acquire_timeout(SHORT)
            );
        }
        "semaphore" => {
            let semaphore = Semaphore::new(session, PATH, 2).unwrap();
            tried!(semaphore.try_acquire(), semaphore.acquire_timeout(SHORT));
        }
        "race lock" => {
            let lock = RaceLock::new(session, PATH).unwrap();
            tried!(lock.try_acquire(), lock.acquire_timeout(SHORT));
        }
        "one-shot lease" => {
            let options = OneShotLeaseOptions::new("me", SHORT);
            tried!(OneShotLease::try_take(session, PATH, &options));
            tried!(OneShotLease::try_take_one_of(session, PATH, 2, &options));
        }
        "requests to a holder" => {
            let options = LockOptions::default().with_owner(OwnerInfo::new("me", 1));
            let lock = FairLock::with_options(session, PATH, options).unwrap();
            let Ok(guard) = lock.acquire_timeout(SHORT).await else {
                return;
            };
            let asked = guard.revocation_requested();
            drop(other.set(guard.path(), inbox).await);
            if let Ok(Ok(request)) = tokio::time::timeout(SHORT, asked).await {
                drop(format!(
                    "{request:?} {:?} {:?} {:?}",
                    request.by(),
                    request.reason(),
                    request.deadline()
                ));
                tried!(request.refuse("a reason"));
            }
            tried!(guard.release());
        }
        "election" => election(session, other, inbox).await,
        "queue" => queues(session).await,
        "work queue" => work_queues(session).await,
        "discovery, curator" => {
            let registry = Registry::new(session, PATH).unwrap();
            let providers = registry.providers::<serde_json::Value>("mail").unwrap();
            tried!(
                registry.query::<String>("mail"),
                registry.services(),
                providers.synchronized()
            );
            tried!(providers.pick_timeout(&RoundRobin::anywhere(), SHORT));
        }
        "discovery, serverset" => {
            let registry = Registry::new(session, PATH).unwrap().with_layout(Serverset);
            let providers = registry.providers::<ServersetMember>("mail").unwrap();
            tried!(
                registry.query::<ServersetMember>("mail"),
                providers.synchronized()
            );
        }
        "discovery, dubbo" => {
            let registry = Registry::new(session, PATH).unwrap().with_layout(Dubbo);
            let providers = registry.providers::<DubboProvider>("mail").unwrap();
            tried!(
                registry.query::<DubboProvider>("mail"),
                providers.synchronized()
            );
        }
        "config" => {
            let options = PublishOptions::default().with_history(2);
            let publisher = Publisher::with_options(session, Text, options);
            tried!(publisher.history(PATH));
            let listener = Listener::new(session, PATH, Text).unwrap();
            let mut events = listener.events();
            tried!(events.next());
            let typed: Typed<String> = Typed::node(PATH, Text).unwrap().build();
            let _follow = typed.follow(session);
            tried!(typed.ready());
            let subtree = Typed::subtree(PATH, |nodes| Ok(format!("{nodes:?}")));
            let subtree = subtree.unwrap().build();
            let _follow_subtree = subtree.follow(session);
            tried!(subtree.ready());
            tried!(
                publisher.publish(PATH, &"value".to_owned()),
                publisher.history(PATH)
            );
        }
        "history" => {
            let options = PublishOptions::default().with_history(2);
            let publisher = Publisher::with_options(session, Text, options);
            // The entries of `/key` are below `/_history_/key`.
            let entries = other
                .list(PATH)
                .await
                .map(|(names, _)| names)
                .unwrap_or_default();
            for name in entries {
                let entry = format!("/_history_/key/{name}");
                tried!(other.create(entry, inbox).parents().into_future());
            }
            tried!(
                publisher.history("/key"),
                publisher.publish("/key", &"value".to_owned())
            );
            tried!(
                publisher.publish("/key", &"other".to_owned()),
                publisher.history("/key")
            );
            tried!(publisher.purge_history("/key"));
        }
        "counter" => {
            for format in [Format::Long, Format::Integer, Format::Text] {
                let options = CounterOptions::default().with_format(format);
                let counter = AtomicCounter::new(session, PATH, &options).unwrap();
                tried!(counter.get(), counter.increment(), counter.add(i64::MAX));
            }
            let count = SharedCount::start(session, PATH, 1).unwrap();
            tried!(count.synchronized(), count.set(2));
            let value = SharedValue::start(session, PATH, "first").unwrap();
            tried!(value.synchronized(), value.set("second"));
        }
        "barrier" => {
            for layout in [BarrierLayout::Rounds, BarrierLayout::Recipe] {
                let barrier = DoubleBarrier::new(session, PATH, TWO).unwrap();
                tried!(barrier.with_layout(layout).enter_timeout(SHORT));
            }
            tried!(zk_barrier::Barrier::new(session, PATH).unwrap().is_set());
        }
        "group" => {
            let layouts = [
                GroupLayout::Curator,
                GroupLayout::KazooParty,
                GroupLayout::KazooShallowParty,
            ];
            for layout in layouts {
                let group = Group::start_with(session, PATH, layout).unwrap();
                tried!(group.synchronized());
            }
            for layout in layouts {
                let payload = match layout {
                    GroupLayout::Curator => inbox,
                    // Kazoo's members have none.
                    _ => &[],
                };
                let member = Membership::join_with(session, PATH, "one", payload, layout).unwrap();
                tried!(member.ready());
                drop(format!(
                    "{:?} {:?}",
                    member.problem(),
                    member.group().members()
                ));
                tried!(member.leave());
            }
            let partitioner = Partitioner::start(session, PATH, "me", ["item"]).unwrap();
            tried!(partitioner.next());
        }
        "ids" => {
            tried!(zk_id::Inspector::new(session, PATH).unwrap().snapshot());
            let workers = WorkerIds::new(session, PATH, 4).unwrap();
            tried!(workers.holders(), workers.claim());
            let snowflakes = Snowflakes::new(session, PATH, zk_id::Layout::TWITTER).unwrap();
            tried!(snowflakes.claim());
            tried!(BlockIds::new(session, PATH, TWO).unwrap().next());
            tried!(SequenceIds::new(session, PATH).unwrap().next());
            tried!(ZxidIds::new(session, PATH).unwrap().next());
        }
        "caches" => caches(session, other, inbox).await,
        "layers and subtrees" | "deep subtree" => {
            let shape = |nodes: &zk_config::Subtree| nodes.deserialize::<Shape>();
            let any = |nodes: &zk_config::Subtree| nodes.deserialize::<serde_json::Value>();
            follow(session, Typed::subtree(PATH, shape).unwrap()).await;
            follow(session, Typed::subtree(PATH, any).unwrap()).await;
            let variables = [("APP_POOL__SIZE".to_owned(), text.into_owned())];
            let layers = Layers::new().variables("APP", variables.into());
            let profiles = Profiles::of("orders").with_profile("production");
            follow::<Shape>(session, layers.clone().around(PATH).unwrap()).await;
            follow::<Shape>(session, layers.around_profiles(PATH, &profiles).unwrap()).await;
        }
        "operations" => operations(session, inbox).await,
        "typed values" => {
            data::decode(inbox);
            let names = session.list(PATH).await.map(|(names, _)| names);
            let children = names.unwrap_or_default().into_iter();
            let children = children.map(|name| format!("{PATH}/{name}"));
            for path in std::iter::once(PATH.to_owned()).chain(children) {
                if let Ok((found, _)) = session.get(path).await {
                    data::decode(&found);
                }
            }
        }
        "ensemble configuration" => data::read_config(ensemble).await,
        unknown => panic!("no reader {unknown}"),
    }
}

/// A value with a table, which need not be there.
type Shape = std::collections::BTreeMap<String, Option<std::collections::BTreeMap<String, u16>>>;

async fn follow<T: std::fmt::Debug + Send + Sync + 'static>(
    session: &Session,
    value: TypedBuilder<T>,
) {
    let value = value.build();
    let _following = value.follow(session);
    tried!(value.ready());
    drop(format!("{:?}", value.problem()));
}

async fn caches(session: &Session, other: &Session, inbox: &[u8]) {
    let options = CacheOptions::default().with_max_children(2);
    let tree = TreeCache::start(session, "/").unwrap();
    let limited = TreeCache::start_with(session, PATH, &options).unwrap();
    let children = ChildrenCache::start(session, PATH).unwrap();
    let node = NodeCache::start(session, PATH).unwrap();
    let decoded = tree.decoded::<String>(Text);
    let mut events = tree.events();
    tried!(
        tree.synchronized(),
        limited.synchronized(),
        node.synchronized()
    );
    tried!(children.synchronized());
    for child in children.children() {
        tried!(other.set(child.path(), inbox).into_future());
        tried!(other.delete(child.path()).into_future());
        tried!(events.next_batch());
    }
    let before = limited.snapshot();
    tried!(other.create(format!("{PATH}/new"), inbox).into_future());
    tried!(events.next_batch(), limited.synchronized());
    drop(format!(
        "{:?} {:?}",
        limited.snapshot().since(&before),
        decoded.snapshot()
    ));
}

/// Creates what is created again, and what has a unique id or a number, beside the nodes of others.
async fn operations(session: &Session, inbox: &[u8]) {
    for options in [
        PersistentNodeOptions::ephemeral(),
        PersistentNodeOptions::ephemeral_sequential(),
        PersistentNodeOptions::persistent_sequential().with_protection(),
        PersistentNodeOptions::container(),
        PersistentNodeOptions::ttl(SHORT),
        PersistentNodeOptions::ttl_sequential(SHORT),
    ] {
        let path = format!("{PATH}/one");
        let node = PersistentNode::start(session, path, inbox, options).unwrap();
        tried!(node.ready(), node.set_data("other"));
        drop(format!("{:?}", node.problem()));
        tried!(node.remove());
    }
    let transaction = session.transaction().create(format!("{PATH}/new"), inbox);
    tried!(transaction.commit_marked(PATH).into_future());
    let create = session.create(format!("{PATH}/one"), inbox).protected();
    tried!(create.ephemeral().sequential().owned().into_future());
    tried!(session.ephemerals(PATH).into_future());
}

async fn locks(session: &Session, layout: LockLayout) {
    let options = LockOptions::default().with_layout(layout);
    let lock = FairLock::with_options(session, PATH, options).unwrap();
    let inspector = Inspector::with_layout(session, PATH, layout).unwrap();
    tried!(inspector.snapshot(), inspector.first_contender());
    tried!(inspector.reapable(Reap::OlderThan(Duration::ZERO)));
    if let Ok(Some(contender)) = inspector.first_contender().await {
        tried!(inspector.revoke(&contender).limit(SHORT).into_future());
        tried!(
            inspector
                .revoke(&contender)
                .as_curator()
                .limit(SHORT)
                .into_future()
        );
    }
    tried!(
        lock.try_acquire(),
        lock.acquire_timeout(SHORT),
        inspector.reap(Reap::All)
    );
}

async fn election(session: &Session, other: &Session, inbox: &[u8]) {
    let options = ElectionOptions::default().with_step_down(StepDownPolicy::Application);
    let latch = LeaderLatch::with_options(session, PATH, &options).unwrap();
    tried!(latch.participants(), latch.leader());
    tried!(latch.request_step_down().limit(SHORT).into_future());
    let participant = latch.join();
    let Ok(Ok(lease)) = tokio::time::timeout(SHORT, participant.leading()).await else {
        return;
    };
    let fence = async |_| Ok::<_, std::convert::Infallible>(());
    tried!(Breadcrumb::take_over(&lease, "me", fence));
    let asked = lease.step_down_requested();
    drop(other.set(lease.path(), inbox).await);
    tried!(asked);
}

async fn queues(session: &Session) {
    let inspector = zk_queue::Inspector::new(session, PATH).unwrap();
    tried!(inspector.snapshot(SystemTime::UNIX_EPOCH));
    for layout in [
        QueueLayout::Recipe,
        QueueLayout::Native,
        QueueLayout::Kazoo,
        QueueLayout::Curator,
        QueueLayout::CuratorPriority,
        QueueLayout::CuratorDelay,
        QueueLayout::CuratorId,
    ] {
        let options = QueueOptions::default().with_layout(layout);
        let queue: Queue<String> = Queue::with_options(session, PATH, Text, &options).unwrap();
        tried!(
            queue.check_layout(),
            queue.counts(),
            queue.oldest_age(),
            queue.peek()
        );
        tried!(
            queue.cancel_with_id("id"),
            queue.poll(),
            queue.offer(&"item".to_owned()).into_future()
        );
        tried!(queue.poll_batch(10));
    }
}

async fn work_queues(session: &Session) {
    let lock_path = || NodePath::parse("/r/locks").unwrap();
    let inspector = zk_queue::Inspector::new(session, PATH).unwrap();
    tried!(
        inspector.snapshot(SystemTime::UNIX_EPOCH),
        inspector
            .clone()
            .with_lock_path(lock_path())
            .snapshot(SystemTime::UNIX_EPOCH)
    );
    for layout in [
        WorkLayout::Native,
        WorkLayout::KazooLocking,
        WorkLayout::Curator {
            lock_path: lock_path(),
        },
        WorkLayout::CuratorPriority {
            lock_path: lock_path(),
        },
        WorkLayout::CuratorDelay {
            lock_path: lock_path(),
        },
        WorkLayout::CuratorId {
            lock_path: lock_path(),
        },
    ] {
        let options = WorkOptions::default().with_layout(layout);
        let Ok(queue) = WorkQueue::<String>::with_options(session, PATH, Text, &options) else {
            continue;
        };
        tried!(
            queue.check_layout(),
            queue.counts(),
            queue.claims(),
            queue.oldest_age()
        );
        if let Ok(letters) = queue.dead_letters().await {
            for letter in &letters {
                tried!(queue.dead_letter(letter));
            }
        }
        if let Ok(Ok(claims)) = tokio::time::timeout(SHORT, queue.try_claim_batch(2)).await {
            for claim in claims {
                tried!(claim.bury("a reason"));
            }
        }
        tried!(
            queue.offer(&"item".to_owned()).into_future(),
            queue.dead_letter_page(None, 10),
            queue.redrive_up_to(10)
        );
    }
}
