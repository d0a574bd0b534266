//! The names of a node's children, ordered and close together in memory.
//!
//! Pure: no I/O and no clock.

use std::sync::Arc;

/// An ordered set of names. A clone costs nothing, and a change after it copies the names near the changed one, and the
/// list of the pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChildList {
    /// Names in order, separated by slashes, in pieces of limited length, none of them empty.
    pieces: Arc<Vec<Arc<str>>>,
    len: usize,
}

impl ChildList {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().flat_map(|piece| piece.split('/'))
    }

    /// Inserts a name, unless it is there.
    pub(crate) fn insert(&mut self, name: &str) {
        let at = self.piece_of(name);
        let Some(piece) = self.pieces.get(at) else {
            Arc::make_mut(&mut self.pieces).push(Arc::from(name));
            self.len += 1;
            return;
        };
        let Err(offset) = find(piece, name) else {
            return;
        };
        let (before, after) = piece.split_at(offset);
        let changed = if after.is_empty() {
            format!("{before}/{name}")
        } else {
            format!("{before}{name}/{after}")
        };
        self.len += 1;
        let pieces = Arc::make_mut(&mut self.pieces);
        let mut parts = Vec::new();
        divide(&changed, &mut parts);
        pieces.splice(at..=at, parts);
    }

    /// Removes a name, if it is there.
    pub(crate) fn remove(&mut self, name: &str) {
        let at = self.piece_of(name);
        let Some(piece) = self.pieces.get(at) else {
            return;
        };
        let Ok(offset) = find(piece, name) else {
            return;
        };
        let before = piece[..offset].trim_end_matches('/');
        let after = piece[offset + name.len()..].trim_start_matches('/');
        let changed = joined(before, after);
        self.len -= 1;
        let pieces = Arc::make_mut(&mut self.pieces);
        if changed.is_empty() {
            pieces.remove(at);
            return;
        }
        pieces[at] = Arc::from(changed);
        // Short pieces are joined, or removals would leave one name in each.
        for at in [Some(at), at.checked_sub(1)].into_iter().flatten() {
            if let [piece, next, ..] = &pieces[at..]
                && piece.len() + next.len() < MAX_PIECE / 2
            {
                pieces[at] = Arc::from(joined(piece, next));
                pieces.remove(at + 1);
            }
        }
    }

    /// Returns the piece that has the name, or to which it belongs.
    fn piece_of(&self, name: &str) -> usize {
        let first = |piece: &Arc<str>| piece.split('/').next() <= Some(name);
        self.pieces.partition_point(first).saturating_sub(1)
    }
}

/// Returns where a name begins in a piece, or where it has to be inserted.
fn find(piece: &str, name: &str) -> Result<usize, usize> {
    let mut offset = 0;
    for known in piece.split('/') {
        if known == name {
            return Ok(offset);
        }
        if known > name {
            return Err(offset);
        }
        offset += known.len() + 1;
    }
    Err(piece.len())
}

fn joined(before: &str, after: &str) -> String {
    let slash = if before.is_empty() || after.is_empty() {
        ""
    } else {
        "/"
    };
    [before, slash, after].concat()
}

/// Divides a piece that is too long, unless it is one name.
fn divide(piece: &str, parts: &mut Vec<Arc<str>>) {
    let (before, after) = piece.as_bytes().split_at(piece.len() / 2);
    let is_slash = |byte: &u8| *byte == b'/';
    let slash = after.iter().position(is_slash).map(|at| before.len() + at);
    match slash.or_else(|| before.iter().rposition(is_slash)) {
        Some(slash) if piece.len() > MAX_PIECE => {
            divide(&piece[..slash], parts);
            divide(&piece[slash + 1..], parts);
        }
        _ => parts.push(Arc::from(piece)),
    }
}

/// A piece with more bytes is divided.
const MAX_PIECE: usize = 1024;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Names with common beginnings, with characters of several bytes, and longer than a piece.
    fn name() -> impl Strategy<Value = String> {
        prop_oneof![
            20 => (0..3000_u16).prop_map(|number| format!("n{number}")),
            4 => "[ab!0é]{1,3}",
            1 => (0..4_u8).prop_map(|number| format!("{number}{}", "é".repeat(MAX_PIECE))),
        ]
    }

    proptest! {
        #[test]
        fn it_is_the_ordered_set_of_the_standard_library_and_clones_stay(
            names in proptest::collection::vec((name(), any::<bool>()), 0..600),
            removed in 0..600_usize,
        ) {
            let (mut list, mut model) = (ChildList::default(), BTreeSet::new());
            let mut clones = vec![(list.clone(), model.clone())];
            for (at, (name, is_clone)) in names.iter().enumerate() {
                if at % 7 == 6 {
                    list.remove(name);
                    model.remove(name);
                }
                list.insert(name);
                model.insert(name.clone());
                if *is_clone && at % 50 == 0 {
                    clones.push((list.clone(), model.clone()));
                }
            }
            for (name, _) in names.iter().take(removed) {
                list.remove(name);
                model.remove(name);
            }
            clones.push((list, model));
            for (list, model) in &clones {
                prop_assert!(list.iter().eq(model.iter()));
                prop_assert_eq!(list.len(), model.len());
                for piece in list.pieces.iter() {
                    prop_assert!(piece.len() <= MAX_PIECE || !piece.contains('/'));
                }
            }
        }
    }

    #[test]
    fn names_are_close_together_also_after_removals() {
        let mut list = ChildList::default();
        let names: Vec<_> = (0..20_000)
            .map(|number| format!("node{number:06}"))
            .collect();
        for name in &names {
            list.insert(name);
        }
        assert!(list.pieces.len() <= 500, "{} pieces", list.pieces.len());
        let before = list.clone();
        list.remove(&names[3]);
        let pieces = list.pieces.iter().zip(before.pieces.iter());
        assert_eq!(
            pieces
                .filter(|(now, before)| !Arc::ptr_eq(now, before))
                .count(),
            1
        );
        for name in names.iter().filter(|name| !name.ends_with("00")) {
            list.remove(name);
        }
        assert_eq!(list.len(), 200);
        assert!(list.pieces.len() <= 12, "{} pieces", list.pieces.len());
    }
}
