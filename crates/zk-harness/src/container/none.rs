//! What stands in for containers in a build without them: types of which there is no value.

use std::sync::Arc;

use crate::config::Plan;
use crate::error::Error;
use crate::fault::Unavailable;
use crate::process::ProcessState;
use crate::server::Server;

/// No container.
#[derive(Debug)]
pub(crate) enum Container {}

/// No containers.
#[derive(Debug)]
pub(crate) enum Fleet {}

/// No image.
#[derive(Debug)]
pub(crate) enum ContainerImage {}

impl ContainerImage {
    pub(crate) fn chosen(&self) -> Option<String> {
        match *self {}
    }
}

impl Fleet {
    pub(crate) fn attach(_: Arc<Plan>) -> Result<Self, Error> {
        Err(Unavailable {
            fault: "a server in a container",
            reason: "this program was built without containers; build it with the feature `containers` of zk-harness"
                .into(),
        }
        .into())
    }

    pub(crate) fn assign_to(&self, _: &mut [Server]) {
        match *self {}
    }

    pub(crate) fn leave(&mut self) {
        match *self {}
    }

    pub(crate) fn remove(self) -> Result<(), Error> {
        match self {}
    }
}

impl Container {
    pub(crate) fn name(&self) -> &str {
        match *self {}
    }

    pub(crate) fn port(&self) -> u16 {
        match *self {}
    }

    pub(crate) fn state(&self) -> ProcessState {
        match *self {}
    }

    pub(crate) fn has_exited(&self) -> bool {
        match *self {}
    }

    #[expect(clippy::unused_async, reason = "it stands in for one that awaits")]
    pub(crate) async fn perform(&self, act: super::Act) -> Result<(), Error> {
        let _ = act;
        match *self {}
    }

    pub(crate) fn perform_blocking(&self, act: super::Act) -> Result<(), Error> {
        let _ = act;
        match *self {}
    }
}
