//! Finds the mutants that errors of the compiler are about.
//!
//! Pure: takes the messages and the rewritten files.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::bail;
use serde::Deserialize;

use crate::rewrite::Rewritten;

/// An error of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    /// What it is about, in bytes of the files, by their paths from the root.
    pub(crate) spans: BTreeMap<String, Vec<Range<usize>>>,
    /// What a person reads.
    pub(crate) rendered: String,
}

/// Parses the messages of cargo, and keeps the errors that are about code.
pub(crate) fn read(messages: &str) -> Vec<Error> {
    let messages = messages.lines();
    let messages = messages.filter_map(|line| serde_json::from_str::<Message>(line).ok());
    let errors = messages.filter_map(|message| {
        let mut spans: BTreeMap<String, Vec<Range<usize>>> = BTreeMap::new();
        if message.message.level != "error" {
            return None;
        }
        for span in message.message.spans {
            let mut next = Some(span);
            // A macro's span is in the macro; where it is used is the next one.
            while let Some(span) = next {
                let range = span.byte_start..span.byte_end;
                spans.entry(span.file_name).or_default().push(range);
                next = span.expansion.map(|expansion| expansion.span);
            }
        }
        // Without a place it only counts the others.
        (!spans.is_empty()).then_some(Error {
            spans,
            rendered: message.message.rendered.unwrap_or_default(),
        })
    });
    errors.collect()
}

/// Returns the mutants that an error is about: those it names, or the nearest one in a file that it names.
pub(crate) fn to_blame(
    error: &Error,
    files: &BTreeMap<String, Rewritten>,
) -> anyhow::Result<Vec<u32>> {
    let in_files = error.spans.iter();
    let in_files = in_files.filter_map(|(file, spans)| Some((files.get(file)?, spans)));
    let named: Vec<u32> = in_files
        .clone()
        .flat_map(|(file, spans)| file.at(spans))
        .collect();
    if !named.is_empty() {
        return Ok(named);
    }
    let distance = |a: &Range<usize>, b: &Range<usize>| {
        a.start
            .saturating_sub(b.end)
            .max(b.start.saturating_sub(a.end))
    };
    let places = in_files.flat_map(|(file, spans)| {
        let places = file.places.iter();
        places.flat_map(|place| spans.iter().map(move |span| (place, span)))
    });
    let nearest = places.min_by_key(|((_, place), span)| distance(place, span));
    match nearest {
        Some(((number, _), _)) => Ok(vec![*number]),
        None => bail!("the copy does not build: {}", error.rendered),
    }
}

#[derive(Deserialize)]
struct Message {
    message: Diagnostic,
}

#[derive(Deserialize)]
struct Diagnostic {
    level: String,
    spans: Vec<Span>,
    rendered: Option<String>,
}

#[derive(Deserialize)]
struct Span {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    expansion: Option<Box<Expansion>>,
}

#[derive(Deserialize)]
struct Expansion {
    span: Span,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_places_of_code_that_uses_a_macro() {
        let span = |file: &str, start: u32, expansion: &str| {
            format!(
                r#"{{"file_name":"{file}","byte_start":{start},"byte_end":{},"is_primary":true,"expansion":{expansion}}}"#,
                start + 5
            )
        };
        let message = |level: &str, spans: &str| {
            format!(
                r#"{{"reason":"compiler-message","message":{{"level":"{level}","spans":[{spans}],"rendered":"text"}}}}"#
            )
        };
        let used = span("a.rs", 30, "null");
        let in_macro = span("m.rs", 1, &format!(r#"{{"span":{used}}}"#));
        let text = [
            r#"{"reason":"compiler-artifact","target":{}}"#.to_owned(),
            message("warning", &span("a.rs", 1, "null")),
            message("error", ""),
            message("error", &format!("{},{in_macro}", span("a.rs", 10, "null"))),
        ]
        .join("\n");
        let expected = Error {
            spans: [
                ("a.rs".to_owned(), vec![10..15, 30..35]),
                ("m.rs".to_owned(), vec![1..6; 1]),
            ]
            .into(),
            rendered: "text".to_owned(),
        };
        assert_eq!(read(&text), [expected]);
    }

    #[test]
    fn an_error_beside_all_mutants_is_about_the_nearest() {
        let file = |places: &[(u32, Range<usize>)]| Rewritten {
            text: String::new(),
            places: places.to_vec(),
        };
        let files = BTreeMap::from([
            ("a.rs".to_owned(), file(&[(1, 10..20), (2, 50..60)])),
            ("b.rs".to_owned(), file(&[(3, 10..20)])),
        ]);
        let blamed = |spans: &[(&str, Range<usize>)]| {
            let spans = spans.iter();
            let spans = spans.map(|(file, span)| ((*file).to_owned(), vec![span.clone(); 1]));
            let error = Error {
                spans: spans.collect(),
                rendered: "text".to_owned(),
            };
            to_blame(&error, &files).ok()
        };
        assert_eq!(blamed(&[("a.rs", 12..13)]), Some(vec![1]));
        assert_eq!(blamed(&[("a.rs", 30..31)]), Some(vec![1]));
        assert_eq!(blamed(&[("a.rs", 45..46)]), Some(vec![2]));
        assert_eq!(blamed(&[("a.rs", 30..31), ("b.rs", 15..16)]), Some(vec![3]));
        assert_eq!(blamed(&[("c.rs", 10..20)]), None);
    }
}
