//! `up` starts an ensemble and leaves it running.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use zk_harness::{DataStore, Ensemble, EnsembleBuilder, Keep, ProcessState, Spec, Warning};
use zk_provision::Search;

use super::{ELECTION_WITHIN, KEEP_FILE, network};
use crate::args::{Backend, UpArgs};
use crate::output::{note, print};
use crate::progress::ProgressDisplay;
use crate::store::Store;
use crate::{credentials, tables};

pub(crate) async fn up(store: &Store, name: &str, options: &UpArgs) -> anyhow::Result<ExitCode> {
    let mut spec = spec(options)?;
    let superuser = options
        .auth
        .then(|| credentials::add(&mut spec))
        .transpose()?;
    for warning in spec.validate()? {
        note(&format!("note: {warning}"));
    }
    let search = Search::from_env()?;
    let builder = builder_for(options.backend)?;
    let lock = store.lock(name, true)?;
    let directory = store.directory(name);
    if Ensemble::exists(&directory) {
        return up_existing(store, name, options).await;
    }
    if fs::read_dir(&directory).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!(
            "{} contains files but no ensemble, possibly of an interrupted start; if they are of no value, remove them, or choose another --name",
            directory.display()
        );
    }
    let progress = ProgressDisplay::new();
    let servers = spec.server_specs().len();
    let place = match options.backend {
        Some(Backend::Containers) => " in containers",
        _ => "",
    };
    progress.show(&match servers {
        1 => format!("starting 1 server{place}"),
        servers => format!("starting {servers} servers{place}"),
    });
    let keep = if options.keep {
        Keep::Always
    } else {
        Keep::Never
    };
    let started = builder
        .spec(spec)
        .directory(&directory)
        .search(progress.follow(search))
        .keep(keep)
        .hold(lock.try_clone()?)
        .proxied(options.proxied)
        .quorum_links(options.proxied && servers > 1)
        .start()
        .await;
    progress.clear();
    let ensemble = match started {
        Ok(ensemble) => ensemble,
        Err(error) => {
            // A start that failed early leaves the locked directory.
            store.discard(name, lock);
            return Err(error.into());
        }
    };
    if options.keep {
        keep_files(store, name)?;
    }
    if let Some(password) = superuser {
        credentials::write(&directory, ensemble.spec(), &password)?;
    }
    if options.tls_only && is_before_3_7(ensemble.version()) {
        let version = ensemble.version().to_owned();
        ensemble.down().await?;
        store.discard(name, lock);
        bail!(
            "--tls-only: ZooKeeper {version} cannot refuse clients without TLS; use 3.7 or later"
        );
    }
    for warning in ensemble.warnings() {
        if let Warning::PortsReservedElsewhere { .. } = warning {
            note(&format!("warning: {warning}"));
        }
    }
    let report = *ensemble.start_report();
    if let Some(warning) = report.warning {
        note(&format!("warning: {warning}"));
    }
    ensemble.detach()?;
    // The proxies of this process have ended; another process starts them again.
    let proxies_restarted = async {
        network::ensure(store, name, false).await?;
        let ensemble = store.open(name)?;
        if ensemble.has_proxies() {
            ensemble.wait_serving().await?;
        }
        anyhow::Ok(ensemble)
    };
    let ensemble = match proxies_restarted.await {
        Ok(ensemble) => ensemble,
        Err(error) => {
            let ensemble = store.open(name)?;
            if options.keep {
                ensemble.kill_all().await?;
            } else {
                ensemble.hold(lock).down().await?;
            }
            return Err(error);
        }
    };
    let status = ensemble.status().await;
    print(&format!(
        "{}serves after {}\n",
        tables::overview(name, &ensemble, &status)?,
        tables::report(&report),
    ))
}

/// Returns a builder for the backend.
fn builder_for(backend: Option<Backend>) -> anyhow::Result<EnsembleBuilder> {
    match backend {
        None | Some(Backend::Processes) => Ok(Ensemble::builder()),
        Some(Backend::Containers) => in_containers(Ensemble::builder()),
    }
}

#[cfg(feature = "containers")]
#[expect(
    clippy::unnecessary_wraps,
    reason = "without the feature it is an error"
)]
fn in_containers(builder: EnsembleBuilder) -> anyhow::Result<EnsembleBuilder> {
    use zk_harness::container::ContainerImage;

    let is_named = std::env::var_os("ZK_HARNESS_IMAGE").is_some_and(|name| !name.is_empty());
    Ok(builder.containers(if is_named {
        ContainerImage::Default
    } else {
        // It needs no registry, and has the requested version.
        ContainerImage::Debian
    }))
}

#[cfg(not(feature = "containers"))]
fn in_containers(_: EnsembleBuilder) -> anyhow::Result<EnsembleBuilder> {
    bail!(
        "--backend containers: this program was built without containers; rebuild it with `--features cli,containers`"
    )
}

/// Makes a later `down` keep the files.
fn keep_files(store: &Store, name: &str) -> anyhow::Result<()> {
    let file = store.directory(name).join(KEEP_FILE);
    fs::write(&file, "").with_context(|| format!("cannot write {}", file.display()))
}

