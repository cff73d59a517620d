//! The fakes keep the contracts they stand in for.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::Duration;

use coracle_core::image::Config;
use coracle_core::repo::Oid;
use coracle_core::{Answers, KeptLogs, Repos, Store, Tokens};
use coracle_testing::conformance::answers::Memory;
use coracle_testing::conformance::backend::Subject;
use coracle_testing::conformance::images;
use coracle_testing::conformance::kept_logs::Archive;
use coracle_testing::conformance::repos::Shelf;
use coracle_testing::conformance::store::Home;
use coracle_testing::conformance::tokens::Keyring;
use coracle_testing::{FakeAnswers, FakeBackend, FakeImages, FakeLogs, FakeRepos, FakeStore, sample};

mod store {
    use super::*;

    coracle_testing::store_conformance!(SharedStore::default);
    coracle_testing::event_conformance!(SharedStore::default);
    coracle_testing::token_conformance!(SharedStore::default);

    #[derive(Default)]
    struct SharedStore(FakeStore);

    impl Home for SharedStore {
        fn open(&self) -> Box<dyn Store> {
            Box::new(self.0.clone())
        }
    }

    impl Keyring for SharedStore {
        fn tokens(&self) -> Box<dyn Tokens> {
            Box::new(self.0.clone())
        }
    }
}

mod kept_logs {
    use super::*;

    coracle_testing::kept_log_conformance!(SharedLogs::new);

    struct SharedLogs(FakeLogs);

    impl SharedLogs {
        fn new() -> Self {
            Self(FakeLogs::new(Duration::ZERO))
        }
    }

    impl Archive for SharedLogs {
        fn open(&self, retention: Duration) -> Box<dyn KeptLogs> {
            Box::new(self.0.kept_for(retention))
        }
    }
}

mod answers {
    use super::*;

    coracle_testing::answer_conformance!(SharedMemory::default);

    #[derive(Default)]
    struct SharedMemory(FakeAnswers);

    impl Memory for SharedMemory {
        fn answers(&self) -> Box<dyn Answers> {
            Box::new(self.0.clone())
        }
    }
}

mod backend {
    use super::*;

    coracle_testing::backend_conformance!(another_instance);

    /// All instances are on one machine, so that the suite can tell whether they leave each other alone.
    fn another_instance() -> Option<Subject> {
        static MACHINE: OnceLock<FakeBackend> = OnceLock::new();
        let instance = sample::instance();
        let backend = MACHINE.get_or_init(|| FakeBackend::new(sample::instance())).beside(instance.clone());
        Some(Subject { backend: Box::new(backend), instance, spec: sample::spec(), keep: Box::new(()) })
    }
}

mod shelf {
    use super::*;

    coracle_testing::image_conformance!(with_images);

    fn with_images() -> Option<images::Subject> {
        let shelf = FakeImages::default();
        for (name, layers) in [("registry.test/b:1", ["base", "b"]), ("registry.test/a:1", ["base", "a"])] {
            shelf.publish(name, &layers, Config::default());
        }
        let name = |text: &str| text.parse().expect("a reference");
        Some(images::Subject {
            images: Box::new(shelf),
            known: [name("registry.test/b:1"), name("registry.test/a:1")],
            unknown: name("registry.test/none"),
            keep: Box::new(()),
        })
    }
}

mod repos {
    use super::*;

    coracle_testing::repo_conformance!(SharedRepos::default);

    #[derive(Default)]
    struct SharedRepos(FakeRepos);

    impl Shelf for SharedRepos {
        fn open(&self) -> Box<dyn Repos> {
            Box::new(self.0.clone())
        }

        fn commit(&self, number: u8) -> (Oid, OwnedFd) {
            let id = |number: u8| format!("{number:040x}").parse::<Oid>().expect("an id");
            let objects: Vec<Oid> = (1..=number).map(id).collect();
            (id(number), FakeRepos::pack(&objects))
        }

        fn bundle(&self, number: u8) -> OwnedFd {
            let (reader, mut writer) = std::io::pipe().expect("a pipe");
            let text = format!("{number:040x} refs/heads/main\n{number:040x} refs/tags/v{number}\n");
            std::io::Write::write_all(&mut writer, text.as_bytes()).expect("a pipe has room for two lines");
            reader.into()
        }
    }
}
