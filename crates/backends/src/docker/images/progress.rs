//! Translates a container engine's progress of a pull.

use std::collections::BTreeSet;

use bollard::models::CreateImageInfo;
use coracle_core::image::{Phase, Progress, Step};

/// One pull whose progress is reported.
pub struct PullProgress<'a> {
    progress: &'a dyn Progress,
    reference: String,
    /// Layers that were named before any of them moved: only then is their number known.
    waiting: Vec<String>,
    begun: bool,
    finished: BTreeSet<String>,
}

impl<'a> PullProgress<'a> {
    pub fn new(reference: String, progress: &'a dyn Progress) -> Self {
        Self { progress, reference, waiting: Vec::new(), begun: false, finished: BTreeSet::new() }
    }

    /// Takes one line of the container engine.
    pub fn hear(&mut self, line: &CreateImageInfo) {
        let (Some(layer), Some(status)) = (&line.id, &line.status) else { return };
        let Some(phase) = phase(status) else { return };
        if phase == Phase::Waiting && !self.begun {
            self.waiting.push(layer.clone());
            return;
        }
        self.begin(layer);
        let detail = line.progress_detail.as_ref();
        let amount = |amount: Option<i64>| amount.and_then(|amount| u64::try_from(amount).ok()).unwrap_or(0);
        let (done, total) = detail.map_or((0, 0), |detail| (amount(detail.current), amount(detail.total)));
        self.move_layer(layer, phase, done, total);
    }

    /// Reports that the image is complete.
    pub fn finish(mut self, digest: &str) {
        self.begin("");
        let (reference, digest) = (self.reference, digest.to_owned());
        self.progress.report(&Step::Finished { reference, digest });
    }

    /// Reports the image when the first layer moves, or when there is nothing to do.
    fn begin(&mut self, moving: &str) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let unheard = !moving.is_empty() && !waiting.iter().any(|layer| layer == moving);
        let layers = waiting.iter().collect::<BTreeSet<_>>().len() + usize::from(unheard);
        // Only the container engine knows the digest, and sends it last.
        let step = Step::Resolved { reference: self.reference.clone(), digest: String::new(), layers };
        self.progress.report(&step);
        for layer in waiting {
            self.move_layer(&layer, Phase::Waiting, 0, 0);
        }
    }

    fn move_layer(&mut self, layer: &str, phase: Phase, done: u64, total: u64) {
        let ended = matches!(phase, Phase::Done | Phase::Present);
        // Some container engines report twice that a layer is complete.
        if ended && !self.finished.insert(layer.to_owned()) {
            return;
        }
        self.progress.report(&Step::Layer { digest: layer.to_owned(), phase, done, total });
    }
}

/// Returns what a layer's status means; `None` if it is not about a layer.
fn phase(status: &str) -> Option<Phase> {
    match status {
        "Pulling fs layer" | "Waiting" => Some(Phase::Waiting),
        "Downloading" | "Verifying Checksum" | "Download complete" => Some(Phase::Downloading),
        "Extracting" => Some(Phase::Unpacking),
        "Pull complete" => Some(Phase::Done),
        "Already exists" => Some(Phase::Present),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Default)]
    struct Diary(Mutex<Vec<Step>>);

    impl Progress for Diary {
        fn report(&self, step: &Step) {
            self.0.lock().expect("no panic").push(step.clone());
        }
    }

    fn line(id: &str, status: &str) -> CreateImageInfo {
        CreateImageInfo { id: Some(id.to_owned()), status: Some(status.to_owned()), ..Default::default() }
    }

    #[test]
    fn the_number_of_layers_is_reported_before_the_first_moves() {
        let diary = Diary::default();
        let mut pull = PullProgress::new("app".to_owned(), &diary);

        for (id, status) in [
            ("latest", "Pulling from library/app"),
            ("a", "Pulling fs layer"),
            ("b", "Pulling fs layer"),
            ("b", "Waiting"),
            ("a", "Downloading"),
            ("a", "Pull complete"),
            ("a", "Pull complete"),
            ("b", "Already exists"),
        ] {
            pull.hear(&line(id, status));
        }
        pull.finish("sha256:1");

        let steps = diary.0.into_inner().expect("no panic");
        assert!(matches!(&steps[0], Step::Resolved { layers: 2, .. }), "{steps:?}");
        let ends = |step: &&Step| matches!(step, Step::Layer { phase: Phase::Done | Phase::Present, .. });
        assert_eq!(steps.iter().filter(ends).count(), 2);
        assert!(matches!(steps.last(), Some(Step::Finished { digest, .. }) if digest == "sha256:1"));
    }

    #[test]
    fn an_image_that_was_here_has_a_beginning_and_an_end() {
        let diary = Diary::default();

        PullProgress::new("app".to_owned(), &diary).finish("sha256:1");

        let steps = diary.0.into_inner().expect("no panic");
        assert!(matches!(steps.as_slice(), [Step::Resolved { layers: 0, .. }, Step::Finished { .. }]));
    }
}
