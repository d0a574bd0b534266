//! Each request of a round is lost, or its reply is, or it arrives while the next server lags.

use std::time::Duration;

use zk_barrier::EnterError;
use zk_core::ErrorKind;
use zk_core::transport::{MultiOp, Request, TransportError};
use zk_sim::wait::{pass, soon};
use zk_sim::{Ensemble, Proposal, Script, Scripted, matching};

use crate::{ROUND, double, members};

fn withdraws(request: &Request) -> bool {
    match request {
        Request::Multi(parts) => matches!(
            parts[..],
            [
                MultiOp::Check { .. },
                MultiOp::SetData { .. },
                MultiOp::Delete { .. }
            ]
        ),
        _ => false,
    }
}

fn opens(request: &Request) -> bool {
    match request {
        Request::Multi(parts) => matches!(
            parts[..],
            [
                MultiOp::Check { .. },
                MultiOp::Check { .. },
                MultiOp::SetData { .. }
            ]
        ),
        _ => false,
    }
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Request,
    Reply,
    Stall,
    Postpone,
    Leader,
}

impl Fault {
    const ALL: [Self; 5] = [
        Self::Request,
        Self::Reply,
        Self::Stall,
        Self::Postpone,
        Self::Leader,
    ];

    fn add(self, script: Script, to: usize) -> Scripted {
        match self {
            Self::Request => script.lose_request(),
            Self::Reply => script.lose_reply(),
            Self::Stall => script.stall_then_move(to),
            Self::Postpone => script.postpone(),
            Self::Leader => script.kill_leader(Proposal::Survives),
        }
    }
}

/// Two members enter and leave twice, while the `nth` request of the first is hit; returns whether there was one.
async fn two_rounds(fault: Fault, nth: usize, outage: Duration) -> bool {
    let ensemble = Ensemble::builder().reconnect_after(outage).build();
    let connect = async |server| {
        let connect = ensemble.connect().timeout(Duration::from_secs(60));
        let session = connect.server(server).await;
        session.with_operation_timeout(Duration::from_secs(1))
    };
    let (one, two) = (connect(1).await, connect(2).await);
    let what = format!("{fault:?} of request {nth}, {outage:?} without a connection");
    let script = ensemble.on(matching::anything()).session(one.id()).nth(nth);
    let scripted = fault.add(script, 3);
    let rounds = async |session: &zk_core::Session| {
        let barrier = double(session, 2);
        let mut rounds = Vec::new();
        for _ in 0..2 {
            let member = barrier.enter().await.expect(&what);
            rounds.push(member.round());
            member.leave().await.expect(&what);
        }
        rounds
    };
    let both = async { tokio::join!(rounds(&one), rounds(&two)) };
    let (ours, others) = soon(&what, both).await;
    assert_eq!(ours, others, "{what}");
    assert!(ours[0] < ours[1], "{what}");
    let was_hit = scripted.count() > 0;
    scripted.withdraw();
    ensemble.heal();
    pass(Duration::from_secs(10)).await;
    assert_eq!(members(&ensemble), 0, "{what}");
    assert_eq!(ensemble.watch_count(), 0, "{what}");
    was_hit
}

