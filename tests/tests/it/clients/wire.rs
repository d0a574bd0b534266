//! `zk_wire::Client` on command.

use futures_util::FutureExt as _;
use tokio::task::JoinHandle;
use zk_wire::{
    Acl, Answer as Reply, Client, Config, ConnectionState, CreateMode, Credentials, MultiOp,
    MultiResult, NewNode, NodePath, Request, RequestError, RequestErrorKind, SessionEnd,
    SubmitError, Watch,
};

use super::SOON;
use super::peer::{Answer, Connect, Peer, wait_for_state};

pub(super) struct Wire {
    client: Client,
    begun: Option<JoinHandle<String>>,
    watches: Vec<Watch>,
}

impl Wire {
    pub(super) async fn start(connect: &Connect) -> Self {
        let mut config = Config::new(connect.timeout);
        config.read_only = connect.read_only;
        if let Some((scheme, credentials)) = connect.auth {
            config.auth.push(Credentials::new(scheme, credentials));
        }
        let client = Client::from_connect_string(&connect.servers, config);
        let client = client.expect("it is a connect string");
        // The end of the session is what some tests are about.
        let connected = tokio::time::timeout(SOON, client.connected()).await;
        let _: Result<(), SessionEnd> = connected.expect("a server grants a session");
        Self {
            client,
            begun: None,
            watches: Vec::new(),
        }
    }

    async fn carry_out(&mut self, command: &str) -> String {
        let words: Vec<_> = command.split(' ').collect();
        match words[..] {
            ["session"] => match *self.client.states().borrow() {
                ConnectionState::Connected { session_id, .. } => session_id.to_string(),
                _ => "none".to_owned(),
            },
            ["await", wanted, millis] => {
                let states = self.client.states();
                wait_for_state(wanted, millis, || state(&states.borrow())).await
            }
            ["create", path, data, mode] => {
                let create = Request::Create(NewNode {
                    path: node_path(path),
                    data: data.to_owned().into(),
                    acl: Acl::open(),
                    mode: match mode {
                        "ephemeral" => CreateMode::Ephemeral,
                        _ => CreateMode::Persistent,
                    },
                });
                self.request(create).await
            }
            ["get", path] => {
                let (path, watch) = (node_path(path), false);
                self.request(Request::GetData { path, watch }).await
            }
            ["set", path, data] => self.request(set(path, data)).await,
            ["begin", path, data] => {
                let (client, set) = (self.client.clone(), set(path, data));
                let begun = async move { answer(client.request(&set).await) };
                self.begun = Some(tokio::spawn(begun));
                // It is submitted by the first poll.
                tokio::task::yield_now().await;
                "begun".to_owned()
            }
            ["outcome"] => {
                let begun = self.begun.take().expect("it was begun");
                begun.await.expect("it does not panic")
            }
            ["watch", path] => {
                let (path, watch) = (node_path(path), true);
                self.watch(Request::GetData { path, watch }).await
            }
            ["persist", path] => {
                let (path, recursive) = (node_path(path), false);
                self.watch(Request::AddWatch { path, recursive }).await
            }
            ["events"] => {
                let path = NodePath::root();
                let synced = self.client.request(&Request::Sync { path }).await;
                synced.expect("the server catches up");
                let events = self.watches.iter_mut().filter_map(events_of);
                events.collect::<Vec<_>>().join(", ")
            }
            ["multi", path, version] => {
                let version = version.parse().expect("a version is a number");
                self.request(multi(path, version)).await
            }
            _ => panic!("unknown command {command}"),
        }
    }

    async fn request(&self, request: Request) -> String {
        answer(self.client.request(&request).await)
    }

    async fn watch(&mut self, request: Request) -> String {
        let answered = self.client.request(&request).await;
        let watch = answered.expect("it is answered").watch;
        self.watches.push(watch.expect("it was asked for"));
        "ok".to_owned()
    }
}

impl Peer for Wire {
    fn does<'a>(&'a mut self, command: &'a str) -> Answer<'a> {
        Box::pin(self.carry_out(command))
    }
}

fn state(state: &ConnectionState) -> &'static str {
    match state {
        ConnectionState::Connected { read_only, .. } if *read_only => "READONLY",
        ConnectionState::Connected { .. } => "CONNECTED",
        ConnectionState::Disconnected { .. } => "DISCONNECTED",
        ConnectionState::Over(SessionEnd::AuthFailed) => "AUTHFAILED",
        ConnectionState::Over(_) => "EXPIRED",
    }
}

fn events_of(watch: &mut Watch) -> Option<String> {
    let mut events = Vec::new();
    while let Some(Some(event)) = watch.next().now_or_never() {
        let kind = event.kind.expect("it is about a node");
        events.push(format!("Node{kind:?} {}", event.path));
    }
    (!events.is_empty()).then(|| events.join(", "))
}

fn node_path(path: &str) -> NodePath {
    NodePath::parse(path).expect("it is a path")
}

fn set(path: &str, data: &str) -> Request {
    Request::SetData {
        path: node_path(path),
        data: data.to_owned().into(),
        version: None,
    }
}

fn multi(path: &str, version: i32) -> Request {
    let below = node_path(&format!("{path}/m"));
    let path = node_path(path);
    Request::Multi(vec![
        MultiOp::Create(NewNode {
            path: below.clone(),
            data: b"multi"[..].into(),
            acl: Acl::open(),
            mode: CreateMode::Persistent,
        }),
        MultiOp::SetData {
            path: path.clone(),
            data: b"multi"[..].into(),
            version: Some(version),
        },
        MultiOp::Delete {
            path: below,
            version: None,
        },
        MultiOp::Check {
            path,
            version: None,
        },
    ])
}

fn answer(answer: Result<Reply, RequestError>) -> String {
    use zk_wire::Reply;
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return error_name(&error.kind),
    };
    match answer.reply {
        Reply::Created { path, .. } => format!("ok {path}"),
        Reply::Data { data, .. } => format!("ok {}", String::from_utf8_lossy(data.as_slice())),
        Reply::Stat(stat) => format!("ok {}", stat.version),
        Reply::Multi(Ok(results)) => {
            let kinds = results.iter().map(|result| match result {
                MultiResult::Created { path, .. } => format!("created:{path}"),
                MultiResult::Deleted => "deleted".to_owned(),
                MultiResult::Set(stat) => format!("set:{}", stat.version),
                MultiResult::Checked => "checked".to_owned(),
            });
            format!("ok {}", kinds.collect::<Vec<_>>().join(" "))
        }
        Reply::Multi(Err(refusal)) => {
            let name = refusal.code.name().unwrap_or("?").to_uppercase();
            format!("{name} at {}", refusal.index)
        }
        other => format!("{other:?}"),
    }
}

fn error_name(error: &RequestErrorKind) -> String {
    match error {
        RequestErrorKind::Refused { code, .. } => code.name().unwrap_or("?").to_uppercase(),
        RequestErrorKind::Unknown { .. } => "UNKNOWN".to_owned(),
        RequestErrorKind::NotSent(end) | RequestErrorKind::Submit(SubmitError::Over(end)) => {
            match end {
                SessionEnd::Expired => "SESSIONEXPIRED".to_owned(),
                SessionEnd::AuthFailed => "AUTHFAILED".to_owned(),
                other => format!("{other:?}"),
            }
        }
        other => format!("{other:?}"),
    }
}
