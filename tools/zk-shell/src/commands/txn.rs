//! `txn`: several changes at once, or none.

use std::path::PathBuf;

use clap::{Args, Parser};
use serde_json::{Value, json};
use zk_core::{CreateMode, MultiResult, Transaction};

use super::{input, keep_session};
use crate::context::Context;
use crate::failure::Failure;
use crate::{escape, output, shell_words};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Txn {
    /// Read operations from this file, one a line, or - for standard input
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// One operation each, in quotes: `create [-e] [-s] PATH [DATA]`, `set [-v VERSION] PATH DATA`,
    /// `delete [-v VERSION] PATH` or `check [-v VERSION] PATH`
    #[arg(required_unless_present = "file")]
    operations: Vec<String>,
}

/// An operation of a transaction.
#[derive(Debug, Parser)]
#[command(
    no_binary_name = true,
    disable_help_flag = true,
    disable_help_subcommand = true
)]
enum Part {
    Create {
        #[arg(short)]
        ephemeral: bool,
        #[arg(short)]
        sequential: bool,
        path: String,
        #[arg(allow_negative_numbers = true)]
        data: Option<String>,
    },
    Set {
        #[arg(short, value_parser = clap::value_parser!(i32).range(0..))]
        version: Option<i32>,
        path: String,
        #[arg(allow_negative_numbers = true)]
        data: String,
    },
    Delete {
        #[arg(short, value_parser = clap::value_parser!(i32).range(0..))]
        version: Option<i32>,
        path: String,
    },
    Check {
        #[arg(short, value_parser = clap::value_parser!(i32).range(0..))]
        version: Option<i32>,
        path: String,
    },
}

impl Txn {
    /// Returns whether operations, which may have data, are arguments.
    pub(crate) fn has_data(&self) -> bool {
        !self.operations.is_empty()
    }

    /// Applies all operations or none, and says which one was refused.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let mut lines = self.operations;
        if let Some(file) = &self.file {
            let text = input::read_text(context, file).await?;
            lines.extend(text.lines().map(str::to_owned));
        }
        let mut parts = Vec::new();
        lines.retain(|line| match parse(line) {
            Ok(None) => false,
            parsed => {
                parts.push(parsed);
                true
            }
        });
        let parts: Vec<_> = parts.into_iter().enumerate().collect();
        let mut operations = Vec::new();
        for (at, part) in parts {
            let part = part.map_err(|problem| {
                let number = at + 1;
                Failure::usage(
                    format!("operation {number}, `{}`: {problem}", lines[at].trim()),
                    "write create PATH [DATA], set PATH DATA, delete PATH or check PATH",
                )
            })?;
            operations.extend(part);
        }
        // Every path is checked before a server is needed.
        let paths = operations.iter().map(|part| context.path(part.path()));
        let paths = paths.collect::<Result<Vec<_>, _>>()?;
        let session = context.session().await?;
        let mut transaction = session.transaction().timeout(context.remaining());
        for (part, path) in operations.iter().zip(&paths) {
            transaction = part.add(transaction, path);
        }
        let results = transaction.commit().await.map_err(|error| {
            let refused = error
                .failed_part()
                .and_then(|at| Some((at + 1, lines.get(at)?)));
            let context = refused.map(|(number, line)| {
                format!("operation {number} of {}, `{}`", lines.len(), line.trim())
            });
            let is_unknown = error.is_outcome_unknown();
            let failure = Failure::from(error);
            let failure = match context {
                Some(context) => failure.about(&context),
                None => failure,
            };
            if is_unknown {
                failure
            } else {
                failure.with_help(
                    "nothing was changed: a transaction is applied as a whole or not at all",
                )
            }
        })?;
        context
            .output()
            .result(
                || {
                    let lines = results.iter().zip(&paths);
                    lines
                        .map(|(result, path)| described(result, &escape::line(path.as_str())))
                        .collect()
                },
                || {
                    let results = results.iter().zip(&paths);
                    let documents: Vec<Value> = results
                        .map(|(result, path)| document(result, path.as_str()))
                        .collect();
                    json!({"results": documents})
                },
            )
            .await?;
        let mut parts = operations.iter();
        let has_ephemeral = parts.any(|part| {
            matches!(
                part,
                Part::Create {
                    ephemeral: true,
                    ..
                }
            )
        });
        if has_ephemeral && !context.has_next_command() {
            let is_stdin_read = self
                .file
                .is_some_and(|file| file.as_os_str() == input::STANDARD_INPUT);
            keep_session::until_released(context, &session, is_stdin_read).await
        } else {
            Ok(())
        }
    }
}

