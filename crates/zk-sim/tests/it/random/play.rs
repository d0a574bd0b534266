//! Runs a program on simulated or real servers, and records the replies.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use tokio::task::coop::unconstrained;
use zk_core::transport::{
    CreateMode, MultiResult, NewNode, Phase, ReadResult, Request, Response, Transport,
    TransportError, WatchNotification, Watched, Watching,
};
use zk_core::{NodePath, SessionId, Stat};

use super::program::{Program, Step};

/// A source of sessions.
pub(crate) trait Open {
    async fn open(&self, session: usize) -> Box<dyn Transport>;

    /// Sends requests of a session, which are in flight together, and returns the replies.
    async fn send(
        &self,
        _session: usize,
        transport: &dyn Transport,
        requests: &[Request],
    ) -> Vec<Answer> {
        send(transport, requests).await
    }
}

pub(crate) type Answer = Result<Response, TransportError>;

pub(crate) async fn send(transport: &dyn Transport, requests: &[Request]) -> Vec<Answer> {
    let replies = requests.iter().map(|one| submit(transport, one.clone()));
    soon(all(replies.collect())).await
}

/// Runs a program on open sessions, with one line per reply and event.
pub(crate) async fn play(
    system: &impl Open,
    sessions: &mut Vec<Box<dyn Transport>>,
    program: &Program,
) -> Vec<String> {
    let mut player = Player {
        system,
        ids: sessions
            .iter()
            .map(|session| session.session_id())
            .collect(),
        sessions,
        root: program.root.clone(),
        base: 0,
        watches: Vec::new(),
        next_watch: 0,
        lines: Vec::new(),
    };
    player.begin().await;
    for step in &program.steps {
        player.step(step).await;
    }
    player.lines
}

struct Player<'a, S> {
    system: &'a S,
    sessions: &'a mut Vec<Box<dyn Transport>>,
    /// The ids of all sessions; the number of a session is the position of its last occurrence.
    ids: Vec<SessionId>,
    root: NodePath,
    /// Transactions are counted from here.
    base: i64,
    watches: Vec<Watch>,
    next_watch: usize,
    lines: Vec<String>,
}

struct Watch {
    number: usize,
    session: usize,
    kind: Kind,
}

enum Kind {
    Once(Watched),
    Persistent(Watching),
}

