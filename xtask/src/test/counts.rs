//! Reads the counts in the output of a test runner.

use std::fmt;
use std::ops::Add;

/// How many tests passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Counts {
    /// Reads the summary of nextest: the last one in `output`, because the output of failing tests precedes it and may
    /// contain lines like it.
    pub(crate) fn of_nextest(output: &str) -> Self {
        // `Summary [   0.159s] 28 tests run: 27 passed (1 slow), 1 timed out, 0 skipped`
        let last = output
            .lines()
            .rev()
            .map(without_colours)
            .find(|line| line.trim_start().starts_with("Summary ["));
        let last = last.unwrap_or_default();
        Self::of_list(
            &without_parentheses(last.split_once("run: ").map_or("", |(_, counts)| counts)),
            ',',
        )
    }

    /// Adds up the summaries of `cargo test`, one per test binary.
    pub(crate) fn of_cargo_test(output: &str) -> Self {
        // `test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s`
        output
            .lines()
            .map(without_colours)
            .filter_map(|line| {
                let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
                Some(Self::of_list(counts, ';'))
            })
            .fold(Self::default(), Self::add)
    }

    fn of_list(list: &str, separator: char) -> Self {
        let mut counts = Self::default();
        for item in list.split(separator) {
            let Some((number, what)) = item.trim().split_once(' ') else {
                continue;
            };
            let Ok(number) = number.parse::<u64>() else {
                continue;
            };
            match what.trim() {
                "passed" => counts.passed += number,
                "failed" | "timed out" | "exec failed" => counts.failed += number,
                "skipped" | "ignored" | "filtered out" => counts.skipped += number,
                _ => {}
            }
        }
        counts
    }
}

/// A test that failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Its name, as `zk-lock::sim chaos::name`.
    pub(crate) test: String,
    /// Whether it was ended because its time was over.
    pub(crate) timed_out: bool,
}

/// Returns the tests that failed, as nextest lists them after its summary.
pub(crate) fn failures(output: &str) -> impl Iterator<Item = Failure> {
    // `     TIMEOUT [   3.007s] (9/9) zk-lock::sim chaos::name`
    let lines: Vec<_> = output.lines().map(without_colours).collect();
    let is_summary = |line: &String| line.trim_start().starts_with("Summary [");
    let first = lines.iter().rposition(is_summary);
    let listed = lines
        .into_iter()
        .skip(first.map_or(usize::MAX, |at| at + 1));
    listed.filter_map(|line| {
        let (status, test) = line.split_once("] ")?;
        let mut words = test.split_whitespace().rev();
        let (name, binary) = (words.next()?, words.next()?);
        Some(Failure {
            test: format!("{binary} {name}"),
            timed_out: status.trim_start().starts_with("TIMEOUT"),
        })
    })
}

impl Add for Counts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}

