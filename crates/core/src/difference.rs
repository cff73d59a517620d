//! Where an existing sandbox differs from what a caller wrote. Fields the caller did not write are not compared.

use serde::Serialize;
use serde_json::{Value, json};

use crate::image::Reference;
use crate::limits::LimitsInput;
use crate::mount::MountInput;
use crate::network::Network;
use crate::record::Record;
use crate::selection::AUTO;
use crate::spec::{LimitsChoice, Spec, SpecInput, Storage};
use crate::user;

/// One field that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The field's name in operations; variables, labels and mounts with their name or target, as in `env.PATH`.
    pub field: String,
    /// The value the caller wrote and the value the sandbox has. Absent where either may be a secret.
    pub values: Option<Values>,
}

/// Both sides of a difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Values {
    pub written: Value,
    pub sandbox: Value,
}

impl Difference {
    fn new(field: impl Into<String>, written: impl Serialize, sandbox: impl Serialize) -> Self {
        let values = Values { written: json!(written), sandbox: json!(sandbox) };
        Self { field: field.into(), values: Some(values) }
    }

    fn secret(field: String) -> Self {
        Self { field, values: None }
    }

    /// Returns it as JSON for an error's details.
    pub fn to_json(&self) -> Value {
        match &self.values {
            Some(Values { written, sandbox }) => {
                json!({"field": self.field, "written": written, "sandbox": sandbox})
            }
            None => json!({"field": self.field}),
        }
    }
}

/// What a caller wrote, and the spec the policy made of it.
#[derive(Debug, Clone)]
pub struct Wish {
    pub written: SpecInput,
    pub spec: Spec,
}

impl Wish {
    /// Returns every written field whose value the sandbox does not have.
    pub fn differences(&self, record: &Record) -> Vec<Difference> {
        let mut found = Vec::new();
        self.compare_contents(record, &mut found);
        self.compare_limits(record, &mut found);
        self.compare_rights(record, &mut found);
        self.compare_backend(record, &mut found);
        self.compare_labels(record, &mut found);
        found
    }

    /// Compares the contents: image, language, variables, directories.
    fn compare_contents(&self, record: &Record, found: &mut Vec<Difference>) {
        let (written, asked, has) = (&self.written, &self.spec, &record.spec);
        if written.image.is_some() && !is_image(&asked.image, record) {
            found.push(Difference::new("image", &asked.image, &has.image));
        }
        if written.runtime.is_some() && asked.runtime != has.runtime {
            found.push(Difference::new("runtime", asked.runtime, has.runtime));
        }
        if written.workdir.is_some() && asked.workdir.as_deref() != Some(record.workdir()) {
            found.push(Difference::new("workdir", &asked.workdir, record.workdir()));
        }
        let same_user = asked.user.as_deref() == record.user()
            || user::is_root(asked.user.as_deref()) && user::is_root(record.user());
        if written.user.is_some() && !same_user {
            found.push(Difference::new("user", &asked.user, record.user()));
        }
        if written.repo.is_some() && asked.repo != has.repo {
            found.push(Difference::new("repo", &asked.repo, &has.repo));
        }
        if written.install.is_some() && asked.install.unwrap_or_default() != has.install.unwrap_or_default() {
            found.push(Difference::new("install", asked.install, has.install.unwrap_or_default()));
        }
        // A variable may be a key or a password.
        let other = asked.env.iter().filter(|(name, value)| has.env.get(*name) != Some(value));
        found.extend(other.map(|(name, _)| Difference::secret(format!("env.{name}"))));
        for mount in &asked.mounts {
            let at_target = has.mounts.iter().find(|other| other.target == mount.target);
            let same =
                at_target.is_some_and(|other| other.source == mount.source && other.access == mount.access);
            if !same {
                let shown = |mount: &crate::mount::Mount| MountInput::from(mount.clone());
                let field = format!("mounts.{}", mount.target);
                found.push(Difference::new(field, shown(mount), at_target.map(shown)));
            }
        }
    }

