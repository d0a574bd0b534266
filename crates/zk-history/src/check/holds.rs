//! Who held what, and for how long they relied on it.
//!
//! Pure: no I/O and no clock.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::verdict::{Evidence, Span};
use crate::{Call, Client, Fault, History, Mode, Op};

/// A grant, from when the holder was told of it until it relied on it no more.
#[derive(Debug, Clone)]
pub(super) struct Hold<'a> {
    pub(super) call: &'a Call,
    /// For how long the holder relied on it, as far as that is certain.
    pub(super) span: Span,
    /// How it was given back.
    pub(super) release: Option<&'a Call>,
    /// Whether the span ends early because the holder's process was paused for longer than its session lasts.
    pub(super) paused: bool,
}

/// All grants of one lock, and the releases that belong to none.
#[derive(Debug, Default)]
pub(super) struct Holds<'a> {
    /// In the order in which the holders were told.
    pub(super) granted: Vec<Hold<'a>>,
    /// Releases that succeeded though nothing was held, each with the earlier release of the same grant.
    pub(super) strays: Vec<(&'a Call, Option<&'a Call>)>,
    /// Acquires that nobody knows the outcome of.
    pub(super) unknown: usize,
    /// Acquires that were not granted.
    pub(super) failed: usize,
}

/// The times for which processes were paused for longer than their sessions last.
#[derive(Debug, Default)]
pub(super) struct Pauses<'a> {
    by_process: HashMap<&'a str, Vec<&'a Fault>>,
}

/// The latest ends of holds, of two clients, so that one of them is somebody else.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Latest<'h, 'a> {
    first: Option<&'h Hold<'a>>,
    /// Of another client than the first one.
    second: Option<&'h Hold<'a>>,
}

impl<'a> Hold<'a> {
    pub(super) fn client(&self) -> &'a Client {
        &self.call.client
    }

    pub(super) fn token(&self) -> Option<u64> {
        self.call.outcome.answer().and_then(|answer| answer.token)
    }

    pub(super) fn sequence(&self) -> Option<i64> {
        self.call
            .outcome
            .answer()
            .and_then(|answer| answer.sequence)
    }

    pub(super) fn is_shared(&self) -> bool {
        matches!(
            self.call.op,
            Op::Acquire {
                mode: Mode::Shared,
                ..
            }
        )
    }

    pub(super) fn permits(&self) -> u64 {
        match self.call.op {
            Op::Acquire { permits, .. } => permits.into(),
            _ => 0,
        }
    }

    pub(super) fn evidence(&self) -> Evidence {
        Evidence::with_span(self.call, self.span)
    }

    /// As reports name it.
    pub(super) fn name(&self) -> String {
        let client = self.client();
        self.token().map_or_else(
            || client.to_string(),
            |token| format!("{client} (token {token})"),
        )
    }
}

