//! Draws the rate over the number of contenders as an SVG chart.

use std::fmt::Write as _;

use crate::comparison::CHAIN;
use crate::comparison::CURATOR;
use crate::comparison::Comparison;
use crate::comparison::OURS;
use crate::comparison::Series;

/// Draws the hand-overs per second over the number of sessions, with one panel per comparison.
///
/// The vertical axis begins at zero. Bars show the minimum and maximum of the rounds.
pub(crate) fn svg(comparisons: &[Comparison]) -> String {
    let width = PANEL_WIDTH * comparisons.len().max(1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{width}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    for (at, comparison) in comparisons.iter().enumerate() {
        let _ = writeln!(svg, "<g transform=\"translate({},0)\">", at * PANEL_WIDTH);
        panel(&mut svg, comparison);
        svg += "</g>\n";
    }
    svg + "</svg>\n"
}

#[expect(
    clippy::cast_precision_loss,
    reason = "pixels and some hundred sessions"
)]
fn panel(svg: &mut String, comparison: &Comparison) {
    let mut counts: Vec<usize> = contended(comparison)
        .map(|series| series.contenders)
        .collect();
    counts.sort_unstable();
    counts.dedup();
    let most = contended(comparison)
        .map(|series| series.rate().max)
        .fold(1.0, f64::max);
    let step = step(most);
    let top = (most / step).ceil() * step;
    let (right, bottom) = (PANEL_WIDTH as f64 - 20.0, HEIGHT as f64 - 70.0);
    let across = |at: usize| {
        let gaps = counts.len().saturating_sub(1).max(1) as f64;
        LEFT + 20.0 + (right - LEFT - 40.0) * at as f64 / gaps
    };
    let up = |rate: f64| bottom - (bottom - TOP) * rate / top;

    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"20\" font-weight=\"bold\">hand-overs a second, data {}</text>",
        comparison.storage()
    );
    let mut rate = 0.0;
    while rate <= top {
        let y = up(rate);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{rate}</text>",
            LEFT - 6.0,
            y + 4.0
        );
        rate += step;
    }
    for (at, count) in counts.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{count}</text>",
            across(at),
            bottom + 18.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">sessions</text>",
        f64::midpoint(LEFT, right),
        bottom + 36.0
    );
    for (nth, (client, colour)) in LINES.iter().enumerate() {
        let mut line = String::new();
        for (at, count) in counts.iter().enumerate() {
            let Some(series) = comparison.find("sessions", *count, client) else {
                continue;
            };
            let (x, spread) = (across(at), series.rate());
            let command = if line.is_empty() { 'M' } else { 'L' };
            let _ = write!(line, "{command}{x:.1} {:.1}", up(spread.median));
            let _ = writeln!(
                svg,
                "<path d=\"M{x:.1} {:.1}V{:.1}\" stroke=\"{colour}\"/><circle cx=\"{x:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"{colour}\"/>",
                up(spread.min),
                up(spread.max),
                up(spread.median)
            );
        }
        let (x, y) = (LEFT + 120.0 * nth as f64, HEIGHT as f64 - 12.0);
        let _ = writeln!(
            svg,
            "<path d=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
             <path d=\"M{x} {:.1}h20\" stroke=\"{colour}\" stroke-width=\"2\"/><text x=\"{}\" y=\"{y}\">{client}</text>",
            y - 4.0,
            x + 26.0
        );
    }
}

fn contended(comparison: &Comparison) -> impl Iterator<Item = &Series> {
    let series = comparison
        .series
        .iter()
        .filter(|series| series.workload == "sessions");
    series.filter(|series| LINES.iter().any(|(client, _)| series.client == *client))
}

/// Returns a round number of which about five make up `most`.
fn step(most: f64) -> f64 {
    let power = 10_f64.powf((most / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps
        .into_iter()
        .find(|step| most / step <= 6.0)
        .unwrap_or(10.0 * power)
}

const LINES: [(&str, &str); 3] = [(CHAIN, "#888888"), (OURS, "#0072b2"), (CURATOR, "#d55e00")];
const PANEL_WIDTH: usize = 460;
const HEIGHT: usize = 340;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::example;

    #[test]
    fn every_race_is_a_panel_and_every_line_is_named() {
        let svg = svg(&[example(), example()]);
        assert_eq!(svg.matches("<g ").count(), 2);
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        assert_eq!(svg.matches(">Curator</text>").count(), 2);
        // A point for each series of a contended workload.
        assert_eq!(svg.matches("<circle").count(), 8);
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn the_axis_has_round_numbers_and_not_too_many() {
        for (most, expected) in [
            (1.0, 0.2),
            (950.0, 200.0),
            (1300.0, 500.0),
            (40_000.0, 10_000.0),
        ] {
            assert!(
                (step(most) - expected).abs() < 1e-9,
                "{most}: {}",
                step(most)
            );
        }
    }
}
