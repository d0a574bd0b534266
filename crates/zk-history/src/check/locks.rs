//! Judges each lock of a history by the rules that all kinds of locks share.
//!
//! Pure: no I/O and no clock.

use super::hold_intervals::{Hold, Holds};
use super::timeline::seconds;
use super::verdict::{Evidence, Verdict};
use crate::History;

/// Judges each lock, after the rules that all kinds of locks share.
///
/// A history without grants cannot be judged.
pub(super) fn judge_each<'h>(
    checker: &str,
    history: &'h History,
    mut judge: impl FnMut(&str, &[Hold<'h>], &mut Verdict),
) -> Verdict {
    let mut verdict = Verdict::new(checker);
    for (path, calls) in history.by_path() {
        let holds = Holds::of(&calls, history);
        count(&mut verdict, &holds);
        released_twice(&mut verdict, &holds);
        judge(path, &holds.granted, &mut verdict);
    }
    if verdict.counted("grants") == 0 {
        verdict.cannot_judge("the history has no acquire that was granted");
    }
    verdict
}

/// Reports two holders at a time; the acquire of the first returned first.
pub(super) fn overlap(path: &str, first: &Hold<'_>, second: &Hold<'_>, verdict: &mut Verdict) {
    let both = first.span.intersection(second.span);
    if both.is_empty() {
        return;
    }
    verdict.violation(
        "overlap",
        || {
            format!(
                "{} was granted {path} while {} still relied on it: both did for {}",
                second.name(),
                first.name(),
                seconds(both.nanos())
            )
        },
        [first.evidence(), second.evidence()],
    );
}

/// Reports a later holder whose token is not higher.
pub(super) fn lower_token(path: &str, before: &Hold<'_>, hold: &Hold<'_>, verdict: &mut Verdict) {
    verdict.violation(
        "token not higher",
        || {
            format!(
                "{} held {path} after {}: the token must be higher",
                hold.name(),
                before.name()
            )
        },
        [before.evidence(), hold.evidence()],
    );
}

/// Counts the grants of one lock.
fn count(verdict: &mut Verdict, holds: &Holds<'_>) {
    verdict.count("grants", holds.granted.len());
    verdict.count("acquires unknown", holds.unknown);
    verdict.count("acquires failed", holds.failed);
}

/// Requires at most one successful release per grant.
fn released_twice(verdict: &mut Verdict, holds: &Holds<'_>) {
    for (release, earlier) in &holds.extra_releases {
        let (client, op) = (&release.client, &release.op);
        let evidence = earlier.iter().chain([release]);
        verdict.violation(
            "released twice",
            || match earlier {
                Some(_) => format!("{client}: {op} succeeded a second time for one grant"),
                None => format!("{client}: {op} succeeded though it held nothing"),
            },
            evidence.copied().map(Evidence::of),
        );
    }
}
