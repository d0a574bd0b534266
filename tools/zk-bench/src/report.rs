//! Formats the comparison with the peers in Markdown, and writes sections of `BENCHMARKS.md`.

use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::comparison::{
    CLIENTS_OWN, CURATOR, Comparison, OURS, PREMADE_CHAIN, RAW, RECREATING_CHAIN, SESSIONS, Series,
    bound_millis,
};
use crate::settings::Settings;
use crate::table::{Spread, table};
use crate::traffic::Traffic;

/// Prints a section, and with `--peers` puts it into the repository's `BENCHMARKS.md`, in the place of the one that the
/// same command wrote there before.
///
/// # Errors
///
/// If the file cannot be read or written, or lacks the marks of the section.
#[expect(
    clippy::print_stdout,
    reason = "part of a program that talks to a person"
)]
pub fn publish(settings: Settings, benchmark: &str, section: &str) -> anyhow::Result<()> {
    println!("\n{section}");
    if settings.peers && !settings.smoke {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../BENCHMARKS.md");
        let failed = || format!("cannot write the figures to {}", path.display());
        let text = fs::read_to_string(&path).with_context(failed)?;
        let text = replaced(&text, benchmark, section).with_context(failed)?;
        fs::write(&path, text).with_context(failed)?;
        println!("written to BENCHMARKS.md");
    }
    Ok(())
}

fn replaced(text: &str, benchmark: &str, section: &str) -> anyhow::Result<String> {
    let begin = format!("<!-- written by cargo xtask bench {benchmark} --peers -->");
    let (before, rest) = text
        .split_once(&begin)
        .with_context(|| format!("the mark {begin} is missing"))?;
    let (_, after) = rest
        .split_once(END)
        .with_context(|| format!("the mark {END} is missing"))?;
    Ok(format!("{before}{begin}\n{section}{END}{after}"))
}

/// Formats the figures and the environment.
pub fn section(command: &str, comparisons: &[Comparison]) -> String {
    let mut text = figures_to_reach(comparisons);
    for comparison in comparisons {
        let _ = write!(
            text,
            "\n### Data {}\n\n{}- peers: {}\n\n{}\n\n{}\n",
            storage(comparison),
            comparison.environment.describe(command),
            comparison.peers.join(", "),
            figures(comparison),
            woken_readers(comparison)
        );
        let [middle, longest] = comparison.other_session;
        let _ = writeln!(
            text,
            "\nAnother session, which contends all the time with the {SESSIONS} tasks, waited {middle:.0} ms in the \
             median and {longest:.0} ms at most; the bound is {} ms, plus the time to join the queue and hand over.",
            bound_millis()
        );
    }
    text
}

fn storage(comparison: &Comparison) -> &'static str {
    if comparison.in_memory {
        "in memory"
    } else {
        "on disk"
    }
}

/// Formats the targets and the measured figures.
fn figures_to_reach(comparisons: &[Comparison]) -> String {
    let mut table = table(&["figure", "target", "data", "measured", "min–max", "reached"]);
    for (figure, target) in &FIGURES {
        for comparison in comparisons {
            let Some(measured) = figure.measured(comparison) else {
                continue;
            };
            let is_reached = target.is_reached(measured.median);
            let digits = figure.digits();
            table.add_row([
                figure.to_string(),
                target.to_string(),
                storage(comparison).to_owned(),
                measured.middle(digits),
                measured.range(digits),
                if is_reached { "yes" } else { "**no**" }.to_owned(),
            ]);
        }
    }
    format!("{table}\n")
}

/// A figure that has a target.
enum Figure {
    /// Our rate over that of a reference in the same workload.
    Over(&'static str, &'static str),
    /// Our rate in one workload over that in another one.
    Between(&'static str, &'static str),
    /// The CPU time of our process per acquire, in microseconds.
    Cpu(&'static str),
    /// The bytes per woken reader, with so many of them.
    Woken(usize),
}

/// The bound of a figure.
enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    fn measured(&self, comparison: &Comparison) -> Option<Spread> {
        match *self {
            Self::Over(workload, reference) => comparison.ours_over(reference, workload),
            Self::Between(workload, other) => comparison.ours_between(workload, other),
            Self::Cpu(workload) => comparison.our_cpu(workload),
            Self::Woken(readers) => comparison.woken_bytes(readers),
        }
    }

    const fn digits(&self) -> usize {
        match self {
            Self::Cpu(_) | Self::Woken(_) => 0,
            _ => 2,
        }
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Over(one, other) | Self::Between(one, other) => write!(f, "{one} over {other}"),
            Self::Cpu(workload) => write!(f, "client CPU, {workload}, µs"),
            Self::Woken(readers) => write!(f, "bytes out per woken reader of {readers}"),
        }
    }
}

impl Target {
    fn is_reached(&self, measured: f64) -> bool {
        match *self {
            Self::AtLeast(least) => measured >= least,
            Self::AtMost(most) => measured <= most,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
        }
    }
}

/// Formats what the server sends the readers that a writer's release wakes.
fn woken_readers(comparison: &Comparison) -> String {
    let mut table = table(&[
        "workload",
        "client",
        "readers",
        "bytes out per reader",
        "min–max",
    ]);
    for woken in &comparison.woken {
        let spread = Spread::of(woken.bytes_each.iter().copied());
        table.add_row([
            "readers woken by a release".to_owned(),
            OURS.to_owned(),
            woken.readers.to_string(),
            spread.middle(0),
            spread.range(0),
        ]);
    }
    table.to_string()
}

