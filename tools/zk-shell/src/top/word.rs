//! The words that servers are asked, and how often.
//!
//! Pure: no I/O and no clock.

/// A four-letter word, which the `AdminServer` knows as a command with a longer name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Word {
    /// Role, version, latency, packets, zxid.
    Srvr,
    /// Watches, ephemeral nodes, data, files, write times.
    Mntr,
    /// The limit of connections per client address.
    Conf,
    /// The size of snapshots and logs.
    Dirs,
    /// The connections.
    Cons,
    /// The watches by path. The server locks its watch tables meanwhile.
    Wchp,
    /// The ephemeral nodes by session.
    Dump,
}

impl Word {
    pub(crate) const ALL: [Self; 7] = [
        Self::Srvr,
        Self::Mntr,
        Self::Conf,
        Self::Dirs,
        Self::Cons,
        Self::Wchp,
        Self::Dump,
    ];

    /// The word, as it is written to the client port and into `4lw.commands.whitelist`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Srvr => "srvr",
            Self::Mntr => "mntr",
            Self::Conf => "conf",
            Self::Dirs => "dirs",
            Self::Cons => "cons",
            Self::Wchp => "wchp",
            Self::Dump => "dump",
        }
    }

    /// The name of the `AdminServer`'s command.
    pub(crate) const fn admin_command(self) -> &'static str {
        match self {
            Self::Srvr => "server_stats",
            Self::Mntr => "monitor",
            Self::Conf => "configuration",
            Self::Dirs => "dirs",
            Self::Cons => "connections",
            Self::Wchp => "watches_by_path",
            Self::Dump => "dump",
        }
    }

    /// The time between two questions, in milliseconds.
    ///
    /// The last three make the server go through all its connections, watches or nodes of sessions, and are asked only
    /// while their view is open.
    pub(crate) const fn interval(self) -> u64 {
        match self {
            Self::Srvr => 1_000,
            Self::Mntr => 2_000,
            Self::Cons => 5_000,
            Self::Wchp | Self::Dump => 15_000,
            Self::Dirs => 60_000,
            Self::Conf => 300_000,
        }
    }

    /// Whether it is asked whatever view is open.
    pub(crate) const fn is_cheap(self) -> bool {
        matches!(self, Self::Srvr | Self::Mntr | Self::Conf | Self::Dirs)
    }
}
