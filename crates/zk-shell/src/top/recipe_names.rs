//! Tells by the names of a node's children which recipe uses it, and who comes first.
//!
//! Pure: no I/O and no clock.

use zk_core::Sequence;

use super::sample::RecipeKind;

/// The children of a node that a recipe uses.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Contenders {
    pub(crate) kind: RecipeKind,
    /// In order: the holder, or the first item, comes first. The names of other children are left out.
    pub(crate) names: Vec<String>,
    /// How many of them hold it together; zero for a queue.
    pub(crate) holders: usize,
}

/// Orders the children of a node. Returns `None` if they are not those of a recipe.
///
/// A node with children of several recipes is one of the recipe with the most children.
pub(crate) fn contenders(children: &[String]) -> Option<Contenders> {
    let of = |kind| {
        children
            .iter()
            .filter(|name| kind_of(name) == Some(kind))
            .count()
    };
    let kinds = [RecipeKind::Lock, RecipeKind::Leader, RecipeKind::Queue];
    let kind = kinds.into_iter().rev().max_by_key(|kind| of(*kind))?;
    let own = children.iter().filter(|name| kind_of(name) == Some(kind));
    let mut names: Vec<String> = own.cloned().collect();
    if names.is_empty() {
        return None;
    }
    let holders = if kind == RecipeKind::Queue {
        // The names have their priorities first, in fixed widths.
        names.sort_unstable();
        0
    } else {
        names.sort_by_cached_key(|name| Sequence::split(name).map(|(_, number)| number.number()));
        let shared = names.iter().take_while(|name| is_shared(name)).count();
        shared.max(1)
    };
    Some(Contenders {
        kind,
        names,
        holders,
    })
}

/// The children of a work queue that hold its items and its claims.
pub(crate) fn work_queue(children: &[String]) -> Option<(&'static str, &'static str)> {
    let has = |name: &str| children.iter().any(|child| child == name);
    [("items", "claims"), ("entries", "taken")]
        .into_iter()
        .find(|(items, claims)| has(items) && has(claims))
}

fn kind_of(name: &str) -> Option<RecipeKind> {
    let (stem, _) = Sequence::split(name)?;
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| stem.starts_with(prefix));
    let ends = |markers: &[&str]| markers.iter().any(|marker| stem.ends_with(marker));
    if ends(&["latch-"]) {
        Some(RecipeKind::Leader)
    } else if ends(&[
        "lock-",
        "lease-",
        "__lock__",
        "__rlock__",
        "__WRIT__",
        "__READ__",
    ]) {
        Some(RecipeKind::Lock)
    } else if starts(&["x-", "read-", "write-"]) {
        // Those of ZooKeeper's recipe and of HBase.
        Some(RecipeKind::Lock)
    } else if starts(&["qn-", "queue-", "entry-", "w-"]) {
        Some(RecipeKind::Queue)
    } else {
        None
    }
}

fn is_shared(name: &str) -> bool {
    Sequence::split(name).is_some_and(|(stem, _)| {
        let markers = ["__READ__", "__rlock__", "lease-"];
        stem.starts_with("read-") || markers.iter().any(|marker| stem.ends_with(marker))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    // covers: O6
    #[test]
    fn recipes_are_told_apart_by_their_names() {
        for (children, kind, first, holders) in [
            (
                &["_c_b-lock-0000000009", "_c_a-lock-0000000010", "note"][..],
                RecipeKind::Lock,
                "_c_b-lock-0000000009",
                1,
            ),
            (
                &[
                    "_c_b-__READ__0000000002",
                    "_c_a-__READ__0000000001",
                    "_c_c-__WRIT__0000000003",
                ],
                RecipeKind::Lock,
                "_c_a-__READ__0000000001",
                2,
            ),
            (
                &["x__WRIT__0000000001", "a__READ__0000000002"],
                RecipeKind::Lock,
                "x__WRIT__0000000001",
                1,
            ),
            (
                &["x-72075-0000000002", "x-72076-0000000001"],
                RecipeKind::Lock,
                "x-72076-0000000001",
                1,
            ),
            (
                &[
                    "read-1-0000000001",
                    "read-2-0000000002",
                    "write-3-0000000003",
                ],
                RecipeKind::Lock,
                "read-1-0000000001",
                2,
            ),
            (
                &["f__lock__0000000001"],
                RecipeKind::Lock,
                "f__lock__0000000001",
                1,
            ),
            (
                &["_c_a-lease-0000000003", "_c_b-lease-0000000004"],
                RecipeKind::Lock,
                "_c_a-lease-0000000003",
                2,
            ),
            (
                &["_c_a-latch-0000000011", "_c_z-latch-0000000002"],
                RecipeKind::Leader,
                "_c_z-latch-0000000002",
                1,
            ),
            (
                &["qn-0000000002", "qn-0000000001"],
                RecipeKind::Queue,
                "qn-0000000001",
                0,
            ),
            (
                &["entry-100-0000000001", "entry-001-0000000002"],
                RecipeKind::Queue,
                "entry-001-0000000002",
                0,
            ),
            (
                &["queue-0000000001"],
                RecipeKind::Queue,
                "queue-0000000001",
                0,
            ),
            (
                &["qn-0000000002", "qn-0000000001", "a-lock-0000000001"],
                RecipeKind::Queue,
                "qn-0000000001",
                0,
            ),
        ] {
            let found = contenders(&names(children)).expect("a recipe");
            assert_eq!(
                (found.kind, found.names[0].as_str(), found.holders),
                (kind, first, holders),
                "{children:?}"
            );
        }
    }

    #[test]
    fn other_children_are_no_recipe() {
        for children in [
            &[][..],
            &["a", "b"],
            &["lock-", "queue-1"],
            &["item-0000000001"],
            &["lock", "0000000001"],
        ] {
            assert_eq!(contenders(&names(children)), None, "{children:?}");
        }
    }

    #[test]
    fn work_queues_have_items_and_claims() {
        assert_eq!(
            work_queue(&names(&["claims", "dead", "items"])),
            Some(("items", "claims"))
        );
        assert_eq!(
            work_queue(&names(&["entries", "taken"])),
            Some(("entries", "taken"))
        );
        assert_eq!(work_queue(&names(&["items", "taken"])), None);
    }
}
