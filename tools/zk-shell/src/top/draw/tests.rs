use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::*;
use crate::top::recording::tests::samples_of;
use crate::top::sample::{Missing, Reading, Sample};

/// Three servers under load, whose leader is killed.
const RECORDING: &str = include_str!("../fixtures/killed-leader.jsonl");

fn recorded() -> Model {
    recorded_while(|_| true)
}

/// All watches are those of the server that is killed.
fn before_the_kill() -> Model {
    recorded_while(|sample| !matches!(sample.reading, Reading::Down(_)))
}

fn recorded_while(is_wanted: impl Fn(&Sample) -> bool) -> Model {
    let samples = samples_of(RECORDING);
    let mut model = Model::default();
    for sample in samples.iter().take_while(|sample| is_wanted(sample)) {
        model.apply(sample);
    }
    model
}

fn drawn(model: &Model, screen: &Screen, width: u16, height: u16) -> String {
    let status = Status {
        mode: "live".to_owned(),
        has_colours: false,
    };
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(frame) = terminal.draw(|frame| draw(frame, model, screen, &status));
    let area = frame.buffer.area;
    let rows = (0..area.height).map(|y| {
        let cells = (0..area.width).map(|x| frame.buffer[(x, y)].symbol());
        let row: String = cells.collect();
        row.trim_end().to_owned()
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[test]
fn each_view_fits_an_ordinary_terminal() {
    for view in View::ALL {
        let (model, up) = match view {
            View::Watches | View::Watchers => (before_the_kill(), 3),
            _ => (recorded(), 2),
        };
        let screen = Screen::new(view);
        let shown = drawn(&model, &screen, 80, 24);
        assert!(
            shown.starts_with(&format!(" zk top  {up} of 3 servers serving")),
            "{shown}"
        );
        insta::assert_snapshot!(format!("{}-80x24", view.name()), shown);
    }
}

#[test]
fn a_wide_terminal_shows_all_columns_of_the_servers() {
    let shown = drawn(&recorded(), &Screen::new(View::Servers), 160, 30);
    for column in View::Servers.columns() {
        assert!(shown.contains(column.title), "{}: {shown}", column.title);
    }
    insta::assert_snapshot!("servers-160x30", shown);
}

#[test]
fn a_row_is_shown_with_all_it_has_though_the_order_changes() {
    let model = recorded();
    let mut screen = Screen::new(View::Recipes);
    let table = screen.arranged(View::Recipes.table(&model));
    screen.press(KeyEvent::new(KeyCode::Enter, KeyModifiers::NONE), &table);
    let before = drawn(&model, &screen, 80, 24);
    insta::assert_snapshot!("recipe-detail-80x24", before);
    screen.press(
        KeyEvent::new(KeyCode::Char('r'), KeyModifiers::NONE),
        &table,
    );
    assert_eq!(drawn(&model, &screen, 80, 24), before);
}

#[test]
fn the_help_has_all_keys() {
    let mut screen = Screen::new(View::Servers);
    screen.has_help = true;
    insta::assert_snapshot!("help-80x24", drawn(&recorded(), &screen, 80, 24));
}

#[test]
fn every_size_is_drawn_without_a_panic() {
    let model = recorded();
    for view in View::ALL {
        for (width, height) in [(1, 1), (2, 2), (10, 3), (40, 5), (79, 23), (300, 90)] {
            let mut screen = Screen::new(view);
            let table = view.table(&model);
            for _ in 0..3 {
                drawn(&model, &screen, width, height);
                screen.first_column += 2;
                screen.press(KeyEvent::new(KeyCode::End, KeyModifiers::NONE), &table);
            }
            screen.detailed = Some(vec!["10.0.0.1:2181".to_owned()]);
            drawn(&model, &screen, width, height);
        }
    }
}

#[test]
fn escapes_in_names_and_reasons_are_not_drawn() {
    let mut model = Model::default();
    let hostile = "x\u{1b}[2J\u{7}\u{9b}1m";
    for reading in [
        Reading::Down(hostile.to_owned()),
        Reading::Missing(Missing {
            word: hostile.to_owned(),
            remedy: hostile.to_owned(),
        }),
        Reading::NoSession(hostile.to_owned()),
    ] {
        model.apply(&Sample {
            at: 1,
            server: hostile.to_owned(),
            asked: 0,
            reading,
        });
    }
    for view in View::ALL {
        let mut screen = Screen::new(view);
        for detailed in [None, Some(vec![hostile.to_owned()])] {
            screen.detailed = detailed;
            screen.filter = hostile.to_owned();
            let shown = drawn(&model, &screen, 100, 24);
            let is_bad = |c: char| c.is_control() && c != '\n';
            assert!(!shown.contains(is_bad), "{shown:?}");
            // They are escaped, not left out.
            assert!(!shown.contains("x[2J"), "{shown:?}");
            assert!(shown.contains("x\\u{1b}[2J"), "{shown:?}");
        }
    }
}

#[test]
fn colours_are_only_an_addition() {
    let model = recorded();
    let screen = Screen::new(View::Servers);
    let coloured = |has_colours| {
        let status = Status {
            mode: "live".to_owned(),
            has_colours,
        };
        let Ok(mut terminal) = Terminal::new(TestBackend::new(80, 24));
        let Ok(frame) = terminal.draw(|frame| draw(frame, &model, &screen, &status));
        let cells = frame.buffer.content().iter();
        cells.filter(|cell| cell.fg != Color::Reset).count()
    };
    assert_eq!(coloured(false), 0);
    assert!(coloured(true) > 0);
    let shown = drawn(&model, &screen, 80, 24);
    assert!(
        shown.contains("!10.0.0.3:2181") || shown.contains("! 10.0.0.3"),
        "{shown}"
    );
    assert!(shown.contains("*10.0.0.2:2181"), "{shown}");
}

#[test]
fn texts_are_cut_by_the_cells_they_take() {
    for (text, width, expected) in [
        ("abc", 3, "abc"),
        ("abcd", 3, "ab…"),
        ("日本語", 6, "日本語"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"),
        ("ab", 1, "…"),
    ] {
        assert_eq!(fitted(text, width), expected, "{text} {width}");
    }
}

#[test]
fn bars_are_as_high_as_their_rate() {
    let bars: String = (0..=7).map(|rate| bar(rate, 7)).collect();
    assert_eq!(bars, "▁▂▃▄▅▆▇█");
    assert_eq!((bar(0, 8), bar(8, 8), bar(1, 800)), ('▁', '█', '▂'));
    assert_eq!(bar(u64::MAX, 1), '█');
}
