//! Reads many nodes with few requests.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use zk_wire::{NodePath, ParsePathError, Stat};

use super::request_checks::check_size;
use super::target::{OperationFuture, Target};
use crate::call::{Call, Repeat};
use crate::error::{Error, ErrorClass, ErrorKind, Operation};
use crate::join_all::join_all;
use crate::session_handle::SessionHandle;
use crate::transport::{MultiRead, ReadResult, Request, Response};

/// Reads several nodes; created by [`Session::get_many`](crate::Session::get_many) and
/// [`Session::list_many`](crate::Session::list_many).
///
/// Returns one result for each path, in the order of the paths: what a call for this node alone returns, or its error. A
/// node that is missing, that the session may not read, or whose path is invalid does not affect the others.
/// The results are not a snapshot: a node that is read later may have changed since an earlier one was read.
///
/// Eight nodes are read with one request, a multi-read. The number of requests in flight starts at one. It doubles, up
/// to 64, as long as the values of one round together are shorter than 1 MiB, and otherwise halves, because a server
/// builds each reply in its memory.
/// If a multi-read is refused, its nodes are read one by one; if its reply is lost, so are all nodes that are left.
/// Clients read replies of at most 16 MiB, which eight values of the size that servers accept by default do not exceed;
/// lists of children may.
/// Servers before 3.6 have no multi-reads: with [such a release](crate::SessionBuilder::assume_release) none is sent.
///
/// # Errors
///
/// The errors of single nodes are of the class [`Outcome`](ErrorClass::Outcome): [`NoNode`](ErrorKind::NoNode),
/// [`NoAuth`](ErrorKind::NoAuth), [`InvalidPath`](ErrorKind::InvalidPath), [`TooLarge`](ErrorKind::TooLarge).
/// The call fails as a whole with all others: [`NotConnected`](ErrorKind::NotConnected),
/// [`TimedOut`](ErrorKind::TimedOut) or [`ConnectionLost`](ErrorKind::ConnectionLost) if a reply is missing at the
/// deadline, and fatal errors.
///
/// # Cost
///
/// One request for eight nodes, and without multi-reads one for each. One round trip for eight nodes, 7 for a thousand
/// small ones. After a lost reply, one request for each node that is left.
#[derive(Debug, Clone)]
#[must_use = "nothing is read until it is awaited"]
pub struct ReadMany<T> {
    target: Target,
    paths: Vec<Result<NodePath, ParsePathError>>,
    operation: Operation,
    read: Read<T>,
    in_one_request: bool,
}

/// How one node is read, alone or with others.
#[derive(Debug, Clone)]
struct Read<T> {
    operation: Operation,
    request: fn(NodePath) -> Request,
    from_response: fn(Response) -> Option<T>,
    op: fn(NodePath) -> MultiRead,
    from_result: fn(ReadResult) -> Option<T>,
    len: fn(&T) -> usize,
}

impl<T> ReadMany<T> {
    fn new(
        session: SessionHandle,
        paths: Vec<Result<NodePath, ParsePathError>>,
        operation: Operation,
        read: Read<T>,
    ) -> Self {
        Self {
            // Each node is checked by itself.
            target: Target::new(session, NodePath::root()),
            paths,
            operation,
            read,
            in_one_request: false,
        }
    }

    /// Sends one request for all nodes, and never reads a node by itself, unless there is only one.
    ///
    /// The caller bounds the reply: one of more than 16 MiB breaks the connection of the session.
    /// The call fails as a whole with [`ConnectionLost`](ErrorKind::ConnectionLost) then, and whenever the reply is lost;
    /// with [`Unsupported`](ErrorKind::Unsupported) if the servers have no multi-reads; with
    /// [`TooLarge`](ErrorKind::TooLarge) if the paths do not fit into a request; and with
    /// [`ServerError`](ErrorKind::ServerError) if the server refuses to read these nodes together.
    pub const fn in_one_request(mut self) -> Self {
        self.in_one_request = true;
        self
    }

    /// Bounds the whole call; the default is the session's operation timeout.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.target.timeout(timeout);
        self
    }
}

impl ReadMany<(Bytes, Stat)> {
    pub(crate) fn get(
        session: SessionHandle,
        paths: Vec<Result<NodePath, ParsePathError>>,
    ) -> Self {
        let get = Read {
            operation: Operation::Get,
            request: |path| Request::GetData { path, watch: false },
            from_response: Response::data,
            op: |path| MultiRead::GetData { path },
            from_result: |result| match result {
                ReadResult::Data { data, stat } => Some((data.into_inner(), stat)),
                ReadResult::Children(_) => None,
            },
            len: |(data, _)| data.len(),
        };
        Self::new(session, paths, Operation::GetMany, get)
    }
}

