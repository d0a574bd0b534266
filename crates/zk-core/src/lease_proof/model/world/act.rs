//! What an action changes.

use std::time::Instant;

use super::{Action, Expiry, Kind, Pending, Proposer, STEP, Scene, Server, Stage, World, role};

impl World {
    pub(in super::super) fn after(&self, action: Action, scene: &Scene, base: Instant) -> Self {
        let mut world = self.clone();
        world.act(action, scene, base);
        world
    }

    fn act(&mut self, action: Action, scene: &Scene, base: Instant) {
        let at = |step: u8| base + STEP * u32::from(step);
        let now = at(self.now);
        match action {
            Action::Tick => self.tick(),
            Action::Read => {
                self.left.reads -= 1;
                self.touch();
                self.proof.applied(self.applied.into(), now);
                self.proof.touched(now, now);
            }
            Action::Send(kind) => {
                match kind {
                    Kind::Sync => self.left.syncs -= 1,
                    Kind::Write => self.left.writes -= 1,
                }
                self.send(kind, false);
            }
            Action::RegularSync => {
                self.send(Kind::Sync, true);
                self.next_sync = self.now + scene.sync_every;
                // With its reply, if nothing delays it.
                if self.reaches_leader() {
                    self.process(self.requests.len() - 1);
                    let last = self.requests.len() - 1;
                    if matches!(self.requests[last].stage, Stage::Replied(_)) {
                        self.deliver(last, &at);
                    }
                }
            }
            Action::Process(index) => self.process(index),
            Action::Deliver(index) => self.deliver(index, &at),
            Action::Propose => {
                self.left.others -= 1;
                self.proposals.push(Proposer::Other);
            }
            Action::Commit => self.commit(),
            Action::Ping { omits } => {
                self.next_ping = scene.ping;
                if omits {
                    self.left.omissions -= 1;
                    self.was_omitted = true;
                    self.recorded = None;
                } else if self.recorded.take().is_some() {
                    self.was_omitted = false;
                    self.hear();
                }
            }
            Action::Stop => {
                self.left.stops -= 1;
                self.is_stopped = true;
            }
            Action::Resume => self.is_stopped = false,
            Action::Cut => {
                self.left.cuts -= 1;
                self.is_cut = true;
            }
            Action::Heal => {
                self.is_cut = false;
                self.applied = self.committed;
            }
            Action::Depose { is_acknowledged } => {
                self.left.depositions -= 1;
                self.is_deposed = true;
                if is_acknowledged {
                    self.acknowledged = self.proposals.len();
                }
                self.heard = self.now;
                self.timeout = scene.timeout;
                self.expiry = Expiry::Listed;
            }
            Action::Break { is_seen } => {
                self.left.breaks -= 1;
                self.link = None;
                self.is_cut = false;
                self.recorded = None;
                self.was_omitted = false;
                self.requests.clear();
                self.breaks += 1;
                self.proof.broke(self.breaks, is_seen.then_some(now));
            }
            Action::Attach {
                server,
                is_deposed,
                next_ping,
            } => {
                if self.is_deposed && !is_deposed {
                    // The transactions of the new term are newer.
                    self.committed += 1;
                    self.proposals.clear();
                    self.acknowledged = 0;
                    self.is_stopped = false;
                }
                self.is_deposed = is_deposed;
                self.link = Some(server);
                self.next_ping = next_ping;
                self.applied = self.committed;
                if !is_deposed && self.expiry == Expiry::Listed {
                    self.heard = self.now;
                    self.timeout = scene.granted_by_move;
                }
                self.proof
                    .limit_timeout(STEP * scene.granted_by_move.into());
                if scene.knows_role {
                    self.proof.connected_to(role(server));
                }
                for index in 0..self.requests.len() {
                    self.requests[index].stage = Stage::AtServer;
                    self.record();
                }
            }
            Action::Remove => {
                self.expiry = Expiry::Removed {
                    left: scene.timeout / 20,
                };
            }
            Action::Close => self.expiry = Expiry::Closed,
        }
    }

    fn tick(&mut self) {
        self.now += 1;
        if self.is_pinged() {
            self.next_ping -= 1;
        }
        let is_running = !self.is_quorum_stopped();
        if let Expiry::Removed { left } = &mut self.expiry
            && is_running
        {
            *left -= 1;
        }
    }

    fn send(&mut self, kind: Kind, is_regular: bool) {
        let stage = if self.link.is_some() {
            self.record();
            Stage::AtServer
        } else {
            Stage::Unsent
        };
        self.requests.push(Pending {
            kind,
            sent: self.now,
            stage,
            is_regular,
        });
    }

    /// Our server receives a request: a follower records it.
    fn record(&mut self) {
        if self.link == Some(Server::Follower) {
            self.recorded = self.recorded.or(Some(self.now));
        }
    }

    /// Our server receives a request and handles it itself.
    fn touch(&mut self) {
        self.record();
        self.touch_on_leader();
    }

    fn touch_on_leader(&mut self) {
        if self.link == Some(Server::Leader) && !self.is_deposed {
            self.hear();
        }
    }

    fn hear(&mut self) {
        if self.expiry == Expiry::Listed {
            self.heard = self.now;
        }
    }

    fn process(&mut self, index: usize) {
        self.touch_on_leader();
        let waits = match self.requests[index].kind {
            Kind::Write => {
                self.proposals.push(Proposer::Ours);
                self.proposals.len()
            }
            Kind::Sync if self.link == Some(Server::Leader) => 0,
            Kind::Sync => self.proposals.len(),
        };
        self.requests[index].stage = match waits {
            0 => Stage::Replied(self.applied),
            _ => Stage::AtLeader(waits),
        };
    }

    fn commit(&mut self) {
        self.proposals.remove(0);
        self.acknowledged = self.acknowledged.saturating_sub(1);
        self.committed += 1;
        if !self.is_cut {
            self.applied = self.committed;
        }
        for request in &mut self.requests {
            request.stage = match request.stage {
                Stage::AtLeader(1) => Stage::Replied(self.committed),
                Stage::AtLeader(waits) => Stage::AtLeader(waits - 1),
                other => other,
            };
        }
    }

    fn deliver(&mut self, index: usize, at: &impl Fn(u8) -> Instant) {
        let request = self.requests.remove(index);
        let Stage::Replied(zxid) = request.stage else {
            unreachable!("only replies are delivered");
        };
        let (sent, answered) = (at(request.sent), at(self.now));
        // As `Engine::send` does.
        self.proof.applied(zxid.into(), answered);
        match request.kind {
            Kind::Sync => self.proof.reached(sent, answered),
            Kind::Write => self.proof.committed(sent, answered),
        }
        self.proof.touched(sent, answered);
        if request.kind == Kind::Sync {
            self.proof.synced(sent, zxid.into());
        }
    }
}
