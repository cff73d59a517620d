//! What a sandbox's root is made of: the machine's own programs, or the layers of an image.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;

use coracle_core::image::{self, Images, Progress, Reference, Removed, Stored};
use coracle_core::spec::check_env;
use coracle_core::{Error, ImageId, Kind, Result, Spec};
use coracle_images::{Hold, Image, host};

use super::{Native, snapshot};

/// Most bytes of the command, directory and user that an image sets.
const WORDS_MAX: usize = 128 << 10;

/// The root of one sandbox.
#[derive(Debug)]
pub struct Root {
    /// The topmost layer first.
    pub layers: Vec<PathBuf>,
    /// Layers of the machine's own directories.
    pub shared: Vec<host::Shared>,
    pub config: image::Config,
    pub env: Vec<(String, String)>,
    /// Keeps the layers from being removed until the sandbox has recorded that it uses them.
    _hold: Option<Hold>,
}

impl Root {
    /// Returns the directory names of its shared layers, in their order.
    pub fn shared_names(&self) -> Vec<String> {
        self.shared.iter().map(|layer| layer.name.to_owned()).collect()
    }
}

impl Native {
    /// Pulls the image the spec names, if it is missing.
    pub(super) fn prepare_image(&self, spec: &Spec, progress: &dyn Progress) -> Result<()> {
        if let Some(image) = ImageId::among_names(&spec.image) {
            return snapshot::find(self, &image).map(drop);
        }
        let Some(reference) = reference(&spec.image)? else { return self.host().map(drop) };
        match self.images.find(&reference)? {
            Some(_) => Ok(()),
            None => self.images.pull(&reference, progress).map(drop),
        }
    }

    /// Returns the root of an image. With a digest, returns the image an earlier sandbox was made from, even if the
    /// name leads elsewhere now.
    pub(super) fn root(&self, image: &str, digest: Option<&str>) -> Result<Root> {
        let Some(reference) = reference(image)? else { return self.host() };
        let hold = self.images.hold()?;
        let found = match digest {
            Some(digest) => self.images.find_digest(digest)?,
            None => self.images.find(&reference)?,
        };
        let found = found.ok_or_else(|| {
            Error::new(Kind::ImageNotFound, format!("image `{reference}` is not here"))
                .hint(format!("bring it with `coracle image pull {reference}`"))
        })?;
        check(&reference, &found)?;
        let mut config = found.config;
        config.digest = Some(found.digest);
        if !self.privilege.is_root() {
            // There is only one user, and it is root inside.
            config.user = None;
        }
        config.workdir = config.workdir.filter(|workdir| workdir.starts_with('/') && workdir != "/");
        Ok(Root {
            layers: found.layers.into_iter().rev().collect(),
            shared: Vec::new(),
            config,
            env: found.env,
            _hold: Some(hold),
        })
    }

    fn host(&self) -> Result<Root> {
        let host = host::prepare(&self.home.images)
            .map_err(|error| Error::internal("could not prepare the `host` image", error))?;
        Ok(Root {
            layers: vec![host.skeleton],
            shared: host.shared,
            config: image::Config::default(),
            env: Vec::new(),
            _hold: None,
        })
    }

    /// Returns the digests of images that sandboxes are made from.
    fn used_images(&self) -> Result<BTreeSet<String>> {
        let uses = self
            .home
            .uses()
            .map_err(|error| Error::internal("could not see which images are used", error))?;
        let below = snapshot::list(self)?.into_iter().filter_map(|kept| kept.about.config.digest);
        Ok(uses.into_values().filter_map(|uses| uses.image).chain(below).collect())
    }
}

fn reference(image: &str) -> Result<Option<Reference>> {
    if image == image::HOST { Ok(None) } else { image.parse().map(Some) }
}

/// Refuses an image whose untrusted configuration would let no command start, before it is stored anywhere.
fn check(reference: &Reference, image: &Image) -> Result<()> {
    let config = &image.config;
    let words = config.entrypoint.iter().chain(&config.cmd).chain(&config.workdir).chain(&config.user);
    let env = image.env.iter().cloned().collect();
    if words.map(String::len).sum::<usize>() <= WORDS_MAX && check_env("env", &env).is_ok() {
        return Ok(());
    }
    Err(Error::new(
        Kind::Invalid,
        format!("image `{reference}` has a configuration no command can be started with"),
    )
    .hint("its entrypoint, directory, user or environment is larger than the kernel takes"))
}

impl Images for Native {
    fn pull(&self, reference: &Reference, progress: &dyn Progress) -> Result<Stored> {
        self.images.pull(reference, progress)
    }

    fn load(&self, archive: File, progress: &dyn Progress) -> Result<Vec<Stored>> {
        self.images.load(archive, progress)
    }

    fn list(&self) -> Result<Vec<Stored>> {
        let mut list = self.images.list()?;
        list.extend(snapshot::list(self)?.into_iter().map(|kept| kept.stored()));
        Ok(list)
    }

    fn remove(&self, name: &str) -> Result<Removed> {
        if let Some(image) = ImageId::among_names(name) {
            return snapshot::remove(self, &image);
        }
        self.images.remove(name, &|| self.used_images())
    }

    fn collect(&self) -> Result<Removed> {
        snapshot::tidy(self)?;
        self.images.collect(&|| self.used_images())
    }
}
