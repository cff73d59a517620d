//! Progress of pulling an image, on standard error: on a terminal a line for each layer, elsewhere one sentence at
//! the beginning and one at the end. Output of a build is passed on line by line.
//!
//! A stored image is not mentioned, and after a pull nothing drawn is left, because the output of a command follows.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use coracle_core::bytes::Bytes;
use coracle_core::image::{Phase, Step};
use coracle_engine::Observer;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{digest, printable, stderr, terminal};

const HEADING: &str = "{msg} {pos} of {len} layers";
/// Fits into 80 columns, so that it does not wrap.
const LAYER: &str = "{prefix} {msg:11} [{bar:14}] {bytes:>10} of {total_bytes:10} {bytes_per_sec}";
const LAYER_OF_UNKNOWN_SIZE: &str = "{prefix} {msg:11} {bytes:>10} {bytes_per_sec}";

/// Shows progress to a person.
#[derive(Debug, Default)]
pub struct Bars(Mutex<Option<Image>>);

impl Bars {
    /// Clears what is drawn, whether or not the image is complete.
    pub fn clear(&self) {
        drop(self.image().take());
    }

    fn image(&self) -> MutexGuard<'_, Option<Image>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Bars {
    fn step(&self, step: &Step) {
        let mut image = self.image();
        match (step, &mut *image) {
            (Step::Resolved { reference, digest, layers }, _) => {
                // An archive may have images without a name.
                let name = if reference.is_empty() { digest } else { reference };
                *image = Some(Image::new(name, *layers));
            }
            (Step::Layer { digest, phase, done, total }, Some(image)) => {
                image.move_layer(digest, *phase, Amount { done: *done, total: *total });
            }
            (Step::Finished { .. }, Some(_)) => {
                if let Some(summary) = image.take().and_then(|image| image.summary()) {
                    stderr::status(&summary);
                }
            }
            (Step::Said { line }, _) => {
                // The line would tear apart what is drawn.
                drop(image.take());
                stderr::status(line);
            }
            // Without a `Resolved` step the image is unknown.
            (Step::Layer { .. } | Step::Finished { .. }, None) => {}
        }
    }
}

/// How much of a layer is done; a total of 0 is unknown.
#[derive(Debug, Clone, Copy)]
struct Amount {
    done: u64,
    total: u64,
}

/// An image that is being pulled.
#[derive(Debug)]
struct Image {
    name: String,
    layers: usize,
    finished: usize,
    /// Bytes received over the network, by layer.
    received: BTreeMap<String, u64>,
    /// What is drawn, once there is anything to do.
    shown: Option<Shown>,
}

impl Image {
    fn new(name: &str, layers: usize) -> Self {
        let name = printable::line(name);
        Self { name, layers, finished: 0, received: BTreeMap::new(), shown: None }
    }

    fn move_layer(&mut self, layer: &str, phase: Phase, amount: Amount) {
        match phase {
            // Another process may be pulling the same layer.
            Phase::Waiting => self.show(Doing::Pulling).draw(layer, "waiting", amount),
            Phase::Downloading => {
                self.received.insert(layer.to_owned(), amount.done);
                self.show(Doing::Pulling).draw(layer, "downloading", amount);
            }
            Phase::Unpacking => self.show(Doing::Unpacking).draw(layer, "unpacking", amount),
            Phase::Done | Phase::Present => {
                self.finished += 1;
                let finished = self.finished;
                if let Some(shown) = &mut self.shown {
                    shown.finish(layer, finished);
                }
            }
        }
    }

    fn show(&mut self, doing: Doing) -> &mut Shown {
        let (name, layers, finished) = (&self.name, self.layers, self.finished);
        self.shown.get_or_insert_with(|| {
            let text = format!("{} `{name}`", doing.now());
            let lines = terminal::is_drawn_on().then(|| Lines::new(format!("{text}:"), layers, finished));
            if lines.is_none() {
                stderr::status(&format!("{text}."));
            }
            Shown { doing, began: Instant::now(), lines }
        })
    }

    /// Returns the final sentence, if there was anything to do. Clears what is drawn.
    fn summary(mut self) -> Option<String> {
        let Shown { doing, began, lines } = self.shown.take()?;
        drop(lines);
        let seconds = began.elapsed().as_secs_f64();
        let received = match self.received.values().sum() {
            0 => String::new(),
            bytes => format!(", {}", Bytes(bytes)),
        };
        Some(format!("{} `{}` in {seconds:.1}s{received}.", doing.past(), self.name))
    }
}

/// The first step that an image needed.
#[derive(Debug, Clone, Copy)]
enum Doing {
    Pulling,
    /// Everything was stored, packed: from an archive, or from an earlier attempt.
    Unpacking,
}

impl Doing {
    fn now(self) -> &'static str {
        match self {
            Self::Pulling => "Pulling",
            Self::Unpacking => "Unpacking",
        }
    }

    fn past(self) -> &'static str {
        match self {
            Self::Pulling => "Pulled",
            Self::Unpacking => "Unpacked",
        }
    }
}

/// What a person sees of an image.
#[derive(Debug)]
struct Shown {
    doing: Doing,
    began: Instant,
    /// Absent where standard error is no terminal.
    lines: Option<Lines>,
}

