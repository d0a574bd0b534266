//! Creates the nodes of an export, or compares them with those that exist.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use zk_core::{NodePath, Session};

use super::input::STANDARD_INPUT;
use crate::confirm::confirm;
use crate::context::{Context, close};
use crate::crawl::counted;
use crate::escape;
use crate::failure::Failure;
use crate::file_io::blocking;
use crate::output::Output;
use crate::progress::Progress;
use crate::signals::Interruption;
use crate::subtree::apply::{Changes, Extras, Mode, apply, check_target};
use crate::subtree::archive::ArchiveFile;
use crate::subtree::compare::{Strictness, Verdict, compare};
use crate::subtree::counts::nodes;
use crate::subtree::difference::Existing;
use crate::subtree::format_error::FormatError;
use crate::subtree::node::{RelativePath, SubtreeNode};
use crate::subtree::node_line::Header;
use crate::subtree::reconcile::{Reconcile, Wanted};
use crate::subtree::validator::Summary;
use crate::subtree::writer::{User, Writer, authenticate, create_parents};

/// The arguments.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the flags of the command line"
)]
pub(crate) struct Import {
    /// What happens to nodes that exist already
    #[arg(long, value_enum, value_name = "WHAT", default_value = "fail")]
    existing: Existing,
    /// Continue an interrupted import: leave nodes whose data is that of the export
    #[arg(long, conflicts_with = "existing")]
    resume: bool,
    /// Create the ephemeral nodes of the export too, as persistent ones
    #[arg(long)]
    ephemerals: bool,
    /// Print what would be done
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Refuse to create more nodes than this
    #[arg(long, value_name = "NODES", default_value_t = 100_000)]
    limit: u64,
    /// Do not ask before nodes are created in /
    #[arg(short, long)]
    yes: bool,
    /// Only compare the nodes with the export; exit status 1 if they differ
    #[arg(long, conflicts_with_all = ["existing", "resume", "dry_run"])]
    verify: bool,
    /// The file or directory; - for standard input
    file: PathBuf,
    /// The root of the new subtree; by default where it was exported
    path: Option<String>,
}

impl Import {
    /// Checks the whole file, creates the nodes and compares them. The time limit applies to each request.
    pub(crate) async fn run(self, context: &mut Context) -> Result<(), Failure> {
        let archive = open(context, &self.file).await?;
        let read = blocking(move || check(archive)).await;
        let (archive, header, summary, paths) =
            read.map_err(|error| self.not_read(&error, NOT_IMPORTED))?;
        let path = match &self.path {
            Some(path) => context.path(path)?,
            None => NodePath::parse(&header.root)?,
        };
        // It writes as a user that no other session can be, if it has no other one.
        let is_own = !self.dry_run && !self.verify && !context.access()?.has_user();
        let (session, user) = if is_own {
            let connect = context.connect_string()?;
            let session = context.open_other(connect, context.access()?).await?;
            (session, User::OfSession)
        } else {
            (context.session().await?, User::Known)
        };
        let target = Target {
            session,
            user,
            path,
        };
        // From here on a signal must not keep the session from being closed, nor nodes from getting their rules.
        let mut interruption = context.interrupter().interruption();
        let export = (archive, summary, paths);
        let result = async {
            if is_own {
                let authenticating = authenticate(&target.session);
                interruption.end(authenticating).await?;
            }
            self.import(context, &target, export, &mut interruption)
                .await
        }
        .await;
        if is_own {
            close(target.session).await;
        }
        result
    }

