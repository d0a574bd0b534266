use std::collections::HashSet;

use super::*;

/// Every process, the breadcrumb, and who leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct World {
    leader: Option<usize>,
    crumb: Option<Crumb>,
    zxid: i64,
    taking_over: [Option<TakeOver>; PROCESSES],
    /// Who acts.
    active: [bool; PROCESSES],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Crumb {
    of: usize,
    version: i32,
    mzxid: i64,
}

/// A leader that takes over, or one that believes it is the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
struct TakeOver {
    fenced: Option<i64>,
    next: Request,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Request {
    #[default]
    Read,
    Write {
        over: Option<Crumb>,
    },
}

impl World {
    /// The worlds that one event makes of this one.
    fn next(self) -> Vec<Self> {
        let mut next = Vec::new();
        for process in 0..PROCESSES {
            // It leads, perhaps not for the first time. The former leader does not know yet.
            let mut leads = self.with(process, Some(TakeOver::default()));
            leads.leader = Some(process);
            next.push(leads);
            match self.taking_over[process] {
                Some(taking_over) => next.extend(match taking_over.next {
                    Request::Read => self.reads(process, taking_over.fenced),
                    Request::Write { over } => self.writes(process, taking_over.fenced, over),
                }),
                None if self.active[process] => next.extend(self.resigns(process)),
                None => {}
            }
            // Its future is dropped.
            next.push(self.with(process, None));
        }
        next
    }

    fn reads(self, process: usize, fenced: Option<i64>) -> Vec<Self> {
        let data = self.crumb.map(|crumb| crumb.of.to_be_bytes());
        let found = self.crumb.zip(data.as_ref()).map(|(crumb, data)| Found {
            data,
            version: crumb.version,
            mzxid: crumb.mzxid,
        });
        match next_step(found, &process.to_be_bytes(), fenced) {
            Step::Done { .. } => vec![self.acts(process)],
            Step::Create | Step::Replace { .. } => {
                let next = Request::Write { over: self.crumb };
                let writes = TakeOver { fenced, next };
                vec![self.with(process, Some(writes))]
            }
            Step::Fence { old, mzxid } => {
                let old = usize::from_be_bytes(old.try_into().expect("a process"));
                let mut without = self.with(old, None);
                without.active[old] = false;
                let reads_again = TakeOver {
                    fenced: Some(mzxid),
                    next: Request::Read,
                };
                // It succeeds, or fails.
                vec![
                    without.with(process, Some(reads_again)),
                    self.with(process, None),
                ]
            }
        }
    }

    fn writes(self, process: usize, fenced: Option<i64>, over: Option<Crumb>) -> Vec<Self> {
        let reads_again = Some(TakeOver {
            fenced,
            next: Request::Read,
        });
        // The request is lost, or refused because of the version.
        let mut next = vec![self.with(process, reads_again)];
        let version = |crumb: Option<Crumb>| crumb.map(|crumb| crumb.version);
        if self.leader == Some(process) && version(self.crumb) == version(over) {
            let mut written = self;
            written.zxid += 1;
            written.crumb = Some(Crumb {
                of: process,
                version: version(over).map_or(0, |version| version + 1),
                mzxid: written.zxid,
            });
            // The reply arrives, or is lost.
            next.extend([written.acts(process), written.with(process, reads_again)]);
        }
        next
    }

    /// It stops acting, and removes its breadcrumb; the request may be lost.
    fn resigns(mut self, process: usize) -> Vec<Self> {
        self.active[process] = false;
        let mut removed = self;
        if self.leader == Some(process) {
            removed.crumb = None;
        }
        vec![self, removed]
    }

    fn acts(mut self, process: usize) -> Self {
        self.active[process] = true;
        self.with(process, None)
    }

    fn with(mut self, process: usize, taking_over: Option<TakeOver>) -> Self {
        self.taking_over[process] = taking_over;
        self
    }
}

/// Leaders lose the leadership without notice, stop at every step, and lose every request and every reply.
#[test]
fn no_process_acts_beside_one_that_was_not_fenced() {
    let mut seen = HashSet::from([World::default()]);
    let mut ahead = vec![World::default()];
    while let Some(world) = ahead.pop() {
        let active = world.active.iter().filter(|it| **it).count();
        assert!(active <= 1, "{world:?}");
        let next = world.next().into_iter();
        ahead.extend(next.filter(|next| next.zxid <= WRITES && seen.insert(*next)));
    }
    println!("{} worlds", seen.len());
    assert!(seen.len() > 1_000, "only {} worlds", seen.len());
}

#[test]
fn the_next_step_depends_on_whose_breadcrumb_it_is() {
    const fn found(data: &[u8]) -> Found<'_> {
        Found {
            data,
            version: 7,
            mzxid: 70,
        }
    }
    const fn fence(old: &[u8]) -> Step<'_> {
        Step::Fence { old, mzxid: 70 }
    }
    for (crumb, fenced, expected) in [
        (None, None, Step::Create),
        (None, Some(70), Step::Create),
        (Some(found(b"own")), None, Step::Done { version: 7 }),
        (Some(found(b"own")), Some(70), Step::Done { version: 7 }),
        (Some(found(b"old")), None, fence(b"old")),
        // It has fenced the process of another breadcrumb.
        (Some(found(b"old")), Some(69), fence(b"old")),
        (Some(found(b"old")), Some(70), Step::Replace { version: 7 }),
        (Some(found(b"")), None, fence(b"")),
    ] {
        assert_eq!(next_step(crumb, b"own", fenced), expected, "{crumb:?}");
    }
}

const PROCESSES: usize = 3;
/// How often the breadcrumb is written.
const WRITES: i64 = 4;
