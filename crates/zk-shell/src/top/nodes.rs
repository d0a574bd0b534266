//! Reads locks, leaders, queues and the sizes of subtrees through a session, within the budget.

use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use tokio::sync::mpsc;
use zk_core::Error;
use zk_core::Session;
use zk_lock::OwnerInfo;

use super::budget::Budget;
use super::clock::Clock;
use super::clock::milliseconds;
use super::crawl::Crawl;
use super::crawl::Unlisted;
use super::crawl::joined;
use super::recipe_names;
use super::sample::Reading;
use super::sample::Recipe;
use super::sample::RecipeKind;
use super::sample::Sample;
use crate::context::close;
use crate::failure::Failure;

/// What is read of the nodes, and where the samples go.
#[derive(Debug)]
pub(crate) struct NodeReader {
    clock: Clock,
    samples: mpsc::Sender<Sample>,
    budget: Budget,
    crawl_limit: u64,
    /// The paths whose recipes are shown, in turn.
    paths: Vec<String>,
    last_crawl: Option<Crawl>,
}

/// The samples are not taken any more.
#[derive(Debug)]
struct NotTaken;

impl NodeReader {
    pub(crate) fn new(
        clock: Clock,
        samples: mpsc::Sender<Sample>,
        crawl_limit: u64,
        paths: Vec<String>,
    ) -> Self {
        Self {
            clock,
            samples,
            budget: Budget::new(REQUESTS_PER_SECOND),
            crawl_limit,
            paths,
            last_crawl: None,
        }
    }

    /// Reads the recipes in turn, and the tree for each message of `crawls`, until one side is gone.
    ///
    /// The session is opened when it is needed first, and again after it is lost.
    pub(crate) async fn run(
        mut self,
        open: impl AsyncFn() -> Result<Session, Failure>,
        mut crawls: mpsc::Receiver<()>,
    ) {
        let mut session: Option<Session> = None;
        let mut is_crawl_wanted = false;
        let mut turn = 0;
        loop {
            if self.paths.is_empty() && !is_crawl_wanted {
                let Some(()) = crawls.recv().await else {
                    return;
                };
                is_crawl_wanted = true;
            }
            is_crawl_wanted |= crawls.try_recv().is_ok();
            let current = match session.take().filter(|session| !session.state().is_lost()) {
                Some(session) => session,
                None => match open().await {
                    Ok(session) => session,
                    Err(failure) => {
                        let reason = failure.problem().to_owned();
                        if self.send(Reading::NoSession(reason)).await.is_err() {
                            return;
                        }
                        self.clock.until(self.clock.now() + OPEN_AGAIN).await;
                        continue;
                    }
                },
            };
            let done = if is_crawl_wanted {
                let crawled = self.crawl(&current).await;
                // Again with the next session.
                is_crawl_wanted = matches!(crawled, Ok(Crawled::SessionLost));
                crawled.map(drop)
            } else {
                let path = self.paths[turn % self.paths.len()].clone();
                turn += 1;
                self.read_recipe(&current, &path).await
            };
            if done.is_err() {
                close(current).await;
                return;
            }
            session = Some(current);
        }
    }

    async fn crawl(&mut self, session: &Session) -> Result<Crawled, NotTaken> {
        let mut crawl = Crawl::new(self.clock.now(), self.crawl_limit);
        loop {
            let batch = crawl.batch(LISTED_TOGETHER);
            if batch.is_empty() {
                break;
            }
            self.take_turn().await;
            let lists = session
                .list_many(&batch)
                .in_one_request()
                .timeout(READ_TIMEOUT)
                .await;
            match lists {
                Ok(lists) => {
                    for (path, list) in batch.iter().zip(lists) {
                        match listed(list) {
                            Ok(list) => crawl.listed(path, list),
                            Err(lost) => return Ok(lost),
                        }
                    }
                }
                // Servers before 3.6 read no nodes together, and a reply may be too long.
                Err(_) => {
                    for path in &batch {
                        self.take_turn().await;
                        let list = session.list(path).timeout(READ_TIMEOUT).await;
                        match listed(list.map(|(names, _)| names)) {
                            Ok(list) => crawl.listed(path, list),
                            Err(lost) => return Ok(lost),
                        }
                        self.send(Reading::Tree(crawl.progress())).await?;
                    }
                }
            }
            self.send(Reading::Tree(crawl.progress())).await?;
        }
        let tree = crawl.tree(self.last_crawl.as_ref());
        for path in &tree.recipes {
            if !self.paths.contains(path) {
                self.paths.push(path.clone());
            }
        }
        self.last_crawl = Some(crawl);
        self.send(Reading::Tree(tree)).await?;
        Ok(Crawled::Whole)
    }

    async fn read_recipe(&mut self, session: &Session, path: &str) -> Result<(), NotTaken> {
        let recipe = match self.recipe(session, path).await {
            Ok(recipe) => recipe,
            Err(error) if error.is_no_node() => Recipe {
                problem: Some("the node does not exist".to_owned()),
                ..unknown(path)
            },
            Err(error) => Recipe {
                problem: Some(error.to_string()),
                ..unknown(path)
            },
        };
        self.send(Reading::Recipe(recipe)).await
    }

