//! A persistent map by path: a clone shares everything that does not change afterwards.
//!
//! A hash array mapped trie: each branch has up to 64 slots, of which it stores the ones in use. A change copies the
//! branches from the root to the value that a clone shares, and changes the others in place.
//!
//! Pure: no I/O and no clock.

use std::hash::Hasher as _;
use std::mem;

use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use triomphe::{Arc, ThinArc};

/// A value that contains its path.
pub(crate) trait HasPath: Clone {
    /// Returns the path as bytes.
    fn path_bytes(&self) -> &[u8];
}

/// Values by path. A clone costs nothing, and a change after it copies a small part.
#[derive(Debug, Clone)]
pub(crate) struct PathMap<V> {
    root: Slot<V>,
    len: usize,
}

/// The bits of the header are the slots in use, which are stored in their order.
type Branch<V> = ThinArc<u64, Slot<V>>;

#[derive(Debug, Clone, Default)]
enum Slot<V> {
    /// Only in an empty map, and for a moment in a branch that changes.
    #[default]
    Empty,
    Value(V),
    Branch(Branch<V>),
}

/// The way of a path through the trie: the bits of its hash that are left, and after them those of another hash.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    bits: u64,
    level: u32,
}

impl Cursor {
    fn at(path: &[u8], level: u32) -> Self {
        let (round, used) = (level / LEVELS_PER_HASH, level % LEVELS_PER_HASH);
        let mut hasher = FoldHasher::with_seed(u64::from(round), SharedSeed::global_random());
        hasher.write(path);
        Self {
            bits: hasher.finish() >> (used * BITS_PER_LEVEL),
            level,
        }
    }

    /// Returns the slot in the branch of this level, as a bit.
    const fn bit(self) -> u64 {
        1 << (self.bits % (1 << BITS_PER_LEVEL))
    }

    fn next(self, path: &[u8]) -> Self {
        let level = self.level + 1;
        if level.is_multiple_of(LEVELS_PER_HASH) {
            return Self::at(path, level);
        }
        let bits = self.bits >> BITS_PER_LEVEL;
        Self { bits, level }
    }
}

impl<V: HasPath> PathMap<V> {
    pub(crate) const fn new() -> Self {
        let root = Slot::Empty;
        Self { root, len: 0 }
    }

    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, path: &str) -> Option<&V> {
        let path = path.as_bytes();
        let mut cursor = Cursor::at(path, 0);
        let mut slot = &self.root;
        loop {
            match slot {
                Slot::Empty => return None,
                Slot::Value(value) => return (value.path_bytes() == path).then_some(value),
                Slot::Branch(branch) => {
                    slot = branch.slice.get(position(branch, cursor.bit())?)?;
                    cursor = cursor.next(path);
                }
            }
        }
    }

    /// Inserts a value, and returns the one that it replaces.
    pub(crate) fn insert(&mut self, value: V) -> Option<V> {
        let cursor = Cursor::at(value.path_bytes(), 0);
        let replaced = self.root.insert(value, cursor);
        self.len += usize::from(replaced.is_none());
        replaced
    }

    pub(crate) fn remove(&mut self, path: &str) -> Option<V> {
        // Without the value nothing may be copied.
        self.get(path)?;
        let path = path.as_bytes();
        let removed = self.root.remove(path, Cursor::at(path, 0));
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// Changes a value in place. Its path must stay the same.
    pub(crate) fn update<R>(&mut self, path: &str, change: impl FnOnce(&mut V) -> R) -> Option<R> {
        self.get(path)?;
        let path = path.as_bytes();
        self.root.update(path, Cursor::at(path, 0), change)
    }
}

