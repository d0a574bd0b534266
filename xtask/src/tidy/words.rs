//! Words that this workspace avoids, in identifiers and in prose, with what to write instead.
//!
//! A name is the term that the field already uses, and prose names the subject and the usual technical word.
//! The glossary in CONTRIBUTING.md is exempt, and so are code spans in prose, which quote names of ZooKeeper and
//! others.
//!
//! Pure: no I/O and no clock.

/// One avoided word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    line: usize,
    word: &'static str,
    /// The identifier or the text that contains the word.
    found: String,
    instead: &'static str,
}

impl Finding {
    /// Returns the finding as a problem: line, word and remedy.
    pub(super) fn problem(&self) -> String {
        let Self {
            line,
            word,
            found,
            instead,
        } = self;
        format!("{line}: avoid {word:?}, as in {found:?}: write {instead}")
    }
}

/// Returns the avoided words of a Rust file.
pub(super) fn in_rust(text: &str) -> Vec<Finding> {
    let source = Source::read(text);
    let mut findings = Vec::new();
    for (line, name) in &source.identifiers {
        for part in parts(name) {
            findings.extend(metaphor(*line, &part, name));
        }
    }
    for word in source.prose.iter().flatten() {
        // A string may contain a node name or a payload, which never change.
        if word.is_comment {
            findings.extend(metaphor(word.line, &word.text, &word.text));
        }
    }
    findings.extend(phrases(&source.prose));
    findings
}

/// Returns the avoided words of a Markdown file, without its code blocks and its glossary.
pub(super) fn in_markdown(text: &str) -> Vec<Finding> {
    let mut prose = Vec::new();
    let (mut is_code, mut is_glossary) = (false, false);
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if let Some(title) = line.strip_prefix("## ") {
            is_glossary = title == "Glossary";
        }
        if line.is_empty() || is_code || is_glossary {
            prose.push(None);
        } else {
            add_words(at + 1, line, true, &mut prose);
        }
    }
    let words = prose.iter().flatten();
    let mut findings: Vec<Finding> = words
        .filter_map(|word| metaphor(word.line, &word.text, &word.text))
        .collect();
    findings.extend(phrases(&prose));
    findings
}

fn metaphor(line: usize, part: &str, found: &str) -> Option<Finding> {
    let is_it = |word: &str| part == word || part.strip_suffix('s') == Some(word);
    let &(word, instead) = METAPHORS.iter().find(|(word, _)| is_it(word))?;
    Some(Finding {
        line,
        word,
        found: found.to_owned(),
        instead,
    })
}

/// Finds phrases in a text, also across the ends of lines; `None` separates sentences and unrelated texts.
fn phrases(prose: &[Option<Word>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, first) in prose.iter().enumerate() {
        let Some(first) = first else { continue };
        for &(phrase, instead) in PHRASES {
            let mut rest = prose[at..].iter();
            let is_it = phrase.split(' ').all(|wanted| {
                let word = rest.next().and_then(Option::as_ref);
                word.is_some_and(|word| word.text == wanted)
            });
            if is_it {
                findings.push(Finding {
                    line: first.line,
                    word: phrase,
                    found: phrase.to_owned(),
                    instead,
                });
            }
        }
    }
    findings
}

/// Splits an identifier into lowercase words, at underscores and at changes of case.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut is_start = true;
    let mut was_lower = false;
    for c in name.chars() {
        if c == '_' {
            is_start = true;
            continue;
        }
        if is_start || (c.is_uppercase() && was_lower) {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut() {
            part.extend(c.to_lowercase());
        }
        is_start = false;
        was_lower = !c.is_uppercase();
    }
    parts
}

/// One word of a comment or a string.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    line: usize,
    text: String,
    is_comment: bool,
}

/// The identifiers and the prose of a Rust file.
#[derive(Debug, Default)]
struct Source {
    identifiers: Vec<(usize, String)>,
    prose: Vec<Option<Word>>,
}

