//! Reads locks, leaders, queues and the sizes of subtrees through a session, within the budget.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::mpsc;
use zk_core::{Error, ErrorKind, Session};
use zk_lock::OwnerInfo;

use super::budget::Budget;
use super::clock::Clock;
use super::contenders::contenders;
use super::crawl::{ListProblem, TreeCrawl, joined};
use super::sample::{Reading, Recipe, Sample};
use crate::context::close;
use crate::failure::Failure;
use crate::output::millis;
use crate::recipe_names::{RecipeKind, recipe_kind, work_queue_parts};

/// What is read of the nodes, and where the samples go.
#[derive(Debug)]
pub(crate) struct NodeReader {
    clock: Clock,
    samples: mpsc::Sender<Sample>,
    budget: Budget,
    crawl_limit: u64,
    /// The paths whose recipes are shown; the one that is read next comes first.
    paths: VecDeque<RecipePath>,
    last_complete_crawl: Option<TreeCrawl>,
}

#[derive(Debug)]
struct RecipePath {
    path: String,
    /// Whether it was named on the command line, or else found by a crawl: then it is left out when it is gone.
    is_named: bool,
}

impl NodeReader {
    pub(crate) fn new(
        clock: Clock,
        samples: mpsc::Sender<Sample>,
        crawl_limit: u64,
        named_paths: Vec<String>,
    ) -> Self {
        let named = named_paths.into_iter().map(|path| RecipePath {
            path,
            is_named: true,
        });
        Self {
            clock,
            samples,
            budget: Budget::new(REQUESTS_PER_SECOND),
            crawl_limit,
            paths: named.collect(),
            last_complete_crawl: None,
        }
    }

    /// Reads the recipes in turn, and the tree for each message of `crawls`, until one side is gone; closes the session then.
    ///
    /// The session is opened when it is needed first, and again after it is lost.
    pub(crate) async fn run(
        mut self,
        open: impl AsyncFn() -> Result<Session, Failure>,
        crawls: mpsc::Receiver<()>,
    ) {
        let samples = self.samples.clone();
        let mut session = None;
        tokio::select! {
            () = samples.closed() => {}
            () = self.read(open, crawls, &mut session) => {}
        }
        if let Some(session) = session {
            close(session).await;
        }
    }

    async fn read(
        &mut self,
        open: impl AsyncFn() -> Result<Session, Failure>,
        mut crawls: mpsc::Receiver<()>,
        session: &mut Option<Session>,
    ) {
        let mut is_crawl_wanted = false;
        loop {
            if self.paths.is_empty() && !is_crawl_wanted {
                let Some(()) = crawls.recv().await else {
                    return;
                };
                is_crawl_wanted = true;
            }
            is_crawl_wanted |= crawls.try_recv().is_ok();
            session.take_if(|session| session.state().is_lost());
            let current = match &*session {
                Some(session) => session,
                None => match open().await {
                    Ok(opened) => session.insert(opened),
                    Err(failure) => {
                        let reason = failure.problem().to_owned();
                        self.send(Reading::NoSession(reason)).await;
                        self.clock.until(self.clock.now() + REOPEN_DELAY).await;
                        continue;
                    }
                },
            };
            if is_crawl_wanted {
                let crawled = self.crawl(current).await;
                // Again with the next session.
                is_crawl_wanted = matches!(crawled, Crawled::SessionLost);
            } else {
                self.read_next_recipe(current).await;
            }
        }
    }

