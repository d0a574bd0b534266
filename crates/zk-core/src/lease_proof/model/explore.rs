//! Explores scenes whole.

use std::collections::{HashSet, VecDeque};
use std::time::Instant;

use super::Scene;
use super::world::{Action, World};

/// What the states of a scene have shown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Explored {
    pub(super) states: usize,
    /// In how many of them the proof had been extended and was valid.
    pub(super) extended: usize,
    /// In how many the proof had lapsed.
    pub(super) lapsed: usize,
    /// In how many the leader had removed the session from its list.
    pub(super) removed: usize,
}

/// Explores all states that the scene reaches. In the first one in which the proof outlives the session, it returns how
/// the scene came there.
pub(super) fn explore(scene: &Scene) -> Result<Explored, Vec<Action>> {
    let base = Instant::now();
    let mut seen = HashSet::new();
    let mut steps: Vec<(usize, Action)> = Vec::new();
    let mut explored = Explored::default();
    // By time: of the states that differ in nothing else, the earliest has all futures of the others.
    let mut later: Vec<(usize, World)> = (0..=scene.ping)
        .map(|next_ping| (START, World::new(scene, base, next_ping)))
        .collect();
    for (_, world) in &later {
        seen.insert(world.key(base));
    }
    while !later.is_empty() {
        let mut current = VecDeque::from(std::mem::take(&mut later));
        while let Some((reached_by, world)) = current.pop_front() {
            if !world.is_sound(base) {
                return Err(trace(&steps, reached_by));
            }
            explored.states += 1;
            let is_lapsed = world.is_lapsed(base);
            explored.lapsed += usize::from(is_lapsed);
            explored.extended += usize::from(!is_lapsed && world.is_extended(base));
            explored.removed += usize::from(world.is_removed());
            for action in world.actions(scene) {
                let next = world.after(action, scene, base);
                if seen.insert(next.key(base)) {
                    steps.push((reached_by, action));
                    let reached = (steps.len() - 1, next);
                    match action {
                        Action::Tick => later.push(reached),
                        _ => current.push_back(reached),
                    }
                }
            }
        }
    }
    Ok(explored)
}

/// Returns the actions that led to a state, the first one first.
fn trace(steps: &[(usize, Action)], mut reached_by: usize) -> Vec<Action> {
    let mut actions = Vec::new();
    while let Some((before, action)) = steps.get(reached_by) {
        actions.push(*action);
        reached_by = *before;
    }
    actions.reverse();
    actions
}

/// The index of no step.
const START: usize = usize::MAX;
