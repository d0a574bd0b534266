//! Keeps the requests to one server below a number per second, and decides which word it is asked next.
//!
//! Pure: no I/O and no clock; times are milliseconds on any clock that does not jump.

use std::collections::{BTreeMap, VecDeque};

use super::word::Word;

/// At most so many requests in any second.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    /// When the last `limit` requests were sent.
    recent: VecDeque<u64>,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            recent: VecDeque::new(),
        }
    }

    /// Returns from when on so many requests may be sent at once; at most the limit.
    pub(crate) fn free_at(&self, requests: usize) -> u64 {
        let kept = self.limit.saturating_sub(requests);
        let over = self.recent.len().saturating_sub(kept);
        let last_in_the_way = over.checked_sub(1).and_then(|at| self.recent.get(at));
        last_in_the_way.map_or(0, |sent| sent + SECOND)
    }

    /// Counts a request that is sent now.
    pub(crate) fn take(&mut self, now: u64) {
        if self.recent.len() >= self.limit {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
    }
}

/// When each word was asked last, or is to be asked again.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    due: BTreeMap<Word, u64>,
}

impl Schedule {
    /// Returns the wanted word that is due first, and when. Of those that are overdue, the cheapest comes first.
    pub(crate) fn next(&self, wanted: impl Fn(Word) -> bool, now: u64) -> Option<(Word, u64)> {
        let words = Word::ALL.into_iter().filter(|word| wanted(*word));
        let due = words.map(|word| (word, self.due.get(&word).copied().unwrap_or(0).max(now)));
        due.min_by_key(|(word, due)| (*due, *word))
    }

    /// The word was asked now. All servers are asked at the same times, so that their figures can be compared.
    pub(crate) fn asked(&mut self, word: Word, now: u64) {
        let interval = word.interval();
        self.due.insert(word, (now / interval + 1) * interval);
    }

    /// The word is asked again as soon as the budget has room.
    pub(crate) fn due_now(&mut self, word: Word) {
        self.due.remove(&word);
    }

    /// The word is not answered: it is asked again after a while, because a server may be restarted with other settings.
    pub(crate) fn refused(&mut self, word: Word, now: u64) {
        self.due
            .insert(word, now + REFUSED_INTERVAL.max(word.interval()));
    }
}

const SECOND: u64 = 1_000;
const REFUSED_INTERVAL: u64 = 30_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_has_more_requests_than_the_budget() {
        for (limit, step) in [(1, 7), (3, 1), (5, 13), (5, 250)] {
            let mut budget = Budget::new(limit);
            let mut sent = Vec::new();
            for now in (0..20_000).step_by(step) {
                if budget.free_at(1) <= now {
                    budget.take(now);
                    sent.push(now);
                }
            }
            assert!(sent.len() > limit, "{sent:?}");
            for window in sent.windows(limit + 1) {
                assert!(window[limit] - window[0] >= SECOND, "{window:?}");
            }
        }
    }

    #[test]
    fn several_requests_can_be_sent_at_once() {
        let mut budget = Budget::new(3);
        assert_eq!(budget.free_at(3), 0);
        for now in [10_000, 10_300, 10_600] {
            assert_eq!(budget.free_at(1), 0);
            budget.take(now);
        }
        let free: Vec<_> = (1..=4).map(|requests| budget.free_at(requests)).collect();
        assert_eq!(free, [11_000, 11_300, 11_600, 11_600]);
    }

    #[test]
    fn each_word_is_asked_at_its_interval() {
        let mut schedule = Schedule::default();
        let mut asked = BTreeMap::<Word, Vec<u64>>::new();
        for now in (0..60_000).step_by(50) {
            while let Some((word, due)) = schedule.next(|_| true, now) {
                if due > now {
                    break;
                }
                schedule.asked(word, now);
                asked.entry(word).or_default().push(now);
            }
        }
        for word in Word::ALL {
            let expected: Vec<u64> = (0..60_000)
                .step_by(usize::try_from(word.interval()).unwrap())
                .collect();
            assert_eq!(asked[&word], expected, "{word:?}");
        }
    }

    #[test]
    fn words_without_an_open_view_are_not_asked() {
        let schedule = Schedule::default();
        assert_eq!(schedule.next(|_| false, 5), None);
        assert_eq!(
            schedule.next(|word| word == Word::Wchp, 5),
            Some((Word::Wchp, 5))
        );
        assert_eq!(schedule.next(Word::is_cheap, 5), Some((Word::Srvr, 5)));
    }

    #[test]
    fn a_refused_word_is_left_alone_for_a_while() {
        let mut schedule = Schedule::default();
        schedule.refused(Word::Srvr, 1_000);
        assert_eq!(
            schedule.next(|word| word == Word::Srvr, 2_000),
            Some((Word::Srvr, 31_000))
        );
    }
}
