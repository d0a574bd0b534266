//! Orders the children of a lock, an election or a queue: who holds it, or is first, and who waits.
//!
//! Pure: no I/O and no clock.

use zk_core::Sequence;

use crate::recipe_names::{RecipeKind, kind_of};

/// The children of a node that a recipe uses.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Contenders {
    /// In order: the holder, or the first item, comes first. The names of other children are left out.
    pub(crate) names: Vec<String>,
    /// How many of them hold it together; zero for a queue.
    pub(crate) holders: usize,
}

/// Orders those children of a node that belong to its recipe; none unless that is a lock, an election or a queue.
pub(crate) fn contenders(kind: RecipeKind, children: &[String]) -> Contenders {
    let own = children.iter().filter(|name| kind_of(name) == Some(kind));
    let mut names: Vec<String> = own.cloned().collect();
    let holders = if kind == RecipeKind::Queue {
        // The names have their priorities first, in fixed widths.
        names.sort_unstable();
        0
    } else {
        names.sort_by_cached_key(|name| Sequence::split(name).map(|(_, number)| number.number()));
        let shared = names.iter().take_while(|name| is_shared(name)).count();
        shared.max(1).min(names.len())
    };
    Contenders { names, holders }
}

fn is_shared(name: &str) -> bool {
    Sequence::split(name).is_some_and(|(stem, _)| {
        let markers = ["__READ__", "__rlock__", "lease-"];
        stem.starts_with("read-") || markers.iter().any(|marker| stem.ends_with(marker))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::recipe_names::recipe_kind;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn holders_and_first_items_come_first() {
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
            let children = names(children);
            assert_eq!(recipe_kind(&children), kind, "{children:?}");
            let found = contenders(kind, &children);
            assert_eq!(
                (found.names[0].as_str(), found.holders),
                (first, holders),
                "{children:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_names_have_their_holders_among_them(
            children in prop::collection::vec(
                prop_oneof![
                    any::<String>(),
                    "[a-z-]{0,3}(lock-|__READ__|__WRIT__|lease-|latch-|qn-|x-|read-)-?[0-9]{8,12}",
                ],
                0..6,
            ),
        ) {
            let kind = recipe_kind(&children);
            let found = contenders(kind, &children);
            prop_assert!(found.holders <= found.names.len());
            prop_assert!(found.names.iter().all(|name| children.contains(name)));
            let is_ordered = matches!(kind, RecipeKind::Lock | RecipeKind::Leader | RecipeKind::Queue);
            prop_assert_eq!(is_ordered, !found.names.is_empty());
        }
    }
}
