//! Asks one server its words, within the budget, over the client port or the `AdminServer`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::admin_server;
use super::budget::{Budget, Schedule};
use super::clock::Clock;
use super::four_letter::{self, Refusal};
use super::model::NO_QUORUM;
use super::sample::{Figures, Missing, Reading, Sample};
use super::views::View;
use super::word::Word;

/// One server, and where its samples go.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) admin_port: u16,
    pub(crate) clock: Clock,
    /// The views that are open.
    pub(crate) views: watch::Receiver<BTreeSet<View>>,
    pub(crate) samples: mpsc::Sender<Sample>,
}

/// Over which port a word is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Route {
    ClientPort,
    AdminServer,
}

impl Collector {
    /// Asks until the samples are not taken any more.
    pub(crate) async fn run(mut self) {
        let mut budget = Budget::new(WORDS_PER_SECOND);
        let mut schedule = Schedule::default();
        let mut routes = BTreeMap::<Word, Route>::new();
        let mut is_serving = true;
        let mut asked = 0;
        loop {
            let now = self.clock.now();
            let next = {
                let views = self.views.borrow_and_update();
                let is_wanted = |word: Word| {
                    // One word is enough to see that a server is back.
                    if !is_serving {
                        return word == Word::Srvr;
                    }
                    word.is_cheap() || views.iter().any(|view| view.words().contains(&word))
                };
                schedule.next(is_wanted, now)
            };
            // `srvr` is always wanted.
            let Some((word, due)) = next else { return };
            let at = due.max(budget.free_at(1));
            if at > now {
                tokio::select! {
                    () = self.clock.until(at) => {}
                    changed = self.views.changed() => {
                        if changed.is_err() {
                            return;
                        }
                        continue;
                    }
                }
            }
            let sent = self.clock.now();
            budget.take(sent);
            schedule.asked(word, sent);
            asked += 1;
            let route = routes.get(&word).copied().unwrap_or(Route::ClientPort);
            let reading = match (self.ask(word, route).await, route) {
                (Ok(Ok(reading)), _) => reading,
                (Ok(Err(Refusal::NoQuorum)), _) => no_quorum(),
                (Ok(Err(_)), Route::ClientPort) => {
                    // The AdminServer may know it; that is a request of its own.
                    routes.insert(word, Route::AdminServer);
                    schedule.due_now(word);
                    continue;
                }
                (Ok(Err(_)) | Err(_), Route::AdminServer) => {
                    routes.remove(&word);
                    schedule.refused(word, self.clock.now());
                    missing(word, self.admin_port)
                }
                (Err(error), Route::ClientPort) if word == Word::Srvr => Reading::Down(error),
                // A busy server takes long for the expensive words.
                (Err(error), Route::ClientPort) => {
                    schedule.refused(word, self.clock.now());
                    // It may be down.
                    schedule.due_now(Word::Srvr);
                    let word = word.as_str().to_owned();
                    let remedy = format!("{error}; it is asked again later");
                    Reading::Missing(Missing { word, remedy })
                }
            };
            let was_serving = is_serving;
            is_serving = !matches!(reading, Reading::Down(_)) && reading != no_quorum();
            if matches!(reading, Reading::Down(_)) {
                routes.clear();
            }
            if is_serving && !was_serving {
                // It may have other settings now, and other words were not asked or not answered.
                schedule = Schedule::default();
                schedule.asked(word, sent);
            }
            let sample = Sample {
                at: self.clock.now(),
                server: self.address(),
                asked,
                reading,
            };
            if self.samples.send(sample).await.is_err() {
                return;
            }
        }
    }

    fn address(&self) -> String {
        address(&self.host, self.port)
    }

    /// Returns the reading or why there is none, or an error if the server cannot be reached.
    async fn ask(&self, word: Word, route: Route) -> Result<Result<Reading, Refusal>, String> {
        let (port, request) = match route {
            Route::ClientPort => (self.port, word.as_str().to_owned()),
            Route::AdminServer => (self.admin_port, admin_server::request(word, &self.host)),
        };
        let asking = exchange(&self.host, port, request.as_bytes());
        let reply = match timeout(REPLY_TIMEOUT, asking).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => return Err(error.to_string()),
            Err(_) => {
                let seconds = REPLY_TIMEOUT.as_secs();
                return Err(format!("no reply to {} within {seconds} s", word.as_str()));
            }
        };
        Ok(match route {
            Route::ClientPort => four_letter::parse(word, &reply),
            Route::AdminServer => admin_server::parse(word, &reply),
        })
    }
}

/// Sends a request and reads until the server closes the connection, or until the longest reply. No reply is an error.
async fn exchange(host: &str, port: u16, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect((host, port)).await?;
    stream.write_all(request).await?;
    let mut reply = Vec::new();
    let read = (&mut stream)
        .take(LONGEST_REPLY)
        .read_to_end(&mut reply)
        .await;
    if let Err(error) = read {
        // Some releases reset the connection after the reply.
        let is_reset = error.kind() == io::ErrorKind::ConnectionReset;
        let is_whole = reply.last().is_none_or(|end| b"\n}".contains(end));
        if !(is_reset && is_whole) {
            return Err(error);
        }
    }
    if reply.is_empty() {
        return Err(io::Error::other(NO_REPLY));
    }
    if reply.len() as u64 == LONGEST_REPLY {
        return Err(io::Error::other(format!(
            "the reply is longer than {} MiB",
            LONGEST_REPLY >> 20
        )));
    }
    Ok(reply)
}

fn no_quorum() -> Reading {
    Reading::Figures(Figures {
        role: Some(NO_QUORUM.to_owned()),
        ..Figures::default()
    })
}

fn missing(word: Word, admin_port: u16) -> Reading {
    let word = word.as_str().to_owned();
    Reading::Missing(Missing {
        remedy: format!(
            "add {word} to 4lw.commands.whitelist, or enable the AdminServer (nothing of use at port {admin_port})"
        ),
        word,
    })
}

pub(crate) fn address(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

const NO_REPLY: &str = "the server closed the connection without a reply, because it shuts down, has too many connections or does not know the word";
/// Of the five requests that a server may be sent in a second, three are left to the session.
const WORDS_PER_SECOND: usize = 2;
const REPLY_TIMEOUT: Duration = Duration::from_secs(2);
const LONGEST_REPLY: u64 = 8 << 20;
