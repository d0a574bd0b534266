//! Compares the tables of a guide with the public names of the client that it is about.
//!
//! A table belongs to the section around it, whose title begins with an artifact or a module. Its first cell names
//! classes and functions, or methods with brackets, which are those of the classes of the last row that named any.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, BTreeSet};

use zk_tests::peers::PublicName;

/// The tables of a guide.
#[derive(Debug, Default)]
pub(super) struct Guide {
    groups: Vec<Group>,
    problems: Vec<String>,
}

/// Classes of one row, and the methods of the rows below it.
#[derive(Debug, Default)]
struct Group {
    place: String,
    names: Vec<Named>,
    methods: Vec<Named>,
}

/// A name of the other client, with the line of the guide that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    line: usize,
    name: String,
    /// The first version that has it, if not all have.
    from: Option<String>,
    /// The last version that has it, if later ones do not.
    until: Option<String>,
}

impl Guide {
    /// Reads the tables whose first column has this title.
    pub(super) fn parse(text: &str, title: &str) -> Self {
        let mut guide = Self::default();
        let mut place = "";
        let mut is_in_table = false;
        for (at, line) in text.lines().enumerate() {
            if let Some(section) = line.strip_prefix("## ") {
                place = section.split([':', ' ']).next().unwrap_or_default();
            }
            let Some(row) = line
                .strip_prefix("| ")
                .and_then(|row| row.strip_suffix(" |"))
            else {
                // A line of dashes is between the titles and the rows.
                is_in_table &= line.starts_with('|');
                continue;
            };
            let cells: Vec<&str> = row.split(" | ").map(str::trim).collect();
            if cells[0] == title && cells.last() == Some(&"what differs") {
                is_in_table = true;
            } else if is_in_table {
                guide.add(at + 1, place, &cells);
            }
        }
        guide
    }

    fn add(&mut self, line: usize, place: &str, cells: &[&str]) {
        if cells.len() != 3 || cells.iter().any(|cell| cell.len() < 3) {
            self.problems
                .push(format!("line {line}: three cells are needed: {cells:?}"));
        }
        let (methods, names): (Vec<Named>, Vec<Named>) = named(line, cells[0])
            .into_iter()
            .partition(|named| named.name.ends_with("()"));
        if !names.is_empty() || self.groups.is_empty() {
            self.groups.push(Group {
                place: place.to_owned(),
                names,
                methods: Vec::new(),
            });
        }
        let group = self.groups.last_mut().expect("there is one now");
        group
            .methods
            .extend(methods.into_iter().map(|method| Named {
                name: method.name.trim_end_matches("()").to_owned(),
                ..method
            }));
    }

    /// Returns what the tables lack of these names, and what they have beyond them.
    pub(super) fn problems(&self, all: &[PublicName], version: &str) -> Vec<String> {
        let mut problems = self.problems.clone();
        let mut seen = BTreeSet::new();
        for group in &self.groups {
            let mut methods = BTreeSet::new();
            for named in &group.names {
                let found: Vec<usize> = (0..all.len())
                    .filter(|at| all[*at].name == named.name && group.contains(&all[*at].place))
                    .collect();
                let at = format!("line {}: {} of {}", named.line, named.name, group.place);
                if found.is_empty() && named.is_in(version) {
                    problems.push(format!("{at} does not exist"));
                }
                if found.iter().any(|at| !seen.insert(*at)) {
                    problems.push(format!("{at} has two rows"));
                }
                methods.extend(found.iter().flat_map(|at| &all[*at].methods));
            }
            problems.extend(group.problems_of_methods(&methods, version));
        }
        let missing = (0..all.len()).filter(|at| !seen.contains(at));
        problems.extend(missing.map(|at| {
            let PublicName { place, name, .. } = &all[at];
            format!("{name} of {place} is missing")
        }));
        problems
    }
}

