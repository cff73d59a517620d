//! The verbs. Adding one takes a file, its `mod`, and a line in the list.

// Not in the macro, where rustfmt would not find the files.
mod backends;
mod call;
mod claim;
mod close;
mod completions;
mod config;
mod cp;
mod doctor;
mod events;
mod exec;
mod fork;
mod forward;
mod fs;
mod gc;
mod image;
mod inspect;
mod keeper;
mod kill;
mod logs;
mod man;
mod mcp;
mod network;
mod open;
mod pause;
mod ps;
mod purge;
mod release;
mod repo;
mod resume;
mod run;
mod serve;
mod shell;
mod show;
mod snapshot;
mod spares;
mod stats;
mod stop;
mod token;
mod transfer;
mod version;
mod volume;
mod wait;

use clap::Subcommand;

// Short forms of what `image` has, too.
use self::image::{list as images, pull};
use super::context::Context;
use super::exit::Exit;
use super::stop::Stop;
use coracle_service::telemetry::Life;

/// The roll-call: a verb, the module with its `Args` and `carry_out`, and its life for telemetry unless it is one
/// call.
macro_rules! verbs {
    ($($(#[$meta:meta])* $name:ident => $module:ident $(as $life:ident)?,)+) => {
        /// The verbs of the command line.
        #[derive(Debug, Subcommand)]
        pub enum Verb {
            $($(#[$meta])* $name(Box<$module::Args>),)+
        }

        impl Verb {
            /// Returns its name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($module),)+
                }
            }

            /// Returns how long it lives, for telemetry.
            pub fn life(&self) -> Life {
                match self {
                    $(Self::$name(_) => life!($($life)?),)+
                }
            }

            /// Carries it out and returns the exit code.
            pub fn carry_out(self, context: &Context) -> Result<Exit, Stop> {
                match self {
                    $(Self::$name(args) => $module::carry_out(context, *args),)+
                }
            }
        }
    };
}

macro_rules! life {
    () => {
        Life::Call
    };
    ($life:ident) => {
        Life::$life
    };
}

verbs! {
    /// Run one command in a sandbox of its own, which is removed afterwards
    Run => run,
    /// Open a sandbox and print its id
    Open => open,
    /// Run a command in an open sandbox
    Exec => exec,
    /// Print the output of a command
    Logs => logs,
    /// Wait for the end of a command and exit as it did
    Wait => wait,
    /// Stop a command and all it started, or all commands of a sandbox
    Stop => stop,
    /// End all commands of sandboxes at once, or send them a signal
    Kill => kill,
    /// Work on files of a sandbox
    Fs => fs,
    /// Copy between a sandbox and here
    Cp => cp,
    /// List sandboxes
    Ps => ps,
    /// Show what sandboxes use: time, memory, processes, files
    Stats => stats,
    /// Print events of sandboxes, or follow them
    Events => events,
    /// Show a sandbox
    Show => show,
    /// Print everything known about a sandbox as JSON, as `show --json` does
    Inspect => inspect,
    /// Destroy sandboxes
    #[command(visible_alias = "rm")]
    Close => close,
    /// Freeze everything in a sandbox; its time does not count meanwhile
    Pause => pause,
    /// Let everything in a paused sandbox go on
    Resume => resume,
    /// Make sandboxes that start with the files of another and print their ids
    Fork => fork,
    /// Keep the files of a sandbox as an image and print its name
    Snapshot => snapshot,
    /// Take a sandbox without an owner, or learn its epoch, and print that
    Claim => claim,
    /// Lend a sandbox to another run and print the new epoch
    Transfer => transfer,
    /// Give a sandbox back and print the new epoch
    Release => release,
    /// Narrow what a sandbox may reach
    Network => network,
    /// Reach a port of a sandbox from here, until interrupted
    Forward => forward,
    /// Open a shell in a sandbox
    Shell => shell,
    /// Pull, list and remove images
    Image => image,
    /// List the stored images, as `image list` does
    Images => images,
    /// Pull an image from its registry, as `image pull` does
    Pull => pull,
    /// List and remove volumes
    Volume => volume,
    /// Make, list and remove hosted repositories
    Repo => repo,
    /// Serve HTTP until stopped; sandboxes go on without it
    Serve => serve as Daemon,
    /// Make, list and revoke tokens for callers over the network
    Token => token,
    /// Say what is enforced here, what is not, and why
    Doctor => doctor,
    /// Remove what dead processes left behind
    Gc => gc,
    /// Remove everything of this home: sandboxes, images, volumes, logs, the home itself
    Purge => purge,
    /// Keep spares ready for other calls
    #[command(hide = true)]
    Spares => spares as Service,
    /// Carry out an operation by its name, with JSON
    Call => call,
    /// Serve tools to an MCP client on standard input and output
    Mcp => mcp as Service,
    /// Print which coracle this is
    Version => version as Silent,
    /// Print completions for a shell
    Completions => completions as Silent,
    /// Write manual pages to a directory
    Man => man as Silent,
    /// Print every setting and where it comes from
    // Settings must be readable where they are wrong.
    Config => config as Silent,
    /// List what can make sandboxes
    Backends => backends,
    /// Hold the network of a sandbox; started by coracle itself
    // The keeper gives up the rights and descriptors that telemetry would need.
    #[command(hide = true)]
    Keeper => keeper as Silent,
}

impl Verb {
    /// Tells whether the project file of the working directory counts: where sandboxes are made, and where that is
    /// explained. A repository's file must not keep a person from closing a sandbox.
    pub fn heeds_projects(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Open(_) | Self::Mcp(_) | Self::Config(_))
    }
}
