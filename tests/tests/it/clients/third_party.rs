//! The crate `zookeeper-client` on command.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::task::JoinHandle;
use zookeeper_client as zk;

use super::peer::{Answer, Connect, Peer, wait_for_state};

pub(super) struct ThirdParty {
    /// Why there is none, if connecting failed.
    client: Result<zk::Client, zk::Error>,
    begun: Option<JoinHandle<String>>,
    /// One-shot watches that have not fired.
    once: Vec<BoxFuture<'static, zk::WatchedEvent>>,
    persistent: Vec<zk::PersistentWatcher>,
}

impl ThirdParty {
    pub(super) async fn start(connect: &Connect) -> Self {
        let mut connector = zk::Client::connector()
            .with_session_timeout(connect.timeout)
            .with_readonly(connect.read_only);
        if let Some((scheme, credentials)) = connect.auth {
            connector = connector.with_auth(scheme, credentials.as_bytes());
        }
        Self {
            client: connector.connect(&connect.servers).await,
            begun: None,
            once: Vec::new(),
            persistent: Vec::new(),
        }
    }

    async fn carry_out(&mut self, command: &str) -> String {
        let words: Vec<_> = command.split(' ').collect();
        let client = match &self.client {
            Ok(client) => client.clone(),
            Err(error) => return name(error),
        };
        match words[..] {
            ["session"] => format!("{:?}", client.session_id()),
            ["await", wanted, millis] => {
                wait_for_state(wanted, millis, || state(client.state())).await
            }
            ["create", path, data, mode] => {
                let mode = match mode {
                    "ephemeral" => zk::CreateMode::Ephemeral,
                    _ => zk::CreateMode::Persistent,
                };
                let options = mode.with_acls(zk::Acls::anyone_all());
                let created = client.create(path, data.as_bytes(), &options).await;
                answer(created, |_| path.to_owned())
            }
            ["get", path] => answer(client.get_data(path).await, |(data, _)| {
                String::from_utf8_lossy(&data).into_owned()
            }),
            ["set", path, data] => {
                let set = client.set_data(path, data.as_bytes(), None);
                answer(set.await, |stat| stat.version.to_string())
            }
            ["begin", path, data] => {
                let set = client.set_data(path, data.as_bytes(), None);
                let begun = async { answer(set.await, |stat| stat.version.to_string()) };
                self.begun = Some(tokio::spawn(begun));
                "begun".to_owned()
            }
            ["outcome"] => {
                let begun = self.begun.take().expect("it was begun");
                begun.await.expect("it does not panic")
            }
            ["watch", path] => {
                let (_, _, watcher) = client.get_and_watch_data(path).await.expect("a reply");
                self.once.push(watcher.changed().boxed());
                "ok".to_owned()
            }
            ["persist", path] => {
                let watch = client.watch(path, zk::AddWatchMode::Persistent);
                self.persistent.push(watch.await.expect("a reply"));
                "ok".to_owned()
            }
            ["events"] => {
                client.sync("/").await.expect("the server catches up");
                self.events()
            }
            ["multi", path, version] => {
                multi(&client, path, version.parse().expect("a version")).await
            }
            _ => panic!("unknown command {command}"),
        }
    }

    fn events(&mut self) -> String {
        let mut events = Vec::new();
        self.once.retain_mut(|fired| match fired.now_or_never() {
            Some(event) => {
                events.push(format!("{:?} {}", event.event_type, event.path));
                false
            }
            None => true,
        });
        for watcher in &mut self.persistent {
            while let Some(event) = watcher.changed().now_or_never() {
                // It also reports the states of the session.
                if event.event_type != zk::EventType::Session {
                    events.push(format!("{:?} {}", event.event_type, event.path));
                }
            }
        }
        events.join(", ")
    }
}

impl Peer for ThirdParty {
    fn does<'a>(&'a mut self, command: &'a str) -> Answer<'a> {
        Box::pin(self.carry_out(command))
    }
}

async fn multi(client: &zk::Client, path: &str, version: i32) -> String {
    let below = format!("{path}/m");
    let options = zk::CreateMode::Persistent.with_acls(zk::Acls::anyone_all());
    let mut writer = client.new_multi_writer();
    let added = writer
        .add_create(&below, b"multi", &options)
        .and_then(|()| writer.add_set_data(path, b"multi", Some(version)))
        .and_then(|()| writer.add_delete(&below, None))
        .and_then(|()| writer.add_check_version(path, -1));
    added.expect("they are valid");
    match writer.commit().await {
        Ok(results) => {
            let kinds = results.iter().map(|result| match result {
                zk::MultiWriteResult::Check => "checked".to_owned(),
                zk::MultiWriteResult::Delete => "deleted".to_owned(),
                zk::MultiWriteResult::Create { path, .. } => format!("created:{path}"),
                zk::MultiWriteResult::SetData { stat } => format!("set:{}", stat.version),
                other => format!("{other:?}"),
            });
            format!("ok {}", kinds.collect::<Vec<_>>().join(" "))
        }
        Err(zk::MultiWriteError::OperationFailed { index, source }) => {
            format!("{} at {index}", name(&source))
        }
        Err(zk::MultiWriteError::RequestFailed { source }) => name(&source),
    }
}

fn state(state: zk::SessionState) -> &'static str {
    match state {
        zk::SessionState::SyncConnected => "CONNECTED",
        zk::SessionState::ConnectedReadOnly => "READONLY",
        zk::SessionState::Disconnected => "DISCONNECTED",
        zk::SessionState::AuthFailed => "AUTHFAILED",
        _ => "EXPIRED",
    }
}

fn answer<T>(result: Result<T, zk::Error>, show: impl FnOnce(T) -> String) -> String {
    match result {
        Ok(value) => format!("ok {}", show(value)),
        Err(error) => name(&error),
    }
}

fn name(error: &zk::Error) -> String {
    let debug = format!("{error:?}").to_uppercase();
    let name: String = debug
        .chars()
        .take_while(char::is_ascii_alphabetic)
        .collect();
    name
}
