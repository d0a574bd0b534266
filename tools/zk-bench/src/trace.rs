//! Splits the time of a hand-over between the clients, the network and the servers.

use std::sync::Arc;
use std::time::Duration;

use zk_fault_proxy::{Event, EventKind, Op};

use crate::round::Latencies;

/// The duration of each step of a hand-over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    /// From the call of `release` until `acquire` returned.
    whole: Duration,
    /// From the arrival of the delete at the proxy until the proxy had forwarded it.
    passing: Duration,
    /// From then until the server's notification for the waiter arrived at the proxy.
    servers: Duration,
    /// From the notification until the reply to the delete arrived.
    reply: Duration,
}

impl Trace {
    /// Returns whether the waiter has read the node, which also sets its watch, and received the reply.
    pub fn is_watched(events: &[Event], node: &Arc<str>) -> bool {
        events.iter().any(|event| match &event.kind {
            EventKind::Delivered { request, code: 0 } => {
                request.op == Op::GetData && request.paths.iter().any(|path| **path == **node)
            }
            _ => false,
        })
    }

    /// Computes the steps from what a proxy saw of the deletion of `node`; `whole` is the time that the client
    /// measured.
    pub fn of(events: &[Event], node: &Arc<str>, whole: Duration) -> Option<Self> {
        let at = |is_it: &dyn Fn(&EventKind) -> bool| {
            let event = events.iter().find(|event| is_it(&event.kind))?;
            Some(event.at)
        };
        let is_delete = |paths: &[String]| paths.iter().any(|path| **path == **node);
        let requested =
            at(&|kind| matches!(kind, EventKind::Requested(request) if is_delete(&request.paths)))?;
        let forwarded =
            at(&|kind| matches!(kind, EventKind::Forwarded(request) if is_delete(&request.paths)))?;
        let notified = at(&|kind| matches!(kind, EventKind::Notified { path } if path == node))?;
        let replied = at(
            &|kind| matches!(kind, EventKind::Replied { request, .. } if is_delete(&request.paths)),
        )?;
        Some(Self {
            whole,
            passing: forwarded.saturating_sub(requested),
            servers: notified.saturating_sub(forwarded),
            reply: replied.saturating_sub(notified),
        })
    }

    /// Returns the name of each step, with its times in all hand-overs.
    pub fn steps(traces: &[Self]) -> Vec<(&'static str, Latencies)> {
        let all = |step: fn(&Self) -> Duration| {
            let mut latencies = Latencies::default();
            for trace in traces {
                latencies.record(step(trace));
            }
            latencies
        };
        vec![
            (
                "the whole: release called, the next acquire returned",
                all(|one| one.whole),
            ),
            (
                "servers: delete received, committed by a quorum, the waiter notified",
                all(|one| one.servers),
            ),
            (
                "both clients, the proxy's second half and loopback",
                all(|one| one.whole.saturating_sub(one.servers + one.passing)),
            ),
            ("the proxy's first half", all(|one| one.passing)),
            (
                "not waited for: the reply to the delete, after the notification",
                all(|one| one.reply),
            ),
        ]
    }
}
