//! Runs requests concurrently, sent in order.

use std::pin::Pin;
use std::task::Poll;

/// Runs requests concurrently. Sends all in order before it awaits the first reply.
pub(crate) async fn join_all<T>(
    requests: impl IntoIterator<Item = impl Future<Output = T>>,
) -> Vec<T> {
    struct Slot<F, T> {
        future: Pin<Box<F>>,
        output: Option<T>,
    }
    let mut slots: Vec<_> = requests
        .into_iter()
        .map(|future| Slot {
            future: Box::pin(future),
            output: None,
        })
        .collect();
    std::future::poll_fn(|context| {
        let mut pending = false;
        for slot in slots.iter_mut().filter(|slot| slot.output.is_none()) {
            match slot.future.as_mut().poll(context) {
                Poll::Ready(output) => slot.output = Some(output),
                Poll::Pending => pending = true,
            }
        }
        if pending {
            Poll::Pending
        } else {
            Poll::Ready(())
        }
    })
    .await;
    slots.into_iter().filter_map(|slot| slot.output).collect()
}
