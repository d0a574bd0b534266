//! What each command does.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write as _};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, bail};
use indicatif::{ProgressBar, ProgressStyle};
use zk_harness::dist::{Progress, Search};
use zk_harness::{DataStore, Ensemble, Error, Keep, ProcessState, Role, Server, Spec};

use crate::args::{Args, Command, Data, EnvFormat, Selection, Selector, UpArgs};
use crate::render;
use crate::store::Store;

pub(crate) async fn run(args: Args) -> anyhow::Result<ExitCode> {
    let store = Store::new(args.dir)?;
    let name = args.name;
    match args.command {
        Command::Up(options) => up(&store, &name, &options).await,
        Command::Down { keep, remove, all } => {
            if all {
                down_all(&store, keep, remove).await
            } else {
                down(&store, &name, keep, remove).await
            }
        }
        Command::List => list(&store).await,
        Command::Status { json } => status(&store, &name, json).await,
        Command::Kill(which) => act(&store, &name, which, Action::Kill).await,
        Command::Stop(which) => act(&store, &name, which, Action::Stop).await,
        Command::Start(which) => act(&store, &name, which, Action::Start).await,
        Command::Restart(which) => act(&store, &name, which, Action::Restart).await,
        Command::Pause(which) => act(&store, &name, which, Action::Pause).await,
        Command::Resume(which) => act(&store, &name, which, Action::Resume).await,
        Command::Logs {
            server,
            follow,
            lines,
        } => logs(&store, &name, server, follow, lines).await,
        Command::Env { format } => env(&store, &name, format),
    }
}

async fn up(store: &Store, name: &str, options: &UpArgs) -> anyhow::Result<ExitCode> {
    let spec = spec(options)?;
    for warning in spec.validate()? {
        note(&format!("note: {warning}"));
    }
    let search = Search::from_env()?;
    let lock = store.lock(name, true)?;
    let directory = store.directory(name);
    if Ensemble::exists(&directory) {
        return up_again(store, name, options).await;
    }
    if fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!(
            "{} has files in it but no ensemble, as after a start that a power failure cut off; if nothing in it is of value, remove it, or choose another --name",
            directory.display()
        );
    }
    let progress = Display::new();
    progress.say(&match spec.server_specs().len() {
        1 => "starting 1 server".to_owned(),
        servers => format!("starting {servers} servers"),
    });
    let shown = Arc::clone(&progress);
    let search = search.progress(Arc::new(move |progress: &Progress| {
        shown.progress(progress);
    }));
    let keep = if options.keep {
        Keep::Always
    } else {
        Keep::Never
    };
    let started = Ensemble::builder()
        .spec(spec)
        .directory(&directory)
        .search(search)
        .keep(keep)
        .hold(lock.try_clone()?)
        .start()
        .await;
    progress.clear();
    let ensemble = match started {
        Ok(ensemble) => ensemble,
        Err(error) => {
            // What could not even be begun leaves the directory that the lock was on.
            store.discard(name, lock);
            return Err(error.into());
        }
    };
    if options.keep {
        keep_files(store, name)?;
    }
    let status = ensemble.status().await;
    let text = format!(
        "{}\n{}connect: {}\nserves after {}\n",
        render::summary(name, &ensemble, &status),
        render::servers(&status),
        ensemble.connect_string(),
        render::report(ensemble.start_report()),
    );
    ensemble.detach()?;
    print(&text)
}

/// Has a later `down` keep the files.
fn keep_files(store: &Store, name: &str) -> anyhow::Result<()> {
    let file = store.directory(name).join(KEEP_FILE);
    fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))
}

