//! What the person at the terminal has chosen to see, and what each key does.
//!
//! Pure: no I/O and no clock.

use ratatui::crossterm::event::KeyCode;
use ratatui::crossterm::event::KeyEvent;
use ratatui::crossterm::event::KeyModifiers;

use super::table::Order;
use super::table::Table;
use super::views::View;

/// What is shown, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Screen {
    pub(crate) view: View,
    pub(crate) filter: String,
    pub(crate) is_filter_edited: bool,
    pub(crate) selected: usize,
    /// The second column that is shown, where not all have room.
    pub(crate) first_column: usize,
    /// The id of the row that is shown with all it has.
    pub(crate) detailed: Option<String>,
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

    /// Does what a key says, of a table whose rows have these ids.
    pub(crate) fn press(&mut self, key: KeyEvent, rows: &[String]) -> Effect {
        let last = rows.len().saturating_sub(1);
        self.selected = self.selected.min(last);
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
            KeyCode::Char('s') => {
                let columns = self.view.columns().len();
                let order = &mut self.orders[self.view as usize];
                order.column = (order.column + 1) % columns;
            }
            KeyCode::Char('S') => {
                let columns = self.view.columns().len();
                let order = &mut self.orders[self.view as usize];
                order.column = (order.column + columns - 1) % columns;
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
            KeyCode::Tab => self.open(View::ALL[(self.view as usize + 1) % View::ALL.len()]),
            KeyCode::BackTab => {
                let views = View::ALL.len();
                self.open(View::ALL[(self.view as usize + views - 1) % views]);
            }
            KeyCode::Enter => {
                let selected = rows.get(self.selected).cloned();
                self.detailed = selected.filter(|_| self.detailed.is_none());
            }
            KeyCode::Esc if self.detailed.is_some() => self.detailed = None,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.selected = (self.selected + 1).min(last),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(PAGE),
            KeyCode::PageDown => self.selected = (self.selected + PAGE).min(last),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Left => self.first_column = self.first_column.saturating_sub(1).max(1),
            KeyCode::Right => {
                let columns = self.view.columns().len();
                self.first_column = (self.first_column + 1).min(columns.saturating_sub(1));
            }
            _ => {}
        }
        Effect::Draw
    }

    fn open(&mut self, view: View) {
        self.view = view;
        self.selected = 0;
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
        self.selected = 0;
    }
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

    use super::*;

    fn rows(count: usize) -> Vec<String> {
        (0..count).map(|row| row.to_string()).collect()
    }

    fn press(screen: &mut Screen, code: KeyCode) -> Effect {
        screen.press(KeyEvent::new(code, KeyModifiers::NONE), &rows(3))
    }

    fn typed(screen: &mut Screen, text: &str) {
        for c in text.chars() {
            press(screen, KeyCode::Char(c));
        }
    }

    // covers: O6
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
        assert_eq!(screen.press(interrupt, &[]), Effect::Quit);
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
            assert_eq!(screen.selected, expected, "{code:?}");
        }
        screen.selected = 9;
        screen.press(KeyEvent::new(KeyCode::F(1), KeyModifiers::NONE), &[]);
        assert_eq!(screen.selected, 0);
    }

    #[test]
    fn enter_opens_a_row_and_escape_closes_it() {
        let mut screen = Screen::new(View::Servers);
        press(&mut screen, KeyCode::Down);
        press(&mut screen, KeyCode::Enter);
        assert_eq!(screen.detailed.as_deref(), Some("1"));
        press(&mut screen, KeyCode::Esc);
        assert_eq!(screen.detailed, None);
        press(&mut screen, KeyCode::Enter);
        press(&mut screen, KeyCode::Enter);
        assert_eq!(screen.detailed, None);
        screen.press(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE), &[]);
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
                screen.press(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE), &rows(count));
                screen.press(KeyEvent::new(others[other], KeyModifiers::NONE), &rows(count));
                let columns = screen.view.columns().len();
                prop_assert!(screen.order().column < columns && screen.first_column < columns);
                prop_assert!(screen.selected == 0 || screen.selected < count);
            }
        }
    }
}
