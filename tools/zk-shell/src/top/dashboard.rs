//! Runs the dashboard in the terminal: keys, samples and the clock in, frames out.

use std::fmt::Display;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::Backend;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::Source;
use super::clock::milliseconds;
use super::draw::{Status, draw};
use super::model::Model;
use super::sample::Sample;
use super::screen::{Effect, Screen};
use super::views::View;
use crate::failure::Failure;

/// Shows the dashboard until a key ends it. The terminal is restored then, and also if the caller drops the future, as it
/// does when a signal comes.
pub(crate) async fn run(view: View, model: Model, source: Source) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "the dashboard needs a terminal for its keys",
            "add --plain, or --json, for reports without one",
        ));
    }
    // It also restores the terminal when the program panics.
    let terminal = ratatui::try_init().map_err(|error| unstarted(&error))?;
    let _restored = RestoredTerminal;
    let keys = Keys::read();
    let dashboard = Dashboard {
        terminal,
        model,
        screen: Screen::new(view),
        source,
        frozen: None,
        has_colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
    };
    dashboard.run(keys).await
}

/// Restores the terminal when it is dropped.
struct RestoredTerminal;

impl Drop for RestoredTerminal {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

struct Dashboard<B: Backend> {
    terminal: Terminal<B>,
    model: Model,
    screen: Screen,
    source: Source,
    /// What is shown while live data is paused; meanwhile samples go on to `model`, which keeps a bounded past.
    frozen: Option<Model>,
    has_colours: bool,
}

impl<B: Backend> Dashboard<B>
where
    B::Error: Display,
{
    async fn run(mut self, mut keys: Keys) -> Result<(), Failure> {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.ask_for_view();
        loop {
            self.draw()?;
            tokio::select! {
                key = keys.events.recv() => match key {
                    Some(Input::Key(key)) => if self.press(key).await? {
                        return Ok(());
                    },
                    Some(Input::Resized) => {}
                    None => return Err(Failure::operation("the terminal is gone", None)),
                },
                sample = next(&mut self.source) => self.take(sample)?,
                _ = ticks.tick() => self.tick().await?,
            }
            // What has come meanwhile is drawn at once.
            while let Source::Live(live) = &mut self.source
                && let Ok(sample) = live.samples.try_recv()
            {
                self.take(sample)?;
            }
        }
    }

    /// Returns whether the key ends the dashboard.
    async fn press(&mut self, key: KeyEvent) -> Result<bool, Failure> {
        let shown = self.frozen.as_ref().unwrap_or(&self.model);
        let table = self.screen.arranged(self.screen.view.table(shown));
        match self.screen.press(key, &table) {
            Effect::Quit => return Ok(true),
            Effect::Draw => {}
            Effect::Crawl => {
                if let Source::Live(live) = &self.source {
                    live.crawl();
                }
            }
            Effect::Pause => {
                let is_frozen = self.screen.is_paused && matches!(self.source, Source::Live(_));
                self.frozen = is_frozen.then(|| self.model.clone());
            }
            Effect::Step => {
                if let Source::Replay(player) = &mut self.source {
                    let model = &mut self.model;
                    if_in_time(player.step(|sample| model.apply(sample))).await?;
                    model.tick(player.position());
                }
            }
            Effect::Faster => {
                if let Source::Replay(player) = &mut self.source {
                    player.faster();
                }
            }
            Effect::Slower => {
                if let Source::Replay(player) = &mut self.source {
                    player.slower();
                }
            }
        }
        self.ask_for_view();
        Ok(false)
    }

    /// Lets only what the open view shows be asked for.
    fn ask_for_view(&self) {
        if let Source::Live(live) = &self.source {
            let view = self.screen.view;
            live.views.send_if_modified(|views| {
                let is_new = views.len() != 1 || !views.contains(&view);
                *views = [view].into();
                is_new
            });
        }
    }

    fn take(&mut self, sample: Sample) -> Result<(), Failure> {
        match &self.source {
            Source::Live(live) => live.take(&mut self.model, sample),
            Source::Replay(_) => Ok(()),
        }
    }

    async fn tick(&mut self) -> Result<(), Failure> {
        match &mut self.source {
            Source::Live(live) => self.model.tick(live.clock.now()),
            Source::Replay(_) if self.screen.is_paused => {}
            Source::Replay(player) => {
                let model = &mut self.model;
                let tick = milliseconds(TICK);
                if_in_time(player.advance(tick, |sample| model.apply(sample))).await?;
                model.tick(player.position());
            }
        }
        Ok(())
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let mode = match &self.source {
            Source::Replay(player) => player.progress(),
            Source::Live(live) if live.recorder.is_some() => "recording".to_owned(),
            Source::Live(_) => "live".to_owned(),
        };
        let status = Status {
            mode: if self.screen.is_paused {
                format!("{mode}, paused")
            } else {
                mode
            },
            has_colours: self.has_colours,
        };
        let model = self.frozen.as_ref().unwrap_or(&self.model);
        let screen = &self.screen;
        let drawn = self
            .terminal
            .draw(|frame| draw(frame, model, screen, &status));
        drawn.map(drop).map_err(|error| {
            Failure::operation(format!("cannot write to the terminal: {error}"), None)
        })
    }
}

/// Plays a recording, but not for so long that keys have to wait.
async fn if_in_time(playing: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let played = tokio::time::timeout(TICK, playing).await;
    played.unwrap_or(Ok(()))
}

/// The next sample of an ensemble; a recording has its own clock.
async fn next(source: &mut Source) -> Sample {
    if let Source::Live(live) = source
        && let Some(sample) = live.samples.recv().await
    {
        return sample;
    }
    std::future::pending().await
}

/// What a person does at the terminal.
enum Input {
    Key(KeyEvent),
    Resized,
}

/// Keys from a thread that reads them, because reads of a terminal block.
struct Keys {
    events: mpsc::UnboundedReceiver<Input>,
    is_over: Arc<AtomicBool>,
}

impl Keys {
    fn read() -> Self {
        let (to_events, events) = mpsc::unbounded_channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                let input = match event::poll(POLL) {
                    Ok(false) => continue,
                    Ok(true) => event::read(),
                    Err(error) => Err(error),
                };
                let input = match input {
                    Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Input::Key(key),
                    Ok(Event::Resize(..)) => Input::Resized,
                    Ok(_) => continue,
                    // The channel is closed with it.
                    Err(_) => return,
                };
                if to_events.send(input).is_err() {
                    return;
                }
            }
        });
        Self { events, is_over }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn unstarted(error: &std::io::Error) -> Failure {
    Failure::operation(
        format!("cannot start the dashboard: {error}"),
        Some("add --plain, or --json, for reports without a terminal"),
    )
}

const TICK: Duration = Duration::from_millis(250);
const POLL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
