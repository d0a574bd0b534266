//! The code that chooses a mutant when tests run.

/// The function that a crate with mutants has at its root.
///
/// `ZK_MUTANT` chooses a mutant. `ZK_MUTANTS_REACHED` names a directory in which the file of each mutant that is reached
/// gets a line with the test that reaches it, which nextest names in variables.
pub(crate) const CHOOSE: &str = r#"
#[allow(warnings, clippy::all, clippy::pedantic, reason = "not part of the crate")]
pub(crate) fn __mutant(number: u32) -> bool {
    use std::env;
    use std::collections::BTreeSet;
    use std::fs::OpenOptions;
    use std::io::Write as _;
    use std::path::PathBuf;
    use std::sync::{Mutex, OnceLock};

    static CHOSEN: OnceLock<(u32, Option<PathBuf>)> = OnceLock::new();
    static REACHED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());
    let (chosen, directory) = CHOSEN.get_or_init(|| {
        let chosen = env::var("ZK_MUTANT").ok().and_then(|number| number.parse().ok());
        (chosen.unwrap_or(0), env::var_os("ZK_MUTANTS_REACHED").map(PathBuf::from))
    });
    if let Some(directory) = directory {
        let is_first = REACHED.lock().is_ok_and(|mut reached| reached.insert(number));
        if is_first {
            let test = |name: &str| env::var(name).unwrap_or_default();
            let line = format!("{} {}\n", test("NEXTEST_BINARY_ID"), test("NEXTEST_TEST_NAME"));
            let file = OpenOptions::new().create(true).append(true).open(directory.join(number.to_string()));
            file.and_then(|mut file| file.write_all(line.as_bytes())).expect("the directory is there");
        }
    }
    *chosen == number
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_that_chooses_is_rust() {
        syn::parse_file(CHOOSE).unwrap();
    }
}
