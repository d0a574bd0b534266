//! The file of results in the repository: reads it, replaces what a run is about, and writes it.
//!
//! Pure: takes texts and returns texts.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::progress::Verdict;

/// The results of the last run of each crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// How the newest results were made.
    pub(crate) command: String,
    /// By the crates' names.
    pub(crate) crates: BTreeMap<String, Results>,
}

/// The results of one crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Results {
    /// The commit, in short.
    pub(crate) revision: String,
    pub(crate) seed: u64,
    pub(crate) caught: usize,
    /// Of those, by a limit of time.
    pub(crate) timed_out: usize,
    pub(crate) survivors: Vec<Survivor>,
}

/// A mutant that no test noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Survivor {
    pub(crate) file: String,
    pub(crate) line: usize,
    /// The original and the changed text.
    pub(crate) change: String,
    /// How many tests run the code.
    pub(crate) reached_by: usize,
    /// What a person writes: why it is equivalent, or the name of a test.
    pub(crate) verdict: String,
}

impl Results {
    /// Adds what became of a mutant.
    pub(crate) fn add(&mut self, verdict: &Verdict, survivor: impl FnOnce() -> Survivor) {
        match verdict {
            Verdict::Caught(_) => self.caught += 1,
            Verdict::TimedOut(_) => {
                self.caught += 1;
                self.timed_out += 1;
            }
            Verdict::Survived | Verdict::NotReached => self.survivors.push(survivor()),
        }
    }

    fn not_reached(&self) -> usize {
        self.survivors
            .iter()
            .filter(|it| it.reached_by == 0)
            .count()
    }
}

impl Report {
    /// Parses the file that `text` has written.
    pub(crate) fn parse(text: &str) -> Self {
        let mut report = Self::default();
        for line in text.lines() {
            if let Some(command) = line.strip_prefix(NEWEST) {
                command.clone_into(&mut report.command);
            }
            let cells: Vec<String> = cells(line);
            if let [name, revision, seed, _, caught, timed_out, ..] = cells.as_slice()
                && let (Ok(seed), Ok(caught)) = (seed.parse(), caught.parse())
                && let Ok(timed_out) = timed_out.parse()
            {
                let results = Results {
                    revision: unquoted(revision),
                    seed,
                    caught,
                    timed_out,
                    survivors: Vec::new(),
                };
                report.crates.insert(name.clone(), results);
            } else if let [place, change, reached_by, verdict] = cells.as_slice()
                && let Some(survivor) = survivor(place, change, reached_by, verdict)
                && let Some(name) = survivor.file.split('/').nth(1)
                && let Some(results) = report.crates.get_mut(name)
            {
                results.survivors.push(survivor);
            }
        }
        report
    }

    /// Replaces the results of a crate, and keeps the verdicts of those that survive again.
    pub(crate) fn replace(&mut self, name: &str, mut results: Results) {
        let before = self.crates.remove(name).unwrap_or_default().survivors;
        for survivor in &mut results.survivors {
            let same = || {
                let same = before.iter();
                same.filter(|it| it.file == survivor.file && it.change == survivor.change)
            };
            let at_line = same().find(|it| it.line == survivor.line);
            // Its line changes with the lines above; of several alike, none is known to be the same then.
            let only = || same().next().filter(|_| same().count() == 1);
            if let Some(known) = at_line.or_else(only) {
                let verdict = known.verdict.clone();
                survivor.verdict = verdict;
            }
        }
        results
            .survivors
            .sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        self.crates.insert(name.to_owned(), results);
    }

    /// Returns the file.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{INTRODUCTION}{NEWEST}{}\n\n{SHARES}", self.command);
        let (mut caught, mut timed_out, mut survived, mut not_reached) = (0, 0, 0, 0);
        for (name, results) in &self.crates {
            let ran = results.survivors.len() - results.not_reached();
            let start = format!("| {name} | `{}` | {}", results.revision, results.seed);
            text += &row(
                &start,
                results.caught,
                results.timed_out,
                ran,
                results.not_reached(),
            );
            caught += results.caught;
            timed_out += results.timed_out;
            survived += ran;
            not_reached += results.not_reached();
        }
        text += &row("| all | | ", caught, timed_out, survived, not_reached);
        text += SURVIVORS;
        for survivor in self.crates.values().flat_map(|results| &results.survivors) {
            let _ = writeln!(
                text,
                "| `{}:{}` | {} | {} | {} |",
                survivor.file,
                survivor.line,
                survivor.change,
                survivor.reached_by,
                survivor.verdict
            );
        }
        text
    }

    /// Returns the share of caught mutants, in percent.
    pub(crate) fn share(&self) -> String {
        let caught = self.crates.values().map(|it| it.caught).sum();
        let survived: usize = self.crates.values().map(|it| it.survivors.len()).sum();
        percent(caught, caught + survived)
    }
}

/// Returns a change as a cell of the table.
pub(crate) fn change(original: &str, changed: &str) -> String {
    let changed = match changed {
        "" => "skipped".to_owned(),
        changed => quoted(changed),
    };
    format!("{} → {changed}", quoted(original))
}

/// Returns a text on one line, as code.
fn quoted(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > WIDTH {
        line = line.chars().take(WIDTH).collect();
        line.push('…');
    }
    format!("`{}`", line.replace('`', "'").replace('|', "\\|"))
}

fn unquoted(cell: &str) -> String {
    cell.trim_matches('`').to_owned()
}

fn row(
    start: &str,
    caught: usize,
    timed_out: usize,
    survived: usize,
    not_reached: usize,
) -> String {
    let drawn = caught + survived + not_reached;
    let share = percent(caught, drawn);
    format!("{start} | {drawn} | {caught} | {timed_out} | {survived} | {not_reached} | {share} |\n")
}