/// `up` of an ensemble that is there: says so, or starts its servers if none runs.
async fn up_again(store: &Store, name: &str, options: &UpArgs) -> anyhow::Result<ExitCode> {
    let ensemble = store.open(name)?;
    refuse_other_settings(name, &ensemble, options)?;
    if options.keep {
        keep_files(store, name)?;
    }
    let running = ensemble
        .servers()
        .iter()
        .filter(|server| server.process_state() != ProcessState::Stopped)
        .count();
    let what = if running > 0 {
        if 2 * running > ensemble.servers().len() {
            // Perhaps its leader has just gone. The status tells whether there is a new one.
            drop(ensemble.wait_leader(ELECTION_WITHIN).await);
        }
        "is already up"
    } else {
        let data = ensemble.has_data();
        let started = match ensemble.start_stopped() {
            Ok(()) => ensemble.wait_serving().await,
            failed => failed,
        };
        if let Err(error) = started {
            // It was down before, and is again.
            ensemble.kill_all().await?;
            return Err(error.into());
        }
        if data {
            "was down and is up again, with its data"
        } else {
            "was down and is up again; its data, which was in memory, is lost"
        }
    };
    let status = ensemble.status().await;
    print(&format!(
        "ensemble {name} {what}\n{}\n{}connect: {}\n",
        render::summary(name, &ensemble, &status),
        render::servers(&status),
        ensemble.connect_string()
    ))?;
    if status.health.serves() {
        return Ok(ExitCode::SUCCESS);
    }
    bail!(
        "no quorum serves; `start all` starts the servers that are stopped, `resume all` those that are paused"
    )
}

fn refuse_other_settings(name: &str, ensemble: &Ensemble, options: &UpArgs) -> anyhow::Result<()> {
    let spec = ensemble.spec();
    let mut other = Vec::new();
    if options
        .servers
        .is_some_and(|servers| servers != ensemble.servers().len())
    {
        other.push(match ensemble.servers().len() {
            1 => "it has 1 server".to_owned(),
            servers => format!("it has {servers} servers"),
        });
    }
    if options.data.is_some_and(|data| store_of(data) != spec.data) {
        other.push(format!(
            "its data is {}",
            if spec.data == DataStore::Memory {
                "in memory"
            } else {
                "on disk"
            }
        ));
    }
    if let Some(wanted) = &options.zookeeper {
        let version = ensemble.version();
        if spec.zookeeper.as_ref() != Some(wanted)
            && version != wanted
            && !version.starts_with(&format!("{wanted}."))
        {
            other.push(format!("it runs ZooKeeper {version}"));
        }
    }
    if let Some(file) = &options.config {
        let wanted = self::spec(options)?;
        let mut there = spec.clone();
        there.directory = None;
        if there != wanted && other.is_empty() {
            other.push(format!("those of {} differ", file.display()));
        }
    }
    if !other.is_empty() {
        bail!(
            "the ensemble {name} is there already, with other settings: {}; take it down first, or choose another --name",
            other.join(", ")
        );
    }
    Ok(())
}

fn spec(options: &UpArgs) -> anyhow::Result<Spec> {
    let mut spec = match &options.config {
        None => Spec::default(),
        Some(file) => {
            let text = fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            Spec::from_toml(&text).with_context(|| format!("{} is not right", file.display()))?
        }
    };
    if spec.directory.is_some() {
        bail!("directory: a named ensemble lies in --dir; leave the setting out of the file");
    }
    if let Some(servers) = options.servers {
        spec.servers = servers;
        spec.server.clear();
    }
    if let Some(zookeeper) = &options.zookeeper {
        spec.zookeeper = Some(zookeeper.clone());
    }
    if let Some(data) = options.data {
        spec.data = store_of(data);
    }
    Ok(spec)
}

const fn store_of(data: Data) -> DataStore {
    match data {
        Data::Memory => DataStore::Memory,
        Data::Disk => DataStore::Disk,
    }
}

/// One that cannot be taken down does not keep the others up.
async fn down_all(store: &Store, keep: bool, remove: bool) -> anyhow::Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for name in store.names()? {
        if let Err(error) = down(store, &name, keep, remove).await
            // Else somebody else took it down meanwhile.
            && Ensemble::exists(&store.directory(&name))
        {
            code = crate::report(&error);
        }
    }
    Ok(code)
}

async fn down(store: &Store, name: &str, keep: bool, remove: bool) -> anyhow::Result<ExitCode> {
    store.open(name)?;
    let lock = store.lock(name, false)?;
    let ensemble = store.open(name)?;
    let directory = store.directory(name);
    let keep = keep || (!remove && directory.join(KEEP_FILE).exists());
    if keep {
        ensemble.kill_all().await?;
        return print(&format!(
            "ensemble {name} is down; its files are kept in {}\n",
            directory.display()
        ));
    }
    // If this command is killed now, the next one waits until its guard process is done.
    ensemble.hold(lock).down().await?;
    store.tidy();
    print(&format!("ensemble {name} is down; its files are removed\n"))
}