/// Handles `up` of an existing ensemble: starts its servers if none runs.
async fn up_existing(store: &Store, name: &str, options: &UpArgs) -> anyhow::Result<ExitCode> {
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
    let is_relinked = network::ensure(store, name, running == 0).await?;
    let what = if running > 0 {
        if 2 * running > ensemble.servers().len() {
            // Its leader may just have stopped. The status shows whether there is a new one.
            drop(ensemble.wait_leader(ELECTION_WITHIN).await);
        }
        if is_relinked {
            // The servers had lost their links. The status shows whether there is a quorum again.
            drop(tokio::time::timeout(ELECTION_WITHIN, ensemble.wait_quorum()).await);
        }
        "is already up"
    } else {
        let data = ensemble.has_data();
        let started = match ensemble.start_stopped() {
            Ok(()) => ensemble.wait_serving().await,
            failed => failed,
        };
        if let Err(error) = started {
            // It was down before, so it is taken down again.
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
        "ensemble {name} {what}\n{}",
        tables::overview(name, &ensemble, &status)?
    ))?;
    if status.health.serves() {
        return Ok(ExitCode::SUCCESS);
    }
    bail!("no quorum serves; `start all` starts stopped servers, `resume all` resumes paused ones")
}

fn refuse_other_settings(name: &str, ensemble: &Ensemble, options: &UpArgs) -> anyhow::Result<()> {
    let spec = ensemble.spec();
    let mut other = Vec::new();
    let mut check = |differs: bool, there: &str| {
        if differs {
            other.push(there.to_owned());
        }
    };
    let servers = ensemble.servers().len();
    check(
        options.servers.is_some_and(|wanted| wanted != servers),
        &match servers {
            1 => "it has 1 server".to_owned(),
            servers => format!("it has {servers} servers"),
        },
    );
    check(
        options.data.is_some_and(|wanted| wanted != spec.data),
        match spec.data {
            DataStore::Memory => "its data is in memory",
            _ => "its data is on disk",
        },
    );
    let max_buffer = options.max_buffer;
    check(
        max_buffer.is_some() && max_buffer != spec.max_buffer,
        &match spec.max_buffer {
            Some(bytes) => format!("its servers accept requests of {bytes} bytes"),
            None => "its servers accept requests of the default length".to_owned(),
        },
    );
    let in_containers = ensemble.is_in_containers();
    check(
        options
            .backend
            .is_some_and(|wanted| (wanted == Backend::Containers) != in_containers),
        if in_containers {
            "its servers run in containers"
        } else {
            "its servers are processes"
        },
    );
    let version = ensemble.version();
    check(
        options.zookeeper.as_ref().is_some_and(|wanted| {
            spec.zookeeper.as_ref() != Some(wanted)
                && version != wanted
                && !version.starts_with(&format!("{wanted}."))
        }),
        &format!("it runs ZooKeeper {version}"),
    );
    if let Some(profile) = options.profile {
        let wanted = profile.spec();
        check(
            (wanted.tick_time, wanted.sync_limit) != (spec.tick_time, spec.sync_limit),
            &format!("its ticks are not those of the profile {profile}"),
        );
    }
    check(
        options.proxied && !ensemble.has_proxies(),
        "it has no fault proxies",
    );
    check(
        options.movable_clock && !spec.movable_clock,
        "its clocks cannot be moved",
    );
    check(
        (options.tls || options.tls_only) && !spec.tls,
        "its connections are not encrypted",
    );
    check(
        options.tls_only && spec.properties.get(TLS_ONLY[0].0).map(String::as_str) != Some("true"),
        "it serves clients without TLS, too",
    );
    check(
        options.auth && !spec.sasl_digest.as_ref().is_some_and(|sasl| sasl.required),
        "its clients do not authenticate",
    );
    if let Some(file) = &options.config {
        let mut wanted = self::spec(options)?;
        let mut there = spec.clone();
        there.directory = None;
        if options.auth {
            // `up` has added them.
            there.superuser.clone_from(&wanted.superuser);
            match wanted.sasl_digest.take() {
                Some(users) => wanted.sasl_digest = Some(users.required()),
                None => there.sasl_digest = None,
            }
        }
        if there != wanted && other.is_empty() {
            other.push(format!("those of {} differ", file.display()));
        }
    }
    if !other.is_empty() {
        bail!(
            "the ensemble {name} already exists with other settings: {}; take it down first, or choose another --name",
            other.join(", ")
        );
    }
    Ok(())
}

/// Returns whether servers of a version ignore [`TLS_ONLY`].
fn is_before_3_7(version: &str) -> bool {
    let mut numbers = version
        .split('.')
        .map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    version < (3, 7)
}

fn spec(options: &UpArgs) -> anyhow::Result<Spec> {
    let mut spec = match &options.config {
        None => options.profile.unwrap_or_default().spec(),
        Some(file) => {
            let text = fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            Spec::from_toml(&text).with_context(|| format!("{} is not valid", file.display()))?
        }
    };
    if spec.directory.is_some() {
        bail!(
            "directory: not supported, because a named ensemble is stored in --dir; omit the setting"
        );
    }
    if let Some(servers) = options.servers {
        spec.servers = servers;
        spec.server.clear();
    }
    if let Some(zookeeper) = &options.zookeeper {
        spec.zookeeper = Some(zookeeper.clone());
    }
    if let Some(data) = options.data {
        spec.data = data;
    }
    if options.max_buffer.is_some() {
        spec.max_buffer = options.max_buffer;
    }
    spec.movable_clock |= options.movable_clock;
    spec.tls |= options.tls || options.tls_only;
    if options.tls_only {
        let lines = TLS_ONLY.map(|(key, value)| (key.to_owned(), value.to_owned()));
        spec.properties.extend(lines);
    }
    Ok(spec)
}

/// The properties of servers that serve no session without a client certificate.
const TLS_ONLY: [(&str, &str); 2] = [
    ("enforce.auth.enabled", "true"),
    ("enforce.auth.schemes", "x509"),
];