impl<S: Open> Player<'_, S> {
    async fn begin(&mut self) {
        let create = Request::Create2(NewNode {
            path: self.root.clone(),
            data: zk_core::transport::NodeData::default(),
            mode: CreateMode::Persistent,
            acl: zk_core::Acl::open(),
        });
        match submit(&*self.sessions[0], create).await {
            Ok(Response::Created { stat, .. }) => self.base = stat.czxid,
            answer => panic!("{answer:?}"),
        }
        self.sync().await;
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Burst { session, requests } => {
                let transport = &*self.sessions[*session];
                let answers = self.system.send(*session, transport, requests).await;
                for (request, answer) in requests.iter().zip(answers) {
                    let line = self.line(*session, request, answer);
                    self.lines.push(line);
                }
            }
            Step::Drop(which) => {
                if !self.watches.is_empty() {
                    let at = which % self.watches.len();
                    let watch = self.watches.remove(at);
                    self.lines.push(format!("watch {} dropped", watch.number));
                }
            }
            Step::Reopen(session) => self.reopen(*session).await,
        }
        self.sync().await;
        self.note_events(matches!(step, Step::Reopen(_)));
    }

    async fn sync(&self) {
        // Every server catches up, and watch events precede the reply.
        let syncs = self.sessions.iter().map(|session| {
            let path = self.root.clone();
            submit(&**session, Request::Sync { path })
        });
        for answer in soon(all(syncs.collect())).await {
            assert!(matches!(answer, Ok(Response::Synced)), "{answer:?}");
        }
    }

    async fn reopen(&mut self, session: usize) {
        let old = &self.sessions[session];
        let mut link = old.link();
        old.close();
        let over = link.wait_for(|link| matches!(link.phase, Phase::Over(_)));
        // The reply to a close may be lost; then the client finds the session expired, which is equivalent.
        soon(over).await.expect("the link reports its end");
        self.lines.push(format!("session {session} is over"));
        let (ended, left) = std::mem::take(&mut self.watches)
            .into_iter()
            .partition(|watch| watch.session == session);
        self.watches = left;
        for watch in ended {
            self.note_end(watch).await;
        }
        self.sessions[session] = self.system.open(session).await;
        // The sessions of a number come one after the other.
        self.ids[session] = self.sessions[session].session_id();
    }

    async fn note_end(&mut self, watch: Watch) {
        let what = match watch.kind {
            Kind::Once(watched) => format!("{:?}", soon(watched).await),
            Kind::Persistent(watching) => {
                let notices: Vec<WatchNotification> = soon(watching.collect()).await;
                let shown = notices
                    .iter()
                    .map(|notice| show_notice(notice, &self.root, self.base));
                let mut shown: Vec<_> = shown.collect();
                assert_eq!(shown.pop().as_deref(), Some("link lost"));
                // The ephemeral nodes of a session are deleted in an undefined order.
                shown.sort();
                shown.join("; ")
            }
        };
        self.lines.push(format!("watch {}: {what}", watch.number));
    }

    /// Records the watch events, without an order between ephemeral nodes of one session.
    fn note_events(&mut self, in_any_order: bool) {
        let mut fired = Vec::new();
        let mut lines = Vec::new();
        for (at, watch) in self.watches.iter_mut().enumerate() {
            let mut told = Vec::new();
            match &mut watch.kind {
                // Without tokio's budget: after many polls in one task it lets what is ready look pending.
                Kind::Once(watched) => {
                    if let Some(event) = unconstrained(watched).now_or_never() {
                        told.push(format!("{event:?}"));
                        fired.push(at);
                    }
                }
                Kind::Persistent(watching) => {
                    while let Some(Some(notice)) = unconstrained(watching.next()).now_or_never() {
                        told.push(show_notice(&notice, &self.root, self.base));
                    }
                }
            }
            if in_any_order {
                told.sort();
            }
            let number = watch.number;
            lines.extend(told.iter().map(|told| format!("watch {number}: {told}")));
        }
        for at in fired.into_iter().rev() {
            drop(self.watches.remove(at));
        }
        self.lines.extend(lines);
    }

    fn line(&mut self, session: usize, request: &Request, answer: Answer) -> String {
        let request = format!("{request:?}").replace(self.root.as_str(), "~");
        let answer = match answer {
            Ok(response) => self.show(session, response),
            Err(TransportError::Refused(kind, _)) => format!("{kind:?}"),
            Err(fault) => format!("{fault:?}"),
        };
        format!("session {session}: {request}\n        -> {answer}")
    }

    fn show(&mut self, session: usize, response: Response) -> String {
        match response {
            Response::Created { path, stat } => {
                format!("created {} {}", self.local(&path), self.stat(&stat))
            }
            Response::Deleted => "deleted".to_owned(),
            Response::Data { data, stat, watch } => {
                let watch = self.once(session, watch);
                format!(
                    "{} bytes {} {watch}",
                    data.as_slice().len(),
                    self.stat(&stat)
                )
            }
            Response::Stat { stat, watch } => {
                let watch = self.once(session, watch);
                format!("{:?} {watch}", stat.map(|stat| self.stat(&stat)))
            }
            Response::Children {
                mut names,
                stat,
                watch,
            } => {
                names.sort();
                let watch = self.once(session, watch);
                format!("{names:?} {} {watch}", self.stat(&stat))
            }
            Response::Set(stat) => self.stat(&stat),
            Response::Synced => "synced".to_owned(),
            Response::Acl { acl, stat } => format!("{:?} {}", acl.entries(), self.stat(&stat)),
            Response::Committed(parts) => {
                let parts: Vec<_> = parts
                    .into_iter()
                    .map(|part| match part {
                        MultiResult::Checked => "checked".to_owned(),
                        MultiResult::Deleted => "deleted".to_owned(),
                        MultiResult::Set(stat) => format!("set {}", self.stat(&stat)),
                        MultiResult::Created { path, stat } => format!(
                            "created {} {:?}",
                            self.local(&path),
                            stat.map(|stat| self.stat(&stat))
                        ),
                    })
                    .collect();
                parts.join("; ")
            }
            Response::Reads(results) => {
                let result = |result| match result {
                    Ok(ReadResult::Data { data, stat }) => {
                        format!("{} bytes {}", data.as_slice().len(), self.stat(&stat))
                    }
                    Ok(ReadResult::Children(mut names)) => {
                        names.sort();
                        format!("{names:?}")
                    }
                    Err(fault) => format!("{fault:?}"),
                };
                let results: Vec<_> = results.into_iter().map(result).collect();
                results.join("; ")
            }
            Response::Paths(mut paths) => {
                paths.sort();
                let paths: Vec<_> = paths.iter().map(|path| self.local(path)).collect();
                format!("{paths:?}")
            }
            Response::Count(count) => format!("{count} nodes"),
            // The server knows the address of a real client.
            Response::Identities(_) => "identities".to_owned(),
            Response::Watching(watching) => {
                let number = self.keep(session, Kind::Persistent(watching));
                format!("watch {number}")
            }
        }
    }

    fn once(&mut self, session: usize, watch: Option<Watched>) -> String {
        match watch {
            None => String::new(),
            Some(watched) => format!("watch {}", self.keep(session, Kind::Once(watched))),
        }
    }

    fn keep(&mut self, session: usize, kind: Kind) -> usize {
        let number = self.next_watch;
        self.next_watch += 1;
        self.watches.push(Watch {
            number,
            session,
            kind,
        });
        number
    }

    fn stat(&self, stat: &Stat) -> String {
        let owner = match stat.ephemeral_owner {
            None => "no session".to_owned(),
            Some(owner) => match self.ids.iter().position(|id| *id == owner) {
                Some(session) => format!("session {session}"),
                None => "another session".to_owned(),
            },
        };
        format!(
            "v{} c{} a{} born {} changed {} children {} of {owner}, {} bytes, {} children, times {}",
            stat.version,
            stat.cversion,
            stat.aversion,
            stat.czxid - self.base,
            stat.mzxid - self.base,
            stat.pzxid - self.base,
            stat.data_length,
            stat.num_children,
            stat.mtime >= stat.ctime,
        )
    }

    fn local(&self, path: &NodePath) -> String {
        local(path, &self.root)
    }
}