impl<'a> Holds<'a> {
    /// Finds the grants among the calls of one lock.
    pub(super) fn of(calls: &[&'a Call], history: &History, pauses: &Pauses<'_>) -> Self {
        let mut holds = Self::default();
        // Grants count from their return, releases from their invoke; of one moment the grant comes first.
        let mut events: Vec<(u64, bool, &'a Call)> = Vec::with_capacity(calls.len());
        for call in calls {
            match (&call.op, call.returned) {
                (Op::Acquire { .. }, Some(at)) if call.outcome.is_ok() => {
                    events.push((at, false, call));
                }
                (Op::Acquire { .. }, _) if call.outcome.is_failed() => holds.failed += 1,
                (Op::Acquire { .. }, _) => holds.unknown += 1,
                (Op::Release { .. }, _) => events.push((call.invoked, true, call)),
                _ => {}
            }
        }
        events.sort_by_key(|(at, is_release, _)| (*at, *is_release));
        let mut known: HashMap<(usize, u64), usize> = HashMap::new();
        let mut of_client: HashMap<&Client, Vec<usize>> = HashMap::new();
        for (at, is_release, call) in events {
            if is_release {
                holds.release(call, &known, &of_client);
            } else {
                known.insert((call.client.process, call.id), holds.granted.len());
                of_client
                    .entry(&call.client)
                    .or_default()
                    .push(holds.granted.len());
                holds.granted.push(Hold {
                    call,
                    span: Span::new(at, u64::MAX),
                    release: None,
                    paused: false,
                });
            }
        }
        for hold in &mut holds.granted {
            hold.end(history, pauses);
        }
        holds
    }

    fn release(
        &mut self,
        release: &'a Call,
        known: &HashMap<(usize, u64), usize>,
        of_client: &HashMap<&Client, Vec<usize>>,
    ) {
        let hold = match release.op {
            Op::Release { of: Some(id), .. } => {
                match known.get(&(release.client.process, id)) {
                    Some(hold) => Some(*hold),
                    // It is about a grant that nobody was told of.
                    None if !release.outcome.is_ok() => return,
                    None => None,
                }
            }
            _ => self.last_of(of_client.get(&release.client).map_or(&[], Vec::as_slice)),
        };
        let Some(hold) = hold else {
            if release.outcome.is_ok() {
                self.strays.push((release, None));
            }
            return;
        };
        let hold = &mut self.granted[hold];
        match hold.release {
            None => {
                hold.release = Some(release);
                hold.span.to = release.invoked;
            }
            Some(earlier) if earlier.outcome.is_ok() && release.outcome.is_ok() => {
                self.strays.push((release, Some(earlier)));
            }
            // A release that did not work is tried again.
            Some(_) if release.outcome.is_ok() => hold.release = Some(release),
            Some(_) => {}
        }
    }

    /// The last grant that is not released, or else the last one whose release is not known to have worked.
    fn last_of(&self, grants: &[usize]) -> Option<usize> {
        let newest = |wanted: &dyn Fn(&Hold<'_>) -> bool| {
            let mut newest_first = grants.iter().rev();
            newest_first
                .find(|grant| wanted(&self.granted[**grant]))
                .copied()
        };
        // The newest few are looked at: a client that holds many at a time names which one it releases.
        let recent = grants.len().saturating_sub(RECENT);
        let grants = &grants[recent..];
        let open = grants
            .iter()
            .rev()
            .find(|grant| self.granted[**grant].release.is_none());
        open.copied().or_else(|| {
            newest(&|hold| hold.release.is_some_and(|release| !release.outcome.is_ok()))
                .filter(|grant| grants.last() == Some(grant))
        })
    }
}

impl Hold<'_> {
    /// Settles for how long the holder relied on it.
    fn end(&mut self, history: &History, pauses: &Pauses<'_>) {
        if let Some(until) = self.call.believed_until {
            self.span.to = self.span.to.min(until);
        }
        if self.release.is_none() {
            // A process relies on what it holds for as long as it certainly is alive, if only for the moment in which it
            // was told; then nobody knows.
            let alive = history.last_sign_of(&self.call.client);
            self.span.to = self.span.to.min(alive.max(self.span.from + 1));
        }
        let until = self.release.and_then(|release| release.returned);
        let held = Span::new(self.call.invoked, until.unwrap_or(u64::MAX));
        if let Some(pause) = pauses.of(&self.call.client.name, held) {
            self.paused = pause.begun < self.span.to;
            self.span.to = self.span.to.min(pause.begun);
        }
        self.span.to = self.span.to.max(self.span.from);
    }
}

impl<'a> Pauses<'a> {
    /// The pauses that are longer than `session_timeout`; none if there is no such time.
    pub(super) fn longer_than(session_timeout: Option<Duration>, history: &'a History) -> Self {
        let mut pauses = Self::default();
        let Some(timeout) = session_timeout else {
            return pauses;
        };
        for fault in history.faults.iter().filter(|fault| fault.name == PAUSE) {
            let lasted = fault
                .ended
                .map(|ended| Span::new(fault.begun, ended).duration());
            if lasted.is_none_or(|lasted| lasted >= timeout) {
                let process = pauses.by_process.entry(fault.target.as_str());
                process.or_default().push(fault);
            }
        }
        pauses
    }

    /// The first pause of a process within a time.
    fn of(&self, process: &str, time: Span) -> Option<&'a Fault> {
        let pauses = self.by_process.get(process)?;
        let mut within = pauses.iter().filter(|pause| {
            pause.begun < time.to && pause.ended.is_none_or(|ended| time.from < ended)
        });
        within.next().copied()
    }
}

impl<'h, 'a> Latest<'h, 'a> {
    pub(super) fn add(&mut self, hold: &'h Hold<'a>) {
        match self.first {
            Some(first) if first.client() == hold.client() => {
                if first.span.to < hold.span.to {
                    self.first = Some(hold);
                }
            }
            Some(first) if hold.span.to <= first.span.to => {
                if self
                    .second
                    .is_none_or(|second| second.span.to < hold.span.to)
                {
                    self.second = Some(hold);
                }
            }
            _ => {
                self.second = self.first;
                self.first = Some(hold);
            }
        }
    }

    /// The one that ends last.
    pub(super) fn of_all(&self) -> Option<&'h Hold<'a>> {
        self.first
    }

    /// The one of somebody else that ends last.
    pub(super) fn of_others(&self, client: &Client) -> Option<&'h Hold<'a>> {
        self.first
            .filter(|first| first.client() != client)
            .or(self.second)
    }
}

/// The calls of each path, in their order.
pub(super) fn by_path(history: &History) -> BTreeMap<&str, Vec<&Call>> {
    let mut paths: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in &history.calls {
        paths.entry(call.op.path()).or_default().push(call);
    }
    paths
}

/// A fault of this name is a pause of the process that is its target.
const PAUSE: &str = "pause";
const RECENT: usize = 64;