/// Removes the escape sequences of colours: from an escape to the next `m`.
fn without_colours(line: &str) -> String {
    let mut pieces = line.split('\u{1b}');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    plain.extend(
        pieces
            .filter_map(|piece| piece.split_once('m'))
            .map(|(_, text)| text),
    );
    plain
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_u32;
    text.chars()
        .filter(|&c| {
            if c == '(' {
                depth += 1;
            }
            let outside = depth == 0;
            if c == ')' {
                depth = depth.saturating_sub(1);
            }
            outside
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(passed: u64, failed: u64, skipped: u64) -> Counts {
        Counts {
            passed,
            failed,
            skipped,
        }
    }

    #[test]
    fn the_summary_of_nextest_is_read_in_all_its_forms() {
        for (line, expected) in [
            (
                "     Summary [   0.159s] 28 tests run: 28 passed, 0 skipped",
                counts(28, 0, 0),
            ),
            (
                "     Summary [   0.001s] 1 test run: 1 passed, 47 skipped",
                counts(1, 0, 47),
            ),
            (
                "     Summary [  61.0s] 9 tests run: 6 passed (2 slow, 1 leaky), 1 failed, 1 timed out, 1 exec failed, 3 skipped",
                counts(6, 3, 3),
            ),
            (
                "     Summary [   0.2s] 3/28 tests run: 2 passed, 1 failed, 5 skipped",
                counts(2, 1, 5),
            ),
            (
                "\u{1b}[32;1m     Summary\u{1b}[0m [   0.159s] \u{1b}[1m28\u{1b}[0m tests run: \u{1b}[1m28\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, \u{1b}[1m2\u{1b}[0m \u{1b}[33;1mskipped\u{1b}[0m",
                counts(28, 0, 2),
            ),
        ] {
            assert_eq!(Counts::of_nextest(line), expected, "{line}");
        }
    }

    #[test]
    fn the_summary_of_cargo_test_is_read() {
        let line = "test result: FAILED. 5 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.1s";
        assert_eq!(Counts::of_cargo_test(line), counts(5, 2, 5));
    }

    #[test]
    fn all_summaries_of_a_run_are_summed_up() {
        let output = "   Doc-tests zk_core\n\nrunning 2 tests\n\ntest result: ok. 2 passed; 0 failed; 0 ignored;\n\n\
                      test result: ok. 3 passed; 0 failed; 1 ignored;\n all doctests ran in 0.2s\n";
        assert_eq!(Counts::of_cargo_test(output), counts(5, 0, 1));
    }

    #[test]
    fn what_failing_tests_print_is_not_counted() {
        let output = "  stdout ───\n    test result: FAILED. 0 passed; 1 failed; 0 ignored; 39 filtered out;\n\
                      test result: FAILED. 0 passed; 1 failed; 0 ignored; 39 filtered out;\n\
                      Summary [ 1s] 9 tests run: 9 passed, 0 skipped\n\
                           Summary [   9.7s] 27 tests run: 26 passed, 1 failed, 0 skipped\n        FAIL [ 0.1s] a::b\n";
        assert_eq!(Counts::of_nextest(output), counts(26, 1, 0));
    }

    #[test]
    fn failed_tests_are_those_listed_after_the_summary() {
        let output = "        FAIL [   0.008s] (3/9) zk-a::sim a::printed\n\
            \u{1b}[32;1m     Summary\u{1b}[0m [   3.022s] 9 tests run: 5 passed (1 slow), 3 failed, 1 timed out, 0 skipped\n\
            \u{1b}[31;1m     SIGABRT\u{1b}[0m [   0.007s] (2/9) \u{1b}[35;1mzk-a::sim\u{1b}[0m \u{1b}[36ma::\u{1b}[0m\u{1b}[34;1maborts\u{1b}[0m\n\
            \x20       FAIL [   0.151s] (4/9) zk-a a::tests::fails\n\
            \x20FAIL + LEAK [   0.275s] (5/9) zk-a::sim a::leaks\n\
            \x20    TIMEOUT [   3.007s] (─────────) zk-a::sim a::hangs\n\
            error: test run failed\n";
        let all: Vec<_> = failures(output)
            .map(|failure| (failure.test, failure.timed_out))
            .collect();
        let expected = [
            ("zk-a::sim a::aborts", false),
            ("zk-a a::tests::fails", false),
            ("zk-a::sim a::leaks", false),
            ("zk-a::sim a::hangs", true),
        ];
        assert_eq!(all, expected.map(|(test, late)| (test.to_owned(), late)));
        assert_eq!(failures("FAIL [ 1s] (1/1) zk-a b").count(), 0);
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in [
            "PASS [ 0.1s] 3 passed",
            "12 passed, 3 failed",
            "error: test run failed",
            "Summary [",
            "test result: ok",
        ] {
            assert_eq!(Counts::of_nextest(line), Counts::default(), "{line}");
            assert_eq!(Counts::of_cargo_test(line), Counts::default(), "{line}");
        }
    }

    #[test]
    fn the_last_line_has_its_exact_form() {
        assert_eq!(
            counts(12, 0, 3).to_string(),
            "12 passed, 0 failed, 3 skipped"
        );
    }
}
