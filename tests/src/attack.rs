//! One row of the catalogue of attacks, tried on a sandbox with all its walls and on a weakened twin.
//!
//! The same attack has to fail on every route into the real one, and to succeed in the twin. If the twin holds as well,
//! the row proves nothing and is `vacuous`. A canary outside decides what the attacker got, wherever there can be one.

mod arena;
mod canary;
mod ground;
mod report;

use std::collections::BTreeSet;
use std::time::Instant;

pub use arena::{Arena, Route};
pub use canary::{Canary, Sysctl, machine};
pub use ground::{Ground, IMAGE, engine};
pub use report::Verdict;

use crate::{Home, count, needs};
use report::Line;

/// What an attacker got, in words; nothing, where the walls hold.
pub type Breaches = Vec<String>;

/// Leaks the machine's root directory to whatever coracle starts.
pub const LEAK: [&str; 4] = ["sh", "-c", "exec 9</; exec \"$@\"", "sh"];
/// Where a sandbox at an engine has a directory of the machine's.
const OUTSIDE: &str = "/outside";

/// Returns by which path the canary's directory is found on the way [`Attack::reaching`] gives.
pub fn way_to(canary: &Canary, ground: Ground) -> String {
    match ground {
        Ground::Native => format!("/proc/self/fd/9{}", canary.directory().display()),
        Ground::Docker => OUTSIDE.to_owned(),
    }
}

/// A row of the catalogue.
#[derive(Debug)]
pub struct Attack {
    ground: Ground,
    id: &'static str,
    starred: bool,
    title: &'static str,
    routes: &'static [Route],
    flags: Vec<String>,
    through: Vec<String>,
    walls: &'static [&'static str],
    every: &'static [&'static str],
    /// Why it cannot be tried here, if it cannot.
    pointless: Option<&'static str>,
}

impl Attack {
    /// Names a row a release needs.
    pub fn starred(ground: Ground, id: &'static str, title: &'static str) -> Self {
        Self { starred: true, ..Self::row(ground, id, title) }
    }

    /// Names a row.
    pub fn row(ground: Ground, id: &'static str, title: &'static str) -> Self {
        Self {
            ground,
            id,
            starred: false,
            title,
            routes: Route::ALL,
            flags: Vec::new(),
            through: Vec::new(),
            walls: &[],
            every: &[],
            pointless: None,
        }
    }

    /// Says by which routes the attack comes, if not by all.
    pub fn by(self, routes: &'static [Route]) -> Self {
        Self { routes, ..self }
    }

    /// Returns the routes that are tried. At an engine a sandbox takes a second to make, and whose it is or whether
    /// there is a terminal makes no difference to the engine: all routes are for the full run.
    fn tried(&self) -> Vec<Route> {
        let all = || self.routes.iter().copied();
        let few: Vec<Route> = all().filter(|route| matches!(route, Route::Create | Route::Exec)).collect();
        match self.ground {
            Ground::Docker if !few.is_empty() && count(1, 0) == 1 => few,
            Ground::Docker | Ground::Native => all().collect(),
        }
    }

    /// Says what the sandbox is made with.
    pub fn with<S: AsRef<str>>(mut self, flags: &[S]) -> Self {
        self.flags.extend(flags.iter().map(|flag| flag.as_ref().to_owned()));
        self
    }

    /// Says why the row cannot be tried at an engine.
    pub fn pointless_on_docker(self, reason: &'static str) -> Self {
        Self { pointless: (self.ground == Ground::Docker).then_some(reason), ..self }
    }

    /// Gives the attacker a way to a file of the machine that only the file API's own walls close: a descriptor coracle
    /// has inherited, or at an engine, where nothing is inherited, a directory outside the workspace.
    pub fn reaching(self, canary: &Canary) -> Self {
        match self.ground {
            Ground::Native => self.through(&LEAK),
            Ground::Docker => {
                let mount = format!("{}:{OUTSIDE}", canary.directory().display());
                self.with(&["--mount", &mount])
            }
        }
    }

    /// Has coracle itself started by another program, for what it may inherit.
    pub fn through<S: AsRef<str>>(self, words: &[S]) -> Self {
        Self { through: words.iter().map(|word| word.as_ref().to_owned()).collect(), ..self }
    }

