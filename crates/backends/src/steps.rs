//! Reads a builder's output: which step it is at, how that ended, and what an error means.

use coracle_core::image::Reference;
use coracle_core::{Error, Kind};

/// The longest line that is passed on as one.
const LINE_MAX: usize = 4096;
/// What builders say of a Dockerfile that only BuildKit understands.
const BUILDKIT: &str = "buildkit";
/// What container engines and registries say of a name that they do not have. Without a login, registries do not
/// say whether a repository is private or missing.
const MISSING: [&str; 8] = [
    "not found",
    "manifest unknown",
    "name unknown",
    "no such image",
    "does not exist",
    "pull access denied",
    "unauthorized",
    "denied:",
];

/// The steps of one build so far.
#[derive(Debug, Default)]
pub struct Steps {
    /// The beginning of a line whose end has not come yet.
    rest: String,
    /// As in `Step 2/3 : RUN make`.
    current: Option<String>,
    built: bool,
    heard: bool,
}

impl Steps {
    /// Takes the builder's output. Returns the lines that are complete by now.
    pub fn hear(&mut self, said: &str) -> Vec<String> {
        self.heard = true;
        self.rest.push_str(said);
        let mut lines = Vec::new();
        while let Some(end) = self.line_end() {
            let line: String = self.rest.drain(..end).collect();
            let line = line.trim_end();
            self.note(line);
            if !line.is_empty() {
                lines.push(line.to_owned());
            }
        }
        lines
    }

    pub fn succeeded(&self) -> bool {
        self.built
    }

    pub fn is_silent(&self) -> bool {
        !self.heard
    }

    /// Says at which step the build failed, and why.
    pub fn failure(&self, tag: &Reference, said: &str) -> Error {
        let said = said.trim();
        let error = match &self.current {
            None => Error::new(Kind::Invalid, format!("could not build `{tag}`: {said}")),
            Some(step) => {
                Error::new(kind(step, said), format!("could not build `{tag}`: at `{step}`: {said}"))
                    .detail("step", step.as_str())
            }
        };
        let lower = said.to_lowercase();
        match lower.contains(BUILDKIT) {
            true => error.hint("this needs BuildKit: `docker buildx build --output type=docker,dest=FILE DIR`, then `coracle image load FILE`"),
            false => error,
        }
    }

    fn line_end(&self) -> Option<usize> {
        let end = self.rest.find(['\n', '\r']).map(|end| end + 1);
        end.or_else(|| (self.rest.len() > LINE_MAX).then(|| self.rest.floor_char_boundary(LINE_MAX)))
    }

    fn note(&mut self, line: &str) {
        if line.starts_with("Step ") || line.starts_with("STEP ") {
            self.current = Some(line.to_owned());
        }
        // A step may print this, too; then the image is missing afterwards.
        self.built |= line.starts_with("Successfully built ");
    }
}

/// Tells whether a container engine's or a registry's message means that there is no such image.
pub fn says_missing(words: &str) -> bool {
    let words = words.to_lowercase();
    MISSING.iter().any(|sign| words.contains(sign))
}

/// Only in a step that looks for an image is `not found` about one.
fn kind(step: &str, said: &str) -> Kind {
    let instruction = step.split_once(": ").map_or("", |(_, instruction)| instruction.trim_start());
    match instruction.to_ascii_uppercase().starts_with("FROM ") && says_missing(said) {
        true => Kind::ImageNotFound,
        false => Kind::ExecutionFailed,
    }
}

/// Returns the images a Dockerfile starts from or copies from, as far as they are written without variables.
pub fn bases(dockerfile: &str) -> Vec<Reference> {
    let mut found = Vec::new();
    for line in dockerfile.lines() {
        let mut words = line.split_whitespace();
        let instruction = words.next().unwrap_or_default().to_ascii_uppercase();
        let image = match instruction.as_str() {
            "FROM" => words.find(|word| !word.starts_with("--")),
            "COPY" => words.find_map(|word| word.strip_prefix("--from=")),
            _ => None,
        };
        found.extend(image.and_then(|image| image.parse::<Reference>().ok()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag() -> Reference {
        "app".parse().expect("a reference")
    }

    #[test]
    fn lines_are_passed_on_when_they_are_whole() {
        let mut steps = Steps::default();

        let first = steps.hear("Step 1/2 : FROM x\n ---> 1\nhal");
        let second = steps.hear("f\n");
        let endless = steps.hear(&"x".repeat(10_000));

        assert_eq!(first, ["Step 1/2 : FROM x", " ---> 1"]);
        assert_eq!(second, ["half"]);
        assert_eq!(endless.len(), 2);
    }

    #[test]
    fn a_failure_names_its_step() {
        let mut steps = Steps::default();
        steps.hear("Step 1/2 : FROM x\nStep 2/2 : RUN false\n");

        let failed = steps.failure(&tag(), "The command '/bin/sh -c false' returned a non-zero code: 1");
        let no_file = steps.failure(&tag(), "stat x: file does not exist");
        let mut first = Steps::default();
        first.hear("Step 1/2 : FROM x\n");
        let missing = first.failure(&tag(), "pull access denied for x, repository does not exist");
        let garbled = Steps::default().failure(&tag(), "dockerfile parse error line 1: unknown instruction");

        assert_eq!(
            (failed.kind, &failed.details["step"]),
            (Kind::ExecutionFailed, &"Step 2/2 : RUN false".into())
        );
        assert_eq!((missing.kind, garbled.kind), (Kind::ImageNotFound, Kind::Invalid));
        assert_eq!(no_file.kind, Kind::ExecutionFailed);
    }

    #[test]
    fn what_only_buildkit_can_comes_with_a_way_out() {
        let error = Steps::default().failure(&tag(), "the --mount option requires BuildKit.");

        assert!(error.hint.is_some_and(|hint| hint.contains("image load")));
    }

    #[test]
    fn images_without_variables_are_found_in_a_description() {
        let found = bases(
            "from --platform=linux/amd64 a.lan/b:1 AS x\nFROM $BASE\nCOPY --from=c.lan/d /a /b\nRUN FROM e",
        );

        let names: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["a.lan/b:1", "c.lan/d:latest"]);
    }
}
