//! `zk top`: a live dashboard of an ensemble, and the same as text or JSON, live or from a recording.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::io::IsTerminal;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use zk_core::ConnectString;
use zk_core::NodePath;

use crate::context::Context;
use crate::failure::Failure;
use crate::output::print;
use crate::span::parse_timeout;

mod admin_server;
mod budget;
mod clock;
mod collect;
mod crawl;
mod dashboard;
mod draw;
mod four_letter;
mod model;
mod nodes;
mod player;
mod recipe_names;
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
    Replay(Player),
}

/// The tasks that read an ensemble; they end when this is dropped.
struct Live {
    clock: Clock,
    samples: mpsc::Receiver<Sample>,
    /// What is open, which decides what is asked.
    views: watch::Sender<BTreeSet<View>>,
    crawls: mpsc::Sender<()>,
    recording: Option<BufWriter<File>>,
    _tasks: JoinSet<()>,
}

impl Top {
    /// Shows the ensemble, or a recording.
    pub(crate) async fn run(self, context: &Context) -> Result<(), Failure> {
        let has_json = context.output().is_json();
        if let Some(file) = &self.replay {
            let (model, player) = read_recording(file)?;
            return match self.svg {
                Some(size) => {
                    let image = image(self.first_view(), model, player, size);
                    print(image.as_bytes())
                }
                None => self.show(has_json, model, Source::Replay(player)).await,
            };
        }
        let connect = context.connect_string()?;
        let servers: ConnectString = connect
            .parse()
            .map_err(zk_core::ConnectError::ConnectString)?;
        let recording = self.record.as_deref().map(create_recording).transpose()?;
        let clock = Clock::start();
        let (to_samples, samples) = mpsc::channel(CHANNEL);
        let shown = self.show.iter().copied().collect();
        let (to_views, views) = watch::channel(shown);
        let (to_crawls, crawls) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        let mut addresses = Vec::new();
        for server in servers.servers() {
            addresses.push(collect::address(server.host(), server.port()));
            let collector = collect::Collector {
                host: server.host().to_owned(),
                port: server.port(),
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
            recording,
            _tasks: tasks,
        };
        let open = async || context.open(CONNECT_TIMEOUT).await;
        tokio::select! {
            shown = self.show(has_json, Model::new(&addresses), Source::Live(live)) => shown,
            () = nodes.run(open, crawls) => std::future::pending().await,
        }
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

/// Draws the dashboard at the end of a recording, in SVG.
fn image(view: View, mut model: Model, mut player: Player, (width, height): (u16, u16)) -> String {
    for sample in player.finish() {
        model.apply(sample);
    }
    let screen = screen::Screen::new(view);
    let status = draw::Status {
        mode: "live".to_owned(),
        has_colours: true,
    };
    let backend = ratatui::backend::TestBackend::new(width, height);
    // A screen in memory has no errors.
    let Ok(mut terminal) = ratatui::Terminal::new(backend);
    let Ok(drawn) = terminal.draw(|frame| draw::draw(frame, &model, &screen, &status));
    svg::image(drawn.buffer)
}

fn create_recording(file: &Path) -> Result<BufWriter<File>, Failure> {
    let created = File::create_new(file);
    created.map(BufWriter::new).map_err(|error| {
        Failure::operation(
            format!("cannot create the recording {}: {error}", file.display()),
            Some("name a file that does not exist yet"),
        )
    })
}

fn read_recording(file: &Path) -> Result<(Model, Player), Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::operation(
            format!("cannot read the recording {}: {error}", file.display()),
            Some("name a file that --record has written"),
        )
    })?;
    let samples = player::parse_recording(&text).map_err(|line| {
        Failure::operation(
            format!("line {line} of {} is not a sample", file.display()),
            Some("name a file that --record has written"),
        )
    })?;
    let named = samples.iter().map(|sample| &sample.server);
    let servers: BTreeSet<&String> = named.filter(|server| !server.is_empty()).collect();
    let servers: Vec<String> = servers.into_iter().cloned().collect();
    let player = Player::new(samples).ok_or_else(|| {
        Failure::operation(format!("the recording {} is empty", file.display()), None)
    })?;
    Ok((Model::new(&servers), player))
}

impl Live {
    /// Writes a sample to the recording.
    fn record(&mut self, sample: &Sample) -> Result<(), Failure> {
        let Some(recording) = &mut self.recording else {
            return Ok(());
        };
        let line = serde_json::to_string(sample).map_err(|error| unrecorded(&error))?;
        writeln!(recording, "{line}")
            .and_then(|()| recording.flush())
            .map_err(|error| unrecorded(&error))
    }

    /// Starts a crawl, unless one is waiting to start.
    fn crawl(&self) {
        // It is full while one waits.
        let _ = self.crawls.try_send(());
    }
}

fn unrecorded(error: &dyn std::error::Error) -> Failure {
    Failure::operation(format!("cannot write the recording: {error}"), None)
}

fn parse_size(text: &str) -> Result<(u16, u16), String> {
    let size = text.split_once('x').and_then(|(width, height)| {
        let (width, height) = (width.parse().ok()?, height.parse().ok()?);
        ((20..=400).contains(&width) && (5..=200).contains(&height)).then_some((width, height))
    });
    size.ok_or_else(|| "write the width and the height in cells, as in 80x24".to_owned())
}

/// How many samples may wait to be shown.
const CHANNEL: usize = 1_024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
