use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report::{CaseReport, Outcome};

/// The bar of a run; nothing where nobody looks.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn of(cases: usize, shown: bool) -> Self {
        let target =
            if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(cases as u64), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(crate) fn ended(&self, case: &CaseReport) {
        if let Outcome::Failed(_) = case.outcome {
            self.0.println(format!("FAILED {}", case.name));
        }
        self.0.set_message(case.name);
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
