//! Decides from the servers' logs whether the servers lost acknowledged writes.
//!
//! A server that takes the lead of an epoch must have every transaction that was acknowledged in an earlier one. If its
//! log ends before one, or if it has another server truncate one, the servers lost an acknowledged write, and no recipe can
//! make up for that. Each transaction belongs to one epoch, the upper half of its zxid, and an epoch has
//! one leader, so zxids alone decide this: no clock is read, which a test may have moved.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use super::verdict::{Evidence, Judgement, Verdict};
use crate::{Call, History};

/// The logs of the servers of one or more ensembles.
#[derive(Debug, Clone, Default)]
pub struct ServerLogs {
    ensembles: Vec<Vec<Log>>,
}

#[derive(Debug, Clone)]
struct Log {
    server: u64,
    events: Vec<Event>,
}

/// An event in a log that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The server starts an election; `last` is the end of its log.
    Election { last: u64 },
    /// It was elected.
    Leading,
    /// It joins another server.
    Following,
    /// As leader, it brings a server up to date.
    Synchronizing { peer: u64, own: u64, theirs: u64 },
    /// As leader, it has a server truncate its log after `to`.
    Truncation { peer: u64, to: u64 },
    /// A quorum follows it; the upper half is the epoch.
    Established { zxid: u64 },
    /// It truncates its own log on the leader's order.
    Truncating,
}

/// Transactions that are lost if they were acknowledged: those after `after`, up to and including `last`.
#[derive(Debug, Clone, Copy)]
struct Window {
    after: u64,
    last: u64,
    /// The server that truncates them; `None` if the leader itself does not have them.
    truncating: Option<u64>,
}

/// A server's events as leader, from its election to the next one.
#[derive(Debug, Default)]
struct Term {
    /// Where its log ended when it was elected.
    last: Option<u64>,
    /// Its epoch, once a quorum follows.
    epoch: Option<u64>,
    windows: Vec<Window>,
    /// Where the logs of others ended when they joined.
    theirs: BTreeMap<u64, u64>,
}

/// The evidence that a transaction was acknowledged or committed.
#[derive(Debug, Clone, Copy)]
enum Witness<'h> {
    History(&'h Call),
    Log { server: u64 },
}

/// The name of the verdict on the servers.
const NAME: &str = "servers";
const COUNTER: u64 = 0xffff_ffff;

impl ServerLogs {
    /// Reads the logs `server-N/server.log` of the ensemble in each directory; a directory without any is ignored.
    ///
    /// # Errors
    ///
    /// A log cannot be read.
    pub fn read<P: AsRef<Path>>(directories: impl IntoIterator<Item = P>) -> io::Result<Self> {
        let mut logs = Self::default();
        for directory in directories {
            let mut texts = Vec::new();
            let Ok(entries) = fs::read_dir(directory) else {
                continue;
            };
            for entry in entries {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let server = name.strip_prefix("server-").and_then(|id| id.parse().ok());
                let file = path.join("server.log");
                if let Some(server) = server.filter(|_| file.is_file()) {
                    let bytes = fs::read(&file)?;
                    texts.push((server, String::from_utf8_lossy(&bytes).into_owned()));
                }
            }
            logs.add(texts);
        }
        Ok(logs)
    }

    /// Reads the logs of the ensembles in a kept run.
    ///
    /// # Errors
    ///
    /// A log cannot be read.
    pub fn of_run(directory: &Path) -> io::Result<Self> {
        if !directory.is_dir() {
            return Ok(Self::default());
        }
        let mut directories = Vec::new();
        for entry in fs::read_dir(directory)? {
            directories.push(entry?.path());
        }
        directories.sort();
        Self::read(directories)
    }

