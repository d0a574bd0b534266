//! A mutex that its holder may acquire again.
//!
//! Pure: no I/O and no clock.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::holds::{Hold, Latest};
use super::mutex::{judge_each, overlap, tokens_rise};
use super::verdict::{Findings, Verdict};
use crate::{Client, History};

/// At most one client at a time relies on the lock; that client may acquire it again, and then gets the same token.
///
/// A client is a process, or a task of it if it records one. It holds the lock until it has released all its grants.
/// The rules are those of [`FencedMutex`](super::FencedMutex), without an order, and one more: `token changed`, if a
/// client that holds the lock is granted it again with another token.
///
/// Time is O(n log n) in the number of operations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ReentrantMutex {
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    session_timeout: Option<Duration>,
}

impl ReentrantMutex {
    /// Excuses holders that were paused for as long as this or longer. Default: nobody is excused.
    #[must_use]
    pub const fn with_session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = Some(timeout);
        self
    }

    /// Judges a history.
    pub fn check(&self, history: &History) -> Verdict {
        let findings = judge_each(history, self.session_timeout, |lock, findings| {
            let path = lock.path;
            let outer = outermost(path, &lock.granted, findings);
            findings.count("re-entries", lock.granted.len() - outer.len());
            let mut latest = Latest::default();
            for hold in outer.iter().filter(|hold| !hold.span.is_empty()) {
                if let Some(other) = latest.of_all() {
                    overlap(path, other, hold, findings);
                }
                latest.add(hold);
            }
            tokens_rise(path, &outer, findings);
        });
        findings.verdict("reentrant-mutex")
    }
}

/// Joins each grant with those that the same client was given while it held the lock.
fn outermost<'a>(path: &str, holds: &[Hold<'a>], findings: &mut Findings) -> Vec<Hold<'a>> {
    let mut outer: Vec<Hold<'a>> = Vec::new();
    let mut of_client: HashMap<&Client, usize> = HashMap::new();
    for hold in holds {
        let holding = of_client
            .get(hold.client())
            .copied()
            .filter(|at| hold.span.from < outer[*at].span.to);
        let Some(at) = holding else {
            of_client.insert(hold.client(), outer.len());
            outer.push(hold.clone());
            continue;
        };
        let (first, again) = (outer[at].token(), hold.token());
        if first.is_some() && again.is_some() && first != again {
            findings.violation(
                "token changed",
                || {
                    format!(
                        "{} held {path} already, as {}: to acquire it again changes no token",
                        hold.name(),
                        outer[at].name()
                    )
                },
                [outer[at].evidence(), hold.evidence()],
            );
        }
        outer[at].span.to = outer[at].span.to.max(hold.span.to);
    }
    outer
}

#[cfg(test)]
mod tests;
