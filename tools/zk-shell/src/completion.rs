//! Completes the commands, options and paths of a line.
//!
//! A completion never keeps the person waiting: what the ensemble does not answer in [`TIME_LIMIT`] is left out.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::CommandFactory as _;
use tokio::runtime::Handle;
use zk_core::{Error, NodePath, Session};

use crate::cli::Cli;
use crate::{escape, resolve_path};

/// What a person may have meant to type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// What is listed.
    pub(crate) shown: String,
    /// What replaces the word.
    pub(crate) replacement: String,
}

/// Completes lines from another thread than that of the runtime.
#[derive(Debug, Clone)]
pub(crate) struct Completion {
    runtime: Handle,
    source: Arc<Mutex<Source>>,
}

/// Where paths come from.
#[derive(Debug)]
struct Source {
    session: Option<Session>,
    current_path: NodePath,
}

/// What stands at the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Word {
    /// The name of a command, or of one below the given ones.
    Command { above: Vec<String> },
    /// An option of the command.
    Flag { command: Vec<String> },
    /// A path.
    Path,
    /// Something that cannot be guessed.
    Other,
}

impl Completion {
    /// Creates a completion without a session.
    pub(crate) fn new(runtime: Handle) -> Self {
        let source = Source {
            session: None,
            current_path: NodePath::root(),
        };
        Self {
            runtime,
            source: Arc::new(Mutex::new(source)),
        }
    }

    /// Takes paths from this session from now on.
    pub(crate) fn update(&self, session: Option<&Session>, current_path: &NodePath) {
        let mut source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        source.session = session.cloned();
        source.current_path = current_path.clone();
    }

    /// Returns where the word before the cursor begins, and what it may become. It blocks, for a short time.
    pub(crate) fn complete(&self, line: &str) -> (usize, Vec<Candidate>) {
        let Some((start, text, before)) = last_word(line) else {
            return (line.len(), Vec::new());
        };
        let candidates = match kind(&before, &text) {
            Word::Command { above } => names_of_commands(&above, &text),
            Word::Flag { command } => flags(&command, &text),
            Word::Path => self.paths(&text),
            Word::Other => Vec::new(),
        };
        (start, candidates)
    }

    fn paths(&self, text: &str) -> Vec<Candidate> {
        let (session, current_path) = {
            let source = self.source.lock().unwrap_or_else(PoisonError::into_inner);
            (source.session.clone(), source.current_path.clone())
        };
        let (parent, prefix) = text.split_at(text.rfind('/').map_or(0, |at| at + 1));
        let path = match parent {
            "" => Ok(current_path),
            parent => resolve_path::resolve(Some(&current_path), parent),
        };
        let (Some(session), Ok(path)) = (session, path) else {
            return Vec::new();
        };
        let read = async {
            let limited =
                tokio::time::timeout(TIME_LIMIT, candidates(&session, &path, parent, prefix));
            limited.await.ok()?.ok()
        };
        self.runtime.block_on(read).unwrap_or_default()
    }
}

async fn candidates(
    session: &Session,
    path: &NodePath,
    parent: &str,
    prefix: &str,
) -> Result<Vec<Candidate>, Error> {
    let stat = session.stat(path).timeout(TIME_LIMIT).await?;
    if stat.num_children > MOST_LISTED {
        return Ok(Vec::new());
    }
    let (names, _) = session.list(path).timeout(TIME_LIMIT).await?;
    let mut candidates = matching(names, parent, prefix);
    // The only one is a word of its own, unless it has children to go on with.
    if let [only] = &mut candidates[..]
        && let Ok(child) = path.join(&only.shown)
    {
        let stat = session.stat(&child).timeout(TIME_LIMIT).await?;
        let end = if stat.num_children > 0 { '/' } else { ' ' };
        only.replacement.push(end);
    }
    Ok(candidates)
}

