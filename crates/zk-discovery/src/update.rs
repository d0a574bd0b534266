//! Updates of a registered instance in place.

use zk_core::ErrorKind;

use crate::error::UpdateError;
use crate::instance::Instance;
use crate::registration::{Current, Registration};

impl<P: 'static> Registration<P> {
    /// Updates the instance in place: the node is written, never deleted and created again.
    ///
    /// `change` is applied to the current data of the node, including writes of other clients, and may be called more
    /// than once. If that data cannot be decoded, `change` is applied to the instance as last written.
    /// Nothing is written if nothing changes.
    /// Updates of one registration run one after the other.
    ///
    /// # Errors
    ///
    /// [`UpdateError::Gone`] if the instance is no longer registered. A node that replaced it is not written, unless
    /// the replacement happens between the read and the write and has the same version: ZooKeeper has no write
    /// conditional on the `czxid`. A write whose reply was lost is not repeated before the node is read again.
    /// [`UpdateError::Failed`] with [`ErrorKind::OutcomeUnknown`] if the node may have been written; update again.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the node may or may not be written. Update again; each update starts from the current data.
    ///
    /// # Cost
    ///
    /// Two round trips, and two more for each concurrent write of another client.
    pub async fn update(
        &self,
        mut change: impl FnMut(&mut Instance<P>) + Send,
    ) -> Result<(), UpdateError>
    where
        P: Clone + Send + Sync,
    {
        let gone = || UpdateError::Gone {
            path: self.path.clone(),
        };
        let mut current = self.current.lock().await;
        for _ in 0..ROUNDS {
            // A lagging server shows old data, and the write would be refused.
            let (synced, read) = tokio::join!(
                biased;
                self.session.sync(&self.path).into_future(),
                self.session.get(&self.path).into_future(),
            );
            synced?;
            let (data, stat) = match read {
                Err(error) if error.is_no_node() => return Err(gone()),
                read => read?,
            };
            if stat.czxid != self.czxid {
                return Err(gone());
            }
            let version = stat.version;
            let mut instance = current.instance.clone();
            if version != current.version
                && let Some(node) = self.path.name()
                && let Ok(found) = self.format.decode(&instance.name, node, &data)
            {
                // A format may drop the registration time, which identifies the registration.
                let registered = found.registered.or(instance.registered);
                instance = Instance {
                    registered,
                    ..found
                };
            }
            change(&mut instance);
            let entry = self.format.encode(&instance)?;
            if Some(entry.name.as_str()) != self.path.name() {
                return Err(UpdateError::OtherNode {
                    path: self.path.clone(),
                });
            }
            if entry.data == data {
                *current = Current { instance, version };
                return Ok(());
            }
            let set = self.session.set(&self.path, entry.data.as_slice());
            // If another client writes the same data, the result is the requested one.
            match set.version(version).idempotent().await {
                Ok(stat) if stat.czxid == self.czxid => {
                    let version = stat.version;
                    *current = Current { instance, version };
                    return Ok(());
                }
                Ok(_) => return Err(gone()),
                Err(error) if error.is_no_node() => return Err(gone()),
                Err(error) if error.kind() == ErrorKind::BadVersion => {}
                Err(error) if error.is_outcome_unknown() && self.is_gone().await => {
                    return Err(gone());
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(UpdateError::Contended {
            path: self.path.clone(),
            rounds: ROUNDS,
        })
    }

    /// Returns whether the node is certainly gone, as far as the session's server shows.
    async fn is_gone(&self) -> bool {
        let found = self.session.exists(&self.path).await;
        found.is_ok_and(|stat| stat.is_none_or(|stat| stat.czxid != self.czxid))
    }

    /// Replaces the payload in place.
    ///
    /// # Errors
    ///
    /// Those of [`update`](Self::update), which has the same cancel safety.
    pub async fn set_payload(&self, payload: P) -> Result<(), UpdateError>
    where
        P: Clone + Send + Sync,
    {
        self.update(|instance| instance.set_payload(payload.clone()))
            .await
    }
}

/// The attempts of an update while other clients write.
const ROUNDS: u32 = 8;
