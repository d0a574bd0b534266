//! Formats the comparison with the peers in Markdown and writes it to `BENCHMARKS.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use comfy_table::CellAlignment;
use comfy_table::Table;
use comfy_table::presets;

use crate::chart;
use crate::comparison::CHAIN;
use crate::comparison::CURATOR;
use crate::comparison::Comparison;
use crate::comparison::OURS;
use crate::comparison::RAW;
use crate::comparison::SESSIONS;
use crate::comparison::bound_millis;
use crate::result::Spread;

/// Replaces the lock's section of the repository's `BENCHMARKS.md`, and draws the chart.
///
/// # Errors
///
/// If a file cannot be read or written, or lacks the marks of the section.
pub fn write(root: &Path, command: &str, comparisons: &[Comparison]) -> anyhow::Result<()> {
    let drawing = root.join(CHART);
    if let Some(directory) = drawing.parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(&drawing, chart::svg(comparisons))
        .with_context(|| format!("cannot write {}", drawing.display()))?;
    put(root, BEGIN, &section(command, comparisons))
}

/// Replaces the section of the repository's `BENCHMARKS.md` between the line `begin` and the next end mark.
///
/// # Errors
///
/// If the file cannot be read or written, or lacks one of the marks.
pub fn put(root: &Path, begin: &str, section: &str) -> anyhow::Result<()> {
    let path = root.join("BENCHMARKS.md");
    let failed = || format!("cannot write the figures to {}", path.display());
    let text = fs::read_to_string(&path).with_context(failed)?;
    let text = replaced(&text, begin, section).with_context(failed)?;
    fs::write(&path, text).with_context(failed)
}

fn replaced(text: &str, begin: &str, section: &str) -> anyhow::Result<String> {
    let (before, rest) = text
        .split_once(begin)
        .with_context(|| format!("the mark {begin} is missing"))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("the mark {END} is missing"))?;
    Ok(format!("{before}{begin}\n{section}{END}{after}"))
}

/// Formats the figures and the environment.
pub fn section(command: &str, comparisons: &[Comparison]) -> String {
    let mut text = String::new();
    if comparisons
        .iter()
        .any(|comparison| comparison.environment.other_work.is_too_much())
    {
        text += "**Other processes used the CPU during the run: discard these figures.**\n\n";
    }
    if let Some(comparison) = comparisons.first() {
        let environment = &comparison.environment;
        let other_work = comparisons
            .iter()
            .map(|comparison| comparison.environment.other_work.to_string());
        let other_work: Vec<_> = other_work.collect();
        let _ = writeln!(
            text,
            "- command: `{command}`\n- machine: {}; clients and servers share it\n- system: {}; other work: {}\n\
             - ensemble: {}\n- peers: {}\n",
            environment.machine,
            environment.system,
            other_work.join(", then "),
            environment.ensemble,
            comparison.peers.join(", ")
        );
    }
    let _ = writeln!(
        text,
        "![hand-overs a second by number of sessions]({CHART})\n"
    );
    text += &figures_to_reach(comparisons);
    for comparison in comparisons {
        let _ = writeln!(
            text,
            "\n### Data {}\n\n{}",
            comparison.environment.data,
            table(comparison)
        );
        if let Some([middle, longest]) = comparison.other_session {
            let _ = writeln!(
                text,
                "\nAnother session, which contends all the time with the {SESSIONS} tasks, waited {middle:.0} ms in the \
                 median and {longest:.0} ms at most; the bound is {} ms, plus the time to join the queue and hand over.",
                bound_millis()
            );
        }
    }
    text
}

/// Formats the targets and the measured figures.
fn figures_to_reach(comparisons: &[Comparison]) -> String {
    let mut table = markdown(&["figure", "target", "data", "measured", "min–max", "reached"]);
    for (workload, contenders, reference, least) in FIGURES {
        for comparison in comparisons {
            let Some(ratio) = ratio(comparison, workload, contenders, reference) else {
                continue;
            };
            let is_reached = ratio.median >= least;
            table.add_row([
                format!("{} over {reference}", named(workload, contenders)),
                format!("≥ {least}"),
                comparison.storage().to_owned(),
                format!("{:.2}", ratio.median),
                format!("{:.2}–{:.2}", ratio.min, ratio.max),
                if is_reached { "yes" } else { "**no**" }.to_owned(),
            ]);
        }
    }
    format!("{table}\n")
}

