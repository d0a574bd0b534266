//! Failures as text: `lose-reply:create:/locks/**@2`.
//!
//! Pure: no I/O and no clock.

use std::fmt;
use std::str::FromStr;

use zk_core::transport::Request;
use zk_sim::{Ensemble, Proposal, matching};

/// A failure of certain requests, with the names that `zk_sim::Script` has for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    text: String,
    failure: Failure,
    requests: Requests,
    path: String,
    turn: Turn,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    LoseRequest,
    LoseReply,
    Stall,
    KillLeader(Proposal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requests {
    Creates,
    Deletes,
    Gets,
    Sets,
    Exists,
    Lists,
    Syncs,
    Transactions,
    Watches,
    Writes,
    Any,
}

/// Which of the matching requests fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Nth(usize),
    Every,
}

impl Fault {
    /// Scripts the failure.
    pub(crate) fn inject(&self, ensemble: &Ensemble) {
        let script = ensemble.on(self.matcher());
        let script = match self.turn {
            Turn::Nth(nth) => script.nth(nth),
            Turn::Every => script.every(),
        };
        // It stays scripted.
        drop(match self.failure {
            Failure::LoseRequest => script.lose_request(),
            Failure::LoseReply => script.lose_reply(),
            Failure::Stall => script.stall(),
            Failure::KillLeader(proposal) => script.kill_leader(proposal),
        });
    }

    fn matcher(&self) -> Box<dyn Fn(&Request) -> bool + Send> {
        let path = self.path.as_str();
        match self.requests {
            Requests::Creates => Box::new(matching::creates(path)),
            Requests::Deletes => Box::new(matching::deletes(path)),
            Requests::Gets => Box::new(matching::gets(path)),
            Requests::Sets => Box::new(matching::sets(path)),
            Requests::Exists => Box::new(matching::exists(path)),
            Requests::Lists => Box::new(matching::lists(path)),
            Requests::Syncs => Box::new(matching::syncs()),
            Requests::Transactions => Box::new(matching::transactions(path)),
            Requests::Watches => Box::new(matching::watches(path)),
            Requests::Writes => Box::new(matching::with_path(path, matching::writes())),
            Requests::Any => Box::new(matching::with_path(path, matching::anything())),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        let mut next = |what| {
            let part = parts.next().filter(|part| !part.is_empty());
            part.ok_or_else(|| {
                format!("{what} is missing in {text:?}: write it as in lose-reply:create:/a")
            })
        };
        let (failure, requests, path) = (
            next("the failure")?,
            next("the request")?,
            next("the path")?,
        );
        let failure = match failure {
            "lose-request" => Failure::LoseRequest,
            "lose-reply" => Failure::LoseReply,
            "stall" => Failure::Stall,
            "kill-leader" => Failure::KillLeader(Proposal::Vanishes),
            "kill-leader-survives" => Failure::KillLeader(Proposal::Survives),
            other => {
                return Err(format!(
                    "{other:?} is no failure: use lose-request, lose-reply, stall, kill-leader or kill-leader-survives"
                ));
            }
        };
        let requests = match requests {
            "create" => Requests::Creates,
            "delete" => Requests::Deletes,
            "get" => Requests::Gets,
            "set" => Requests::Sets,
            "exists" => Requests::Exists,
            "list" => Requests::Lists,
            "sync" => Requests::Syncs,
            "transaction" => Requests::Transactions,
            "watch" => Requests::Watches,
            "write" => Requests::Writes,
            "any" => Requests::Any,
            other => {
                return Err(format!(
                    "{other:?} is no request: use create, delete, get, set, exists, list, sync, transaction, watch, \
                     write or any"
                ));
            }
        };
        let (path, turn) = match path.rsplit_once('@') {
            None => (path, Turn::Nth(1)),
            Some((path, "*")) => (path, Turn::Every),
            Some((path, number)) => {
                let nth = number.parse().ok().filter(|nth| *nth > 0);
                let nth = nth.ok_or_else(|| {
                    format!(
                        "{number:?} is no number of a request: use 1 for the first, or * for each"
                    )
                })?;
                (path, Turn::Nth(nth))
            }
        };
        Ok(Self {
            text: text.to_owned(),
            failure,
            requests,
            path: path.to_owned(),
            turn,
        })
    }
}

/// Parses a script: a failure per line.
pub(crate) fn parse_script(text: &str) -> Result<Vec<Fault>, String> {
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let fault = |(number, line): (usize, &str)| {
        line.parse()
            .map_err(|error| format!("line {number}: {error}"))
    };
    lines.map(fault).collect()
}

#[cfg(test)]
mod tests {
    use zk_core::transport::{CreateMode, MultiOp, NewNode, NodeData};