    /// Adds the logs of the servers of one ensemble, each with the server's number.
    fn add(&mut self, logs: impl IntoIterator<Item = (u64, String)>) {
        let mut logs: Vec<Log> = logs
            .into_iter()
            .map(|(server, text)| Log {
                server,
                events: text.lines().filter_map(event).collect(),
            })
            .collect();
        logs.sort_by_key(|log| log.server);
        if !logs.is_empty() {
            self.ensembles.push(logs);
        }
    }

    /// Decides whether the servers lost writes that are acknowledged in the history, or that they had committed; `None`
    /// without logs.
    ///
    /// The tokens of the history that are zxids count as acknowledged, if there is only one ensemble.
    pub fn verdict(&self, history: &History) -> Option<Verdict> {
        if self.ensembles.is_empty() {
            return None;
        }
        let mut verdict = Verdict::new(NAME);
        for logs in &self.ensembles {
            let mut known = BTreeMap::new();
            if self.ensembles.len() == 1 {
                known.extend(acknowledged(history));
            }
            judge(logs, known, &mut verdict);
        }
        let truncations = verdict.counted("truncations");
        if verdict.found > 0 {
            verdict.judgement = Judgement::RolledBack;
            verdict.notes.push(
                "the servers rolled back acknowledged writes, which some releases of ZooKeeper are known to do (see \
                 docs/compatibility.md); other violations may be a consequence"
                    .to_owned(),
            );
        } else if truncations > 0 {
            verdict
                .notes
                .push("servers truncated their logs; no acknowledged write was lost".to_owned());
        }
        Some(verdict)
    }
}

/// Finds the acknowledged zxids of the history. A number without an epoch is not a zxid.
fn acknowledged(history: &History) -> impl Iterator<Item = (u64, Witness<'_>)> {
    history.calls.iter().filter_map(|call| {
        let zxid = call.outcome.return_value()?.token?;
        (epoch(zxid) > 0 && zxid & COUNTER > 0).then_some((zxid, Witness::History(call)))
    })
}

fn judge(logs: &[Log], mut known: BTreeMap<u64, Witness<'_>>, verdict: &mut Verdict) {
    let mut terms: Vec<(u64, Term)> = Vec::new();
    for log in logs {
        let truncations = log
            .events
            .iter()
            .filter(|event| **event == Event::Truncating);
        verdict.count("truncations", truncations.count());
        for (term, committed) in log.terms() {
            for zxid in committed {
                let server = log.server;
                known.entry(zxid).or_insert(Witness::Log { server });
            }
            verdict.count("leaders", usize::from(term.epoch.is_some()));
            terms.push((log.server, term));
        }
    }
    for (leader, term) in &terms {
        // A leader without a quorum accepts no writes, so all transactions belong to earlier epochs.
        let bound = term.epoch.map_or(u64::MAX, |epoch| epoch << 32);
        for window in &term.windows {
            if window.last <= window.after {
                continue;
            }
            let mut lost = known.range(window.after + 1..=window.last);
            let Some((&zxid, &witness)) = lost.rfind(|(zxid, _)| **zxid < bound) else {
                continue;
            };
            let did = match window.truncating {
                Some(server) => format!(
                    "server {server} was ordered by server {leader} to truncate its log to {:#x}",
                    window.after
                ),
                None => format!(
                    "server {leader} took the lead with a log that ends at {:#x}",
                    window.after
                ),
            };
            let had = match witness {
                Witness::History(_) => format!("{zxid:#x} had been acknowledged"),
                Witness::Log { server } => {
                    format!("{zxid:#x} had been committed, according to the log of server {server}")
                }
            };
            let evidence = match witness {
                Witness::History(call) => Some(Evidence::of(call)),
                Witness::Log { .. } => None,
            };
            verdict.violation("rollback", || format!("{did} although {had}"), evidence);
        }
    }
}

