//! Git where others wrote: the machine's git reads a person's repository, or speaks with a server, in a sandbox for one
//! command. What it says on standard output is a bundle, which only our own reader sees.

use std::collections::BTreeMap;
use std::io::{PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use coracle_core::exec::Outcome;
use coracle_core::image::{HOST, Step};
use coracle_core::mount::{Access, MountInput};
use coracle_core::spec::{SpecInput, Storage};
use coracle_core::{Error, Kind, Result};
use coracle_wire::{Chunk, Stream};

use crate::call::{Call, Observer};
use crate::exec::{ExecRequest, Secrets};
use crate::lifecycle::one_command::{OneCommand, OutputTo};
use crate::{Engine, exec};

/// Where a repository is seen in the sandbox.
const SOURCE: &str = "/source";
/// The variable that has the credential of a server.
const TOKEN: &str = "CORACLE_GIT_TOKEN";
const COMPLAINT_MAX: usize = 4 << 10;
/// Of a script with a repository's files in `$1` or a server's URL in `$1`.
const SETTINGS: &str =
    "export HOME=/tmp GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_TERMINAL_PROMPT=0\n";
const BUNDLE_OF_PATH: &str =
    "exec git -c safe.directory='*' -C /source bundle create --quiet - --branches --tags HEAD\n";
const HELPER: &str = r#"helper='!f() { echo username=x-access-token; echo "password=$CORACLE_GIT_TOKEN"; }; f'
set -- "$1" -c credential.helper=
[ -z "$CORACLE_GIT_TOKEN" ] || set -- "$1" -c credential.helper= -c "credential.helper=$helper"
url=$1; shift
"#;
const BUNDLE_OF_URL: &str = r#"set -e
git "$@" clone --quiet --bare -- "$url" /workspace/repo.git >&2
exec git -C /workspace/repo.git bundle create --quiet - --branches --tags HEAD
"#;
const PUSH: &str = r#"exec git "$@" -c safe.directory='*' -C /source push --porcelain -- "$url" "$REFSPEC" >&2
"#;

/// A server of somebody's, by `https`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    text: String,
    /// The host, and the port if it names one.
    host: String,
}

impl std::str::FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let ssh = text.starts_with("ssh://") || text.starts_with("git+ssh://") || text.starts_with("git@");
        if ssh {
            return Err(Error::new(Kind::Unsupported, "repositories are not reached by ssh")
                .hint("use the `https` URL, and a token"));
        }
        let rest = text.strip_prefix("https://").filter(|rest| !rest.contains([' ', '\\', '\n', '#', '?']));
        let wrong = || Error::invalid("url", "must be as in `https://host/path`, without a password");
        let (host, path) = rest.and_then(|rest| rest.split_once('/')).ok_or_else(wrong)?;
        match host.is_empty() || path.is_empty() || host.contains('@') || text.chars().any(char::is_control) {
            true => Err(wrong()),
            false => Ok(Self { text: text.to_owned(), host: host.to_owned() }),
        }
    }
}

/// Tells whether a source is a URL and no path.
pub fn is_url(source: &str) -> bool {
    source.contains("://") || source.starts_with("git@")
}

impl Engine {
    /// Has a bundle made of the repository in a directory of the machine, which the sandbox sees read-only.
    pub(super) fn bundle_of_path<T: Send>(
        &self,
        call: &Call,
        path: &str,
        take: impl FnOnce(OwnedFd) -> Result<T> + Send,
    ) -> Result<T> {
        self.access().check_own(&call.caller, "reading a directory of the machine")?;
        let command = command(&[SETTINGS, BUNDLE_OF_PATH], "", None, vec![source(path)]);
        self.errand(call, command, take)
    }

    /// Has a bundle made of what a server has.
    pub(super) fn bundle_of_url<T: Send>(
        &self,
        call: &Call,
        url: &Url,
        token: Option<String>,
        take: impl FnOnce(OwnedFd) -> Result<T> + Send,
    ) -> Result<T> {
        let mut command = command(&[SETTINGS, HELPER, BUNDLE_OF_URL], &url.text, token, Vec::new());
        command.spec.network = Some(format!("allow={}", url.host));
        self.errand(call, command, take)
    }

    /// Has a ref of a repository of ours pushed to a server.
    pub(super) fn push_to(
        &self,
        call: &Call,
        directory: &str,
        url: &Url,
        token: Option<String>,
        refspec: &str,
    ) -> Result<()> {
        let mut command = command(&[SETTINGS, HELPER, PUSH], &url.text, token, vec![source(directory)]);
        command.spec.network = Some(format!("allow={}", url.host));
        command.request.env.insert("REFSPEC".to_owned(), refspec.to_owned());
        self.errand(call, command, |output| {
            drop(output);
            Ok(())
        })
    }

