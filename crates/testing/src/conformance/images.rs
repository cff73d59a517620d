//! The contract of every implementation of `Images`.

use std::any::Any;
use std::sync::{Mutex, PoisonError};

use coracle_core::error::Kind;
use coracle_core::image::{Images, Progress, Reference, Removed, Silent, Step, Stored};

/// Images without any stored yet, and what their registry has.
pub struct Subject {
    pub images: Box<dyn Images>,
    /// Names of different images in the registry.
    pub known: [Reference; 2],
    /// A name the registry does not have.
    pub unknown: Reference,
    /// Lives as long as the images, such as a temporary home and the registry.
    pub keep: Box<dyn Any>,
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("known", &self.known).field("unknown", &self.unknown).finish()
    }
}

impl Subject {
    fn pull(&self, reference: &Reference) -> Stored {
        self.images.pull(reference, &Silent).expect("the registry has it")
    }

    fn list(&self) -> Vec<Stored> {
        self.images.list().expect("images can be listed")
    }
}

/// Runs the suite against the images that `$make`, a `fn() -> Option<Subject>`, returns.
///
/// Each call returns separate images. `None` skips a test; `$make` decides whether that is allowed.
#[macro_export]
macro_rules! image_conformance {
    ($make:expr) => {
        $crate::conformance_clauses!(
            $make,
            contract,
            $crate::conformance::images,
            [
                a_pulled_image_is_listed,
                pulling_twice_brings_nothing_new,
                a_digest_names_the_same_image,
                what_no_registry_has_is_not_found_and_changes_nothing,
                images_are_listed_by_name,
                a_removed_image_is_gone,
                a_digest_removes_every_name_that_leads_to_it,
                removing_what_is_not_here_is_not_found,
                collecting_leaves_what_has_a_name,
                progress_begins_with_the_name_and_ends_with_the_image,
            ]
        );
    };
}

pub fn a_pulled_image_is_listed(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };

    let stored = subject.pull(&subject.known[0]);

    assert_eq!(stored.reference, subject.known[0].to_string());
    assert_eq!(subject.list(), [stored]);
}

pub fn pulling_twice_brings_nothing_new(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let first = subject.pull(&subject.known[0]);

    let second = subject.pull(&subject.known[0]);

    assert_eq!((second.digest, second.size_bytes), (first.digest, first.size_bytes));
    assert_eq!(subject.list().len(), 1);
}

pub fn a_digest_names_the_same_image(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let by_tag = subject.pull(&subject.known[0]);
    let pinned = format!("{}@{}", subject.known[0].name(), by_tag.digest);

    let by_digest = subject.pull(&pinned.parse().expect("a reference by digest"));

    assert_eq!((by_digest.reference, by_digest.digest), (pinned, by_tag.digest));
}

pub fn what_no_registry_has_is_not_found_and_changes_nothing(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };

    let refused = subject.images.pull(&subject.unknown, &Silent).expect_err("the registry does not have it");

    assert_eq!(refused.kind, Kind::ImageNotFound, "{}", refused.chain());
    assert_eq!(subject.list(), []);
}

pub fn images_are_listed_by_name(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let mut names = subject.known.each_ref().map(|reference| subject.pull(reference).reference);

    let listed: Vec<_> = subject.list().into_iter().map(|stored| stored.reference).collect();

    names.sort();
    assert_eq!(listed, names);
}

pub fn a_removed_image_is_gone(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let [kept, removed] = subject.known.each_ref().map(|reference| subject.pull(reference));

    let report = subject.images.remove(&removed.reference).expect("it is here");

    assert_eq!(report.references, [removed.reference]);
    assert_eq!(subject.list(), [kept]);
}

pub fn a_digest_removes_every_name_that_leads_to_it(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let stored = subject.pull(&subject.known[0]);
    let pinned = format!("{}@{}", subject.known[0].name(), stored.digest);
    subject.pull(&pinned.parse().expect("a reference by digest"));

    let report = subject.images.remove(&stored.digest).expect("it is here");

    assert_eq!(report.references.len(), 2, "{report:?}");
    assert!(report.layers > 0 && report.bytes > 0, "{report:?}");
    assert_eq!(subject.list(), []);
}

pub fn removing_what_is_not_here_is_not_found(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };

    let refused = subject.images.remove(&subject.known[0].to_string()).expect_err("nothing is here");

    assert_eq!(refused.kind, Kind::ImageNotFound, "{}", refused.chain());
}

pub fn collecting_leaves_what_has_a_name(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let stored = subject.pull(&subject.known[0]);

    let collected = subject.images.collect().expect("there is nothing to do");

    assert_eq!(collected, Removed::default());
    assert_eq!(subject.list(), [stored]);
}

pub fn progress_begins_with_the_name_and_ends_with_the_image(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let progress = RecordedSteps::default();

    let stored = subject.images.pull(&subject.known[0], &progress).expect("the registry has it");

    let steps = progress.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    let is_named = |reference: &str, digest: &str| (reference, digest) == (&stored.reference, &stored.digest);
    assert!(
        matches!(steps.first(), Some(Step::Resolved { reference, digest, .. }) if is_named(reference, digest)),
        "{steps:?}"
    );
    assert!(
        matches!(steps.last(), Some(Step::Finished { reference, digest }) if is_named(reference, digest)),
        "{steps:?}"
    );
}

/// Keeps the reported steps.
#[derive(Debug, Default)]
struct RecordedSteps(Mutex<Vec<Step>>);

impl Progress for RecordedSteps {
    fn report(&self, step: &Step) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(step.clone());
    }
}
