//! The part of a session that operations, watches and leases use: its engine, and the defaults of one handle.

use std::sync::Arc;

use tokio::time::Instant;

use crate::connect_string::ConnectString;
use crate::engine::Engine;
use crate::session_defaults::SessionDefaults;
use crate::stat::SessionId;
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
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.engine.abandon();
    }
}

impl SessionHandle {
    /// Starts the tasks of a session that was opened after `asked`, on the current runtime.
    pub(crate) fn start(
        transport: Box<dyn Transport>,
        servers: ConnectString,
        defaults: SessionDefaults,
        asked: Instant,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                engine: Engine::start(transport, servers, asked),
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

    pub(crate) fn defaults(&self) -> &SessionDefaults {
        &self.defaults
    }

    pub(crate) fn id(&self) -> SessionId {
        self.engine().transport().session_id()
    }
}
