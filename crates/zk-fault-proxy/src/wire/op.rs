//! Maps opcodes to operations and their names.
//!
//! Pure: no I/O and no clock.

use std::fmt;

macro_rules! ops {
    ($($op:ident = $code:literal $name:literal $($note:literal)?;)*) => {
        /// The operation of a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Op {
            $(
                #[doc = concat!("`", $name, "`, opcode ", $code $(, ": ", $note)?, ".")]
                $op,
            )*
            /// Any other opcode.
            Other(i32),
        }

        impl Op {
            /// Returns the operation of an opcode.
            pub fn from_code(code: i32) -> Self {
                match code {
                    $($code => Self::$op,)*
                    other => Self::Other(other),
                }
            }

            /// Returns the opcode.
            pub fn code(self) -> i32 {
                match self {
                    $(Self::$op => $code,)*
                    Self::Other(code) => code,
                }
            }
        }

        /// ZooKeeper's name for it.
        impl fmt::Display for Op {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$op => f.write_str($name),)*
                    Self::Other(code) => write!(f, "opcode {code}"),
                }
            }
        }
    };
}

ops! {
    Create = 1 "create";
    Delete = 2 "delete";
    Exists = 3 "exists";
    GetData = 4 "getData";
    SetData = 5 "setData";
    GetAcl = 6 "getACL";
    SetAcl = 7 "setACL";
    GetChildren = 8 "getChildren";
    Sync = 9 "sync";
    Ping = 11 "ping";
    GetChildren2 = 12 "getChildren2" "also returns the stat";
    Check = 13 "check" "occurs within a transaction only";
    Multi = 14 "multi" "a transaction";
    Create2 = 15 "create2" "also returns the stat";
    Reconfig = 16 "reconfig";
    CheckWatches = 17 "checkWatches";
    RemoveWatches = 18 "removeWatches";
    CreateContainer = 19 "createContainer";
    CreateTtl = 21 "createTTL";
    MultiRead = 22 "multiRead";
    Auth = 100 "auth";
    SetWatches = 101 "setWatches" "sets the watches of a client that has reconnected";
    Sasl = 102 "sasl";
    GetEphemerals = 103 "getEphemerals";
    GetAllChildrenNumber = 104 "getAllChildrenNumber";
    SetWatches2 = 105 "setWatches2" "as `setWatches`, including persistent watches";
    AddWatch = 106 "addWatch";
    WhoAmI = 107 "whoAmI";
    CloseSession = -11 "closeSession";
}

impl Op {
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
        assert_eq!(Op::GetChildren2.to_string(), "getChildren2");
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
