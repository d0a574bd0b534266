//! A line of the interactive shell or of a script: a command as on the command line, without the program's name.

use std::time::Duration;

use clap::parser::ValueSource;
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::cli::{Cli, Command};
use crate::context::Context;
use crate::failure::Failure;
use crate::{command, shell_words};

/// What a line means.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// It is empty, or a comment.
    Nothing,
    /// It ends the shell or the script.
    Quit,
    /// It asks for this text.
    Help(String),
    /// It is a command.
    Command(Box<Line>),
}

/// A command with its own options.
#[derive(Debug)]
pub(crate) struct Line {
    command: Command,
    timeout: Option<Duration>,
    is_json: bool,
}

impl Line {
    /// Runs the command in the session of the shell or script.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        context.begin_command(self.timeout, self.is_json);
        // Boxed: a script is a command itself.
        Box::pin(command::dispatch(self.command, context)).await
    }
}

/// Parses a line.
pub(crate) fn parse(line: &str) -> Result<Parsed, Failure> {
    let words = shell_words::split(line).map_err(|problem| {
        Failure::usage(
            problem,
            "close the quote, or write \\' for the character itself",
        )
    })?;
    let Some(first) = words.first() else {
        return Ok(Parsed::Nothing);
    };
    // A habit of those who type commands into other shells.
    let skipped = usize::from(first == "zk" && words.len() > 1);
    let words = &words[skipped..];
    let is_option = |word: &String, option: &str| {
        let rest = word.strip_prefix(option);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    for (option, help) in [
        ("--connect", "start another zk for another ensemble"),
        (
            "--acl",
            "start another zk, or give `create` the access rules",
        ),
    ] {
        if words.iter().any(|word| is_option(word, option)) {
            return Err(Failure::usage(
                format!("{option} is not possible here: all commands share one session"),
                help,
            ));
        }
    }
    if words == ["help"] {
        return Ok(Parsed::Help(commands()));
    }
    let matches = Cli::command()
        .no_binary_name(true)
        // There is one session for all lines.
        .mut_arg("connect", |argument| argument.hide(true))
        .mut_arg("acl", |argument| argument.hide(true))
        .try_get_matches_from(words);
    let parsed = matches.and_then(|matches| {
        let is_given = matches.value_source("timeout") == Some(ValueSource::CommandLine);
        Cli::from_arg_matches(&matches).map(|cli| (cli, is_given))
    });
    match parsed {
        Ok((cli, is_timeout_given)) => match cli.command {
            None => Ok(Parsed::Nothing),
            Some(Command::Quit) => Ok(Parsed::Quit),
            Some(command) => Ok(Parsed::Command(Box::new(Line {
                command,
                timeout: is_timeout_given.then_some(cli.timeout),
                is_json: cli.json,
            }))),
        },
        Err(error) if !error.use_stderr() => Ok(Parsed::Help(error.to_string())),
        Err(error) => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            let command = words.iter().find(|word| !word.starts_with('-'));
            let command =
                command.filter(|name| Cli::command().find_subcommand(name.as_str()).is_some());
            let help = match command {
                Some(command) => format!("`help {command}` explains it"),
                None => "`help` lists the commands".to_owned(),
            };
            Err(Failure::usage(brief(text), "").with_help(help))
        }
    }
}

/// Returns whether a line has data for nodes, or may have some because it was not understood.
pub(crate) fn has_data(line: &str) -> bool {
    match parse(line) {
        Ok(Parsed::Command(line)) => match line.command {
            Command::Set(set) => set.has_data(),
            Command::Create(create) => create.has_data(),
            Command::Txn(txn) => txn.has_data(),
            _ => false,
        },
        Ok(_) => false,
        Err(_) => ["set", "create", "txn"]
            .iter()
            .any(|command| line.to_lowercase().contains(command)),
    }
}

