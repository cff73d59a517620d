//! What every test here works with: its own store, and a look at its contents.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use coracle_core::image::{Progress, Reference, Step};
use coracle_core::{Error, Timestamp};
use coracle_images::{Image, Registries, Store, StoreConfig};
use tempfile::TempDir;

/// A store in a directory of its own.
pub struct Workshop {
    pub directory: TempDir,
    pub store: Store,
}

impl Workshop {
    pub fn new() -> Self {
        Self::with(Registries::default())
    }

    pub fn with(registries: Registries) -> Self {
        let directory = TempDir::new().expect("a temporary directory can be made");
        let store = Store::new(config(&directory.path().join("images"), registries));
        Self { directory, store }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("images")
    }

    /// Finds an image that must exist.
    pub fn image(&self, name: &str) -> Image {
        self.store.find(&reference(name)).expect("the store can be read").expect("the image is here")
    }

    /// Pulls what must be refused.
    pub fn refusal(&self, name: &str) -> Error {
        let error =
            self.store.pull(&reference(name), &coracle_core::image::Silent).expect_err("it is refused");
        assert!(self.store.list().expect("the store can be read").is_empty(), "a name was left behind");
        assert_eq!(count(&self.path().join("layers")), 0, "a layer was left behind: {}", error.chain());
        assert_eq!(count(&self.path().join("drafts")), 0, "a draft was left behind: {}", error.chain());
        error
    }
}

pub fn config(directory: &Path, registries: Registries) -> StoreConfig {
    StoreConfig {
        directory: directory.to_owned(),
        registries,
        clock: || Timestamp::from_millis(1_700_000_000_000),
        crash: |_| {},
        in_turn: false,
    }
}

pub fn reference(name: &str) -> Reference {
    name.parse().expect("is a reference")
}

/// Counts the entries of a directory; 0 if it is missing.
pub fn count(directory: &Path) -> usize {
    std::fs::read_dir(directory).map_or(0, Iterator::count)
}

/// Records every step.
#[derive(Default)]
pub struct Diary(Mutex<Vec<Step>>);

impl Diary {
    pub fn steps(&self) -> Vec<Step> {
        self.0.lock().expect("no thread panicked").clone()
    }
}

impl Progress for Diary {
    fn report(&self, step: &Step) {
        self.0.lock().expect("no thread panicked").push(step.clone());
    }
}