    fn compare_limits(&self, record: &Record, found: &mut Vec<Difference>) {
        let (asked, has) = (&self.spec.limits, &record.spec.limits);
        let everything = LimitsInput {
            cpu_millicores: Some(0),
            memory_mb: Some(0),
            pids: Some(0),
            workspace_mb: Some(0),
            inodes: Some(0),
            ..LimitsInput::default()
        };
        let written = match &self.written.limits {
            Some(LimitsChoice::Limits(limits)) => limits.clone(),
            Some(LimitsChoice::Word(_)) => everything,
            None => LimitsInput::default(),
        };
        for (field, is_written, asked, has) in [
            ("limits.cpu_millicores", written.cpu_millicores, asked.cpu_millicores, has.cpu_millicores),
            ("limits.memory_mb", written.memory_mb, asked.memory_mb, has.memory_mb),
            ("limits.pids", written.pids, asked.pids, has.pids),
            (
                "limits.timeout_seconds",
                written.timeout_seconds,
                Some(asked.timeout_seconds),
                Some(has.timeout_seconds),
            ),
            ("limits.workspace_mb", written.workspace_mb, asked.workspace_mb, has.workspace_mb),
            ("limits.inodes", written.inodes, asked.inodes, has.inodes),
            ("limits.output_bytes", written.output_bytes, Some(asked.output_bytes), Some(has.output_bytes)),
        ] {
            let shown = |limit: Option<u64>| limit.map_or(json!("unlimited"), |limit| json!(limit));
            if is_written.is_some() && asked != has {
                found.push(Difference::new(field, shown(asked), shown(has)));
            }
        }
        if self.written.ttl.is_some() && asked.timeout_seconds != has.timeout_seconds {
            let shown = |seconds: u64| format!("{seconds}s");
            found.push(Difference::new("ttl", shown(asked.timeout_seconds), shown(has.timeout_seconds)));
        }
        // Files are on disk by default.
        let storage = record.spec.storage.unwrap_or(Storage::Disk);
        if let Some(asked) = self.written.storage.filter(|asked| *asked != storage) {
            found.push(Difference::new("storage", asked, storage));
        }
        let on_idle = record.spec.on_idle();
        if let Some(asked) = self.written.on_idle.filter(|asked| *asked != on_idle) {
            found.push(Difference::new("on_idle", asked, on_idle));
        }
    }

    /// Compares the rights: network, privileges, walls, sockets.
    fn compare_rights(&self, record: &Record, found: &mut Vec<Difference>) {
        let (written, asked, has) = (&self.written, &self.spec, &record.spec);
        // A caller that narrows the network later still wants this sandbox; so does one that names what is left of
        // it.
        let known = same(&asked.network, &has.network) || same(&asked.network, record.network());
        if written.network.is_some() && !known {
            found.push(Difference::new("network", &asked.network, record.network()));
        }
        if written.privileges.is_some() && asked.privileges != has.privileges {
            found.push(Difference::new("privileges", asked.privileges, has.privileges));
        }
        let walls = record.profile.iter().flat_map(|profile| &profile.walls);
        let standing: Vec<_> = walls.filter(|wall| wall.enforced).map(|wall| wall.name.as_str()).collect();
        let stands = |wall: &String| has.require.contains(wall) || standing.contains(&wall.as_str());
        if !asked.require.iter().all(stands) {
            found.push(Difference::new("require", &asked.require, &has.require));
        }
        if !asked.allow_missing.is_empty() && !is_same_set(&asked.allow_missing, &has.allow_missing) {
            found.push(Difference::new("allow_missing", &asked.allow_missing, &has.allow_missing));
        }
        if asked.allow_sockets && !has.allow_sockets {
            found.push(Difference::new("allow_sockets", true, false));
        }
    }

    fn compare_backend(&self, record: &Record, found: &mut Vec<Difference>) {
        let has = &record.spec;
        if let Some(asked) = &self.written.backend
            && ![AUTO, &record.backend].contains(&asked.as_str())
            && has.backend.as_ref() != Some(asked)
        {
            found.push(Difference::new("backend", asked, &record.backend));
        }
        let fallback = &self.written.fallback;
        if !fallback.is_empty() && *fallback != has.fallback && !fallback.contains(&record.backend) {
            found.push(Difference::new("fallback", fallback, &has.fallback));
        }
    }

    fn compare_labels(&self, record: &Record, found: &mut Vec<Difference>) {
        for (name, value) in &self.spec.labels {
            let has = record.spec.labels.get(name);
            if has != Some(value) {
                found.push(Difference::new(format!("labels.{name}"), value, has));
            }
        }
    }
}

/// Tells whether a sandbox was made from the image of that name: by the same name, or by another one of the same
/// digest.
fn is_image(asked: &str, record: &Record) -> bool {
    if asked == record.spec.image {
        return true;
    }
    let (Ok(asked), Ok(has)) = (asked.parse::<Reference>(), record.spec.image.parse::<Reference>()) else {
        return false;
    };
    let digest = record.image.as_ref().and_then(|image| image.digest.as_deref());
    asked.digest().is_some() && asked.digest() == digest && asked.name() == has.name()
}

fn same(one: &Network, other: &Network) -> bool {
    one.is_within(other) && other.is_within(one)
}

fn is_same_set<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.iter().all(|item| other.contains(item)) && other.iter().all(|item| one.contains(item))
}
