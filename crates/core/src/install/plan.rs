//! What is run to fetch packages, and to install them without a network.
//!
//! A filler fetches without running anything of a package, and prints what it fetched as one archive. The sandbox
//! unpacks that where its package manager looks by default, so that later commands find it too, and installs from it.

use super::{Ecosystem, Manifests, Rules};

/// Where a filler works and where the repository is, so that a tool that keeps absolute paths finds them again.
pub const WORKSPACE: &str = crate::spec::WORKSPACE;

/// A shell's script, and the variables it runs with. Nothing that was read from a repository is ever part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    pub text: String,
    pub env: Vec<(&'static str, String)>,
}

/// How one repository is installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    tool: Tool,
    lockfile: &'static str,
    registry: Option<String>,
}

/// A package manager, where one name stands for two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tool {
    Pnpm,
    Npm,
    /// Yarn 1.
    YarnClassic,
    /// Yarn 2 and later.
    YarnBerry,
    Uv,
    Pip,
    Cargo,
    Go,
}

/// Sets `C` to the cache directory of the tool, and the parts of it that are kept.
struct Cache {
    /// A command whose output is the directory in the sandbox.
    directory: &'static str,
    /// What of it is packed.
    parts: &'static str,
}

/// Begins every script. Not `pipefail`, which not every shell has.
const BEGIN: &str = "set -eu\n";

impl Plan {
    pub fn of(manifests: &Manifests, rules: &Rules) -> Self {
        let berry = || manifests.locked().windows(BERRY.len()).any(|window| window == BERRY);
        let tool = match manifests.ecosystem {
            Ecosystem::Pnpm => Tool::Pnpm,
            Ecosystem::Npm => Tool::Npm,
            Ecosystem::Yarn if berry() => Tool::YarnBerry,
            Ecosystem::Yarn => Tool::YarnClassic,
            Ecosystem::Uv => Tool::Uv,
            Ecosystem::Pip => Tool::Pip,
            Ecosystem::Cargo => Tool::Cargo,
            Ecosystem::Go => Tool::Go,
        };
        let registry = rules.registries.get(&manifests.ecosystem).cloned();
        Self { tool, lockfile: manifests.lockfile, registry }
    }

    /// Returns the script that prints the first program that is missing in the image, and nothing if all are there.
    pub fn check(&self) -> Script {
        let programs = match self.tool {
            Tool::Pnpm => "tar pnpm",
            Tool::Npm => "tar npm",
            Tool::YarnClassic | Tool::YarnBerry => "tar yarn",
            Tool::Uv => "tar uv",
            Tool::Pip => "tar python3",
            Tool::Cargo => "tar cargo",
            Tool::Go => "tar go",
        };
        let mut text = format!(
            "for program in {programs}; do command -v \"$program\" > /dev/null || {{ echo \"$program\"; exit 0; }}; done\n"
        );
        if self.tool == Tool::Pip {
            text += "python3 -m pip --version > /dev/null 2>&1 || echo pip\n";
        }
        self.script(text)
    }

    /// Returns the script of a filler. It works beside the manifests, and prints an archive; its talk is on standard
    /// error.
    pub fn fill(&self) -> Script {
        let cache = self.cache();
        let fetch = match self.tool {
            Tool::Pnpm => "pnpm fetch --store-dir \"$C/store\" --ignore-scripts",
            Tool::Npm => "npm ci --ignore-scripts --no-audit --no-fund --cache \"$C\"",
            Tool::YarnClassic => {
                "yarn install --frozen-lockfile --ignore-scripts --non-interactive --cache-folder \"$C/yarn\""
            }
            Tool::YarnBerry => "YARN_GLOBAL_FOLDER=\"$C\" yarn install --immutable --mode=skip-build",
            Tool::Uv => {
                "UV_CACHE_DIR=\"$C/uv\" uv sync --frozen --no-build --no-install-project --no-install-workspace"
            }
            Tool::Pip => {
                "python3 -m pip download --no-cache-dir --only-binary :all: --dest \"$C/wheels\" -r \"$LOCKFILE\""
            }
            Tool::Cargo => "export CARGO_HOME=\"$C\"\nconfigure\ncargo fetch --locked",
            Tool::Go => "GOMODCACHE=\"$C\" go mod download",
        };
        let prepare = self.prepare();
        let parts = cache.parts;
        self.script(format!(
            "{BEGIN}{prepare}C=/tmp/packages\nmkdir -p \"$C\"\n{{\n{fetch}\n}} >&2 < /dev/null\ncd \"$C\"\nset --\n\
             for part in {parts}; do if [ -e \"$part\" ]; then set -- \"$@\" \"$part\"; fi; done\n\
             if [ $# = 0 ]; then mkdir -p empty; set -- empty; fi\ntar -cf - \"$@\"\n"
        ))
    }

