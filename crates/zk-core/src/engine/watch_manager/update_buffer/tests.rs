//! A slow consumer eventually knows every change.

use std::task::Waker;

use proptest::prelude::*;
use zk_wire::NodePath;

use super::*;
use crate::transport::WatchEvent;

fn change() -> SubscriptionEvent {
    SubscriptionEvent::Changed {
        path: NodePath::root(),
        event: WatchEvent::DataChanged,
        zxid: None,
    }
}

/// What there is to take.
fn take(buffer: &UpdateBuffer) -> Option<Update> {
    match buffer.poll_next(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(update) => update,
        Poll::Pending => None,
    }
}

/// What is in a buffer of two after all this: a change, Stale, Resynchronize.
fn kept(received: &str) -> String {
    let buffer = UpdateBuffer::new(Kinds::all(), 2);
    for received in received.chars() {
        match received {
            'c' => buffer.push(change()),
            's' => buffer.push(SubscriptionEvent::Stale),
            'r' => buffer.push(SubscriptionEvent::Resynchronize),
            _ => buffer.end(),
        }
    }
    let mut kept = String::new();
    while let Some(update) = take(&buffer) {
        kept.push(match update {
            Update::Changed { .. } => 'c',
            Update::Stale => 's',
            Update::Resynchronize => 'r',
            Update::SessionLost => 'e',
        });
    }
    kept
}

#[test]
fn redundant_updates_are_left_out() {
    for (received, expected) in [
        ("rcc", "rcc"),
        ("rccc", "r"),
        ("rcccc", "rc"),
        ("rcsrc", "rcsrc"),
        ("rcsrcs", "rcs"),
        ("rcsrcsrc", "rcsrc"),
        ("srsrsrsr", "sr"),
        ("rcrc", "rc"),
        ("rccsr", "rccsr"),
        ("rccsrc", "r"),
        ("rcesrc", "rce"),
        ("see", "se"),
    ] {
        assert_eq!(kept(received), expected, "{received}");
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// A node changes, and the consumer is notified if it is subscribed.
    Happens,
    Break,
    Return,
    /// The consumer takes one.
    Take,
}

proptest! {
    #[test]
    fn consumer_that_reads_after_updates_knows_the_newest(
        steps in prop::collection::vec(
            prop_oneof![
                4 => Just(Step::Happens),
                1 => Just(Step::Break),
                2 => Just(Step::Return),
                3 => Just(Step::Take),
            ],
            0..60,
        ),
        most in 1..4_usize,
    ) {
        let buffer = UpdateBuffer::new(Kinds::all(), most);
        let (mut newest, mut known, mut is_live, mut thinks_live) = (0, 0, false, false);
        let mut read = |newest: u32, thinks_live: &mut bool| {
            match take(&buffer) {
                Some(Update::Resynchronize) => { known = newest; *thinks_live = true; }
                Some(Update::Changed { .. }) => { assert!(*thinks_live); known = newest; }
                Some(Update::Stale) => *thinks_live = false,
                _ => return (false, known),
            }
            (true, known)
        };
        for step in steps {
            match step {
                Step::Happens => {
                    newest += 1;
                    if is_live {
                        buffer.push(change());
                    }
                }
                Step::Break => if std::mem::replace(&mut is_live, false) {
                    buffer.push(SubscriptionEvent::Stale);
                }
                Step::Return => { is_live = true; buffer.push(SubscriptionEvent::Resynchronize); }
                Step::Take => { read(newest, &mut thinks_live); }
            }
            prop_assert!(buffer.lock().queue.len() <= most + 3);
        }
        let mut known = 0;
        loop {
            let (goes_on, now) = read(newest, &mut thinks_live);
            known = known.max(now);
            if !goes_on {
                break;
            }
        }
        prop_assert_eq!(thinks_live, is_live);
        if is_live {
            prop_assert_eq!(known, newest);
        }
    }
}
