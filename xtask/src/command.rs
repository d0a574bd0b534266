//! Parses the command line.

use std::ffi::OsString;

use crate::bench::Bench;

/// A parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Ensemble(Vec<OsString>),
    Zk(Vec<OsString>),
    Test(Vec<OsString>),
    Check(Vec<OsString>),
    Orphan,
    Bench(Bench),
    Ci,
    Tidy,
    Help,
}

impl Command {
    /// Parses the arguments after the program's name.
    pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut args = args.into_iter();
        let Some(name) = args.next() else {
            return Err("the command is missing".to_owned());
        };
        let rest: Vec<OsString> = args.collect();
        let alone = |command: Self| match rest.first() {
            None => Ok(command),
            Some(arg) => Err(format!(
                "unexpected argument {1}: {0} takes none",
                name.display(),
                arg.display()
            )),
        };
        match name.to_str() {
            Some("ensemble") => Ok(Self::Ensemble(rest)),
            Some("zk") => Ok(Self::Zk(rest)),
            Some("test") => Ok(Self::Test(rest)),
            Some("check") => Ok(Self::Check(rest)),
            Some("orphan") => alone(Self::Orphan),
            Some("bench") => Bench::parse(rest).map(Self::Bench),
            Some("ci") => alone(Self::Ci),
            Some("tidy") => alone(Self::Tidy),
            Some("help" | "--help" | "-h") => Ok(Self::Help),
            _ => Err(format!("unknown command {}", name.display())),
        }
    }
}

