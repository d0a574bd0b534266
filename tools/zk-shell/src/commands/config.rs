//! The `config` commands: put, get, compare, follow and roll back TOML documents.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Subcommand;
use serde_json::{Value, json};
use zk_config::{
    Event, Expected, KeyChange, Listener, PublishError, PublishOptions, Published, Publisher,
};
use zk_core::codec::{Codec as _, DecodeError, Raw, Text, Toml};
use zk_core::{NodePath, Session};

use super::input;
use crate::context::Context;
use crate::date::java_date;
use crate::failure::{Failure, chain};
use crate::file_io::{self, blocking};
use crate::output::{Output, add_data, millis, stat_json};
use crate::{diff, escape};

/// The arguments.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Publish a TOML file, as it is, unless the node has it already
    Put {
        /// Publish only if the node is the work of this transaction, as `follow` prints it, or 0 if there is none yet
        #[arg(short, long, value_name = "REVISION", value_parser = parse_revision)]
        expecting: Option<i64>,
        /// Keep so many replaced revisions
        #[arg(long, value_name = "REVISIONS", default_value_t = 10)]
        history: usize,
        /// The node; missing parents are created
        path: String,
        /// The file, or - for standard input
        file: PathBuf,
    },
    /// Print the document, or write it to a file
    Get {
        /// The node
        path: String,
        /// The file
        file: Option<PathBuf>,
    },
    /// Print how a file differs from the document; exit status 1 if it does
    Diff {
        /// The node
        path: String,
        /// The file, or - for standard input
        file: PathBuf,
    },
    /// Print each change as it happens, until Ctrl-C
    Follow {
        /// The node
        path: String,
    },
    /// List the revisions that were replaced
    History {
        /// The node
        path: String,
    },
    /// Publish a replaced revision again
    Rollback {
        /// The revision that is to be replaced, as `put` or `follow` printed it, or 0 if the node was removed
        #[arg(short, long, value_name = "REVISION", value_parser = parse_revision)]
        expecting: i64,
        /// Keep so many replaced revisions
        #[arg(long, value_name = "REVISIONS", default_value_t = 10)]
        history: usize,
        /// The node
        path: String,
        /// Publish also what nothing proves to be this revision: who may create nodes in the history may have written it
        #[arg(long)]
        unverified: bool,
        /// The revision, as `history` prints it
        #[arg(value_parser = parse_revision)]
        revision: i64,
    },
}

impl Config {
    /// Runs one of the commands.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(path_of(&self))?;
        let input = match &self {
            Self::Put { file, .. } | Self::Diff { file, .. } => {
                input::read_file(context, file).await?
            }
            _ => Vec::new(),
        };
        let session = context.session().await?;
        let limit = context.remaining();
        carry_out(context, &session, &path, &self, &input, limit).await
    }
}

/// Returns the node of a command.
fn path_of(command: &Config) -> &str {
    match command {
        Config::Put { path, .. }
        | Config::Get { path, .. }
        | Config::Diff { path, .. }
        | Config::Follow { path }
        | Config::History { path }
        | Config::Rollback { path, .. } => path,
    }
}