    /// Returns the script that installs in the sandbox, without a network, from the archive its first argument names.
    /// It removes the archive.
    pub fn install(&self) -> Script {
        let directory = self.cache().directory;
        let install = match self.tool {
            // The filler has checked the lockfile against the registry, which cannot be asked here.
            Tool::Pnpm => {
                "PNPM_CONFIG_TRUST_LOCKFILE=true pnpm install --offline --frozen-lockfile --store-dir \"$C/store\""
            }
            Tool::Npm => "npm ci --offline --no-audit --no-fund --cache \"$C\"",
            Tool::YarnClassic => {
                "yarn install --offline --frozen-lockfile --non-interactive --cache-folder \"$C/yarn\""
            }
            Tool::YarnBerry => "YARN_ENABLE_NETWORK=false yarn install --immutable",
            // What the project itself is built with need not be among its packages.
            Tool::Uv => "uv sync --frozen --offline || uv sync --frozen --offline --no-install-project",
            Tool::Pip => {
                "[ -e .venv ] || { python3 -m venv --without-pip .venv; echo '*' > .venv/.gitignore; }\n\
                 python3 -m pip --python .venv/bin/python install --no-cache-dir --no-index --find-links \"$C/wheels\" \
                 -r \"$LOCKFILE\"\nrm -rf \"$C\""
            }
            Tool::Cargo => "configure\ncargo fetch --locked --offline",
            Tool::Go => "GOPROXY=off go mod download",
        };
        let prepare = self.prepare();
        self.script(format!(
            "{BEGIN}{prepare}C={directory}\nmkdir -p \"$C\"\ntar -xof \"$1\" -C \"$C\"\nrm -f \"$1\"\n{install}\n"
        ))
    }

    fn cache(&self) -> Cache {
        let (directory, parts) = match self.tool {
            Tool::Pnpm => ("\"${XDG_DATA_HOME:-$HOME/.local/share}/pnpm\"", "store"),
            Tool::Npm => ("\"$HOME/.npm\"", "_cacache"),
            Tool::YarnClassic => ("\"${XDG_CACHE_HOME:-$HOME/.cache}\"", "yarn"),
            Tool::YarnBerry => ("\"$HOME/.yarn/berry\"", "cache"),
            Tool::Uv => ("\"${XDG_CACHE_HOME:-$HOME/.cache}\"", "uv"),
            Tool::Pip => ("\"$(mktemp -d)\"", "wheels"),
            Tool::Cargo => ("\"${CARGO_HOME:-$HOME/.cargo}\"", "registry/index registry/cache git/db"),
            Tool::Go => ("\"$(go env GOMODCACHE)\"", "cache/download"),
        };
        Cache { directory, parts }
    }

