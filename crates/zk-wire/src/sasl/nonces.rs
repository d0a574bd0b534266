//! The nonces of SASL exchanges: random numbers of the operating system, or those of a seed in tests.

use super::SaslError;

/// Where the nonces of a session come from.
#[derive(Debug)]
pub(crate) enum Nonces {
    System,
    Seeded(fastrand::Rng),
}

impl Nonces {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        match seed {
            Some(seed) => Self::Seeded(fastrand::Rng::with_seed(seed)),
            None => Self::System,
        }
    }

    pub(crate) fn next(&mut self) -> Result<[u8; 16], SaslError> {
        let mut nonce = [0; 16];
        match self {
            Self::Seeded(generator) => generator.fill(&mut nonce),
            Self::System => getrandom::fill(&mut nonce).map_err(|error| {
                SaslError::new(format!(
                    "the operating system has no random numbers: {error}"
                ))
            })?,
        }
        Ok(nonce)
    }
}
