//! Building for native sandboxes with `buildah`, where that is installed: it needs no engine, and hands over an archive
//! like anybody else's.
//!
//! Its own storage keeps the image and what steps left, as a cache; nothing there is ours to remove. It reads the context
//! itself, in a chroot of its own, and gets the Dockerfile from us.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Child, Command, Stdio};

use coracle_core::image::build::Cache;
use coracle_core::image::{Builder, Images, Progress, Recipe, Reference, Step, Stored};
use coracle_core::{Error, Kind, Result};
use coracle_sys::rustix::fs::OFlags;
use coracle_sys::tie;

use super::Native;
use crate::context::Context;

const BUILDAH: &str = "buildah";
/// The kernel counts a CPU's time by this many microseconds.
const CPU_PERIOD: u64 = 100_000;
/// The longest line that is passed on as one.
const LINE_MAX: u64 = 4096;
/// How many of the last lines an error repeats.
const REPEATED: usize = 3;

impl Native {
    /// Tells whether `buildah` is here. Asked once.
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
        let opened = options.read(true).write(true).custom_flags(flags).mode(0o600).open(&self.setting.home);
        opened.map_err(|error| Error::internal("could not make room for an archive", error))
    }
}

impl Builder for Native {
    fn build(&self, recipe: &Recipe, progress: &dyn Progress) -> Result<Stored> {
        let context = Context::open(recipe)?;
        let dockerfile = context.description().map_err(not_started)?;
        let mut command = Command::new(BUILDAH);
        command.args(words(recipe)).arg(&recipe.context).stdin(dockerfile);
        let said = run(command, progress)?;
        if let Some(said) = said {
            return Err(failure(&recipe.tag, &said));
        }
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

/// Runs it to its end and passes on what it says; returns the last of that if it failed.
fn run(mut command: Command, progress: &dyn Progress) -> Result<Option<Vec<String>>> {
    let (reader, writer) = io::pipe().map_err(not_started)?;
    command.stdout(writer.try_clone().map_err(not_started)?).stderr(writer);
    let mut child = tie::to_this_thread(&mut command).spawn().map_err(not_started)?;
    // It holds the other end of the pipe, which would otherwise never close.
    drop(command);
    let said = listen(reader, progress);
    finish(&mut child, said)
}

fn listen(reader: impl Read, progress: &dyn Progress) -> io::Result<Vec<String>> {
    let mut reader = BufReader::new(reader);
    let mut last = Vec::new();
    loop {
        let mut line = Vec::new();
        if reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)? == 0 {
            return Ok(last);
        }
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        progress.report(&Step::Said { line: line.clone() });
        last.push(line);
        if last.len() > REPEATED {
            last.remove(0);
        }
    }
}

fn finish(child: &mut Child, said: io::Result<Vec<String>>) -> Result<Option<Vec<String>>> {
    let status = child.wait().map_err(not_started)?;
    let said = said.map_err(not_started)?;
    Ok((!status.success()).then_some(said))
}

fn failure(tag: &Reference, said: &[String]) -> Error {
    let message = format!("`{BUILDAH}` could not build `{tag}`: {}", said.join("; "));
    let step = said.iter().rev().find(|line| line.contains("STEP"));
    let error = Error::new(Kind::ExecutionFailed, message);
    step.into_iter().fold(error, |error, step| error.detail("step", step.as_str()))
}

fn not_started(error: io::Error) -> Error {
    Error::new(Kind::NotAvailable, format!("could not build with `{BUILDAH}`")).caused_by(error)
}
