//! ZooKeeper sessions, typed errors and operations: what every recipe stands on.