    /// Reads a recipe with two requests, or four for a work queue, and up to two more for a busy queue, however many wait.
    async fn recipe(&mut self, session: &Session, path: &str) -> Result<Recipe, Error> {
        self.wait_for_pair().await;
        let names = self.list(session, path).await?;
        if let Some((items, claims)) = recipe_names::work_queue(&names) {
            let items_path = joined(path, items);
            let claimed = self.list(session, &joined(path, claims)).await?.len() as u64;
            self.wait_for_pair().await;
            let mut items = self.list(session, &items_path).await?;
            items.sort_unstable();
            let oldest = self.oldest(session, &items_path, &items).await?;
            return Ok(Recipe {
                kind: RecipeKind::WorkQueue,
                since: oldest,
                waiting: items.len() as u64,
                claimed: Some(claimed),
                first: items.into_iter().take(NAMES_SHOWN).collect(),
                ..unknown(path)
            });
        }
        let Some(contenders) = recipe_names::contenders(&names) else {
            return Ok(unknown(path));
        };
        let first = joined(path, &contenders.names[0]);
        let mut recipe = Recipe {
            kind: contenders.kind,
            waiting: (contenders.names.len() - contenders.holders) as u64,
            ..unknown(path)
        };
        if contenders.kind == RecipeKind::Queue {
            recipe.since = self.oldest(session, path, &contenders.names).await?;
        } else {
            self.take_turn().await;
            match session.get(&first).timeout(READ_TIMEOUT).await {
                Ok((data, stat)) => {
                    let others = contenders.holders - 1;
                    recipe.holder = Some(match others {
                        0 => owner(&data),
                        _ => format!("{} and {others} more", owner(&data)),
                    });
                    recipe.session = stat.ephemeral_owner.map(|id| id.as_i64().cast_unsigned());
                    recipe.since = Some(since_1970(stat.ctime));
                }
                // It was released meanwhile; the next turn shows who has it.
                Err(error) if error.is_no_node() => {}
                Err(error) => return Err(error),
            }
        }
        recipe.first = contenders.names.into_iter().take(NAMES_SHOWN).collect();
        Ok(recipe)
    }

    async fn list(&mut self, session: &Session, path: &str) -> Result<Vec<String>, Error> {
        self.take_turn().await;
        let (names, _) = session.list(path).timeout(READ_TIMEOUT).await?;
        Ok(names)
    }

    /// Returns when the first item was created that is still there, of a few at the head of a queue.
    async fn oldest(
        &mut self,
        session: &Session,
        path: &str,
        items: &[String],
    ) -> Result<Option<u64>, Error> {
        for item in items.iter().step_by(4).take(3) {
            self.take_turn().await;
            let item = joined(path, item);
            if let Some(stat) = session.exists(item).timeout(READ_TIMEOUT).await? {
                return Ok(Some(since_1970(stat.ctime)));
            }
        }
        Ok(None)
    }

    /// Waits until the budget has room for a list and a read of the first child, which may be gone a second later.
    async fn wait_for_pair(&self) {
        self.clock.until(self.budget.free_at(2)).await;
    }

    /// Waits until the budget has room for one request.
    async fn take_turn(&mut self) {
        self.clock.until(self.budget.free_at(1)).await;
        self.budget.take(self.clock.now());
    }

    async fn send(&self, reading: Reading) -> Result<(), NotTaken> {
        let sample = Sample {
            at: self.clock.now(),
            server: String::new(),
            asked: 0,
            reading,
        };
        self.samples.send(sample).await.map_err(|_| NotTaken)
    }
}

/// How a crawl has ended.
enum Crawled {
    Whole,
    SessionLost,
}

/// Returns what a crawl makes of a list.
fn listed(list: Result<Vec<String>, Error>) -> Result<Result<Vec<String>, Unlisted>, Crawled> {
    match list {
        Ok(names) => Ok(Ok(names)),
        Err(error) if error.is_no_node() => Ok(Err(Unlisted::Gone)),
        Err(error) if error.is_fatal() => Err(Crawled::SessionLost),
        Err(_) => Ok(Err(Unlisted::Unreadable)),
    }
}

fn unknown(path: &str) -> Recipe {
    Recipe {
        path: path.to_owned(),
        kind: RecipeKind::Unknown,
        holder: None,
        session: None,
        since: None,
        waiting: 0,
        claimed: None,
        first: Vec::new(),
        problem: None,
    }
}

/// What the owner says of itself.
fn owner(data: &[u8]) -> String {
    let said = OwnerInfo::parse(data).map_or_else(
        || String::from_utf8_lossy(data).into_owned(),
        |owner| owner.to_string(),
    );
    if said.is_empty() {
        return "anonymous".to_owned();
    }
    said.chars().take(OWNER_SHOWN).collect()
}

fn since_1970(time: SystemTime) -> u64 {
    milliseconds(time.duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// Of the five requests that a server may be sent in a second, two are left to words and one to pings.
const REQUESTS_PER_SECOND: usize = 2;
/// The reply to one request of 16 MiB would be too long.
const LISTED_TOGETHER: usize = 64;
const NAMES_SHOWN: usize = 50;
const OWNER_SHOWN: usize = 60;
/// In milliseconds.
const OPEN_AGAIN: u64 = 2_000;
const READ_TIMEOUT: Duration = Duration::from_secs(5);
