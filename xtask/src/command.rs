//! Which command was asked for.

use std::ffi::OsString;

use crate::bench::Bench;

/// What the command line asks for.
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
    /// The feature rows with the tests that show them.
    TidyRows,
    Help,
}

impl Command {
    /// Reads the arguments behind the program's name; the error says what is wrong with them.
    pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Self, String> {
        let mut args = args.into_iter();
        let Some(name) = args.next() else {
            return Err("a command is needed".to_owned());
        };
        let rest: Vec<OsString> = args.collect();
        let alone = |command: Self| match rest.first() {
            None => Ok(command),
            Some(arg) => Err(format!(
                "{} takes no argument, but {} was given",
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
            Some("tidy") if rest == ["--rows"] => Ok(Self::TidyRows),
            Some("tidy") => alone(Self::Tidy),
            Some("help" | "--help" | "-h") => Ok(Self::Help),
            _ => Err(format!("there is no command {}", name.display())),
        }
    }
}

pub(crate) const USAGE: &str = "\
usage: cargo xtask COMMAND [ARGS]

  ensemble ARGS   run zk-ensemble: a real ensemble of servers on this machine
                  (up, down, list, status, kill, stop, start, restart, pause, resume, logs, env),
                  and what breaks it on purpose (partition, slow, cut, heal, expire, fill-disk, free-disk, clock)
  zk ARGS         run zk, the shell commands on nodes (ls, get, set, create, delete, deleteall, stat), on locks (locks)
                  and on configuration (config);
                  without --connect and ZK_CONNECT it talks to the running ensemble
  test [quick|deep] [ARGS]
                  run all tests; ARGS go to the test runner, and leave the documentation's tests out;
                  quick runs the pure and simulated ones and one on real servers, deep the long ones in full length
  test beside COMMIT [ARGS]
                  run the tests of several processes, every second process built from that commit
  check [DIR]     judge a run again that a test kept because it failed, the newest without DIR; --help tells more
  bench lock [--quick] [--peers] [--memory] [-- ARGS]
                  measure the lock next to the least that the same servers allow; with --peers next to Curator and others,
                  on disk and in memory, and write BENCHMARKS.md;
                  --quick takes less than 50 s, --memory keeps the servers' data off the disk, ARGS go to criterion
  bench trace [--memory]
                  take a hand-over of the lock apart: how long the servers, the clients and the wire take
  bench queue [--quick] [--peers] [--memory]
                  measure the queue next to plain creates and deletes, with --peers next to Curator's and kazoo's as well
  bench fleet [--memory] [SESSIONS]
                  measure what sessions cost the servers while they do nothing, idle and holding a lock each; 500 of them
  bench cache [--quick] [--peers]
                  measure the cache next to the bare reads of its nodes, with --peers next to Curator's as well
  bench id [--quick] [--peers]
                  measure what an id costs, with --peers next to other crates
  bench NAME --against REV [--rounds N]
                  run the quick form of lock, id, cache or queue at that revision and of the working tree alternately
                  (5 rounds by default), and print which figures differ by more than their spread
  orphan          play the orphan contender with our lock, Curator's, kazoo's and the client crate's, and compare them
  tidy [--rows]   check the rules of this workspace that no compiler checks;
                  with --rows list the feature rows with the tests that show them: real, simulated or pure
  ci              run what the continuous integration runs, in its order";

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
        assert_eq!(parse(&["tidy", "--rows"]), Ok(Command::TidyRows));
        assert_eq!(
            parse(&["ci", "--fast"]),
            Err("ci takes no argument, but --fast was given".to_owned())
        );
        assert_eq!(
            parse(&["tidy", "zk-core"]),
            Err("tidy takes no argument, but zk-core was given".to_owned())
        );
    }

    #[test]
    fn a_benchmark_is_known_by_its_name() {
        assert!(matches!(
            parse(&["bench", "lock", "--quick"]),
            Ok(Command::Bench(_))
        ));
        assert_eq!(
            parse(&["bench", "barrier"]),
            Err("unknown benchmark barrier: use lock, id, cache, queue, trace or fleet".to_owned())
        );
    }

    #[test]
    fn what_is_no_command_is_said() {
        assert_eq!(parse(&[]), Err("a command is needed".to_owned()));
        assert_eq!(
            parse(&["ensembel"]),
            Err("there is no command ensembel".to_owned())
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
                include_str!("../../crates/zk-shell/src/cli.rs"),
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
