//! Processes that stand still or die while they hold a lock.

use std::time::Duration;

use zk_history::check::FencedRegister;
use zk_tests::contention::{Event, Register, turns};
use zk_tests::peers::monotonic;

use super::{
    LONG, SOON, contend, judged, names, observer, three_servers, three_servers_with, until_empty,
    until_enlisted, worker,
};

/// Long enough that a pause of the machine does not end it.
const SESSION_TIMEOUT: Duration = Duration::from_secs(15);

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_stood_still_finds_its_lock_lost_before_it_acts_and_its_writes_refused() {
    let run = judged("stopped-holder");
    let run = run.judged_by(FencedRegister::default()).unwrap();
    let ensemble = three_servers().await;
    run.keep_with(ensemble.directories());
    let session = observer(&ensemble).await;
    session.create("/lock", "").await.unwrap();
    session.create("/data", "first").await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("register");
    let mark = |text: &str| format!("mark {} {text}", file.display());

    let connect = ensemble.connect_string();
    let mut holder = worker(&run, "holder", &connect, "/lock", SESSION_TIMEOUT).await;
    // It must not be the one that is late on a busy machine.
    let mut next = worker(&run, "next", &connect, "/lock", 4 * SESSION_TIMEOUT).await;
    let (old, _) = holder.acquire(SOON).await.unwrap();
    assert_eq!(holder.write("set /data second").await.unwrap().err(), None);
    assert_eq!(holder.write(&mark("second")).await.unwrap().err(), None);
    next.tell("acquire 120000").await.unwrap();
    until_enlisted(&session, "/lock", 2).await;

    holder.pause().unwrap();
    let (new, _) = next.acquired(LONG).await.unwrap();
    assert!(new > old);
    assert_eq!(next.write("set /data third").await.unwrap().err(), None);
    assert_eq!(next.write(&mark("third")).await.unwrap().err(), None);
    let going_on = u64::try_from(monotonic().as_nanos()).unwrap();
    holder.resume().unwrap();

    // A shorter pause is one of the machine.
    let (resumed, (stood, valid)) = holder
        .next_at("its first look", SOON, |event| match event {
            Event::Resumed { stood, valid } => {
                let stood = Duration::from_nanos(*stood);
                (stood > SESSION_TIMEOUT / 2).then_some((stood, *valid))
            }
            _ => None,
        })
        .await
        .unwrap();
    assert!(!valid, "after {stood:?} the first check saw a valid guard");
    let (told, loss) = holder
        .next_at("the loss", SOON, |event| match event {
            Event::Lost { loss } => Some(loss.clone()),
            _ => None,
        })
        .await
        .unwrap();
    assert!(told > going_on, "it was notified before it continued");
    let delay = Duration::from_nanos(told - going_on);
    println!(
        "stood {stood:?}, looked {:?} after the signal and was notified {delay:?} after it: {loss}",
        Duration::from_nanos(resumed - going_on)
    );

    // And if it acts without a look.
    let refused = holder.write("set /data late").await.unwrap().unwrap_err();
    println!("the guarded write was refused: {refused}");
    let refused = holder.write(&mark("late")).await.unwrap().unwrap_err();
    assert_eq!(refused, format!("token {old} is below {new}"));
    session.sync("/data").with_quorum().await.unwrap();
    let (data, _) = session.get("/data").await.unwrap();
    assert_eq!(data, "third");
    let register = Register::new(&file).read().unwrap();
    assert_eq!(register, (new, "third".to_owned()));
    assert!(!holder.is_valid().await.unwrap());

    let lost = holder.release().await.unwrap();
    assert!(!lost.kept, "{lost:?}");
    assert!(next.release().await.unwrap().kept);
    holder.quit().await.unwrap();
    next.quit().await.unwrap();
    until_empty(&session, "/lock").await;
    let report = run.finish().unwrap();
    assert_eq!(report.verdicts[0].counts["grants"], 2);
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lock_of_a_killed_process_is_granted_when_its_session_ends() {
    const TICK: Duration = Duration::from_millis(500);
    let run = judged("killed-holder");
    let ensemble = three_servers_with(TICK, 10).await;
    run.keep_with(ensemble.directories());
    let session = observer(&ensemble).await;
    let connect = ensemble.connect_string();
    let mut holder = worker(&run, "holder", &connect, "/lock", SESSION_TIMEOUT).await;
    // It must not be the one that is late on a busy machine.
    let mut next = worker(&run, "next", &connect, "/lock", 4 * SESSION_TIMEOUT).await;
    let (old, _) = holder.acquire(SOON).await.unwrap();
    next.tell("acquire 120000").await.unwrap();
    until_enlisted(&session, "/lock", 2).await;

    let killed = u64::try_from(monotonic().as_nanos()).unwrap();
    holder.kill().await.unwrap();
    let (granted, token) = next
        .next_at("the lock", LONG, |event| match event {
            Event::Acquired { token, .. } => Some(*token),
            _ => None,
        })
        .await
        .unwrap();
    assert!(token > old);
    assert!(granted > killed, "it was granted while the holder lived");
    let waited = Duration::from_nanos(granted - killed);
    println!("granted {waited:?} after the kill");
    // The servers take two ticks more at most, and a busy machine takes some time.
    assert!(waited <= 3 * SESSION_TIMEOUT, "{waited:?}");
    next.release().await.unwrap();
    next.quit().await.unwrap();
    until_empty(&session, "/lock").await;
    run.finish().unwrap();
    ensemble.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chroot_is_no_border_for_a_lock() {
    let run = judged("chroot");
    let ensemble = three_servers().await;
    run.keep_with(ensemble.directories());
    let session = observer(&ensemble).await;
    session.create("/app/one", "").parents().await.unwrap();
    session.create("/app/one/lock", "").await.unwrap();
    let plain = ensemble.connect_string();
    let chroot = format!("{plain}/app/one");
    let mut inside = worker(&run, "inside", &chroot, "/lock", SESSION_TIMEOUT * 4).await;
    let (_, node) = inside.acquire(SOON).await.unwrap();
    let held = names(&session, "/app/one/lock").await;
    assert_eq!(held, [node].into());
    assert!(inside.release().await.unwrap().kept);

    let outside = worker(
        &run,
        "outside",
        &plain,
        "/app/one/lock",
        SESSION_TIMEOUT * 4,
    )
    .await;
    let mut records = Vec::new();
    for worker in contend(vec![inside, outside], "contend 20 1".to_owned()).await {
        records.extend(worker.quit().await.unwrap());
    }
    let turns = turns(&records);
    assert_eq!(turns.len(), 41);
    assert!(turns.iter().all(|turn| turn.kept), "{turns:#?}");
    until_empty(&session, "/app/one/lock").await;
    let report = run.finish().unwrap();
    assert_eq!(report.verdicts[0].counts["grants"], 41);
    ensemble.down().await.unwrap();
}
