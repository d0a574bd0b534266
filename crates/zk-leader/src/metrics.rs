//! What elections report to the facade of the crate `metrics`.

use std::time::Duration;

use metrics::{Unit, describe_gauge, describe_histogram, gauge, histogram};

use crate::error::LeadershipLoss;
use crate::state::ParticipantState;

/// Gives the recorder of the process the units and descriptions of all metrics of this crate.
///
/// Call it once, after the recorder is installed. The metrics are reported without it, too.
/// Those of sessions are described by `zk_core::describe_metrics`.
///
/// | name | kind | unit | labels |
/// |---|---|---|---|
/// | `zk_leader_participants` | gauge | participants of this process that have not left, a [`Selector`](crate::Selector) from its creation on | `state`: `joining`, `waiting`, `leading` |
/// | `zk_leader_leadership_duration_seconds` | histogram | seconds, from the beginning of a leadership until its lease is over; of a selector that resigns, until its task has ended | `reason`: `resigned`, `node_deleted`, `session_lease_expired`, `session_lost` |
///
/// The count of the histogram is the number of leaderships that are over, so its rate is how often the leader changes.
/// Over all processes, the sum of the participants that lead is 1, and 0 while none does; it may be 2 for a moment,
/// because processes report at different times.
/// How long a participant waited for its turn is not reported: in an election that is days, and means nothing.
///
/// No label contains a path or an id of a participant, so the number of time series is bounded.
pub fn describe_metrics() {
    describe_gauge!(PARTICIPANTS, Unit::Count, "Participants that have not left");
    describe_histogram!(
        LEADERSHIP_DURATION,
        Unit::Seconds,
        "Time of a leadership from its beginning until its lease is over"
    );
}

/// Records that a participant was made, has another state, or is gone.
pub(crate) fn state_changed(before: Option<&ParticipantState>, after: Option<&ParticipantState>) {
    let labels = [before, after].map(|state| state.and_then(label));
    if labels[0] != labels[1] {
        for (label, by) in labels.into_iter().zip([-1.0, 1.0]) {
            if let Some(label) = label {
                gauge!(PARTICIPANTS, "state" => label).increment(by);
            }
        }
    }
}

pub(crate) fn leadership_ended(reason: LeadershipLoss, lasted: Duration) {
    let reason = match reason {
        LeadershipLoss::Resigned => "resigned",
        LeadershipLoss::NodeDeleted => "node_deleted",
        LeadershipLoss::SessionLeaseExpired => "session_lease_expired",
        LeadershipLoss::SessionLost => "session_lost",
    };
    histogram!(LEADERSHIP_DURATION, "reason" => reason).record(lasted);
}

/// Returns the label of a participant that has not left.
const fn label(state: &ParticipantState) -> Option<&'static str> {
    match state {
        ParticipantState::Joining { .. } => Some("joining"),
        ParticipantState::Waiting { .. } => Some("waiting"),
        ParticipantState::Leading(_) => Some("leading"),
        ParticipantState::Ended(_) => None,
    }
}

const PARTICIPANTS: &str = "zk_leader_participants";
const LEADERSHIP_DURATION: &str = "zk_leader_leadership_duration_seconds";
