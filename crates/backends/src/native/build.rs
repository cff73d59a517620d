//! Builds images for native sandboxes with `buildah`, if that is installed: it needs no container engine, and
//! returns an ordinary archive.
//!
//! buildah's own storage keeps the image and the results of steps as a cache; nothing there is ours to remove. It
//! reads the context itself, in its own chroot, and gets the Dockerfile from us.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use coracle_core::image::build::Cache;
use coracle_core::image::{Builder, Images, Progress, Recipe, Reference, Step, Stored};
use coracle_core::{Error, Kind, Result};
use coracle_sys::rustix::fs::OFlags;
use coracle_sys::rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use coracle_sys::tie;

use super::Native;
use crate::context::Context;
use crate::steps::Steps;

const BUILDAH: &str = "buildah";
/// The kernel counts CPU time in periods of this many microseconds.
const CPU_PERIOD: u64 = 100_000;
/// How much of its output to read at once.
const CHUNK: usize = 4096;
/// How the line begins that says why it failed.
const ERROR: &str = "Error: ";

impl Native {
    /// Tells whether `buildah` is installed. Looks once.
    pub(super) fn has_buildah(&self) -> bool {
        *self.buildah.get_or_init(|| {
            let mut version = Command::new(BUILDAH);
            version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            version.status().is_ok_and(|status| status.success())
        })
    }

    fn nameless(&self) -> Result<File> {
        let flags = OFlags::TMPFILE.bits().cast_signed();
        let mut options = File::options();
        let opened =
            options.read(true).write(true).custom_flags(flags).mode(0o600).open(self.config.home.path());
        opened.map_err(|error| Error::internal("could not make a temporary file for an archive", error))
    }
}

impl Builder for Native {
    fn build(&self, recipe: &Recipe, progress: &dyn Progress) -> Result<Stored> {
        let context = Context::open(recipe)?;
        let dockerfile = context.description().map_err(not_started)?;
        let mut command = Command::new(BUILDAH);
        command.args(words(recipe)).arg(&recipe.context).stdin(dockerfile);
        run(command, &recipe.tag, progress)?;
        let archive = self.export(&recipe.tag)?;
        let name = recipe.tag.to_string();
        let loaded = self.load(archive, progress)?.into_iter().find(|stored| stored.reference == name);
        loaded.ok_or_else(|| Error::new(Kind::Internal, format!("`{BUILDAH}` handed over no `{name}`")))
    }

    fn export(&self, reference: &Reference) -> Result<File> {
        let mut file = self.nameless()?;
        let into = file.try_clone().map_err(not_started)?;
        let mut command = Command::new(BUILDAH);
        command.args(["push", "--quiet", &reference.to_string()]);
        command.arg(format!("docker-archive:/dev/stdout:{reference}"));
        command.stdin(Stdio::null()).stdout(into).stderr(Stdio::piped());
        let output = tie::to_this_thread(&mut command).output().map_err(not_started)?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            let message = format!("`{BUILDAH}` could not hand over `{reference}`: {said}");
            return Err(Error::new(Kind::ImageNotFound, message).detail("image", reference.to_string()));
        }
        file.rewind().map_err(not_started)?;
        Ok(file)
    }
}

fn words(recipe: &Recipe) -> Vec<OsString> {
    let memory = format!("{}m", recipe.memory_mb);
    let quota = (recipe.cpu_millicores * CPU_PERIOD / 1000).to_string();
    let tag = recipe.tag.to_string();
    let mut words = vec!["bud", "--format", "docker", "--force-rm", "--layers", "--file", "-", "--tag", &tag];
    let period = CPU_PERIOD.to_string();
    words.extend([
        "--memory",
        &memory,
        "--memory-swap",
        &memory,
        "--cpu-period",
        &period,
        "--cpu-quota",
        &quota,
    ]);
    words.extend(recipe.target.iter().flat_map(|target| ["--target", target]));
    words.extend((recipe.cache == Cache::Ignored).then_some("--no-cache"));
    let arguments = recipe.arguments.iter().map(|(name, value)| format!("--build-arg={name}={value}").into());
    words.iter().map(OsString::from).chain(arguments).collect()
}

/// Runs it to its end and passes its output on.
fn run(mut command: Command, tag: &Reference, progress: &dyn Progress) -> Result<()> {
    let (reader, writer) = io::pipe().map_err(not_started)?;
    command.stdout(writer.try_clone().map_err(not_started)?).stderr(writer);
    let mut child = tie::to_this_thread(&mut command).spawn().map_err(not_started)?;
    let cancel = progress.cancel();
    // By a descriptor: the kernel may reuse the pid once this process is reaped.
    let pid = Pid::from_raw(child.id().cast_signed());
    let process = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let _cut = process.map(|process| {
        cancel.on_cancel(move || {
            let _ = pidfd_send_signal(process, Signal::KILL);
        })
    });
    // The command holds the other end of the pipe, which would otherwise never close.
    drop(command);
    let (mut steps, mut last) = (Steps::default(), String::new());
    let listened = listen(reader, &mut steps, &mut |line| {
        if line.starts_with(ERROR) || !last.starts_with(ERROR) {
            last.clone_from(&line);
        }
        progress.report(&Step::Said { line });
    });
    let status = child.wait().map_err(not_started)?;
    cancel.check()?;
    listened.map_err(not_started)?;
    match status.success() {
        true => Ok(()),
        false => Err(steps.failure(tag, last.trim_start_matches(ERROR))),
    }
}

fn listen(mut reader: impl Read, steps: &mut Steps, tell: &mut dyn FnMut(String)) -> io::Result<()> {
    let mut chunk = [0; CHUNK];
    loop {
        match reader.read(&mut chunk)? {
            0 => return Ok(()),
            length => steps.hear(&String::from_utf8_lossy(&chunk[..length])).into_iter().for_each(&mut *tell),
        }
    }
}

fn not_started(error: io::Error) -> Error {
    Error::new(Kind::NotAvailable, format!("could not build with `{BUILDAH}`")).caused_by(error)
}
