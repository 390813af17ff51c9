use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use idempotency_core::{Connected, Event, Measurement, Observer, Source};
use metrics::Recorder;

use crate::{
    labels::{NO_PROFILE, OTHER_PROFILES},
    recording::Recording,
    series::Series,
    sweep::MeteredSweep,
};

/// Turns what executors tell into metrics. Cheap to clone; clones share their series.
///
/// One value serves any number of executors: the labels `backend` and `profile` keep them apart.
#[derive(Clone)]
pub struct MetricsObserver(Arc<Inner>);

struct Inner {
    recording: Recording,
    sources: OnceLock<Box<Node>>,
}

/// The series of one source, and those that came after it. Sources are few and never leave, so they are
/// found without a lock.
struct Node {
    source: Source,
    series: Series,
    next: OnceLock<Box<Self>>,
}

/// So many sources have series of their own; all others share one, so that no mistake with labels fills
/// the memory of whoever collects.
pub(crate) const MOST_SOURCES: usize = 64;

impl MetricsObserver {
    /// Over the recorder that the application has installed. Install it first: series belong to the
    /// recorder that was there when their executor first told something.
    #[must_use]
    pub fn new() -> Self {
        Self::over(Recording::Installed)
    }

    /// Over a recorder of its own.
    #[must_use]
    pub fn with_recorder(recorder: impl Recorder + Send + Sync + 'static) -> Self {
        Self::over(Recording::Own(Arc::new(recorder)))
    }

    /// The same store, whose sweeps are counted. A store without sweeping stays as it is.
    #[must_use]
    pub fn meter(&self, connected: Connected) -> Connected {
        match connected.sweep() {
            None => connected,
            Some(sweep) => {
                let backend = connected.store().profile().name;
                let metered = MeteredSweep::new(sweep, &self.0.recording, backend);
                connected.with_sweep(Arc::new(metered))
            }
        }
    }

    fn over(recording: Recording) -> Self {
        recording.describe();
        Self(Arc::new(Inner { recording, sources: OnceLock::new() }))
    }

    fn series(&self, source: Source) -> &Series {
        const OTHERS: Source = Source { store: OTHER_PROFILES, label: OTHER_PROFILES };
        let (mut place, mut wanted, mut seen) = (&self.0.sources, source, 0);
        loop {
            let node = place.get_or_init(|| Box::new(Node::new(wanted, &self.0.recording)));
            if node.source == wanted {
                return &node.series;
            }
            seen += 1;
            if seen == MOST_SOURCES {
                wanted = OTHERS;
            }
            place = &node.next;
        }
    }
}

impl Node {
    fn new(source: Source, recording: &Recording) -> Self {
        let profile = if source.label.is_empty() { NO_PROFILE } else { source.label };
        let series = Series::register(recording, source.store, profile);
        Self { source, series, next: OnceLock::new() }
    }
}

impl Default for MetricsObserver {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for MetricsObserver {
    fn observe(&self, event: &Event<'_>) {
        self.series(event.source).observe(event);
    }

    fn measures(&self) -> bool {
        true
    }

    fn measure(&self, source: Source, measurement: Measurement) {
        self.series(source).measure(measurement);
    }
}

impl fmt::Debug for MetricsObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsObserver").field("recording", &self.0.recording).finish()
    }
}
