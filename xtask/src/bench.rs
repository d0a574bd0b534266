//! `bench`: builds a benchmark and runs it, also next to an older revision.

mod against;
mod figures;

use std::ffi::OsString;

use anyhow::Context as _;

use crate::workspace::Workspace;

/// A benchmark and its options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bench {
    target: &'static Target,
    quick: bool,
    peers: bool,
    memory: bool,
    /// The revision to compare with, and the number of rounds.
    against: Option<(OsString, usize)>,
    /// Arguments for criterion.
    rest: Vec<OsString>,
}

/// One of the benchmarks of the crate `zk-bench`.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    name: &'static str,
    /// `--bench` for one of criterion, otherwise `--bin`, and the target's name.
    cargo: [&'static str; 2],
    /// Whether it can be compared with an older revision.
    is_compared: bool,
}

impl Bench {
    /// Parses the arguments after `bench`.
    pub(crate) fn parse(args: Vec<OsString>) -> Result<Self, String> {
        let mut args = args.into_iter();
        let name = args
            .next()
            .ok_or_else(|| format!("the name of a benchmark is missing: use {NAMES}"))?;
        let target = TARGETS
            .iter()
            .find(|target| name == target.name)
            .ok_or_else(|| format!("unknown benchmark {}: use {NAMES}", name.display()))?;
        let mut bench = Self {
            target,
            quick: false,
            peers: false,
            memory: false,
            against: None,
            rest: Vec::new(),
        };
        let mut rounds = None;
        while let Some(arg) = args.next() {
            match arg.to_str() {
                Some("--quick") => bench.quick = true,
                Some("--peers") => bench.peers = true,
                Some("--memory") => bench.memory = true,
                Some(count) if name == "fleet" && count.parse::<u32>().is_ok() => {
                    bench.rest = vec![arg];
                }
                Some("--against") => {
                    let revision = args.next().ok_or("--against needs a revision")?;
                    bench.against = Some((revision, ROUNDS));
                }
                Some("--rounds") => {
                    let count = args.next().and_then(|count| count.to_str()?.parse().ok());
                    rounds = Some(
                        count
                            .filter(|count| *count > 0)
                            .ok_or("--rounds needs the number of rounds, at least 1")?,
                    );
                }
                Some("--") => bench.rest = args.by_ref().collect(),
                _ => {
                    return Err(format!(
                        "unknown option {} of bench: use --quick, --peers, --memory, --against REV or --rounds N, \
                         and put arguments for criterion after --",
                        arg.display()
                    ));
                }
            }
        }
        bench.with_rounds(rounds)
    }

    /// Sets the number of rounds, and checks that the benchmark can be compared.
    fn with_rounds(mut self, wanted: Option<usize>) -> Result<Self, String> {
        let Some((_, rounds)) = &mut self.against else {
            return match wanted {
                None => Ok(self),
                Some(_) => Err("--rounds needs --against REV".to_owned()),
            };
        };
        *rounds = wanted.unwrap_or(*rounds);
        if self.peers {
            return Err("--against measures no peers: leave out --peers".to_owned());
        }
        if !self.target.is_compared {
            return Err("--against compares lock, id, cache, queue and wire".to_owned());
        }
        // The quick form is the only one whose rounds take less than a minute.
        self.quick = true;
        Ok(self)
    }

    /// Returns the variables that the benchmark reads.
    fn environment(&self) -> [(&'static str, &'static str); 3] {
        let flag = |given| if given { "1" } else { "0" };
        [
            ("ZK_BENCH_QUICK", flag(self.quick)),
            ("ZK_BENCH_PEERS", flag(self.peers)),
            ("ZK_BENCH_MEMORY", flag(self.memory)),
        ]
    }

    /// Returns the cargo arguments that build the benchmark.
    fn build(&self) -> Vec<&'static str> {
        let build: &[&str] = if self.is_of_criterion() {
            &["bench", "--no-run"]
        } else {
            &["build", "--release"]
        };
        [build, &["--package", "zk-bench"], &self.target.cargo].concat()
    }

    /// Returns the cargo arguments that run the benchmark.
    fn run(&self) -> Vec<&'static str> {
        let run: &[&str] = if self.is_of_criterion() {
            &["bench"]
        } else {
            &["run", "--release"]
        };
        [run, &["--package", "zk-bench"], &self.target.cargo].concat()
    }

    fn is_of_criterion(&self) -> bool {
        self.target.cargo[0] == "--bench"
    }
}

