//! A client that enters and leaves rounds, following the protocol of the code.

use super::tree::{MemberId, Servers, Tree};
use super::{Flaw, Record, Scenario};
use crate::decision::{EnterStep, LeaveStep, Opening, RoundCount, enter_step, leave_step};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Client {
    server: usize,
    /// Its newest transaction, which its server applies before it replies.
    wrote: i64,
    /// How many rounds are left, with this one.
    rounds: u8,
    pub(super) phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// About to join a round.
    Idle,
    /// In a round, about to read it.
    Joined { own: MemberId },
    /// Its server notifies it when the round is opened.
    Waiting { own: MemberId },
    /// About to open the round.
    Opening {
        own: MemberId,
        withdrawals: i32,
        counted: Vec<MemberId>,
    },
    /// About to withdraw.
    Withdrawing { own: MemberId },
    /// Came after the opening; about to check whether one of these is in the round: the opener, unless there is a flaw.
    Validating {
        own: MemberId,
        round: RoundId,
        candidates: Option<Vec<MemberId>>,
    },
    /// Came after the opening, and the opener is gone.
    Excluded { own: MemberId, round: RoundId },
    /// Has passed.
    Inside { own: MemberId, round: RoundId },
    /// About to find out whether the round is over. With `returns`, it then has left; otherwise it enters the next one.
    Ending {
        own: Option<MemberId>,
        round: RoundId,
        returns: bool,
    },
    /// About to delete its node and to wait for another member.
    Going {
        own: MemberId,
        until_gone: MemberId,
        round: RoundId,
    },
    /// Waits for the end of another member.
    Watching {
        own: Option<MemberId>,
        until_gone: MemberId,
        round: RoundId,
        returns: bool,
        is_armed: bool,
    },
    /// About to close the round.
    Closing {
        own: Option<MemberId>,
        round: RoundId,
        returns: bool,
    },
    /// Has no round left, or withdrew.
    Done,
}

/// A round, and how it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RoundId {
    number: u8,
    opened: i64,
    opener: MemberId,
}

impl Client {
    pub(super) fn new(server: usize, rounds: u8) -> Self {
        Self {
            server,
            wrote: 0,
            rounds,
            phase: Phase::Idle,
        }
    }

    pub(super) fn is_inside(&self, round: u8) -> bool {
        matches!(&self.phase, Phase::Inside { round: own, .. } if own.number == round)
    }

    pub(super) fn time_out(&mut self) {
        if let Phase::Waiting { own } = self.phase {
            self.phase = Phase::Withdrawing { own };
        }
    }

    /// Enters again with another session, if rounds are left.
    pub(super) fn crash(&mut self) {
        self.rounds -= 1;
        self.phase = self.next();
    }

    fn next(&self) -> Phase {
        if self.rounds == 0 {
            Phase::Done
        } else {
            Phase::Idle
        }
    }

    pub(super) fn can_step(&self, servers: &Servers, flaw: Flaw) -> bool {
        let tree = servers.at(self.server);
        if tree.zxid < self.wrote {
            return false;
        }
        match &self.phase {
            Phase::Done => false,
            Phase::Waiting { .. } => tree.opening.is_some(),
            Phase::Watching {
                until_gone,
                round,
                is_armed,
                ..
            } => *is_armed && (!tree.has(*until_gone) || tree.round != round.number),
            Phase::Ending {
                own: None, round, ..
            } if flaw == Flaw::WaitsForMembersOnly => {
                tree.round != round.number || !tree.members.is_empty()
            }
            _ => true,
        }
    }

