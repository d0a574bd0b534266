//! What clients of an encrypted or authenticated ensemble need: made by `up`, printed by `env`.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use zk_harness::{Ensemble, SaslDigest, Spec, superuser_digest};

/// Adds a SASL user, unless the settings have users, and replaces the superuser. Returns the password of the superuser.
pub(crate) fn add(spec: &mut Spec) -> anyhow::Result<String> {
    let users = match spec.sasl_digest.take() {
        Some(users) => users,
        None => SaslDigest::new([(USER, password()?)]),
    };
    spec.sasl_digest = Some(users.required());
    let superuser = password()?;
    spec.superuser = Some(superuser_digest(&superuser));
    Ok(superuser)
}

/// Writes all credentials into a file that only this user may read.
pub(crate) fn write(directory: &Path, spec: &Spec, superuser: &str) -> anyhow::Result<()> {
    let users = spec.sasl_digest.iter().flat_map(|sasl| &sasl.users);
    let users: Vec<_> = users
        .map(|(name, password)| format!("ZK_SASL={name}:{password}\n"))
        .collect();
    let file = file(directory);
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&file)
        .and_then(|mut file| writeln!(file, "{}ZK_AUTH=super:{superuser}", users.concat()))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// Returns the servers that clients connect to, by the ports with TLS if there are some.
pub(crate) fn connect_string(ensemble: &Ensemble) -> anyhow::Result<String> {
    Ok(if ensemble.spec().tls {
        ensemble.secure_connect_string()?
    } else {
        ensemble.connect_string()
    })
}

/// Returns the series of a version if clients need to be given it: before 3.6.
fn old_release(version: &str) -> Option<String> {
    let mut numbers = version.split('.').map(str::parse::<u16>);
    let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    ((major, minor) < (3, 6)).then(|| format!("{major}.{minor}"))
}

/// Returns the environment of `zk`.
pub(crate) fn variables(ensemble: &Ensemble) -> anyhow::Result<BTreeMap<&'static str, String>> {
    let mut variables = BTreeMap::from([("ZK_CONNECT", connect_string(ensemble)?)]);
    if ensemble.spec().tls {
        let certificates = ensemble.certificates()?;
        let client = certificates.client();
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        variables.insert("ZK_TLS_CA", text(certificates.authority()));
        variables.insert("ZK_TLS_CERTIFICATE", text(client.certificate));
        variables.insert("ZK_TLS_KEY", text(client.key));
    }
    if let Some(bytes) = ensemble.spec().max_buffer {
        variables.insert("ZK_MAX_BUFFER", bytes.to_string());
    }
    if let Some(release) = old_release(ensemble.version()) {
        variables.insert("ZK_ASSUME_RELEASE", release);
    }
    let sasl = ensemble.spec().sasl_digest.as_ref();
    if let Some((name, password)) = sasl.and_then(|sasl| sasl.users.first_key_value()) {
        variables.insert("ZK_SASL", format!("{name}:{password}"));
    }
    Ok(variables)
}

/// Returns where the credentials are; nothing if none are needed.
pub(crate) fn hint(ensemble: &Ensemble) -> anyhow::Result<String> {
    let needed: Vec<_> = variables(ensemble)?.into_keys().skip(1).collect();
    if needed.is_empty() {
        return Ok(String::new());
    }
    let hint = format!(
        "clients also need {}, which `env` prints\n",
        needed.join(", ")
    );
    let file = file(ensemble.directory());
    Ok(if file.exists() {
        let path = file.display();
        format!("{hint}credentials, also of the superuser: {path}\n")
    } else {
        hint
    })
}

fn file(directory: &Path) -> PathBuf {
    directory.join("credentials.env")
}

/// Returns a random password of 119 bits.
///
/// It protects the servers from other users of this machine. They know when it was made, and could find one that is
/// drawn from a generator that a clock has seeded, as that of `fastrand`.
fn password() -> anyhow::Result<String> {
    let mut password = String::with_capacity(LENGTH);
    while password.len() < LENGTH {
        let mut bytes = [0; LENGTH];
        getrandom::fill(&mut bytes).context("the operating system has no random numbers")?;
        // All letters equally often: a byte that stands for none is left out.
        let letters = bytes
            .iter()
            .filter_map(|byte| LETTERS.get(usize::from(byte % 64)));
        let missing = LENGTH - password.len();
        password.extend(letters.take(missing).map(|letter| char::from(*letter)));
    }
    Ok(password)
}

const USER: &str = "alice";
const LENGTH: usize = 20;
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::thread;

    use super::*;

    #[test]
    fn only_old_releases_are_given_to_clients() {
        for (version, expected) in [
            ("3.4.13", Some("3.4")),
            ("3.5.10", Some("3.5")),
            ("3.6.4", None),
            ("3.10.0", None),
            ("4.0.0", None),
        ] {
            assert_eq!(old_release(version).as_deref(), expected, "{version}");
        }
    }

    #[test]
    fn passwords_differ_even_if_the_clock_and_the_thread_do_not() {
        let passwords = [0, 1].map(|_| {
            let process = thread::spawn(|| {
                fastrand::seed(7);
                password().unwrap()
            });
            process.join().unwrap()
        });
        assert_ne!(passwords[0], passwords[1]);
    }

    #[test]
    fn passwords_have_all_letters() {
        let passwords: Vec<_> = (0..200).map(|_| password().unwrap()).collect();
        assert!(passwords.iter().all(|password| password.len() == LENGTH));
        let letters: BTreeSet<u8> = passwords.iter().flat_map(|one| one.bytes()).collect();
        assert_eq!(letters.len(), LETTERS.len());
    }
}