impl Source {
    fn read(text: &str) -> Self {
        let mut source = Self::default();
        let mut rest = text;
        let mut line = 1;
        while let Some(c) = rest.chars().next() {
            let length = token(rest);
            let (token, after) = rest.split_at(length);
            if token.starts_with("//") || token.starts_with("/*") {
                for (at, comment) in token.lines().enumerate() {
                    let comment = comment.trim_start_matches(['/', '!', '*', ' ']);
                    add_words(line + at, comment, true, &mut source.prose);
                }
            } else if token.len() > 1 && token.ends_with(['"', '#']) {
                source.prose.push(None);
                for (at, part) in token.lines().enumerate() {
                    // An escape is no part of a word.
                    let part = part.replace("\\n", " ").replace('\\', " ");
                    add_words(line + at, &part, false, &mut source.prose);
                }
                source.prose.push(None);
            } else if !c.is_whitespace() {
                source.prose.push(None);
                if c.is_alphabetic() || c == '_' {
                    source.identifiers.push((line, token.to_owned()));
                }
            }
            line += token.matches('\n').count();
            rest = after;
        }
        source
    }
}

/// Returns the length of the token that a text begins with: a comment, a string, an identifier, or one character.
fn token(text: &str) -> usize {
    let up_to = |end: Option<usize>| end.unwrap_or(text.len());
    if text.starts_with("//") {
        return up_to(text.find('\n'));
    }
    if text.starts_with("/*") {
        return up_to(text.find("*/").map(|at| at + 2));
    }
    let prefixed = text.trim_start_matches(['b', 'c']);
    if let Some(raw) = prefixed.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let begin = text.len() - raw.len() + hashes + 1;
            let end = format!("\"{}", "#".repeat(hashes));
            return up_to(text[begin..].find(&end).map(|at| begin + at + end.len()));
        }
    }
    if prefixed.starts_with('"') && text.len() - prefixed.len() < 2 {
        let begin = text.len() - prefixed.len() + 1;
        let mut is_escaped = false;
        let end = text[begin..].char_indices().find(|(_, c)| {
            let ends = *c == '"' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            ends
        });
        return up_to(end.map(|(at, _)| begin + at + 1));
    }
    if let Some(quoted) = text.strip_prefix('\'') {
        let mut chars = quoted.char_indices();
        let first = chars.next().map(|(_, c)| c);
        if first == Some('\\') {
            return up_to(quoted[2..].find('\'').map(|at| at + 4));
        }
        // Otherwise it is a lifetime.
        return match chars.next() {
            Some((at, '\'')) => at + 2,
            _ => 1,
        };
    }
    let name = |c: char| c.is_alphanumeric() || c == '_';
    match text.find(|c: char| !name(c)) {
        Some(0) => text.chars().next().map_or(1, char::len_utf8),
        end => up_to(end),
    }
}

/// Adds the words of a text outside of code spans, in lowercase, and a separator at the end of each sentence.
fn add_words(line: usize, text: &str, is_comment: bool, to: &mut Vec<Option<Word>>) {
    for (at, span) in text.split('`').enumerate() {
        if at % 2 == 1 {
            to.push(None);
            continue;
        }
        for part in span.split_inclusive(['.', ';', ':', '!', '?']) {
            let words = part.split(|c: char| !c.is_alphabetic() && c != '\'');
            for word in words.filter(|word| !word.is_empty()) {
                to.push(Some(Word {
                    line,
                    text: word.to_lowercase(),
                    is_comment,
                }));
            }
            if part.ends_with(['.', ';', ':', '!', '?']) {
                to.push(None);
            }
        }
    }
}

/// Metaphors, which are avoided in identifiers, comments and Markdown; a plural counts as well.
const METAPHORS: &[(&str, &str)] = &[
    ("baton", "what is handed over: a lock, a turn"),
    ("board", "shared state"),
    ("candidacy", "participant or latch"),
    ("canary", "readiness probe"),
    ("charter", "path schema"),
    ("deafen", "block inbound"),
    ("desk", "control node or assignments"),
    ("door", "endpoint"),
    ("eye", "watcher"),
    ("fate", "outcome or state"),
    ("footing", "list epoch"),
    ("fury", "run"),
    ("grip", "claim identity"),
    ("hub", "watch manager"),
    ("lane", "series, worker or queue"),
    ("ledger", "table, or outlier ejection"),
    ("mover", "state owner"),
    ("outlook", "lookahead"),
    ("patience", "timeout, deadline or retry"),
    ("picture", "snapshot or timeline"),
    ("pulse", "heartbeat"),
    ("rage", "inject"),
    ("roster", "instance list"),
    ("setback", "fault"),
    ("shelf", "ready items"),
    ("shun", "quarantine"),
    ("sight", "node watcher"),
    ("sketch", "history builder"),
    ("splitter", "frame decoder"),
    ("standing", "status or result"),
    ("steering", "routing"),
    ("tenure", "leadership"),
    ("torment", "run, inject or faults"),
    ("trust", "session lease"),
    ("trusted", "valid"),
    ("untrusted", "not valid, or SessionLeaseExpired"),
    ("unwant", "request to resign"),
    ("vigil", "watches"),
    ("wish", "options or request"),
    ("wishes", "options or requests"),
];