impl<V: HasPath> Slot<V> {
    fn insert(&mut self, value: V, cursor: Cursor) -> Option<V> {
        match self {
            Self::Empty => {
                *self = Self::Value(value);
                None
            }
            Self::Value(known) if known.path_bytes() == value.path_bytes() => {
                Some(mem::replace(known, value))
            }
            Self::Value(known) => {
                let bit = Cursor::at(known.path_bytes(), cursor.level).bit();
                let known = std::iter::once(mem::take(self));
                *self = Self::Branch(ThinArc::from_header_and_iter(bit, known));
                self.insert(value, cursor)
            }
            Self::Branch(branch) => {
                let bit = cursor.bit();
                if let Some(at) = position(branch, bit) {
                    let next = cursor.next(value.path_bytes());
                    return with_slots(branch, |slots| slots[at].insert(value, next));
                }
                let used = branch.header.header;
                let mut slots = take_slots(branch);
                slots.insert(rank(used, bit), Self::Value(value));
                *branch = ThinArc::from_header_and_iter(used | bit, slots.into_iter());
                None
            }
        }
    }

    fn remove(&mut self, path: &[u8], cursor: Cursor) -> Option<V> {
        let Self::Branch(branch) = self else {
            let Self::Value(value) = mem::take(self) else {
                return None;
            };
            return Some(value);
        };
        let bit = cursor.bit();
        let at = position(branch, bit)?;
        let next = cursor.next(path);
        let removed = with_slots(branch, |slots| slots[at].remove(path, next));
        let used = branch.header.header;
        let is_empty = matches!(branch.slice[at], Self::Empty);
        let left = branch.slice.len() - usize::from(is_empty);
        let first = usize::from(is_empty && at == 0);
        if left == 0 {
            *self = Self::Empty;
        } else if left == 1 && matches!(branch.slice[first], Self::Value(_)) {
            // A single value takes the place of its branch.
            *self = with_slots(branch, |slots| mem::take(&mut slots[first]));
        } else if is_empty {
            let mut slots = take_slots(branch);
            slots.remove(at);
            *branch = ThinArc::from_header_and_iter(used & !bit, slots.into_iter());
        }
        removed
    }

    fn update<R>(
        &mut self,
        path: &[u8],
        cursor: Cursor,
        change: impl FnOnce(&mut V) -> R,
    ) -> Option<R> {
        match self {
            Self::Empty => None,
            Self::Value(value) => Some(change(value)),
            Self::Branch(branch) => {
                let at = position(branch, cursor.bit())?;
                let next = cursor.next(path);
                with_slots(branch, |slots| slots[at].update(path, next, change))
            }
        }
    }
}

/// Returns the position of a slot in the branch, if it is in use.
fn position<V>(branch: &Branch<V>, bit: u64) -> Option<usize> {
    let used = branch.header.header;
    (used & bit != 0).then(|| rank(used, bit))
}

/// Returns how many slots in use precede this one.
const fn rank(used: u64, bit: u64) -> usize {
    (used & (bit - 1)).count_ones() as usize
}

/// Changes the slots of a branch in place, and of a shared one in a copy.
fn with_slots<V: HasPath, R>(
    branch: &mut Branch<V>,
    change: impl FnOnce(&mut [Slot<V>]) -> R,
) -> R {
    if ThinArc::strong_count(branch) > 1 {
        let slots = branch.slice.iter().cloned();
        *branch = ThinArc::from_header_and_iter(branch.header.header, slots);
    }
    branch.with_arc_mut(|branch| {
        let branch = Arc::get_mut(branch).expect("only this map has the branch");
        change(branch.slice_mut())
    })
}

/// Moves the slots out of a branch, and copies those of a shared one.
fn take_slots<V: HasPath>(branch: &mut Branch<V>) -> Vec<Slot<V>> {
    if ThinArc::strong_count(branch) > 1 {
        return branch.slice.to_vec();
    }
    with_slots(branch, |slots| slots.iter_mut().map(mem::take).collect())
}

const BITS_PER_LEVEL: u32 = 6;
/// How many levels one hash of 64 bits is good for. Tests use up hashes sooner, because no two paths are known that have
/// the same.
const LEVELS_PER_HASH: u32 = if cfg!(test) { 2 } else { 10 };

#[cfg(test)]
mod tests;