/// Returns the names that begin so, as many as a person can choose from.
fn matching(mut names: Vec<String>, parent: &str, prefix: &str) -> Vec<Candidate> {
    names.retain(|name| name.starts_with(prefix) && escape::line(name) == name.as_str());
    names.sort_unstable();
    names.truncate(MOST_SHOWN);
    let candidate = |name: String| Candidate {
        replacement: quoted(&format!("{parent}{name}")),
        shown: name,
    };
    names.into_iter().map(candidate).collect()
}

/// Returns the last word of a line, with where it begins and the words before it; `None` inside quotes.
fn last_word(line: &str) -> Option<(usize, String, Vec<String>)> {
    let (mut words, mut word, mut start) = (Vec::new(), None::<String>, line.len());
    let mut chars = line.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' | '\'' => return None,
            c if c.is_whitespace() => words.extend(word.take()),
            c => {
                if word.is_none() {
                    start = at;
                }
                let c = if c == '\\' { chars.next()?.1 } else { c };
                word.get_or_insert_default().push(c);
            }
        }
    }
    match word {
        Some(word) => Some((start, word, words)),
        None => Some((line.len(), String::new(), words)),
    }
}

/// Puts a backslash before what would end a word.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_whitespace() || "\\\"'#".contains(c) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}

/// Returns what the word after these words is.
fn kind(before: &[String], word: &str) -> Word {
    let mut command = Cli::command();
    let mut names = Vec::new();
    let mut before = before.iter();
    // The words that lead to the command.
    while command.has_subcommands() {
        let Some(name) = before.by_ref().find(|word| !word.starts_with('-')) else {
            return if word.starts_with('-') {
                Word::Flag { command: names }
            } else {
                Word::Command { above: names }
            };
        };
        if name == "help" && names.is_empty() {
            return Word::Command { above: names };
        }
        let Some(next) = command.find_subcommand(name).cloned() else {
            return Word::Other;
        };
        names.push(next.get_name().to_owned());
        command = next;
    }
    if word.starts_with('-') {
        return Word::Flag { command: names };
    }
    // The value of an option is no path.
    let is_value = before.last().is_some_and(|last| {
        let mut options = command.get_opts();
        options.any(|option| {
            let long = option
                .get_long()
                .is_some_and(|long| *last == format!("--{long}"));
            let short = option
                .get_short()
                .is_some_and(|short| *last == format!("-{short}"));
            (long || short) && option.get_action().takes_values()
        })
    });
    let takes_paths = command
        .get_positionals()
        .any(|argument| argument.get_id() == "path");
    if is_value || !takes_paths {
        Word::Other
    } else {
        Word::Path
    }
}

fn names_of_commands(above: &[String], prefix: &str) -> Vec<Candidate> {
    let Some(command) = find(above) else {
        return Vec::new();
    };
    let commands = command
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let names = commands.map(|command| command.get_name().to_owned());
    words(names.collect(), prefix)
}

fn flags(command: &[String], prefix: &str) -> Vec<Candidate> {
    let Some(command) = find(command) else {
        return Vec::new();
    };
    let arguments = command
        .get_arguments()
        .filter(|argument| !argument.is_positional());
    let names = arguments.filter_map(|argument| match argument.get_long() {
        // There is one ensemble for all lines.
        Some("connect" | "version") => None,
        Some(long) => Some(format!("--{long}")),
        None => Some(format!("-{}", argument.get_short()?)),
    });
    words(names.collect(), prefix)
}

fn find(names: &[String]) -> Option<clap::Command> {
    let mut command = Cli::command();
    // Gives every command the options that all have, and the command `help`.
    command.build();
    for name in names {
        command = command.find_subcommand(name)?.clone();
    }
    Some(command)
}

fn words(mut names: Vec<String>, prefix: &str) -> Vec<Candidate> {
    names.retain(|name| name.starts_with(prefix));
    names.sort_unstable();
    let is_only = names.len() == 1;
    let candidate = |name: String| Candidate {
        replacement: if is_only {
            format!("{name} ")
        } else {
            name.clone()
        },
        shown: name,
    };
    names.into_iter().map(candidate).collect()
}

