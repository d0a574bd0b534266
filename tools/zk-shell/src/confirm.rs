//! Asks the person at the terminal before something that cannot be undone.

use std::io::{BufRead, IsTerminal};

use crate::context::Context;
use crate::failure::{Failure, write_stderr};

/// Asks a question, which ends with `[y/N] `, and fails with `refusal` unless the answer is yes.
///
/// The session is kept while the person thinks, and the time of the command starts again after the answer.
pub(crate) async fn confirm(
    context: &mut Context,
    question: &str,
    refusal: &str,
) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            format!("{refusal}: there is no terminal to ask on"),
            "add --yes to do it without a question",
        ));
    }
    let answer = if let Some(editor) = context.editor() {
        editor.ask(question).await
    } else {
        let question = question.to_owned();
        let answer = tokio::task::spawn_blocking(move || {
            write_stderr(&question);
            let mut answer = String::new();
            let read = std::io::stdin().lock().read_line(&mut answer);
            read.ok().map(|_| answer)
        });
        answer.await.ok().flatten()
    };
    context.restart_clock();
    match answer.as_deref().map(str::trim) {
        Some("y" | "Y" | "yes") => Ok(()),
        _ => Err(Failure::operation(refusal, None)),
    }
}
