//! A connection that is cut at every byte, and one that writes and reads a few bytes at a time.

use std::future::Future;

use zk_core::Session as Observer;
use zk_fault_proxy::codec::{FrameDecoder, RequestBody};
use zk_sim::Ensemble;
use zk_wire::session::{Outcome, Ticket};
use zk_wire::{CreateMode, MultiOp, Request};

use crate::byte_stream::{Client, Cut, PlantedBug};
use crate::{node, node_path};

/// Where the client is when its connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// It opens its session; the requests wait for that.
    Opening,
    /// It has a session and watches, and sends the requests.
    Established,
    /// It has lost a connection, resumes its session and sets its watches again; then it sends the requests.
    Resuming,
}

/// What becomes of requests that are not sent when the connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unsent {
    /// They go on the next connection.
    Resent,
    /// The client takes them back.
    Cancelled,
}

fn set(path: &str) -> Request {
    Request::SetData {
        path: node_path(path),
        data: b"set"[..].into(),
        version: None,
    }
}

/// The requests, each with a node by which its effect is recognised.
fn requests() -> Vec<(Request, &'static str)> {
    vec![
        (
            Request::Create(node("/made", CreateMode::Persistent)),
            "/made",
        ),
        (set("/data"), "/data"),
        (
            Request::Delete {
                path: node_path("/gone"),
                version: None,
            },
            "/gone",
        ),
        (
            Request::Multi(vec![
                MultiOp::Create2(node("/part", CreateMode::Persistent)),
                MultiOp::Check {
                    path: node_path("/data"),
                    version: None,
                },
            ]),
            "/part",
        ),
        (
            Request::Create2(node("/own", CreateMode::Ephemeral)),
            "/own",
        ),
    ]
}

/// Returns whether the effect of a request is in the tree.
fn is_carried_out(ensemble: &Ensemble, mark: &str) -> bool {
    let tree = ensemble.tree();
    match mark {
        "/data" => tree.node(mark).is_some_and(|node| node.data() == b"set"),
        "/gone" => tree.node(mark).is_none(),
        _ => tree.node(mark).is_some(),
    }
}

async fn ensemble() -> (Ensemble, Observer) {
    let ensemble = Ensemble::new(3);
    let observer = ensemble.connect().await;
    for path in ["/data", "/gone", "/watched", "/below"] {
        observer.create(path, "old").await.expect("it is created");
    }
    (ensemble, observer)
}

/// The watches of the client, and what fires each.
async fn watches(client: &mut Client) -> [Ticket; 4] {
    let path = node_path("/watched");
    let requests = [
        Request::GetData {
            path: path.clone(),
            watch: true,
        },
        Request::GetChildren2 { path, watch: true },
        Request::Exists {
            path: node_path("/missing"),
            watch: true,
        },
        Request::AddWatch {
            path: node_path("/below"),
            recursive: true,
        },
    ];
    let tickets = requests.map(|request| client.submit(&request));
    client
        .until("watches", |client| {
            tickets.iter().all(|one| client.outcome(*one).is_some())
        })
        .await;
    tickets
}

/// Changes everything that is watched.
async fn change(observer: &Observer) -> Result<(), zk_core::Error> {
    observer.set("/watched", "changed").await?;
    observer.create("/watched/child", "").await?;
    observer.create("/missing", "").await?;
    observer.create("/below/child", "").await?;
    Ok(())
}

/// Returns the requests that were written as a whole.
fn written_whole(bytes: &[u8]) -> Vec<RequestBody> {
    let mut decoder = FrameDecoder::for_client();
    decoder.buffer().extend_from_slice(bytes);
    let mut bodies = Vec::new();
    // The first one is the handshake.
    let _handshake = decoder.next_piece();
    while let Some(piece) = decoder.next_piece() {
        if let Ok((xid, _, body)) = RequestBody::decode(piece.payload())
            && xid > 0
        {
            bodies.push(body);
        }
    }
    bodies
}

fn is_about(body: &RequestBody, mark: &str) -> bool {
    match body {
        RequestBody::Create(create) => create.path == mark,
        RequestBody::SetData { path, .. } | RequestBody::Delete { path, .. } => path == mark,
        RequestBody::Multi(parts) => parts.iter().any(|part| is_about(&part.body, mark)),
        _ => false,
    }
}