async fn list(store: &Store) -> anyhow::Result<ExitCode> {
    let mut rows = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for name in store.names()? {
        match store.open(&name) {
            Ok(ensemble) => {
                let status = ensemble.status().await;
                rows.push((name, ensemble, status));
            }
            Err(error) if Ensemble::exists(&store.directory(&name)) => {
                code = crate::report(&error);
            }
            // It was taken down between the two looks.
            Err(_) => {}
        }
    }
    if !rows.is_empty() {
        print(&render::ensembles(&rows))?;
    } else if code == ExitCode::SUCCESS {
        print("no ensembles\n")?;
    }
    Ok(code)
}

async fn status(store: &Store, name: &str, json: bool) -> anyhow::Result<ExitCode> {
    let ensemble = store.open(name)?;
    let status = ensemble.status().await;
    if json {
        print(&render::json(name, &ensemble, &status)?)?;
    } else {
        let mut text = format!(
            "{}\n{}connect: {}\n",
            render::summary(name, &ensemble, &status),
            render::servers(&status),
            ensemble.connect_string()
        );
        for server in &status.servers {
            if let (Some(problem), ProcessState::Running) = (&server.problem, server.process) {
                writeln!(text, "server {}: {problem}", server.id)?;
            }
        }
        print(&text)?;
    }
    Ok(if status.health.serves() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[derive(Debug, Clone, Copy)]
enum Action {
    Kill,
    Stop,
    Start,
    Restart,
    Pause,
    Resume,
}

async fn act(
    store: &Store,
    name: &str,
    which: Selection,
    action: Action,
) -> anyhow::Result<ExitCode> {
    store.open(name)?;
    let _lock = store.lock(name, false)?;
    let ensemble = store.open(name)?;
    let mut changed = 0;
    for server in select(&ensemble, which.server).await? {
        let done = match action {
            Action::Kill => server.kill().await.map(|()| "killed"),
            Action::Stop => server.stop().await.map(|()| "stopped"),
            Action::Start => server.start().map(|()| "started"),
            Action::Restart => server.restart().await.map(|()| "restarted"),
            Action::Pause => server.pause().await.map(|()| "paused"),
            Action::Resume => server.resume().await.map(|()| "resumed"),
        };
        let done = match done {
            Ok(done) => done,
            // `all` means all that it can be done to.
            Err(error @ Error::WrongState { .. }) if which.server == Selector::All => {
                note(&format!("note: {error}"));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        changed += 1;
        if matches!(action, Action::Start | Action::Restart) {
            wait_answer(&ensemble, server).await?;
        }
        print(&format!("server {} {done}\n", server.id()))?;
    }
    Ok(if changed > 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Waits until a started server serves; without a quorum it cannot, and then its process is enough.
async fn wait_answer(ensemble: &Ensemble, server: &Server) -> anyhow::Result<()> {
    let within = ensemble.spec().start_timeout;
    let deadline = tokio::time::Instant::now() + within;
    loop {
        let status = ensemble.status().await;
        let running = status
            .servers
            .iter()
            .filter(|server| server.process == ProcessState::Running)
            .count();
        let own = status.servers.iter().find(|own| own.id == server.id());
        match own {
            Some(own) if own.role.is_some() => return Ok(()),
            Some(own) if own.process == ProcessState::Stopped && server.has_exited() => {
                bail!(
                    "server {} exited at once; the end of its log:\n{}",
                    server.id(),
                    server.log_tail(15)
                );
            }
            _ => {}
        }
        if 2 * running <= status.servers.len() && server.pid().is_some() {
            note(&format!(
                "note: {running} of {} servers run, which is no quorum",
                status.servers.len()
            ));
            return Ok(());
        }
        if tokio::time::Instant::now() > deadline {
            bail!(
                "server {} did not serve within {within:?}; the end of its log:\n{}",
                server.id(),
                server.log_tail(15)
            );
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the pause between two looks at the server"
        )]
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn select(ensemble: &Ensemble, which: Selector) -> anyhow::Result<Vec<&Server>> {
    Ok(match which {
        Selector::Id(id) => vec![ensemble.server(id)?],
        Selector::Leader => vec![ensemble.wait_leader(ELECTION_WITHIN).await?],
        Selector::Follower => {
            let status = ensemble.status().await;
            let follower = status
                .servers
                .iter()
                .position(|server| server.role == Some(Role::Follower));
            vec![
                &ensemble.servers()
                    [follower.with_context(|| format!("no server follows: {}", status.seen()))?],
            ]
        }
        Selector::All => ensemble.servers().iter().collect(),
    })
}

async fn logs(
    store: &Store,
    name: &str,
    which: Option<Selector>,
    follow: bool,
    lines: usize,
) -> anyhow::Result<ExitCode> {
    let ensemble = store.open(name)?;
    let servers = select(&ensemble, which.unwrap_or(Selector::All)).await?;
    let prefixed = servers.len() > 1;
    let mut offsets = BTreeMap::new();
    let mut first = true;
    loop {
        for server in &servers {
            let offset = offsets.entry(server.id()).or_insert(0);
            let mut text = read_from(server, offset, follow)?;
            if first && lines > 0 {
                let all: Vec<_> = text.lines().collect();
                text = all[all.len().saturating_sub(lines)..].join("\n");
            }
            let prefix = if prefixed {
                format!("[{}] ", server.id())
            } else {
                String::new()
            };
            let mut out = io::stdout().lock();
            for line in text.lines() {
                writeln!(out, "{prefix}{line}")?;
            }
            out.flush()?;
        }
        first = false;
        if !follow {
            return Ok(ExitCode::SUCCESS);
        }
        if !Ensemble::exists(ensemble.directory()) {
            note(&format!("the ensemble {name} is down"));
            return Ok(ExitCode::SUCCESS);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the pause between two looks at the logs"
        )]
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// What was added to the log since `offset`; whole lines only if more may come.
fn read_from(server: &Server, offset: &mut u64, more_may_come: bool) -> anyhow::Result<String> {
    let path = server.log_file();
    let mut file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    file.seek(SeekFrom::Start(*offset))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    if more_may_come {
        bytes.truncate(
            bytes
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |end| end + 1),
        );
    }
    *offset += bytes.len() as u64;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn env(store: &Store, name: &str, format: EnvFormat) -> anyhow::Result<ExitCode> {
    let connect = store.open(name)?.connect_string();
    print(&match format {
        EnvFormat::Export => format!("export ZK_CONNECT={connect}\n"),
        EnvFormat::Value => format!("{connect}\n"),
        EnvFormat::Json => format!("{}\n", serde_json::json!({ "ZK_CONNECT": connect })),
    })
}

/// Prints to standard output. That nobody reads it any more is no reason to leave a command half done.
fn print(text: &str) -> anyhow::Result<ExitCode> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints to standard error, which may be closed or full.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}

/// Shows what `up` is doing: a moving bar on a terminal, a line per step elsewhere.
struct Display {
    bar: Option<ProgressBar>,
    last: Mutex<String>,
}

impl Display {
    fn new() -> Arc<Self> {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Arc::new(Self {
            bar,
            last: Mutex::new(String::new()),
        })
    }

    fn say(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != what {
            // Progress is a courtesy: a closed standard error is no reason to fail.
            note(what);
            what.clone_into(&mut last);
        }
    }

    fn progress(&self, progress: &Progress) {
        self.say(&progress.what);
        let Some(bar) = &self.bar else { return };
        match progress.total {
            Some(total) => {
                bar.set_style(style(
                    "{spinner} {msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}",
                ));
                bar.set_length(total);
                bar.set_position(progress.done);
            }
            None if progress.done > 0 => {
                bar.set_style(style("{spinner} {msg} {bytes}"));
                bar.set_position(progress.done);
            }
            None => bar.set_style(style("{spinner} {msg}")),
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

/// How long `leader` waits for an election that is going on.
const ELECTION_WITHIN: Duration = Duration::from_secs(5);

const KEEP_FILE: &str = "keep";
