//! Asks a person before something is deleted.

use std::io::BufRead as _;
use std::io::IsTerminal as _;

use crate::failure::Failure;
use crate::failure::tell;

/// Asks on the terminal, and fails unless the answer is yes.
pub(crate) async fn confirm(question: &str, without_terminal: &str) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            format!("{without_terminal}: there is no terminal to ask on"),
            "add --yes to do it without a question",
        ));
    }
    tell(&format!("{question} [y/N] "));
    // The session is kept while the person thinks.
    let answer = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        let read = std::io::stdin().lock().read_line(&mut answer);
        read.map(|_| answer)
    });
    match answer.await {
        Ok(Ok(answer)) if matches!(answer.trim(), "y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::operation("nothing was changed", None)),
    }
}