    pub(super) fn step(
        &mut self,
        at: usize,
        servers: &mut Servers,
        record: &mut Record,
        scenario: &Scenario,
        inside: &impl Fn(u8) -> usize,
    ) {
        let flaw = scenario.flaw;
        let tree = servers.at(self.server).clone();
        self.phase = match self.phase.clone() {
            Phase::Idle => {
                let own = self.join(at, servers);
                Phase::Joined { own }
            }
            Phase::Joined { own } | Phase::Waiting { own } => enter(own, &tree, scenario),
            Phase::Opening {
                own,
                withdrawals,
                counted,
            } => {
                let opened = servers.execute(|tree| {
                    let is_same =
                        tree.withdrawals == withdrawals || flaw == Flaw::IgnoresWithdrawals;
                    let opens = is_same && tree.has(own) && tree.opening.is_none();
                    tree.opening = tree.opening.or(Some((tree.zxid, own)));
                    opens
                });
                if let Some(zxid) = opened {
                    self.wrote = zxid;
                    record.counted.push(counted);
                }
                Phase::Joined { own }
            }
            Phase::Withdrawing { own } => self.withdraw(own, servers, record, flaw),
            Phase::Validating {
                own,
                round,
                candidates,
            } => {
                let mut candidates = candidates.unwrap_or_else(|| {
                    let members = tree.members.iter().copied();
                    let others = members
                        .filter(|member| *member != own && flaw == Flaw::ValidatesWithAnyMember);
                    let mut all: Vec<_> = others.collect();
                    all.push(round.opener);
                    all
                });
                match candidates.pop() {
                    None => Phase::Excluded { own, round },
                    Some(other) => {
                        let where_checked = match flaw {
                            Flaw::ValidatesByRead => &tree,
                            _ => servers.leader(),
                        };
                        if flaw == Flaw::EntersOpenRound || where_checked.has(other) {
                            let mut members = servers.leader().members.iter();
                            record.passed_alone |=
                                !members.any(|member| member.czxid < round.opened);
                            Phase::Inside { own, round }
                        } else {
                            let candidates = Some(candidates);
                            Phase::Validating {
                                own,
                                round,
                                candidates,
                            }
                        }
                    }
                }
            }
            Phase::Excluded { own, round } => {
                self.delete(own, servers);
                Phase::Ending {
                    own: None,
                    round,
                    returns: false,
                }
            }
            Phase::Inside { own, round } if own == round.opener => Phase::Ending {
                own: Some(own),
                round,
                returns: true,
            },
            Phase::Inside { own, round } => Phase::Going {
                own,
                until_gone: round.opener,
                round,
            },
            Phase::Going {
                own,
                until_gone,
                round,
            } => {
                self.delete(own, servers);
                Phase::Watching {
                    own: None,
                    until_gone,
                    round,
                    returns: true,
                    is_armed: flaw != Flaw::WatchesBlindly || tree.has(until_gone),
                }
            }
            Phase::Watching { returns, round, .. } if flaw == Flaw::LeavesWithOpener && returns => {
                self.leave(round, record, inside)
            }
            Phase::Watching {
                own,
                round,
                returns,
                ..
            } => Phase::Ending {
                own,
                round,
                returns,
            },
            Phase::Ending {
                round,
                returns: true,
                ..
            } if tree.round != round.number => self.leave(round, record, inside),
            Phase::Ending { round, .. } if tree.round != round.number => Phase::Idle,
            Phase::Ending {
                own,
                round,
                returns,
            } => end(own, round, returns, &tree),
            Phase::Closing {
                own,
                round,
                returns,
            } => {
                self.close(own, servers);
                Phase::Ending {
                    own,
                    round,
                    returns,
                }
            }
            Phase::Done => Phase::Done,
        };
    }

    fn join(&mut self, owner: usize, servers: &mut Servers) -> MemberId {
        let mut own = MemberId { owner, czxid: 0 };
        let joined = servers.execute(|tree| {
            own.czxid = tree.zxid;
            tree.members.push(own);
            true
        });
        self.wrote = joined.unwrap_or(self.wrote);
        own
    }

    fn delete(&mut self, own: MemberId, servers: &mut Servers) {
        self.wrote = servers.delete(own).unwrap_or(self.wrote);
    }