    async fn import(
        &self,
        context: &mut Context,
        target: &Target,
        (archive, summary, paths): (ArchiveFile, Summary, TopLevel),
        interruption: &mut Interruption,
    ) -> Result<(), Failure> {
        let Target {
            session,
            user,
            path,
        } = target;
        let existing = if self.resume {
            Existing::Resume
        } else {
            self.existing
        };
        if self.verify {
            let strictness = Strictness {
                may_differ: false,
                may_have_extra: false,
                may_root_differ: path.is_root(),
            };
            let comparing = self.compare(context, target, archive, &summary, strictness);
            return interruption.end(comparing).await;
        }
        paths.check_target(session, path)?;
        self.check_limit(&summary)?;
        let preparing = async {
            session.sync(path).await?;
            if existing == Existing::Fail {
                paths.check_absent(session, path).await?;
            }
            if self.dry_run {
                return Ok(());
            }
            if path.is_root() && !self.yes {
                let question = format!(
                    "This creates up to {} with {} of data in /.\nImport? [y/N] ",
                    nodes(summary.nodes),
                    counted(summary.bytes, "byte")
                );
                confirm(context, &question, "nothing was written").await?;
            }
            create_parents(session, path).await
        };
        interruption.end(preparing).await?;
        let mode = if self.dry_run {
            Mode::Print(context.output())
        } else {
            let writer = Writer::new(session, path, context.output(), *user);
            Mode::Write(Box::new(writer))
        };
        let progress = Progress::new("imported", Some(summary.nodes));
        let (wanted, reading) = stream(archive);
        let mut reconcile = Reconcile::new(wanted, self.ephemerals, session, path);
        let changes = apply(
            &mut reconcile,
            path,
            existing,
            Extras::Count,
            mode,
            &progress,
            interruption,
        )
        .await?;
        drop((progress, reconcile));
        let is_merged = matches!(existing, Existing::Skip | Existing::Overwrite);
        let strictness = Strictness {
            may_differ: existing == Existing::Skip,
            may_have_extra: is_merged || path.is_root(),
            may_root_differ: path.is_root(),
        };
        let reporting = async {
            let archive = self.finish(reading, CHANGED).await?;
            self.print(context.output(), path, &changes).await?;
            if self.dry_run {
                return Ok(());
            }
            self.compare(context, target, archive, &summary, strictness)
                .await
        };
        interruption.end(reporting).await
    }

    /// Says what was written, or would be.
    async fn print(
        &self,
        output: &Output,
        path: &NodePath,
        changes: &Changes,
    ) -> Result<(), Failure> {
        let word = if self.dry_run {
            "Would import"
        } else {
            "Imported"
        };
        output
            .result(
                || {
                    format!(
                        "{word} to {}: {}\n",
                        escape::line(path.as_str()),
                        changes.words()
                    )
                },
                || {
                    let mut document = changes.json();
                    document["path"] = path.as_str().into();
                    document["dry_run"] = self.dry_run.into();
                    document
                },
            )
            .await
    }

    /// Fails if the export has too many nodes.
    fn check_limit(&self, summary: &Summary) -> Result<(), Failure> {
        if summary.nodes <= self.limit {
            return Ok(());
        }
        Err(Failure::operation(
            format!(
                "{} would be created, and the limit is {}; nothing was written",
                nodes(summary.nodes),
                self.limit
            ),
            Some("give more with --limit NODES if you mean all of them"),
        ))
    }

    /// Compares all nodes with the export, and fails if they differ.
    async fn compare(
        &self,
        context: &Context,
        Target { session, path, .. }: &Target,
        archive: ArchiveFile,
        summary: &Summary,
        strictness: Strictness,
    ) -> Result<(), Failure> {
        session.sync(path).await?;
        let progress = Progress::new("compared", Some(summary.nodes));
        let (wanted, reading) = stream(archive);
        let mut reconcile = Reconcile::new(wanted, self.ephemerals, session, path);
        let found = compare(
            &mut reconcile,
            path,
            strictness,
            context.output(),
            &progress,
        )
        .await?;
        drop((progress, reconcile));
        let help = if self.verify { NOT_IMPORTED } else { CHANGED };
        self.finish(reading, help).await?;
        let verdict = found.verdict();
        let sha256 = &summary.sha256;
        context.output().result(
            || {
                format!("{verdict:?}: {}\nsha256 of the export {sha256}\n", found.words())
            },
            || json!({"verified": verdict == Verdict::Verified, "path": path.as_str(), "sha256": sha256, "nodes": found.json()}),
        ).await?;
        match verdict {
            Verdict::Verified => Ok(()),
            Verdict::Different => Err(Failure::silent()),
            Verdict::Incomplete => Err(Failure::operation(
                format!(
                    "{} were not compared with the export",
                    nodes(found.unreadable)
                ),
                Some(
                    "verify with the credentials of a user who may read all of them: ZK_AUTH=user:password zk import --verify",
                ),
            )),
        }
    }

