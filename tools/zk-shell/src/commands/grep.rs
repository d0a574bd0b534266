//! `grep`: the lines of data in a subtree that match.

use clap::Args;
use regex::bytes::{Regex, RegexBuilder};
use serde_json::json;
use zk_core::ErrorKind;

use crate::context::Context;
use crate::crawl::{Crawl, DEFAULT_LIMIT, note_unreadable};
use crate::escape;
use crate::failure::Failure;
use crate::output::{Output, Style};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Grep {
    /// Ignore the case of letters
    #[arg(short)]
    ignore_case: bool,
    /// The pattern is a text, not a regular expression
    #[arg(short = 'F')]
    fixed: bool,
    /// Print only the paths of the nodes
    #[arg(short = 'l')]
    paths_only: bool,
    /// Search only so many levels below the node
    #[arg(short, long, value_name = "LEVELS")]
    depth: Option<usize>,
    /// Visit at most so many nodes
    #[arg(long, value_name = "NODES", default_value_t = DEFAULT_LIMIT)]
    limit: usize,
    /// The regular expression
    #[arg(allow_hyphen_values = true)]
    pattern: String,
    /// The node; the root by default
    path: Option<String>,
}

/// A line that matches.
#[derive(Debug, PartialEq, Eq)]
struct Match<'a> {
    /// The number of the line, from 1; `None` if the data is no text.
    line: Option<usize>,
    text: &'a str,
}

impl Grep {
    /// Prints the lines that match. The exit status is 1 if there is none, as that of every `grep`.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path_or_here(self.path.as_deref())?;
        let pattern = self.regex()?;
        let session = context.session().await?;
        let mut crawl = Crawl::new(&session, &path, self.limit, self.depth);
        let (mut has_found, mut unreadable) = (false, 0);
        loop {
            let batch = crawl.next_with_little_data(context).await?;
            if batch.is_empty() {
                break;
            }
            let paths = batch.iter().map(|found| &found.path);
            let read = session.get_many(paths).timeout(context.remaining()).await?;
            for (found, node) in batch.iter().zip(read) {
                let data = match node {
                    Ok((data, _)) => data,
                    Err(error) => {
                        unreadable += u64::from(error.kind() == ErrorKind::NoAuth);
                        continue;
                    }
                };
                for one in matches(&pattern, &data) {
                    has_found = true;
                    self.print(context.output(), found.path.as_str(), &one, &pattern)
                        .await?;
                    if self.paths_only {
                        break;
                    }
                }
            }
        }
        note_unreadable(context.output(), unreadable).await;
        crawl.finish(context.output()).await?;
        if has_found {
            Ok(())
        } else {
            Err(Failure::silent())
        }
    }

    fn regex(&self) -> Result<Regex, Failure> {
        let pattern = if self.fixed {
            regex::escape(&self.pattern)
        } else {
            self.pattern.clone()
        };
        let mut builder = RegexBuilder::new(&pattern);
        let built = builder.case_insensitive(self.ignore_case).build();
        built.map_err(|error| {
            Failure::usage(
                format!("the pattern is no regular expression: {error}"),
                "add -F to search for the text as it is",
            )
        })
    }

    async fn print(
        &self,
        output: &Output,
        path: &str,
        found: &Match<'_>,
        pattern: &Regex,
    ) -> Result<(), Failure> {
        output
            .result(
                || {
                    let path = output.styled(Style::Path, &escape::line(path));
                    match found.line {
                        _ if self.paths_only => format!("{path}\n"),
                        None => format!("{path}: data that is no text matches\n"),
                        Some(_) => {
                            format!("{path}:{}\n", highlighted(output, found.text, pattern))
                        }
                    }
                },
                || {
                    let mut document = json!({"path": path});
                    if !self.paths_only {
                        document["line"] = found.line.into();
                        document["text"] = found.line.map(|_| found.text).into();
                    }
                    document
                },
            )
            .await
    }
}

