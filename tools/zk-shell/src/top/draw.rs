//! Draws the dashboard.
//!
//! Pure: no I/O and no clock.

use ratatui::Frame;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

use super::model::{Leadership, Model, RATES, age};
use super::screen::{KEYS, Screen};
use super::table::{Emphasis, Row, Table, padded, printable, width_of};
use super::views::View;

/// Where the samples come from, and whether colours are wanted.
#[derive(Debug, Clone)]
pub(crate) struct Status {
    /// `live`, `paused`, or how far the replay is.
    pub(crate) mode: String,
    pub(crate) has_colours: bool,
}

/// Draws everything.
pub(crate) fn draw(frame: &mut Frame<'_>, model: &Model, screen: &Screen, status: &Status) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut lines = vec![title(model, status, width), tabs(screen)];
    let body = height.saturating_sub(3);
    if screen.has_help {
        lines.extend(help());
    } else {
        let table = screen.arranged(screen.view.table(model));
        let renderer = Renderer {
            width,
            has_colours: status.has_colours,
        };
        match &screen.detailed {
            Some(id) => {
                if let Some(at) = table.position(id) {
                    let row = &table.rows[at];
                    let below = screen.view.detail(model, row);
                    lines.extend(detail(&table, row, &below, body));
                } else {
                    let id = printable(&id.join(" at "));
                    lines.push(Line::raw(format!("  {id} is gone")));
                }
            }
            None => lines.extend(renderer.overview(model, screen, &table, body)),
        }
    }
    lines.truncate(height.saturating_sub(1));
    lines.resize(height.saturating_sub(1), Line::default());
    lines.push(footer(screen));
    frame.render_widget(Paragraph::new(lines), area);
}

/// Draws lines of a width, with colours or without.
struct Renderer {
    width: usize,
    has_colours: bool,
}