    use super::*;

    #[test]
    fn a_fault_names_its_requests_and_which_of_them_fail() {
        let parsed = |text: &str| {
            let fault: Fault = text.parse().unwrap();
            assert_eq!(fault.to_string(), text);
            fault
        };
        let fault = |text: &str, failure, requests, path: &str, turn| {
            let expected = Fault {
                text: text.to_owned(),
                failure,
                requests,
                path: path.to_owned(),
                turn,
            };
            assert_eq!(parsed(text), expected);
        };
        fault(
            "lose-reply:create:/locks/**@2",
            Failure::LoseReply,
            Requests::Creates,
            "/locks/**",
            Turn::Nth(2),
        );
        fault(
            "kill-leader-survives:any:**@*",
            Failure::KillLeader(Proposal::Survives),
            Requests::Any,
            "**",
            Turn::Every,
        );
        fault(
            "stall:set:/a",
            Failure::Stall,
            Requests::Sets,
            "/a",
            Turn::Nth(1),
        );
    }

    #[test]
    fn each_word_for_requests_matches_those_of_its_kind() {
        let path = || zk_core::NodePath::parse("/a").unwrap();
        let watch = false;
        let version = None;
        let requests = [
            (
                "create",
                Request::Create2(NewNode {
                    path: path(),
                    data: NodeData::default(),
                    mode: CreateMode::Container,
                    acl: zk_core::Acl::open(),
                }),
            ),
            (
                "delete",
                Request::Delete {
                    path: path(),
                    version,
                },
            ),
            (
                "get",
                Request::GetData {
                    path: path(),
                    watch,
                },
            ),
            (
                "set",
                Request::SetData {
                    path: path(),
                    data: NodeData::default(),
                    version,
                },
            ),
            (
                "exists",
                Request::Exists {
                    path: path(),
                    watch,
                },
            ),
            (
                "list",
                Request::GetChildren2 {
                    path: path(),
                    watch,
                },
            ),
            ("sync", Request::Sync { path: path() }),
            (
                "transaction",
                Request::Multi(vec![MultiOp::Delete {
                    path: path(),
                    version,
                }]),
            ),
            (
                "watch",
                Request::AddWatch {
                    path: path(),
                    recursive: false,
                },
            ),
        ];
        let all = requests.each_ref().map(|(word, _)| *word);
        let matched = |word: &str, path: &str| {
            let fault: Fault = format!("stall:{word}:{path}").parse().unwrap();
            let matcher = fault.matcher();
            let matched = requests.iter().filter(|(_, request)| matcher(request));
            matched.map(|(word, _)| *word).collect::<Vec<_>>()
        };
        for word in all {
            assert_eq!(matched(word, "/a"), [word]);
        }
        assert_eq!(matched("any", "/*"), all);
        assert_eq!(matched("any", "/b"), [""; 0]);
        let writes = ["create", "delete", "set", "transaction"];
        assert_eq!(matched("write", "/a"), writes);
        assert_eq!(matched("write", "/b"), [""; 0]);
    }

    #[test]
    fn each_word_for_a_failure_means_one() {
        for (word, failure) in [
            ("lose-request", Failure::LoseRequest),
            ("lose-reply", Failure::LoseReply),
            ("stall", Failure::Stall),
            ("kill-leader", Failure::KillLeader(Proposal::Vanishes)),
            (
                "kill-leader-survives",
                Failure::KillLeader(Proposal::Survives),
            ),
        ] {
            let fault: Fault = format!("{word}:any:**").parse().unwrap();
            assert_eq!(fault.failure, failure, "{word}");
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        for (text, error) in [
            ("lose-reply", "the request is missing"),
            ("lose:create:/a", "\"lose\" is no failure"),
            ("lose-reply:make:/a", "\"make\" is no request"),
            ("lose-reply:create:/a@0", "\"0\" is no number"),
            ("lose-reply:create:", "the path is missing"),
        ] {
            let found = text.parse::<Fault>().unwrap_err();
            assert!(found.contains(error), "{text}: {found}");
        }
        let script = "# first\n\nlose-reply:create:/a\n stall:set:/b \nnonsense:x:/y\n";
        let error = parse_script(script).unwrap_err();
        assert!(error.starts_with("line 5: \"nonsense\""), "{error}");
        let script = script.replace("nonsense:x", "stall:get");
        assert_eq!(parse_script(&script).unwrap().len(), 3);
    }
}