    async fn crawl(&mut self, session: &Session) -> Crawled {
        let mut crawl = TreeCrawl::new(self.clock.now(), self.crawl_limit);
        loop {
            let batch = crawl.batch(LISTED_TOGETHER);
            if batch.is_empty() {
                break;
            }
            self.wait_for_one().await;
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
                            Err(lost) => return lost,
                        }
                    }
                }
                // Servers before 3.6 read no nodes together, and a reply may be too long.
                Err(_) => {
                    for path in &batch {
                        if crawl.is_given_up() {
                            break;
                        }
                        self.wait_for_one().await;
                        let list = session.list(path).timeout(READ_TIMEOUT).await;
                        match listed(list.map(|(names, _)| names)) {
                            Ok(list) => crawl.listed(path, list),
                            Err(lost) => return lost,
                        }
                        self.send(Reading::Tree(crawl.progress())).await;
                    }
                }
            }
            self.send(Reading::Tree(crawl.progress())).await;
        }
        let tree = crawl.tree(self.last_complete_crawl.as_ref());
        for path in &tree.recipes {
            if self.paths.iter().all(|known| known.path != *path) {
                self.paths.push_back(RecipePath {
                    path: path.clone(),
                    is_named: false,
                });
            }
        }
        if crawl.is_complete() {
            self.last_complete_crawl = Some(crawl);
        }
        self.send(Reading::Tree(tree)).await;
        Crawled::Whole
    }

    /// Reads the recipe whose turn it is.
    async fn read_next_recipe(&mut self, session: &Session) {
        let Some(next) = self.paths.pop_front() else {
            return;
        };
        let reading = match self.recipe(session, &next.path).await {
            Ok(recipe) => Reading::Recipe(recipe),
            Err(error) if error.is_no_node() && next.is_named => Reading::Recipe(Recipe {
                kind: RecipeKind::NoNode,
                ..unknown(&next.path)
            }),
            Err(error) if error.is_no_node() => {
                self.send(Reading::RecipeGone(next.path)).await;
                return;
            }
            Err(error) => Reading::Recipe(Recipe {
                problem: Some(error.to_string()),
                ..unknown(&next.path)
            }),
        };
        self.paths.push_back(next);
        self.send(reading).await;
    }

    /// Reads a recipe with two requests, or four for a work queue, and up to two more for a busy queue, however many wait.
    async fn recipe(&mut self, session: &Session, path: &str) -> Result<Recipe, Error> {
        self.wait_for_two().await;
        let names = self.list(session, path).await?;
        let mut recipe = Recipe {
            kind: recipe_kind(&names),
            ..unknown(path)
        };
        if let Some(parts) = work_queue_parts(&names) {
            let claims = joined(path, parts.claims);
            let claimed = self.list(session, &claims).await;
            recipe.claimed = Some(or_no_children(claimed)?.len() as u64);
            self.wait_for_two().await;
            let items_path = joined(path, parts.items);
            let mut items = or_no_children(self.list(session, &items_path).await)?;
            items.sort_unstable();
            recipe.since = self.oldest(session, &items_path, &items).await?;
            recipe.waiting = items.len() as u64;
            recipe.first = items.into_iter().take(NAMES_SHOWN).collect();
            return Ok(recipe);
        }
        let contenders = contenders(recipe.kind, &names);
        recipe.waiting = (contenders.names.len() - contenders.holders) as u64;
        if contenders.holders == 0 {
            recipe.since = self.oldest(session, path, &contenders.names).await?;
        } else {
            self.wait_for_one().await;
            let first = joined(path, &contenders.names[0]);
            match session.get(&first).timeout(READ_TIMEOUT).await {
                Ok((data, stat)) => {
                    let others = contenders.holders - 1;
                    recipe.holder = Some(match others {
                        0 => owner(&data),
                        _ => format!("{} and {others} more", owner(&data)),
                    });
                    recipe.session = stat.ephemeral_owner.map(|id| id.as_i64().cast_unsigned());
                    recipe.since = Some(millis(stat.ctime));
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
        self.wait_for_one().await;
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
            self.wait_for_one().await;
            let item = joined(path, item);
            if let Some(stat) = session.exists(item).timeout(READ_TIMEOUT).await? {
                return Ok(Some(millis(stat.ctime)));
            }
        }
        Ok(None)
    }

    /// Waits until the budget has room for a list and a read of the first child, which may be gone a second later.
    async fn wait_for_two(&self) {
        self.clock.until(self.budget.free_at(2)).await;
    }

    /// Waits until the budget has room for one request.
    async fn wait_for_one(&mut self) {
        self.clock.until(self.budget.free_at(1)).await;
        self.budget.take(self.clock.now());
    }

    async fn send(&self, reading: Reading) {
        let sample = Sample {
            at: self.clock.now(),
            server: String::new(),
            asked: 0,
            reading,
        };
        // Without a receiver, reading ends.
        drop(self.samples.send(sample).await);
    }
}

/// How a crawl has ended.
enum Crawled {
    Whole,
    SessionLost,
}

/// Returns what a crawl makes of a list.
fn listed(list: Result<Vec<String>, Error>) -> Result<Result<Vec<String>, ListProblem>, Crawled> {
    match list {
        Ok(names) => Ok(Ok(names)),
        Err(error) if error.is_no_node() => Ok(Err(ListProblem::Gone)),
        Err(error) if error.kind() == ErrorKind::NoAuth => Ok(Err(ListProblem::Refused)),
        Err(error) if error.is_fatal() => Err(Crawled::SessionLost),
        Err(error) => Ok(Err(ListProblem::Failed(error.to_string()))),
    }
}

/// Takes a node that does not exist for one without children.
fn or_no_children(list: Result<Vec<String>, Error>) -> Result<Vec<String>, Error> {
    match list {
        Err(error) if error.is_no_node() => Ok(Vec::new()),
        list => list,
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

/// Of the five requests that a server may be sent in a second, two are left to words and one to pings.
const REQUESTS_PER_SECOND: usize = 2;
/// The reply to one request of 16 MiB would be too long.
const LISTED_TOGETHER: usize = 64;
const NAMES_SHOWN: usize = 50;
const OWNER_SHOWN: usize = 60;
/// In milliseconds.
const REOPEN_DELAY: u64 = 2_000;
const READ_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
