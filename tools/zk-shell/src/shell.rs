//! The interactive shell: reads lines, runs them in one session, and shows where it is.

use std::path::PathBuf;

use tokio::runtime::Handle;
use zk_core::{ConnectString, ConnectionState, NodePath};

use crate::completion::Completion;
use crate::context::Context;
use crate::editor::{Editor, Prompt, SavedTerminal, TerminalInput, print_above};
use crate::escape;
use crate::failure::{Failure, write_stderr};
use crate::line::{self, Parsed};
use crate::output::Style;
use crate::signals::{EndSignal, Signals};

/// Runs the lines of the terminal until `quit`, Ctrl-D or a signal, and leaves the terminal as it was.
pub(crate) async fn run(context: &mut Context) -> Result<(), Failure> {
    let terminal = SavedTerminal::save();
    let result = run_lines(context).await;
    // A signal may have come while the editor waits for a key, with its own settings.
    terminal.restore();
    result
}

async fn run_lines(context: &mut Context) -> Result<(), Failure> {
    // A first session, so that the first prompt says how things are.
    if let Err(failure) = context.session().await {
        if failure.is_usage() {
            return Err(failure);
        }
        context.output().failure(&failure).await;
    }
    let completion = Completion::new(Handle::current());
    let has_colours = context.output().has_colours();
    let history = history_file(|name| std::env::var_os(name).map(PathBuf::from));
    let editor = Editor::start(completion.clone(), history, has_colours)?;
    // After the editor, which takes the signal of Ctrl-C for itself when it starts.
    let mut signals = Signals::listen()?;
    context.begin_shell(editor.clone());
    write_stderr("`help` lists the commands, Tab completes commands and paths, Ctrl-D leaves.\n");
    loop {
        let current_path = context.path_or_here(None)?;
        completion.update(context.open_session(), &current_path);
        let prompt = prompt(context, &current_path);
        let typed = tokio::select! {
            // A terminal that hangs up also ends the line, and the signal is the reason.
            biased;
            signal = signals.terminated() => return Err(Failure::interrupted(signal)),
            typed = editor.line(prompt) => typed,
            () = report_changes(context, &current_path) => TerminalInput::End,
        };
        let typed = match typed {
            TerminalInput::Line(line) => line,
            TerminalInput::Interrupted => continue,
            TerminalInput::End => return Ok(()),
        };
        // Text that was pasted may have several lines.
        for (at, line) in typed.lines().enumerate() {
            // An earlier Ctrl-C must not end this command, which may have sent its write by then.
            if signals.discard_interrupt().await && at > 0 {
                break;
            }
            if !line.trim().is_empty() && !is_secret(line) && !line::has_data(line) {
                editor.remember(line.to_owned());
            }
            let interrupter = context.interrupter();
            let running = async { Ok(run_line(context, line).await) };
            let ended = signals.end(&interrupter, running).await;
            let next = ended.unwrap_or_else(|interrupted| {
                write_stderr("\n");
                match interrupted.signal() {
                    Some(EndSignal::Terminate | EndSignal::Hangup) => Next::Leave(Err(interrupted)),
                    _ => Next::Prompt,
                }
            });
            context.end_script();
            match next {
                Next::Line => {}
                Next::Prompt => break,
                Next::Leave(result) => return result,
            }
        }
    }
}

/// What follows a line.
enum Next {
    /// The next line that was typed, if there is one.
    Line,
    /// The prompt, whatever else was typed.
    Prompt,
    /// The end of the shell, with its result.
    Leave(Result<(), Failure>),
}

/// Runs a line and reports its failure.
async fn run_line(context: &mut Context, line: &str) -> Next {
    context.begin_command(None, false);
    let result = match line::parse(line) {
        Ok(Parsed::Nothing) => Ok(()),
        Ok(Parsed::Quit) => return Next::Leave(Ok(())),
        Ok(Parsed::Help(text)) => crate::output::print(text).await,
        Ok(Parsed::Command(line)) => line.run(context).await,
        Err(failure) => Err(failure),
    };
    match result {
        Ok(()) => Next::Line,
        Err(failure) => {
            context.output().failure(&failure).await;
            Next::Prompt
        }
    }
}

