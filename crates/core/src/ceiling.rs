//! The ceiling of a door: which sandboxes callers get through it, and which fields of them they may choose.
//!
//! A person sets it when they start a door for a model, or when they make a token. The engine applies it in two
//! places: where it resolves a spec ([`Ceiling::complete`], then [`Ceiling::check`]), and where it looks up a sandbox
//! ([`Ceiling::check_record`]), so that a model cannot get by name what it may not ask for.

mod bounds;
mod choices;

use crate::error::{Error, Kind, Result};
use crate::ids::{ImageId, VolumeName};
use crate::image::{self, Allowed, Reference};
use crate::lifecycle::State;
use crate::limits::LimitsInput;
use crate::mount::{Access, Mount, Source};
use crate::policy::Policy;
use crate::record::Record;
use crate::spec::{LimitsChoice, ONE_COMMAND_IDLE, Purpose, Spec, SpecInput};
use crate::tenant;

pub use bounds::Bounds;
pub use choices::{Choice, Choices};

/// The most that callers of one door may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceiling {
    /// The spec of sandboxes in fields that callers do not choose.
    spec: SpecInput,
    freedom: Freedom,
    bounds: Bounds,
    /// The mounts that sandboxes may have; any that the policy allows if absent.
    mounts: Option<Vec<Mount>>,
    snapshots: Snapshots,
    /// The image of sandboxes where callers choose none. Absent where the policy does not allow the default image.
    image: Option<String>,
}

/// Which snapshots callers may start from, besides the one the ceiling gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Snapshots {
    /// Those of their tenant; the engine checks whose they are.
    OfTenant,
    /// None, because the owner of the files in them is unknown.
    None,
}

/// Which fields callers may write.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Freedom {
    /// Only these fields; the ceiling decides all others.
    Chosen(Choices),
    /// Every field; an absent one gets the usual default, or the bound where that is less.
    Everything,
}

impl Ceiling {
    /// Returns the ceiling of a door for a model: sandboxes are as `spec` says, and the model may lower what is in
    /// `choices`.
    ///
    /// Refuses a spec the policy does not allow, so that the door does not start with it.
    pub fn of_model(spec: SpecInput, choices: Choices, policy: &Policy) -> Result<Self> {
        let top = match spec.image {
            Some(_) => Spec::resolve(spec.clone(), policy)?,
            None => Spec::of_any_image(spec.clone(), policy)?,
        };
        let image = Spec::resolve(spec.clone(), policy).ok().map(|spec| spec.image);
        let bounds = Bounds::of(&top);
        let (freedom, mounts) = (Freedom::Chosen(choices), Some(top.mounts));
        Ok(Self { spec, freedom, bounds, mounts, snapshots: Snapshots::None, image })
    }

    /// Returns the ceiling of a model with a token: sandboxes are what the token's bounds say, and the default where
    /// the bounds say nothing.
    pub fn of_model_with_token(bounds: Option<&Bounds>, policy: &Policy) -> Result<Self> {
        let bounds = bounds.cloned().unwrap_or_default();
        let choices = bounds.let_choose.clone();
        let ceiling = Self::of_model(bounds.spec(policy), choices, policy)?;
        let bounds = Bounds { images: bounds.images, ..ceiling.bounds };
        Ok(Self { bounds, snapshots: Snapshots::OfTenant, ..ceiling })
    }

    /// Returns the ceiling of a program with a token: it may write every field, within the bounds.
    pub fn of_token(bounds: Bounds) -> Self {
        let (spec, freedom) = (SpecInput::default(), Freedom::Everything);
        Self { spec, freedom, bounds, mounts: None, snapshots: Snapshots::OfTenant, image: None }
    }

    /// Tells whether callers may choose this field.
    pub fn lets_choose(&self, choice: Choice) -> bool {
        match &self.freedom {
            Freedom::Chosen(choices) => choices.has(choice),
            Freedom::Everything => true,
        }
    }

    /// Tells whether the ceiling mounts this volume in its sandboxes.
    pub fn mounts_volume(&self, name: &VolumeName) -> bool {
        let is_it = |mount: &Mount| matches!(&mount.source, Source::Volume(volume) if volume == name);
        self.mounts.as_ref().is_none_or(|mounts| mounts.iter().any(is_it))
    }

    /// Tells whether this is a model's ceiling. Its volumes then belong to the person, and the model may not delete
    /// them.
    pub fn is_of_model(&self) -> bool {
        matches!(self.freedom, Freedom::Chosen(_))
    }