    /// Runs a script in a sandbox of its own, and hands its standard output to `take` as it comes.
    fn errand<T: Send>(
        &self,
        call: &Call,
        command: OneCommand,
        take: impl FnOnce(OwnedFd) -> Result<T> + Send,
    ) -> Result<T> {
        let (output, input) =
            std::io::pipe().map_err(|error| Error::internal("could not make a pipe", error))?;
        let piped = Arc::new(Piped {
            parent: call.observer.clone(),
            to: Mutex::new(Some(input)),
            said: Mutex::default(),
        });
        let watched = call.clone().watched_by(piped.clone());
        let (ran, taken) = std::thread::scope(|scope| {
            let taking = scope.spawn(|| take(output.into()));
            let ran = self.lifecycle().run_one(&watched, command);
            piped.close();
            (ran, taking.join())
        });
        let taken =
            taken.unwrap_or_else(|_| Err(Error::new(Kind::Internal, "a fault of ours ended the import")));
        match ran {
            Ok(ran) if ran.end.progress().outcome == Some(Outcome::Exited { code: 0 }) => taken,
            Ok(_) => Err(piped.complaint()),
            // What reads the bundle knows better why it wants no more of it.
            Err(error) => Err(taken.err().filter(|_| error.kind == Kind::Aborted).unwrap_or(error)),
        }
    }
}

fn source(path: &str) -> MountInput {
    MountInput { source: path.to_owned(), target: SOURCE.to_owned(), access: Access::ReadOnly }
}

fn command(script: &[&str], argument: &str, token: Option<String>, mounts: Vec<MountInput>) -> OneCommand {
    let words = ["sh", "-c", &script.concat(), "sh", argument].map(|word| word.as_bytes().to_vec());
    let secrets = Secrets(token.into_iter().map(|token| (TOKEN.to_owned(), token)).collect());
    let spec = SpecInput {
        image: Some(HOST.to_owned()),
        storage: Some(Storage::Disk),
        mounts,
        network: Some("none".to_owned()),
        ..SpecInput::default()
    };
    let request = ExecRequest {
        argv: words.to_vec(),
        env: BTreeMap::new(),
        secrets,
        timeout: exec::Timeout::Longest,
        ..ExecRequest::default()
    };
    OneCommand {
        spec,
        name: None,
        runtime: None,
        files: Vec::new(),
        request,
        output: OutputTo::Observer,
        pool: None,
    }
}

/// Passes what a command says to a pipe, and keeps the beginning of what it complains of.
struct Piped {
    parent: Arc<dyn Observer>,
    to: Mutex<Option<PipeWriter>>,
    said: Mutex<Vec<u8>>,
}

impl Piped {
    fn close(&self) {
        drop(self.to.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn complaint(&self) -> Error {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&said);
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned();
        Error::new(Kind::ExecutionFailed, format!("git could not do it: {last}"))
    }
}

impl Observer for Piped {
    fn step(&self, step: &Step) {
        self.parent.step(step);
    }

    fn output(&self, chunk: &Chunk) -> Result<()> {
        match chunk.stream {
            Stream::Stdout => {
                let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
                let sent = to.as_mut().map_or(Ok(()), |pipe| pipe.write_all(&chunk.data));
                sent.map_err(|_| Error::new(Kind::Aborted, "the import wants no more"))
            }
            Stream::Stderr => {
                let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
                let room = COMPLAINT_MAX.saturating_sub(said.len());
                said.extend_from_slice(&chunk.data[..chunk.data.len().min(room)]);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_urls_without_a_password_are_reached() {
        let kind = |text: &str| text.parse::<Url>().map(drop).map_err(|error| error.kind);

        assert_eq!(kind("https://host.test/a/b.git"), Ok(()));
        assert_eq!(kind("https://host.test:8443/a"), Ok(()));
        for ssh in ["ssh://git@host/x", "git@host:x/y"] {
            assert_eq!(kind(ssh), Err(Kind::Unsupported), "{ssh}");
        }
        for bad in [
            "http://h/x",
            "file:///etc",
            "https://",
            "https://h",
            "https://a:b@h/x",
            "ext::sh",
            "https://h/x\n",
            "https://h/ x",
        ] {
            assert_eq!(kind(bad), Err(Kind::Invalid), "{bad}");
        }
    }
}
