//! The terminal of the interactive shell: lines with a history, completion and hints, on a thread of their own.
//!
//! A line takes as long as a person does, and the session must live meanwhile: so the terminal is read on another
//! thread than that of the runtime.

use std::borrow::Cow;
use std::fs;
use std::io::{self, BufRead as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::completion::{Completer, Pair};
use rustyline::config::CompletionType;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::{Hinter, HistoryHinter};
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Helper};
use tokio::sync::oneshot;

use crate::completion::Completion;
use crate::failure::{Failure, write_stderr};

/// The terminal. Requests are carried out one after the other.
#[derive(Debug, Clone)]
pub(crate) struct Editor {
    requests: mpsc::Sender<Request>,
}

/// What came from the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminalInput {
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the terminal is gone.
    End,
}

/// A prompt, with and without colours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) plain: String,
    pub(crate) styled: String,
}

#[derive(Debug)]
enum Request {
    Line(Prompt, oneshot::Sender<TerminalInput>),
    Remember(String),
    Ask(String, oneshot::Sender<TerminalInput>),
    Password(String, oneshot::Sender<Option<String>>),
}

impl Request {
    /// Returns whether the command that waits for the answer has ended: it must not be asked for.
    fn is_cancelled(&self) -> bool {
        match self {
            Self::Line(_, reply) | Self::Ask(_, reply) => reply.is_closed(),
            Self::Password(_, reply) => reply.is_closed(),
            Self::Remember(_) => false,
        }
    }
}

impl Editor {
    /// Takes over the terminal.
    pub(crate) fn start(
        completion: Completion,
        history: Option<PathBuf>,
        has_colours: bool,
    ) -> Result<Self, Failure> {
        let (requests, received) = mpsc::channel();
        let (started, has_started) = mpsc::channel();
        let work = move || {
            let assistant = Assistant {
                completion,
                hinter: HistoryHinter::new(),
                has_colours,
                prompt: None,
            };
            let mut terminal = match Terminal::open(assistant, history) {
                Ok(terminal) => terminal,
                Err(error) => {
                    drop(started.send(Err(error)));
                    return;
                }
            };
            drop(started.send(Ok(())));
            for request in received {
                terminal.carry_out(request);
            }
        };
        let cannot = |problem: String| {
            Failure::operation(
                format!("cannot use the terminal: {problem}"),
                Some("give a command, or commands from standard input with `zk run -`"),
            )
        };
        thread::Builder::new()
            .name("terminal".to_owned())
            .spawn(work)
            .map_err(|error| cannot(error.to_string()))?;
        match has_started.recv() {
            Ok(Ok(())) => Ok(Self { requests }),
            Ok(Err(error)) => Err(cannot(error.to_string())),
            Err(_) => Err(cannot("its thread has ended".to_owned())),
        }
    }

    /// Reads a line.
    pub(crate) async fn line(&self, prompt: Prompt) -> TerminalInput {
        let (reply, typed) = oneshot::channel();
        drop(self.requests.send(Request::Line(prompt, reply)));
        typed.await.unwrap_or(TerminalInput::End)
    }

    /// Adds a line to the history.
    pub(crate) fn remember(&self, line: String) {
        drop(self.requests.send(Request::Remember(line)));
    }

    /// Asks a question; `None` if there is no answer.
    pub(crate) async fn ask(&self, question: &str) -> Option<String> {
        let (reply, typed) = oneshot::channel();
        drop(self.requests.send(Request::Ask(question.to_owned(), reply)));
        match typed.await {
            Ok(TerminalInput::Line(answer)) => Some(answer),
            _ => None,
        }
    }

    /// Asks for a password, which is not shown; `None` if there is none.
    pub(crate) async fn password(&self, prompt: &str) -> Option<String> {
        let (reply, typed) = oneshot::channel();
        drop(
            self.requests
                .send(Request::Password(prompt.to_owned(), reply)),
        );
        typed.await.ok().flatten()
    }
}

/// Prints a line above the prompt while a line is being typed.
///
/// The editor's own printer is not used: while it exists, the editor overlooks keys that arrive together, such as a
/// pasted line. The price is that the part of a line that was typed already is drawn again only with the next key that
/// moves the cursor; it is not lost.
pub(crate) fn print_above(text: &str, prompt: &Prompt) {
    write_stderr(&format!("\r\u{1b}[K{text}\r\n{}", prompt.styled));
}

/// The settings of a terminal, to be restored when the program ends while a line is being typed.
#[derive(Debug)]
pub(crate) struct SavedTerminal(Option<Termios>);

impl SavedTerminal {
    /// Saves the settings.
    pub(crate) fn save() -> Self {
        Self(tcgetattr(rustix::stdio::stdin()).ok())
    }

    /// Restores them.
    pub(crate) fn restore(&self) {
        if let Some(settings) = &self.0 {
            // A terminal that is gone needs no settings.
            _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, settings);
        }
    }
}