    /// Returns what filler and sandbox do alike before anything else.
    fn prepare(&self) -> &'static str {
        match (self.tool, &self.registry) {
            // cargo keeps packages under the address they came from, so both have to use the same.
            (Tool::Cargo, Some(_)) => {
                "configure() {\n  mkdir -p \"${CARGO_HOME:-$HOME/.cargo}\"\n  \
                 file=\"${CARGO_HOME:-$HOME/.cargo}/config.toml\"\n  [ -e \"$file\" ] || printf \
                 '[source.crates-io]\\nreplace-with = \"coracle\"\\n[source.coracle]\\nregistry = \"%s\"\\n' \
                 \"$REGISTRY\" > \"$file\"\n}\n"
            }
            (Tool::Cargo, None) => "configure() { :; }\n",
            _ => "",
        }
    }

    fn script(&self, text: String) -> Script {
        let mut env = vec![("CI", "1".to_owned())];
        let mut set = |name, value: &str| env.push((name, value.to_owned()));
        match self.tool {
            Tool::Npm => set("NPM_CONFIG_UPDATE_NOTIFIER", "false"),
            Tool::Pnpm => {
                set("NPM_CONFIG_UPDATE_NOTIFIER", "false");
                // Neither installs another version of itself.
                set("NPM_CONFIG_MANAGE_PACKAGE_MANAGER_VERSIONS", "false");
                set("PNPM_CONFIG_MANAGE_PACKAGE_MANAGER_VERSIONS", "false");
            }
            Tool::YarnClassic => set("YARN_DISABLE_SELF_UPDATE_CHECK", "1"),
            Tool::YarnBerry => {
                set("YARN_ENABLE_TELEMETRY", "false");
                set("YARN_ENABLE_GLOBAL_CACHE", "true");
            }
            Tool::Uv => set("UV_PYTHON_DOWNLOADS", "never"),
            Tool::Pip => {
                set("PIP_DISABLE_PIP_VERSION_CHECK", "1");
                set("PIP_ROOT_USER_ACTION", "ignore");
                set("LOCKFILE", self.lockfile);
            }
            Tool::Cargo => {}
            Tool::Go => {
                set("GOTOOLCHAIN", "local");
                set("GOFLAGS", "-modcacherw");
            }
        }
        if let Some(registry) = &self.registry {
            match self.tool {
                Tool::Npm | Tool::Pnpm => {
                    set("NPM_CONFIG_REGISTRY", registry);
                    set("PNPM_CONFIG_REGISTRY", registry);
                }
                Tool::YarnClassic => set("YARN_REGISTRY", registry),
                Tool::YarnBerry => {
                    set("YARN_NPM_REGISTRY_SERVER", registry);
                    set("YARN_UNSAFE_HTTP_WHITELIST", plain_host(registry));
                }
                Tool::Uv => set("UV_DEFAULT_INDEX", registry),
                Tool::Pip => {
                    set("PIP_INDEX_URL", registry);
                    set("PIP_TRUSTED_HOST", plain_host(registry));
                }
                Tool::Cargo => set("REGISTRY", registry),
                Tool::Go => {
                    set("GOPROXY", registry);
                    // The checksums are in go.sum; a mirror need not know the public database.
                    set("GOSUMDB", "off");
                }
            }
        }
        Script { text, env }
    }
}

/// Returns the host of a registry that is spoken to in clear text. Package managers refuse that unless they are told its
/// name, also where the operator wrote the address.
fn plain_host(registry: &str) -> &str {
    let rest = registry.strip_prefix("http://").unwrap_or_default();
    rest.split(['/', ':']).next().unwrap_or_default()
}

/// What only the lockfiles of Yarn 2 and later begin their header with.
const BERRY: &[u8] = b"\n__metadata:";

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(ecosystem: Ecosystem, text: &str) -> Plan {
        let lockfile = ecosystem.lockfiles()[0];
        let rules = Rules {
            registries: [(ecosystem, "http://mirror.test/'; rm -rf /".to_owned())].into(),
            ..Rules::default()
        };
        Plan::of(&Manifests::of(ecosystem, lockfile, text.as_bytes().to_vec()).expect("small"), &rules)
    }

    #[test]
    fn fillers_run_no_script_of_a_package() {
        let refusals = [
            (Ecosystem::Pnpm, "pnpm fetch"),
            (Ecosystem::Npm, "--ignore-scripts"),
            (Ecosystem::Yarn, "--ignore-scripts"),
            (Ecosystem::Uv, "--no-build"),
            (Ecosystem::Pip, "--only-binary :all:"),
            (Ecosystem::Cargo, "cargo fetch"),
            (Ecosystem::Go, "go mod download"),
        ];

        for (ecosystem, refusal) in refusals {
            assert!(plan(ecosystem, "").fill().text.contains(refusal), "{ecosystem}");
        }
        assert!(
            plan(Ecosystem::Yarn, "# x\n\n__metadata:\n  version: 8\n")
                .fill()
                .text
                .contains("--mode=skip-build")
        );
    }

    #[test]
    fn a_registry_is_a_variable_and_never_a_part_of_a_script() {
        for ecosystem in Ecosystem::ALL {
            let plan = plan(ecosystem, "");
            for script in [plan.check(), plan.fill(), plan.install()] {
                assert!(!script.text.contains("mirror.test"), "{ecosystem}");
                assert!(script.env.iter().any(|(_, value)| value.contains("mirror.test")), "{ecosystem}");
            }
        }
    }

    #[test]
    fn sandboxes_install_offline() {
        let offline = ["--offline", "--no-index", "GOPROXY=off", "YARN_ENABLE_NETWORK=false"];
        for ecosystem in Ecosystem::ALL {
            let text = plan(ecosystem, "").install().text;
            assert!(offline.iter().any(|word| text.contains(word)), "{ecosystem}: {text}");
        }
    }
}
