//! Random programs: bursts of requests of several sessions.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use zk_core::transport::{CreateMode, MultiOp, MultiRead, NewNode, NodeData, Request};
use zk_core::{Acl, AclEntry, NodePath, Permissions};
use zk_sim::matching;

/// The number of sessions; the first authenticates as ann, and the others are closed and reopened.
pub(crate) const SESSIONS: usize = 3;

/// A list of steps, each with requests of one session that are in flight together.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) seed: u64,
    /// The parent of all nodes of the program.
    pub(crate) root: NodePath,
    pub(crate) steps: Vec<Step>,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Burst {
        session: usize,
        requests: Vec<Request>,
    },
    /// Drops a watch, by its position among the current ones.
    Drop(usize),
    /// Closes a session, and opens another one in its place.
    Reopen(usize),
}

/// How long a node with a time to live may stay: longer than any program.
const TTL: Duration = Duration::from_secs(3600);

impl Program {
    pub(crate) fn generate(seed: u64) -> Self {
        let root = new_root();
        let mut random = Draw {
            random: fastrand::Rng::with_seed(seed),
            root: root.clone(),
        };
        let steps = (0..random.random.usize(16..32))
            .map(|_| random.step())
            .collect();
        Self { seed, root, steps }
    }

    /// Returns the number of requests.
    pub(crate) fn len(&self) -> usize {
        let requests = |step: &Step| match step {
            Step::Burst { requests, .. } => requests.len(),
            Step::Drop(_) | Step::Reopen(_) => 1,
        };
        self.steps.iter().map(requests).sum()
    }

    /// Returns the program without `count` requests from position `begin` on.
    pub(crate) fn without(&self, begin: usize, count: usize) -> Self {
        let mut at = 0;
        let mut stays = || {
            at += 1;
            !(begin..begin + count).contains(&(at - 1))
        };
        let mut steps = Vec::new();
        for step in &self.steps {
            match step {
                Step::Burst { session, requests } => {
                    let requests: Vec<_> = requests.iter().filter(|_| stays()).cloned().collect();
                    if !requests.is_empty() {
                        let session = *session;
                        steps.push(Step::Burst { session, requests });
                    }
                }
                other => {
                    if stays() {
                        steps.push(other.clone());
                    }
                }
            }
        }
        Self {
            steps,
            ..self.clone()
        }
    }

    /// Returns the program without the requests that sessions over `zookeeper-client` do not have.
    pub(crate) fn for_zookeeper_client(&self) -> Self {
        let is_there = |request: &Request| {
            !matches!(
                request,
                Request::MultiRead(_)
                    | Request::GetEphemerals { .. }
                    | Request::GetAllChildrenNumber { .. }
            )
        };
        let mut program = self.clone();
        for step in &mut program.steps {
            if let Step::Burst { requests, .. } = step {
                requests.retain(is_there);
            }
        }
        let is_empty =
            |step: &Step| matches!(step, Step::Burst { requests, .. } if requests.is_empty());
        program.steps.retain(|step| !is_empty(step));
        program
    }

    /// Returns the program without dropped watches, below another node.
    pub(crate) fn without_drops(&self) -> Self {
        let mut program = self.at_a_new_root();
        let is_drop = |step: &Step| matches!(step, Step::Drop(_));
        program.steps.retain(|step| !is_drop(step));
        program
    }

