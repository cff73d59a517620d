//! SC-07: what agents run every day still runs. Walls that break it would be taken down by their users.

use std::path::Path;

use coracle_tests::attack::not_applicable;
use coracle_tests::{Arena, Attack, Breaches, Route};

use crate::GROUND;

/// A program the machine may have, what it is run with, and what it has to print.
struct Program {
    /// Where it has to be for sandboxes to have it.
    path: &'static str,
    script: &'static str,
    prints: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program {
        path: "/usr/bin/gcc",
        script: "printf '#include <stdio.h>\\nint main(void) { puts(\"compiled\"); }' > a.c && gcc -O2 -o a a.c && ./a",
        prints: "compiled",
    },
    Program {
        path: "/usr/bin/python3",
        script: "python3 -c 'import subprocess, threading, multiprocessing as m, ssl, sqlite3, asyncio; \
                 p = m.Process(target=print, args=(\"forked\",)); p.start(); p.join(); print(\"spoke\")'",
        prints: "spoke",
    },
    Program {
        path: "/usr/bin/pip3",
        script: "mkdir -p demo && printf 'x = 1' > demo/__init__.py && python3 - <<'END'
import zipfile
wheel = zipfile.ZipFile('demo-1-py3-none-any.whl', 'w')
wheel.writestr('demo/__init__.py', 'word = \"installed\"')
wheel.writestr('demo-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: demo\\nVersion: 1\\n')
wheel.writestr('demo-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
wheel.writestr('demo-1.dist-info/RECORD', '')
wheel.close()
END
rm -r demo; pip3 install --no-index --target site demo-1-py3-none-any.whl > log 2>&1 || cat log
cd site && python3 -c 'import demo; print(demo.word)'",
        prints: "installed",
    },
    Program {
        path: "/usr/bin/node",
        script: "node -e 'const w = new (require(\"worker_threads\").Worker)(\"require(`worker_threads`).parentPort.postMessage(`worked`)\", \
                 {eval: true}); w.on(\"message\", m => require(\"fs\").writeFile(\"out\", m, () => console.log(m)))'",
        prints: "worked",
    },
    Program {
        path: "/usr/bin/npm",
        script: "mkdir -p dep app && cd dep && echo '{\"name\": \"dep\", \"version\": \"1.0.0\", \"main\": \"i.js\"}' > package.json && \
                 echo 'module.exports = \"linked\"' > i.js && cd ../app && echo '{}' > package.json && \
                 npm install --offline --no-audit --no-fund ../dep > log 2>&1 || cat log; node -e 'console.log(require(\"dep\"))'",
        prints: "linked",
    },
    Program {
        path: "/usr/bin/make",
        script: "printf 'all: one two\\n\\techo made\\none two:\\n\\tsleep 0\\n' > Makefile && make -j4",
        prints: "made",
    },
    Program { path: "/usr/bin/perl", script: "perl -e 'print \"perl\" if fork == 0; wait'", prints: "perl" },
];

const GIT: &str = "git init -q repo && cd repo && git config user.email a@b && git config user.name a && echo 1 > f && \
                   git add f && git commit -qm one && git clone -q . ../copy && cd ../copy && git gc -q && git log --format=%s";

#[test]
fn sc_07_everyday_programs_run() {
    let title = "gcc, python, pip, node, npm, make, perl and git do their work";
    let there: Vec<&Program> = PROGRAMS.iter().filter(|program| Path::new(program.path).exists()).collect();
    let attempt = |arena: &Arena<'_>| -> Breaches {
        let mut failed = Breaches::new();
        for program in &there {
            let ran = arena.call(&["sh", "-c", &format!("cd $(mktemp -d) && {}", program.script)]).run();
            if !String::from_utf8_lossy(&ran.stdout).lines().any(|line| line.trim() == program.prints) {
                failed.push(format!("{}: {ran}", program.path));
            }
        }
        if ["/usr/bin/git", "/usr/local/bin/git"].iter().any(|path| Path::new(path).exists()) {
            let ran = arena.call(&["sh", "-c", &format!("cd $(mktemp -d) && {GIT}")]).run();
            failed.extend((ran.stdout.trim_ascii() != b"one").then(|| format!("git: {ran}")));
        }
        failed
    };
    // The same judge, of a program that cannot work.
    let naive = || {
        let home = GROUND.home();
        let ran = home.call(["run", "--", "sh", "-c", "no-such-program && echo worked"]).run();
        let worked = String::from_utf8_lossy(&ran.stdout).lines().any(|line| line.trim() == "worked");
        (!worked).then(|| "a program that fails is seen to fail".to_owned()).into_iter().collect()
    };
    Attack::row(GROUND, "SC-07", title).by(&[Route::Create]).run_beside(attempt, naive);
}

/// The smallest program of 32-bit x86: exits with 42.
const ELF32: &str = "
import os
header = b'\\x7fELF\\x01\\x01\\x01' + bytes(9) + bytes.fromhex('02000300010000005480040834000000000000000000000034002000010028000000000000')
header = header[:52]
segment = b''.join(n.to_bytes(4, 'little') for n in (1, 0, 0x8048000, 0x8048000, 96, 96, 5, 4096))
code = bytes.fromhex('b801000000bb2a000000cd80')
open('/workspace/old', 'wb').write(header + segment + code)
os.chmod('/workspace/old', 0o755)
";

#[test]
fn sc_07_a_32_bit_program_ends_clearly() {
    if !cfg!(target_arch = "x86_64") {
        return not_applicable(
            GROUND,
            "SC-07b",
            false,
            "run a program of another ABI",
            "only x86-64 has another ABI",
        );
    }
    let title = "run a 32-bit program: it ends at once, and not as if it had worked";
    Attack::row(GROUND, "SC-07b", title)
        .by(&[Route::Exec, Route::Transfer, Route::Terminal])
        .without(&["Seccomp"])
        .run(|arena| {
            arena.python(ELF32, &[]).expect_code(0);
            let ran = arena.call(&["/workspace/old"]).run();
            (ran.code() == Some(42)).then(|| "it ran".to_owned()).into_iter().collect()
        });
}
