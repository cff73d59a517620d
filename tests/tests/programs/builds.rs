//! Builds in sandboxes, with what they need from registries: Rust, Go, JavaScript, Java; and what every build begins with.

use std::process::Command;

use coracle_tests::{Home, requires};

use crate::PATIENCE;
use crate::registry::Workplace;

/// Returns where the compiler the tests were built with is, which no distribution has.
fn rust() -> String {
    let told = Command::new("rustc").args(["--print", "sysroot"]).output().expect("the tests were compiled");
    String::from_utf8(told.stdout).expect("a path").trim().to_owned()
}

#[test]
fn cargo_builds_with_a_crate_from_a_registry() {
    requires!(programs);
    let mount = format!("{}:/opt/rust:ro", rust());
    let flags = ["--mount", &mount, "-e", "PATH=/opt/rust/bin:/usr/bin:/bin", "-e", "CARGO_TERM_QUIET=true"];
    let place = Workplace::new(include_str!("registries/cargo.py"), &[], &flags);

    let told = place.sh("cargo init --name app --vcs none .
         mkdir .cargo && printf '[registries.ours]\\nindex = \"sparse+http://ok.test/cargo/index/\"\\n' > .cargo/config.toml
         printf 'small = { version = \"1\", registry = \"ours\" }\\n' >> Cargo.toml
         echo 'fn main() { println!(\"{}\", small::origin()) }' > src/main.rs
         cargo build && target/debug/app");

    assert_eq!(told, "from a registry\n");
}

#[test]
fn go_builds_with_a_module_from_a_proxy() {
    requires!(programs);
    let flags = ["-e", "GOPROXY=http://ok.test/go", "-e", "GOSUMDB=off", "-e", "GOFLAGS=-mod=mod"];
    let place = Workplace::new(include_str!("registries/go.py"), &[], &flags);

    let told = place.sh("go mod init ok.test/app 2> /dev/null
         printf 'package main\\nimport \"ok.test/small\"\\nfunc main() { println(small.Origin()) }\\n' > main.go
         go get ok.test/small@v1.0.0 2> /dev/null
         go build -o app . && ./app 2>&1");

    assert_eq!(told, "from a proxy\n");
}

#[test]
fn npm_ci_installs_what_the_lock_file_names() {
    requires!(programs);
    let place = Workplace::new(include_str!("registries/npm.py"), &[], &[]);

    let told = place.sh("for file in package.json package-lock.json; do curl -sSO http://ok.test/npm/project/$file; done
         npm ci --no-audit --no-fund --no-update-notifier --registry http://ok.test/npm/ > log 2>&1 || { cat log; exit 1; }
         node -e 'console.log(require(\"small\"))'");

    assert_eq!(told, "from a registry\n");
}

#[test]
fn git_clones_a_repository_and_commits_to_it() {
    requires!(programs);
    let place = Workplace::new("", &[], &[]);

    let told = place.sh("git clone --quiet http://ok.test/repository.git clone && cd clone
         echo more >> README && git -c user.name=a -c user.email=a@ok.test commit --quiet --all --message second
         git log --format=%s && git fsck --strict 2>&1 && head -n 1 README");

    assert_eq!(told, "second\nfirst\nfrom the internet\n");
}

#[test]
fn a_jvm_compiles_and_runs_with_threads() {
    requires!(programs);
    let home = Home::new();
    let sandbox = home.open();
    let source = "import java.util.stream.*;
        public class Sum {
            public static void main(String[] words) throws Exception {
                var thread = new Thread(() -> System.out.println(\"in a thread\"));
                thread.start();
                thread.join();
                System.gc();
                System.out.println(IntStream.rangeClosed(1, 1000).parallel().sum());
                System.out.println(new ProcessBuilder(\"true\").start().waitFor());
            }
        }";
    home.call(["fs", "write", &sandbox, "Sum.java"]).stdin(source).succeed();

    home.exec(&sandbox, ["javac", "Sum.java"]).within(PATIENCE).succeed();
    let ran = home.exec(&sandbox, ["java", "Sum"]).within(PATIENCE).succeed();

    assert_eq!(ran.text(), "in a thread\n500500\n0\n");
}

#[test]
fn sqlite_keeps_a_database_with_a_write_ahead_log() {
    requires!(programs);
    let home = Home::new();
    let sandbox = home.open();
    let script = "PRAGMA journal_mode = WAL; CREATE TABLE t (n); INSERT INTO t VALUES (1), (2), (3); SELECT sum(n) FROM t; \
                  PRAGMA integrity_check;";

    let ran = home.exec(&sandbox, ["sqlite3", "data.db", script]).succeed();
    let again = home.exec(&sandbox, ["sqlite3", "data.db", "SELECT max(n) FROM t"]).succeed();

    assert_eq!((ran.text(), again.text()), ("wal\n6\nok\n", "3\n"));
}
