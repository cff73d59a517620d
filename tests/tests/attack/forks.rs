//! What a fork could reach of the one it was made from, and of those beside it.

use coracle_tests::attack::machine;
use coracle_tests::{Arena, Attack, Breaches, Home, Route};

use crate::GROUND;

/// Tries to write through to the layer a sandbox shares with others, by every name it has.
const WRITE_THROUGH: &str = "
import os, sys
name = sys.argv[1]
for line in open('/proc/self/mountinfo'):
    fields = line.split()
    point, options = fields[4], fields[fields.index('-') + 3]
    for word in [point] + [part for option in options.split(',') for part in option.split('=')[-1:]]:
        try:
            open(os.path.join(word, name), 'w').write('written')
        except OSError: pass
for place in ('/workspace', '/etc', '/usr/local'):
    try:
        open(os.path.join(place, name), 'w').write('written')
    except OSError: pass
try:
    import ctypes
    libc = ctypes.CDLL(None)
    libc.mount(None, b'/workspace', None, 32, None); libc.umount2(b'/workspace', 2); libc.chroot(b'/workspace')
except OSError: pass
try:
    os.chdir('/'); os.chdir('..'); print(sorted(os.listdir('.')).count('bench') and 'behind the root')
except OSError: pass
";

/// Lists whatever of the others' writes can be found anywhere.
const LOOK: &str = "find / -xdev -name \"$1\" -not -path '/proc/*' 2>/dev/null; find /workspace /usr -name \"$1\" 2>/dev/null";

fn fork(home: &Home, sandbox: &str) -> Vec<String> {
    let forked = home.call(["fork", sandbox, "--count", "2", "--json"]).succeed().json();
    let ids = forked["sandbox_ids"].as_array().expect("a list of ids").iter();
    ids.map(|id| id.as_str().expect("an id is text").to_owned()).collect()
}

#[test]
fn a_fork_reaches_nothing_of_the_others() {
    let _machine = machine();
    let name = format!("coracle-fork-{}", std::process::id());
    let title = "write to the layer that forks share, and find what others wrote";
    Attack::row(GROUND, "FK-01", title).by(&[Route::Exec]).without(&["Layers"]).run(|arena: &Arena<'_>| {
        let home = arena.home;
        let parent = home.open();
        let children = fork(home, &parent);
        home.exec(&children[0], ["python3", "-c", WRITE_THROUGH, &name]).run();

        let mut breaches = Breaches::new();
        for (who, sandbox) in [("the parent", &parent), ("a sibling", &children[1])] {
            let seen = home.exec(sandbox, ["sh", "-c", LOOK, "sh", &name]).run();
            let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
            breaches.extend(seen.lines().map(|line| format!("{who} sees `{line}`")));
        }
        // The twin's layers are the machine's own directories.
        for place in ["/usr", "/usr/local"] {
            let _ = std::fs::remove_file(std::path::Path::new(place).join(&name));
        }
        breaches
    });
}
