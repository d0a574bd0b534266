//! Runs one command in a session of its own.

use std::io;
use std::io::Read;
use std::time::Duration;
use std::time::Instant;

use zk_core::NodePath;
use zk_core::Session;

use crate::cli;
use crate::cli::Cli;
use crate::cli::Command;
use crate::config;
use crate::failure::Failure;
use crate::hold;
use crate::locks;
use crate::output;
use crate::output::print;

/// Runs one command in a session of its own.
pub(crate) async fn run(cli: Cli) -> Result<(), Failure> {
    // Check everything that needs no server first.
    let path = NodePath::parse(path_of(&cli.command))?;
    let connect = cli
        .connect
        .filter(|connect| !connect.trim().is_empty())
        .ok_or_else(|| {
            Failure::usage(
                "no ensemble to connect to",
                "give --connect host:port, set ZK_CONNECT, or run `cargo xtask ensemble up`",
            )
        })?;
    let credentials = credentials()?;
    // Read input before connecting: it may take long, and a session must not wait for it.
    let data = read_data(&cli.command)?;
    let is_held = matches!(&cli.command, Command::Create(create) if create.ephemeral);
    let shell = Shell {
        deadline: Instant::now() + cli.timeout,
        session: open(connect, cli.timeout, credentials).await?,
    };
    let result = shell.carry_out(cli.command, &path, data).await;
    // A held session has outlived the time limit of the command.
    let close_timeout = if is_held {
        CLOSE_TIMEOUT
    } else {
        CLOSE_TIMEOUT.min(shell.remaining())
    };
    // The result is known; a session whose close is not acknowledged ends at its timeout.
    drop(tokio::time::timeout(close_timeout, shell.session.close()).await);
    result
}

struct Shell {
    session: Session,
    deadline: Instant,
}

impl Shell {
    async fn carry_out(
        &self,
        command: Command,
        path: &NodePath,
        data: Vec<u8>,
    ) -> Result<(), Failure> {
        match command {
            Command::Ls(ls) => self.ls(&ls, path).await,
            Command::Get(get) => self.get(&get, path).await,
            Command::Set(set) => self.set(&set, path, data).await,
            Command::Create(create) => self.create(&create, path, data).await,
            Command::Delete(delete) if delete.recursive => self.delete_all(path).await,
            Command::Delete(delete) => {
                let request = self.session.delete(path).timeout(self.remaining());
                match delete.version {
                    Some(version) => request.version(version).await?,
                    None => request.await?,
                }
                Ok(())
            }
            Command::Deleteall { .. } => self.delete_all(path).await,
            Command::Stat { .. } => {
                let stat = self.session.stat(path).timeout(self.remaining()).await?;
                print(output::stat(&stat).as_bytes())
            }
            Command::Config(command) => {
                config::carry_out(&self.session, path, &command, self.remaining()).await
            }
            Command::Locks(command) => {
                let working = locks::carry_out(&self.session, path, &command);
                // The limit does not include the time of a confirmation: each operation has its own limit instead.
                if command.broken.is_some() && !command.yes {
                    return working.await;
                }
                let worked = tokio::time::timeout(self.remaining(), working).await;
                worked.unwrap_or_else(|_| Err(Failure::too_slow()))
            }
        }
    }

    async fn ls(&self, ls: &cli::Ls, path: &NodePath) -> Result<(), Failure> {
        if ls.recursive {
            return self.ls_tree(path).await;
        }
        let (names, stat) = self.session.list(path).timeout(self.remaining()).await?;
        let stat = if ls.stat {
            output::stat(&stat)
        } else {
            String::new()
        };
        print(format!("{}{stat}", output::names(names)).as_bytes())
    }

