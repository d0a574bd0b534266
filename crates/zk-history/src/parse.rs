//! Parses the lines of a history into calls, each invoke with its return.
//!
//! Pure: no I/O and no clock.

use std::collections::HashMap;
use std::sync::Arc;

use super::history::{Call, Client, Fault, History, Process, SourceLine};
use super::line::{FORMAT_VERSION, Line, Phase};
use super::op::Op;
use super::outcome::Outcome;

/// Why a text is not a history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
#[non_exhaustive]
pub struct ParseError {
    /// The file.
    pub file: String,
    /// The line number, from one.
    pub line: usize,
    /// The problem.
    pub problem: String,
}

impl History {
    /// Parses the texts of history files, each with its name.
    ///
    /// The order of lines does not matter, except that a process begins before its other lines.
    /// Unknown fields, operations and lines are ignored.
    ///
    /// A process that is killed while it writes may leave a partial line: at the end of a file, or before the next
    /// line of another process in a shared file. Such a line is ignored and listed in [`torn`](Self::torn).
    ///
    /// # Errors
    ///
    /// A line is not in the format, the format has another version, or lines contradict each other.
    pub fn parse<N: Into<String>, T: AsRef<str>>(
        files: impl IntoIterator<Item = (N, T)>,
    ) -> Result<Self, ParseError> {
        let mut parser = Parser::default();
        for (name, text) in files {
            parser.file(name.into(), text.as_ref())?;
        }
        Ok(parser.finish())
    }
}

/// A partly parsed history.
#[derive(Default)]
struct Parser {
    history: History,
    /// The processes of the current file, by name.
    current: HashMap<String, usize>,
    names: HashMap<String, Arc<str>>,
    /// The call or fault with an id of a process.
    ids: HashMap<(usize, u64), Known>,
}

/// The meaning of an id.
#[derive(Clone, Copy)]
enum Known {
    Call(usize),
    Fault(usize),
    /// An ignored operation.
    Ignored,
}

impl Parser {
    fn file(&mut self, name: String, text: &str) -> Result<(), ParseError> {
        let file = self.history.files.len();
        self.history.files.push(name);
        self.current.clear();
        for (before, text) in text.split_inclusive('\n').enumerate() {
            let line = before + 1;
            let source_line = SourceLine { file, line };
            let whole = text.ends_with('\n');
            let text = text.trim();
            if text.is_empty() {
                continue;
            }
            let parsed = match serde_json::from_str(text) {
                Ok(parsed) => self.line(parsed, source_line),
                Err(error) => match rest_of(text) {
                    _ if !whole => {
                        self.history.torn.push(source_line);
                        Ok(())
                    }
                    Some(rest) => {
                        self.history.torn.push(source_line);
                        self.line(rest, source_line)
                    }
                    None => Err(other_version(text).unwrap_or_else(|| not_a_line(text, &error))),
                },
            };
            parsed.map_err(|problem| ParseError {
                file: self.history.files[file].clone(),
                line,
                problem,
            })?;
        }
        Ok(())
    }

