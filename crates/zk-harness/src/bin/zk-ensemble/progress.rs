//! Shows the progress of `up` and `prepare`.

use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use zk_provision::{Progress, Search};

use crate::output::note;

/// Shows a progress bar on a terminal, and otherwise a line per step.
pub(crate) struct ProgressDisplay {
    bar: Option<ProgressBar>,
    last: Mutex<String>,
}

impl ProgressDisplay {
    pub(crate) fn new() -> Arc<Self> {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(100));
            bar
        });
        Arc::new(Self {
            bar,
            last: Mutex::new(String::new()),
        })
    }

    pub(crate) fn show(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            return;
        }
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != what {
            note(what);
            what.clone_into(&mut last);
        }
    }

    /// Shows the progress of a search.
    pub(crate) fn follow(self: &Arc<Self>, search: Search) -> Search {
        let shown = Arc::clone(self);
        search.progress(Arc::new(move |progress: &Progress| {
            shown.progress(progress);
        }))
    }

    fn progress(&self, progress: &Progress) {
        self.show(&progress.what);
        let Some(bar) = &self.bar else { return };
        match progress.total {
            Some(total) => {
                bar.set_style(style(
                    "{spinner} {msg} [{bar:30}] {bytes}/{total_bytes} {bytes_per_sec}",
                ));
                bar.set_length(total);
                bar.set_position(progress.done);
            }
            None if progress.done > 0 => {
                bar.set_style(style("{spinner} {msg} {bytes}"));
                bar.set_position(progress.done);
            }
            None => bar.set_style(style("{spinner} {msg}")),
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