/// Says above the line that is being typed how the connection changes. Never ends.
async fn report_changes(context: &Context, current_path: &NodePath) {
    if let Some(session) = context.open_session() {
        let mut changes = session.state_changes();
        // The first one is the state that the prompt shows.
        changes.next().await;
        while let Some(state) = changes.next().await {
            let text = match state {
                ConnectionState::Connected => "connected again".to_owned(),
                ConnectionState::Suspended => {
                    "the connection is lost; trying to connect again".to_owned()
                }
                ConnectionState::ReadOnly => {
                    "connected to a server that serves only reads".to_owned()
                }
                ConnectionState::Lost(_) => format!(
                    "session {} is over, and its ephemeral nodes with it; the next command opens another",
                    session.id()
                ),
            };
            print_above(&format!("note: {text}"), &prompt(context, current_path));
        }
    }
    std::future::pending::<()>().await;
}

fn prompt(context: &Context, current_path: &NodePath) -> Prompt {
    let ensemble = ensemble(context.connect().unwrap_or_default());
    let (state, style) = match context.state() {
        Some(ConnectionState::Connected) => ("connected", Style::Added),
        Some(ConnectionState::Suspended) => ("suspended", Style::Changed),
        Some(ConnectionState::ReadOnly) => ("read-only", Style::Changed),
        Some(ConnectionState::Lost(_)) => ("lost", Style::Removed),
        None => ("not connected", Style::Removed),
    };
    let output = context.output();
    let ensemble = escape::line(&ensemble);
    let current_path = escape::line(current_path.as_str());
    Prompt {
        plain: format!("{ensemble} {state} {current_path}> "),
        styled: format!(
            "{ensemble} {} {}> ",
            output.styled(style, state),
            output.styled(Style::Parent, &current_path)
        ),
    }
}

/// Returns the ensemble in short: its first server, the number of others, and the chroot.
fn ensemble(connect: &str) -> String {
    let Ok(parsed) = connect.parse::<ConnectString>() else {
        return "?".to_owned();
    };
    let first = parsed.hosts.first();
    let first = first.map_or_else(String::new, ToString::to_string);
    let others = match parsed.hosts.len() {
        0 | 1 => String::new(),
        servers => format!("+{}", servers - 1),
    };
    let chroot = match &parsed.chroot {
        root if root.is_root() => "",
        chroot => chroot.as_str(),
    };
    format!("{first}{others}{chroot}")
}

/// Returns the file of the history, by the rules of the XDG base directories.
fn history_file(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    let state = variable("XDG_STATE_HOME").filter(|path| path.is_absolute());
    let state = state.or_else(|| {
        let home = variable("HOME").filter(|home| home.is_absolute());
        Some(home?.join(".local/state"))
    });
    Some(state?.join("zk/history"))
}

/// Returns whether a line may carry credentials, so that no file keeps it.
fn is_secret(line: &str) -> bool {
    let lower = line.to_lowercase();
    [
        "auth ", "auth=", "digest:", "super:", "password", "passwd", "secret", "token",
    ]
    .iter()
    .any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_names_an_ensemble_in_short() {
        for (connect, expected) in [
            ("zk1:2181", "zk1:2181"),
            ("zk1", "zk1:2181"),
            ("zk1:2181,zk2:2181,zk3:2181", "zk1:2181+2"),
            ("zk1:2181,zk2:2181/app/x", "zk1:2181+1/app/x"),
            ("[fe80::1]:2182,[::1]", "[fe80::1]:2182+1"),
            ("", "?"),
        ] {
            assert_eq!(ensemble(connect), expected, "{connect}");
        }
    }

    #[test]
    fn lines_with_credentials_are_not_kept() {
        for line in [
            "addauth alice",
            "  AddAuth alice:x",
            "adauth alice:x",
            "ZK_AUTH=alice:x",
            "setacl /a digest:alice:aGFzaA==:r",
            "set /app/password hunter2",
            "set /a api-token=x",
        ] {
            assert!(is_secret(line), "{line}");
        }
        for line in [
            "ls /",
            "ls /authors",
            "setacl /a world:anyone:r",
            "set /a b",
        ] {
            assert!(!is_secret(line), "{line}");
        }
    }

    #[test]
    fn the_history_is_in_the_state_directory() {
        let file = |state: Option<&str>, home: Option<&str>| {
            let file = history_file(|name| match name {
                "XDG_STATE_HOME" => state.map(PathBuf::from),
                "HOME" => home.map(PathBuf::from),
                _ => None,
            });
            file.map(|file| file.to_str().unwrap().to_owned())
        };
        let own = Some("/s/zk/history".to_owned());
        assert_eq!(file(Some("/s"), Some("/h")), own);
        let default = Some("/h/.local/state/zk/history".to_owned());
        assert_eq!(file(None, Some("/h")), default);
        assert_eq!(file(Some("relative"), Some("/h")), default);
        assert_eq!(file(None, None), None);
        assert_eq!(file(None, Some("")), None);
    }
}
