//! Settings about the images of languages: their prefix, the images, and which to pull in advance.

use std::collections::BTreeMap;

use coracle_core::image::{HOST, Reference};
use coracle_core::runtime::{Catalogue, Runtime};
use coracle_core::{Error, Policy, Result};

use super::images::{check_image, list};
use super::layers::{Found, Layers};
use super::{Setting, setting};

/// More would be a mirror, not a preparation.
const PREPULL_MAX: usize = 64;

/// All settings about languages, resolved.
#[derive(Debug)]
pub struct LanguageSettings {
    prefix: Found<Option<String>>,
    written: Vec<(Names, Found<Option<String>>)>,
    /// The image of each language that has one, prefix included.
    images: BTreeMap<Runtime, String>,
    /// References; `host` is not among them.
    prepull: Found<Vec<String>>,
}

/// The names of one language's setting.
#[derive(Debug, Clone, Copy)]
struct Names {
    runtime: Runtime,
    setting: &'static str,
    variable: &'static str,
}

const NAMES: [Names; 9] = [
    named(Runtime::Python, "runtimes.python", "CORACLE_PYTHON_IMAGE"),
    named(Runtime::Node, "runtimes.node", "CORACLE_NODE_IMAGE"),
    named(Runtime::Bash, "runtimes.bash", "CORACLE_BASH_IMAGE"),
    named(Runtime::Java, "runtimes.java", "CORACLE_JAVA_IMAGE"),
    named(Runtime::Go, "runtimes.go", "CORACLE_GO_IMAGE"),
    named(Runtime::Ruby, "runtimes.ruby", "CORACLE_RUBY_IMAGE"),
    named(Runtime::Php, "runtimes.php", "CORACLE_PHP_IMAGE"),
    named(Runtime::Dotnet, "runtimes.dotnet", "CORACLE_DOTNET_IMAGE"),
    named(Runtime::Powershell, "runtimes.powershell", "CORACLE_POWERSHELL_IMAGE"),
];

const fn named(runtime: Runtime, setting: &'static str, variable: &'static str) -> Names {
    Names { runtime, setting, variable }
}

impl LanguageSettings {
    /// Resolves every setting and refuses text that no image could be called.
    pub(super) fn from(layers: &Layers<'_>) -> Result<Self> {
        let prefix = layers
            .pick("CORACLE_IMAGE_PREFIX", some, |file| file.images.prefix.clone().map(Some), None)?
            .checked(|prefix| prefix.iter().try_for_each(|prefix| check_prefix(prefix)))?;
        let written =
            NAMES.iter().map(|names| Ok((*names, names.pick(layers)?))).collect::<Result<Vec<_>>>()?;
        let catalogue = Catalogue {
            prefix: prefix.value.clone(),
            written: written
                .iter()
                .filter_map(|(names, image)| Some((names.runtime, image.value.clone()?)))
                .collect(),
        };
        let images = catalogue.images()?;
        let prepull = layers
            .of_file(|file| file.images.prepull.clone(), Vec::new())
            .read(|entries| prepulled(&entries, &images))?;
        Ok(Self { prefix, written, images, prepull })
    }

    pub(super) fn apply(&self, policy: &mut Policy) {
        policy.runtimes = self.images.clone();
        policy.prepull = self.prepull.value.clone();
    }

    /// Returns every setting for display; for a language, the image it resolves to.
    pub(super) fn settings(&self) -> Vec<Setting> {
        let prefix = self.prefix.value.clone().unwrap_or_else(|| "none".to_owned());
        let mut all = vec![
            setting("images.prefix", prefix, &self.prefix.source),
            setting("images.prepull", list(Some(&self.prepull.value)), &self.prepull.source),
        ];
        all.extend(self.written.iter().map(|(names, written)| {
            let image = self.images.get(&names.runtime);
            setting(names.setting, image.cloned().unwrap_or_else(|| "as image".to_owned()), &written.source)
        }));
        all
    }
}

impl Names {
    fn pick(&self, layers: &Layers<'_>) -> Result<Found<Option<String>>> {
        let of_file = layers.pick(
            self.variable,
            some,
            |file| file.runtimes.get(&self.runtime).cloned().map(Some),
            None,
        )?;
        of_file.checked(|image| image.iter().try_for_each(|image| check_image(self.setting, image)))
    }
}

fn some(_: &str, text: &str) -> Result<Option<String>> {
    Ok(Some(text.to_owned()))
}

/// Refuses text that cannot precede an image's name.
fn check_prefix(prefix: &str) -> Result<()> {
    match format!("{prefix}name:tag").parse::<Reference>() {
        Ok(_) => Ok(()),
        Err(_) => {
            let problem = format!("is `{}`, which no name of an image begins with", prefix.escape_debug());
            Err(Error::invalid("images.prefix", problem))
        }
    }
}

/// Returns the images to pull: a language's name means its image, everything else is a reference.
fn prepulled(entries: &[String], images: &BTreeMap<Runtime, String>) -> Result<Vec<String>> {
    let problem = |entry: &str, what: &str| {
        Error::invalid("images.prepull", format!("holds `{}`, {what}", entry.escape_debug()))
    };
    if entries.len() > PREPULL_MAX {
        return Err(Error::invalid("images.prepull", format!("has more than {PREPULL_MAX} entries")));
    }
    let mut meant = Vec::new();
    for entry in entries {
        let image = match entry.parse::<Runtime>() {
            Ok(runtime) => images.get(&runtime).ok_or_else(|| {
                problem(entry, "a language without an image of its own; write `images.prefix` or its image")
            })?,
            Err(_) => entry,
        };
        if image == HOST {
            continue;
        }
        let reference =
            image.parse::<Reference>().map_err(|_| problem(entry, "neither a language nor a reference"))?;
        meant.push(reference.to_string());
    }
    Ok(meant)
}