/// Runs a command; `input` is the file that it names, and `limit` applies to all commands except `follow`.
async fn carry_out(
    context: &Context,
    session: &Session,
    path: &NodePath,
    command: &Config,
    input: &[u8],
    limit: Duration,
) -> Result<(), Failure> {
    let output = context.output();
    let publisher = |history| {
        let options = PublishOptions::default()
            .with_history(history)
            .with_timeout(limit);
        Publisher::with_options(session, Raw, options)
    };
    match command {
        Config::Put {
            expecting,
            history,
            file,
            ..
        } => {
            check(input).map_err(|error| not_toml(file, &error))?;
            let expected = expecting.map_or(Expected::Any, expected);
            let publish = publisher(*history).publish(path, &input.to_vec());
            let published = publish.expecting(expected).only_if_changed().await?;
            output
                .result(|| describe(&published), || published_json(&published))
                .await
        }
        Config::Get { file, .. } => {
            let (document, stat) = session.get(path).timeout(limit).await?;
            if let Err(error) = check(&document) {
                output.warning(&error.of_node(path).to_string()).await;
            }
            match file {
                None if output.is_json() => {
                    let mut result = json!({"path": path.as_str(), "stat": stat_json(&stat)});
                    add_data(&mut result, &document);
                    output.result(String::new, || result).await
                }
                None => output.print(output.shown(&document)).await,
                Some(file) => {
                    let (name, file) = (file.display(), file.clone());
                    let written = blocking(move || file_io::replace(&file, &document)).await;
                    written.map_err(|error| {
                        Failure::operation(format!("cannot write {name}: {error}"), None)
                    })
                }
            }
        }
        Config::Diff { file, .. } => {
            let theirs = match session.get(path).decoded(Text).timeout(limit).await {
                Ok((text, _)) => text,
                Err(zk_core::ReadError::Operation(error)) => return Err(error.into()),
                Err(error) => return Err(Failure::operation(error.to_string(), None)),
            };
            let ours = Text.decode(input).map_err(|error| not_toml(file, &error))?;
            let difference = difference(path.as_str(), &theirs, &file.display().to_string(), &ours);
            output
                .result(
                    || escape::block(&difference).into_owned(),
                    || json!({"path": path.as_str(), "difference": difference}),
                )
                .await?;
            if difference.is_empty() {
                Ok(())
            } else {
                Err(Failure::silent())
            }
        }
        Config::Follow { .. } => follow(output, session, path).await,
        Config::History { .. } => {
            let history = publisher(0).history(path).await?;
            if history.iter().any(|one| !one.is_verified) {
                let note = "nothing proves that the key had the unverified ones: another client may have written \
                            them; `zk config rollback --unverified` publishes one";
                output.note(note).await;
            }
            if history.is_empty() {
                let note = format!(
                    "{path} has no history: no put or rollback has replaced anything there"
                );
                output.note(&note).await;
            }
            for one in history {
                let (revision, by, bytes) = (one.revision, one.replaced_by, one.size);
                output.result(
                    || {
                        let replaced = java_date(one.replaced_at);
                        let doubt = if one.is_verified {
                            String::new()
                        } else {
                            format!("  unverified: {}", one.node)
                        };
                        let line = format!(
                            "{revision:#x}  replaced {replaced} by session {by}  {bytes} bytes{doubt}\n"
                        );
                        escape::block(&line).into_owned()
                    },
                    || {
                        json!({
                            "revision": format!("{revision:#x}"),
                            "replaced_at": millis(one.replaced_at),
                            "replaced_by": by.to_string(),
                            "bytes": bytes,
                            "verified": one.is_verified,
                            "node": one.node.as_str(),
                        })
                    },
                ).await?;
            }
            Ok(())
        }
        Config::Rollback {
            expecting,
            history,
            unverified,
            revision,
            ..
        } => {
            let publisher = publisher(*history);
            let expected = expected(*expecting);
            let published = if *unverified {
                let back = publisher.roll_back_unverified(path, *revision, expected);
                back.await?
            } else {
                publisher.roll_back(path, *revision, expected).await?
            };
            output
                .result(|| describe(&published), || published_json(&published))
                .await
        }
    }
}

/// Returns the expected state for a revision; 0 means that the node does not exist.
fn expected(revision: i64) -> Expected {
    match revision {
        0 => Expected::Absent,
        revision => Expected::Revision(revision),
    }
}

/// Parses a zxid, in hexadecimal digits after `0x` or in decimal digits.
fn parse_revision(text: &str) -> Result<i64, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    match number {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err(
            "write the number of a transaction as it is printed, such as 0x30000001f".to_owned(),
        ),
    }
}

/// Prints each change of a document until the program is stopped.
async fn follow(output: &Output, session: &Session, path: &NodePath) -> Result<(), Failure> {
    let mut events = Listener::new(session, path, Text)?.events::<String>();
    let mut last: Option<String> = None;
    while let Some(event) = events.next().await {
        let now = java_date(SystemTime::now());
        let (name, what, value) = match event {
            Event::Absent => ("absent", "is not there", None),
            Event::Deleted => ("deleted", "was deleted", None),
            Event::Present(value) => ("present", "is there", Some(value)),
            Event::Created(value) => ("created", "was created", Some(value)),
            Event::Changed(value) => ("changed", "changed", Some(value)),
            Event::Invalid { error, .. } => {
                output.result(
                    || escape::block(&format!("{now}  {error}\n")).into_owned(),
                    || json!({"event": "invalid", "path": path.as_str(), "problem": error.to_string()}),
                ).await?;
                continue;
            }
            Event::Failed(error) => return Err(error.into()),
            _ => return Err(Failure::operation("the session is lost", None)),
        };
        let Some(value) = value else {
            output
                .result(
                    || escape::block(&format!("{now}  {path} {what}\n")).into_owned(),
                    || json!({"event": name, "path": path.as_str()}),
                )
                .await?;
            last = None;
            continue;
        };
        let (revision, version) = (value.stat.mzxid, value.stat.version);
        let problem = check(value.value.as_bytes()).err();
        let problem = problem.map(|error| error.to_string());
        let before = last.as_deref().unwrap_or_default();
        output
            .result(
                || {
                    let complaint = problem.as_ref().map(|problem| format!("  {problem}\n"));
                    let said = [
                        format!(
                            "{now}  {path} {what}: version {version}, revision {revision:#x}\n"
                        ),
                        complaint.unwrap_or_default(),
                        difference("before", before, "now", &value.value),
                    ];
                    escape::block(&said.concat()).into_owned()
                },
                || {
                    json!({
                        "event": name,
                        "path": path.as_str(),
                        "version": version,
                        "revision": format!("{revision:#x}"),
                        "problem": problem,
                        "data": value.value,
                    })
                },
            )
            .await?;
        last = Some(value.value);
    }
    Ok(())
}

