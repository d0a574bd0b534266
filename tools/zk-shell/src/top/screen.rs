//! What the person at the terminal has chosen to see, and what each key does.
//!
//! Pure: no I/O and no clock.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::table::{Order, RowId, Table};
use super::views::View;

/// What is shown, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) view: View,
    pub(crate) filter: String,
    pub(crate) is_filter_edited: bool,
    /// The place of the selected row, and the row itself, which is followed when the order changes. At first the
    /// selection stays at the top.
    selected: usize,
    selected_row: Option<RowId>,
    /// The second column that is shown, where not all have room.
    pub(crate) first_column: usize,
    /// The row that is shown with all it has.
    pub(crate) detailed: Option<RowId>,
    pub(crate) has_help: bool,
    pub(crate) is_paused: bool,
    orders: [Order; View::ALL.len()],
}

/// What a key asks of the program around the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing but to draw again.
    Draw,
    Quit,
    /// Read all nodes once.
    Crawl,
    /// Pause was switched on or off.
    Pause,
    /// Replay: go on to the next second.
    Step,
    Faster,
    Slower,
}

impl Screen {
    pub(crate) fn new(view: View) -> Self {
        Self {
            view,
            filter: String::new(),
            is_filter_edited: false,
            selected: 0,
            selected_row: None,
            first_column: 1,
            detailed: None,
            has_help: false,
            is_paused: false,
            orders: View::ALL.map(View::order),
        }
    }

    pub(crate) fn order(&self) -> Order {
        self.orders[self.view as usize]
    }

    /// Filters and sorts a table of the chosen view.
    pub(crate) fn arranged(&self, table: Table) -> Table {
        table.arranged(&self.filter, self.order())
    }

    /// Returns the place of the selected row in the arranged table.
    pub(crate) fn selected(&self, table: &Table) -> usize {
        let row = self.selected_row.as_ref();
        let at = row.and_then(|row| table.position(row));
        let last = table.rows.len().saturating_sub(1);
        at.unwrap_or(self.selected).min(last)
    }

    /// Does what a key says, of the arranged table.
    pub(crate) fn press(&mut self, key: KeyEvent, table: &Table) -> Effect {
        let last = table.rows.len().saturating_sub(1);
        let selected = self.selected(table);
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Effect::Quit,
                _ => Effect::Draw,
            };
        }
        if self.is_filter_edited {
            self.edit_filter(key.code);
            return Effect::Draw;
        }
        if self.has_help {
            self.has_help = false;
            return Effect::Draw;
        }
        match key.code {
            KeyCode::Char('q') => return Effect::Quit,
            KeyCode::Char('c') => return Effect::Crawl,
            KeyCode::Char('p' | ' ') => {
                self.is_paused = !self.is_paused;
                return Effect::Pause;
            }
            KeyCode::Char('.') => return Effect::Step,
            KeyCode::Char('+') => return Effect::Faster,
            KeyCode::Char('-') => return Effect::Slower,
            KeyCode::Char('?' | 'h') => self.has_help = true,
            KeyCode::Char('/') => self.is_filter_edited = true,
            KeyCode::Char(key @ ('s' | 'S')) => {
                let next = if key == 's' { following } else { preceding };
                let columns = self.view.columns().len();
                let order = &mut self.orders[self.view as usize];
                order.column = next(order.column, columns);
            }
            KeyCode::Char('r') => {
                let order = &mut self.orders[self.view as usize];
                order.is_descending = !order.is_descending;
            }
            KeyCode::Char(digit @ '1'..='9') => {
                let at = digit as usize - '1' as usize;
                if let Some(view) = View::ALL.get(at) {
                    self.open(*view);
                }
            }
            KeyCode::Tab => self.open(View::ALL[following(self.view as usize, View::ALL.len())]),
            KeyCode::BackTab => {
                self.open(View::ALL[preceding(self.view as usize, View::ALL.len())]);
            }
            KeyCode::Enter => {
                let row = table.rows.get(selected).map(|row| table.id(row));
                self.detailed = row.filter(|_| self.detailed.is_none());
            }
            KeyCode::Esc if self.detailed.is_some() => self.detailed = None,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.select(table, selected.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(table, (selected + 1).min(last)),
            KeyCode::PageUp => self.select(table, selected.saturating_sub(PAGE)),
            KeyCode::PageDown => self.select(table, (selected + PAGE).min(last)),
            KeyCode::Home => self.select_top(),
            KeyCode::End => self.select(table, last),
            KeyCode::Left => self.first_column = self.first_column.saturating_sub(1).max(1),
            KeyCode::Right => {
                let columns = self.view.columns().len();
                self.first_column = (self.first_column + 1).min(columns.saturating_sub(1));
            }
            _ => {}
        }
        Effect::Draw
    }

    fn select(&mut self, table: &Table, at: usize) {
        self.selected = at;
        self.selected_row = table.rows.get(at).map(|row| table.id(row));
    }

    /// Selects what is at the top, whichever row that is.
    fn select_top(&mut self) {
        self.selected = 0;
        self.selected_row = None;
    }

    fn open(&mut self, view: View) {
        self.view = view;
        self.select_top();
        self.first_column = 1;
        self.detailed = None;
    }

    fn edit_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Enter => self.is_filter_edited = false,
            KeyCode::Esc => {
                self.is_filter_edited = false;
                self.filter.clear();
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(c) if self.filter.chars().count() < LONGEST_FILTER => {
                self.filter.push(c);
            }
            _ => {}
        }
        self.select_top();
    }
}