    /// Names the walls the twin lacks.
    pub fn without(self, walls: &'static [&'static str]) -> Self {
        Self { walls, ..self }
    }

    /// Names breaches of which the twin has to show each: one that is missing there is not shown to be held here.
    pub fn every(self, breaches: &'static [&'static str]) -> Self {
        Self { every: breaches, ..self }
    }

    /// Tries the attack on both.
    ///
    /// # Panics
    /// If the row is broken or vacuous.
    #[track_caller]
    pub fn run(self, attempt: impl Fn(&Arena<'_>) -> Breaches) {
        let ground = self.ground;
        let walls: Vec<_> = self.walls.iter().copied().chain(["Observation"]).collect();
        self.run_against(&attempt, |attack| attack.tried_on(ground.weakened(&walls), &attempt));
    }

    /// Tries the attack on the real one, and on a twin that is the naive way to do the same thing.
    ///
    /// # Panics
    /// If the row is broken or vacuous.
    #[track_caller]
    pub fn run_beside(self, attempt: impl Fn(&Arena<'_>) -> Breaches, naive: impl Fn() -> Breaches) {
        // The report must not pass this off as a sandbox without a wall.
        let attack = Self { walls: &["naive"], ..self };
        attack.run_against(&attempt, |_| vec![("naive", naive())]);
    }

    /// Tries something in one open sandbox with all its walls, as a twin that is the naive way to do the same thing.
    pub fn in_one(ground: Ground, flags: &[&str], attempt: impl Fn(&Arena<'_>) -> Breaches) -> Breaches {
        let home = ground.home();
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        attempt(&Arena::new(&home, ground, Route::Exec, &flags))
    }

    #[track_caller]
    fn run_against(
        self,
        attempt: &dyn Fn(&Arena<'_>) -> Breaches,
        twin: impl Fn(&Self) -> Vec<(&'static str, Breaches)>,
    ) {
        if let Some(reason) = self.pointless {
            return self.write_down(Verdict::NotApplicable, reason, 0);
        }
        if !needs::met(self.ground.name()) {
            return self.write_down(Verdict::NotApplicable, "this machine cannot run such sandboxes", 0);
        }
        if !self.is_in_sample() {
            return;
        }
        let began = Instant::now();
        let real = self.tried_on(self.ground.home(), attempt);
        // Whether an attack would succeed changes with the attack, not with the walls: a third is shown each time.
        let twin = if self.is_one_of_three() { twin(&self) } else { Vec::new() };
        let (verdict, reason) = self.judge(&real, &twin);
        self.write_down(verdict, &reason, began.elapsed().as_millis());
        assert!(verdict == Verdict::Held, "{} is {verdict}: {reason}\ntwin: {twin:?}", self.id);
    }

    /// Tells whether it is tried now. `cargo xtask attack` tries every row, and so does a full run; an ordinary one tries at an
    /// engine what only an engine makes possible, and a third of what native sandboxes are attacked by already.
    fn is_in_sample(&self) -> bool {
        self.ground == Ground::Native || self.id.starts_with("DK-") || self.is_one_of_three()
    }

    /// Tells whether it is one of the third an ordinary run is thorough with; where all are reported, all are.
    fn is_one_of_three(&self) -> bool {
        let reported = std::env::var_os(report::VARIABLE).is_some();
        let third = self.id.bytes().map(usize::from).sum::<usize>() % 3 == 0;
        reported || third || count(0, 1) == 1
    }

    /// Makes one sandbox for each route and tries the attack in it.
    fn tried_on(
        &self,
        home: Home,
        attempt: &dyn Fn(&Arena<'_>) -> Breaches,
    ) -> Vec<(&'static str, Breaches)> {
        let home = home.through(&self.through);
        let tried =
            |route: Route| (route.name(), attempt(&Arena::new(&home, self.ground, route, &self.flags)));
        self.tried().into_iter().map(tried).collect()
    }

    fn judge(
        &self,
        real: &[(&'static str, Breaches)],
        twin: &[(&'static str, Breaches)],
    ) -> (Verdict, String) {
        let broken: Vec<_> = real
            .iter()
            .filter(|(_, breaches)| !breaches.is_empty())
            .map(|(route, breaches)| format!("{route}: {}", breaches.join("; ")))
            .collect();
        if !broken.is_empty() {
            return (Verdict::Broken, broken.join(" | "));
        }
        let missing: BTreeSet<String> = twin.iter().flat_map(|tried| self.missing(tried)).collect();
        match missing.is_empty() {
            true => (Verdict::Held, String::new()),
            false => (Verdict::Vacuous, missing.into_iter().collect::<Vec<_>>().join("; ")),
        }
    }

    /// Returns what the twin ought to have shown on one route and did not.
    fn missing(&self, (route, breaches): &(&'static str, Breaches)) -> Vec<String> {
        if breaches.is_empty() {
            return vec![format!("{route}: the twin holds too")];
        }
        let shown = |wanted: &&&str| !breaches.iter().any(|breach| breach.contains(**wanted));
        self.every
            .iter()
            .filter(shown)
            .map(|wanted| format!("{route}: the twin does not show `{wanted}`"))
            .collect()
    }

    fn write_down(&self, verdict: Verdict, reason: &str, millis: u128) {
        let paths = self.tried().into_iter().map(Route::name).collect();
        let (id, starred, title, twin) = (self.id, self.starred, self.title, self.walls.to_vec());
        let backend = self.ground.name();
        Line { id, backend, starred, title, paths, twin, verdict, reason: reason.to_owned(), millis }.write();
    }
}

/// Writes down a row that cannot be tried here, and why.
pub fn not_applicable(ground: Ground, id: &'static str, starred: bool, title: &'static str, reason: &str) {
    let row = Attack { starred, routes: &[], ..Attack::row(ground, id, title) };
    row.write_down(Verdict::NotApplicable, reason, 0);
}