/// How long a completion may take.
const TIME_LIMIT: Duration = Duration::from_millis(300);
/// More children are not listed: the reply would hold up the session, whatever becomes of the completion.
const MOST_LISTED: u32 = 20_000;
/// How many names are offered.
const MOST_SHOWN: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_at_the_cursor_is_found_as_a_shell_splits() {
        for (line, expected) in [
            ("", Some((0, "", &[][..]))),
            ("l", Some((0, "l", &[]))),
            ("ls ", Some((3, "", &["ls"]))),
            ("ls /a", Some((3, "/a", &["ls"]))),
            ("  ls  -s /a\\ b", Some((9, "/a b", &["ls", "-s"]))),
            ("ls é/", Some((3, "é/", &["ls"]))),
            ("set '/a", None),
            ("set /a \"x", None),
            ("ls /a\\", None),
        ] {
            let found = last_word(line);
            let found = found.as_ref().map(|(start, word, before)| {
                let before: Vec<_> = before.iter().map(String::as_str).collect();
                (*start, word.as_str(), before)
            });
            let expected = expected.map(|(start, word, before)| (start, word, before.to_vec()));
            assert_eq!(found, expected, "{line}");
        }
    }

    #[test]
    fn commands_options_and_paths_are_told_apart() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        for (line, expected) in [
            ("", Word::Command { above: names(&[]) }),
            ("tr", Word::Command { above: names(&[]) }),
            ("help ", Word::Command { above: names(&[]) }),
            ("--json ls ", Word::Path),
            (
                "--",
                Word::Flag {
                    command: names(&[]),
                },
            ),
            (
                "config ",
                Word::Command {
                    above: names(&["config"]),
                },
            ),
            ("config put ", Word::Path),
            (
                "config put --",
                Word::Flag {
                    command: names(&["config", "put"]),
                },
            ),
            (
                "ls /a -",
                Word::Flag {
                    command: names(&["ls"]),
                },
            ),
            ("ls /", Word::Path),
            ("exit ", Word::Other),
            ("pwd ", Word::Other),
            ("find --name ", Word::Other),
            ("find --ephemeral ", Word::Path),
            ("set --file ", Word::Other),
            ("set -s ", Word::Path),
            ("set -v ", Word::Other),
            ("nonsense ", Word::Other),
        ] {
            let (_, word, before) = last_word(line).unwrap();
            assert_eq!(kind(&before, &word), expected, "{line}");
        }
    }

    #[test]
    fn names_are_offered_sorted_quoted_and_not_too_many() {
        let names = ["b", "a b", "a'c", "a\u{202e}x", "ab"]
            .map(str::to_owned)
            .to_vec();
        let offered = matching(names, "/p/", "a");
        let replacements: Vec<_> = offered.iter().map(|one| one.replacement.as_str()).collect();
        assert_eq!(replacements, ["/p/a\\ b", "/p/a\\'c", "/p/ab"]);
        assert_eq!(offered[0].shown, "a b");
        for one in &offered {
            let (_, word, _) = last_word(&format!("ls {}", one.replacement)).unwrap();
            assert_eq!(word, format!("/p/{}", one.shown));
        }
        let many = (0..1000).map(|number| format!("n{number:04}")).collect();
        let offered = matching(many, "", "n");
        assert_eq!((offered.len(), offered[299].shown.as_str()), (300, "n0299"));
    }

    #[test]
    fn commands_and_flags_come_from_the_command_line() {
        let shown = |candidates: Vec<Candidate>| -> Vec<String> {
            candidates.into_iter().map(|one| one.shown).collect()
        };
        assert_eq!(shown(names_of_commands(&[], "tre")), ["tree"]);
        assert_eq!(names_of_commands(&[], "tre")[0].replacement, "tree ");
        assert_eq!(shown(names_of_commands(&[], "hel")), ["help"]);
        let config = ["config".to_owned()];
        assert_eq!(shown(names_of_commands(&config, "p")), ["put"]);
        let find = ["find".to_owned()];
        assert_eq!(shown(flags(&find, "--o")), ["--older", "--owner"]);
        assert_eq!(shown(flags(&find, "--js")), ["--json"]);
        assert!(flags(&find, "--conn").is_empty());
    }
}
