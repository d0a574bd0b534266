//! `addauth`: more credentials for the session of the shell.

use clap::Args;

use super::cd::require_next_command;
use crate::context::Context;
use crate::credentials::Credentials;
use crate::failure::Failure;

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct Addauth {
    /// Take user:password from this environment variable, instead of asking for the password
    #[arg(long, value_name = "VARIABLE", conflicts_with = "user")]
    env: Option<String>,
    /// The user of the digest scheme, whose password is asked for
    #[arg(required_unless_present = "env")]
    user: Option<String>,
}

impl Addauth {
    /// Adds the credentials to the session, and to those that replace it.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        require_next_command(context, "addauth")?;
        let credentials = match (&self.env, self.user) {
            (Some(variable), _) => Credentials::from_env(variable)?.ok_or_else(|| {
                Failure::usage(
                    format!("the environment variable {variable} is not set"),
                    "start the shell with it, or give a user and type the password",
                )
            })?,
            (None, Some(user)) if user.contains(':') => {
                return Err(Failure::usage(
                    "the user has a colon: the password does not belong on the line",
                    "give the user alone; the password is asked for",
                ));
            }
            (None, user) => {
                let editor = context.editor().cloned().ok_or_else(|| {
                    Failure::usage(
                        "there is no terminal to ask for the password on",
                        "put user:password into an environment variable, and give its name with --env",
                    )
                })?;
                let password = editor.password("Password: ").await;
                context.restart_clock();
                Credentials {
                    user: user.unwrap_or_default(),
                    password: password
                        .ok_or_else(|| Failure::operation("no password was given", None))?,
                }
            }
        };
        context.add_credentials(credentials).await
    }
}