impl Log {
    /// Returns the server's terms as leader, each with the transactions committed in it.
    fn terms(&self) -> Vec<(Term, Vec<u64>)> {
        let mut terms: Vec<(Term, Vec<u64>)> = Vec::new();
        let (mut last, mut leads) = (None, false);
        for event in &self.events {
            if let Event::Election { last: end } = *event {
                (last, leads) = (Some(end), false);
            }
            match (*event, terms.last_mut().filter(|_| leads)) {
                (Event::Leading, _) => {
                    let term = Term {
                        last,
                        ..Term::default()
                    };
                    terms.push((term, Vec::new()));
                    leads = true;
                }
                (Event::Following, _) => leads = false,
                (Event::Synchronizing { peer, own, theirs }, Some((term, committed))) => {
                    term.theirs.insert(peer, theirs);
                    term.windows.push(Window {
                        after: own,
                        last: theirs,
                        truncating: Some(peer),
                    });
                    if term.epoch.is_some() {
                        committed.push(own);
                    }
                }
                (Event::Truncation { peer, to }, Some((term, _))) => {
                    if let Some(&theirs) = term.theirs.get(&peer) {
                        term.windows.push(Window {
                            after: to,
                            last: theirs,
                            truncating: Some(peer),
                        });
                    }
                }
                (Event::Established { zxid }, Some((term, committed))) => {
                    term.epoch = Some(epoch(zxid));
                    if let Some(last) = term.last {
                        term.windows.push(Window {
                            after: last,
                            last: zxid,
                            truncating: None,
                        });
                        committed.push(last);
                    }
                }
                _ => {}
            }
        }
        for (_, committed) in &mut terms {
            // The first zxid of an epoch is not a transaction.
            committed.retain(|zxid| zxid & COUNTER > 0);
        }
        terms
    }
}

/// Reads a line of a server's log; the wording is that of ZooKeeper 3.5 to 3.9.
fn event(line: &str) -> Option<Event> {
    let has = |text: &str| line.contains(text);
    if has("New election. My id =") {
        let last = hexadecimal(line, "proposed zxid=0x")?;
        Some(Event::Election { last })
    } else if has("LEADING - LEADER ELECTION TOOK") {
        Some(Event::Leading)
    } else if has("FOLLOWING - LEADER ELECTION TOOK") || has("OBSERVING - LEADER ELECTION TOOK") {
        Some(Event::Following)
    } else if has("Synchronizing with ") {
        Some(Event::Synchronizing {
            peer: decimal(line, " sid: ")?,
            own: hexadecimal(line, "maxCommittedLog=0x")?
                .max(hexadecimal(line, "lastProcessedZxid=0x")?),
            theirs: hexadecimal(line, "peerLastZxid=0x")?,
        })
    } else if has("Sending TRUNC ") {
        Some(Event::Truncation {
            peer: decimal(line, "peer sid:")?,
            to: hexadecimal(line, "zxid=0x").or_else(|| hexadecimal(line, "zxidToSend=0x"))?,
        })
    } else if has("Have quorum of supporters") {
        let zxid = hexadecimal(line, "last processed zxid: 0x")?;
        Some(Event::Established { zxid })
    } else if has("Truncating log to get in sync with the leader") {
        Some(Event::Truncating)
    } else {
        None
    }
}

fn decimal(line: &str, label: &str) -> Option<u64> {
    let digits = after(line, label)?;
    let end = digits.find(|letter: char| !letter.is_ascii_digit());
    digits[..end.unwrap_or(digits.len())].parse().ok()
}

fn hexadecimal(line: &str, label: &str) -> Option<u64> {
    let digits = after(line, label)?;
    let end = digits.find(|letter: char| !letter.is_ascii_hexdigit());
    u64::from_str_radix(&digits[..end.unwrap_or(digits.len())], 16).ok()
}

fn after<'l>(line: &'l str, label: &str) -> Option<&'l str> {
    let at = line.find(label)?;
    Some(line[at + label.len()..].trim_start())
}

/// Returns the epoch, the upper half of a zxid.
const fn epoch(zxid: u64) -> u64 {
    zxid >> 32
}

#[cfg(test)]
mod tests;
