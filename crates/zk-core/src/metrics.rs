//! What sessions report to the facade of the crate `metrics`.

use std::time::Duration;

use metrics::{
    Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use crate::error::{Error, ErrorClass, Operation};
use crate::transport::{Link, Phase, SessionEnd};

/// Gives the recorder of the process the units and descriptions of all metrics of this crate.
///
/// Call it once, after the recorder is installed. The metrics are reported without it, too.
///
/// | name | kind | unit | labels |
/// |---|---|---|---|
/// | `zk_operation_duration_seconds` | histogram | seconds, from the first poll to the result, with all attempts and pauses; a dropped call is not counted | `operation`: the method of [`Session`](crate::Session), or `wait` for both waits; `outcome`: see below |
/// | `zk_retries_total` | counter | requests that were repeated within a call | |
/// | `zk_watches_total` | counter | watches that were set: one for each read with a watch, and one each time a subscription sets its watch | |
/// | `zk_sessions` | gauge | sessions that are not over | `state`: `connected`, `read_only`, `suspended` |
/// | `zk_connection_losses_total` | counter | connections that broke | |
/// | `zk_sessions_ended_total` | counter | sessions | `reason`: `closed`, `expired`, `auth_failed`, `auth_required`, `runtime_ended` |
///
/// The outcomes are `ok`; `refused`: the operation had no effect and would be refused again; `unavailable`: it had no
/// effect, and may succeed later; `unknown`: a write may have been applied; `session_over`.
///
/// No label contains a path, a session id or an address, so the number of time series is bounded.
pub fn describe_metrics() {
    describe_histogram!(
        OPERATION_DURATION,
        Unit::Seconds,
        "Time of an operation from its first poll to its result"
    );
    describe_counter!(RETRIES, Unit::Count, "Requests repeated within a call");
    describe_counter!(WATCHES, Unit::Count, "Watches set");
    describe_gauge!(SESSIONS, Unit::Count, "Sessions that are not over");
    describe_counter!(LOSSES, Unit::Count, "Connections that broke");
    describe_counter!(ENDED, Unit::Count, "Sessions that are over");
}

pub(crate) fn operation_ended<T>(operation: Operation, took: Duration, result: &Result<T, Error>) {
    let Some(operation) = label(operation) else {
        return;
    };
    let outcome = match result {
        Ok(_) => "ok",
        Err(error) if error.is_outcome_unknown() => "unknown",
        Err(error) => match error.class() {
            ErrorClass::Outcome => "refused",
            ErrorClass::Recoverable => "unavailable",
            ErrorClass::Fatal => "session_over",
        },
    };
    histogram!(OPERATION_DURATION, "operation" => operation, "outcome" => outcome).record(took);
}

pub(crate) fn request_repeated() {
    counter!(RETRIES).increment(1);
}

pub(crate) fn watch_set() {
    counter!(WATCHES).increment(1);
}

/// Records that the link of a session was made, has changed, or is gone.
pub(crate) fn link_changed(before: Option<Link>, after: Option<Link>) {
    let phases = [before, after].map(|link| link.map(|link| link.phase));
    if phases[0] != phases[1] {
        for (phase, by) in phases.into_iter().zip([-1.0, 1.0]) {
            if let Some(state) = phase.and_then(state) {
                gauge!(SESSIONS, "state" => state).increment(by);
            }
        }
        let end = match phases {
            [_, Some(Phase::Over(end))] => Some(end),
            // The task that kept the link is gone.
            [Some(Phase::Up | Phase::ReadOnly | Phase::Down), None] => {
                Some(SessionEnd::RuntimeEnded)
            }
            _ => None,
        };
        if let Some(end) = end {
            counter!(ENDED, "reason" => reason(end)).increment(1);
        }
    }
    if let (Some(before), Some(after)) = (before, after) {
        let losses = after.breaks.saturating_sub(before.breaks);
        if losses > 0 {
            counter!(LOSSES).increment(losses);
        }
    }
}

/// Returns the label of a session that is not over.
const fn state(phase: Phase) -> Option<&'static str> {
    match phase {
        Phase::Up => Some("connected"),
        Phase::ReadOnly => Some("read_only"),
        Phase::Down => Some("suspended"),
        Phase::Over(_) => None,
    }
}

const fn reason(end: SessionEnd) -> &'static str {
    match end {
        SessionEnd::Closed => "closed",
        SessionEnd::Expired => "expired",
        SessionEnd::AuthFailed => "auth_failed",
        SessionEnd::AuthRequired => "auth_required",
        SessionEnd::RuntimeEnded => "runtime_ended",
    }
}

/// Returns the label of an operation; `None` for those whose duration is not measured.
const fn label(operation: Operation) -> Option<&'static str> {
    Some(match operation {
        Operation::Create => "create",
        Operation::Get => "get",
        Operation::Set => "set",
        Operation::Update => "update",
        Operation::Exists => "exists",
        Operation::Stat => "stat",
        Operation::List => "list",
        Operation::GetMany => "get_many",
        Operation::ListMany => "list_many",
        Operation::WhoAmI => "whoami",
        Operation::Ephemerals => "ephemerals",
        Operation::DescendantCount => "descendant_count",
        Operation::GetConfig => "config",
        Operation::Delete => "delete",
        Operation::Sync => "sync",
        Operation::GetAcl => "acl",
        Operation::SetAcl => "set_acl",
        Operation::Transaction => "transaction",
        Operation::Subscribe => "subscribe",
        Operation::Track => "track",
        Operation::Wait => "wait",
        Operation::RenewLease | Operation::Connect | Operation::AddAuth | Operation::Close => {
            return None;
        }
    })
}

const OPERATION_DURATION: &str = "zk_operation_duration_seconds";
const RETRIES: &str = "zk_retries_total";
const WATCHES: &str = "zk_watches_total";
const SESSIONS: &str = "zk_sessions";
const LOSSES: &str = "zk_connection_losses_total";
const ENDED: &str = "zk_sessions_ended_total";