impl Renderer {
    /// The table, what is missing, the rates of the servers, and the last events.
    fn overview(
        &self,
        model: &Model,
        screen: &Screen,
        table: &Table,
        height: usize,
    ) -> Vec<Line<'static>> {
        let notes = table.notes.len().min(height / 3);
        let events = if screen.view == View::Servers {
            // As many as there is room for beside the rows and the rates.
            let used = table.rows.len() + notes + model.servers.len() + 4;
            let room = height.saturating_sub(used).max(MIN_EVENTS);
            model.events.len().min(room)
        } else {
            model.events.len().min(1)
        };
        let below = notes + if events > 0 { events + 1 } else { 0 };
        let rows = height.saturating_sub(below + 2).max(3);
        let mut lines = self.table(table, screen, rows);
        for note in &table.notes[..notes] {
            let style = if note.is_problem {
                self.style(Emphasis::Alarm)
            } else {
                Style::new().add_modifier(Modifier::DIM)
            };
            lines.push(Line::styled(fitted(&note.line(), self.width), style));
        }
        if screen.view == View::Servers {
            let room = height.saturating_sub(lines.len() + events + 1);
            lines.extend(self.rates(model, room));
        }
        let room = height.saturating_sub(lines.len() + 1).min(events);
        if room > 0 {
            // At the bottom.
            let gap = height.saturating_sub(lines.len() + room);
            lines.extend(std::iter::repeat_n(Line::default(), gap));
            let newest = model.events.iter().rev().take(room).rev();
            lines.extend(newest.map(|event| {
                let text = format!("{} {}", time_of_day(event.at), printable(&event.text));
                Line::styled(
                    fitted(&text, self.width),
                    Style::new().add_modifier(Modifier::DIM),
                )
            }));
        }
        lines
    }

    fn table(&self, table: &Table, screen: &Screen, rows: usize) -> Vec<Line<'static>> {
        let selected = screen.selected(table);
        let columns = self.shown_columns(table, screen.first_column);
        let order = screen.order();
        let mut title = String::from("  ");
        for (at, width) in &columns {
            let column = table.columns[*at];
            let mut text = column.title.to_owned();
            if *at == order.column && width_of(&text) < *width {
                text.push(if order.is_descending { 'v' } else { '^' });
            }
            title.push_str(&padded(&text, *width, column.is_number));
            title.push_str("  ");
        }
        let style = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        let mut lines = vec![Line::styled(title.trim_end().to_owned(), style)];
        let first = selected.saturating_sub(rows.saturating_sub(1));
        for (at, row) in table.rows.iter().enumerate().skip(first).take(rows) {
            let mut text = String::new();
            text.push(if at == selected { '>' } else { ' ' });
            text.push(match row.emphasis {
                Emphasis::None => ' ',
                Emphasis::Strong => '*',
                Emphasis::Alarm => '!',
            });
            for (column, width) in &columns {
                let cell = row.cells.get(*column).map_or("", |cell| cell.text.as_str());
                let is_number = table.columns[*column].is_number;
                text.push_str(&padded(&fitted(cell, *width), *width, is_number));
                text.push_str("  ");
            }
            let mut style = self.style(row.emphasis);
            if at == selected {
                style = style.add_modifier(Modifier::REVERSED);
            }
            lines.push(Line::styled(text.trim_end().to_owned(), style));
        }
        let shown = rows.min(table.rows.len());
        if shown < table.rows.len() {
            let all = table.rows.len();
            lines.push(Line::raw(format!(
                "  rows {} to {} of {all}",
                first + 1,
                first + shown
            )));
        }
        lines
    }

    /// The columns that have room, with their widths; the first one is always there.
    fn shown_columns(&self, table: &Table, first: usize) -> Vec<(usize, usize)> {
        let widths = table.widths();
        let longest = (self.width / 2).max(16);
        let mut left = self.width.saturating_sub(2);
        let mut shown = Vec::new();
        for (at, width) in widths.into_iter().enumerate() {
            if at != 0 && at < first {
                continue;
            }
            // One more for the mark of the order.
            let width = width.min(longest) + usize::from(!table.columns[at].is_number);
            if width > left {
                break;
            }
            left = left.saturating_sub(width + 2);
            shown.push((at, width));
        }
        shown
    }

    /// The requests per second of each server, as bars, one for each second up to now.
    fn rates(&self, model: &Model, room: usize) -> Vec<Line<'static>> {
        let servers = model.servers.len();
        if room < servers + 2 {
            return Vec::new();
        }
        let all = model.servers.values().flat_map(|server| &server.rates);
        let highest = all.map(|(_, rate)| *rate).max().unwrap_or(0).max(1);
        let names = model
            .servers
            .keys()
            .map(|address| width_of(&printable(address)));
        let name_width = names.max().unwrap_or(0);
        let bars = self.width.saturating_sub(name_width + 5).min(RATES);
        let mut lines = vec![
            Line::default(),
            Line::styled(
                fitted(
                    &format!("  requests/s in the last {bars} s, up to {highest}"),
                    self.width,
                ),
                Style::new().add_modifier(Modifier::BOLD),
            ),
        ];
        for (address, server) in &model.servers {
            let seconds = (0..bars as u64).rev();
            let bars: String = seconds
                .map(|ago| {
                    let second = (model.now / 1_000).saturating_sub(ago);
                    let rate = server.rate_in(second);
                    rate.map_or(' ', |rate| bar(rate, highest))
                })
                .collect();
            let name = padded(&printable(address), name_width, false);
            lines.push(Line::raw(format!("  {name}  {bars}").trim_end().to_owned()));
        }
        lines
    }

    fn style(&self, emphasis: Emphasis) -> Style {
        let (modifier, colour) = match emphasis {
            Emphasis::None => return Style::new(),
            Emphasis::Strong => (Modifier::BOLD, Color::Green),
            Emphasis::Alarm => (Modifier::BOLD, Color::Red),
        };
        let style = Style::new().add_modifier(modifier);
        if self.has_colours {
            style.fg(colour)
        } else {
            style
        }
    }
}