impl ReadMany<Vec<String>> {
    pub(crate) fn list(
        session: SessionHandle,
        paths: Vec<Result<NodePath, ParsePathError>>,
    ) -> Self {
        let list = Read {
            operation: Operation::List,
            request: |path| Request::GetChildren2 { path, watch: false },
            from_response: |response| match response {
                Response::Children { names, .. } => Some(names),
                _ => None,
            },
            op: |path| MultiRead::GetChildren { path },
            from_result: |result| match result {
                ReadResult::Children(names) => Some(names),
                ReadResult::Data { .. } => None,
            },
            len: |names| names.iter().map(String::len).sum(),
        };
        Self::new(session, paths, Operation::ListMany, list)
    }
}

impl<T: Send + 'static> IntoFuture for ReadMany<T> {
    type Output = Result<Vec<Result<T, Error>>, Error>;
    type IntoFuture = OperationFuture<Vec<Result<T, Error>>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self {
            target,
            paths,
            operation,
            read,
            in_one_request,
        } = self;
        target.run(operation, async move |call, _| {
            let reader = Reader {
                call: &call,
                single: call.of(read.operation),
                read,
                was_lost: AtomicBool::new(false),
                in_one_request,
            };
            reader.read_all(paths).await
        })
    }
}

/// A call that reads many nodes.
struct Reader<'a, T> {
    call: &'a Call,
    /// The call as one for a single node, for its errors.
    single: Call,
    read: Read<T>,
    /// Whether the reply to a multi-read was lost. It may have been too long, and then the others are too: each would
    /// break the connection for everyone.
    was_lost: AtomicBool,
    in_one_request: bool,
}

impl<T> Reader<'_, T> {
    async fn read_all(
        &self,
        paths: Vec<Result<NodePath, ParsePathError>>,
    ) -> Result<Vec<Result<T, Error>>, Error> {
        let operation = self.read.operation;
        let check = |path: Result<NodePath, ParsePathError>| {
            let path = path.map_err(|source| Error::invalid_path(operation, source))?;
            check_size(&self.single, &path, &[], 0).map(|()| path)
        };
        let mut valid = Vec::with_capacity(paths.len());
        let mut refusals = Vec::with_capacity(paths.len());
        for path in paths {
            match check(path) {
                Ok(path) => {
                    valid.push(path);
                    refusals.push(None);
                }
                Err(error) => refusals.push(Some(Err(error))),
            }
        }
        let mut found = if self.in_one_request && valid.len() > 1 {
            self.read_at_once(&valid).await?
        } else {
            self.read_in_chunks(&valid).await?
        };
        let mut found = found.drain(..);
        let in_order = refusals
            .into_iter()
            .filter_map(|refusal| refusal.or_else(|| found.next()));
        Ok(in_order.collect())
    }

    /// Reads nodes with as many requests as needed.
    async fn read_in_chunks(&self, nodes: &[NodePath]) -> Result<Vec<Result<T, Error>>, Error> {
        let mut found = Vec::with_capacity(nodes.len());
        let limit = self.call.engine().transport().max_request();
        let chunks = chunks(nodes, self.call.prefix_len(), NODES_PER_REQUEST, limit);
        let (mut rest, mut concurrency) = (chunks.as_slice(), 1);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(concurrency.min(rest.len()));
            let replies = now.iter().map(|nodes| self.read_chunk(nodes));
            let before = found.len();
            for results in join_all(replies).await {
                found.append(&mut results?);
            }
            let values = found[before..]
                .iter()
                .filter_map(|result| result.as_ref().ok());
            concurrency = next_concurrency(concurrency, values.map(self.read.len).sum());
            rest = later;
        }
        Ok(found)
    }

    /// Reads nodes with one request, or fails.
    async fn read_at_once(&self, nodes: &[NodePath]) -> Result<Vec<Result<T, Error>>, Error> {
        let refused = |kind| self.call.error(&nodes[0], kind);
        if self.call.engine().is_older_than(3, 6) {
            return Err(refused(ErrorKind::Unsupported));
        }
        let limit = self.call.engine().transport().max_request();
        if chunks(nodes, self.call.prefix_len(), usize::MAX, limit).len() > 1 {
            return Err(refused(ErrorKind::TooLarge));
        }
        let results = self.read_together(nodes).await?;
        results.ok_or_else(|| refused(ErrorKind::ServerError))
    }

    /// Reads nodes with one request, or one by one if that does not work.
    async fn read_chunk(&self, nodes: &[NodePath]) -> Result<Vec<Result<T, Error>>, Error> {
        if nodes.len() > 1
            && !self.was_lost.load(Ordering::Relaxed)
            && !self.call.engine().is_older_than(3, 6)
            && let Some(results) = self.multi_read(nodes).await?
        {
            return Ok(results);
        }
        let one = |path| async move {
            let request = (self.read.request)(self.single.wire(path));
            let read = self.single.read(path, &request, self.read.from_response);
            read.await
        };
        let results = join_all(nodes.iter().map(one)).await.into_iter();
        let of_node = |result: Result<T, Error>| match result {
            Err(error) if error.class() != ErrorClass::Outcome => Err(error),
            result => Ok(result),
        };
        results.map(of_node).collect()
    }

    /// Reads nodes with one request; `None` if they have to be read one by one.
    async fn multi_read(&self, nodes: &[NodePath]) -> Result<Option<Vec<Result<T, Error>>>, Error> {
        match self.read_together(nodes).await {
            // The reply was too long, the server does not know the request, or the connection broke for another reason.
            Err(error) if error.kind() == ErrorKind::ConnectionLost => {
                self.was_lost.store(true, Ordering::Relaxed);
                Ok(None)
            }
            Err(error)
                if error.kind() == ErrorKind::ServerError
                    || error.class() == ErrorClass::Outcome =>
            {
                Ok(None)
            }
            results => results,
        }
    }

    /// Reads nodes with one request; `None` if the reply has an error that is not that of a node.
    async fn read_together(
        &self,
        nodes: &[NodePath],
    ) -> Result<Option<Vec<Result<T, Error>>>, Error> {
        let wire = |path| (self.read.op)(self.call.wire(path));
        let request = Request::MultiRead(nodes.iter().map(wire).collect());
        let results = |response| match response {
            Response::Reads(results) if results.len() == nodes.len() => Some(results),
            _ => None,
        };
        let answer = self
            .call
            .request(&nodes[0], Repeat::ReadOnce, &request, results);
        let answer = answer.await.result;
        let of_node = |(path, result)| match result {
            Ok(result) => (self.read.from_result)(result).map(Ok),
            Err(fault) => {
                let error = self.single.failure(path, false, 1, &fault);
                (error.class() == ErrorClass::Outcome).then_some(Err(error))
            }
        };
        Ok(nodes.iter().zip(answer?).map(of_node).collect())
    }
}

