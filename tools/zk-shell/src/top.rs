//! `zk top`: a live dashboard of an ensemble, and the same as text or JSON, live or from a recording.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use zk_core::{ConnectString, NodePath};

use crate::context::Context;
use crate::duration::parse_timeout;
use crate::failure::Failure;
use crate::output::print;

mod admin_server;
mod budget;
mod clock;
mod collect;
mod contenders;
mod crawl;
mod dashboard;
mod draw;
mod four_letter;
mod model;
mod nodes;
mod player;
mod recording;
mod report;
mod sample;
mod screen;
mod svg;
mod table;
mod views;
mod word;

use clock::Clock;
use model::Model;
use player::Player;
use recording::{IsCut, Recorder};
use sample::Sample;
use views::View;

/// The options of `zk top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print text instead of the dashboard, one report for each interval; also if standard output is no terminal
    #[arg(long)]
    plain: bool,
    /// Print one report, as soon as all that it shows was read, and end
    #[arg(long)]
    once: bool,
    /// The time between two reports, and the least time before one of --once
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = parse_timeout)]
    interval: Duration,
    /// What a report has, and with what the dashboard begins
    #[arg(long, value_name = "VIEW", value_delimiter = ',', value_enum, default_values_t = [View::Servers, View::Recipes])]
    show: Vec<View>,
    /// Show the lock, leader or queue at this path; may be repeated
    #[arg(long, value_name = "PATH", value_parser = |path: &str| NodePath::parse(path).map(|path| path.to_string()))]
    watch_path: Vec<String>,
    /// Write what is read to a new file, for --replay
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,
    /// Show a recording instead of an ensemble
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Print the dashboard at the end of a recording as an image in SVG, so many cells wide and high
    #[arg(long, value_name = "WxH", requires = "replay", value_parser = parse_size)]
    svg: Option<(u16, u16)>,
    /// The port at which the servers offer the same words over HTTP, as `admin.serverPort`
    #[arg(long, value_name = "PORT", default_value_t = 8080)]
    admin_port: u16,
    /// How many nodes a crawl reads at most
    #[arg(long, value_name = "NODES", default_value_t = 20_000)]
    crawl_limit: u64,
}

/// Where samples come from.
enum Source {
    Live(Live),
    Replay(Box<Player>),
}

/// The tasks that read an ensemble; they end when this is dropped.
struct Live {
    clock: Clock,
    samples: mpsc::Receiver<Sample>,
    /// What is open, which decides what is asked.
    views: watch::Sender<BTreeSet<View>>,
    crawls: mpsc::Sender<()>,
    recorder: Option<Recorder>,
    _tasks: JoinSet<()>,
}

impl Top {
    /// Shows the ensemble, or a recording.
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let has_json = context.output().is_json();
        if let Some(file) = &self.replay {
            let (mut player, mut is_cut) = open_recording(file).await?;
            // The servers are those that it has readings of.
            let mut model = Model::default();
            match self.svg {
                Some(size) => {
                    player.finish(|sample| model.apply(sample)).await?;
                    print(image(self.first_view(), &model, size)).await?;
                }
                None => {
                    self.show(has_json, model, Source::Replay(Box::new(player)))
                        .await?;
                }
            }
            if is_cut.try_recv().is_ok() {
                let file = file.display();
                let note = format!("{file} ends in the middle of a line, which is left out");
                context.output().note(&note).await;
            }
            return Ok(());
        }
        let connect = context.connect_string()?;
        let servers: ConnectString = connect
            .parse()
            .map_err(zk_core::ConnectError::ConnectString)?;
        let (recorder, recorded) = match &self.record {
            Some(file) => {
                let (recorder, recorded) = Recorder::create(file).await?;
                (Some(recorder), Some(recorded))
            }
            None => (None, None),
        };
        // A signal leaves the time to write what was read.
        let mut interruption = context.interrupter().interruption();
        let clock = Clock::start();
        let (to_samples, samples) = mpsc::channel(SAMPLES_WAITING);
        let shown = self.show.iter().copied().collect();
        let (to_views, views) = watch::channel(shown);
        let (to_crawls, crawls) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        let mut addresses = Vec::new();
        for server in &servers.hosts {
            addresses.push(collect::address(&server.name, server.port));
            let collector = collect::Collector {
                host: server.name.clone(),
                port: server.port,
                admin_port: self.admin_port,
                clock,
                views: views.clone(),
                samples: to_samples.clone(),
            };
            tasks.spawn(collector.run());
        }
        let paths = self.watch_path.clone();
        let nodes = nodes::NodeReader::new(clock, to_samples, self.crawl_limit, paths);
        let live = Live {
            clock,
            samples,
            views: to_views,
            crawls: to_crawls,
            recorder,
            _tasks: tasks,
        };
        let open = async || context.open(CONNECT_TIMEOUT).await;
        let showing = self.show(has_json, Model::new(&addresses), Source::Live(live));
        // The reader of the nodes ends with the view, and closes its session.
        let (shown, ()) = tokio::join!(
            interruption.end(Box::pin(showing)),
            Box::pin(nodes.run(open, crawls)),
        );
        if let Some(recorded) = recorded {
            // If it has failed, that is why the rest has ended.
            recording::finish(recorded).await?;
        }
        shown
    }

    async fn show(&self, has_json: bool, model: Model, source: Source) -> Result<(), Failure> {
        let has_reports = self.plain || self.once || has_json || !std::io::stdout().is_terminal();
        if has_reports {
            report::run(self, has_json, model, source).await
        } else {
            dashboard::run(self.first_view(), model, source).await
        }
    }

    fn first_view(&self) -> View {
        self.show.first().copied().unwrap_or(View::Servers)
    }
}

/// Draws the dashboard in SVG.
fn image(view: View, model: &Model, (width, height): (u16, u16)) -> String {
    let screen = screen::Screen::new(view);
    let status = draw::Status {
        mode: "live".to_owned(),
        has_colours: true,
    };
    let backend = ratatui::backend::TestBackend::new(width, height);
    // A screen in memory has no errors.
    let Ok(mut terminal) = ratatui::Terminal::new(backend);
    let Ok(drawn) = terminal.draw(|frame| draw::draw(frame, model, &screen, &status));
    svg::image(drawn.buffer)
}

async fn open_recording(file: &Path) -> Result<(Player, IsCut), Failure> {
    let (samples, is_cut) = recording::open(file).await?;
    let player = Player::new(samples).await?.ok_or_else(|| {
        Failure::operation(format!("the recording {} is empty", file.display()), None)
    })?;
    Ok((player, is_cut))
}

impl Live {
    /// Takes the next sample over into the model, and into the recording.
    fn take(&self, model: &mut Model, sample: Sample) -> Result<(), Failure> {
        model.apply(&sample);
        let recorder = self.recorder.as_ref();
        recorder.map_or(Ok(()), |recorder| recorder.write(sample))
    }

    /// Starts a crawl, unless one is waiting to start.
    fn crawl(&self) {
        // It is full while one waits.
        let _ = self.crawls.try_send(());
    }
}

fn parse_size(text: &str) -> Result<(u16, u16), String> {
    let size = text.split_once('x').and_then(|(width, height)| {
        let (width, height) = (width.parse().ok()?, height.parse().ok()?);
        ((20..=400).contains(&width) && (5..=200).contains(&height)).then_some((width, height))
    });
    size.ok_or_else(|| "write the width and the height in cells, as in 80x24".to_owned())
}

/// How many samples may wait to be shown.
const SAMPLES_WAITING: usize = 1_024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
