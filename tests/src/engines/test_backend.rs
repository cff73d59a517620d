//! The backends tests run on, each with all it takes to get there.

use std::sync::OnceLock;

use super::sshd::Sshd;
use super::{TEST_IMAGE, docker, image, podman};
use crate::Home;

/// Returns the other machine all tests of this process share.
pub fn far() -> &'static Sshd {
    static SSHD: OnceLock<Sshd> = OnceLock::new();
    SSHD.get_or_init(|| {
        let sshd = Sshd::new();
        sshd.forsake();
        sshd
    })
}

/// Returns the words that lead to [`far`], by connections that do not outlive their last use for long: a home has to
/// leave nothing. They last longer than a test on a busy machine pauses between two calls; otherwise one ends between the look
/// at it and its use.
pub fn brief_ssh() -> Vec<String> {
    let mut words = far().ssh();
    words.extend(["-o", "ControlPersist=10"].map(str::to_owned));
    words
}

/// A backend, as a test chooses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestBackend {
    Native,
    Docker,
    Podman,
    /// Docker's engine on what ssh takes for another machine.
    Ssh,
}

impl TestBackend {
    /// Returns what `--backend` takes.
    pub fn name(self) -> String {
        match self {
            TestBackend::Native => "native".to_owned(),
            TestBackend::Docker => "docker".to_owned(),
            TestBackend::Podman => "podman".to_owned(),
            TestBackend::Ssh => far().address(&docker().socket()),
        }
    }

    /// Returns a home in which everything that is done or said once has been.
    pub fn settled_home(self) -> Home {
        let home = self.home();
        let flags = self.flags();
        for limits in [None, Some("--unlimited")] {
            let flags = flags.iter().map(String::as_str).chain(limits);
            home.call(["run"].into_iter().chain(flags).chain(["--", "true"])).succeed();
        }
        home
    }

    /// Returns a home from which sandboxes with [`TEST_IMAGE`] can be made there.
    pub fn home(self) -> Home {
        let home = Home::new();
        match self {
            TestBackend::Native => {
                let archive = home.path().join("image.tar");
                std::fs::write(&archive, image::archive()).expect("a home is ours");
                home.call(["image".as_ref(), "load".as_ref(), archive.as_os_str()]).succeed();
                home
            }
            TestBackend::Docker => home.env("DOCKER_HOST", docker().address()),
            TestBackend::Podman => home.env("CONTAINER_HOST", podman().address()),
            TestBackend::Ssh => home.env("CORACLE_SSH", brief_ssh().join(" ")),
        }
    }

    /// Returns the flags that make a sandbox there.
    pub fn flags(self) -> Vec<String> {
        ["--image", TEST_IMAGE, "--backend", &self.name()].map(str::to_owned).to_vec()
    }
}
