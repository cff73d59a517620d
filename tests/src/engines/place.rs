//! The places sandboxes can be made at, each with all it takes to get there.

use super::{TEST_IMAGE, docker, image, podman};
use crate::Home;

/// A backend, as a test chooses one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Native,
    Docker,
    Podman,
}

impl Place {
    /// Returns what `--backend` takes.
    pub fn backend(self) -> String {
        match self {
            Place::Native => "native",
            Place::Docker => "docker",
            Place::Podman => "podman",
        }
        .to_owned()
    }

    /// Returns a home in which everything that is done or said once has been.
    pub fn settled_home(self) -> Home {
        let home = self.home();
        let flags = self.flags();
        let words = ["run"].into_iter().chain(flags.iter().map(String::as_str)).chain(["--", "true"]);
        home.call(words).succeed();
        home
    }

    /// Returns a home from which sandboxes with [`TEST_IMAGE`] can be made there.
    pub fn home(self) -> Home {
        let home = Home::new();
        match self {
            Place::Native => {
                let archive = home.path().join("image.tar");
                std::fs::write(&archive, image::archive()).expect("a home is ours");
                home.call(["image".as_ref(), "load".as_ref(), archive.as_os_str()]).succeed();
                home
            }
            Place::Docker => home.env("DOCKER_HOST", docker().address()),
            Place::Podman => home.env("CONTAINER_HOST", podman().address()),
        }
    }

    /// Returns the flags that make a sandbox there.
    pub fn flags(self) -> Vec<String> {
        ["--image", TEST_IMAGE, "--backend", &self.backend()].map(str::to_owned).to_vec()
    }
}