impl Shown {
    fn draw(&mut self, layer: &str, doing: &'static str, amount: Amount) {
        if let Some(lines) = &mut self.lines {
            lines.draw(layer, doing, amount);
        }
    }

    fn finish(&mut self, layer: &str, finished: usize) {
        if let Some(lines) = &mut self.lines {
            lines.finish(layer, finished);
        }
    }
}

/// Lines on a terminal: a heading, and one for each layer in progress. Dropping them clears them.
struct Lines {
    all: MultiProgress,
    heading: ProgressBar,
    layers: BTreeMap<String, (&'static str, ProgressBar)>,
}

impl Lines {
    fn new(heading: String, layers: usize, finished: usize) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let bar = ProgressBar::new(layers as u64).with_style(style(HEADING)).with_message(heading);
        let heading = all.add(bar.with_position(finished as u64));
        heading.tick();
        Self { all, heading, layers: BTreeMap::new() }
    }

    fn draw(&mut self, layer: &str, doing: &'static str, Amount { done, total }: Amount) {
        let template = if total > 0 { LAYER } else { LAYER_OF_UNKNOWN_SIZE };
        let (was, bar) = self.layers.entry(layer.to_owned()).or_insert_with(|| {
            // Styled before it is added: adding draws it.
            let bar = ProgressBar::new(total).with_style(style(template)).with_message(doing);
            (doing, self.all.add(bar.with_prefix(printable::line(digest::short(layer)))))
        });
        if *was != doing {
            *was = doing;
            bar.reset();
            bar.set_style(style(template));
            bar.set_length(total);
            bar.set_message(doing);
        }
        bar.set_position(done);
    }

    fn finish(&mut self, layer: &str, finished: usize) {
        self.heading.set_position(finished as u64);
        if let Some((_, bar)) = self.layers.remove(layer) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.layers.values().for_each(|(_, bar)| bar.finish_and_clear());
        self.heading.finish_and_clear();
        // A terminal that is gone shows nothing anyway.
        let _ = self.all.clear();
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("our own templates are well formed");
    style.progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(layers: usize) -> Step {
        Step::Resolved {
            reference: "docker.io/library/app:1".to_owned(),
            digest: "sha256:0".to_owned(),
            layers,
        }
    }

    fn layer(digest: &str, phase: Phase, done: u64) -> Step {
        Step::Layer { digest: digest.to_owned(), phase, done, total: 100 }
    }

    /// Returns the final sentence; tests have no terminal, so nothing is drawn.
    fn summary(bars: &Bars) -> Option<String> {
        bars.image().take().and_then(Image::summary)
    }

    #[test]
    fn an_image_that_is_here_is_not_mentioned() {
        let bars = Bars::default();

        [resolved(1), layer("sha256:1", Phase::Present, 0)].iter().for_each(|step| bars.step(step));

        assert_eq!(summary(&bars), None);
    }

    #[test]
    fn what_came_is_counted_once() {
        let bars = Bars::default();
        let steps = [
            resolved(2),
            layer("sha256:1", Phase::Waiting, 0),
            layer("sha256:1", Phase::Downloading, 1 << 19),
            layer("sha256:1", Phase::Downloading, 1 << 20),
            layer("sha256:1", Phase::Unpacking, 50),
            layer("sha256:2", Phase::Downloading, 1 << 20),
            layer("sha256:1", Phase::Done, 100),
        ];

        steps.iter().for_each(|step| bars.step(step));

        let sentence = summary(&bars).expect("something came");
        assert!(
            sentence.starts_with("Pulled `docker.io/library/app:1` in ") && sentence.ends_with("s, 2.0 MiB."),
            "{sentence}"
        );
    }

    #[test]
    fn an_image_that_was_only_unpacked_is_not_reported_as_pulled() {
        let bars = Bars::default();

        [resolved(1), layer("sha256:1", Phase::Unpacking, 1)].iter().for_each(|step| bars.step(step));

        let sentence = summary(&bars).expect("something was done");
        assert!(sentence.starts_with("Unpacked `") && sentence.ends_with("s."), "{sentence}");
    }

    #[test]
    fn steps_out_of_order_do_no_harm() {
        let bars = Bars::default();
        let finished = Step::Finished { reference: "a".to_owned(), digest: "b".to_owned() };

        bars.step(&layer("sha256:1", Phase::Downloading, 1));
        bars.step(&finished);
        bars.step(&resolved(0));
        bars.step(&layer("not a digest", Phase::Done, u64::MAX));
        bars.clear();
        bars.step(&layer("sha256:1", Phase::Done, 1));

        assert_eq!(summary(&bars), None);
    }

    #[test]
    fn lines_are_drawn_for_layers_that_move() {
        let mut lines = Lines::new("Pulling `app`:".to_owned(), 2, 0);
        lines.all.set_draw_target(ProgressDrawTarget::hidden());

        lines.draw("sha256:1", "downloading", Amount { done: 1, total: 10 });
        lines.draw("sha256:2", "downloading", Amount { done: 1, total: 0 });
        lines.draw("sha256:1", "unpacking", Amount { done: 2, total: 20 });
        lines.finish("sha256:2", 1);

        let (doing, bar) = &lines.layers["sha256:1"];
        assert_eq!((*doing, bar.position(), bar.length()), ("unpacking", 2, Some(20)));
        assert_eq!((lines.layers.len(), lines.heading.position()), (1, 1));
    }
}