    fn withdraw(
        &mut self,
        own: MemberId,
        servers: &mut Servers,
        record: &mut Record,
        flaw: Flaw,
    ) -> Phase {
        if flaw == Flaw::LeavesNodeAtTimeout {
            record.withdrawn.push(own);
            return Phase::Done;
        }
        let withdrawn = servers.execute(|tree| {
            let may = tree.opening.is_none() || flaw == Flaw::WithdrawsFromOpenRound;
            tree.withdrawals += 1;
            tree.members.retain(|member| *member != own);
            may
        });
        if let Some(zxid) = withdrawn {
            self.wrote = zxid;
            record.withdrawn.push(own);
            Phase::Done
        } else {
            // Its server has applied the opening before it reports the refusal.
            self.wrote = servers.leader().zxid;
            Phase::Joined { own }
        }
    }

    /// The nodes of a round with another member cannot be deleted.
    fn close(&mut self, own: Option<MemberId>, servers: &mut Servers) {
        let closed = servers.execute(|tree| {
            let is_empty = tree.members.iter().all(|member| Some(*member) == own);
            let has_own = own.is_none_or(|own| tree.has(own));
            let closes = is_empty && has_own && tree.opening.is_some();
            tree.round += 1;
            tree.opening = None;
            tree.withdrawals = 0;
            tree.members.clear();
            closes
        });
        // Its server has applied what a refusal is based on.
        self.wrote = closed.unwrap_or_else(|| servers.leader().zxid);
    }

    fn leave(
        &mut self,
        round: RoundId,
        record: &mut Record,
        inside: &impl Fn(u8) -> usize,
    ) -> Phase {
        record.left_early |= inside(round.number) > 0;
        self.rounds -= 1;
        self.next()
    }
}

/// What a member of a round does next.
fn enter(own: MemberId, tree: &Tree, scenario: &Scenario) -> Phase {
    let members = tree.members.len() + usize::from(scenario.flaw == Flaw::CountsState);
    let count = RoundCount {
        changed: tree.zxid,
        members: u32::try_from(members).expect("there are few members"),
        withdrawals: tree.withdrawals,
    };
    let opening = tree.opening.map(|(zxid, opener)| Opening {
        zxid,
        opener: opener.name(),
    });
    let round = tree.opening.map(|(opened, opener)| RoundId {
        number: tree.round,
        opened,
        opener,
    });
    match (
        enter_step(own.czxid, opening.as_ref(), count, scenario.threshold),
        round,
    ) {
        (EnterStep::Pass, Some(round)) => Phase::Inside { own, round },
        (EnterStep::Validate, Some(round)) => Phase::Validating {
            own,
            round,
            candidates: None,
        },
        (EnterStep::Open { withdrawals }, _) => Phase::Opening {
            own,
            withdrawals,
            counted: tree.members.clone(),
        },
        (EnterStep::Wait, _) => Phase::Waiting { own },
        (EnterStep::ReadAgain | EnterStep::Pass | EnterStep::Validate, _) => Phase::Joined { own },
    }
}

/// What a member that leaves, or has left, does next.
fn end(own: Option<MemberId>, round: RoundId, returns: bool, tree: &Tree) -> Phase {
    let named = |name: &str| {
        let mut members = tree.members.iter().copied();
        members.find(|member| member.name() == name)
    };
    let own = own.filter(|own| tree.has(*own));
    let names: Vec<String> = tree.members.iter().map(|member| member.name()).collect();
    let name = own.map(MemberId::name);
    let opener = round.opener.name();
    match leave_step(&names, name.as_deref(), &opener) {
        LeaveStep::Close => Phase::Closing {
            own,
            round,
            returns,
        },
        LeaveStep::Stay { until_gone } => Phase::Watching {
            own,
            until_gone: named(until_gone).expect("it was listed"),
            round,
            returns,
            is_armed: true,
        },
        LeaveStep::Go { until_gone } => {
            let until_gone = named(until_gone).expect("it was listed");
            match own {
                Some(own) => Phase::Going {
                    own,
                    until_gone,
                    round,
                },
                None => Phase::Watching {
                    own,
                    until_gone,
                    round,
                    returns,
                    is_armed: true,
                },
            }
        }
    }
}
