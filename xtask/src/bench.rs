//! `bench`: build a benchmark and become it.

use std::ffi::OsString;

use anyhow::Context as _;

use crate::workspace::Workspace;

/// Which benchmark, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bench {
    which: Which,
    quick: bool,
    peers: bool,
    memory: bool,
    /// What goes on to criterion.
    rest: Vec<OsString>,
}

/// The benchmarks there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Lock,
    /// What an id costs.
    Id,
    Cache,
    /// One hand-over, step by step.
    Trace,
    Queue,
    /// What sessions cost that do nothing.
    Fleet,
}

impl Bench {
    /// Reads the arguments behind `bench`; the error says what is wrong with them.
    pub(crate) fn parse(args: Vec<OsString>) -> Result<Self, String> {
        let mut args = args.into_iter();
        let which = match args.next() {
            Some(name) if name == "lock" => Which::Lock,
            Some(name) if name == "id" => Which::Id,
            Some(name) if name == "cache" => Which::Cache,
            Some(name) if name == "trace" => Which::Trace,
            Some(name) if name == "queue" => Which::Queue,
            Some(name) if name == "fleet" => Which::Fleet,
            Some(name) => {
                return Err(format!(
                    "there is no benchmark {}; there are: lock, id, cache, queue, trace, fleet",
                    name.display()
                ));
            }
            None => {
                return Err(
                    "bench needs the name of a benchmark; there are: lock, id, cache, queue, trace, fleet"
                        .to_owned(),
                );
            }
        };
        let mut bench = Self {
            which,
            quick: false,
            peers: false,
            memory: false,
            rest: Vec::new(),
        };
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("--quick") => bench.quick = true,
                Some("--peers") => bench.peers = true,
                Some("--memory") => bench.memory = true,
                Some(count) if which == Which::Fleet && count.parse::<u32>().is_ok() => {
                    bench.rest = vec![arg];
                }
                Some("--") => bench.rest = args.by_ref().collect(),
                _ => {
                    return Err(format!(
                        "bench has no option {}; it has --quick, --peers and --memory, \
                         and hands on to criterion what comes behind --",
                        arg.display()
                    ));
                }
            }
        }
        Ok(bench)
    }

    /// What the benchmark reads from its environment.
    fn environment(&self) -> [(&'static str, &'static str); 3] {
        let flag = |given| if given { "1" } else { "0" };
        [
            ("ZK_BENCH_QUICK", flag(self.quick)),
            ("ZK_BENCH_PEERS", flag(self.peers)),
            ("ZK_BENCH_MEMORY", flag(self.memory)),
        ]
    }

    /// The target's name in the crate of the benchmarks.
    fn target(&self) -> [&'static str; 2] {
        match self.which {
            Which::Lock => ["--bench", "lock_throughput"],
            Which::Id => ["--bench", "ids"],
            Which::Cache => ["--bench", "cache"],
            Which::Trace => ["--bin", "handover-trace"],
            Which::Queue => ["--bin", "queue-bench"],
            Which::Fleet => ["--bin", "fleet-bench"],
        }
    }
}

/// Runs a benchmark, and returns whether it went well; cargo has said why not.
///
/// Cargo stays its parent: an interrupt reaches both.
pub(crate) fn command(workspace: &Workspace, bench: &Bench) -> anyhow::Result<bool> {
    let [kind, target] = bench.target();
    let mut cargo = match bench.which {
        Which::Lock | Which::Id | Which::Cache => {
            workspace.cargo(&["bench", "--package", "zk-bench", kind, target])
        }
        Which::Trace | Which::Queue | Which::Fleet => {
            workspace.cargo(&["run", "--release", "--package", "zk-bench", kind, target])
        }
    };
    cargo.envs(bench.environment()).arg("--").args(&bench.rest);
    Ok(cargo.status().context("cannot run cargo")?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Bench, String> {
        Bench::parse(args.iter().map(OsString::from).collect())
    }

    #[test]
    fn options_become_the_environment_of_the_benchmark() {
        let plain = parse(&["lock"]).unwrap();
        assert_eq!(plain.target(), ["--bench", "lock_throughput"]);
        assert_eq!(parse(&["id"]).unwrap().target(), ["--bench", "ids"]);
        assert_eq!(parse(&["cache"]).unwrap().target(), ["--bench", "cache"]);
        assert_eq!(parse(&["trace"]).unwrap().target()[1], "handover-trace");
        assert_eq!(parse(&["queue"]).unwrap().target()[1], "queue-bench");
        let fleet = parse(&["fleet", "--memory", "1000"]).unwrap();
        assert_eq!(fleet.target()[1], "fleet-bench");
        assert!(fleet.memory && fleet.rest == ["1000"]);
        assert!(plain.environment().iter().all(|(_, value)| *value == "0"));
        let bench = parse(&["lock", "--memory", "--quick"]).unwrap();
        assert_eq!(
            bench.environment(),
            [
                ("ZK_BENCH_QUICK", "1"),
                ("ZK_BENCH_PEERS", "0"),
                ("ZK_BENCH_MEMORY", "1")
            ]
        );
        let peers = parse(&["lock", "--peers"]).unwrap();
        assert_eq!(peers.environment()[1], ("ZK_BENCH_PEERS", "1"));
    }

    #[test]
    fn what_comes_behind_two_dashes_is_criterions() {
        let bench = parse(&[
            "lock",
            "--quick",
            "--",
            "--test",
            "--quick",
            "contention/20",
        ])
        .unwrap();
        assert!(bench.quick);
        assert_eq!(bench.rest, ["--test", "--quick", "contention/20"]);
    }

    #[test]
    fn what_there_is_not_is_said_with_what_there_is() {
        assert_eq!(
            parse(&[]),
            Err(
                "bench needs the name of a benchmark; there are: lock, id, cache, queue, trace, fleet"
                    .to_owned()
            )
        );
        assert_eq!(
            parse(&["locks", "--quick"]),
            Err(
                "there is no benchmark locks; there are: lock, id, cache, queue, trace, fleet"
                    .to_owned()
            )
        );
        for wrong in ["--fast", "-q", "contention/20"] {
            let error = parse(&["lock", wrong]).unwrap_err();
            assert!(
                error.starts_with(&format!("bench has no option {wrong}; it has --quick")),
                "{error}"
            );
        }
    }
}