    /// Returns the program with fewer requests in flight together, most of them of the first session, with more watches
    /// that fire once, without requests that have no path, and without persistent watches, which end with their connection.
    pub(crate) fn in_small_bursts(&self) -> Self {
        let mut steps = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Burst { session, requests } => {
                    let is_wanted = |request: &&Request| {
                        !matches!(
                            request,
                            Request::AddWatch { .. } | Request::GetEphemerals { .. }
                        )
                    };
                    let requests: Vec<_> = requests.iter().filter(is_wanted).cloned().collect();
                    let (first, rest) = requests.split_at(requests.len().min(1));
                    let rest = &rest[..rest.len().min(IN_FLIGHT)];
                    let session = if at % 2 == 0 { 0 } else { *session };
                    for (session, requests) in [(0, first), (session, rest)] {
                        if let Some(request) = requests.last() {
                            let watch = watch_of(matching::paths(request)[0], at);
                            let requests = requests.to_vec();
                            steps.push(Step::Burst { session, requests });
                            let (session, requests) = (0, vec![watch]);
                            steps.push(Step::Burst { session, requests });
                        }
                    }
                    if at % 2 == 1 {
                        steps.push(Step::Drop(at));
                    }
                }
                other => steps.push(other.clone()),
            }
        }
        Self {
            steps,
            ..self.clone()
        }
    }

    /// Draws writes below the root of the program.
    pub(crate) fn other_writes(&self) -> Vec<Request> {
        let mut random = Draw {
            random: fastrand::Rng::with_seed(!self.seed),
            root: self.root.clone(),
        };
        let mut writes = Vec::new();
        while writes.len() < self.len() {
            let request = random.request();
            if let Request::Create2(_) | Request::SetData { .. } | Request::Delete { .. } = request
            {
                writes.push(request);
            }
        }
        writes
    }

    /// Returns the same program below another node.
    pub(crate) fn at_a_new_root(&self) -> Self {
        let root = new_root();
        let moved = |path: &mut NodePath| {
            let rest = path.as_str().strip_prefix(self.root.as_str()).unwrap();
            *path = NodePath::parse(&format!("{root}{rest}")).unwrap();
        };
        let mut steps = self.steps.clone();
        for step in &mut steps {
            let Step::Burst { requests, .. } = step else {
                continue;
            };
            for request in requests {
                match request {
                    Request::Create(create) | Request::Create2(create) => {
                        moved(&mut create.path);
                    }
                    Request::Multi(changes) => {
                        for change in changes {
                            match change {
                                MultiOp::Create(create) | MultiOp::Create2(create) => {
                                    moved(&mut create.path);
                                }
                                MultiOp::Check { path, .. }
                                | MultiOp::SetData { path, .. }
                                | MultiOp::Delete { path, .. } => moved(path),
                            }
                        }
                    }
                    Request::Delete { path, .. }
                    | Request::GetData { path, .. }
                    | Request::SetData { path, .. }
                    | Request::Exists { path, .. }
                    | Request::GetChildren2 { path, .. }
                    | Request::Sync { path }
                    | Request::GetAcl { path }
                    | Request::SetAcl { path, .. }
                    | Request::AddWatch { path, .. }
                    | Request::GetAllChildrenNumber { path } => moved(path),
                    Request::MultiRead(reads) => {
                        for read in reads {
                            let (MultiRead::GetData { path } | MultiRead::GetChildren { path }) =
                                read;
                            moved(path);
                        }
                    }
                    Request::GetEphemerals { prefix } => {
                        *prefix = prefix.replacen(self.root.as_str(), root.as_str(), 1);
                    }
                    other => assert!(
                        matches!(other, Request::WhoAmI | Request::GetConfig { .. }),
                        "{other:?} has a path"
                    ),
                }
            }
        }
        Self {
            seed: self.seed,
            root,
            steps,
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for step in &self.steps {
            match step {
                Step::Burst { session, requests } => {
                    for request in requests {
                        list.entry(&format_args!("session {session}: {request:?}"));
                    }
                }
                other => drop(list.entry(other)),
            }
        }
        list.finish()
    }
}

/// Returns a read that watches a node.
fn watch_of(path: &NodePath, number: usize) -> Request {
    let (path, watch) = (path.clone(), true);
    match number % 3 {
        0 => Request::GetData { path, watch },
        1 => Request::Exists { path, watch },
        _ => Request::GetChildren2 { path, watch },
    }
}

fn new_root() -> NodePath {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    NodePath::parse(&format!("/program-{number:06}")).unwrap()
}

/// Draws the parts of a program.
struct Draw {
    random: fastrand::Rng,
    root: NodePath,
}

impl Draw {
    fn step(&mut self) -> Step {
        match self.random.u8(0..20) {
            0 => Step::Reopen(self.random.usize(1..SESSIONS)),
            1 => Step::Drop(self.random.usize(..)),
            _ => Step::Burst {
                session: self.random.usize(0..SESSIONS),
                requests: self.burst(),
            },
        }
    }

    /// Draws concurrent requests; a new ACL comes last.
    ///
    /// A real leader checks requests against the old ACL until the new one is in its tree, because
    /// `PrepRequestProcessor` does not record it as an outstanding change.
    fn burst(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        for _ in 0..self.random.usize(1..64) {
            requests.push(self.request());
            if let Some(Request::SetAcl { .. }) = requests.last() {
                break;
            }
        }
        requests
    }

