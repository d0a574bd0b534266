//! The canonical form of a state.

use std::time::{Duration, Instant};

use super::{Expiry, STEP, Stage, World};
use crate::lease_proof::LeaseProof;
use crate::transport::ServerRole;

impl World {
    /// Returns the state relative to its time: states with equal keys have equal futures.
    pub(in super::super) fn key(&self, base: Instant) -> Box<[i8]> {
        let ago = |step: u8| number(self.now) - number(step);
        let steps = |duration: Duration| {
            i8::try_from(duration.as_nanos() / STEP.as_nanos()).expect("a short run")
        };
        let since = |instant: Instant| number(self.now) - steps(instant - base);
        let maybe = |instant: Option<Instant>| instant.map_or(NEVER, since);
        let left = self.left;
        let mut key = vec![
            left.reads,
            left.syncs,
            left.writes,
            left.others,
            left.stops,
            left.cuts,
            left.depositions,
            left.breaks,
            left.omissions,
            ago(self.heard),
            number(self.timeout),
            match self.expiry {
                Expiry::Listed => -1,
                Expiry::Removed { left } => number(left),
                Expiry::Closed => -2,
            },
            self.link.map_or(0, |server| 1 + server as i8),
            i8::from(self.is_deposed)
                | i8::from(self.is_stopped) << 1
                | i8::from(self.is_cut) << 2
                | i8::from(self.was_omitted) << 3,
            number(self.next_ping),
            self.recorded.map_or(NEVER, ago),
            self.committed,
            self.applied,
            number(self.acknowledged),
            ago(self.next_sync),
            number(self.proposals.len()),
        ];
        key.extend(self.proposals.iter().map(|proposer| *proposer as i8));
        key.push(number(self.requests.len()));
        for request in &self.requests {
            let stage = match request.stage {
                Stage::Unsent => [0, 0],
                Stage::AtServer => [1, 0],
                Stage::AtLeader(waits) => [2, number(waits)],
                Stage::Replied(zxid) => [3, zxid],
            };
            key.extend([request.kind as i8, ago(request.sent)]);
            key.extend(stage);
            key.push(request.is_regular.into());
        }
        let LeaseProof {
            timeout,
            touches,
            heard,
            // Counts only in a session that the quorum does not know.
            opened: _,
            last_reach,
            last_commit,
            broken,
            // The same as how many breaks are left.
            breaks: _,
            role,
            sync,
            flaw: _,
        } = &self.proof;
        key.extend([
            steps(*timeout),
            maybe(*heard),
            since(*last_reach),
            since(*last_commit),
            maybe(*broken),
            role.map_or(0, |role| if role == ServerRole::Leader { 1 } else { 2 }),
            sync.map_or(NEVER, |sync| since(sync.sent)),
            sync.map_or(NEVER, |sync| number(sync.zxid)),
        ]);
        for touch in touches {
            key.extend([
                since(touch.sent),
                since(touch.answered),
                since(touch.from),
                steps(touch.gap),
                touch.has_moved.into(),
            ]);
        }
        key.into()
    }
}

fn number(value: impl TryInto<i8>) -> i8 {
    value.try_into().ok().expect("numbers are small")
}

const NEVER: i8 = i8::MIN;
