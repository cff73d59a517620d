//! A command to run in a sandbox, built step by step.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use coracle_core::ExecId;
use coracle_engine::{ExecRequest, Secrets, Stdin, Timeout};

/// A program, its arguments and its input. No shell interprets them.
///
/// ```
/// use std::time::Duration;
/// use coracle::Command;
///
/// let command = Command::new("python3").args(["-c", "print(input())"]).stdin("hello\n").timeout(Duration::from_secs(5));
/// let short: Command = ["echo", "hello"].into();
/// ```
#[derive(Debug, Clone, Default)]
pub struct Command {
    request: ExecRequest,
}

impl Command {
    /// Names the program: a path, or a name to be looked up in the sandbox's `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self::default().arg(program)
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.request.argv.push(argument.as_ref().as_bytes().to_vec());
        self
    }

    pub fn args<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// Sets an environment variable, on top of the sandbox's own.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.request.env.insert(name.into(), value.into());
        self
    }

    /// Sets an environment variable that coracle neither stores nor shows.
    pub fn secret(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let Secrets(secrets) = &mut self.request.secrets;
        secrets.insert(name.into(), value.into());
        self
    }

    /// Starts in this directory instead of the sandbox's workdir.
    pub fn cwd(mut self, directory: impl Into<String>) -> Self {
        self.request.cwd = Some(directory.into());
        self
    }

    /// Runs as a user of the sandbox, by name or number, instead of the image's.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.request.user = Some(user.into());
        self
    }

    /// Ends the command and its processes after this much wall time.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.request.timeout = Timeout::After(timeout);
        self
    }

    /// Lets it run without a deadline. Refused where the settings have a maximum.
    pub fn no_timeout(mut self) -> Self {
        self.request.timeout = Timeout::None;
        self
    }

    /// Sets the time between TERM and KILL at the timeout.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.request.grace = Some(grace);
        self
    }

    /// Sends these bytes to standard input, then closes it.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.request.stdin = Stdin::Bytes(bytes.into());
        self
    }

    /// Lets processes that outlive the command stay.
    pub fn keep_background(mut self) -> Self {
        self.request.keep_background = true;
        self
    }

    /// Chooses the id: two requests with one id start one command.
    pub fn id(mut self, id: ExecId) -> Self {
        self.request.exec_id = Some(id);
        self
    }

    pub(crate) fn request(&self) -> &ExecRequest {
        &self.request
    }
}

impl<A: AsRef<OsStr>, const N: usize> From<[A; N]> for Command {
    fn from(argv: [A; N]) -> Self {
        Self::default().args(argv)
    }
}

impl<A: AsRef<OsStr>> From<&[A]> for Command {
    fn from(argv: &[A]) -> Self {
        Self::default().args(argv)
    }
}

impl From<&Command> for Command {
    fn from(command: &Command) -> Self {
        command.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_keep_their_order_and_their_bytes() {
        let odd = OsStr::from_bytes(b"a\xff");

        let command = Command::new("printf").args(["%s"]).arg(odd);

        assert_eq!(command.request().argv, [b"printf".to_vec(), b"%s".to_vec(), b"a\xff".to_vec()]);
    }

    #[test]
    fn a_secret_is_not_part_of_the_debug_form() {
        let command = Command::new("env").secret("TOKEN", "hunter2");

        assert!(!format!("{command:?}").contains("hunter2"));
    }
}
