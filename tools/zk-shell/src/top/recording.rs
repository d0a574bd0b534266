//! Writes samples to a file and reads them back, each on a thread of its own, so that a slow disk delays neither keys nor
//! readings, and a long recording needs little memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::sample::Sample;
use crate::failure::Failure;
use crate::file_io::blocking;

/// Writes a recording in the background: each sample as a line of JSON.
#[derive(Debug)]
pub(crate) struct Recorder {
    samples: mpsc::Sender<Sample>,
}

/// How writing a recording has ended, once the recorder is dropped and everything is written, or with the first error.
pub(crate) type RecordingResult = oneshot::Receiver<io::Result<()>>;

/// A sample of a recording, and how much of the file ends with it.
#[derive(Debug)]
pub(crate) struct RecordedSample {
    pub(crate) sample: Sample,
    /// `None` for a pipe, whose length is unknown.
    pub(crate) percent: Option<u64>,
}

/// The samples of a recording as they are read, up to the first line that is none.
pub(crate) type RecordedSamples = mpsc::Receiver<Result<RecordedSample, Failure>>;

/// Whether a recording that was read to its end ends with a part of a line, which is left out.
pub(crate) type IsCut = oneshot::Receiver<()>;

impl Recorder {
    /// Creates the file, which must not exist.
    pub(crate) async fn create(file: &Path) -> Result<(Self, RecordingResult), Failure> {
        let path = file.to_owned();
        let created = blocking(move || {
            let mut options = File::options();
            options.write(true).create_new(true);
            // It has names that others may not read on the servers.
            options.mode(0o600).open(path)
        })
        .await;
        let created = created.map_err(|error| {
            Failure::operation(
                format!("cannot create the recording {}: {error}", file.display()),
                Some("name a file that does not exist yet"),
            )
        })?;
        Ok(Self::start(created))
    }

    fn start(file: impl Write + Send + 'static) -> (Self, RecordingResult) {
        let (samples, received) = mpsc::channel(MAX_UNWRITTEN);
        let (to_result, result) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            // Without a receiver the command has ended.
            drop(to_result.send(write_samples(file, received)));
        });
        (Self { samples }, result)
    }

    /// Hands a sample to the thread. Fails if that is far behind; or if it has ended, and then its result says why.
    pub(crate) fn write(&self, sample: Sample) -> Result<(), Failure> {
        self.samples.try_send(sample).map_err(|error| {
            let reason = match error {
                mpsc::error::TrySendError::Full(_) => {
                    format!("{MAX_UNWRITTEN} readings wait for the disk")
                }
                mpsc::error::TrySendError::Closed(_) => "writing has ended".to_owned(),
            };
            unrecorded(&reason)
        })
    }
}

/// Waits until everything is written, but not for a disk that stalls.
///
/// # Errors
///
/// If writing has failed, or the disk has not taken the last samples in time.
pub(crate) async fn finish(result: RecordingResult) -> Result<(), Failure> {
    match tokio::time::timeout(MAX_WAIT, result).await {
        Ok(Ok(Err(error))) => Err(unrecorded(&error)),
        Ok(_) => Ok(()),
        Err(_) => Err(unrecorded(&format!(
            "the last readings are lost, the disk has not taken them within {} s",
            MAX_WAIT.as_secs()
        ))),
    }
}

fn unrecorded(reason: &dyn std::fmt::Display) -> Failure {
    Failure::operation(format!("cannot write the recording: {reason}"), None)
}

/// Opens a recording, and reads ahead a little.
pub(crate) async fn open(file: &Path) -> Result<(RecordedSamples, IsCut), Failure> {
    let name = file.display().to_string();
    let path = file.to_owned();
    let opened = blocking(move || File::open(path)).await;
    let opened = opened.map_err(|error| unreadable(&name, &error))?;
    let (to_samples, samples) = mpsc::channel(SAMPLES_AHEAD);
    let (to_is_cut, is_cut) = oneshot::channel();
    // It ends with the receiver.
    tokio::task::spawn_blocking(move || {
        let length = opened.metadata().map_or(0, |metadata| metadata.len());
        let send = |sample| to_samples.blocking_send(sample).is_ok();
        if read_samples(BufReader::new(opened), &name, length, send) {
            // Without a receiver the command has ended.
            let _ = to_is_cut.send(());
        }
    });
    Ok((samples, is_cut))
}

