//! The states that a consumer sees, for every short history of a link.

use super::*;
use crate::transport::{LinkSender, SessionEnd};

/// Every history of up to `length` changes that a link can have.
fn histories(length: usize) -> Vec<Vec<Link>> {
    let mut all = vec![vec![Link {
        phase: Phase::Up,
        breaks: 0,
    }]];
    let mut last = all.clone();
    for _ in 0..length {
        let mut longer = Vec::new();
        for history in &last {
            let now = *history.last().expect("a history has a beginning");
            let was_connected = matches!(now.phase, Phase::Up | Phase::ReadOnly);
            let breaks = now.breaks + u64::from(was_connected);
            let nexts: &[Phase] = match now.phase {
                Phase::Over(_) => &[],
                _ => &[
                    Phase::Up,
                    Phase::ReadOnly,
                    Phase::Down,
                    Phase::Over(SessionEnd::Expired),
                ],
            };
            for &phase in nexts
                .iter()
                .filter(|&&next| was_connected || next != now.phase)
            {
                let mut history = history.clone();
                history.push(Link { phase, breaks });
                longer.push(history);
            }
        }
        all.extend(longer.iter().cloned());
        last = longer;
    }
    all
}

/// What a consumer sees who looks only at the links that `looks` picks.
fn received(history: &[Link], looks: u32) -> Vec<ConnectionState> {
    let mut seen = Seen {
        state: None,
        breaks: 0,
    };
    let mut received = Vec::new();
    for (at, link) in history.iter().enumerate() {
        let is_last = at + 1 == history.len();
        if !is_last && looks & (1 << at) == 0 {
            continue;
        }
        while let Some((state, next)) = step(seen, *link) {
            seen = next;
            received.push(state);
            if state.is_lost() {
                break;
            }
        }
    }
    received
}

#[test]
fn order_is_right_whenever_the_consumer_looks() {
    use ConnectionState::{Connected, ReadOnly, Suspended};
    const LOST: ConnectionState = ConnectionState::Lost(SessionEnd::Expired);
    for history in histories(5) {
        for looks in 0..1 << history.len() {
            let received = received(&history, looks);
            let context = format!("{history:?} looked at {looks:b}: {received:?}");
            let last = ConnectionState::of(history.last().unwrap().phase);
            assert_eq!(received.last(), Some(&last), "{context}");
            let lost = received.iter().filter(|&&state| state == LOST).count();
            assert_eq!(lost, usize::from(last == LOST), "{context}");
            for pair in received.windows(2) {
                assert!(
                    matches!(
                        (pair[0], pair[1]),
                        (Connected | ReadOnly, Suspended | LOST)
                            | (Suspended, Connected | ReadOnly | LOST)
                    ),
                    "{context}"
                );
            }
        }
    }
}

#[tokio::test]
async fn end_of_the_transport_is_reported_as_loss() {
    let sender = LinkSender::new(Link {
        phase: Phase::Up,
        breaks: 0,
    });
    let mut changes = StateChanges::new(sender.subscribe());
    assert_eq!(changes.next().await, Some(ConnectionState::Connected));
    drop(sender);
    let ended = ConnectionState::Lost(SessionEnd::RuntimeEnded);
    assert_eq!(changes.next().await, Some(ended));
    assert_eq!(changes.next().await, None);
}