impl Part {
    fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::Set { path, .. }
            | Self::Delete { path, .. }
            | Self::Check { path, .. } => path,
        }
    }

    fn add(&self, transaction: Transaction, path: &zk_core::NodePath) -> Transaction {
        match self {
            Self::Create {
                ephemeral,
                sequential,
                data,
                ..
            } => {
                let data = data.clone().unwrap_or_default();
                let mode = match (ephemeral, sequential) {
                    (false, false) => CreateMode::Persistent,
                    (false, true) => CreateMode::PersistentSequential,
                    (true, false) => CreateMode::Ephemeral,
                    (true, true) => CreateMode::EphemeralSequential,
                };
                transaction.create_as(path, data, mode, None)
            }
            Self::Set { version, data, .. } => match version {
                Some(version) => transaction.set_version(path, data.clone(), *version),
                None => transaction.set(path, data.clone()),
            },
            Self::Delete { version, .. } => match version {
                Some(version) => transaction.delete_version(path, *version),
                None => transaction.delete(path),
            },
            Self::Check { version, .. } => match version {
                Some(version) => transaction.check_version(path, *version),
                None => transaction.check(path),
            },
        }
    }
}

/// Parses a line; `None` if it is empty or a comment.
fn parse(line: &str) -> Result<Option<Part>, String> {
    let words = shell_words::split(line)?;
    if words.is_empty() {
        return Ok(None);
    }
    match Part::try_parse_from(words) {
        Ok(part) => Ok(Some(part)),
        Err(error) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            Err(first.trim_start_matches("error: ").to_owned())
        }
    }
}

fn described(result: &MultiResult, path: &str) -> String {
    match result {
        MultiResult::Checked => format!("Checked {path}\n"),
        MultiResult::Created { path, .. } => format!("Created {}\n", escape::line(path.as_str())),
        MultiResult::Set(stat) => format!("Set {path}, version {}\n", stat.version),
        MultiResult::Deleted => format!("Deleted {path}\n"),
    }
}

fn document(result: &MultiResult, path: &str) -> Value {
    let stat = |stat: &zk_core::Stat| output::stat_json(stat);
    match result {
        MultiResult::Checked => json!({"operation": "check", "path": path}),
        MultiResult::Created { path, stat: found } => {
            json!({"operation": "create", "path": path.as_str(), "stat": found.as_ref().map(stat)})
        }
        MultiResult::Set(found) => json!({"operation": "set", "path": path, "stat": stat(found)}),
        MultiResult::Deleted => json!({"operation": "delete", "path": path}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_parsed_as_commands_are() {
        for (line, expected) in [
            ("", "None"),
            ("  # nothing", "None"),
            ("check /a", r#"Check { version: None, path: "/a" }"#),
            ("check -v 3 /a", r#"Check { version: Some(3), path: "/a" }"#),
            ("delete /a # why", r#"Delete { version: None, path: "/a" }"#),
            (
                "set /a ''",
                r#"Set { version: None, path: "/a", data: "" }"#,
            ),
            (
                r#"set -v 0 /a "x y""#,
                r#"Set { version: Some(0), path: "/a", data: "x y" }"#,
            ),
            (
                "create -s /a -1",
                r#"Create { ephemeral: false, sequential: true, path: "/a", data: Some("-1") }"#,
            ),
        ] {
            let parsed = format!("{:?}", parse(line).unwrap());
            assert!(parsed.contains(expected), "{line}: {parsed}");
        }
        for (line, problem) in [
            ("check", "required"),
            ("set /a", "required"),
            ("set -v -1 /a x", "-1"),
            ("get /a", "unrecognized"),
            ("set /a 'x", "quote"),
            ("--help", "unexpected"),
        ] {
            let said = parse(line).unwrap_err();
            assert!(
                said.contains(problem) && !said.contains('\n'),
                "{line}: {said}"
            );
        }
    }
}
