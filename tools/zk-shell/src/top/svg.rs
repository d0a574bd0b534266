//! Draws the cells of a terminal as an image in SVG.
//!
//! Pure: no I/O and no clock.

use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

/// Returns the image of a screen.
pub(crate) fn image(buffer: &Buffer) -> String {
    let area = buffer.area;
    let (width, height) = (
        u32::from(area.width) * CELL_WIDTH + 2 * MARGIN,
        u32::from(area.height) * CELL_HEIGHT + 2 * MARGIN,
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n\
         <g font-family=\"ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"13\" xml:space=\"preserve\">\n"
    );
    for y in 0..area.height {
        let mut x = 0;
        while x < area.width {
            let cell = &buffer[(x, y)];
            let style = CellStyle::of(cell);
            let mut text = String::new();
            let start = x;
            while x < area.width && CellStyle::of(&buffer[(x, y)]) == style {
                text.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            style.draw(&mut svg, &text, (start, y), x - start);
        }
    }
    svg.push_str("</g>\n</svg>\n");
    svg
}

/// The style that the cells of a run have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CellStyle {
    foreground: &'static str,
    background: Option<&'static str>,
    is_bold: bool,
    is_underlined: bool,
}

impl CellStyle {
    fn of(cell: &Cell) -> Self {
        let foreground = match cell.fg {
            Color::Green => "#7bd88f",
            Color::Red => "#ff7b72",
            _ if cell.modifier.contains(Modifier::DIM) => "#8b949e",
            _ => FOREGROUND,
        };
        let is_reversed = cell.modifier.contains(Modifier::REVERSED);
        Self {
            foreground: if is_reversed { BACKGROUND } else { foreground },
            background: is_reversed.then_some(foreground),
            is_bold: cell.modifier.contains(Modifier::BOLD),
            is_underlined: cell.modifier.contains(Modifier::UNDERLINED),
        }
    }

    fn draw(self, svg: &mut String, text: &str, (x, y): (u16, u16), cells: u16) {
        let x = u32::from(x) * CELL_WIDTH + MARGIN;
        let y = u32::from(y) * CELL_HEIGHT + MARGIN;
        let width = u32::from(cells) * CELL_WIDTH;
        // Writing to a string does not fail.
        if let Some(background) = self.background {
            let _ = writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{CELL_HEIGHT}\" fill=\"{background}\"/>"
            );
        }
        let shown = text.trim_end();
        if shown.is_empty() {
            return;
        }
        let used = u32::try_from(super::table::width_of(shown)).unwrap_or(0) * CELL_WIDTH;
        let bold = if self.is_bold {
            " font-weight=\"bold\""
        } else {
            ""
        };
        let underline = if self.is_underlined {
            " text-decoration=\"underline\""
        } else {
            ""
        };
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{}\" textLength=\"{used}\" fill=\"{}\"{bold}{underline}>{}</text>",
            y + BASELINE,
            self.foreground,
            escaped(shown)
        );
    }
}

fn escaped(text: &str) -> String {
    // Leading spaces would be lost where `xml:space` is not known.
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace(' ', "\u{a0}")
}

/// In pixels.
const CELL_WIDTH: u32 = 8;
const CELL_HEIGHT: u32 = 17;
const BASELINE: u32 = 13;
const MARGIN: u32 = 10;
const BACKGROUND: &str = "#0d1117";
const FOREGROUND: &str = "#e6edf3";

#[cfg(test)]
mod tests {
    use ratatui::layout::Rect;
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn each_run_of_a_style_is_one_text() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 2));
        buffer.set_string(0, 0, "a<b> & c", Style::new());
        buffer.set_string(
            0,
            1,
            "down",
            Style::new().fg(Color::Red).add_modifier(Modifier::REVERSED),
        );
        let svg = image(&buffer);
        let texts: Vec<_> = svg
            .lines()
            .filter(|line| line.starts_with("<text"))
            .collect();
        assert_eq!(texts.len(), 2, "{svg}");
        assert!(
            texts[0].ends_with(">a&lt;b&gt;\u{a0}&amp;\u{a0}c</text>"),
            "{svg}"
        );
        assert!(
            texts[1].contains(BACKGROUND) && texts[1].ends_with(">down</text>"),
            "{svg}"
        );
        assert!(
            svg.contains("width=\"32\" height=\"17\" fill=\"#ff7b72\""),
            "{svg}"
        );
    }
}