fn percent(part: usize, of: usize) -> String {
    if of == 0 {
        return "–".to_owned();
    }
    format!("{} %", (200 * part + of) / (2 * of))
}

fn survivor(place: &str, change: &str, reached_by: &str, verdict: &str) -> Option<Survivor> {
    let place = unquoted(place);
    let (file, line) = place.rsplit_once(':')?;
    Some(Survivor {
        file: file.to_owned(),
        line: line.parse().ok()?,
        change: change.to_owned(),
        reached_by: reached_by.parse().ok()?,
        verdict: verdict.to_owned(),
    })
}

/// Returns the cells of a row of a table; none for another line.
fn cells(line: &str) -> Vec<String> {
    let Some(row) = line.strip_prefix('|').and_then(|row| row.strip_suffix('|')) else {
        return Vec::new();
    };
    // An escaped bar is part of its cell.
    let row = row.replace("\\|", "\0");
    row.split('|')
        .map(|cell| cell.trim().replace('\0', "\\|"))
        .collect()
}

/// The characters of a text in the table.
const WIDTH: usize = 90;

const NEWEST: &str = "Newest results: ";

const INTRODUCTION: &str = "\
# Mutants

A mutant is the code with one change, such as `<` for `<=`.
If no test notices it, a test is missing, or the change has no effect.
`cargo xtask test mutants` draws a sample of them in each crate, runs the tests that need no servers, and writes this file.
A mutant is caught if a test fails or exceeds its limit of time.
The column \"verdict\" is written by hand and kept by later runs: `equivalent: …` with the reason, or the name of the test that now notices the change.

";

const SHARES: &str = "\
| crate | revision | seed | drawn | caught | of these by time | survived | not reached | share caught |
|---|---|---|---|---|---|---|---|---|
";

const SURVIVORS: &str = "
## Survivors

| place | change | tests that reach it | verdict |
|---|---|---|---|
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Test;

    fn a_survivor(line: usize, change: &str, reached_by: usize, verdict: &str) -> Survivor {
        Survivor {
            file: "crates/zk-lock/src/order.rs".to_owned(),
            line,
            change: change.to_owned(),
            reached_by,
            verdict: verdict.to_owned(),
        }
    }

    fn results(survivors: Vec<Survivor>) -> Results {
        Results {
            revision: "abc123".to_owned(),
            seed: 1,
            caught: 7,
            timed_out: 1,
            survivors,
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let mut report = Report {
            command: "`cargo xtask test mutants`, in 3 min.".to_owned(),
            crates: BTreeMap::new(),
        };
        let survivors = vec![
            a_survivor(
                3,
                &change("a || b", "a && b"),
                12,
                "equivalent: `a || b`".replace('|', "\\|").as_str(),
            ),
            a_survivor(9, &change("wait();", ""), 0, ""),
        ];
        report.replace("zk-lock", results(survivors));
        report.replace("zk-queue", results(vec![]));
        let text = report.text();
        assert_eq!(Report::parse(&text), report, "{text}");
        assert!(
            text.contains("| zk-lock | `abc123` | 1 | 9 | 7 | 1 | 1 | 1 | 78 % |\n"),
            "{text}"
        );
        assert!(
            text.contains("| all | |  | 16 | 14 | 2 | 1 | 1 | 88 % |\n"),
            "{text}"
        );
        assert!(
            text.contains("order.rs:3` | `a \\|\\| b` → `a && b` | 12 |"),
            "{text}"
        );
        assert_eq!(report.share(), "88 %");
    }

    #[test]
    fn verdicts_stay_with_their_survivors() {
        for (before, now, expected) in [
            // At the same line, whatever else is like it.
            (
                vec![a_survivor(3, "c", 1, "x"), a_survivor(5, "c", 1, "y")],
                5,
                "y",
            ),
            // At another line, if there is only one.
            (
                vec![a_survivor(3, "c", 1, "x"), a_survivor(5, "d", 1, "y")],
                4,
                "x",
            ),
            (
                vec![a_survivor(3, "c", 1, "x"), a_survivor(5, "c", 1, "y")],
                4,
                "",
            ),
            (vec![a_survivor(3, "d", 1, "x")], 3, ""),
            (vec![], 3, ""),
        ] {
            let mut report = Report::default();
            report.replace("zk-lock", results(before));
            report.replace("zk-lock", results(vec![a_survivor(now, "c", 2, "")]));
            let survivors = &report.crates["zk-lock"].survivors;
            assert_eq!(survivors, &[a_survivor(now, "c", 2, expected)]);
        }
    }

    #[test]
    fn a_timeout_counts_as_caught() {
        let mut results = Results::default();
        let test = Test {
            binary: String::new(),
            name: String::new(),
        };
        for (verdict, reached_by) in [
            (Verdict::Caught(test.clone()), 1),
            (Verdict::TimedOut(Some(test)), 1),
            (Verdict::TimedOut(None), 1),
            (Verdict::Survived, 3),
            (Verdict::NotReached, 0),
        ] {
            results.add(&verdict, || a_survivor(1, "c", reached_by, ""));
        }
        assert_eq!((results.caught, results.timed_out), (3, 2));
        assert_eq!((results.survivors.len(), results.not_reached()), (2, 1));
    }

    #[test]
    fn a_change_is_one_short_line() {
        assert_eq!(change("a\n    + b", "a\n    - b"), "`a + b` → `a - b`");
        let long = change(&"x".repeat(200), "");
        assert_eq!(long, format!("`{}…` → skipped", "x".repeat(90)));
    }
}
