//! One sandbox, and one route by which commands get into it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Ground;
use crate::census::Process;
use crate::{Call, Finished, Home, SOON, eventually};

/// How a command comes to run in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// As the one command of a sandbox made for it.
    Create,
    /// In a sandbox that is open.
    Exec,
    /// In one that was lent to another run meanwhile.
    Transfer,
    /// On a terminal.
    Terminal,
}

impl Route {
    pub const ALL: &'static [Self] = &[Self::Create, Self::Exec, Self::Transfer, Self::Terminal];

    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Exec => "exec",
            Self::Transfer => "transfer",
            Self::Terminal => "terminal",
        }
    }
}

/// The run a sandbox is lent to.
const HEIR: &str = "heir";
/// How long something that was started may take to be seen.
const APPEARANCE: Duration = SOON;

/// Where an attack is tried.
#[derive(Debug)]
pub struct Arena<'a> {
    pub home: &'a Home,
    pub ground: Ground,
    pub route: Route,
    flags: &'a [String],
    sandbox: Option<String>,
}

impl<'a> Arena<'a> {
    pub(super) fn new(home: &'a Home, ground: Ground, route: Route, flags: &'a [String]) -> Self {
        let words: Vec<&str> = flags.iter().map(String::as_str).collect();
        let sandbox = (route != Route::Create).then(|| home.open_with(&words));
        if let (Route::Transfer, Some(sandbox)) = (route, &sandbox) {
            home.call(["transfer", sandbox, "--to", HEIR]).succeed();
        }
        Self { home, ground, route, flags, sandbox }
    }

    /// Returns the open sandbox.
    ///
    /// # Panics
    /// On the route that makes one for each command.
    pub fn sandbox(&self) -> &str {
        self.sandbox.as_deref().expect("an attack that needs an open sandbox does not come by `create`")
    }

    /// Prepares a command on this route.
    pub fn call(&self, command: &[&str]) -> Call {
        self.call_with(&[], command)
    }

    /// Prepares a command on this route with more flags.
    pub fn call_with(&self, more: &[&str], command: &[&str]) -> Call {
        let mut words = match &self.sandbox {
            None => ["run"].into_iter().chain(self.flags.iter().map(String::as_str)).collect(),
            Some(sandbox) => vec!["exec", sandbox],
        };
        words.extend(match self.route {
            Route::Create | Route::Exec => &[][..],
            Route::Transfer => &["--run", HEIR],
            Route::Terminal => &["--tty"],
        });
        words.extend_from_slice(more);
        words.push("--");
        words.extend_from_slice(command);
        self.home.call(words)
    }

    /// Prepares a file operation on the open sandbox.
    pub fn file(&self, verb: &str, words: &[&str]) -> Call {
        let owner: &[&str] = if self.route == Route::Transfer { &["--run", HEIR] } else { &[] };
        self.home.call([&["fs", verb], owner, &[self.sandbox()], words].concat())
    }

    /// Runs a program text; its end is no matter.
    pub fn python(&self, program: &str, arguments: &[&str]) -> Finished {
        self.call(&[&["python3", "-c", program], arguments].concat()).run()
    }

    /// Runs a program text and returns the lines it printed, each a breach.
    ///
    /// # Panics
    /// If the program did not come to its end: then silence says nothing.
    #[track_caller]
    pub fn confess(&self, program: &str, arguments: &[&str]) -> Vec<String> {
        let whole = format!("{program}\nprint('that was all')");
        let ran = self.python(&whole, arguments);
        let mut lines: Vec<String> = ran.text().lines().map(|line| line.trim_end().to_owned()).collect();
        assert_eq!(lines.pop().as_deref(), Some("that was all"), "the attack itself failed: {ran}");
        lines
    }

    /// Looks from outside at a command that just sleeps.
    pub fn sleeper<T>(&self, look: impl FnOnce(&Process) -> T) -> T {
        self.watch(&["sleep"], look)
    }

    /// Starts a command that stays, looks at its process from outside, and leaves it to the end of the sandbox. The
    /// command gets one more argument, a number by which it is known.
    pub fn watch<T>(&self, command: &[&str], look: impl FnOnce(&Process) -> T) -> T {
        self.watch_with(&[], command, look)
    }

    /// The same, with more flags.
    pub fn watch_with<T>(&self, more: &[&str], command: &[&str], look: impl FnOnce(&Process) -> T) -> T {
        static NUMBER: AtomicU64 = AtomicU64::new(7_000_000);
        let word = NUMBER.fetch_add(1, Ordering::Relaxed).to_string();
        let started = self.call_with(more, &[command, &[&word]].concat()).start();
        let Some(process) = self.appearance(&word) else { panic!("it never ran: {}", started.kill()) };
        let seen = look(&process);
        started.kill();
        seen
    }

    /// Returns the generated tree of the `host` image, to be made hostile before a sandbox is made from it.
    pub fn image(&self) -> PathBuf {
        // With all its walls or without: preparing the image comes first either way.
        self.home.call(["run", "--", "true"]).run();
        let images = std::fs::read_dir(self.home.path().join("images")).expect("images are kept in the home");
        let paths = images.flatten().map(|entry| entry.path());
        let is_host =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("host-"));
        paths.into_iter().find(is_host).expect("the `host` image was prepared")
    }

    /// Waits until a command with this word in its command line is there.
    pub fn appearance(&self, word: &str) -> Option<Process> {
        let mut found = None;
        eventually(APPEARANCE, || {
            let inside = |process: &&Process| !process.command.contains("coracle");
            found = self.home.census().named(word).into_iter().find(inside).cloned();
            found.is_some()
        });
        found
    }
}