/// Returns how many requests to send next without waiting for replies, after the values of `current` of them took this
/// many bytes.
fn next_concurrency(current: usize, bytes: usize) -> usize {
    if bytes < FEW_BYTES {
        (current * 2).min(MAX_CONCURRENCY)
    } else {
        (current / 2).max(1)
    }
}

/// Splits nodes into those of single requests of at most `most` nodes and `limit` bytes. Each path takes `prefix` more
/// bytes on the wire.
fn chunks(nodes: &[NodePath], prefix: usize, most: usize, limit: usize) -> Vec<&[NodePath]> {
    let mut requests = Vec::new();
    let mut rest = nodes;
    while !rest.is_empty() {
        let mut bytes = FRAME_BYTES;
        let fitting = rest.iter().take(most).take_while(|path| {
            bytes += prefix + path.as_str().len() + BYTES_PER_NODE;
            bytes <= limit
        });
        let (request, others) = rest.split_at(fitting.count().max(1));
        requests.push(request);
        rest = others;
    }
    requests
}

/// How many nodes one request reads.
const NODES_PER_REQUEST: usize = 8;
/// How many requests are sent without waiting for replies, at most.
const MAX_CONCURRENCY: usize = 64;
/// More requests are sent at once after values shorter than this.
const FEW_BYTES: usize = 1 << 20;
/// The header of a request and the end of its list.
const FRAME_BYTES: usize = 17;
/// The header of a read, the length of its path and its flag.
const BYTES_PER_NODE: usize = 14;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::transport::DEFAULT_MAX_REQUEST as MAX_REQUEST;

    #[test]
    fn more_requests_are_sent_at_once_while_their_replies_are_short() {
        let mut concurrency = vec![1];
        for bytes in [
            0,
            9,
            9,
            FEW_BYTES - 1,
            9,
            9,
            9,
            FEW_BYTES,
            9,
            1 << 23,
            1 << 30,
        ] {
            concurrency.push(next_concurrency(concurrency[concurrency.len() - 1], bytes));
        }
        assert_eq!(concurrency, [1, 2, 4, 8, 16, 32, 64, 64, 32, 64, 32, 16]);
        assert_eq!(next_concurrency(1, FEW_BYTES), 1);
    }

    proptest! {
        #[test]
        fn each_node_is_in_one_request_that_is_short_enough(
            lengths in proptest::collection::vec(prop_oneof![1..20_usize, MAX_REQUEST / 8..MAX_REQUEST / 2], 0..20),
            prefix in 0..1000_usize,
        ) {
            let nodes: Vec<_> = lengths
                .iter()
                .map(|len| NodePath::parse(&format!("/{}", "a".repeat(*len))).unwrap())
                .collect();
            let requests = chunks(&nodes, prefix, NODES_PER_REQUEST, MAX_REQUEST);
            prop_assert_eq!(&requests.concat(), &nodes);
            let bytes = |request: &[NodePath]| -> usize {
                let paths = request.iter().map(|path| path.as_str().len());
                FRAME_BYTES + paths.map(|len| len + prefix + BYTES_PER_NODE).sum::<usize>()
            };
            for (at, request) in requests.iter().enumerate() {
                prop_assert!((1..=NODES_PER_REQUEST).contains(&request.len()));
                prop_assert!(bytes(request) <= MAX_REQUEST);
                // No request is cut off without need.
                let Some(next) = requests.get(at + 1) else { continue };
                let longer = [*request, &next[..1]].concat();
                prop_assert!(longer.len() > NODES_PER_REQUEST || bytes(&longer) > MAX_REQUEST);
            }
        }
    }
}
