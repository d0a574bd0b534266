//! Replaces the types of [`container`](super) by empty enums in a build without the feature `containers`.

use std::sync::Arc;

use crate::config::Plan;
use crate::error::Error;
use crate::process::ProcessState;
use crate::server::Server;
use crate::unavailable::Unavailable;

/// No container.
#[derive(Debug)]
pub(crate) enum Container {}

/// No containers.
#[derive(Debug)]
pub(crate) enum Containers {}

/// No image.
#[derive(Debug)]
pub(crate) enum ContainerImage {}

impl ContainerImage {
    pub(crate) fn chosen(&self) -> Option<String> {
        match *self {}
    }
}

impl Containers {
    pub(crate) fn attach(_: Arc<Plan>) -> Result<Self, Error> {
        Err(Unavailable {
            fault: "a server in a container",
            reason: "this program was built without the feature `containers` of zk-harness; rebuild it with that feature"
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

    #[expect(clippy::unused_async, reason = "it replaces a function that awaits")]
    pub(crate) async fn perform(&self, action: super::ContainerAction) -> Result<(), Error> {
        let _ = action;
        match *self {}
    }

    pub(crate) fn perform_blocking(&self, action: super::ContainerAction) -> Result<(), Error> {
        let _ = action;
        match *self {}
    }
}
