//! The least that a client can cost: hand-written frames over a blocking socket, and a thread for each session.
//!
//! It shares no code with the clients that are measured next to it. It sends no pings, so a run is shorter than the
//! session timeout.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::ensure;
use zk_bench::wire::{Load, Operation, PARENT, Run, Workload};

use crate::give_up;
use crate::meter::Meter;

/// Opens the sessions of a run, runs and measures it, and closes them.
pub(crate) fn load(server: &str, run: Run) -> anyhow::Result<Load> {
    let sessions = run.workload.sessions;
    let sessions: Vec<_> = (0..sessions)
        .map(|_| Session::open(server))
        .collect::<Result<_, _>>()?;
    let barrier = &Barrier::new(sessions.len() + 1);
    Ok(thread::scope(|scope| {
        let sessions = sessions.into_iter().enumerate();
        let threads: Vec<_> = sessions
            .map(|(number, mut session)| {
                scope.spawn(move || {
                    let flights = flights(run.workload, number);
                    let mut repeat = |time| {
                        let done = session.repeat(&flights, run.workload.in_flight, time);
                        done.unwrap_or_else(|error| give_up(&error))
                    };
                    repeat(run.warm_up);
                    // All are warm now; the meter starts before any of them goes on.
                    barrier.wait();
                    barrier.wait();
                    let latencies = repeat(run.measured);
                    session.close().unwrap_or_else(|error| give_up(&error));
                    latencies
                })
            })
            .collect();
        barrier.wait();
        let meter = Meter::start();
        barrier.wait();
        let ended = threads.into_iter().map(ScopedJoinHandle::join);
        let latencies: Vec<_> = ended
            .map(|ended| ended.expect("an error ends the process"))
            .collect();
        meter.stop(&latencies)
    }))
}

/// A connection with a session.
struct Session {
    stream: TcpStream,
    xid: i32,
    outgoing: Vec<u8>,
    received: Vec<u8>,
    /// The part of `received` that is not handled yet.
    from: usize,
    to: usize,
}

impl Session {
    fn open(server: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        let mut session = Self {
            stream,
            xid: 0,
            outgoing: Vec::new(),
            received: vec![0; BUFFER],
            from: 0,
            to: 0,
        };
        // Protocol version, last zxid, session timeout in milliseconds, session id, password, not read-only.
        let zeros = [0; 8];
        let timeout = 30_000_i32.to_be_bytes();
        let body = [
            &zeros[..4],
            &zeros,
            &timeout,
            &zeros,
            &buffer(&[0; 16]),
            &[0],
        ]
        .concat();
        session.stream.write_all(&buffer(&body))?;
        session.payload()?;
        Ok(session)
    }

    /// Repeats an operation for some time, at least once, and returns the latencies in nanoseconds.
    fn repeat(
        &mut self,
        flights: &[Vec<Vec<u8>>],
        in_flight: usize,
        time: Duration,
    ) -> anyhow::Result<Vec<u64>> {
        let mut latencies = Vec::with_capacity(1 << 14);
        let mut begun = VecDeque::with_capacity(in_flight);
        let started = Instant::now();
        let mut now = started;
        loop {
            // A request takes the place of each reply, all in one write. An operation of several flights has the
            // connection to itself.
            while begun.len() < in_flight && (now == started || now - started < time) {
                begun.push_back(now);
                for frame in &flights[0] {
                    self.put(frame);
                }
            }
            self.flush()?;
            if begun.is_empty() {
                return Ok(latencies);
            }
            for _ in &flights[0] {
                self.reply()?;
            }
            for flight in &flights[1..] {
                for frame in flight {
                    self.put(frame);
                }
                self.flush()?;
                for _ in flight {
                    self.reply()?;
                }
            }
            loop {
                now = Instant::now();
                let nanos = begun
                    .pop_front()
                    .map_or(0, |begun| (now - begun).as_nanos());
                latencies.push(u64::try_from(nanos).unwrap_or(u64::MAX));
                if !self.has_payload() {
                    break;
                }
                self.reply()?;
            }
        }
    }

