//! Maps opcodes to operations and their names.
//!
//! Pure: no I/O and no clock.

use std::fmt;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// `create`, opcode 1.
    Create,
    /// `delete`, opcode 2.
    Delete,
    /// `exists`, opcode 3.
    Exists,
    /// `getData`, opcode 4.
    GetData,
    /// `setData`, opcode 5.
    SetData,
    /// `getACL`, opcode 6.
    GetAcl,
    /// `setACL`, opcode 7.
    SetAcl,
    /// `getChildren`, opcode 8.
    GetChildren,
    /// `sync`, opcode 9.
    Sync,
    /// `ping`, opcode 11.
    Ping,
    /// `getChildren2`, which also returns the stat, opcode 12.
    GetChildren2,
    /// `check`, opcode 13; it occurs within a transaction only.
    Check,
    /// `multi`, opcode 14: a transaction.
    Multi,
    /// `create2`, which also returns the stat, opcode 15.
    Create2,
    /// `reconfig`, opcode 16.
    Reconfig,
    /// `checkWatches`, opcode 17.
    CheckWatches,
    /// `removeWatches`, opcode 18.
    RemoveWatches,
    /// `createContainer`, opcode 19.
    CreateContainer,
    /// `createTTL`, opcode 21.
    CreateTtl,
    /// `multiRead`, opcode 22.
    MultiRead,
    /// `auth`, opcode 100.
    Auth,
    /// `setWatches`, opcode 101: sets the watches of a client that has reconnected.
    SetWatches,
    /// `sasl`, opcode 102.
    Sasl,
    /// `getEphemerals`, opcode 103.
    GetEphemerals,
    /// `getAllChildrenNumber`, opcode 104.
    GetAllChildrenNumber,
    /// `setWatches2`, opcode 105: as `setWatches`, including persistent watches.
    SetWatches2,
    /// `addWatch`, opcode 106.
    AddWatch,
    /// `whoAmI`, opcode 107.
    WhoAmI,
    /// `closeSession`, opcode -11.
    CloseSession,
    /// Any other opcode.
    Other(i32),
}

impl Op {
    pub(crate) fn from_code(code: i32) -> Self {
        TABLE
            .iter()
            .find(|(_, known, _)| *known == code)
            .map_or(Self::Other(code), |(op, ..)| *op)
    }

    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Other(code) => code,
            known => TABLE
                .iter()
                .find(|(op, ..)| *op == known)
                .map_or(0, |(_, code, _)| *code),
        }
    }

    /// Returns whether it changes nodes, so that it goes through the leader.
    pub(crate) fn is_write(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::Create2
                | Self::CreateContainer
                | Self::CreateTtl
                | Self::Delete
                | Self::SetData
                | Self::SetAcl
                | Self::Multi
                | Self::Reconfig
        )
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match TABLE.iter().find(|(op, ..)| op == self) {
            Some((.., name)) => f.write_str(name),
            None => write!(f, "opcode {}", self.code()),
        }
    }
}

/// Every known operation, its opcode and ZooKeeper's name for it.
const TABLE: [(Op, i32, &str); 29] = [
    (Op::Create, 1, "create"),
    (Op::Delete, 2, "delete"),
    (Op::Exists, 3, "exists"),
    (Op::GetData, 4, "getData"),
    (Op::SetData, 5, "setData"),
    (Op::GetAcl, 6, "getACL"),
    (Op::SetAcl, 7, "setACL"),
    (Op::GetChildren, 8, "getChildren"),
    (Op::Sync, 9, "sync"),
    (Op::Ping, 11, "ping"),
    (Op::GetChildren2, 12, "getChildren2"),
    (Op::Check, 13, "check"),
    (Op::Multi, 14, "multi"),
    (Op::Create2, 15, "create2"),
    (Op::Reconfig, 16, "reconfig"),
    (Op::CheckWatches, 17, "checkWatches"),
    (Op::RemoveWatches, 18, "removeWatches"),
    (Op::CreateContainer, 19, "createContainer"),
    (Op::CreateTtl, 21, "createTTL"),
    (Op::MultiRead, 22, "multiRead"),
    (Op::Auth, 100, "auth"),
    (Op::SetWatches, 101, "setWatches"),
    (Op::Sasl, 102, "sasl"),
    (Op::GetEphemerals, 103, "getEphemerals"),
    (Op::GetAllChildrenNumber, 104, "getAllChildrenNumber"),
    (Op::SetWatches2, 105, "setWatches2"),
    (Op::AddWatch, 106, "addWatch"),
    (Op::WhoAmI, 107, "whoAmI"),
    (Op::CloseSession, -11, "closeSession"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_round_trip() {
        for code in -20..=120 {
            assert_eq!(Op::from_code(code).code(), code);
        }
        assert_eq!(Op::from_code(15), Op::Create2);
        assert_eq!(Op::from_code(-11), Op::CloseSession);
        assert_eq!(Op::from_code(10), Op::Other(10));
        for (op, code, name) in TABLE {
            assert_eq!(Op::from_code(code), op);
            assert_eq!(op.to_string(), name);
        }
        assert_eq!(Op::Other(10).to_string(), "opcode 10");
    }

    #[test]
    fn creates_and_transactions_are_writes_and_syncs_are_not() {
        assert!(Op::CreateTtl.is_write() && Op::Multi.is_write());
        for reads in [
            Op::Sync,
            Op::GetData,
            Op::MultiRead,
            Op::Ping,
            Op::CloseSession,
        ] {
            assert!(!reads.is_write(), "{reads}");
        }
    }
}