/// Returns the unified diff of two texts; empty if they are equal.
fn difference(old_name: &str, old: &str, new_name: &str, new: &str) -> String {
    diff::lines(old, new)
        .unified_diff()
        .header(old_name, new_name)
        .to_string()
}

fn describe(published: &Published) -> String {
    let what = match published.change {
        KeyChange::Created => "Created",
        KeyChange::Replaced => "Replaced",
        KeyChange::Unchanged => "Unchanged:",
        _ => "Removed",
    };
    let path = &published.path;
    match published.stat {
        Some(stat) => format!(
            "{what} {path}, version {}, revision {:#x}\n",
            stat.version, stat.mzxid
        ),
        None => format!("{what} {path}\n"),
    }
}

fn published_json(published: &Published) -> Value {
    let change = match published.change {
        KeyChange::Created => "created",
        KeyChange::Replaced => "replaced",
        KeyChange::Unchanged => "unchanged",
        _ => "removed",
    };
    json!({
        "path": published.path.as_str(),
        "change": change,
        "version": published.stat.map(|stat| stat.version),
        "revision": published.stat.map(|stat| format!("{:#x}", stat.mzxid)),
    })
}

/// Checks that a document is TOML.
fn check(document: &[u8]) -> Result<(), DecodeError> {
    Toml.decode(document).map(|_: toml::Table| ())
}

fn not_toml(file: &Path, error: &DecodeError) -> Failure {
    let location = error
        .position()
        .map(|at| format!(":{}:{}", at.line, at.column));
    Failure::operation(
        format!(
            "{}{}: {}",
            file.display(),
            location.unwrap_or_default(),
            error.message()
        ),
        Some("correct the file; nothing was published"),
    )
}

impl From<PublishError> for Failure {
    fn from(error: PublishError) -> Self {
        let help = match &error {
            PublishError::Operation(error) => return error.clone().into(),
            PublishError::Conflict { .. } => {
                Some("somebody else has published meanwhile: `zk config diff` shows what")
            }
            PublishError::OutcomeUnknown { .. } => Some("read the node before doing it again"),
            PublishError::NoSuchRevision { .. } => Some("`zk config history` lists the revisions"),
            PublishError::UnverifiedRevision { .. } => {
                Some("read the entry with `zk get`, and roll back with --unverified if it is right")
            }
            PublishError::AmbiguousRevision { .. } => {
                Some("`zk config history` shows which ones are unverified")
            }
            _ => None,
        };
        Self::operation(chain(&error), help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_is_what_every_diff_prints() {
        assert_eq!(difference("a", "x = 1\n", "b", "x = 1\n"), "");
        assert_eq!(
            difference("a", "x = 1\ny = 2\n", "b", "x = 1\ny = 3\n"),
            "--- a\n+++ b\n@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3\n"
        );
    }

    #[test]
    fn revisions_are_read_as_they_are_printed() {
        for revision in [0, 31, 0x3_0000_001f, i64::MAX] {
            assert_eq!(parse_revision(&format!("{revision:#x}")), Ok(revision));
            assert_eq!(parse_revision(&revision.to_string()), Ok(revision));
        }
        for bad in [
            "",
            "0x",
            "-1",
            "0x-1",
            "3000001f",
            "0xg",
            "0x8000000000000000",
        ] {
            assert!(parse_revision(bad).is_err(), "{bad}");
        }
    }
}
