//! What stands in for containers in a build without them: types of which there is no value.

use crate::error::Error;
use crate::process::ProcessState;

/// No container.
#[derive(Debug)]
pub(crate) enum Container {}

/// No containers.
#[derive(Debug)]
pub(crate) enum Fleet {}

/// No image.
#[derive(Debug)]
pub(crate) enum ContainerImage {}

impl Container {
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
