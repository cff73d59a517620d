//! How a command runs, for the verbs that run one.

use clap::Args;
use coracle::{Error, Kind, Result};
use coracle_engine::{ExecRequest, Secrets, Stdin, Timeout};

use super::quantity::{Span, span};
use super::secret::SecretSource;
use crate::terminal;

/// What a command gets besides its arguments.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Command")]
pub struct ProcessArgs {
    /// Start in this directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,
    /// Run as this user of the sandbox instead of the image's
    #[arg(short, long, value_name = "USER")]
    pub user: Option<String>,
    /// Set an environment variable that coracle neither stores nor shows
    // Parsed later: clap repeats a value it cannot parse, and the person may have written the secret itself.
    #[arg(long, value_name = "NAME=FILE|env:VAR")]
    secret: Vec<String>,
    /// End it after this much time, as in 30s, or `none`; 5m by default, and none with --detach or --tty
    #[arg(long, value_name = "TIME|none", value_parser = timeout)]
    timeout: Option<Timeout>,
    /// Wait this long between TERM and KILL
    #[arg(long, value_name = "TIME", value_parser = span)]
    grace: Option<Span>,
    /// Pass standard input on
    #[arg(short, long)]
    pub interactive: bool,
    /// Give it a terminal
    #[arg(short, long)]
    pub tty: bool,
}

impl ProcessArgs {
    /// Returns the request, without a command yet. Reads the secrets.
    pub fn request(&self) -> Result<ExecRequest> {
        if self.interactive && self.tty && !terminal::is_typed_at() {
            return Err(not_typed_at());
        }
        let secrets = self.secret.iter().map(|secret| {
            let source: SecretSource = secret.parse()?;
            let value = source.value()?;
            Ok((source.name, value))
        });
        let mut request = ExecRequest {
            cwd: self.cwd.clone(),
            secrets: Secrets(secrets.collect::<Result<_>>()?),
            user: self.user.clone(),
            timeout: self.timeout.unwrap_or_default(),
            grace: self.grace.as_ref().map(|span| span.duration),
            stdin: if self.interactive { Stdin::Open } else { Stdin::Empty },
            ..ExecRequest::default()
        };
        if self.tty {
            request.timeout = request.timeout.in_background();
            request.terminal = Some(terminal::size());
            request.env.extend(coracle::config::terminal().map(|name| ("TERM".to_owned(), name)));
        }
        Ok(request)
    }
}

/// Refuses input from a pipe or file for a command's terminal. The end of input would be a typed `^D`, which a program
/// discards if it sets up its terminal later; it would then wait for ever.
fn not_typed_at() -> Error {
    Error::new(Kind::Invalid, "standard input is not a terminal").hint("leave out `-t` and write `-i`")
}

/// Reads `30s`, or `none`.
fn timeout(text: &str) -> Result<Timeout> {
    match text {
        "none" => Ok(Timeout::None),
        text => span(text).map(|span| Timeout::After(span.duration)),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        process: ProcessArgs,
    }

    #[test]
    fn a_secret_written_in_the_wrong_place_is_not_repeated() {
        let line = Line::try_parse_from(["coracle", "--secret", "hunter2"]).expect("read later");

        let refused = line.process.request().expect_err("no name");

        assert!(!refused.to_json().to_string().contains("hunter2"));
    }

    #[test]
    fn a_grace_of_zero_is_not_the_default() {
        let line = Line::try_parse_from(["coracle", "--grace", "0", "--timeout", "200ms"]).expect("valid");

        let request = line.process.request().expect("valid");

        assert_eq!(request.grace, Some(std::time::Duration::ZERO));
        assert_eq!(request.timeout, Timeout::After(std::time::Duration::from_millis(200)));
    }
}