    /// Prints each node before its children, children sorted by name.
    async fn ls_tree(&self, root: &NodePath) -> Result<(), Failure> {
        let mut next = vec![root.clone()];
        while let Some(path) = next.pop() {
            match self.session.list(&path).timeout(self.remaining()).await {
                Ok((mut names, _)) => {
                    print(format!("{path}\n").as_bytes())?;
                    names.sort_unstable_by(|a, b| b.cmp(a));
                    for name in names {
                        next.push(path.join(&name)?);
                    }
                }
                // Deleted since its parent was listed.
                Err(error) if error.is_no_node() && path != *root => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    async fn get(&self, get: &cli::Get, path: &NodePath) -> Result<(), Failure> {
        let (data, stat) = self.session.get(path).timeout(self.remaining()).await?;
        let mut data = Vec::from(data);
        if !get.raw {
            data.push(b'\n');
        }
        if get.stat {
            data.extend_from_slice(output::stat(&stat).as_bytes());
        }
        print(&data)
    }

    async fn set(&self, set: &cli::Set, path: &NodePath, data: Vec<u8>) -> Result<(), Failure> {
        let request = self.session.set(path, data).timeout(self.remaining());
        let stat = match set.version {
            Some(version) => request.version(version).await?,
            None => request.await?,
        };
        if set.stat {
            print(output::stat(&stat).as_bytes())
        } else {
            Ok(())
        }
    }

    async fn create(
        &self,
        create: &cli::Create,
        path: &NodePath,
        data: Vec<u8>,
    ) -> Result<(), Failure> {
        let is_stdin_read = create.data.as_deref() == Some(STANDARD_INPUT);
        let mut request = self.session.create(path, data).timeout(self.remaining());
        if create.sequential {
            request = request.sequential();
        }
        if create.ephemeral {
            request = request.ephemeral();
        }
        if create.container {
            request = request.container();
        }
        if let Some(ttl) = create.ttl {
            request = request.ttl(ttl);
        }
        if create.parents {
            request = request.parents();
        }
        let (created, _) = request.await?;
        print(format!("Created {created}\n").as_bytes())?;
        if create.ephemeral {
            hold::until_released(&self.session, is_stdin_read).await
        } else {
            Ok(())
        }
    }

    async fn delete_all(&self, path: &NodePath) -> Result<(), Failure> {
        Ok(self
            .session
            .delete(path)
            .recursive()
            .timeout(self.remaining())
            .await?)
    }

    fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }
}

fn path_of(command: &Command) -> &str {
    match command {
        Command::Ls(ls) => &ls.path,
        Command::Get(get) => &get.path,
        Command::Set(set) => &set.path,
        Command::Create(create) => &create.path,
        Command::Delete(delete) => &delete.path,
        Command::Locks(locks) => &locks.path,
        Command::Config(config) => config::path_of(config),
        Command::Deleteall { path } | Command::Stat { path } => path,
    }
}

async fn open(
    connect: String,
    timeout: Duration,
    credentials: Option<(String, String)>,
) -> Result<Session, Failure> {
    let mut builder = Session::builder(connect)
        .connect_timeout(timeout)
        .operation_timeout(timeout);
    if let Some((user, password)) = credentials {
        builder = builder.digest_auth(&user, &password);
    }
    Ok(builder.connect().await?)
}

fn credentials() -> Result<Option<(String, String)>, Failure> {
    // No message contains the value: it is a password, well-formed or not.
    let malformed = || {
        Failure::usage(
            "ZK_AUTH is not user:password",
            "as in ZK_AUTH=alice:secret, or unset it",
        )
    };
    let Some(value) = std::env::var_os("ZK_AUTH") else {
        return Ok(None);
    };
    let value = value.into_string().map_err(|_| malformed())?;
    match value.split_once(':') {
        Some((user, password)) if !user.is_empty() => {
            Ok(Some((user.to_owned(), password.to_owned())))
        }
        _ => Err(malformed()),
    }
}

fn read_data(command: &Command) -> Result<Vec<u8>, Failure> {
    let data = match command {
        Command::Set(set) => &set.data,
        Command::Create(cli::Create {
            data: Some(data), ..
        }) => data,
        _ => return Ok(Vec::new()),
    };
    if data != STANDARD_INPUT {
        return Ok(data.clone().into_bytes());
    }
    let mut bytes = Vec::new();
    match io::stdin()
        .lock()
        .take(MOST_INPUT + 1)
        .read_to_end(&mut bytes)
    {
        Ok(read) if read as u64 > MOST_INPUT => Err(Failure::operation(
            format!(
                "standard input goes on beyond {MOST_INPUT} bytes, and no node holds that much"
            ),
            Some("store it in pieces, or elsewhere and its place in the node"),
        )),
        Ok(_) => Ok(bytes),
        Err(error) => Err(Failure::operation(
            format!("cannot read the data from standard input: {error}"),
            None,
        )),
    }
}

/// A node holds a little less; it is refused with the exact number.
const MOST_INPUT: u64 = 1 << 20;
const STANDARD_INPUT: &str = "-";
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
