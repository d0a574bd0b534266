//! Keeps the session of an ephemeral node open until the end of input or a signal.

use std::io::IsTerminal;

use tokio::io::AsyncReadExt;
use zk_core::Session;

use crate::context::Context;
use crate::failure::Failure;

/// Waits for a signal, which ends the program, or for the end of standard input, unless that is a terminal or was read
/// already.
///
/// A terminal is not read: the program may be in the background, where reading stops it and would cost the session.
pub(crate) async fn until_released(
    context: &mut Context,
    session: &Session,
    is_stdin_read: bool,
) -> Result<(), Failure> {
    context.end_with_signal();
    let watches_stdin = !is_stdin_read && !std::io::stdin().is_terminal();
    let until = if watches_stdin {
        "until Ctrl-C, SIGTERM or the end of standard input"
    } else {
        "until Ctrl-C or SIGTERM"
    };
    let note = format!("the node is ephemeral: keeping its session {until}");
    context.output().note(&note).await;
    tokio::select! {
        () = end_of_stdin(), if watches_stdin => Ok(()),
        _ = session.lost() => Err(Failure::operation("the session is lost, and its ephemeral node with it", None)),
    }
}

async fn end_of_stdin() {
    let mut stdin = tokio::io::stdin();
    let mut scrap = [0; 1024];
    // An unreadable input counts as ended.
    while stdin.read(&mut scrap).await.is_ok_and(|read| read > 0) {}
}