pub(crate) const USAGE: &str = "\
usage: cargo xtask COMMAND [ARGS]

  ensemble ARGS   run zk-ensemble: a real ensemble of servers on this machine
                  (prepare, up, down, list, status, kill, stop, start, restart, pause, resume, logs, env),
                  and faults (partition, slow, cut, heal, expire, fill-disk, free-disk, clock);
                  `up --simulated` serves a simulated ensemble on loopback TCP instead, without Java and for unit tests
                  only, until `down`
  zk [ARGS]       run zk, the interactive shell without a command; commands on nodes (ls, get, set, create, delete,
                  deleteall, rm, stat, getacl, setacl, txn), on subtrees (tree, find, grep, du, watch, export, import,
                  mirror), on what recipes left (locks, queue, leader, services, ids, what) and on configuration
                  (config); several from a file (run), and those of the shell (cd, pwd, addauth, quit);
                  a dashboard of the ensemble (top);
                  without --connect and ZK_CONNECT it talks to the running ensemble
  test            run the unit and simulated tests of the libraries, and on real servers each recipe once and a failover
  test all        run every test, long ones in their short form: also the others on real servers, the documentation's,
                  of programs, of containers and beside other clients
  test deep       run every test in full length
  test [all|deep] ARGS
                  run those of all tests that ARGS choose; they go to the test runner
  test --zookeeper VERSION [deep] [ARGS]
                  use each feature once on that version, such as 3.9.3, and write its column of the table in
                  docs/compatibility.md; with deep or ARGS run the tests on real servers on it instead
  test --zookeeper all
                  do so for each version of the table
  test beside COMMIT [ARGS]
                  run the tests of several processes, every second process built from that commit
  test planted [WORDS]
                  break one rule after the other in a copy of the last commit, check that tests notice, and write which
                  ones in docs/planted.md; WORDS choose topics (lease, lock, ...) or flaws by their descriptions; an
                  interrupted run is continued
  test mutants [--crate NAME] [--count N] [--seed N]
                  change 150 places of the libraries in a copy of the last commit, one after the other, or 40 of a crate
                  that is named, and write to docs/mutants.md which changes no test without servers notices
  check [DIR]     check a failed run again, by default the newest one; --help explains the options
  bench lock [--quick] [--peers] [--memory] [-- ARGS]
                  measure the lock next to the minimum that the same servers allow; with --peers next to Curator and
                  others, on disk and in memory, and write BENCHMARKS.md;
                  --quick takes about three minutes without --peers, --memory keeps the servers' data off the disk,
                  ARGS go to criterion
  bench trace [--memory]
                  break down a hand-over of the lock: the time in the servers, the clients and the network
  bench queue [--quick] [--peers] [--memory]
                  measure the queue next to plain creates and deletes, with --peers also next to Curator's and kazoo's
  bench barrier [--quick] [--peers] [--memory]
                  measure the enters and leaves of double barriers next to plain creates and deletes, with --peers also
                  next to Curator's
  bench fleet [--quick] [--peers] [--memory] [SESSIONS]
                  measure the load of idle sessions and of sessions that hold a lock each, next to plain clients and
                  with --peers next to Curator; 100, 1,000 and 5,000 sessions by default, 100 with --quick
  bench cache [--quick] [--peers]
                  measure the cache next to plain reads of its nodes, with --peers also next to Curator's
  bench id [--quick] [--peers]
                  measure the cost of an id, with --peers next to other crates
  bench wire [--quick] [--peers] [--memory]
                  measure zk-wire next to zookeeper-client and a blocking socket, with --peers also next to the Java
                  client: rates, latencies, CPU, allocations and, where strace is installed, system calls
  bench NAME --against REV [--rounds N]
                  run the quick form of lock, id, cache, queue or wire at that revision and of the working tree
                  alternately (5 rounds by default), and print which figures differ by more than their spread
  orphan          run the orphan-contender scenario with our lock, Curator's, kazoo's and the client crate's
  tidy            check the rules of this workspace that no compiler checks
  ci              run the steps of the continuous integration";

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Command, String> {
        Command::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn programs_and_tests_get_their_arguments_untouched() {
        let args = || {
            ["up", "--servers", "5", "--help", "--"]
                .map(OsString::from)
                .to_vec()
        };
        assert_eq!(
            parse(&["ensemble", "up", "--servers", "5", "--help", "--"]),
            Ok(Command::Ensemble(args()))
        );
        assert_eq!(
            parse(&["zk", "up", "--servers", "5", "--help", "--"]),
            Ok(Command::Zk(args()))
        );
        assert_eq!(
            parse(&["test", "up", "--servers", "5", "--help", "--"]),
            Ok(Command::Test(args()))
        );
        assert_eq!(parse(&["test"]), Ok(Command::Test(vec![])));
        assert_eq!(
            parse(&["check", "up", "--servers", "5", "--help", "--"]),
            Ok(Command::Check(args()))
        );
    }

    #[test]
    fn ci_and_tidy_stand_alone() {
        assert_eq!(parse(&["ci"]), Ok(Command::Ci));
        assert_eq!(parse(&["tidy"]), Ok(Command::Tidy));
        assert_eq!(
            parse(&["ci", "--fast"]),
            Err("unexpected argument --fast: ci takes none".to_owned())
        );
        assert_eq!(
            parse(&["tidy", "zk-core"]),
            Err("unexpected argument zk-core: tidy takes none".to_owned())
        );
    }

    #[test]
    fn a_benchmark_is_known_by_its_name() {
        assert!(matches!(
            parse(&["bench", "lock", "--quick"]),
            Ok(Command::Bench(_))
        ));
        assert_eq!(
            parse(&["bench", "latch"]),
            Err(
                "unknown benchmark latch: use lock, id, cache, queue, wire, barrier, trace or fleet"
                    .to_owned()
            )
        );
    }

    #[test]
    fn an_unknown_command_is_an_error() {
        assert_eq!(parse(&[]), Err("the command is missing".to_owned()));
        assert_eq!(
            parse(&["ensembel"]),
            Err("unknown command ensembel".to_owned())
        );
        for help in ["help", "--help", "-h"] {
            assert_eq!(parse(&[help]), Ok(Command::Help));
        }
    }

    /// The names of the commands in the source of a command line that is made with clap.
    fn commands_in(source: &str) -> Vec<String> {
        let (_, variants) = source.split_once("\npub(crate) enum Command {\n").unwrap();
        let (variants, _) = variants.split_once("\n}\n").unwrap();
        let mut is_hidden = false;
        let mut commands = Vec::new();
        for line in variants.lines() {
            let Some(line) = line.strip_prefix("    ") else {
                continue;
            };
            if line.starts_with("#[") {
                is_hidden |= line.contains("hide = true");
            } else if line.starts_with(|c: char| c.is_ascii_uppercase()) {
                let name = line.split([' ', '(', ',', '{']).next().unwrap();
                let mut kebab = String::new();
                for c in name.chars() {
                    if c.is_ascii_uppercase() && !kebab.is_empty() {
                        kebab.push('-');
                    }
                    kebab.push(c.to_ascii_lowercase());
                }
                if !is_hidden {
                    commands.push(kebab);
                }
                is_hidden = false;
            }
        }
        commands
    }

    #[test]
    fn usage_names_the_commands_of_the_programs_it_runs() {
        for (command, source, some) in [
            (
                "  ensemble ",
                include_str!("../../crates/zk-harness/src/bin/zk-ensemble/args.rs"),
                ["up", "free-disk"],
            ),
            (
                "  zk ",
                include_str!("../../tools/zk-shell/src/cli.rs"),
                ["ls", "config"],
            ),
        ] {
            let commands = commands_in(source);
            assert!(
                some.iter()
                    .all(|it| commands.iter().any(|found| found == it)),
                "{commands:?}"
            );
            // A command's lines are those up to the next one's.
            let (_, usage) = USAGE.split_once(command).unwrap();
            let lines = usage.lines().enumerate();
            let lines = lines.take_while(|(at, line)| *at == 0 || line.starts_with("   "));
            let usage: Vec<&str> = lines.map(|(_, line)| line).collect();
            let usage = usage.join("\n");
            let words: Vec<&str> = usage
                .split(|c: char| !(c.is_ascii_lowercase() || c == '-'))
                .collect();
            for name in commands {
                assert!(words.contains(&name.as_str()), "{command}: {name}");
            }
        }
    }

    #[test]
    fn usage_names_every_command() {
        for name in [
            "ensemble", "zk", "test", "check", "bench", "orphan", "tidy", "ci",
        ] {
            assert!(
                USAGE
                    .lines()
                    .any(|line| line.starts_with(&format!("  {name} "))),
                "{name}"
            );
        }
    }
}