    fn request(&mut self) -> Request {
        match self.random.u8(0..100) {
            0..30 => Request::Create2(self.create()),
            30..42 => Request::Delete {
                path: self.path(),
                version: self.version(),
            },
            42..54 => Request::SetData {
                path: self.path(),
                data: self.data(),
                version: self.version(),
            },
            54..59 => Request::GetData {
                path: self.path(),
                watch: self.random.bool(),
            },
            59..64 => Request::Exists {
                path: self.path(),
                watch: self.random.bool(),
            },
            64..69 => Request::GetChildren2 {
                path: self.path(),
                watch: self.random.bool(),
            },
            69 => Request::Sync { path: self.path() },
            70 => Request::GetAllChildrenNumber { path: self.path() },
            71 => Request::GetAcl { path: self.path() },
            72 => self.multi_read(),
            73 => Request::GetEphemerals {
                prefix: self.path().to_string(),
            },
            74..76 => Request::SetAcl {
                path: self.path_below(),
                acl: self.acl(),
                version: self.version(),
            },
            76..82 => Request::AddWatch {
                path: self.path(),
                recursive: self.random.bool(),
            },
            _ => Request::Multi(
                (0..self.random.usize(1..6))
                    .map(|_| self.change())
                    .collect(),
            ),
        }
    }

    fn multi_read(&mut self) -> Request {
        let path = self.path();
        Request::MultiRead(vec![
            MultiRead::GetData { path: path.clone() },
            MultiRead::GetChildren {
                path: self.root.clone(),
            },
            MultiRead::GetChildren { path },
        ])
    }

    fn change(&mut self) -> MultiOp {
        match self.random.u8(0..10) {
            0..4 => MultiOp::Create2(self.create()),
            4..6 => MultiOp::Delete {
                path: self.path(),
                version: self.version(),
            },
            6..8 => MultiOp::SetData {
                path: self.path(),
                data: self.data(),
                version: self.version(),
            },
            _ => MultiOp::Check {
                path: self.path(),
                version: self.version(),
            },
        }
    }

    fn create(&mut self) -> NewNode {
        let mode = match self.random.u8(0..12) {
            0..5 => CreateMode::Persistent,
            5 | 6 => CreateMode::PersistentSequential,
            7 if self.random.bool() => CreateMode::PersistentSequentialWithTtl(TTL),
            7 => CreateMode::PersistentWithTtl(TTL),
            8 => CreateMode::EphemeralSequential,
            9 | 10 => CreateMode::Ephemeral,
            _ => CreateMode::Container,
        };
        let path = if mode.is_sequential() {
            let parent = self.dir();
            NodePath::parse(&format!("{parent}/s-")).unwrap()
        } else {
            self.path()
        };
        NewNode {
            path,
            data: self.data(),
            mode,
            acl: self.acl(),
        }
    }

    /// Draws an ACL, mostly an open one, so that most requests succeed.
    fn acl(&mut self) -> Acl {
        let entry = |permissions, scheme, id| AclEntry::new(permissions, scheme, id);
        match self.random.u8(0..24) {
            0 => Acl::read_only(),
            1 => Acl::creator_only(),
            3 => Acl::new([entry(Permissions::ALL, "nonsense", "x")]),
            4 => Acl::new([
                entry(Permissions::READ, "world", "anyone"),
                entry(Permissions::ALL, "auth", ""),
            ]),
            5 => Acl::new([
                entry(Permissions::CREATE, "world", "anyone"),
                entry(Permissions::DELETE, "world", "anyone"),
                entry(Permissions::ADMIN, "world", "anyone"),
            ]),
            6 => Acl::new([entry(
                Permissions::ALL,
                "digest",
                "ann:D/InIHSb7yEEbrWz8b9l71RjZJU=",
            )]),
            _ => Acl::open(),
        }
    }

    fn data(&mut self) -> NodeData {
        let length = self.random.usize(0..9);
        NodeData::from(vec![b'x'; length])
    }

    fn version(&mut self) -> Option<i32> {
        match self.random.u8(0..10) {
            0..6 => None,
            6 => Some(-1),
            _ => Some(self.random.i32(0..3)),
        }
    }

    fn path(&mut self) -> NodePath {
        if self.random.u8(0..12) == 0 {
            self.root.clone()
        } else {
            self.path_below()
        }
    }

    fn path_below(&mut self) -> NodePath {
        let dir = self.dir();
        let name = match self.random.u8(0..8) {
            0 => format!("s-{:010}", self.random.u8(0..5)),
            other => NAMES[usize::from(other) % NAMES.len()].to_owned(),
        };
        dir.join(&name).unwrap()
    }

    fn dir(&mut self) -> NodePath {
        let mut dir = self.root.clone();
        for _ in 0..self.random.usize(0..3) {
            dir = dir.join(self.random.choice(NAMES).unwrap()).unwrap();
        }
        dir
    }
}

const IN_FLIGHT: usize = 4;
const NAMES: [&str; 3] = ["a", "b", "ba"];
