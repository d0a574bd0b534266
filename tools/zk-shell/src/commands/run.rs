//! `run`: several commands from a file, in one session.

use std::path::PathBuf;

use clap::Args;

use super::input;
use crate::context::Context;
use crate::failure::Failure;
use crate::line::{self, Parsed};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Go on after a command that fails; the exit status is 1 if one did
    #[arg(short, long)]
    keep_going: bool,
    /// The file, or - for standard input: one command a line, without `zk`; # begins a comment
    file: PathBuf,
}

impl Run {
    /// Runs the commands in order, and stops at the first that fails.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let text = input::read_text(context, &self.file).await?;
        let name = if self.file.as_os_str() == input::STANDARD_INPUT {
            "standard input".to_owned()
        } else {
            self.file.display().to_string()
        };
        context.begin_script()?;
        let result = self.run_lines(context, &text, &name).await;
        context.end_script();
        result
    }

    async fn run_lines(
        &self,
        context: &mut Context,
        text: &str,
        name: &str,
    ) -> Result<(), Failure> {
        let (mut failed, mut ran) = (0, 0);
        for (at, line) in text.lines().enumerate() {
            context.begin_command(None, false);
            let location = format!("{name}, line {}", at + 1);
            let result = match line::parse(line) {
                Ok(Parsed::Nothing) => continue,
                Ok(Parsed::Quit) => break,
                Ok(Parsed::Help(text)) => crate::output::print(text).await,
                Ok(Parsed::Command(line)) => line.run(context).await,
                Err(failure) => Err(failure),
            };
            ran += 1;
            match result {
                Ok(()) => {}
                Err(failure) if failure.is_end() => return Err(failure),
                Err(failure) if self.keep_going => {
                    failed += 1;
                    context.output().failure(&failure.about(&location)).await;
                }
                Err(failure) => return Err(failure.about(&location)),
            }
        }
        if failed == 0 {
            return Ok(());
        }
        Err(Failure::operation(
            format!("{failed} of {ran} commands failed"),
            None,
        ))
    }
}
