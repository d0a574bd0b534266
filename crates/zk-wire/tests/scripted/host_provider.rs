//! Hosts that are looked up.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use zk_wire::{Client, Config, ConnectionState, Host, HostProvider, HostsFuture, Loss};

use crate::server::{Script, Server, host, nowhere};
use crate::{expected, state};

/// Gives these answers, the last one again and again.
struct Answers {
    answers: Mutex<VecDeque<Answer>>,
    interval: Option<Duration>,
}

#[derive(Clone)]
enum Answer {
    Hosts(Vec<Host>),
    Failure,
    Panic,
}

impl Answers {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        Self {
            answers: Mutex::new(answers.into_iter().collect()),
            interval: None,
        }
    }
}

impl HostProvider for Answers {
    fn hosts(&self) -> HostsFuture<'_> {
        let mut answers = self.answers.lock().expect("no answer panics with the lock");
        let answer = match answers.len() {
            0 | 1 => answers.front().cloned(),
            _ => answers.pop_front(),
        };
        Box::pin(async move {
            match answer.expect("there is an answer") {
                Answer::Hosts(hosts) => Ok(hosts),
                Answer::Failure => Err("no name server".into()),
                Answer::Panic => panic!("the provider of the test panics"),
            }
        })
    }

    fn refresh_interval(&self) -> Option<Duration> {
        self.interval
    }
}

fn config() -> Config {
    Config::new(Duration::from_secs(10))
}

#[tokio::test]
async fn hosts_are_looked_up_until_one_serves() {
    let server = Server::start(Script::default()).await;
    let provider = Answers::new([
        Answer::Failure,
        Answer::Panic,
        Answer::Hosts(vec![]),
        Answer::Hosts(vec![host(nowhere().await)]),
        Answer::Failure,
        Answer::Hosts(vec![server.host()]),
    ]);
    let client = Client::with_host_provider(provider, config());
    for why in ["no name server", "the lookup panicked", "the list is empty"] {
        let why = Some(Loss::NoHosts(why.to_owned()));
        let is_it =
            |state: &ConnectionState| *state == ConnectionState::Disconnected { why: why.clone() };
        state(&client, "the reason", is_it).await;
    }
    expected("a session", client.connected())
        .await
        .expect("a server grants it");
}

#[tokio::test]
async fn a_connection_outlives_its_place_in_the_list() {
    let [old, new] = [
        Server::start(Script::default()).await,
        Server::start(Script::default()).await,
    ];
    let mut provider = Answers::new([
        Answer::Hosts(vec![old.host()]),
        Answer::Hosts(vec![new.host()]),
    ]);
    provider.interval = Some(Duration::from_millis(50));
    let client = Client::with_host_provider(provider, config());
    expected("a session", client.connected())
        .await
        .expect("a server grants it");
    let later =
        |state: &ConnectionState| matches!(state, ConnectionState::Connected { epoch: 2, .. });
    let moved = tokio::time::timeout(Duration::from_millis(500), state(&client, "a move", later));
    assert!(moved.await.is_err(), "it has left a server that serves");
    drop(old);
    state(&client, "a connection to the other host", later).await;
    assert_eq!(new.granted(), 1);
}