fn show_notice(notice: &WatchNotification, root: &NodePath, base: i64) -> String {
    match notice {
        WatchNotification::Changed { path, event, zxid } => {
            let zxid = zxid.map(|zxid| zxid - base);
            format!("{} {event:?} by {zxid:?}", local(path, root))
        }
        WatchNotification::LinkLost => "link lost".to_owned(),
    }
}

fn local(path: &NodePath, root: &NodePath) -> String {
    path.as_str().replace(root.as_str(), "~")
}

/// Submits a request, for its result alone.
pub(crate) fn submit(
    transport: &dyn Transport,
    request: Request,
) -> Pin<Box<dyn Future<Output = Answer> + Send>> {
    let reply = transport.submit(request);
    Box::pin(async move { reply.await.result })
}

/// Polls all futures in order, so that the requests are sent in order, until all are ready.
pub(crate) async fn all<T>(futures: Vec<Pin<Box<dyn Future<Output = T> + Send>>>) -> Vec<T> {
    let mut slots: Vec<_> = futures
        .into_iter()
        .map(futures_util::future::maybe_done)
        .map(Box::pin)
        .collect();
    std::future::poll_fn(|context| {
        let mut is_ready = true;
        for slot in &mut slots {
            is_ready &= slot.as_mut().poll(context).is_ready();
        }
        if is_ready {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    slots
        .iter_mut()
        .map(|slot| slot.as_mut().take_output().expect("it is ready"))
        .collect()
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), future).await {
        Ok(output) => output,
        Err(late) => panic!("waited a minute for the answers: {late}"),
    }
}
