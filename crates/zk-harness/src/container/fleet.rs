//! The containers of an ensemble, and the thread that owns them.
//!
//! They are driven from a thread of their own with a runtime of its own: they have to be removed when the ensemble is
//! dropped, which may happen where nothing can be awaited, and a test that keeps its runtime busy must not hold them up.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use testcontainers::bollard::Docker;
use testcontainers::bollard::models::{NetworkConnectRequest, NetworkDisconnectRequest};
use testcontainers::bollard::query_parameters::{KillContainerOptionsBuilder, LogsOptionsBuilder};
use testcontainers::core::IntoContainerPort as _;
use testcontainers::core::client::docker_client_instance;
use testcontainers::runners::AsyncRunner as _;
use testcontainers::{ContainerAsync, GenericImage, ImageExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::image::IMAGE_WITHIN;
use super::member::{Member, Order, View};
use super::{Act, ContainerImage, stale};
use crate::config::{CLIENT_PORT, Plan};
use crate::error::Error;
use crate::fault::Unavailable;
use crate::process::ProcessState;

/// The containers of an ensemble. Dropping it removes them and waits for that.
#[derive(Debug)]
pub(crate) struct Fleet {
    members: Vec<Member>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Answers whether a container engine can be reached.
///
/// # Errors
///
/// [`Unavailable`] with what the engine, or the lack of it, said.
///
/// # Cancel safety
///
/// Safe: it only asks.
pub async fn probe() -> Result<(), Unavailable> {
    let unavailable = |reason: String| Unavailable {
        fault: "a server in a container",
        reason: format!(
            "{reason}; a container engine has to run, and DOCKER_HOST to name it if it is not at the usual place"
        ),
    };
    let docker = docker_client_instance()
        .await
        .map_err(|error| unavailable(error.to_string()))?;
    match timeout(ANSWER_WITHIN, docker.ping()).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(unavailable(error.to_string())),
        Err(_) => Err(unavailable(format!("no answer within {ANSWER_WITHIN:?}"))),
    }
}

impl Fleet {
    /// Creates and starts a container for each member of the plan.
    ///
    /// # Cancel safety
    ///
    /// A dropped future removes what was started.
    pub(crate) async fn launch(plan: Arc<Plan>, image: ContainerImage) -> Result<Self, Error> {
        probe().await?;
        let (orders, received) = mpsc::unbounded_channel();
        let members: Vec<Member> = plan
            .members
            .iter()
            .enumerate()
            .map(|(index, member)| Member::new(member.id, index, orders.clone()))
            .collect();
        let (end, ended) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let views = members.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|source| Error::io("start a runtime for", &plan.directory, source))?;
        let thread = std::thread::Builder::new()
            .name("zk-harness-containers".into())
            .spawn(move || {
                runtime.block_on(drive(&plan, &image, views, received, ready, ended));
            })
            .map_err(|source| Error::io("start a thread for", &PathBuf::new(), source))?;
        // Whatever happens from here on, the drop ends the thread, and the thread removes the containers.
        let fleet = Self {
            members,
            end: Some(end),
            thread: Some(thread),
        };
        is_ready.await.unwrap_or_else(|_| {
            Err(Error::Image {
                source: "the thread that drives the containers has ended".into(),
            })
        })?;
        Ok(fleet)
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::warn!("the thread that drives the containers has panicked");
        }
    }
}

struct Driver {
    docker: Docker,
    network: String,
    members: Vec<Member>,
    containers: Vec<ContainerAsync<GenericImage>>,
    logs: Vec<PathBuf>,
}

async fn drive(
    plan: &Plan,
    image: &ContainerImage,
    members: Vec<Member>,
    mut orders: mpsc::UnboundedReceiver<Order>,
    ready: oneshot::Sender<Result<(), Error>>,
    mut ended: oneshot::Receiver<()>,
) {
    let launched = tokio::select! {
        launched = launch(plan, image, members) => launched,
        _ = &mut ended => return,
    };
    let driver = match launched {
        Ok(driver) => driver,
        Err(error) => {
            drop(ready.send(Err(error)));
            return;
        }
    };
    // If nobody waits any more, the end follows.
    drop(ready.send(Ok(())));
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            _ = &mut ended => break,
            order = orders.recv() => {
                let Some(Order { index, act, done }) = order else { break };
                drop(done.send(driver.perform(index, act).await));
            }
            _ = looks.tick() => driver.look_at_all().await,
        }
    }
    let removed = join_all(driver.containers.into_iter().map(ContainerAsync::rm)).await;
    for error in removed.into_iter().filter_map(Result::err) {
        tracing::warn!(%error, "a container was not removed");
    }
    // The network goes with the last container, by testcontainers' own doing.
}

