//! Which component of the engine may use which. Each is a type that holds those below it, so none sees all.

use super::source::Source;

const ENGINE: &str = "crates/engine/src/";

/// A directory of the engine with a file of its name beside it, and the type that is its component.
struct Component {
    directory: &'static str,
    name: &'static str,
    /// The directories of the components it may use.
    uses: &'static [&'static str],
}

/// All of them, from the bottom up; ARCHITECTURE.md says what each is for.
const COMPONENTS: &[Component] = &[
    Component { directory: "records", name: "Records", uses: &[] },
    Component { directory: "placement", name: "Placement", uses: &[] },
    Component { directory: "holdings", name: "Holdings", uses: &[] },
    Component { directory: "repositories", name: "Repositories", uses: &["records"] },
    Component { directory: "headroom", name: "Headroom", uses: &["records", "placement"] },
    Component { directory: "access", name: "Access", uses: &["records", "placement", "headroom"] },
    Component { directory: "egress", name: "Egress", uses: &["records", "access"] },
    Component {
        directory: "entry",
        name: "Entry",
        uses: &["records", "placement", "holdings", "headroom", "access", "egress"],
    },
    Component {
        directory: "exec",
        name: "Execs",
        uses: &["records", "headroom", "access", "egress", "entry"],
    },
    Component {
        directory: "lifecycle",
        name: "Lifecycle",
        uses: &[
            "records",
            "placement",
            "holdings",
            "repositories",
            "headroom",
            "access",
            "egress",
            "entry",
            "exec",
        ],
    },
    Component {
        directory: "packages",
        name: "Packages",
        uses: &["records", "headroom", "access", "entry", "exec", "lifecycle"],
    },
    Component {
        directory: "upkeep",
        name: "Upkeep",
        uses: &[
            "records",
            "placement",
            "repositories",
            "headroom",
            "egress",
            "entry",
            "exec",
            "lifecycle",
            "packages",
        ],
    },
];

/// Returns a complaint for each name that a component may not know.
pub fn check(source: &Source) -> Vec<String> {
    let Some(own) = COMPONENTS.iter().find(|component| component.owns(&source.path)) else {
        return Vec::new();
    };
    let code: String = source.code().map(|(_, line)| line + "\n").collect();
    let named = names(&code).into_iter().filter(|name| !own.may_name(name));
    named
        .map(|name| {
            format!("{}: `{}` must not use `{name}` (ARCHITECTURE.md, components)", source.path, own.name)
        })
        .collect()
}

impl Component {
    fn owns(&self, path: &str) -> bool {
        let file = path.strip_prefix(ENGINE).and_then(|file| file.strip_prefix(self.directory));
        file.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    }

    /// The facade is above all of them; what is no component may be used by any.
    fn may_name(&self, name: &str) -> bool {
        let other = COMPONENTS.iter().find(|other| other.directory == name || other.name == name);
        name != "Engine"
            && other
                .is_none_or(|other| other.directory == self.directory || self.uses.contains(&other.directory))
    }
}

/// Returns what code names of its crate: what stands behind `crate::`, alone or in braces.
fn names(code: &str) -> Vec<String> {
    let paths = code.split("crate::").skip(1);
    paths
        .flat_map(|path| match path.strip_prefix('{') {
            Some(group) => firsts(group),
            None => vec![word(path)],
        })
        .collect()
}

/// Returns the first word of each path in a group, up to the brace that ends it.
fn firsts(group: &str) -> Vec<String> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(word(&group[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(word(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

fn word(path: &str) -> String {
    path.trim_start()
        .chars()
        .take_while(|character| character.is_alphanumeric() || *character == '_')
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(file: &str, text: &str) -> usize {
        check(&Source { path: format!("{ENGINE}{file}"), text: text.to_owned() }).len()
    }

    #[test]
    fn a_component_uses_those_below_it_and_no_others() {
        assert_eq!(complaints("exec/follow.rs", "use crate::access::gate::Inside;"), 0);
        assert_eq!(complaints("access/gate.rs", "use crate::exec::Execs;"), 1);
        assert_eq!(complaints("egress.rs", "use crate::{Call, exec::{Started, Stdin}, guest};"), 1);
        assert_eq!(complaints("exec.rs", "use crate::{\n    Call,\n    Lifecycle,\n};"), 1);
        assert_eq!(complaints("execution.rs", "use crate::lifecycle::Lifecycle;"), 0, "it is no component's");
    }

    #[test]
    fn no_component_knows_the_engine() {
        for component in COMPONENTS {
            let file = format!("{}/any.rs", component.directory);
            assert_eq!(complaints(&file, "use crate::{Call, Engine};"), 1, "{file}");
        }
    }

    #[test]
    fn each_uses_only_what_comes_before_it() {
        for (index, component) in COMPONENTS.iter().enumerate() {
            let below: Vec<_> = COMPONENTS[..index].iter().map(|below| below.directory).collect();
            assert!(component.uses.iter().all(|used| below.contains(used)), "{}", component.name);
        }
    }
}