    fn close(&mut self) -> anyhow::Result<()> {
        self.put(&request(CLOSE_SESSION, &[]));
        self.flush()?;
        self.reply()
    }

    /// Adds a frame to the next write, with the next request number.
    fn put(&mut self, frame: &[u8]) {
        self.xid += 1;
        let at = self.outgoing.len() + PREFIX;
        self.outgoing.extend_from_slice(frame);
        self.outgoing[at..at + 4].copy_from_slice(&self.xid.to_be_bytes());
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        if !self.outgoing.is_empty() {
            self.stream.write_all(&self.outgoing)?;
            self.outgoing.clear();
        }
        Ok(())
    }

    /// Reads one reply.
    fn reply(&mut self) -> anyhow::Result<()> {
        // Request number, zxid, error code.
        let code = &self.payload()?[12..16];
        ensure!(code == [0; 4], "the server answered with error {code:?}");
        Ok(())
    }

    /// Reads one frame, and returns its payload.
    fn payload(&mut self) -> anyhow::Result<&[u8]> {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        }
        while !self.has_payload() {
            if self.to == BUFFER {
                self.received.copy_within(self.from.., 0);
                (self.from, self.to) = (0, self.to - self.from);
            }
            let count = self.stream.read(&mut self.received[self.to..])?;
            ensure!(count > 0, "the server closed the connection");
            self.to += count;
        }
        let begin = self.from + PREFIX;
        self.from = begin + self.len();
        Ok(&self.received[begin..self.from])
    }

    fn has_payload(&self) -> bool {
        let there = self.to - self.from;
        there >= PREFIX && there - PREFIX >= self.len()
    }

    /// Returns the length of the next payload.
    fn len(&self) -> usize {
        let prefix = self.received[self.from..].first_chunk();
        prefix.map_or(0, |prefix| u32::from_be_bytes(*prefix) as usize)
    }
}

/// Returns the frames of an operation; those of one flight are sent together.
fn flights(workload: Workload, number: usize) -> Vec<Vec<Vec<u8>>> {
    let path = buffer(workload.value_path().as_bytes());
    let created = buffer(Workload::created_path(number).as_bytes());
    let any_version = (-1_i32).to_be_bytes();
    let create = || {
        let open_to_all = [
            &1_i32.to_be_bytes()[..],
            &31_i32.to_be_bytes(),
            &buffer(b"world"),
            &buffer(b"anyone"),
        ];
        let ephemeral = 1_i32.to_be_bytes();
        request(
            CREATE,
            &[&created, &buffer(b""), &open_to_all.concat(), &ephemeral],
        )
    };
    let delete = || request(DELETE, &[&created, &any_version]);
    match workload.operation {
        Operation::Get => vec![vec![request(GET_DATA, &[&path, NO_WATCH])]],
        Operation::Set => {
            let data = buffer(&workload.value());
            vec![vec![request(SET_DATA, &[&path, &data, &any_version])]]
        }
        Operation::CreateDelete => vec![vec![create()], vec![delete()]],
        Operation::CreateListDelete => {
            let list = request(GET_CHILDREN, &[&buffer(PARENT.as_bytes()), NO_WATCH]);
            vec![vec![create(), list], vec![delete()]]
        }
    }
}

/// Returns the frame of a request, with a place for its number.
fn request(opcode: i32, fields: &[&[u8]]) -> Vec<u8> {
    let head = [[0; 4], opcode.to_be_bytes()].concat();
    buffer(&[&head, fields.concat().as_slice()].concat())
}

/// Returns bytes with their length in front of them.
fn buffer(bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&len.to_be_bytes(), bytes].concat()
}

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const GET_CHILDREN: i32 = 8;
const CLOSE_SESSION: i32 = -11;
const NO_WATCH: &[u8] = &[0];
/// The length of a frame's length.
const PREFIX: usize = 4;
/// Room for more replies than a socket holds.
const BUFFER: usize = 1 << 20;
