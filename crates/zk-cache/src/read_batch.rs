//! Decides how many nodes are read with one request, and which.
//!
//! A reply that is larger than the session accepts is not read. What a node had when it was read last bounds what it adds
//! to a reply, unless it has grown since; of other nodes nothing is known. So the number of nodes starts where values of
//! the size that servers accept by default fit, grows with each short reply, and is halved when a reply was too large.
//!
//! Pure: no I/O and no clock.

/// How many nodes one request may read.
#[derive(Debug)]
pub(crate) struct BatchLimit {
    nodes: usize,
    /// Halved with each reply about several nodes that was too large, until everything is read.
    max: usize,
    is_supported: bool,
}

impl BatchLimit {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: INITIAL_NODES,
            max: MAX_NODES,
            is_supported: true,
        }
    }

    pub(crate) const fn nodes(&self) -> usize {
        if self.is_supported { self.nodes } else { 1 }
    }

    /// Takes a reply about several nodes with this many bytes of data.
    pub(crate) fn on_reply(&mut self, bytes: usize) {
        let nodes = if bytes < FEW_BYTES {
            self.nodes * 2
        } else {
            (self.nodes / 2).max(INITIAL_NODES)
        };
        self.nodes = nodes.min(self.max);
    }

    /// Takes that a reply about several nodes was too large.
    pub(crate) fn on_too_large(&mut self) {
        self.max = (self.nodes / 2).max(1);
        self.nodes = self.max;
    }

    /// Takes that everything is read.
    pub(crate) fn on_complete(&mut self) {
        self.max = MAX_NODES;
        // Only replies about several nodes let the number grow.
        self.nodes = self.nodes.max(2);
    }

    /// Takes that the servers cannot read several nodes with one request.
    pub(crate) const fn on_unsupported(&mut self) {
        self.is_supported = false;
    }
}

/// The nodes of one request, by their bytes.
#[derive(Debug, Default)]
pub(crate) struct BatchBytes(usize);

impl BatchBytes {
    /// Returns whether a node belongs to the request, and counts it if so. `None` is a node that was never read.
    pub(crate) fn add(&mut self, known: Option<usize>) -> bool {
        let bytes = known.unwrap_or(0);
        let fits = bytes <= MAX_NODE_BYTES && self.0 + bytes <= MAX_BYTES;
        if fits {
            self.0 += bytes;
        }
        fits
    }
}

/// With values of 1 MiB, half of the longest reply.
const INITIAL_NODES: usize = 8;
const MAX_NODES: usize = 64;
/// More nodes are read at once after a reply with fewer bytes.
const FEW_BYTES: usize = 256 << 10;
/// The known bytes of one reply.
const MAX_BYTES: usize = 256 << 10;
/// A larger node is read alone: to check it, its stat is enough.
const MAX_NODE_BYTES: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_nodes_follows_the_replies() {
        let mut limit = BatchLimit::new();
        let mut nodes = vec![limit.nodes()];
        for bytes in [
            0,
            100,
            FEW_BYTES - 1,
            0,
            FEW_BYTES,
            FEW_BYTES,
            FEW_BYTES,
            FEW_BYTES,
            0,
        ] {
            limit.on_reply(bytes);
            nodes.push(limit.nodes());
        }
        assert_eq!(nodes, [8, 16, 32, 64, 64, 32, 16, 8, 8, 16]);
        limit.on_unsupported();
        limit.on_complete();
        limit.on_reply(0);
        assert_eq!(limit.nodes(), 1);
    }

    #[test]
    fn large_replies_end_in_single_reads_until_all_is_read() {
        let mut limit = BatchLimit::new();
        for _ in 0..3 {
            limit.on_reply(0);
        }
        let mut nodes = Vec::new();
        for _ in 0..7 {
            limit.on_too_large();
            // Short replies before the next long one must not undo it.
            limit.on_reply(0);
            nodes.push(limit.nodes());
        }
        assert_eq!(nodes, [32, 16, 8, 4, 2, 1, 1]);
        limit.on_complete();
        assert_eq!(limit.nodes(), 2);
        for _ in 0..9 {
            limit.on_reply(0);
        }
        assert_eq!(limit.nodes(), 64);
    }

    #[test]
    fn nodes_are_read_together_again_when_all_is_read() {
        let mut limit = BatchLimit::new();
        while limit.nodes() > 1 {
            limit.on_too_large();
        }
        limit.on_complete();
        // The replies to single reads are not counted.
        for _ in 0..9 {
            if limit.nodes() > 1 {
                limit.on_reply(0);
            }
        }
        assert_eq!(limit.nodes(), MAX_NODES);
    }

    #[test]
    fn known_bytes_of_a_request_are_bounded() {
        let mut bytes = BatchBytes::default();
        assert!(!bytes.add(Some(MAX_NODE_BYTES + 1)));
        let fitting = (0..1000).take_while(|_| bytes.add(Some(MAX_NODE_BYTES)));
        assert_eq!(fitting.count(), 64);
        assert!(bytes.add(Some(0)) && bytes.add(None) && !bytes.add(Some(1)));
    }
}