/// Returns the message of an error of the command line without the usage and the hints below it.
fn brief(text: &str) -> String {
    let lines = text.lines().take_while(|line| !line.starts_with("Usage:"));
    let is_hint = |line: &&str| line.trim_start().starts_with("tip: to pass");
    let lines = lines.filter(|line| !line.trim().is_empty() && !is_hint(line));
    let text = lines.collect::<Vec<_>>().join("\n");
    text.replace("unrecognized subcommand", "there is no command")
}

/// Returns the list of the commands.
fn commands() -> String {
    let mut command = Cli::command().help_template("{subcommands}");
    let list = command.render_help().to_string();
    format!(
        "{}\n\n`help COMMAND` explains one. All take --json and --timeout TIME.\n",
        list.trim_end()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &str) -> String {
        match parse(line) {
            Ok(Parsed::Nothing) => "nothing".to_owned(),
            Ok(Parsed::Quit) => "quit".to_owned(),
            Ok(Parsed::Help(text)) => format!("help {}", text.lines().next().unwrap_or_default()),
            Ok(Parsed::Command(line)) => {
                format!("{:?} {:?} {}", line.command, line.timeout, line.is_json)
            }
            Err(failure) => failure.to_string(),
        }
    }

    #[test]
    fn lines_are_parsed_as_command_lines_are() {
        for (line, expected) in [
            ("", "nothing"),
            ("  # comment", "nothing"),
            ("quit", "quit"),
            ("exit", "quit"),
            ("help ls", "help List the children"),
            ("ls --help", "help List the children"),
            (
                "ls /a",
                "Ls(Ls { stat: false, recursive: false, path: Some(\"/a\") }) None false",
            ),
            (
                "zk ls",
                "Ls(Ls { stat: false, recursive: false, path: None }) None false",
            ),
            (
                "--json ls --timeout 3s",
                "Ls(Ls { stat: false, recursive: false, path: None }) Some(3s) true",
            ),
            ("ls --connect a:1", "--connect is not possible here"),
            ("create /a --acl=auth::r", "--acl is not possible here"),
            ("lz", "there is no command 'lz'"),
            ("ls -l", "unexpected argument '-l' found"),
            (
                "get",
                "the following required arguments were not provided:\n  <PATH>",
            ),
            ("ls 'a", "a quote is not closed"),
        ] {
            let parsed = kind(line);
            assert!(parsed.starts_with(expected), "{line}: {parsed}");
            assert!(!parsed.contains("Usage"), "{line}: {parsed}");
            assert!(!parsed.contains("tip:"), "{line}: {parsed}");
        }
    }

    #[test]
    fn help_is_about_what_is_possible_here() {
        for (line, expected) in [
            ("help", "`help COMMAND` explains one"),
            ("help ls", "-R"),
            ("ls --help", "--json"),
        ] {
            let Ok(Parsed::Help(text)) = parse(line) else {
                panic!("{line} is no help");
            };
            assert!(text.contains(expected), "{line}: {text}");
            assert!(!text.contains("--connect"), "{line}: {text}");
        }
        for (line, expected) in [
            ("ls -l", "help: `help ls` explains it\n"),
            ("lz", "help: `help` lists the commands\n"),
        ] {
            let failure = parse(line).unwrap_err();
            assert!(failure.text().ends_with(expected), "{}", failure.text());
        }
    }

    #[test]
    fn lines_with_data_are_known() {
        for line in [
            "set /a secret",
            "zk --json set -v 3 /a secret",
            "create /a secret",
            "txn 'check /a' 'set /a secret'",
            "set /a 'not closed",
            "create --wrong /a secret",
            "sett /a secret",
        ] {
            assert!(has_data(line), "{line}");
        }
        for line in [
            "",
            "ls /set",
            "get create",
            "create /a",
            "create -p /a --file data",
            "set /a --file data",
            "txn --file operations",
            "lz /a",
            "help set",
        ] {
            assert!(!has_data(line), "{line}");
        }
    }
}