/// The index after `at` of so many; the first one after the last.
const fn following(at: usize, count: usize) -> usize {
    (at + 1) % count
}

/// The index before `at` of so many; the last one before the first.
const fn preceding(at: usize, count: usize) -> usize {
    (at + count - 1) % count
}

const PAGE: usize = 10;
const LONGEST_FILTER: usize = 60;

/// The keys, for the help.
pub(crate) const KEYS: [(&str, &str); 12] = [
    ("1-7, Tab", "the views"),
    ("up, down, PgUp, PgDn", "select a row"),
    ("left, right", "show other columns"),
    ("Enter", "all of the selected row, and back"),
    ("s, S", "sort by the next column, or the one before"),
    ("r", "reverse the order"),
    ("/", "show only rows with a text; Esc ends that"),
    ("p, space", "pause, and go on"),
    ("c", "crawl the tree: subtrees, locks, leaders, queues"),
    (".", "replay: one second on"),
    ("+, -", "replay: twice or half as fast"),
    ("q, Ctrl-C", "quit"),
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::table::{Cell, Column, Row};
    use super::*;

    const COLUMNS: &[Column] = &[Column::id("ROW", "row")];

    fn table(rows: &[&str]) -> Table {
        let rows = rows.iter().map(|row| Row::new(vec![Cell::text(*row)]));
        Table {
            columns: COLUMNS,
            rows: rows.collect(),
            notes: Vec::new(),
        }
    }

    fn press(screen: &mut Screen, code: KeyCode) -> Effect {
        let table = table(&["0", "1", "2"]);
        screen.press(KeyEvent::new(code, KeyModifiers::NONE), &table)
    }

    fn typed(screen: &mut Screen, text: &str) {
        for c in text.chars() {
            press(screen, KeyCode::Char(c));
        }
    }

    #[test]
    fn keys_do_what_the_help_says() {
        for (code, expected) in [
            (KeyCode::Char('q'), Effect::Quit),
            (KeyCode::Char('c'), Effect::Crawl),
            (KeyCode::Char('p'), Effect::Pause),
            (KeyCode::Char(' '), Effect::Pause),
            (KeyCode::Char('.'), Effect::Step),
            (KeyCode::Char('+'), Effect::Faster),
            (KeyCode::Char('-'), Effect::Slower),
            (KeyCode::F(5), Effect::Draw),
        ] {
            assert_eq!(
                press(&mut Screen::new(View::Servers), code),
                expected,
                "{code:?}"
            );
        }
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        let mut screen = Screen::new(View::Servers);
        screen.is_filter_edited = true;
        assert_eq!(screen.press(interrupt, &table(&[])), Effect::Quit);
    }

    #[test]
    fn digits_and_tab_open_the_views() {
        let mut screen = Screen::new(View::Servers);
        for (at, view) in View::ALL.into_iter().enumerate() {
            let digit = char::from_digit(u32::try_from(at).unwrap() + 1, 10).unwrap();
            press(&mut screen, KeyCode::Char(digit));
            assert_eq!(screen.view, view);
        }
        press(&mut screen, KeyCode::Char('9'));
        assert_eq!(screen.view, View::Recipes);
        press(&mut screen, KeyCode::Tab);
        assert_eq!(screen.view, View::Servers);
        press(&mut screen, KeyCode::BackTab);
        assert_eq!(screen.view, View::Recipes);
    }

    #[test]
    fn each_view_keeps_its_order() {
        let mut screen = Screen::new(View::Servers);
        typed(&mut screen, "sr");
        assert_eq!(
            (screen.order().column, screen.order().is_descending),
            (1, true)
        );
        typed(&mut screen, "2");
        assert_eq!(screen.order(), View::Sessions.order());
        typed(&mut screen, "1SS");
        assert_eq!(screen.order().column, View::Servers.columns().len() - 1);
    }

    #[test]
    fn a_typed_filter_is_not_taken_for_keys() {
        let mut screen = Screen::new(View::Servers);
        typed(&mut screen, "/quit");
        assert_eq!(
            (screen.filter.as_str(), screen.is_filter_edited),
            ("quit", true)
        );
        press(&mut screen, KeyCode::Backspace);
        press(&mut screen, KeyCode::Enter);
        assert_eq!(
            (screen.filter.as_str(), screen.is_filter_edited),
            ("qui", false)
        );
        press(&mut screen, KeyCode::Esc);
        assert_eq!(screen.filter, "");
        typed(&mut screen, "/x");
        press(&mut screen, KeyCode::Esc);
        assert_eq!(
            (screen.filter.as_str(), screen.is_filter_edited),
            ("", false)
        );
    }

    #[test]
    fn the_selection_stays_within_the_rows() {
        let mut screen = Screen::new(View::Servers);
        for (code, expected) in [
            (KeyCode::Up, 0),
            (KeyCode::Down, 1),
            (KeyCode::PageDown, 2),
            (KeyCode::Down, 2),
            (KeyCode::Home, 0),
            (KeyCode::End, 2),
            (KeyCode::PageUp, 0),
        ] {
            press(&mut screen, code);
            let selected = screen.selected(&table(&["0", "1", "2"]));
            assert_eq!(selected, expected, "{code:?}");
        }
        press(&mut screen, KeyCode::End);
        assert_eq!(screen.selected(&table(&["0", "1"])), 1);
        assert_eq!(screen.selected(&table(&[])), 0);
    }

    #[test]
    fn the_selection_follows_its_row_when_the_order_changes() {
        let mut screen = Screen::new(View::Servers);
        // At first it is whatever is at the top.
        assert_eq!(screen.selected(&table(&["2", "1", "0"])), 0);
        press(&mut screen, KeyCode::Down);
        assert_eq!(screen.selected(&table(&["1", "0", "2"])), 0);
        assert_eq!(screen.selected(&table(&["2", "0", "1"])), 2);
        // Without the row it stays where it was.
        assert_eq!(screen.selected(&table(&["2", "0", "3"])), 1);
        let enter = KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE);
        screen.press(enter, &table(&["2", "0", "1"]));
        assert_eq!(screen.detailed, Some(vec!["1".to_owned()]));
        press(&mut screen, KeyCode::Esc);
        press(&mut screen, KeyCode::Home);
        assert_eq!(screen.selected(&table(&["1", "0", "2"])), 0);
        assert_eq!(screen.selected(&table(&["2", "0", "1"])), 0);
    }

    #[test]
    fn enter_opens_a_row_and_escape_closes_it() {
        let mut screen = Screen::new(View::Servers);
        press(&mut screen, KeyCode::Down);
        press(&mut screen, KeyCode::Enter);
        assert_eq!(screen.detailed, Some(vec!["1".to_owned()]));
        press(&mut screen, KeyCode::Esc);
        assert_eq!(screen.detailed, None);
        press(&mut screen, KeyCode::Enter);
        press(&mut screen, KeyCode::Enter);
        assert_eq!(screen.detailed, None);
        screen.press(
            KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE),
            &table(&[]),
        );
        assert_eq!(screen.detailed, None);
    }

    proptest! {
        #[test]
        fn any_keys_leave_a_screen_that_can_be_drawn(
            keys in prop::collection::vec((any::<char>(), 0..12_usize, 0..5_usize), 0..60)
        ) {
            let others = [
                KeyCode::Up, KeyCode::Down, KeyCode::Left, KeyCode::Right, KeyCode::Tab, KeyCode::BackTab,
                KeyCode::Enter, KeyCode::Esc, KeyCode::Backspace, KeyCode::End, KeyCode::PageDown, KeyCode::Home,
            ];
            let mut screen = Screen::new(View::Servers);
            for (c, other, count) in keys {
                let table = table(&["0", "1", "2", "3", "4"][..count]);
                screen.press(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE), &table);
                screen.press(KeyEvent::new(others[other], KeyModifiers::NONE), &table);
                let columns = screen.view.columns().len();
                prop_assert!(screen.order().column < columns && screen.first_column < columns);
                let selected = screen.selected(&table);
                prop_assert!(selected == 0 || selected < count);
            }
        }
    }
}
