//! Plays a recording: which samples are due, by the recorded clock.

use super::recording::{RecordedSample, RecordedSamples};
use super::sample::Sample;
use crate::failure::Failure;

/// A recording, and how far it has been played.
#[derive(Debug)]
pub(crate) struct Player {
    samples: RecordedSamples,
    /// The first sample that was not played; `None` at the end.
    next: Option<RecordedSample>,
    /// The recorded time, in milliseconds since 1970.
    position: u64,
    /// How much of the file was played, if its length is known.
    percent: Option<u64>,
    /// In eighths of the recorded speed.
    speed: u64,
}

impl Player {
    /// Creates a player; `None` for a recording without samples.
    pub(crate) async fn new(mut samples: RecordedSamples) -> Result<Option<Self>, Failure> {
        let Some(first) = samples.recv().await.transpose()? else {
            return Ok(None);
        };
        Ok(Some(Self {
            samples,
            position: first.sample.at,
            percent: first.percent.map(|_| 0),
            next: Some(first),
            speed: NORMAL,
        }))
    }

    /// Lets so many milliseconds pass, and plays the samples of that time.
    ///
    /// # Errors
    ///
    /// If the recording cannot be read on, or its next line is no sample. What comes before was played, and it is over.
    ///
    /// # Cancel safety
    ///
    /// Safe: no sample is lost, and those that were played are not played again.
    pub(crate) async fn advance(
        &mut self,
        milliseconds: u64,
        play: impl FnMut(&Sample),
    ) -> Result<(), Failure> {
        let time = milliseconds.saturating_mul(self.speed) / NORMAL;
        self.play_until(self.position.saturating_add(time), play)
            .await
    }

    /// Goes on by one recorded second, as [`advance`](Self::advance) does.
    pub(crate) async fn step(&mut self, play: impl FnMut(&Sample)) -> Result<(), Failure> {
        self.play_until(self.position.saturating_add(1_000), play)
            .await
    }

    /// Plays all that is left, as [`advance`](Self::advance) does.
    pub(crate) async fn finish(&mut self, play: impl FnMut(&Sample)) -> Result<(), Failure> {
        self.play_until(u64::MAX, play).await
    }

    pub(crate) fn faster(&mut self) {
        self.speed = (self.speed * 2).min(64 * NORMAL);
    }

    pub(crate) fn slower(&mut self) {
        self.speed = (self.speed / 2).max(1);
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn is_over(&self) -> bool {
        self.next.is_none()
    }

    /// The speed and how much was played, for a title.
    pub(crate) fn progress(&self) -> String {
        let speed = match self.speed {
            speed if speed >= NORMAL => format!("replay {}x", speed / NORMAL),
            speed => format!("replay 1/{}x", NORMAL / speed),
        };
        match self.percent {
            Some(percent) => format!("{speed} {percent}%"),
            None => speed,
        }
    }

    async fn play_until(
        &mut self,
        until: u64,
        mut play: impl FnMut(&Sample),
    ) -> Result<(), Failure> {
        while self
            .next
            .as_ref()
            .is_some_and(|next| next.sample.at <= until)
        {
            let following = self.samples.recv().await.transpose();
            // The one before an error is played, too.
            let (following, read) = match following {
                Ok(following) => (following, Ok(())),
                Err(failure) => (None, Err(failure)),
            };
            if let Some(RecordedSample { sample, percent }) =
                std::mem::replace(&mut self.next, following)
            {
                play(&sample);
                self.position = self.position.max(sample.at);
                self.percent = percent;
            }
            read?;
        }
        if !self.is_over() {
            self.position = self.position.max(until);
        }
        Ok(())
    }
}

const NORMAL: u64 = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use tokio::sync::mpsc;

    use super::super::model::Model;
    use super::super::recording::tests::samples_of;
    use super::super::sample::Reading;
    use super::super::views::View;
    use super::*;

    fn recording() -> Vec<Sample> {
        [1_000, 1_400, 2_000, 2_000, 5_000]
            .map(|at| Sample {
                at,
                server: "s".to_owned(),
                asked: 0,
                reading: Reading::Down("refused".to_owned()),
            })
            .to_vec()
    }

    /// A player of samples that are there already.
    async fn player(samples: Vec<Sample>) -> Player {
        let count = samples.len() as u64;
        let (sender, receiver) = mpsc::channel(samples.len());
        for (sample, played) in samples.into_iter().zip(1..) {
            let percent = Some(played * 100 / count);
            let recorded = RecordedSample { sample, percent };
            sender.send(Ok(recorded)).await.expect("room");
        }
        let player = Player::new(receiver).await.expect("samples");
        player.expect("a sample")
    }

    /// The times of the samples of so many milliseconds.
    async fn times(player: &mut Player, milliseconds: u64) -> Vec<u64> {
        let mut times = Vec::new();
        let played = player.advance(milliseconds, |sample| times.push(sample.at));
        played.await.expect("samples");
        times
    }

