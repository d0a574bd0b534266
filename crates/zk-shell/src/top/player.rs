//! Plays a recording: which samples are due, by the recorded clock.
//!
//! Pure: no I/O and no clock.

use super::sample::Sample;

/// A recording, and how far it has been played.
#[derive(Debug)]
pub(crate) struct Player {
    samples: Vec<Sample>,
    next: usize,
    /// The recorded time, in milliseconds since 1970.
    position: u64,
    /// In eighths of the recorded speed.
    speed: u64,
}

impl Player {
    /// Creates a player of a recording that is not empty.
    pub(crate) fn new(samples: Vec<Sample>) -> Option<Self> {
        let position = samples.first()?.at;
        Some(Self {
            samples,
            next: 0,
            position,
            speed: NORMAL,
        })
    }

    /// Lets so many milliseconds pass, and returns the samples of that time.
    pub(crate) fn advance(&mut self, milliseconds: u64) -> &[Sample] {
        let until = self
            .position
            .saturating_add(milliseconds.saturating_mul(self.speed) / NORMAL);
        self.play_until(until)
    }

    /// Goes on by one recorded second.
    pub(crate) fn step(&mut self) -> &[Sample] {
        self.play_until(self.position.saturating_add(1_000))
    }

    /// Plays all that is left.
    pub(crate) fn finish(&mut self) -> &[Sample] {
        self.play_until(u64::MAX)
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
        self.next == self.samples.len()
    }

    /// The speed and how much was played, for a title.
    pub(crate) fn progress(&self) -> String {
        let percent = self.next * 100 / self.samples.len();
        match self.speed {
            speed if speed >= NORMAL => format!("replay {}x {percent}%", speed / NORMAL),
            speed => format!("replay 1/{}x {percent}%", NORMAL / speed),
        }
    }

    fn play_until(&mut self, until: u64) -> &[Sample] {
        let start = self.next;
        let due = self.samples[start..]
            .iter()
            .take_while(|sample| sample.at <= until);
        self.next += due.count();
        let last = self.samples.last().map_or(0, |sample| sample.at);
        self.position = until.min(last.max(self.position));
        &self.samples[start..self.next]
    }
}

/// Reads a recording: a sample in JSON on each line. Returns the number of the first line that is none.
pub(crate) fn parse_recording(text: &str) -> Result<Vec<Sample>, usize> {
    let lines = text.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| serde_json::from_str(line).map_err(|_| at + 1))
        .collect()
}

const NORMAL: u64 = 8;

#[cfg(test)]
mod tests {
    use super::super::sample::Reading;
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

    fn times(samples: &[Sample]) -> Vec<u64> {
        samples.iter().map(|sample| sample.at).collect()
    }

    // covers: O6
    #[test]
    fn samples_are_played_at_their_times() {
        let mut player = Player::new(recording()).unwrap();
        assert_eq!(times(player.advance(0)), [1_000]);
        assert_eq!(times(player.advance(399)), [0; 0]);
        assert_eq!(times(player.advance(1)), [1_400]);
        player.faster();
        assert_eq!(times(player.advance(300)), [2_000, 2_000]);
        assert_eq!(player.progress(), "replay 2x 80%");
        player.slower();
        player.slower();
        assert_eq!(times(player.advance(1_000)), [0; 0]);
        assert_eq!(player.progress(), "replay 1/2x 80%");
        assert!(!player.is_over());
        assert_eq!(times(player.finish()), [5_000]);
        assert!(player.is_over());
        assert_eq!(player.position(), 5_000);
    }

    #[test]
    fn a_step_is_one_recorded_second() {
        let mut player = Player::new(recording()).unwrap();
        assert_eq!(times(player.step()), [1_000, 1_400, 2_000, 2_000]);
        assert_eq!(times(player.step()), [0; 0]);
        assert_eq!(player.position(), 3_000);
    }

    #[test]
    fn a_recording_reads_back_what_was_written() {
        let samples = recording();
        let lines: Vec<_> = samples
            .iter()
            .map(|sample| serde_json::to_string(sample).unwrap())
            .collect();
        assert_eq!(parse_recording(&lines.join("\n")), Ok(samples));
        assert_eq!(parse_recording("\n{}\n"), Err(2));
        assert!(Player::new(Vec::new()).is_none());
    }
}
