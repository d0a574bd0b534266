//! Registers an instance again whenever its node is removed.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use crate::error::RegisterError;
use crate::instance::Instance;
use crate::layout::{Format, Layout};
use crate::redact::redact;
use crate::registration::{Registration, RegistrationLoss};
use crate::registry::Registry;

impl<L: Layout> Registry<L> {
    /// Registers an instance, and registers it again whenever its node is removed, while the session lives.
    ///
    /// Use it in the body of [`supervise`](zk_core::SessionBuilder::supervise), which runs it again with the next
    /// session.
    /// It returns only the error that ends it.
    /// After a [transient](RegisterError::is_transient) error, such as a node of another session that outlives the wait
    /// of [`WhenTaken`](crate::WhenTaken), and after a removal by another client, it logs a `tracing` event of level
    /// warn and retries after one second.
    ///
    /// To update what is registered, use [`keep_registered_with`](Self::keep_registered_with).
    ///
    /// # Errors
    ///
    /// [`RegisterError::SessionLost`], and those of [`register`](Self::register) that are not
    /// [transient](RegisterError::is_transient).
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Safe: the instance is unregistered in the background. A static or permanent one stays.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
    /// use zk_core::{RetryPolicy, Session};
    /// use zk_discovery::{Instance, RegisterError, Registry};
    ///
    /// let instance = Instance::builder("orders", ()).id("orders-1").address("10.0.0.7").build()?;
    /// Session::builder("zk1,zk2,zk3")
    ///     .supervise(RetryPolicy::default(), async |session| {
    ///         let registry = Registry::new(&session, "/services")?;
    ///         // … and serve beside it.
    ///         Err::<(), RegisterError>(registry.keep_registered(&instance).await)
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn keep_registered<P>(&self, instance: &Instance<P>) -> RegisterError
    where
        L: Format<P>,
        P: Clone + Send + 'static,
    {
        self.keep_registered_with(instance, |_| std::future::ready(()))
            .await
    }

    /// Keeps an instance registered like [`keep_registered`](Self::keep_registered), and calls `work` with each
    /// registration.
    ///
    /// The future that `work` returns runs while that registration lasts, and is then dropped; it may end early.
    /// Registering again uses the instance as [last written](Registration::instance), so an update survives a removal
    /// of the node. It does not survive the session: with the next session this starts from `instance` again.
    /// A static or permanent instance that was updated is then refused as [taken](RegisterError::Taken), because its node
    /// stays and describes another instance: start from the updated one.
    ///
    /// # Errors
    ///
    /// Those of [`keep_registered`](Self::keep_registered).
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Safe: the instance is unregistered in the background, even if another task still holds its registration. A static
    /// or permanent one stays.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn demo(registry: zk_discovery::Registry, instance: zk_discovery::Instance<()>) {
    /// // Sending here enables or disables this instance for its consumers.
    /// let is_open = tokio::sync::watch::Sender::new(true);
    /// let error = registry
    ///     .keep_registered_with(&instance, |registration| {
    ///         let mut is_open = is_open.subscribe();
    ///         async move {
    ///             loop {
    ///                 let now = *is_open.borrow_and_update();
    ///                 if let Err(error) = registration.update(|one| one.set_enabled(now)).await {
    ///                     eprintln!("{error}");
    ///                 }
    ///                 if is_open.changed().await.is_err() {
    ///                     return;
    ///                 }
    ///             }
    ///         }
    ///     })
    ///     .await;
    /// # drop(error);
    /// # }
    /// ```
    pub async fn keep_registered_with<P, F>(
        &self,
        instance: &Instance<P>,
        mut work: impl FnMut(Arc<Registration<P>>) -> F,
    ) -> RegisterError
    where
        L: Format<P>,
        P: Clone + Send + 'static,
        F: Future<Output = ()>,
    {
        let mut instance = instance.clone();
        loop {
            match self.register(instance.clone()).await {
                Ok(registration) => {
                    let kept = UnregisterOnDrop(Arc::new(registration));
                    let working = work(Arc::clone(&kept.0));
                    let loss = tokio::select! {
                        biased;
                        loss = kept.0.lost() => loss,
                        never = async {
                            working.await;
                            pending::<RegistrationLoss>().await
                        } => never,
                    };
                    if loss == RegistrationLoss::SessionLost {
                        return RegisterError::SessionLost;
                    }
                    let path = redact(kept.0.path().as_str());
                    tracing::warn!(path, %loss, "registration lost; registering again");
                    instance = kept.0.instance().await;
                }
                Err(error) if error.is_transient() => {
                    let id = redact(instance.id());
                    tracing::warn!(
                        service = instance.name(),
                        id,
                        error = &error as &dyn std::error::Error,
                        "registering failed; retrying"
                    );
                }
                Err(error) => return error,
            }
            self.session.pause(PAUSE).await;
        }
    }
}

/// Ends a registration when dropped, even if it is shared.
struct UnregisterOnDrop<P: 'static>(Arc<Registration<P>>);

impl<P: 'static> Drop for UnregisterOnDrop<P> {
    fn drop(&mut self) {
        self.0.unregister_in_background();
    }
}

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