/// Phrases, which are avoided in comments, strings and Markdown.
const PHRASES: &[(&str, &str)] = &[
    ("are told", "are notified, receive or see"),
    ("be told", "be notified, receive or see"),
    ("been told", "been notified, received or seen"),
    ("in whose", "a sentence with the usual order"),
    ("is told", "is notified, receives or sees"),
    ("left aside", "ignored or discarded"),
    ("nobody", "the role: no session, no waiter, no caller"),
    ("none of which", "a sentence with the usual order"),
    ("not told", "not notified or not returned"),
    ("of all of which", "a sentence with the usual order"),
    ("of which there", "a sentence with the usual order"),
    ("tells whether", "returns whether"),
    ("told of", "notified of"),
    ("told that", "notified that"),
    ("was told", "was notified, received or saw"),
    ("were told", "were notified, received or saw"),
    ("whoever", "the role: a holder, a waiter, a caller"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn words(findings: Vec<Finding>) -> Vec<(usize, &'static str)> {
        let findings = findings.into_iter();
        findings
            .map(|finding| (finding.line, finding.word))
            .collect()
    }

    #[test]
    fn an_identifier_is_split_into_words() {
        for (name, expected) in [
            ("control_desk", &["control", "desk"][..]),
            ("ControlDesk2", &["control", "desk2"]),
            ("MOST_DESKS", &["most", "desks"]),
            ("outstanding", &["outstanding"]),
            ("_x", &["x"]),
        ] {
            assert_eq!(parts(name), expected, "{name}");
        }
    }

    #[test]
    fn metaphors_are_found_in_identifiers_and_comments() {
        let text = "//! A desk.\nstruct ControlDesk;\n// `desk`\nlet desks = \"/desk\"; // Shelves, a shelf\n";
        assert_eq!(
            words(in_rust(text)),
            [(2, "desk"), (4, "desk"), (1, "desk"), (4, "shelf")]
        );
        assert_eq!(
            in_rust("fn shelf() {}")[0].problem(),
            "1: avoid \"shelf\", as in \"shelf\": write ready items"
        );
        for text in [
            "fn outstanding() {}",
            "const A: &str = r#\"a \"desk\" b\"#;",
            "let c = '\"'; let d = \"desk\"; let e: &'a str = b\"desk\\\"desk\";",
            "/// See `desk::Desk`.",
        ] {
            assert!(in_rust(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn phrases_are_found_in_prose_and_not_in_code() {
        let text = "/// The waiter is\n/// told. Of it nobody\nfn nobody() { fail(\"Whoever \\\n  is told\") }\n/* is told */";
        assert_eq!(
            words(in_rust(text)),
            [
                (1, "is told"),
                (2, "nobody"),
                (3, "whoever"),
                (4, "is told"),
                (5, "is told")
            ]
        );
        for text in [
            "/// It is. Told",
            "// is\nfn told() {}",
            "(\"is\", \"told\")",
            "// is `x` told",
        ] {
            assert!(in_rust(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn markdown_is_prose_except_code_and_the_glossary() {
        let text = "# A\nIt is told\nof a desk, `whoever`.\n```\nwhoever\n```\n## Glossary\nwhoever\n## B\nnobody\n";
        assert_eq!(
            words(in_markdown(text)),
            [(3, "desk"), (2, "is told"), (2, "told of"), (10, "nobody")]
        );
    }
}