#[tokio::test(start_paused = true)]
async fn two_rounds_survive_any_loss_and_long_outages() {
    // Operations would time out after a second.
    for outage in [Duration::from_millis(100), Duration::from_secs(8)] {
        for fault in Fault::ALL {
            let mut nth = 1;
            while two_rounds(fault, nth, outage).await {
                nth += 1;
            }
            assert!(nth > 10, "{fault:?}: only {nth} requests");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_without_a_reply_is_settled() {
    for fault in Fault::ALL {
        let ensemble = Ensemble::new(3);
        let (one, two) = (ensemble.connect().await, ensemble.connect().await);
        let scripted = fault.add(ensemble.on(withdraws).session(one.id()), 3);
        let entered = double(&one, 2).enter_timeout(Duration::from_secs(1)).await;
        let error = entered.unwrap_err();
        assert!(
            matches!(error, EnterError::TimedOut { .. }),
            "{fault:?}: {error}"
        );
        assert!(scripted.count() == 1, "{fault:?}");
        assert_eq!(members(&ensemble), 0, "{fault:?}");
        let second = double(&two, 2);
        let second = second.enter_timeout(Duration::from_secs(1)).await;
        assert!(second.is_err(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_counted_member_that_withdraws_first_keeps_the_round_shut() {
    // The second member has counted two; its request to open the round arrives after the first has withdrawn.
    let ensemble = Ensemble::builder()
        .reconnect_after(Duration::from_secs(2))
        .build();
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let first = double(&one, 2);
    let first = tokio::spawn(async move { first.enter_timeout(Duration::from_secs(1)).await });
    pass(Duration::from_millis(500)).await;
    let postponed = ensemble.on(opens).session(two.id()).nth(1).postpone();
    let second = double(&two, 2);
    let second = tokio::spawn(async move { second.enter_timeout(Duration::from_secs(9)).await });
    for entering in [first, second] {
        let error = soon("it is decided", entering).await.unwrap().unwrap_err();
        assert!(
            matches!(error, EnterError::TimedOut { .. }),
            "one passed a barrier of two alone, or {error}"
        );
    }
    assert_eq!(postponed.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_round_read_before_joining_the_next_one_is_read_again() {
    // The third member reads an open round, and its create arrives in the next one.
    let ensemble = Ensemble::new(3);
    let (one, two) = (ensemble.connect().await, ensemble.connect().await);
    let three = ensemble.connect().await;
    let (first, second) = (double(&one, 2), double(&two, 2));
    let (first, second) = tokio::join!(first.enter(), second.enter());
    let (first, second) = (first.unwrap(), second.unwrap());
    let round = first.round();
    let later = TransportError::Later(ErrorKind::Throttled);
    let creates = ensemble.on(matching::creates("**")).session(three.id());
    let delayed = creates.every().refuse(later);
    // If it looked for the last opener, it would not find out before the next member has counted it.
    let looks = |request: &Request| match request {
        Request::Multi(parts) => {
            matches!(parts[..], [MultiOp::Check { .. }, MultiOp::Check { .. }])
        }
        _ => false,
    };
    let looks = ensemble.on(looks).session(three.id()).hold();
    let late = double(&three, 2);
    let late = tokio::spawn(async move { late.enter().await });
    delayed.happened().await;
    pass(Duration::from_millis(50)).await;
    let (first, second) = tokio::join!(first.leave(), second.leave());
    first.and(second).unwrap();
    delayed.withdraw();
    soon("it joins", async {
        while members(&ensemble) == 0 {
            pass(Duration::from_millis(10)).await;
        }
    })
    .await;
    let next = double(&one, 2);
    let next = tokio::spawn(async move { next.enter().await });
    pass(Duration::from_secs(1)).await;
    looks.withdraw();
    let late = soon("it passes", late).await.unwrap().unwrap();
    let next = soon("the next one passes", next).await.unwrap().unwrap();
    assert!(next.round() > round);
    assert_eq!(late.round(), next.round());
}

/// A third member comes while the other two leave and one of them enters again, and its `nth` request is hit; returns
/// whether there was one.
async fn late_member(fault: Fault, nth: usize) -> bool {
    let ensemble = Ensemble::builder()
        .reconnect_after(Duration::from_millis(300))
        .build();
    let one = ensemble.connect().server(1).await;
    let two = ensemble.connect().server(2).await;
    let three = ensemble.connect().server(3).await;
    let what = format!("{fault:?} of request {nth}");
    let (first, second) = (double(&one, 2), double(&two, 2));
    let (first, second) = tokio::join!(first.enter(), second.enter());
    let (first, second) = (first.expect(&what), second.expect(&what));
    let last = first.round();
    let script = ensemble
        .on(matching::anything())
        .session(three.id())
        .nth(nth);
    let scripted = fault.add(script, 1);
    let late = Box::pin(async {
        loop {
            let member = double(&three, 2).enter().await.expect(&what);
            if member.round() != last {
                return member;
            }
            member.leave().await.expect(&what);
        }
    });
    let again = Box::pin(async {
        let (first, second) = tokio::join!(first.leave(), second.leave());
        first.and(second).expect(&what);
        double(&one, 2).enter().await.expect(&what)
    });
    let (late, again) = soon(&what, async { tokio::join!(late, again) }).await;
    assert_eq!(late.round(), again.round(), "{what}");
    assert!(again.round() > last, "{what}");
    let (late, again) = tokio::join!(late.leave(), again.leave());
    late.and(again).expect(&what);
    scripted.count() > 0
}

#[tokio::test(start_paused = true)]
async fn a_late_member_survives_the_loss_of_any_request() {
    for fault in Fault::ALL {
        let mut nth = 1;
        while Box::pin(late_member(fault, nth)).await {
            nth += 1;
        }
        assert!(nth > 4, "{fault:?}: only {nth} requests");
    }
}

#[tokio::test(start_paused = true)]
async fn a_withdrawal_that_is_not_confirmed_is_reported() {
    let ensemble = Ensemble::new(3);
    let (one, two) = (
        ensemble.connect().timeout(Duration::from_secs(60)).await,
        ensemble.connect().await,
    );
    let one = one.with_operation_timeout(Duration::from_secs(3));
    let barrier = double(&one, 2);
    let entering = tokio::spawn(async move { barrier.enter_timeout(Duration::from_secs(1)).await });
    pass(Duration::from_millis(500)).await;
    ensemble.session(one.id()).partition();
    pass(Duration::from_secs(3)).await;
    assert!(!entering.is_finished());
    let entered = soon("the operation timeout is over", entering).await;
    let error = entered.unwrap().unwrap_err();
    assert!(
        matches!(error, EnterError::OutcomeUnknown { .. }),
        "{error}"
    );
    // It may be counted until it is connected again; then its node is removed.
    assert_eq!(members(&ensemble), 1);
    ensemble.heal();
    one.settled().await;
    assert_eq!(members(&ensemble), 0);
    let alone = double(&two, 2).enter_timeout(Duration::from_secs(1)).await;
    assert!(matches!(alone, Err(EnterError::TimedOut { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_zero_withdraws_or_passes() {
    for server in 1..4 {
        let ensemble = Ensemble::new(3);
        let session = ensemble.connect().server(server).await;
        let alone = double(&session, 2).enter_timeout(Duration::ZERO).await;
        let error = alone.unwrap_err();
        assert!(matches!(error, EnterError::TimedOut { .. }), "{error}");
        assert_eq!(members(&ensemble), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_member_does_not_pass_after_a_refused_opening() {
    let outage = Duration::from_secs(10);
    let ensemble = Ensemble::builder().reconnect_after(outage).build();
    let one = ensemble.connect().timeout(Duration::from_secs(60)).await;
    let two = ensemble.connect().await;
    let postponed = ensemble.on(opens).session(one.id()).postpone();
    let barrier = double(&one, 1);
    let entering = tokio::spawn(async move { barrier.enter().await });
    postponed.happened().await;
    let tree = ensemble.tree();
    let round = tree.node(ROUND).unwrap();
    let name = round.children().find(|name| *name != "state").unwrap();
    two.delete(format!("{ROUND}/{name}")).await.unwrap();
    // A member withdraws, which refuses the opening; another one opens the round.
    let alone = double(&two, 2).enter_timeout(Duration::from_secs(1)).await;
    assert!(matches!(alone, Err(EnterError::TimedOut { .. })));
    let opener = double(&two, 1).enter().await.unwrap();
    let error = soon("it is notified", entering).await.unwrap().unwrap_err();
    assert!(matches!(error, EnterError::NodeDeleted { .. }), "{error}");
    opener.leave().await.unwrap();
}
