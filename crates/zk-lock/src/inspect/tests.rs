//! Which contenders hold the lock.

use super::*;

#[test]
fn the_first_one_holds_the_lock_and_readers_with_it() {
    let (alone, shared) = (Some(Kind::Exclusive), Some(Kind::Shared));
    for (kinds, expected) in [
        (&[][..], 0),
        (&[alone], 1),
        (&[alone, shared, shared], 1),
        (&[shared], 1),
        (&[shared, shared, alone, shared], 2),
        (&[None, alone], 0),
        (&[shared, None, shared], 1),
    ] {
        assert_eq!(holders(kinds), expected, "{kinds:?}");
    }
}