/// Runs a benchmark, and returns whether it succeeded; cargo prints the error.
///
/// Cargo remains the parent process, so that an interrupt reaches both.
pub(crate) fn command(workspace: &Workspace, bench: &Bench) -> anyhow::Result<bool> {
    if let Some((revision, rounds)) = &bench.against {
        return against::command(workspace, bench, revision, *rounds);
    }
    let mut cargo = workspace.cargo(&bench.run());
    cargo.envs(bench.environment()).arg("--").args(&bench.rest);
    Ok(cargo.status().context("cannot run cargo")?.success())
}

const fn target(name: &'static str, cargo: [&'static str; 2], is_compared: bool) -> Target {
    Target {
        name,
        cargo,
        is_compared,
    }
}

static TARGETS: [Target; 8] = [
    target("lock", ["--bench", "lock_throughput"], true),
    target("id", ["--bench", "ids"], true),
    target("cache", ["--bench", "cache"], true),
    target("queue", ["--bin", "queue-bench"], true),
    target("wire", ["--bench", "wire"], true),
    target("barrier", ["--bin", "barrier-bench"], false),
    // The steps of one hand-over.
    target("trace", ["--bin", "handover-trace"], false),
    // The load of idle sessions.
    target("fleet", ["--bin", "fleet-bench"], false),
];
const NAMES: &str = "lock, id, cache, queue, wire, barrier, trace or fleet";

/// The default number of rounds of `--against`.
const ROUNDS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Bench, String> {
        Bench::parse(args.iter().map(OsString::from).collect())
    }

    #[test]
    fn options_become_the_environment_of_the_benchmark() {
        let plain = parse(&["lock"]).unwrap();
        for target in &TARGETS {
            let bench = parse(&[target.name]).unwrap();
            assert!(bench.target == target && NAMES.contains(target.name));
        }
        let fleet = parse(&["fleet", "--memory", "1000"]).unwrap();
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
    fn arguments_after_two_dashes_are_for_criterion() {
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
    fn a_comparison_is_quick_and_has_rounds() {
        let bench = parse(&["lock", "--against", "a8e16f2", "--", "contention/20"]).unwrap();
        assert!(bench.quick);
        assert_eq!(bench.against, Some(("a8e16f2".into(), ROUNDS)));
        assert_eq!(
            bench.build(),
            [
                "bench",
                "--no-run",
                "--package",
                "zk-bench",
                "--bench",
                "lock_throughput"
            ]
        );
        let bench = parse(&["queue", "--rounds", "2", "--against", "HEAD"]).unwrap();
        assert_eq!(bench.against, Some(("HEAD".into(), 2)));
        assert_eq!(
            bench.run(),
            [
                "run",
                "--release",
                "--package",
                "zk-bench",
                "--bin",
                "queue-bench"
            ]
        );
        for wrong in [
            &["lock", "--against"][..],
            &["lock", "--rounds", "3"],
            &["lock", "--against", "HEAD", "--rounds", "0"],
            &["lock", "--against", "HEAD", "--peers"],
            &["fleet", "--against", "HEAD"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_unknown_name_or_option_is_an_error_with_the_known_ones() {
        assert_eq!(
            parse(&[]),
            Err(
                "the name of a benchmark is missing: use lock, id, cache, queue, wire, barrier, trace or fleet"
                    .to_owned()
            )
        );
        assert_eq!(
            parse(&["locks", "--quick"]),
            Err(
                "unknown benchmark locks: use lock, id, cache, queue, wire, barrier, trace or fleet"
                    .to_owned()
            )
        );
        for wrong in ["--fast", "-q", "contention/20"] {
            let error = parse(&["lock", wrong]).unwrap_err();
            assert!(
                error.starts_with(&format!("unknown option {wrong} of bench: use --quick")),
                "{error}"
            );
        }
    }
}
