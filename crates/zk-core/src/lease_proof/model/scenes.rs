//! The scenes, each about one danger.

use super::world::{Budget, Server};
use super::{NOTHING, QUIET, Scene};

/// The follower and its leader exchange no messages for a while.
pub(super) const CUT: Scene = Scene {
    budget: Budget {
        writes: 1,
        cuts: 1,
        ..NOTHING
    },
    ..QUIET
};

/// The leader stops for a while.
pub(super) const STOP: Scene = Scene {
    budget: Budget {
        writes: 1,
        stops: 1,
        ..NOTHING
    },
    ..QUIET
};

/// A cut, and a write of another session.
pub(super) const CUT_AND_OTHER: Scene = Scene {
    budget: Budget {
        others: 1,
        cuts: 1,
        ..NOTHING
    },
    ..QUIET
};

/// A report omits a touch.
pub(super) const OMISSION: Scene = Scene {
    horizon: 24,
    sync_every: 4,
    budget: Budget {
        reads: 1,
        writes: 1,
        omissions: 1,
        ..NOTHING
    },
    ..QUIET
};

/// A report omits a touch, and the leader, which pings often, stops for a while.
pub(super) const OMISSION_AND_STOP: Scene = Scene {
    ping: 3,
    sync_every: 4,
    horizon: 18,
    budget: Budget {
        syncs: 1,
        writes: 1,
        stops: 1,
        omissions: 1,
        ..NOTHING
    },
    ..QUIET
};

/// The same as [`OMISSION`], and the leader replies so rarely that its pauses are unknown.
pub(super) const OMISSION_AND_RARE_REPLIES: Scene = Scene {
    sync_every: 6,
    ..OMISSION
};

/// The session moves.
pub(super) const MOVE: Scene = Scene {
    horizon: 14,
    budget: Budget {
        writes: 1,
        breaks: 1,
        ..NOTHING
    },
    ..QUIET
};

/// The session moves, and is granted a smaller timeout.
pub(super) const SMALLER_TIMEOUT: Scene = Scene {
    granted_by_move: 12,
    horizon: 8,
    ..MOVE
};

/// The session's server is the leader, and is deposed with what it can still commit.
pub(super) const DEPOSED_LEADER: Scene = Scene {
    server: Server::Leader,
    horizon: 14,
    budget: Budget {
        others: 1,
        stops: 1,
        depositions: 1,
        ..NOTHING
    },
    ..QUIET
};

/// The same, and the session moves.
pub(super) const DEPOSED_LEADER_AND_MOVE: Scene = Scene {
    server: Server::Leader,
    sync_every: 0,
    horizon: 4,
    budget: Budget {
        reads: 1,
        syncs: 1,
        others: 1,
        depositions: 1,
        breaks: 1,
        ..NOTHING
    },
    ..QUIET
};

/// The session's follower follows a deposed leader, so that the proof lapses; then it moves.
pub(super) const LAPSE: Scene = Scene {
    starts_deposed: true,
    sync_every: 4,
    horizon: 21,
    budget: Budget {
        writes: 1,
        breaks: 1,
        ..NOTHING
    },
    ..QUIET
};

/// The same with a write of another session, and with pings and `sync`s in each step.
pub(super) const LAPSE_AND_OTHER: Scene = Scene {
    ping: 1,
    sync_every: 1,
    horizon: 21,
    budget: Budget {
        others: 1,
        breaks: 1,
        ..NOTHING
    },
    ..LAPSE
};
