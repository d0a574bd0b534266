//! Dropping a future after every number of polls.

use std::time::Duration;

use zk_core::Session;
use zk_sim::{DropFault, Ensemble};

use crate::{ephemerals, pass, polled, soon};

/// Drops `act` after every number of polls, until it finishes earlier, and checks each time that nothing is left.
/// Before that, `hold` acquires something that another contender holds for `held`.
pub(crate) async fn everywhere<H: Send + 'static>(
    held: Option<Duration>,
    hold: impl AsyncFn(Session) -> H,
    act: impl AsyncFn(Session),
) {
    for drop_fault in DropFault::ALL {
        for polls in 0.. {
            let what = format!("{drop_fault:?} after {polls} polls");
            let ensemble = Ensemble::new(3);
            let session: Session = ensemble.connect().server(1).await;
            let other = ensemble.connect().server(3).await;
            let holding = match held {
                Some(_) => Some(hold(other.clone()).await),
                None => None,
            };
            let releasing = tokio::spawn(async move {
                if let Some(holding) = holding {
                    pass(held.unwrap_or_default()).await;
                    drop(holding);
                }
                other.settled().await;
            });
            let done = soon(&what, polled(polls, act(session.clone())))
                .await
                .is_some();
            drop_fault.inject(&ensemble, session.id());
            soon(&what, releasing).await.unwrap();
            soon(&what, session.settled()).await;
            // A request still in flight would have been executed by now.
            pass(Duration::from_secs(3)).await;
            assert_eq!(ephemerals(&ensemble), [""; 0], "{what}");
            assert_eq!(ensemble.watch_count(), 0, "{what}");
            // The session is still usable.
            drop(soon(&what, hold(session.clone())).await);
            if done {
                assert!(polls > 1, "{what}");
                break;
            }
        }
    }
}