fn title(model: &Model, status: &Status, width: usize) -> Line<'static> {
    let serving = model.servers.values().filter(|server| server.is_serving());
    let serving = serving.count();
    let leader = match model.leadership() {
        Leadership::Leader(address) => format!("leader {}", printable(address)),
        Leadership::LostFor(time) => format!("NO LEADER for {}", age(time)),
        Leadership::NeverSeen => "no leader seen".to_owned(),
    };
    let left = format!(
        " zk top  {serving} of {} servers serving, {leader}",
        model.servers.len()
    );
    let right = format!("{}  {} UTC ", status.mode, time_of_day(model.now));
    let gap = width
        .saturating_sub(width_of(&left) + width_of(&right))
        .max(2);
    let text = format!("{left}{}{right}", " ".repeat(gap));
    let style = Style::new().add_modifier(Modifier::REVERSED);
    Line::styled(fitted(&text, width), style)
}

fn tabs(screen: &Screen) -> Line<'static> {
    let mut spans = vec![Span::raw(" ")];
    for (at, view) in View::ALL.into_iter().enumerate() {
        let number = at + 1;
        let name = view.name();
        spans.push(if view == screen.view {
            Span::styled(
                format!("[{number} {name}]"),
                Style::new().add_modifier(Modifier::BOLD),
            )
        } else {
            Span::raw(format!(" {number} {name} "))
        });
    }
    Line::from(spans)
}

fn footer(screen: &Screen) -> Line<'static> {
    let text = if screen.is_filter_edited {
        format!(" show only rows with: {}_", printable(&screen.filter))
    } else if screen.filter.is_empty() {
        " ? help  q quit  / filter  s sort  r reverse  Enter detail  p pause  c crawl".to_owned()
    } else {
        format!(" only rows with {:?}; Esc shows all", screen.filter)
    };
    Line::styled(text, Style::new().add_modifier(Modifier::DIM))
}

fn help() -> Vec<Line<'static>> {
    let keys = KEYS
        .iter()
        .map(|(key, what)| Line::raw(format!("  {key:<22}{what}")));
    let mut lines = vec![Line::default()];
    lines.extend(keys);
    lines.extend([
        Line::default(),
        Line::raw("  Each server is sent at most five requests per second."),
        Line::raw("  Sessions, hosts and watches are asked for only while they are shown,"),
        Line::raw("  because a server goes through all of them for an answer."),
    ]);
    lines
}

/// All cells of a row, a line each, and then its details.
fn detail(table: &Table, row: &Row, below: &[String], height: usize) -> Vec<Line<'static>> {
    let cells = table.columns.iter().zip(&row.cells);
    let mut lines: Vec<_> = cells
        .map(|(column, cell)| {
            Line::from(vec![
                Span::styled(
                    format!("  {:<14}", column.title),
                    Style::new().add_modifier(Modifier::BOLD),
                ),
                Span::raw(cell.text.clone()),
            ])
        })
        .collect();
    // Two columns of cells where one is too long, so that the details have room.
    if lines.len() + below.len() > height && lines.len() > 6 {
        let right = lines.split_off(lines.len().div_ceil(2));
        for (left, right) in lines.iter_mut().zip(right) {
            let gap = 38_usize.saturating_sub(left.width()).max(2);
            left.push_span(Span::raw(" ".repeat(gap)));
            left.spans.extend(right.spans);
        }
    }
    lines.push(Line::default());
    lines.extend(below.iter().map(|line| Line::raw(format!("  {line}"))));
    lines
}

/// How many events of the servers are shown at least.
const MIN_EVENTS: usize = 6;

fn bar(rate: u64, highest: u64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let at = usize::try_from(rate.saturating_mul(7).div_ceil(highest)).unwrap_or(7);
    BARS[at.min(7)]
}

/// The time of a day in UTC.
pub(crate) fn time_of_day(milliseconds: u64) -> String {
    let seconds = milliseconds / 1_000 % 86_400;
    format!(
        "{:02}:{:02}:{:02}",
        seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Cuts a text that is wider than `width` cells.
fn fitted(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let mut shown = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += width_of(c.encode_utf8(&mut [0; 4]));
        if used > width {
            break;
        }
        shown.push(c);
    }
    shown.push('…');
    shown
}

#[cfg(test)]
mod tests;
