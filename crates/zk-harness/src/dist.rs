//! Where ZooKeeper and Java come from.
