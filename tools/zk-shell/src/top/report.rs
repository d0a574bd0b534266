//! Prints reports in text or JSON, for scripts.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use super::clock::milliseconds;
use super::draw::time_of_day;
use super::model::{Event, Model};
use super::sample::Sample;
use super::table::{Table, printable};
use super::views::View;
use super::word::Word;
use super::{Live, Source, Top};
use crate::failure::Failure;
use crate::output::{print, print_json};

/// Prints reports until the reader is gone, or one if there is to be only one.
pub(crate) async fn run(
    options: &Top,
    has_json: bool,
    model: Model,
    source: Source,
) -> Result<(), Failure> {
    let mut reporter = Reporter {
        views: &options.show,
        has_json,
        model,
        reported: 0,
    };
    match source {
        Source::Live(live) => reporter.live(options, live).await,
        Source::Replay(mut player) => {
            while !player.is_over() {
                let model = &mut reporter.model;
                let play = |sample: &Sample| model.apply(sample);
                let played = if options.once {
                    player.finish(play).await
                } else {
                    player.advance(milliseconds(options.interval), play).await
                };
                reporter.model.tick(player.position());
                // What comes before an error is worth a report.
                reporter.report().await?;
                played?;
            }
            Ok(())
        }
    }
}

struct Reporter<'a> {
    views: &'a [View],
    has_json: bool,
    model: Model,
    /// The time up to which events were reported.
    reported: u64,
}

impl Reporter<'_> {
    async fn live(&mut self, options: &Top, mut live: Live) -> Result<(), Failure> {
        if options.show.contains(&View::Tree) {
            live.crawl();
        }
        let began = Instant::now();
        let mut next = began + options.interval;
        loop {
            match tokio::time::timeout_at(next, live.samples.recv()).await {
                Ok(Some(sample)) => {
                    live.take(&mut self.model, sample)?;
                }
                // No task is left that reads.
                Ok(None) => return self.report().await,
                Err(_) => {
                    self.model.tick(live.clock.now());
                    if options.once && !self.is_complete(options) && began.elapsed() < ONCE_TIMEOUT
                    {
                        next += ONCE_INTERVAL;
                        continue;
                    }
                    next += options.interval;
                    self.report().await?;
                    if options.once {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Whether all that the report shows was read once.
    fn is_complete(&self, options: &Top) -> bool {
        let of_views = self.views.iter().flat_map(|view| view.words());
        let cheap = Word::ALL.into_iter().filter(|word| word.is_cheap());
        let words: Vec<Word> = of_views.copied().chain(cheap).collect();
        let has_tree = options.show.contains(&View::Tree);
        self.model
            .is_complete(&words, &options.watch_path, has_tree)
    }

    async fn report(&mut self) -> Result<(), Failure> {
        let tables = self.views.iter().map(|view| {
            let table = view.table(&self.model).arranged("", view.order());
            (*view, table)
        });
        let tables: Vec<_> = tables.collect();
        let since = std::mem::replace(&mut self.reported, self.model.now);
        let events = self.model.events.iter();
        let events: Vec<&Event> = events.filter(|event| event.at > since).collect();
        if self.has_json {
            return print_json(&json(self.model.now, &tables, &events)).await;
        }
        print(plain(self.model.now, &tables, &events)).await
    }
}

/// A heading and a table for each view, and then what has happened.
fn plain(now: u64, tables: &[(View, Table)], events: &[&Event]) -> String {
    let mut text = format!("{} UTC\n\n", time_of_day(now));
    for (view, table) in tables {
        text.push_str(view.name());
        text.push('\n');
        text.push_str(&table.plain());
        text.push('\n');
    }
    for event in events {
        let line = format!("{} {}\n", time_of_day(event.at), printable(&event.text));
        text.push_str(&line);
    }
    if !events.is_empty() {
        text.push('\n');
    }
    text
}

/// One document on a line.
fn json(now: u64, tables: &[(View, Table)], events: &[&Event]) -> Value {
    let mut document = Map::new();
    document.insert("at".to_owned(), Value::from(now));
    let mut notes = Map::new();
    for (view, table) in tables {
        document.insert(view.name().to_owned(), table.json());
        if !table.notes.is_empty() {
            let texts = table.notes.iter().map(|note| note.text.as_str());
            notes.insert(view.name().to_owned(), texts.collect());
        }
    }
    let events = events.iter().map(|event| {
        let fields = [
            ("at".to_owned(), Value::from(event.at)),
            ("text".to_owned(), Value::from(event.text.clone())),
        ];
        Value::Object(fields.into_iter().collect())
    });
    document.insert("events".to_owned(), Value::Array(events.collect()));
    document.insert("notes".to_owned(), Value::Object(notes));
    Value::Object(document)
}

/// How often a single report is tried.
const ONCE_INTERVAL: Duration = Duration::from_millis(200);
/// How long a single report waits for what it shows.
const ONCE_TIMEOUT: Duration = Duration::from_secs(120);