async fn launch(
    plan: &Plan,
    image: &ContainerImage,
    members: Vec<Member>,
) -> Result<Driver, Error> {
    let no_image = |source: Box<dyn std::error::Error + Send + Sync>| Error::Image { source };
    let docker = docker_client_instance()
        .await
        .map_err(|error| no_image(error.into()))?;
    stale::sweep(&docker).await;
    let image = timeout(IMAGE_WITHIN, image.prepare(&plan.distribution))
        .await
        .map_err(|_| no_image(format!("no image after {IMAGE_WITHIN:?}").into()))??;
    let network = plan.host_prefix();
    let starts = plan.members.iter().map(|member| {
        let image = image.clone().with_exposed_port(CLIENT_PORT.tcp());
        let mut request = image
            .with_container_name(plan.host(member.id))
            .with_hostname(plan.host(member.id))
            .with_network(&network)
            .with_labels(stale::labels())
            .with_startup_timeout(IMAGE_WITHIN)
            .with_copy_to("/conf/zoo.cfg", plan.render_config(member).into_bytes())
            .with_copy_to("/data/myid", format!("{}\n", member.id).into_bytes());
        for (key, value) in plan.container_environment() {
            request = request.with_env_var(key, value);
        }
        let id = member.id;
        async move {
            request.start().await.map_err(|error| Error::Container {
                action: "start",
                id,
                source: error.into(),
            })
        }
    });
    // One after the other for the first, which makes the network; then all at once.
    let mut containers = Vec::new();
    let mut starts = starts.collect::<Vec<_>>().into_iter();
    if let Some(first) = starts.next() {
        containers.push(first.await?);
    }
    let others: Result<Vec<_>, Error> = join_all(starts).await.into_iter().collect();
    containers.extend(others?);
    let logs = plan.members.iter().map(|member| plan.server_log(member.id));
    let driver = Driver {
        docker,
        network,
        members,
        containers,
        logs: logs.collect(),
    };
    for index in 0..driver.containers.len() {
        driver.look(index, false).await?;
        driver.follow_log(index, 0);
    }
    Ok(driver)
}

impl Driver {
    async fn perform(&self, index: usize, act: Act) -> Result<(), Error> {
        let id = self.members[index].id();
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Container {
            action: act.name(),
            id,
            source,
        };
        let container = &self.containers[index];
        let name = container.id();
        let started = now_in_seconds();
        let done = timeout(ACT_WITHIN, async {
            match act {
                Act::Start => Ok(container.start().await?),
                Act::Stop => Ok(container.stop_with_timeout(Some(STOP_SECONDS)).await?),
                Act::Kill => {
                    let options = KillContainerOptionsBuilder::new().signal("SIGKILL").build();
                    Ok(self.docker.kill_container(name, Some(options)).await?)
                }
                Act::Pause => Ok(container.pause().await?),
                Act::Resume => Ok(container.unpause().await?),
                Act::Disconnect => {
                    let request = NetworkDisconnectRequest {
                        container: name.to_owned(),
                        force: Some(true),
                    };
                    Ok(self
                        .docker
                        .disconnect_network(&self.network, request)
                        .await?)
                }
                Act::Connect => {
                    let request = NetworkConnectRequest {
                        container: name.to_owned(),
                        ..NetworkConnectRequest::default()
                    };
                    Ok(self.docker.connect_network(&self.network, request).await?)
                }
            }
        })
        .await;
        done.unwrap_or_else(|_| Err(format!("no answer within {ACT_WITHIN:?}").into()))
            .map_err(failed)?;
        let expects_end = matches!(act, Act::Stop | Act::Kill);
        self.look(index, expects_end).await?;
        if act == Act::Start {
            self.follow_log(index, started);
        }
        Ok(())
    }

    async fn look_at_all(&self) {
        for (index, member) in self.members.iter().enumerate() {
            let was_stopped = member.state() == ProcessState::Stopped && !member.has_exited();
            if let Err(error) = self.look(index, was_stopped).await {
                tracing::warn!(%error, "a container could not be looked at");
            }
        }
    }

    /// Learns a container's state and port.
    async fn look(&self, index: usize, expects_end: bool) -> Result<(), Error> {
        let member = &self.members[index];
        let container = &self.containers[index];
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::Container {
            action: "look at",
            id: member.id(),
            source,
        };
        let seen = self
            .docker
            .inspect_container(container.id(), None)
            .await
            .map_err(|error| failed(error.into()))?;
        let state = seen.state.unwrap_or_default();
        let state = match (state.running, state.paused) {
            (_, Some(true)) => ProcessState::Paused,
            (Some(true), _) => ProcessState::Running,
            _ => ProcessState::Stopped,
        };
        let port = seen
            .network_settings
            .and_then(|network| network.ports)
            .and_then(|mut ports| ports.remove(&format!("{CLIENT_PORT}/tcp"))?)
            .and_then(|bindings| bindings.first()?.host_port.clone()?.parse().ok());
        member.set(View {
            state,
            // Off its network it has none; it will get another one.
            port: port.unwrap_or_else(|| member.port()),
            has_exited: state == ProcessState::Stopped && !expects_end,
        });
        Ok(())
    }

    /// Copies what the server prints from `since`, in seconds of the epoch, to its log file, until it ends.
    fn follow_log(&self, index: usize, since: i32) {
        let docker = self.docker.clone();
        let name = self.containers[index].id().to_owned();
        let path = self.logs[index].clone();
        let options = LogsOptionsBuilder::new()
            .follow(true)
            .stdout(true)
            .stderr(true)
            .since(since)
            .build();
        // It ends with the container's output, and with this thread's runtime.
        tokio::spawn(async move {
            let mut file = match OpenOptions::new().create(true).append(true).open(&path) {
                Ok(file) => file,
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "the log of a container cannot be kept");
                    return;
                }
            };
            let mut lines = std::pin::pin!(docker.logs(&name, Some(options)));
            while let Some(Ok(line)) = lines.next().await {
                if file.write_all(&line.into_bytes()).is_err() {
                    return;
                }
            }
        });
    }
}

fn now_in_seconds() -> i32 {
    // The engine tells the age of log lines by the wall clock.
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| {
        i32::try_from(since.as_secs()).unwrap_or(i32::MAX)
    })
}

const LOOK_EVERY: Duration = Duration::from_millis(250);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const ACT_WITHIN: Duration = Duration::from_secs(60);
const STOP_SECONDS: i32 = 10;
