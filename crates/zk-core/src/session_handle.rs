//! The part of a session that operations, watches and leases use: its engine and tasks, and the defaults of one
//! handle.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::watch;
use zk_wire::{ConnectString, SessionId};

use crate::engine::Engine;
use crate::engine::cleanup::Cleanup;
use crate::engine::concurrent_creates::ConcurrentCreates;
use crate::engine::heartbeat::{self, Uses};
use crate::engine::watch_manager::WatchManager;
use crate::session_defaults::SessionDefaults;
use crate::transport::Transport;

/// A handle of a session. The session is abandoned when the last one is dropped.
#[derive(Debug, Clone)]
pub(crate) struct SessionHandle {
    shared: Arc<Shared>,
    defaults: Arc<SessionDefaults>,
}

/// Dropped with the last handle of a session; the tasks of the session hold the engine and not this.
#[derive(Debug)]
struct Shared {
    engine: Arc<Engine>,
    /// How many handles rely on the session.
    uses: watch::Sender<Uses>,
    cleanup: Arc<Cleanup>,
    watch_manager: WatchManager,
    concurrent_creates: Arc<ConcurrentCreates>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.cleanup.abandon();
    }
}

impl SessionHandle {
    /// Starts the tasks of a session that was opened after `asked`, an instant of the lease clock if it is known, on the
    /// current runtime.
    pub(crate) fn start(
        transport: Box<dyn Transport>,
        servers: ConnectString,
        mut defaults: SessionDefaults,
        asked: Option<Instant>,
    ) -> Self {
        defaults.namespace = servers.chroot.join_path(&defaults.namespace);
        let engine = Arc::new(Engine::new(transport, servers, asked));
        Self {
            shared: Arc::new(Shared {
                uses: heartbeat::start(&engine),
                cleanup: Cleanup::start(&engine),
                watch_manager: WatchManager::start(&engine),
                concurrent_creates: Arc::default(),
                engine,
            }),
            defaults: Arc::new(defaults),
        }
    }

    /// Returns a handle of the same session with other defaults.
    pub(crate) fn with_defaults(&self, change: impl FnOnce(&mut SessionDefaults)) -> Self {
        let mut defaults = SessionDefaults::clone(&self.defaults);
        change(&mut defaults);
        Self {
            shared: Arc::clone(&self.shared),
            defaults: Arc::new(defaults),
        }
    }

    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.shared.engine
    }

    pub(crate) fn uses(&self) -> &watch::Sender<Uses> {
        &self.shared.uses
    }

    pub(crate) fn cleanup(&self) -> &Arc<Cleanup> {
        &self.shared.cleanup
    }

    pub(crate) fn watch_manager(&self) -> &WatchManager {
        &self.shared.watch_manager
    }

    pub(crate) fn concurrent_creates(&self) -> &Arc<ConcurrentCreates> {
        &self.shared.concurrent_creates
    }

    pub(crate) fn defaults(&self) -> &SessionDefaults {
        &self.defaults
    }

    pub(crate) fn id(&self) -> SessionId {
        self.engine().transport().session_id()
    }
}
