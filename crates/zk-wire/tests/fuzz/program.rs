//! Programs for a session, drawn from arbitrary bytes.

use std::time::Duration;

use arbitrary::{Result, Unstructured};
use zk_wire::{Config, Credentials, Host};

/// The settings of a session, and what happens to it.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) config: Config,
    pub(crate) hosts: Vec<Host>,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug)]
pub(crate) enum Step {
    Submit {
        what: What,
        path: &'static str,
    },
    /// Takes back one of the last requests.
    Cancel(usize),
    ForgetWatch(usize),
    /// Asks for a host to dial.
    Dial,
    Dialed,
    DialFails,
    /// Writes at most this many bytes.
    Write(usize),
    /// The server replies to the handshake.
    Grant(Grant),
    /// The server replies to a request.
    Answer {
        how: Answer,
        seed: Vec<u8>,
    },
    Notify {
        kind: i32,
        path: &'static str,
    },
    /// The server sends what means nothing.
    Garbage(Vec<u8>),
    /// The session receives at most this many bytes.
    Deliver(usize),
    /// From the dial to the session that is granted.
    Connect,
    /// Everything is written, done and received.
    Exchange,
    Cut,
    Pass(Duration),
    /// Waits until the session wants to be woken.
    PassToTimeout,
    UpdateHosts(Vec<Host>),
    Close,
    Abandon,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum What {
    Sync,
    /// With this many bytes of data.
    Set(usize),
    Create,
    Multi,
    Get,
    Exists,
    Children,
    AddWatch {
        recursive: bool,
    },
    Auth,
    Ephemerals,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Grant {
    Session { timeout: Duration },
    AnotherSession,
    NoSession,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Answer {
    Done,
    Refused(i32),
    /// Without the end of its body.
    CutShort,
    /// With another number than the request.
    WrongNumber(i32),
    /// To the request behind the oldest one.
    Early,
}

impl Program {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut from = Unstructured::new(bytes);
        let mut program = Self {
            config: config(&mut from).unwrap_or_else(|_| Config::new(SESSION_TIMEOUT)),
            hosts: hosts(&mut from).unwrap_or_else(|_| vec![host(0)]),
            steps: Vec::new(),
        };
        while !from.is_empty() && program.steps.len() < MAX_STEPS {
            program.steps.extend(step(&mut from));
        }
        program
    }
}

fn config(from: &mut Unstructured<'_>) -> Result<Config> {
    let mut config = Config::new(SESSION_TIMEOUT);
    config.seed = Some(1);
    config.nonce_seed = Some(1);
    config.max_in_flight = from.int_in_range(1..=6)?;
    config.max_queued = from.int_in_range(1..=10)?;
    config.max_queued_bytes = *from.choose(&[60, 300, 100_000])?;
    config.max_request = *from.choose(&[60, 200, 0xf_ffff])?;
    config.max_reply = *from.choose(&[100, 1 << 20])?;
    for user in 0..from.int_in_range(0..=2)? {
        config.auth.push(Credentials {
            scheme: "digest".to_owned(),
            data: format!("user{user}:secret").into(),
        });
    }
    config.chroot = from.choose(&["/", "/", "/app"])?.parse().expect("a path");
    Ok(config)
}

fn hosts(from: &mut Unstructured<'_>) -> Result<Vec<Host>> {
    let hosts = from.int_in_range(1..=3)?;
    (0..hosts)
        .map(|_| Ok(host(from.int_in_range(0..=3)?)))
        .collect()
}

fn host(number: u16) -> Host {
    Host {
        name: "server".to_owned(),
        port: 2181 + number,
    }
}

fn step(from: &mut Unstructured<'_>) -> Result<Step> {
    Ok(match from.int_in_range(0..=47)? {
        0..=9 => Step::Submit {
            what: what(from)?,
            path: from.choose(&PATHS)?,
        },
        10 => Step::Cancel(from.int_in_range(0..=7)?),
        11 => Step::ForgetWatch(from.int_in_range(0..=7)?),
        12 => Step::Dial,
        13 => Step::Dialed,
        14 => Step::DialFails,
        15..=17 => Step::Write(from.int_in_range(0..=120)?),
        18..=19 => Step::Write(usize::MAX),
        20 => Step::Grant(grant(from)?),
        21..=25 => {
            let how = answer(from)?;
            let seed = from.int_in_range(0..=24)?.min(from.len());
            let seed = from.bytes(seed)?.to_vec();
            Step::Answer { how, seed }
        }
        26 => Step::Notify {
            kind: from.int_in_range(0..=5)?,
            path: from.choose(&NOTIFIED)?,
        },
        27 => {
            let len = from.int_in_range(0..=24)?.min(from.len());
            Step::Garbage(from.bytes(len)?.to_vec())
        }
        28 => Step::Deliver(from.int_in_range(0..=60)?),
        29..=31 => Step::Deliver(usize::MAX),
        32..=33 => Step::Connect,
        34 => Step::Cut,
        35 => Step::Pass(Duration::from_millis(from.arbitrary::<u16>()?.into())),
        36..=37 => Step::PassToTimeout,
        38 => Step::UpdateHosts(hosts(from)?),
        39..=43 => Step::Exchange,
        44..=46 => Step::Notify {
            kind: from.int_in_range(1..=4)?,
            path: from.choose(&NOTIFIED)?,
        },
        _ if from.ratio(1, 4)? => Step::Abandon,
        _ => Step::Close,
    })
}

fn what(from: &mut Unstructured<'_>) -> Result<What> {
    Ok(match from.int_in_range(0..=10)? {
        0 => What::Sync,
        1 => What::Set(from.int_in_range(0..=250)?),
        2 => What::Create,
        3 => What::Multi,
        4 => What::Exists,
        5 => What::Children,
        6 => What::AddWatch { recursive: false },
        7 => What::AddWatch { recursive: true },
        8 => What::Auth,
        9 => What::Ephemerals,
        _ => What::Get,
    })
}

fn grant(from: &mut Unstructured<'_>) -> Result<Grant> {
    Ok(match from.int_in_range(0..=7)? {
        0 => Grant::AnotherSession,
        1 => Grant::NoSession,
        2 => Grant::Session {
            timeout: Duration::from_millis(from.int_in_range(1..=100_000)?),
        },
        _ => Grant::Session {
            timeout: SESSION_TIMEOUT,
        },
    })
}

fn answer(from: &mut Unstructured<'_>) -> Result<Answer> {
    Ok(match from.int_in_range(0..=15)? {
        0..=2 => Answer::Refused(*from.choose(&[-7, -101, -110, -115, -127])?),
        3 => Answer::CutShort,
        4 => Answer::WrongNumber(from.int_in_range(-9..=9)?),
        5 => Answer::Early,
        _ => Answer::Done,
    })
}

/// The session timeout that is asked for, and mostly granted.
pub(crate) const SESSION_TIMEOUT: Duration = Duration::from_secs(9);
const PATHS: [&str; 4] = ["/", "/a", "/a/b", "/ab"];
/// No request can name the last two; behind the chroot, the last one is the name of another node.
const NOTIFIED: [&str; 6] = ["/", "/a", "/a/b", "/ab", "/a//b", "le"];
const MAX_STEPS: usize = 400;