fn write_samples(mut file: impl Write, mut samples: mpsc::Receiver<Sample>) -> io::Result<()> {
    while let Some(sample) = samples.blocking_recv() {
        let mut line = serde_json::to_vec(&sample)?;
        line.push(b'\n');
        file.write_all(&line)?;
    }
    file.flush()
}

/// Reads samples, a line each, until the end, an error, or until `send` returns that none is wanted any more.
///
/// Returns whether it has ended with a part of a line: the disk was full, or the line is still being written.
fn read_samples(
    mut file: impl BufRead,
    name: &str,
    length: u64,
    mut send: impl FnMut(Result<RecordedSample, Failure>) -> bool,
) -> bool {
    let mut line = Vec::new();
    let mut read = 0;
    for number in 1_u64.. {
        line.clear();
        match file.read_until(b'\n', &mut line) {
            Ok(0) => return false,
            Ok(bytes) => read += bytes as u64,
            Err(error) => {
                send(Err(unreadable(name, &error)));
                return false;
            }
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice(&line) {
            Ok(sample) => {
                let percent = (read * 100).checked_div(length);
                if !send(Ok(RecordedSample { sample, percent })) {
                    return false;
                }
            }
            Err(error) if error.is_eof() && !line.ends_with(b"\n") => return true,
            Err(_) => {
                send(Err(Failure::operation(
                    format!("line {number} of {name} is not a sample"),
                    Some(REMEDY),
                )));
                return false;
            }
        }
    }
    false
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::operation(
        format!("cannot read the recording {name}: {error}"),
        Some(REMEDY),
    )
}

const REMEDY: &str = "name a file that --record has written";
/// How many samples may wait to be written: those of some minutes.
const MAX_UNWRITTEN: usize = 1_024;
/// How long the end of a recording may wait for the disk.
const MAX_WAIT: Duration = Duration::from_secs(5);
const SAMPLES_AHEAD: usize = 64;

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::mpsc as blocking_mpsc;

    use super::super::sample::Reading;
    use super::*;

    /// Returns the samples of a recording, up to the first line that is none.
    pub(crate) fn samples_of(recording: impl AsRef<[u8]>) -> Vec<Sample> {
        let mut samples = Vec::new();
        read_samples(recording.as_ref(), "recording", 0, |sample| {
            samples.extend(sample.map(|recorded| recorded.sample));
            true
        });
        samples
    }

    fn sample(at: u64) -> Sample {
        Sample {
            at,
            server: "zk1:2181".to_owned(),
            asked: 1,
            reading: Reading::Down("refused".to_owned()),
        }
    }

    #[tokio::test]
    async fn what_was_recorded_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("r.jsonl");
        let (recorder, result) = Recorder::create(&file).await.unwrap();
        let written: Vec<_> = (0..200).map(sample).collect();
        for sample in written.clone() {
            recorder.write(sample).unwrap();
        }
        drop(recorder);
        result.await.unwrap().unwrap();
        let (mut samples, is_cut) = open(&file).await.unwrap();
        let mut read = Vec::new();
        let mut percents = Vec::new();
        while let Some(recorded) = samples.recv().await {
            let recorded = recorded.unwrap();
            read.push(recorded.sample);
            percents.push(recorded.percent.expect("a file has a length"));
        }
        assert_eq!(read, written);
        assert!(percents.is_sorted() && percents.last() == Some(&100));
        assert!(is_cut.await.is_err());
        let failure = Recorder::create(&file).await.map(drop).unwrap_err();
        let problem = failure.problem();
        assert!(
            problem.starts_with("cannot create the recording "),
            "{problem}"
        );
    }

    /// A disk that writes when it is allowed to, or never again.
    struct SlowDisk(blocking_mpsc::Receiver<()>);

    impl Write for SlowDisk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match self.0.recv() {
                Ok(()) => Ok(bytes.len()),
                Err(_) => Err(io::Error::other("the disk is gone")),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn a_disk_that_stalls_does_not_stall_the_program() {
        let (disk, writes) = blocking_mpsc::channel();
        let (recorder, result) = Recorder::start(SlowDisk(writes));
        let mut taken = 0;
        let failure = loop {
            match recorder.write(sample(taken)) {
                Ok(()) => taken += 1,
                Err(failure) => break failure,
            }
        };
        // The thread may hold one more.
        let most = MAX_UNWRITTEN as u64;
        assert!((most..=most + 1).contains(&taken), "{taken}");
        assert!(
            failure
                .problem()
                .ends_with("1024 readings wait for the disk"),
            "{failure:?}"
        );
        drop(disk);
        let ended = tokio::time::timeout(Duration::from_secs(20), result).await;
        let error = ended.expect("the thread ends within 20 s").unwrap();
        assert_eq!(error.unwrap_err().to_string(), "the disk is gone");
        let failure = recorder.write(sample(0)).unwrap_err();
        assert!(
            failure.problem().ends_with("writing has ended"),
            "{failure:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_recording_waits_for_a_stalled_disk_only_for_a_while() {
        let (disk, writes) = blocking_mpsc::channel::<()>();
        let (recorder, result) = Recorder::start(SlowDisk(writes));
        recorder.write(sample(0)).unwrap();
        drop(recorder);
        let mut finished = std::pin::pin!(finish(result));
        assert!(futures_util::poll!(&mut finished).is_pending());
        tokio::time::advance(MAX_WAIT).await;
        let finished = futures_util::FutureExt::now_or_never(finished);
        let failure = finished.expect("it has ended").unwrap_err();
        assert_eq!(
            failure.problem(),
            "cannot write the recording: the last readings are lost, the disk has not taken them within 5 s"
        );
        drop(disk);
    }

    #[test]
    fn a_recording_may_end_at_any_byte() {
        let line = serde_json::to_string(&sample(1)).unwrap();
        for end in 1..=line.len() {
            let mut read = Vec::new();
            let recording = format!("{line}\n{}", &line[..end]);
            let is_cut = read_samples(recording.as_bytes(), "r.jsonl", 0, |sample| {
                read.push(sample.unwrap().sample);
                true
            });
            let is_whole = end == line.len();
            assert_eq!(is_cut, !is_whole, "{recording}");
            assert_eq!(read, vec![sample(1); 1 + usize::from(is_whole)]);
        }
    }

    #[test]
    fn a_line_that_is_no_sample_ends_a_recording_with_its_number() {
        let line = serde_json::to_string(&sample(1)).unwrap();
        let mut read = Vec::new();
        let recording = format!("\n{line}\n{{\n{line}\n");
        let is_cut = read_samples(recording.as_bytes(), "r.jsonl", 0, |sample| {
            read.push(sample.map(|recorded| (recorded.sample, recorded.percent)));
            true
        });
        assert!(!is_cut);
        assert_eq!(read.len(), 2);
        assert_eq!(read[0].as_ref().unwrap(), &(sample(1), None));
        let failure = read[1].as_ref().unwrap_err();
        assert_eq!(failure.problem(), "line 3 of r.jsonl is not a sample");
    }

    #[test]
    fn no_more_of_a_recording_is_read_than_is_wanted() {
        let line = format!("{}\n", serde_json::to_string(&sample(1)).unwrap());
        let mut rest = io::Cursor::new(line.repeat(1_000));
        let mut taken = 0;
        read_samples(&mut rest, "r.jsonl", 0, |_| {
            taken += 1;
            taken < 10
        });
        assert_eq!((taken, rest.position()), (10, 10 * line.len() as u64));
    }
}
