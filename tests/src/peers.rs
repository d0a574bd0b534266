//! Drives other clients of ZooKeeper from Rust, for interoperability tests and benchmarks.
//!
//! The other clients are Apache Curator, kazoo and ZooKeeper's own. Curator's jars and a Java compiler come from the distribution's
//! packages, installed or unpacked into the harness's cache ([`Curator::find`]). The Java programs in `tests/java` are
//! compiled on first use. A Java runtime is enough, because the compiler is Eclipse's, which is a Java program itself.
//!
//! | program | driven by | purpose |
//! |---|---|---|
//! | `Contender.java` | [`PeerContender`] | acquires and releases an `InterProcessMutex` on command |
//! | `SemaphoreContender.java` | [`PeerContender`] | acquires and releases leases of an `InterProcessSemaphoreV2` on command |
//! | `Revocable.java` | [`CuratorProcess`] | holds an `InterProcessMutex` until it is revoked, and revokes others |
//! | `PlainClient.java` | [`CuratorProcess`] | does on command what all clients of the protocol can do, with ZooKeeper's own |
//! | `DiscoveryPeer.java` | [`CuratorProcess`] | registers instances with Curator's service discovery, and lists them |
//! | `GroupPeer.java` | [`CuratorProcess`] | joins a `GroupMember`, and keeps a `PersistentNode` or `PersistentTtlNode` |
//! | `party_peer.py` | [`KazooMember`] | joins a `Party` or a `ShallowParty`, and lists its members |
//! | `partitioner_peer.py` | [`KazooMember`] | shares items with a `SetPartitioner` |
//! | `contender.py` | [`PeerContender`] | the same with kazoo's `Lock` |
//! | `RwContender.java` | [`PeerContender`] | acquires and releases an `InterProcessReadWriteLock` on command |
//! | `contender.py` | [`PeerContender`] | the same with kazoo's `ReadLock` and `WriteLock` |
//! | `hbase_contender.py` | [`PeerContender`] | the requests of HBase's `ZKInterProcessReadWriteLock`, re-enacted over kazoo's connection |
//! | `RecipeContender.java` | [`PeerContender`] | the same as `Contender.java` with ZooKeeper's own `WriteLock` |
//! | `Elector.java` | [`PeerContender`] | takes part in an election of `LeaderLatch` or `LeaderSelector` |
//! | `Melee.java`, `melee.py` | [`Melee`](crate::melee::Melee) | take locks in a loop, and are killed |
//! | `Bench.java` | [`Curator::measure`] | measures `InterProcessMutex` |
//! | `CacheBench.java` | [`measure_cache`] | measures `CuratorCache` |
//! | `bench.py` | [`Kazoo::measure`] | measures kazoo's `Lock` |
//! | `QueuePeer.java` | [`Curator::queue`] | puts items into Curator's queues or takes them, and measures it |
//! | `queue_peer.py` | [`Kazoo::queue`] | the same with kazoo's `Queue` |
//! | `PublicClasses.java` | [`Curator::public_names`] | lists the public classes and methods in Curator's jars |
//! | `SharedQueuePeer.java` | [`SharedQueuePeer`] | puts items on command into Curator's queues with a lock path, and takes them |
//! | `locking_queue_peer.py` | [`SharedQueuePeer`] | the same with kazoo's `LockingQueue` |
//! | `lease_peer.py` | [`KazooLeases`] | takes kazoo's leases on command |
//! | `Operations.java`, `NewerOperations.java` | [`JavaClient`] | perform every operation of ZooKeeper's own client |
//! | `Basics.java` | [`Curator::basics`] | does what every client does, with ZooKeeper's own client |
//! | `basics.py` | [`Kazoo::basics`] | the same with kazoo, and its `Lock` |
//! | `public_names.py` | [`Kazoo::public_names`] | lists the public classes and functions of kazoo |
//! | `CounterPeer.java` | [`CuratorProcess`] | uses Curator's counters, shared counts and shared values on command |
//! | `counter_peer.py` | [`Kazoo::count`] | adds to kazoo's `Counter` |
//! | `BarrierPeer.java`, `barrier_peer.py` | [`BarrierPeer`] | use barriers and double barriers on command |
//! | `BarrierBench.java` | [`Curator::measure_double_barriers`] | measures double barriers |
//! | `SeedCounter.java` | [`seed_counter`] | moves the counter of sequential nodes to its end, offline |
//! | `SeedVersion.java` | [`seed_version`] | sets the version of a node, offline |
//!
//! On a distribution without these packages, `ZK_TESTS_CURATOR_HOME` names a directory with these jars:
//! curator-client, curator-framework, curator-recipes, curator-x-discovery, jackson-core, jackson-annotations,
//! jackson-databind, guava, failureaccess unless guava contains it, ecj, and zookeeper-recipes-lock unless it is next
//! to ZooKeeper's own jars.

mod barrier;
mod basics;
mod bench;
mod cache;
mod clock;
mod compiler;
mod contender;
mod counter;
mod curator;
mod dialogue;
mod jars;
mod java_client;
mod kazoo;
mod kazoo_counter;
mod kazoo_member;
mod lease;
mod process;
mod public_names;
mod queue;
mod run;
mod shared_queue;

pub use self::barrier::{BarrierAct, BarrierPaths, BarrierPeer};
pub use self::bench::{Measured, Workload};
pub use self::cache::{CacheCourse, CacheFigures, measure_cache};
pub use self::clock::monotonic;
pub use self::compiler::Compiler;
pub use self::contender::{Held, PeerContender, Recipe};
pub use self::counter::{seed_counter, seed_version};
pub use self::curator::Curator;
pub(crate) use self::dialogue::Dialogue;
pub use self::java_client::{JavaClient, JavaStep};
pub use self::kazoo::Kazoo;
pub use self::kazoo_member::KazooMember;
pub use self::lease::KazooLeases;
pub use self::process::CuratorProcess;
pub use self::public_names::PublicName;
pub use self::queue::{CuratorQueue, QueueAct, QueueRun};
pub use self::shared_queue::{SharedCuratorQueue, SharedQueuePeer};