    async fn finish(&self, reading: Reading, help: &'static str) -> Result<ArchiveFile, Failure> {
        let (archive, read) = reading.await.map_err(|error| {
            Failure::operation(
                format!("reading {} failed: {error}", self.file.display()),
                None,
            )
        })?;
        read.map_err(|error| self.not_read(&error, help))?;
        Ok(archive)
    }

    fn not_read(&self, error: &FormatError, help: &'static str) -> Failure {
        Failure::operation(format!("{}: {error}", self.file.display()), Some(help))
    }
}

/// Where the nodes are created.
struct Target {
    session: Session,
    user: User,
    path: NodePath,
}

/// The thread that reads an export; it returns the export for the next reading.
type Reading = JoinHandle<(ArchiveFile, Result<(), FormatError>)>;

/// The nodes of an export that show whether any of them exists: the root, or if that is `/`, those below it.
#[derive(Debug, Default)]
struct TopLevel {
    children: Vec<RelativePath>,
}

impl TopLevel {
    #[expect(
        clippy::unnecessary_wraps,
        reason = "it is called for each node of an archive"
    )]
    fn add(&mut self, node: &SubtreeNode) -> Result<(), FormatError> {
        if node.path.parent().is_some_and(|parent| parent.is_root()) {
            self.children.push(node.path.clone());
        }
        Ok(())
    }

    /// Fails if the import would write to a node that no command writes.
    fn check_target(&self, session: &Session, root: &NodePath) -> Result<(), Failure> {
        let chroot = &session.servers().chroot;
        check_target(root, chroot)?;
        for child in &self.children {
            check_target(&child.below(root)?, chroot)?;
        }
        Ok(())
    }

    async fn check_absent(&self, session: &Session, root: &NodePath) -> Result<(), Failure> {
        let candidates = if root.is_root() {
            let children = self.children.iter().map(|child| child.below(root));
            children.collect::<Result<Vec<_>, _>>()?
        } else {
            vec![root.clone()]
        };
        for path in candidates {
            if session.exists(&path).await?.is_some() {
                return Err(Failure::operation(
                    format!("{path} exists already, and nothing was written"),
                    Some(
                        "give another path, or choose what to do with nodes that exist: --existing skip or --existing overwrite, or --resume after an interrupted import",
                    ),
                ));
            }
        }
        Ok(())
    }
}

async fn open(context: &Context, file: &Path) -> Result<ArchiveFile, Failure> {
    let opened = if file.as_os_str() == STANDARD_INPUT {
        context.take_stdin()?;
        blocking(|| ArchiveFile::from_stream(std::io::stdin().lock())).await
    } else {
        let file = file.to_owned();
        blocking(move || ArchiveFile::open(&file)).await
    };
    opened.map_err(|error| {
        Failure::operation(format!("cannot read {}: {error}", file.display()), None)
    })
}

/// Reads an export to its end.
fn check(
    mut archive: ArchiveFile,
) -> Result<(ArchiveFile, Header, Summary, TopLevel), FormatError> {
    let mut paths = TopLevel::default();
    let (header, summary) = archive.read(&mut |node| paths.add(&node))?;
    Ok((archive, header, summary, paths))
}

/// Reads an archive on another thread, so that slow disks do not delay the session, and returns it at the end.
fn stream(mut archive: ArchiveFile) -> (Wanted, Reading) {
    let (sender, receiver) = mpsc::channel(NODES_AHEAD);
    let reading = tokio::task::spawn_blocking(move || {
        let read = archive.read(&mut |node| {
            sender
                .blocking_send(node)
                .map_err(|_| FormatError::whole("the import has ended early"))
        });
        (archive, read.map(drop))
    });
    (Wanted::Archive(receiver), reading)
}

const NOT_IMPORTED: &str =
    "a damaged export cannot be imported, and nothing was written: export the subtree again";
const CHANGED: &str = "the export could be read before, so that it was changed meanwhile; what was written of it before stays";
/// How many nodes are read ahead; the data of each may be long.
const NODES_AHEAD: usize = 16;
