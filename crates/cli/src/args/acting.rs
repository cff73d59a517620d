//! Whose rights an operation on files has.

use clap::Args;

/// The user who acts.
#[derive(Debug, Args)]
pub struct ActingArgs {
    /// Act as this user of the sandbox; `root` may do everything
    #[arg(long, short)]
    pub user: Option<String>,
}
