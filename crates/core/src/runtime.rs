//! Languages: their names, the interpreter of each, and the image that has it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::error::{Error, Result};
use crate::image::{HOST, Reference};
use crate::near;

/// A language whose interpreter or compiler a caller wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Runtime {
    Python,
    Node,
    Bash,
    Java,
    Go,
    Ruby,
    Php,
    Dotnet,
    Powershell,
}

/// Every name there is, in the order of [`Runtime::ALL`].
const NAMES: [&str; 9] = ["python", "node", "bash", "java", "go", "ruby", "php", "dotnet", "powershell"];

impl Runtime {
    pub const ALL: [Self; 9] = [
        Self::Python,
        Self::Node,
        Self::Bash,
        Self::Java,
        Self::Go,
        Self::Ruby,
        Self::Php,
        Self::Dotnet,
        Self::Powershell,
    ];

    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// Returns its other common name, which coracle understands, too.
    pub fn other_name(self) -> Option<&'static str> {
        (self == Self::Node).then_some("nodejs")
    }

    /// Returns the command that runs a program, and the name of the program's file. The file is in the workspace, so
    /// that it can import others there.
    pub fn interpreter(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Python => (&["python3"], "main.py"),
            Self::Node => (&["node"], "main.js"),
            Self::Bash => (&["bash"], "main.sh"),
            // Java and .NET compile a single file in memory and run it.
            Self::Java => (&["java"], "Main.java"),
            Self::Go => (&["go", "run"], "main.go"),
            Self::Ruby => (&["ruby"], "main.rb"),
            Self::Php => (&["php"], "main.php"),
            Self::Dotnet => (&["dotnet", "run"], "main.cs"),
            Self::Powershell => (&["pwsh", "-NoProfile", "-File"], "main.ps1"),
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Runtime {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let is_called = |runtime: &Self| runtime.name() == text || runtime.other_name() == Some(text);
        Self::ALL.into_iter().find(is_called).ok_or_else(|| unknown(text))
    }
}

impl<'de> Deserialize<'de> for Runtime {
    /// Refuses with our own message: serde's suggests no similar name.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

fn unknown(text: &str) -> Error {
    let shown: String = text.escape_debug().take(64).collect();
    let near = match near::names_like(text, &NAMES).as_slice() {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(" or ")),
    };
    let known = NAMES.join(", ");
    // One sentence: where JSON is parsed, only the message of an error survives.
    Error::invalid("runtime", format!("is `{shown}`, none of {known}{near}"))
        .hint("for another language, name an image that has it with `image`")
        .detail("runtimes", NAMES.to_vec())
}

/// Which images languages use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    /// Precedes names without a registry, as in `registry.example/golden/`.
    pub prefix: Option<String>,
    /// The images the operator configured.
    pub written: BTreeMap<Runtime, String>,
}

impl Catalogue {
    /// Returns the image of each language that has one of its own; the others use the default image.
    ///
    /// With a prefix every language has one: by default `PREFIXcoracle-LANGUAGE:latest`, which the files in `images/`
    /// build.
    pub fn images(&self) -> Result<BTreeMap<Runtime, String>> {
        let mut images = BTreeMap::new();
        for runtime in Runtime::ALL {
            if let Some(image) = self.image(runtime)? {
                images.insert(runtime, image);
            }
        }
        Ok(images)
    }

    fn image(&self, runtime: Runtime) -> Result<Option<String>> {
        let golden = || self.prefix.as_ref().map(|_| format!("coracle-{runtime}:latest"));
        let Some(name) = self.written.get(&runtime).cloned().or_else(golden) else { return Ok(None) };
        let own = name == HOST || Reference::names_registry(&name);
        let whole = match &self.prefix {
            Some(prefix) if !own => format!("{prefix}{name}"),
            Some(_) | None => name,
        };
        if whole != HOST {
            whole.parse::<Reference>()?;
        }
        Ok(Some(whole))
    }
}
