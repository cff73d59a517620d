//! What a fork could reach of the one it was made from, and of those beside it.

use coracle_tests::{Arena, Attack, Breaches, Home, Route};

/// Tries to write through to the layer a sandbox shares with others, by every name it has.
const WRITE_THROUGH: &str = "
import os
for line in open('/proc/self/mountinfo'):
    fields = line.split()
    point, options = fields[4], fields[fields.index('-') + 3]
    for word in [point] + [part for option in options.split(',') for part in option.split('=')[-1:]]:
        try:
            open(os.path.join(word, 'canary'), 'w').write('written')
        except OSError: pass
for name in ('/workspace/canary', '/etc/canary', '/usr/local/canary'):
    try:
        open(name, 'w').write('written')
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
const LOOK: &str = "find / -xdev -name 'canary*' -not -path '/proc/*' 2>/dev/null; find /workspace /usr -name 'canary*' 2>/dev/null";

fn fork(home: &Home, sandbox: &str) -> Vec<String> {
    let forked = home.call(["fork", sandbox, "--count", "2", "--json"]).succeed().json();
    let ids = forked["sandbox_ids"].as_array().expect("a list of ids").iter();
    ids.map(|id| id.as_str().expect("an id is text").to_owned()).collect()
}

#[test]
fn a_fork_reaches_nothing_of_the_others() {
    let title = "write to the layer that forks share, and find what others wrote";
    Attack::row("FK-01", title).by(&[Route::Exec]).without(&["Layers"]).run(|arena: &Arena<'_>| {
        let home = arena.home;
        let parent = home.open();
        let children = fork(home, &parent);
        home.exec(&children[0], ["python3", "-c", WRITE_THROUGH]).run();
        home.exec(&parent, ["sh", "-c", "echo mine > /tmp/canary-of-the-parent"]).run();

        let mut breaches = Breaches::new();
        for (who, sandbox) in [("the parent", &parent), ("a sibling", &children[1])] {
            let seen = home.exec(sandbox, ["sh", "-c", LOOK]).run();
            let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
            let others =
                seen.lines().filter(|line| !line.ends_with("canary-of-the-parent") || who != "the parent");
            breaches.extend(others.map(|line| format!("{who} sees `{line}`")));
        }
        breaches
    });
}