    #[tokio::test]
    async fn samples_are_played_at_their_times() {
        let mut player = player(recording()).await;
        assert_eq!(times(&mut player, 0).await, [1_000]);
        assert_eq!(times(&mut player, 399).await, [0; 0]);
        assert_eq!(times(&mut player, 1).await, [1_400]);
        player.faster();
        assert_eq!(times(&mut player, 300).await, [2_000, 2_000]);
        assert_eq!(player.progress(), "replay 2x 80%");
        player.slower();
        player.slower();
        assert_eq!(times(&mut player, 1_000).await, [0; 0]);
        assert_eq!(player.progress(), "replay 1/2x 80%");
        assert!(!player.is_over());
        player
            .finish(|sample| assert_eq!(sample.at, 5_000))
            .await
            .unwrap();
        assert!(player.is_over());
        assert_eq!(player.position(), 5_000);
    }

    #[tokio::test]
    async fn a_step_is_one_recorded_second() {
        let mut player = player(recording()).await;
        let mut times = Vec::new();
        player.step(|sample| times.push(sample.at)).await.unwrap();
        assert_eq!(times, [1_000, 1_400, 2_000, 2_000]);
        player.step(|sample| panic!("{sample:?}")).await.unwrap();
        assert_eq!(player.position(), 3_000);
    }

    #[tokio::test]
    async fn a_recording_that_stalls_is_played_on_later() {
        let (sender, receiver) = mpsc::channel(1);
        let recorded = |sample: &Sample| {
            let sample = sample.clone();
            Ok(RecordedSample {
                sample,
                percent: None,
            })
        };
        let samples = recording();
        sender.send(recorded(&samples[0])).await.unwrap();
        let mut player = Player::new(receiver).await.unwrap().expect("a sample");
        let mut played = Vec::new();
        // The next sample is not there: a cancelled call plays nothing twice, and loses nothing.
        let stalled = player.finish(|sample| played.push(sample.clone()));
        assert!(futures_util::FutureExt::now_or_never(stalled).is_none());
        for sample in &samples[1..] {
            sender.send(recorded(sample)).await.unwrap();
            let stalled = player.finish(|sample| played.push(sample.clone()));
            assert!(futures_util::FutureExt::now_or_never(stalled).is_none());
        }
        assert_eq!(player.progress(), "replay 1x");
        drop(sender);
        player
            .finish(|sample| played.push(sample.clone()))
            .await
            .unwrap();
        assert_eq!(played, samples);
    }

    #[tokio::test]
    async fn what_comes_before_an_error_is_played() {
        let (sender, receiver) = mpsc::channel(2);
        let [sample, ..] = &recording()[..] else {
            panic!("it has samples");
        };
        let recorded = RecordedSample {
            sample: sample.clone(),
            percent: None,
        };
        sender.send(Ok(recorded)).await.unwrap();
        let failure = Failure::operation("line 2 is not a sample", None);
        sender.send(Err(failure)).await.unwrap();
        let mut player = Player::new(receiver).await.unwrap().expect("a sample");
        let mut played = Vec::new();
        let finished = player.finish(|sample| played.push(sample.clone())).await;
        assert_eq!(finished.unwrap_err().problem(), "line 2 is not a sample");
        assert_eq!(played, std::slice::from_ref(sample));
        assert!(player.is_over());
    }

    #[tokio::test]
    async fn a_recording_without_samples_has_no_player() {
        let (_, receiver) = mpsc::channel(1);
        assert!(Player::new(receiver).await.unwrap().is_none());
    }

    proptest! {
        #[test]
        fn a_damaged_recording_is_shown_or_refused(
            first in any::<prop::sample::Index>(),
            key in prop::option::of(prop::sample::select(&["at", "asked", "received", "since", "established"][..])),
            changes in prop::collection::vec((any::<prop::sample::Index>(), byte()), 0..4),
        ) {
            let lines: Vec<&str> = RECORDING.lines().collect();
            let first = first.index(lines.len());
            let some = lines[first..lines.len().min(first + 8)].join("\n");
            let some = match key {
                Some(key) => with_largest(&some, key),
                None => some,
            };
            let mut bytes = some.into_bytes();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let mut model = Model::default();
            for sample in samples_of(bytes) {
                model.apply(&sample);
            }
            for view in View::ALL {
                let table = view.table(&model).arranged("", view.order());
                drop((table.plain(), table.json()));
                for row in &table.rows {
                    drop(view.detail(&model, row));
                }
            }
        }
    }

    /// Three servers under load, whose leader is killed.
    const RECORDING: &str = include_str!("fixtures/killed-leader.jsonl");

    /// Most often a digit, so that numbers become others.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![4 => b'0'..=b'9', 1 => any::<u8>()]
    }

    /// Replaces all numbers of a key with the largest one.
    fn with_largest(recording: &str, key: &str) -> String {
        let field = regex::Regex::new(&format!("\"{key}\":[0-9]+")).expect("a pattern");
        let largest = format!("\"{key}\":{}", u64::MAX);
        field.replace_all(recording, largest).into_owned()
    }
}
