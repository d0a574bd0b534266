//! Delivers replies and watch events from servers to clients.
//!
//! Pure: no I/O and no clock.

use std::time::Duration;

use zk_core::transport::{ReplyHeader, SessionEnd, TransportError, WatchNotification};
use zk_core::{NodePath, SessionId};

use super::client::{Body, Break, Message};
use super::{JobNumber, Output, World};
use crate::script::Act;
use crate::server_reply::{ServerReply, WatchNumber};
use crate::size;
use crate::tree::Trigger;
use crate::watches::{Removal, WatchKind};

impl World {
    /// Sends a watch event to a session.
    pub(super) fn notify(&mut self, session: SessionId, trigger: Trigger, zxid: Option<i64>) {
        self.push(session, Body::WatchNotification { trigger, zxid });
    }

    /// Closes a connection from the server, after the messages already sent on it.
    pub(super) fn close_connection(&mut self, session: SessionId, how: Break) {
        self.push(session, Body::End(how));
        self.client_mut(session).is_hung_up = true;
        // The server receives nothing more.
        self.begin_timeout(session);
    }

    pub(super) fn push(&mut self, session: SessionId, body: Body) {
        let (now, latency) = (self.now, self.latency(session));
        let sending = self.sending_time(&body);
        let client = self.client_mut(session);
        if client.is_hung_up || !client.is_up() {
            return;
        }
        client.sent_by = client.sent_by.max(now) + sending;
        let due = client.sent_by + latency;
        client.outbox.push_back(Message { due, body });
        let connection = client.connection;
        let after = due.saturating_sub(now);
        self.schedule(after, move |world| world.deliver(session, connection));
    }

    fn sending_time(&self, body: &Body) -> Duration {
        let Some(bandwidth) = self.settings.bandwidth else {
            return Duration::ZERO;
        };
        let bytes = match body {
            Body::Reply { outcome, .. } => size::of_answer(outcome.as_ref().ok()),
            Body::WatchNotification { trigger, .. } => size::of_notice(&trigger.path),
            Body::End(_) => 0,
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Duration::from_secs(1) * bytes / bandwidth
    }

    /// Delivers the messages that are due, in order; a held message also delays all later ones.
    pub(super) fn deliver(&mut self, session: SessionId, connection: u64) {
        loop {
            let now = self.now;
            let client = &self.clients[&session];
            if client.connection != connection || client.is_silent {
                return;
            }
            let Some(message) = client.outbox.front() else {
                return;
            };
            if message.due > now || self.is_held(&message.body) {
                return;
            }
            let message = self.client_mut(session).outbox.pop_front();
            match message.map(|message| message.body) {
                None => return,
                Some(Body::End(how)) => self.break_link(session, &how),
                Some(Body::WatchNotification { trigger, zxid }) if self.is_remote(session) => {
                    self.outputs.push(Output::RemoteEvent {
                        session,
                        trigger,
                        zxid,
                    });
                }
                Some(Body::Reply {
                    job, zxid, outcome, ..
                }) if self.is_remote(session) => self.reply_to_remote(job, zxid, outcome),
                Some(Body::WatchNotification { trigger, zxid }) => {
                    self.fire(session, &trigger, zxid);
                }
                Some(Body::Reply {
                    job,
                    zxid,
                    outcome,
                    watch,
                }) => {
                    let watch = watch.map(|watch| (WatchNumber(self.number()), watch));
                    let client = self.client_mut(session);
                    client.in_flight.retain(|one| *one != job);
                    client.seen = client.seen.max(zxid);
                    let number = watch.as_ref().map(|(number, _)| *number);
                    let set = watch.as_ref().map(|(_, set)| set.clone());
                    client.watches.extend(watch);
                    self.request_deferred_removals(session, set.as_ref());
                    let breaks = self.clients[&session].link.breaks;
                    self.complete(job, outcome, ReplyHeader { zxid, breaks }, number);
                }
            }
        }
    }

    pub(super) fn is_held(&self, body: &Body) -> bool {
        match body {
            Body::Reply { job, .. } => self.jobs[*job]
                .rule
                .map(|rule| &self.rules[rule])
                .is_some_and(|rule| rule.act == Act::Hold && !rule.is_released),
            Body::WatchNotification { .. } | Body::End(_) => false,
        }
    }

    /// Sends a reply to a remote client, which completes its requests itself.
    fn reply_to_remote(
        &mut self,
        number: JobNumber,
        zxid: i64,
        outcome: Result<ServerReply, TransportError>,
    ) {
        let job = &mut self.jobs[number];
        let session = job.session;
        job.answered = true;
        job.is_resolved = true;
        let client = self.client_mut(session);
        client.in_flight.retain(|one| *one != number);
        let ending = match &outcome {
            Ok(ServerReply::Closed) => Some(SessionEnd::Closed),
            Err(TransportError::Ended(ending)) => Some(*ending),
            _ => None,
        };
        self.outputs.push(Output::RemoteReply {
            session,
            job: number,
            zxid,
            outcome,
        });
        if let Some(ending) = ending {
            self.end(session, ending);
        }
    }

    /// Completes a request at its client.
    fn complete(
        &mut self,
        number: JobNumber,
        outcome: Result<ServerReply, TransportError>,
        header: ReplyHeader,
        watch: Option<WatchNumber>,
    ) {
        let job = &mut self.jobs[number];
        let session = job.session;
        job.answered = true;
        job.is_resolved = true;
        let ending = match &outcome {
            Ok(ServerReply::Closed) => Some(SessionEnd::Closed),
            Err(TransportError::Ended(ending)) => Some(*ending),
            _ => None,
        };
        let reply = Output::Reply(number, outcome, Some(header), watch);
        self.outputs.push(reply);
        if let Some(ending) = ending {
            self.end(session, ending);
        }
    }

    /// Fails a request at its client.
    pub(super) fn fail(&mut self, number: JobNumber, error: TransportError) {
        self.jobs[number].is_resolved = true;
        let failure = Output::Reply(number, Err(error), None, None);
        self.outputs.push(failure);
    }

    fn fire(&mut self, session: SessionId, trigger: &Trigger, zxid: Option<i64>) {
        let client = self.client_mut(session);
        let met: Vec<_> = client
            .watches
            .iter()
            .filter(|(_, (path, kind))| kind.is_met_by(path, &trigger.path, trigger.event))
            .map(|(number, (_, kind))| (*number, kind.is_persistent()))
            .collect();
        let is_known = |path: &NodePath, kind: WatchKind| {
            *path == trigger.path || kind.is_met_by(path, &trigger.path, trigger.event)
        };
        let mut watches = client.watches.values();
        if !watches.any(|(path, kind)| is_known(path, *kind)) {
            // The client assumes a watch that it has dropped and the server still has.
            self.request_removal(session, trigger.path.clone(), Removal::Any);
        }
        for (number, is_persistent) in met {
            if is_persistent {
                let notice = WatchNotification::Changed {
                    path: trigger.path.clone(),
                    event: trigger.event,
                    zxid,
                };
                self.outputs.push(Output::Notify(number, notice));
            } else {
                self.client_mut(session).watches.remove(&number);
                self.outputs.push(Output::Fire(number, trigger.event));
            }
        }
    }
}