fn ratio(
    comparison: &Comparison,
    workload: &str,
    contenders: usize,
    reference: &str,
) -> Option<Spread> {
    let series = |client: &str| comparison.find(workload, contenders, client);
    Some(series(OURS)?.over(series(reference)?))
}

fn table(comparison: &Comparison) -> String {
    let mut table = markdown(&[
        "workload",
        "client",
        "rate /s",
        "min–max",
        "p50 ms",
        "p99 ms",
        "zk-lock is",
        "packets in",
        "packets out",
        "watches fired",
        "bytes in",
        "bytes out",
    ]);
    for series in &comparison.series {
        let rate = series.rate();
        let times = match series.client.as_str() {
            OURS => String::new(),
            client => ratio(comparison, &series.workload, series.contenders, client)
                .map_or_else(String::new, |ratio| format!("{:.2} ×", ratio.median)),
        };
        let each = |digits: usize, number: fn(&crate::Traffic) -> f64| {
            let known = series.samples.iter().all(|sample| sample.traffic.is_some());
            let middle = series.median(|sample| sample.traffic.as_ref().map_or(0.0, number));
            if known {
                format!("{middle:.digits$}")
            } else {
                String::new()
            }
        };
        table.add_row([
            named(&series.workload, series.contenders),
            series.client.clone(),
            format!("{:.0}", rate.median),
            format!("{:.0}–{:.0}", rate.min, rate.max),
            format!("{:.3}", series.median(|sample| sample.p50_micros) / 1e3),
            format!("{:.3}", series.median(|sample| sample.p99_micros) / 1e3),
            times,
            each(2, |traffic| traffic.received),
            each(2, |traffic| traffic.sent),
            each(2, |traffic| traffic.fired),
            each(0, |traffic| traffic.bytes_in),
            each(0, |traffic| traffic.bytes_out),
        ]);
    }
    table.to_string()
}

pub(crate) fn markdown(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN).set_header(header);
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn named(workload: &str, contenders: usize) -> String {
    match workload {
        "alone" => "one session".to_owned(),
        "sessions" => format!("{contenders} sessions"),
        other => format!("{contenders} {other}"),
    }
}

/// The targets: workload, number of contenders, reference, and the least ratio to it.
const FIGURES: [(&str, usize, &str, f64); 5] = [
    ("alone", 1, RAW, 0.95),
    ("alone", 1, CURATOR, 1.2),
    ("sessions", SESSIONS, CURATOR, 2.0),
    ("sessions", SESSIONS, CHAIN, 0.8),
    ("tasks", SESSIONS, CURATOR, 50.0),
];

const CHART: &str = "docs/bench/lock.svg";
const BEGIN: &str = "<!-- written by cargo xtask bench lock --peers -->";
const END: &str = "<!-- to here -->";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::example;

    #[test]
    fn what_is_reached_and_what_is_not_is_said() {
        let text = section("cargo xtask bench lock --peers", &[example(), example()]);
        let row = |start: &str| {
            let row = text
                .lines()
                .find(|line| line.trim_start_matches("| ").starts_with(start));
            row.unwrap_or_else(|| panic!("no {start} in {text}"))
                .to_owned()
        };
        let cells = |start: &str| -> Vec<String> {
            let row = row(start);
            let cells = row.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        };
        assert_eq!(
            cells("one session over create")[1..],
            ["≥ 0.95", "in memory", "1.00", "0.90–1.10", "yes"]
        );
        assert_eq!(cells("20 sessions over Curator")[5], "**no**");
        assert_eq!(
            cells("2 sessions")[7..],
            ["6.00", "7.50", "2.00", "400", "300"]
        );
        assert!(text.contains("104 ms at most; the bound is 100 ms"));
        assert!(text.contains("discard these figures"));
        let each = "other work: 25.0 % of one core, then 25.0 % of one core";
        assert!(text.contains(each), "{text}");
        let mut quiet = example();
        quiet.environment.other_work.share = Some(0.01);
        assert!(!section("x", &[quiet]).contains("discard these figures"));
    }

    #[test]
    fn the_section_takes_the_place_of_the_former_one_and_nothing_else() {
        let text = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let once = replaced(&text, BEGIN, "new\n").unwrap();
        assert_eq!(once, format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(replaced(&once, BEGIN, "new\n").unwrap(), once);
        let error = replaced("nothing", BEGIN, "new").unwrap_err().to_string();
        assert!(error.starts_with("the mark <!--"), "{error}");
    }
}