impl Group {
    fn contains(&self, place: &str) -> bool {
        let rest = place.strip_prefix(&self.place);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    fn problems_of_methods(&self, existing: &BTreeSet<&String>, version: &str) -> Vec<String> {
        let class = self.names.first().map_or("nothing", |named| &named.name);
        let mut problems = Vec::new();
        let mut listed: BTreeMap<&String, usize> = BTreeMap::new();
        for Named { line, name, .. } in &self.methods {
            if listed.insert(name, *line).is_some() {
                problems.push(format!("line {line}: {class} has {name}() twice"));
            }
        }
        let beyond = self
            .methods
            .iter()
            .filter(|method| method.is_in(version) && !existing.contains(&method.name));
        problems.extend(
            beyond.map(|Named { line, name, .. }| format!("line {line}: {class} has no {name}()")),
        );
        if !listed.is_empty() {
            let missing = existing.iter().filter(|name| !listed.contains_key(*name));
            problems.extend(missing.map(|name| format!("{name}() of {class} is missing")));
        }
        problems
    }
}

impl Named {
    /// Returns whether this version has it.
    fn is_in(&self, version: &str) -> bool {
        let is_old_enough = self
            .until
            .as_ref()
            .is_none_or(|last| numbers(version) <= numbers(last));
        let is_new_enough = self
            .from
            .as_ref()
            .is_none_or(|first| numbers(version) >= numbers(first));
        is_old_enough && is_new_enough
    }
}

/// The code spans of a cell, with the versions in brackets behind them: `(from 2.9)`, `(until 2.8)`.
fn named(line: usize, cell: &str) -> Vec<Named> {
    let parts: Vec<&str> = cell.split('`').collect();
    let spans = parts.iter().skip(1).step_by(2);
    let texts = parts.iter().skip(2).step_by(2);
    spans
        .zip(texts)
        .map(|(name, after)| {
            let note = |word: &str| {
                let version = after.split_once(word)?.1;
                Some(version.split([')', ',']).next()?.to_owned())
            };
            Named {
                line,
                name: (*name).to_owned(),
                from: note("(from "),
                until: note("(until "),
            }
        })
        .collect()
}

/// The first two numbers of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

mod tests {
    use super::*;

    const TEXT: &str = "\
## Before
| `X` | `z::Y` |
## a-client: locks
| Other | here | what differs |
|---|---|---|
| `Mutex`, `Lease` (from 2.9) | `z::Z` | none |
| `acquire()`, `release()` | `z::Z` | none |
| `Old` (until 2.8) | `z::Z` | none |
";

    fn class(place: &str, name: &str, methods: &[&str]) -> PublicName {
        PublicName {
            place: place.to_owned(),
            name: name.to_owned(),
            methods: methods.iter().map(|method| (*method).to_owned()).collect(),
        }
    }

    fn problems(text: &str, all: &[PublicName], version: &str) -> Vec<String> {
        Guide::parse(text, "Other").problems(all, version)
    }

    #[test]
    fn a_complete_guide_has_no_problems() {
        let mutex = class("a-client", "Mutex", &["acquire", "release"]);
        let lease = class("a-client.nested", "Lease", &[]);
        let old = class("a-client", "Old", &["close"]);
        let none = <[String; 0]>::default();
        assert_eq!(problems(TEXT, &[mutex.clone(), lease], "2.10.1"), none);
        assert_eq!(problems(TEXT, &[mutex, old], "2.8.0"), none);
    }

    #[test]
    fn each_kind_of_gap_is_reported() {
        let mutex = class("a-client", "Mutex", &["acquire", "tryAcquire"]);
        let other = class("a-client2", "Lease", &[]);
        assert_eq!(
            problems(TEXT, &[mutex, other], "2.9.0"),
            [
                "line 6: Lease of a-client does not exist",
                "line 7: Mutex has no release()",
                "tryAcquire() of Mutex is missing",
                "Lease of a-client2 is missing"
            ]
        );
        let twice = TEXT
            .replace("`Old`", "`Mutex`")
            .replace("| `z::Z` | none |\n| `acq", "|  | none |\n| `acq");
        let mutex = class("a-client", "Mutex", &["acquire", "release"]);
        let found = problems(&twice, &[mutex], "2.8.0");
        assert!(found[0].starts_with("line 6: three cells"), "{found:?}");
        assert_eq!(found[1..], ["line 8: Mutex of a-client has two rows"]);
    }
}