    fn line(&mut self, line: Line, source_line: SourceLine) -> Result<(), String> {
        match line {
            Line::Begin {
                process,
                at,
                version,
                pid,
            } => {
                if version != FORMAT_VERSION {
                    return Err(version_is(u64::from(version)));
                }
                let name = self.name(&process);
                self.current.insert(process, self.history.processes.len());
                self.history.processes.push(Process {
                    name,
                    pid,
                    begun: at,
                    last: at,
                    ended: false,
                });
            }
            Line::Invoke {
                process,
                task,
                at,
                id,
                op,
            } => {
                let client = self.client(&process, task, at)?;
                if op == Op::Unrecognised {
                    self.history.unrecognised += 1;
                    return self.know(&client, id, Known::Ignored);
                }
                self.know(&client, id, Known::Call(self.history.calls.len()))?;
                self.history.calls.push(Call {
                    client,
                    id,
                    op,
                    invoked: at,
                    returned: None,
                    given_up: None,
                    outcome: Outcome::Unknown {
                        reason: "it never returned".to_owned(),
                    },
                    believed_until: None,
                    source_line,
                });
            }
            Line::Return {
                process,
                at,
                id,
                outcome,
                reason,
                answer,
            } => {
                let outcome = outcome.outcome(reason, answer);
                if let Some(call) = self.call(&process, at, id)? {
                    if call.returned.or(call.given_up).is_some() {
                        return Err(format!("call {id} of {process} returns a second time"));
                    }
                    if at < call.invoked {
                        return Err(format!("call {id} of {process} returns before it began"));
                    }
                    if outcome.is_unknown() {
                        call.given_up = Some(at);
                    } else {
                        call.returned = Some(at);
                    }
                    call.outcome = outcome;
                }
            }
            Line::Until {
                process,
                at,
                id,
                until,
                reason: _,
            } => {
                if let Some(call) = self.call(&process, at, id)? {
                    call.believed_until = Some(until);
                }
            }
            Line::Fault {
                process,
                at,
                id,
                phase,
                name,
                target,
            } => {
                let client = self.client(&process, None, at)?;
                let known = self.ids.get(&(client.process, id)).copied();
                match (phase, known) {
                    (Phase::Begin, _) => {
                        self.know(&client, id, Known::Fault(self.history.faults.len()))?;
                        self.history.faults.push(Fault {
                            name,
                            target,
                            begun: at,
                            ended: None,
                        });
                    }
                    (Phase::End, Some(Known::Fault(fault))) => {
                        self.history.faults[fault].ended = Some(at);
                    }
                    (Phase::End, _) => return Err(format!("fault {id} of {process} never began")),
                }
            }
            Line::End { process, at } => {
                let client = self.client(&process, None, at)?;
                self.history.processes[client.process].ended = true;
            }
            Line::Unrecognised => self.history.unrecognised += 1,
        }
        Ok(())
    }

    /// Returns the client of a line, and records that its process was alive at that time.
    fn client(&mut self, process: &str, task: Option<String>, at: u64) -> Result<Client, String> {
        let index = *self.current.get(process).ok_or_else(|| {
            format!(
                "{process} has a line before its `begin` line with the `version`; record that line first"
            )
        })?;
        let known = &mut self.history.processes[index];
        known.last = known.last.max(at);
        let name = Arc::clone(&known.name);
        Ok(Client {
            process: index,
            name,
            task: task.map(|task| self.name(&task)),
        })
    }

    /// Returns the call with an id, or `None` if it was ignored.
    fn call(&mut self, process: &str, at: u64, id: u64) -> Result<Option<&mut Call>, String> {
        let client = self.client(process, None, at)?;
        match self.ids.get(&(client.process, id)) {
            Some(Known::Call(call)) => Ok(Some(&mut self.history.calls[*call])),
            Some(Known::Ignored) => Ok(None),
            Some(Known::Fault(_)) | None => Err(format!("call {id} of {process} never began")),
        }
    }

    fn know(&mut self, client: &Client, id: u64, known: Known) -> Result<(), String> {
        match self.ids.insert((client.process, id), known) {
            None => Ok(()),
            Some(_) => Err(format!(
                "{} uses the id {id} twice: two recorders at a time need two names",
                client.name
            )),
        }
    }

    /// Shares one copy of each name.
    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let new: Arc<str> = name.into();
        self.names.insert(name.to_owned(), Arc::clone(&new));
        new
    }

    fn finish(mut self) -> History {
        // A stable sort keeps the order of a process within one nanosecond.
        self.history.calls.sort_by_key(|call| call.invoked);
        self.history.faults.sort_by_key(|fault| fault.begun);
        self.history
    }
}

/// Parses the complete line that follows a torn one in the same line of a file.
fn rest_of(text: &str) -> Option<Line> {
    let at = text.rfind(LINE_BEGINS)?;
    serde_json::from_str(&text[at..]).ok()
}

/// Returns the problem if this is the `begin` line of another version, whatever its other fields are.
fn other_version(text: &str) -> Option<String> {
    let json: serde_json::Value = serde_json::from_str(text).ok()?;
    let version = json.get("version")?.as_u64()?;
    (json.get("type")? == "begin" && version != u64::from(FORMAT_VERSION))
        .then(|| version_is(version))
}

fn version_is(version: u64) -> String {
    format!("the format has version {version}, and this program reads version {FORMAT_VERSION}")
}

fn not_a_line(text: &str, error: &serde_json::Error) -> String {
    const SHOWN: usize = 60;
    let shown: String = text.chars().take(SHOWN).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("not a line of a history ({error}): {shown}{more}")
}

const LINE_BEGINS: &str = "{\"type\":";

#[cfg(test)]
mod tests;