    /// Returns the spec a caller gets for what it wrote. Refuses a field the caller may not write, whatever its
    /// value.
    pub fn complete(&self, written: SpecInput, purpose: Purpose, policy: &Policy) -> Result<SpecInput> {
        if let Some(image) = &written.image {
            self.check_image(image, policy)?;
        }
        match &self.freedom {
            Freedom::Everything => self.bounds.complete(written, purpose, policy),
            Freedom::Chosen(choices) => {
                choices.check(&written, purpose)?;
                Ok(self.overlaid(written, purpose))
            }
        }
    }

    /// Returns the fields to compare when a caller opens a sandbox by its key: the caller's own, and those a person
    /// has decided. A field the caller may choose and left out is not compared: it may have chosen less the last
    /// time.
    pub fn written(&self, written: SpecInput) -> SpecInput {
        let Freedom::Chosen(choices) = &self.freedom else { return written };
        let mut whole = self.spec.clone();
        if choices.has(Choice::Image) {
            (whole.image, whole.runtime) = (written.image, None);
        }
        if choices.has(Choice::Network) {
            whole.network = written.network;
        }
        if choices.has(Choice::Limits) {
            (whole.limits, whole.ttl) = (written.limits, None);
        }
        whole
    }

    /// Lays the caller's choices over the ceiling's own spec.
    fn overlaid(&self, written: SpecInput, purpose: Purpose) -> SpecInput {
        let mut spec = self.spec.clone();
        spec.image = written.image.or(spec.image);
        spec.runtime = written.runtime.or(spec.runtime);
        spec.network = written.network.or(spec.network);
        spec.env.extend(written.env);
        let chose_idle = matches!(
            &written.limits,
            Some(LimitsChoice::Limits(LimitsInput { timeout_seconds: Some(_), .. }))
        );
        spec.limits = match (spec.limits, written.limits) {
            (Some(LimitsChoice::Limits(own)), Some(LimitsChoice::Limits(chosen))) => {
                Some(LimitsChoice::Limits(chosen.or(&own)))
            }
            (own, chosen) => chosen.or(own),
        };
        // A sandbox for one command ends a minute after its caller; a ceiling can only shorten that.
        let long = self.bounds.limits.timeout_seconds.is_none_or(|idle| idle >= ONE_COMMAND_IDLE.as_secs());
        if chose_idle || (purpose == Purpose::OneCommand && long) {
            spec.ttl = None;
        }
        if let Some(LimitsChoice::Limits(limits)) = &mut spec.limits
            && purpose == Purpose::OneCommand
            && long
            && !chose_idle
        {
            limits.timeout_seconds = None;
        }
        if purpose == Purpose::OneCommand {
            // It ends with its command, whatever becomes of sandboxes that stay.
            spec.on_idle = None;
        }
        spec.for_purpose(purpose)
    }

    /// Refuses an image that callers may not choose.
    pub fn check_image(&self, image: &str, policy: &Policy) -> Result<()> {
        let own = self.spec.image.as_deref().unwrap_or(&policy.image);
        if !self.lets_choose(Choice::Image) {
            let same = image == own || canonical(image).is_some_and(|image| canonical(own) == Some(image));
            return if same { Ok(()) } else { Err(not_chosen("image", own)) };
        }
        self.check_snapshot(image)?;
        // A registry in an image's name makes this machine connect to it. Only the operator decides which private
        // networks.
        if self.bounds.images.is_none() {
            tenant::check_registry(image, &policy.images)?;
        }
        self.check_listed(image)
    }