/// Runs the scenario with one cut; returns whether the connection lasted long enough to be cut there.
async fn run(
    when: When,
    cut: Cut,
    step: usize,
    unsent: Unsent,
    bug: PlantedBug,
) -> Result<bool, String> {
    let (ensemble, observer) = ensemble().await;
    let mut client = Client::new(&ensemble, step, bug);
    let mut watched = None;
    if when != When::Opening {
        client.until("session", |client| client.epochs() == 1).await;
        watched = Some(watches(&mut client).await);
    }
    let id = client.session.id();
    match when {
        When::Opening => client.cut = cut,
        When::Established => client.cut = later(cut, &client),
        When::Resuming => {
            client.break_connection();
            client.cut = cut;
        }
    }
    let requests = requests();
    let tickets: Vec<Ticket> = requests
        .iter()
        .map(|(request, _)| client.submit(request))
        .collect();

    // Until the cut, or until everything is answered.
    client
        .until("cut", |client| {
            client.cut == Cut::Never || tickets.iter().all(|one| client.outcome(*one).is_some())
        })
        .await;
    if client.cut != Cut::Never {
        return Ok(false);
    }
    let sent = written_whole(&client.written);
    let mut cancelled = Vec::new();
    if unsent == Unsent::Cancelled {
        cancelled = tickets.clone();
        cancelled.retain(|ticket| client.session.cancel(*ticket));
    }

    // What the client misses: it has no connection now.
    if watched.is_some() {
        change(&observer).await.map_err(|error| error.to_string())?;
    }
    client
        .until("outcomes", |client| {
            let mut left = tickets.iter().filter(|one| !cancelled.contains(one));
            left.all(|one| client.outcome(*one).is_some()) && client.epochs() > 0
        })
        .await;
    client.until_idle().await;

    if when != When::Opening && client.session.id() != id {
        return Err("another session".to_owned());
    }
    for ((request, mark), ticket) in requests.iter().zip(&tickets) {
        let is_there = is_carried_out(&ensemble, mark);
        let was_sent = sent.iter().any(|body| is_about(body, mark));
        let is_cancelled = cancelled.contains(ticket);
        let outcome = client.outcome(*ticket);
        let is_right = match (outcome, is_cancelled) {
            // It was taken back: no server has it, nor ever will.
            (None, true) => !is_there && !was_sent,
            (Some(Outcome::Done { .. }), false) => is_there,
            (Some(Outcome::Unknown { .. }), false) => was_sent,
            _ => false,
        };
        if !is_right {
            return Err(format!(
                "{request:?} was {}, its effect is {}, and its outcome {outcome:?}{}",
                if was_sent {
                    "sent as a whole"
                } else {
                    "not sent as a whole"
                },
                if is_there { "there" } else { "not there" },
                if is_cancelled { ", taken back" } else { "" },
            ));
        }
    }
    let version = observer
        .stat("/data")
        .await
        .map_err(|error| error.to_string())?;
    if version.version > 1 {
        return Err(format!("/data was set {} times", version.version));
    }
    if let Some(watched) = watched {
        for (at, ticket) in watched.into_iter().enumerate().take(3) {
            let fired = client.fired(ticket);
            if fired != 1 {
                return Err(format!("watch {at} has fired {fired} times"));
            }
        }
        // A persistent watch reports what happens from now on.
        let before = client.fired(watched[3]);
        observer
            .create("/below/later", "")
            .await
            .map_err(|error| error.to_string())?;
        client.until_idle().await;
        if client.fired(watched[3]) != before + 1 {
            return Err("the persistent watch is gone".to_owned());
        }
    }
    Ok(true)
}

/// Returns the same cut, counted from here on.
fn later(cut: Cut, client: &Client) -> Cut {
    match cut {
        Cut::Never => Cut::Never,
        Cut::Written(at) => Cut::Written(client.written.len() + at),
        Cut::Read(at) => Cut::Read(client.read + at),
    }
}

/// Cuts at every byte until the connection is not cut any more; returns the number of cuts.
async fn at_every_byte<F>(cut_at: impl Fn(usize) -> F) -> usize
where
    F: Future<Output = Result<bool, String>>,
{
    let mut at = 0;
    loop {
        match cut_at(at).await {
            Ok(true) => at += 1,
            Ok(false) => return at,
            Err(wrong) => panic!("cut at byte {at}: {wrong}"),
        }
    }
}

/// Cuts the stream to the servers at every byte, and then the stream from them.
async fn in_both_directions(when: When, unsent: Unsent, least: [usize; 2]) {
    let bug = PlantedBug::None;
    let written = at_every_byte(|at| run(when, Cut::Written(at), WHOLE, unsent, bug)).await;
    let read = at_every_byte(|at| run(when, Cut::Read(at), WHOLE, unsent, bug)).await;
    assert!(
        written >= least[0] && read >= least[1],
        "cut at {written} bytes to the servers and {read} from them"
    );
}

/// More bytes than there are.
const WHOLE: usize = 1 << 16;

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_cut_at_any_byte_is_repeated() {
    in_both_directions(When::Opening, Unsent::Resent, [200, 200]).await;
    in_both_directions(When::Opening, Unsent::Cancelled, [200, 200]).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_cut_at_any_byte_has_an_exact_outcome() {
    in_both_directions(When::Established, Unsent::Resent, [200, 200]).await;
    in_both_directions(When::Established, Unsent::Cancelled, [200, 200]).await;
}

#[tokio::test(start_paused = true)]
async fn watches_survive_a_reconnect_that_is_cut_at_any_byte() {
    in_both_directions(When::Resuming, Unsent::Resent, [300, 300]).await;
}

#[tokio::test(start_paused = true)]
async fn a_few_bytes_at_a_time_are_as_good_as_all_at_once() {
    for step in [1, 2, 3, 5, 7, 13, 64] {
        for when in [When::Opening, When::Established, When::Resuming] {
            let cut = match when {
                When::Opening => Cut::Written(150),
                _ => Cut::Read(40),
            };
            let cut = run(when, cut, step, Unsent::Resent, PlantedBug::None).await;
            assert_eq!(cut, Ok(true), "{when:?}, {step} bytes at a time");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_frame_that_counts_as_sent_is_noticed() {
    let bug = PlantedBug::PartCountsAsWhole;
    let cut = Cut::Written(20);
    let result = run(When::Established, cut, WHOLE, Unsent::Resent, bug).await;
    let wrong = result.expect_err("a request is unknown that was not sent");
    assert!(wrong.contains("was not sent as a whole"), "{wrong}");
}

#[tokio::test(start_paused = true)]
async fn watches_that_are_not_set_again_are_noticed() {
    let bug = PlantedBug::LosesSetWatches;
    let cut = Cut::Written(20);
    let result = run(When::Established, cut, WHOLE, Unsent::Resent, bug).await;
    let wrong = result.expect_err("a watch is lost");
    assert!(wrong.contains("watch 0 has fired 0 times"), "{wrong}");
}
