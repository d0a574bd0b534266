//! Computes the interval in which each holder relied on its grant.
//!
//! Pure: no I/O and no clock.

use std::collections::HashMap;

use super::verdict::{Evidence, Span};
use crate::{Call, Client, History, Mode, Op};

/// A grant, with the interval in which its holder relied on it.
#[derive(Debug, Clone)]
pub(super) struct Hold<'a> {
    pub(super) call: &'a Call,
    /// The interval in which the holder certainly relied on it, from the return of the acquire.
    pub(super) span: Span,
    /// The call that released it.
    pub(super) release: Option<&'a Call>,
}

/// All grants of one lock, and the releases without a grant.
#[derive(Debug, Default)]
pub(super) struct Holds<'a> {
    /// In the order in which the acquires returned.
    pub(super) granted: Vec<Hold<'a>>,
    /// Releases that succeeded without a grant, each with an earlier release of the same grant.
    pub(super) extra_releases: Vec<(&'a Call, Option<&'a Call>)>,
    /// The number of acquires with an unknown outcome.
    pub(super) unknown: usize,
    /// The number of acquires that failed.
    pub(super) failed: usize,
}

impl<'a> Hold<'a> {
    pub(super) fn client(&self) -> &'a Client {
        &self.call.client
    }

    pub(super) fn token(&self) -> Option<u64> {
        self.call
            .outcome
            .return_value()
            .and_then(|answer| answer.token)
    }

    pub(super) fn sequence(&self) -> Option<i64> {
        self.call
            .outcome
            .return_value()
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

    /// Formats the client and the token for a report.
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
    pub(super) fn of(calls: &[&'a Call], history: &History) -> Self {
        let mut holds = Self::default();
        // Grants count from their return, releases from their invoke; at the same time, grants come first.
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
                });
            }
        }
        for hold in &mut holds.granted {
            hold.end(history);
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
            Op::Release { of: Some(id), .. } => known.get(&(release.client.process, id)).copied(),
            _ => self.last_of(of_client.get(&release.client).map_or(&[], Vec::as_slice)),
        };
        let Some(hold) = hold else {
            if release.outcome.is_ok() {
                self.extra_releases.push((release, None));
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
                self.extra_releases.push((release, Some(earlier)));
            }
            // A failed release may be repeated.
            Some(_) if release.outcome.is_ok() => hold.release = Some(release),
            Some(_) => {}
        }
    }

    /// Finds the last grant without a release, or else the last one if its release did not succeed.
    fn last_of(&self, grants: &[usize]) -> Option<usize> {
        let release_of = |grant: &usize| self.granted[*grant].release;
        let mut newest_first = grants.iter().rev();
        let open = newest_first.find(|grant| release_of(grant).is_none());
        let tried =
            |grant: &&usize| release_of(grant).is_some_and(|release| !release.outcome.is_ok());
        open.or_else(|| grants.last().filter(tried)).copied()
    }
}

impl Hold<'_> {
    /// Ends the span at the first sign that the holder no longer relied on it.
    fn end(&mut self, history: &History) {
        if let Some(until) = self.call.believed_until {
            self.span.to = self.span.to.min(until);
        }
        if self.release.is_none() {
            // A process relies on its grants while it is certainly alive, and at least for an instant.
            let alive = history.last_line_of(&self.call.client);
            self.span.to = self.span.to.min(alive.max(self.span.from + 1));
        }
        self.span.to = self.span.to.max(self.span.from);
    }
}