/// Returns the lines that match; data that is not UTF-8 matches as a whole.
fn matches<'a>(pattern: &Regex, data: &'a [u8]) -> Vec<Match<'a>> {
    let Ok(text) = std::str::from_utf8(data) else {
        let whole = pattern.is_match(data).then_some(Match {
            line: None,
            text: "",
        });
        return whole.into_iter().collect();
    };
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, text)| pattern.is_match(text.as_bytes()))
        .map(|(at, text)| Match {
            line: Some(at + 1),
            text,
        })
        .collect()
}

/// Returns a line with what matches in it emphasized, and cut if it is very long.
fn highlighted(output: &Output, text: &str, pattern: &Regex) -> String {
    let (mut shown, mut end) = (String::new(), 0);
    let first = pattern
        .find(text.as_bytes())
        .map_or(0, |found| found.start());
    let from = text.floor_char_boundary_before(first.saturating_sub(SHOWN_BEFORE));
    let to = text.floor_char_boundary_before((from + MOST_SHOWN).min(text.len()));
    if from > 0 {
        shown.push('…');
    }
    end += from;
    for found in pattern.find_iter(text.as_bytes()) {
        // A match may end inside a character if the pattern is about bytes.
        let (Some(before), Some(inside)) = (
            text.get(end..found.start()),
            text.get(found.start()..found.end()),
        ) else {
            continue;
        };
        if found.end() > to {
            break;
        }
        shown.push_str(&escape::line(before));
        shown.push_str(&output.styled(Style::Match, &escape::line(inside)));
        end = found.end();
    }
    shown.push_str(&escape::line(text.get(end..to).unwrap_or_default()));
    if to < text.len() {
        shown.push('…');
    }
    shown
}

/// Finds places to cut a text.
trait Cut {
    /// Returns the last boundary of a character at or before a byte.
    fn floor_char_boundary_before(&self, at: usize) -> usize;
}

impl Cut for str {
    fn floor_char_boundary_before(&self, at: usize) -> usize {
        (0..=at.min(self.len()))
            .rev()
            .find(|&at| self.is_char_boundary(at))
            .unwrap_or(0)
    }
}

/// How much of a line is shown, in bytes.
const MOST_SHOWN: usize = 400;
/// How much of it is shown before the first match, if it is cut.
const SHOWN_BEFORE: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn regex(pattern: &str) -> Regex {
        Regex::new(pattern).unwrap()
    }

    #[test]
    fn lines_of_text_match_one_by_one_and_other_data_as_a_whole() {
        let lines = |pattern, data: &[u8]| -> Vec<(Option<usize>, String)> {
            let found = matches(&regex(pattern), data);
            found
                .iter()
                .map(|one| (one.line, one.text.to_owned()))
                .collect()
        };
        assert_eq!(
            lines("b", b"ab\nc\r\nb\r\n"),
            [(Some(1), "ab".to_owned()), (Some(3), "b".to_owned())]
        );
        assert_eq!(lines("^c$", b"ab\nc"), [(Some(2), "c".to_owned())]);
        assert_eq!(lines("x", b"ab"), []);
        assert_eq!(lines("", b""), []);
        assert_eq!(lines("b", b"a\xffb"), [(None, String::new())]);
        assert_eq!(lines("x", b"a\xffb"), []);
        assert_eq!(lines(r"(?-u)\xff", b"a\xffb"), [(None, String::new())]);
    }

    #[test]
    fn long_lines_are_cut_around_the_first_match() {
        let output = Output::new(false);
        let long = format!("{}é\u{1b}needle{}", "é".repeat(300), "y".repeat(1000));
        let shown = highlighted(&output, &long, &regex("needle"));
        assert!(shown.starts_with("…é") && shown.ends_with("y…"), "{shown}");
        assert!(shown.contains("é\\u{1b}needley"), "{shown}");
        assert!(shown.len() < 500, "{shown}");
        assert_eq!(highlighted(&output, "a needle", &regex("e")), "a needle");
        assert_eq!(highlighted(&output, "", &regex("")), "");
    }
}
