//! Other clients of ZooKeeper, driven from Rust: to test that ours get along with them, and to measure ours against.
//!
//! The other client is Apache Curator. Its jars and a Java compiler come from the distribution's packages, installed
//! or unpacked into the harness's cache ([`Curator::find`]); the Java programs in `tests/java` are compiled when they
//! are first needed. A Java runtime is enough, because the compiler is Eclipse's, which is a Java program itself.
//!
//! | program | driven by | does |
//! |---|---|---|
//! | `Contender.java` | [`CuratorContender`] | acquires and releases an `InterProcessMutex` when told to |
//! | `Bench.java` | [`CuratorBench`] | measures `InterProcessMutex` |
//! | `SeedCounter.java` | [`seed_counter`] | moves the counter of sequential nodes to its end, offline |
//!
//! Where the distribution has no such packages, `ZK_TESTS_CURATOR_HOME` names a directory with these jars:
//! curator-client, curator-framework, curator-recipes, guava, failureaccess unless guava has it inside, and ecj.

mod bench;
mod clock;
mod compiler;
mod contender;
mod counter;
mod curator;
mod jars;
mod run;

pub use self::bench::CuratorBench;
pub use self::bench::Measured;
pub use self::bench::Workload;
pub use self::clock::monotonic;
pub use self::compiler::Compiler;
pub use self::contender::CuratorContender;
pub use self::contender::Held;
pub use self::counter::seed_counter;
pub use self::curator::Curator;