struct Terminal {
    editor: rustyline::Editor<Assistant, FileHistory>,
    history: Option<PathBuf>,
}

impl Terminal {
    fn open(assistant: Assistant, history: Option<PathBuf>) -> Result<Self, ReadlineError> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .completion_prompt_limit(100)
            .history_ignore_space(true)
            .history_ignore_dups(true)?
            .max_history_size(1000)?
            .build();
        let mut editor = rustyline::Editor::with_config(config)?;
        editor.set_helper(Some(assistant));
        // Without a file, the history lasts as long as the shell.
        let history = history.filter(|file| prepare(file).is_ok());
        if let Some(file) = &history {
            drop(editor.load_history(file));
        }
        Ok(Self { editor, history })
    }

    fn carry_out(&mut self, request: Request) {
        if request.is_cancelled() {
            return;
        }
        match request {
            Request::Line(prompt, reply) => {
                let plain = prompt.plain.clone();
                self.set_prompt(Some(prompt));
                drop(reply.send(self.read(&plain)));
            }
            Request::Remember(line) => {
                drop(self.editor.add_history_entry(line));
                if let Some(file) = &self.history {
                    drop(self.editor.append_history(file));
                }
            }
            Request::Ask(question, reply) => {
                let (text, last) = question.split_at(question.rfind('\n').map_or(0, |at| at + 1));
                write_stderr(text);
                self.set_prompt(None);
                drop(reply.send(self.read(last)));
            }
            Request::Password(prompt, reply) => drop(reply.send(read_hidden(&prompt))),
        }
    }

    fn set_prompt(&mut self, prompt: Option<Prompt>) {
        if let Some(assistant) = self.editor.helper_mut() {
            assistant.prompt = prompt;
        }
    }

    fn read(&mut self, prompt: &str) -> TerminalInput {
        match self.editor.readline(prompt) {
            Ok(line) => TerminalInput::Line(line),
            Err(ReadlineError::Interrupted) => TerminalInput::Interrupted,
            Err(_) => TerminalInput::End,
        }
    }
}

/// Creates the file of the history, which only its owner may read.
fn prepare(file: &Path) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    let mut options = fs::OpenOptions::new();
    let opened = options.append(true).create(true).mode(0o600).open(file)?;
    opened.set_permissions(fs::Permissions::from_mode(0o600))
}

/// Reads a line that the terminal does not show. Ctrl-C is a character of the line here, and means that there is none.
fn read_hidden(prompt: &str) -> Option<String> {
    let saved = SavedTerminal::save();
    let mut hidden = saved.0.clone()?;
    hidden.local_modes -= LocalModes::ECHO | LocalModes::ISIG;
    tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, &hidden).ok()?;
    write_stderr(prompt);
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    saved.restore();
    write_stderr("\n");
    let line = line.trim_end_matches(['\n', '\r']);
    let is_cancelled = line.contains('\u{3}') || line.is_empty();
    (read.is_ok() && !is_cancelled).then(|| line.to_owned())
}

/// What helps while a line is typed.
struct Assistant {
    completion: Completion,
    hinter: HistoryHinter,
    has_colours: bool,
    /// The prompt of a command; `None` while a question is asked, which gets no help.
    prompt: Option<Prompt>,
}

impl Helper for Assistant {}

impl Validator for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        pos: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        if self.prompt.is_none() {
            return Ok((pos, Vec::new()));
        }
        let (start, candidates) = self.completion.complete(&line[..pos]);
        let pairs = candidates.into_iter().map(|candidate| Pair {
            display: candidate.shown,
            replacement: candidate.replacement,
        });
        Ok((start, pairs.collect()))
    }
}

impl Hinter for Assistant {
    type Hint = String;

    fn hint(&self, line: &str, pos: usize, context: &rustyline::Context<'_>) -> Option<String> {
        // Without colours a hint looks like something typed.
        if self.prompt.is_none() || !self.has_colours {
            return None;
        }
        self.hinter.hint(line, pos, context)
    }
}

impl Highlighter for Assistant {
    #[expect(single_use_lifetimes, reason = "the trait has them")]
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        is_default: bool,
    ) -> Cow<'b, str> {
        match &self.prompt {
            Some(known) if is_default && self.has_colours => Cow::Borrowed(&known.styled),
            _ => Cow::Borrowed(prompt),
        }
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        let dimmed = anstyle::Style::new().dimmed();
        Cow::Owned(format!("{dimmed}{hint}{dimmed:#}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_may_read_the_history() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state/zk/history");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        prepare(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        assert_eq!(mode(file.parent().unwrap()), 0o700);
        fs::write(&file, "ls\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        prepare(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        assert_eq!(fs::read_to_string(&file).unwrap(), "ls\n");
    }
}