fn figures(comparison: &Comparison) -> String {
    let mut table = table(&[
        "workload",
        "client",
        "rate /s",
        "min–max",
        "p50 ms",
        "p99 ms",
        "zk-lock is",
        "client CPU µs",
        "servers CPU µs",
        "packets in",
        "packets out",
        "watches fired",
        "bytes in",
        "bytes out",
    ]);
    for series in &comparison.series {
        let Series {
            workload, client, ..
        } = series;
        let rate = series.spread(|sample| sample.per_second);
        let ratio = comparison.ours_over(client, workload);
        let ratio = ratio.filter(|_| *client != OURS);
        let each = |digits: usize, number: fn(&Traffic) -> f64| {
            let known = series.samples.iter().all(|sample| sample.traffic.is_some());
            let spread = series.spread(|sample| sample.traffic.as_ref().map_or(0.0, number));
            if known {
                spread.middle(digits)
            } else {
                String::new()
            }
        };
        table.add_row([
            workload.clone(),
            (*client).to_owned(),
            rate.middle(0),
            rate.range(0),
            series.spread(|sample| sample.p50_micros / 1e3).middle(3),
            series.spread(|sample| sample.p99_micros / 1e3).middle(3),
            ratio.map_or_else(String::new, |ratio| format!("{:.2} ×", ratio.median)),
            series
                .cpu_micros()
                .map_or_else(String::new, |cpu| cpu.middle(0)),
            each(0, |traffic| traffic.servers_cpu_micros),
            each(2, |traffic| traffic.received),
            each(2, |traffic| traffic.sent),
            each(2, |traffic| traffic.fired),
            each(0, |traffic| traffic.bytes_in),
            each(0, |traffic| traffic.bytes_out),
        ]);
    }
    table.to_string()
}

/// The targets.
const FIGURES: [(Figure, Target); 12] = [
    (Figure::Over("one session", RAW), Target::AtLeast(0.97)),
    (Figure::Over("one session", CURATOR), Target::AtLeast(1.4)),
    (
        Figure::Over("one session", CLIENTS_OWN),
        Target::AtLeast(1.2),
    ),
    (
        Figure::Over("20 sessions", RECREATING_CHAIN),
        Target::AtLeast(0.95),
    ),
    (
        Figure::Over("20 sessions", PREMADE_CHAIN),
        Target::AtLeast(0.65),
    ),
    (
        Figure::Over("20 sessions, with yield", PREMADE_CHAIN),
        Target::AtLeast(0.9),
    ),
    (Figure::Over("20 sessions", CURATOR), Target::AtLeast(2.5)),
    (
        Figure::Between("500 sessions", "20 sessions"),
        Target::AtLeast(0.95),
    ),
    (Figure::Over("20 tasks", CURATOR), Target::AtLeast(50.0)),
    (Figure::Cpu("one session"), Target::AtMost(110.0)),
    (Figure::Cpu("20 sessions"), Target::AtMost(200.0)),
    (Figure::Woken(100), Target::AtMost(20.0)),
];

const END: &str = "<!-- to here -->";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::example;

    #[test]
    fn what_is_reached_and_what_is_not_is_said() {
        let text = section("cargo xtask bench lock --peers", &[example(), example()]);
        let cells = |start: &str| -> Vec<String> {
            let mut lines = text.lines();
            let row = lines.find(|line| line.trim_start_matches("| ").starts_with(start));
            let row = row.unwrap_or_else(|| panic!("no {start} in {text}"));
            let cells = row.trim_matches('|').split('|');
            cells.map(|cell| cell.trim().to_owned()).collect()
        };
        assert_eq!(
            cells("one session over create")[1..],
            ["≥ 0.97", "in memory", "1.00", "0.90–1.10", "yes"]
        );
        assert_eq!(cells("20 sessions over Curator")[5], "**no**");
        assert_eq!(
            cells("2 sessions")[7..],
            ["150", "1200", "6.00", "7.50", "2.00", "400", "300"]
        );
        assert_eq!(
            cells("500 sessions over 20 sessions")[1..],
            ["≥ 0.95", "in memory", "0.50", "0.50–0.50", "**no**"]
        );
        assert_eq!(
            cells("client CPU, one session")[1..],
            ["≤ 110", "in memory", "150", "150–150", "**no**"]
        );
        assert_eq!(cells("client CPU, 20 sessions")[5], "yes");
        assert_eq!(
            cells("bytes out per woken reader")[1..],
            ["≤ 20", "in memory", "175", "110–240", "**no**"]
        );
        assert_eq!(
            cells("readers woken by a release")[2..],
            ["25", "150", "100–200"]
        );
        assert_eq!(
            cells("100 sessions")[7],
            "",
            "a peer's process has its own CPU time"
        );
        assert!(text.contains("104 ms at most; the bound is 100 ms"));
        assert!(text.contains("discard these figures"));
        let each = text.matches("other work: 25.0 % of one core").count();
        assert_eq!(each, 2, "{text}");
        let mut quiet = example();
        quiet.environment.other_work.share = Some(0.01);
        assert!(!section("x", &[quiet]).contains("discard these figures"));
    }

    #[test]
    fn the_section_takes_the_place_of_the_former_one_and_nothing_else() {
        let begin = "<!-- written by cargo xtask bench id --peers -->";
        let text = format!("a\n{begin}\nold\n{END}\nb\n");
        let once = replaced(&text, "id", "new\n").unwrap();
        assert_eq!(once, format!("a\n{begin}\nnew\n{END}\nb\n"));
        assert_eq!(replaced(&once, "id", "new\n").unwrap(), once);
        let error = replaced("nothing", "id", "new").unwrap_err().to_string();
        assert!(error.starts_with("the mark <!--"), "{error}");
    }
}
