//! The nodes of a double barrier with rounds, and the transactions that change them.

use zk_core::{Error, NodePath, Session, Stat, Transaction};

use crate::decision::{Opening, RoundCount};

/// The paths of a double barrier.
#[derive(Debug, Clone)]
pub(crate) struct RoundNodes {
    /// The path of the double barrier.
    pub(crate) path: NodePath,
    /// The node of the current round. Its children are the members and the state; its version counts withdrawals, and
    /// the transaction that created it identifies the round.
    pub(crate) round: NodePath,
    /// Version 0 until the round is opened, then 1, unless other clients write to it. Its data is then the name of the
    /// opener.
    pub(crate) state: NodePath,
}

impl RoundNodes {
    pub(crate) fn below(path: &NodePath) -> Self {
        let round = child(path, ROUND);
        Self {
            state: child(&round, STATE),
            round,
            path: path.clone(),
        }
    }

    /// Returns the path from which those of members are made, by adding a unique id.
    pub(crate) fn member(&self) -> NodePath {
        child(&self.round, MEMBER)
    }

    /// Returns the path of a member.
    pub(crate) fn member_named(&self, name: &str) -> NodePath {
        child(&self.round, name)
    }

    /// Returns the number of members as the stat of the round shows it.
    pub(crate) fn count(stat: &Stat) -> RoundCount {
        RoundCount {
            changed: stat.pzxid,
            members: stat.num_children.saturating_sub(1),
            withdrawals: stat.version,
        }
    }

    /// Returns how the round was opened; `None` if it was not.
    ///
    /// If another client wrote the state, the opener is one that is gone.
    pub(crate) fn opening(&self, data: &[u8], stat: &Stat) -> Option<Opening> {
        let name = String::from_utf8_lossy(data);
        let is_name = name != STATE && self.round.join(&name).is_ok();
        (stat.version != NOT_OPENED).then(|| Opening {
            zxid: stat.mzxid,
            opener: if is_name { &name } else { MEMBER }.to_owned(),
        })
    }

    /// Removes the state from a list of the round's children.
    pub(crate) fn members(mut children: Vec<String>) -> Vec<String> {
        children.retain(|name| name != STATE);
        children
    }

    /// Creates the first round, and missing parents.
    pub(crate) async fn create(&self, session: &Session) -> Result<(), Error> {
        let created = self.add_round(session.transaction()).commit().await;
        match created {
            Err(error) if error.is_no_node() => {}
            Err(error)
                if error.is_node_exists() || error.is_outcome_unknown() && !error.is_fatal() =>
            {
                return Ok(());
            }
            done => return done.map(drop),
        }
        // The caller comes back, since the round is still missing.
        match session.create(&self.path, "").parents().idempotent().await {
            Err(error) if !error.is_node_exists() => Err(error),
            _ => Ok(()),
        }
    }

    /// Opens the round, unless a member withdrew since the count, the opener is gone, or another one has opened it.
    pub(crate) fn open(&self, session: &Session, own: &NodePath, withdrawals: i32) -> Transaction {
        let name = own.name().unwrap_or_default();
        session
            .transaction()
            .check_version(&self.round, withdrawals)
            .check(own)
            .set_version(&self.state, name, NOT_OPENED)
    }

    /// Removes a member, unless the round was opened. A member that has counted it does not open the round any more.
    pub(crate) fn withdraw(&self, session: &Session, own: &NodePath) -> Transaction {
        session
            .transaction()
            .check_version(&self.state, NOT_OPENED)
            .set(&self.round, "")
            .delete(own)
    }

    /// Succeeds if both members are in the round.
    pub(crate) fn validate(session: &Session, own: &NodePath, other: &NodePath) -> Transaction {
        session.transaction().check(other).check(own)
    }

    /// Ends a round that was opened and has no member but `own`, and begins the next one.
    ///
    /// A node with children cannot be deleted, so no member is left when it succeeds. The state has version `opened`.
    pub(crate) fn close(
        &self,
        session: &Session,
        own: Option<&NodePath>,
        opened: i32,
    ) -> Transaction {
        let mut transaction = session.transaction();
        if let Some(own) = own {
            transaction = transaction.delete(own);
        }
        let transaction = transaction
            .delete_version(&self.state, opened)
            .delete(&self.round);
        self.add_round(transaction)
    }

    fn add_round(&self, transaction: Transaction) -> Transaction {
        transaction.create(&self.round, "").create(&self.state, "")
    }
}

fn child(parent: &NodePath, name: &str) -> NodePath {
    parent
        .join(name)
        .expect("names of nodes of this crate, and of children that a server lists, are valid")
}

const ROUND: &str = "round";
const STATE: &str = "state";
const MEMBER: &str = "member";
/// The version of the state until the round is opened.
const NOT_OPENED: i32 = 0;
/// The version of the state of an open round, unless another client has written to it.
pub(super) const OPENED: i32 = 1;
