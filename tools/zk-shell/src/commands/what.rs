//! Guesses which recipe uses a node, by its data and the names of its children, and says which command shows more.

use clap::Args;
use serde_json::json;

use super::queue::missing;
use crate::context::Context;
use crate::escape;
use crate::failure::Failure;
use crate::recipe_names::{RecipeKind, recipe_kind};

/// The arguments.
#[derive(Debug, Args)]
pub(crate) struct What {
    /// The node
    path: String,
}

impl What {
    /// Prints the guess.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let path = context.path(&self.path)?;
        let session = context.session().await?;
        let data = session.get(&path).timeout(context.remaining()).await;
        let names = session.list(&path).timeout(context.remaining()).await;
        let (data, names) = match (data, names) {
            (Ok((data, _)), Ok((names, _))) => (data, names),
            (Err(error), _) | (_, Err(error)) if error.is_no_node() => return Err(missing(&path)),
            (Err(error), _) | (_, Err(error)) => return Err(error.into()),
        };
        let guess = guess(&data, &names);
        context
            .output()
            .result(
                || {
                    let path = escape::line(path.as_str());
                    match guess.command {
                        Some(command) => format!(
                            "{path} looks like {}: try `zk {command} {path}`\n",
                            guess.what
                        ),
                        None => format!("{path} looks like {}\n", guess.what),
                    }
                },
                || json!({"path": path.as_str(), "what": guess.what, "command": guess.command}),
            )
            .await
    }
}

/// What a node looks like.
#[derive(Debug, PartialEq, Eq)]
struct Guess {
    what: &'static str,
    /// The command that shows more.
    command: Option<&'static str>,
}

fn guess(data: &[u8], names: &[String]) -> Guess {
    let has = |wanted: &str| names.iter().any(|name| name == wanted);
    let with = |what, command| Guess {
        what,
        command: Some(command),
    };
    let without = |what| Guess {
        what,
        command: None,
    };
    let is_of_member = |name: &String| name == "providers" || name.starts_with("member_");
    let is_counter = data.len() == 8 && data[0] == 0;
    match recipe_kind(names) {
        _ if data.starts_with(b"zk-queue ") => with("a queue of these libraries", "queue"),
        RecipeKind::WorkQueue if has("items") => with("a queue of these libraries", "queue"),
        RecipeKind::WorkQueue => with("a locking queue of kazoo", "queue"),
        RecipeKind::Queue => with("a queue", "queue"),
        _ if data.starts_with(b"zk-id ") => with("ids of these libraries", "ids"),
        RecipeKind::Leader => with("an election of Curator's LeaderLatch", "leader"),
        RecipeKind::Lock => with("a lock or an election", "locks"),
        _ if has("leases") && has("locks") => {
            without("a semaphore of Curator's; `zk locks` shows its queue below `locks`")
        }
        _ if names.iter().any(is_of_member) => {
            without("a service; `zk services` with the path of its parent shows the instances")
        }
        _ if is_counter && names.iter().all(|name| name.starts_with("after-")) => {
            with("a counter of eight bytes", "ids")
        }
        RecipeKind::Empty if data.is_empty() => without("an empty node"),
        _ => without("no recipe that this program knows"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_every_recipe_are_recognised() {
        for (data, names, command) in [
            (&b"zk-queue recipe"[..], &[][..], Some("queue")),
            (b"", &["items", "receipts"], Some("queue")),
            (b"", &["entries", "taken"], Some("queue")),
            (b"", &["entry-100-0000000000"], Some("queue")),
            (b"", &["queue-0000000000"], Some("queue")),
            (b"zk-id 16 workers", &["worker-00001"], Some("ids")),
            (b"\0\0\0\0\0\0\0\x07", &[], Some("ids")),
            (
                b"",
                &["_c_0d8e3dcc-2f4a-4f0e-9c3f-3f0c7a1b9f11-lock-0000000007"],
                Some("locks"),
            ),
            (
                b"",
                &["0123456789abcdef0123456789abcdef__lock__0000000001"],
                Some("locks"),
            ),
            (
                b"",
                &["_c_0d8e3dcc-2f4a-4f0e-9c3f-3f0c7a1b9f11-latch-0000000007"],
                Some("leader"),
            ),
            (b"", &["member_0000000001"], None),
            (b"", &["leases", "locks"], None),
            (b"abcdefgh", &[], None),
            (b"", &[], None),
            (b"x", &["some-0000000001"], None),
        ] {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(guess(data, &names).command, command, "{data:?} {names:?}");
        }
    }
}
