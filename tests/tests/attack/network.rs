//! NW: ways to the network. Judged by what arrives in the internet of the tests, not by what a client was told.

mod endings;
mod names;
mod places;
mod silence;

use coracle_tests::attack::{Ground, engine};
use coracle_tests::{Internet, Route};

use crate::GROUND;

/// A terminal makes no difference to the network; whose the sandbox is might.
const ROUTES: &[Route] = &[Route::Create, Route::Exec, Route::Transfer];

/// Everything that keeps a command from sending what it likes, once the network is not its own.
const WALLS: &[&str] =
    &["NetworkNamespace", "UserNamespace", "Capabilities", "Seccomp", "NoNewPrivileges", "Landlock"];

/// Returns an internet in which what a weak sandbox sends is seen: the network it has then is its engine's.
fn internet() -> Internet {
    match GROUND {
        Ground::Native => Internet::new(),
        Ground::Docker => Internet::of_engine(engine()),
    }
}

const ASK_PROXY: &str = include_str!("payloads/ask_proxy.py");