    /// Refuses a snapshot with other people's files.
    fn check_snapshot(&self, image: &str) -> Result<()> {
        let given = self.spec.image.as_deref() == Some(image);
        match (self.snapshots, ImageId::among_names(image)) {
            (Snapshots::None, Some(_)) if !given => {
                Err(beyond(format!("the ceiling does not give the snapshot `{image}`"), "image"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses an image that is not on the list, if there is a list.
    fn check_listed(&self, image: &str) -> Result<()> {
        let Some(patterns) = &self.bounds.images else { return Ok(()) };
        let allowed = Allowed::only(patterns.clone())?;
        let checked = if image == image::HOST {
            allowed.check_host()
        } else if ImageId::among_names(image).is_some() {
            allowed.check_snapshot(image)
        } else {
            allowed.check_reference(&image.parse()?)
        };
        checked.map_err(|error| error.hint(format!("the ceiling allows {}", patterns.join(", "))))
    }

    /// Refuses a spec above the ceiling.
    pub fn check(&self, spec: &Spec) -> Result<()> {
        self.bounds.check(spec)?;
        self.check_listed(&spec.image)?;
        let may_miss = |limit| match self.freedom {
            Freedom::Chosen(_) => self.spec.allow_missing.contains(limit),
            Freedom::Everything => !self.bounds.limits.writes(*limit),
        };
        if let Some(limit) = spec.allow_missing.iter().find(|limit| !may_miss(limit)) {
            let what = format!("the ceiling does not let the limit on {} be missing", limit.name());
            return Err(beyond(what, "allow_missing"));
        }
        let Some(mounts) = &self.mounts else { return Ok(()) };
        if spec.allow_sockets && !self.spec.allow_sockets {
            let what = "the ceiling does not allow mounting directories with live sockets in them".to_owned();
            return Err(beyond(what, "allow_sockets"));
        }
        match spec.mounts.iter().find(|mount| !mounts.iter().any(|allowed| covers(allowed, mount))) {
            None => Ok(()),
            Some(mount) => {
                let what = format!("the ceiling has no such mount at `{}`", mount.target.escape_debug());
                Err(beyond(what, "mounts"))
            }
        }
    }

    /// Refuses a model a sandbox whose origin differs from its own. By name it would otherwise get an image, a
    /// backend or variables (a key of the person's, say) that it cannot ask for.
    fn check_origin(&self, spec: &Spec) -> Result<()> {
        let Freedom::Chosen(choices) = &self.freedom else { return Ok(()) };
        let has = |(name, value): (&String, &String)| self.spec.env.get(name) == Some(value);
        let same = [
            ("image", choices.has(Choice::Image) || self.image.as_ref() == Some(&spec.image)),
            ("env", spec.env.iter().all(has)),
            ("backend", self.spec.backend.is_none() || self.spec.backend == spec.backend),
            ("require", self.spec.require.iter().all(|wall| spec.require.contains(wall))),
        ];
        match same.iter().find(|(_, same)| !same) {
            None => Ok(()),
            Some((field, _)) => Err(beyond(format!("the ceiling gives another `{field}`"), field)),
        }
    }

    /// Refuses an existing sandbox that has more than the ceiling allows.
    pub fn check_record(&self, record: &Record) -> Result<()> {
        if record.state == State::Quarantined {
            let what =
                format!("sandbox `{}` was found without a record, so its rights are unknown", record.id);
            return Err(Error::new(Kind::Denied, what)
                .hint("open another sandbox; the person who started this server can look at it")
                .detail("sandbox_id", record.id.as_str()));
        }
        let spec = Spec { network: record.network().clone(), ..record.spec.clone() };
        let checked = self.check(&spec).and_then(|()| self.check_snapshot(&spec.image));
        checked.and_then(|()| self.check_origin(&spec)).map_err(|error| {
            let field = error.details.get("field").cloned().unwrap_or_default();
            Error::new(Kind::Denied, format!("sandbox `{}` has more than the ceiling allows", record.id))
                .caused_by(error)
                .hint("open one with another `session_key`; the person who set the ceiling can raise it, or close that one")
                .detail("sandbox_id", record.id.as_str())
                .detail("field", field)
        })
    }
}

/// Tells whether `mount` grants no more than `allowed`.
fn covers(allowed: &Mount, mount: &Mount) -> bool {
    let access = match (allowed.access, mount.access) {
        (Access::ReadWrite, _) | (Access::Overlay, Access::Overlay) | (_, Access::ReadOnly) => true,
        (Access::Overlay | Access::ReadOnly, Access::ReadWrite) | (Access::ReadOnly, Access::Overlay) => {
            false
        }
    };
    access && allowed.source == mount.source && allowed.target == mount.target
}

fn canonical(image: &str) -> Option<String> {
    image.parse::<Reference>().ok().map(|reference| reference.to_string())
}

fn not_chosen(field: &str, own: &str) -> Error {
    Error::invalid(field, "may not be chosen here").hint(format!(
        "it is `{own}`; the person who started this server can let you choose with `--let-choose {field}`"
    ))
}

/// Returns the error for a request above the ceiling.
fn beyond(what: String, field: &str) -> Error {
    Error::new(Kind::Denied, what)
        .hint("ask for less; the person who started this server, or made your token, sets the most you may have")
        .detail("field", field)
}
