//! The layouts of a double barrier, and what each of them guarantees.
//!
//! Pure: no I/O and no clock.

/// Which nodes a double barrier consists of. All members on a path must use the same layout.
///
/// | | [`Rounds`](Self::Rounds), the default | [`Recipe`](Self::Recipe) |
/// |---|---|---|
/// | members may be | of this crate | of this crate, Curator and kazoo, tested together |
/// | a member that ran out of time | is never counted | may have been counted a moment before |
/// | members all died in an open round | the next round begins anew | the same for members of this crate; Curator's and kazoo's go straight in |
/// | a member that enters the next round at once | is never taken for one of the last | Curator and kazoo may wait for it to leave |
/// | `leave` returns | once no member is in the round | once each member is gone that was there at the beginning of the call |
/// | a slow member of the last round | changes nothing in the next | of Curator and kazoo: may remove the `ready` of the next round; those that have not seen it wait on |
/// | `ready` is created and removed while a member has no connection | does not apply | the member misses the round and waits on, and the others wait for it to leave: use a timeout |
/// | a member enters while others leave | waits for the next round, unless the opener is still there | may enter the round that ends, and be counted in the next one as well: both can have too few members |
/// | lists of the members | the opener's, about log₂(members) | one of each member, a second one of the last, and one of each that comes late |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Layout {
    /// Rounds are nodes: `round` with the members and its `state`. It is deleted and created again when the last member
    /// has left, which the servers refuse as long as there is one.
    #[default]
    Rounds,
    /// ZooKeeper's own recipe: the members, and a node `ready`, which exists while a round is open. Curator's
    /// `DistributedDoubleBarrier` and kazoo's `DoubleBarrier` use it, too.
    ///
    /// Use it only while such members share the path.
    Recipe,
}
