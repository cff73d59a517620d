//! A home with a repository, the ways a client of git reaches it, and the git of a client.

use coracle_tests::{Daemon, Git, Home};

/// The repository of every test.
pub const REPO: &str = "project";

/// How a client of git reaches a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Http,
    Helper,
}

pub const WAYS: [Way; 2] = [Way::Http, Way::Helper];

/// A home, a daemon where the way needs one, and a client.
pub struct Site {
    pub git: Git,
    pub url: String,
    // Ends before the home does.
    pub daemon: Option<Daemon>,
    pub home: Home,
}

impl Site {
    /// Makes a home with an empty repository.
    pub fn new(way: Way) -> Self {
        let home = Home::new();
        match way {
            Way::Http => Self::over_http(home, &[]),
            Way::Helper => Self::by_helper(home),
        }
    }

    /// Has a client reach the repository of a tenant with a token made with these flags.
    pub fn over_http(home: Home, flags: &[&str]) -> Self {
        let token = home.token("acme", flags);
        let daemon = Daemon::start(&home);
        let url = url(&daemon, &token, REPO);
        add(&daemon, &home);
        Self { git: Git::new(), url, daemon: Some(daemon), home }
    }

    pub fn by_helper(home: Home) -> Self {
        home.call(["repo", "add", REPO]).succeed();
        Self { git: helper_of(&home), url: format!("coracle://{REPO}"), daemon: None, home }
    }
}

/// Makes the repository of the tenant `acme`.
pub fn add(daemon: &Daemon, home: &Home) {
    let token = home.token("acme", &[]);
    let request = coracle_tests::http::Request::post("/v1/repos", &serde_json::json!({ "name": REPO }));
    request.token(&token).send(&daemon.tcp()).expect(200);
}

/// Returns the URL of a repository, with a token as the password.
pub fn url(daemon: &Daemon, token: &str, repo: &str) -> String {
    format!("http://anyone:{token}@{}/git/{repo}.git", daemon.address())
}

/// Returns a git that finds `coracle://` and works in a home.
pub fn helper_of(home: &Home) -> Git {
    let git = Git::new();
    let directory = git.path("bin");
    std::fs::create_dir(&directory).expect("a directory can be made");
    let directory = directory.to_str().expect("a path of text").to_owned();
    home.call(["repo", "link", &directory]).succeed();
    let path = format!("{directory}:{}", std::env::var("PATH").unwrap_or_default());
    git.env("PATH", path).env("CORACLE_HOME", home.path().to_str().expect("a path of text"))
}
