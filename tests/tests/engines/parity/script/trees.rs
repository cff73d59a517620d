//! `cp`, either way.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::parity::stage::Stage;

pub fn play(stage: &mut Stage) {
    let sandbox = stage.open(&[]);
    let local = stage.local("trees");
    plant(Path::new(&local)).expect("a home is ours");
    let inside = |path: &str| format!("{sandbox}:{path}");
    let outside = |path: &str| format!("{local}/{path}");

    for (from, to) in [
        (outside("file"), inside("file")),
        (outside("file"), inside("made/on/the/way")),
        (outside("tree"), inside("tree")),
        (outside("tree"), inside("tree")),
        (outside("none"), inside("x")),
        (inside("none"), outside("x")),
        (inside("tree"), outside("back")),
        (inside("file"), outside("file-back")),
        (inside("/etc/group"), outside("group")),
        (inside("file"), inside("other")),
        (outside("file"), outside("other")),
    ] {
        stage.call(&["cp", &from, &to]);
    }
    stage.shell(
        &sandbox,
        "find . | sort; cat made/on/the/way; ls -l tree | grep -v total | awk '{print $1, $3, $9, $10, $11}'",
    );
    stage.shell(&sandbox, "echo changed > tree/inner/leaf; ln -s /etc/passwd tree/escape; mkfifo tree/pipe");
    stage.call(&["cp", &inside("tree"), &outside("second")]);
    stage.call(&["cp", "--skip-special", &inside("tree"), &outside("second")]);
    stage.call(&["cp", &inside("tree/program"), "-"]);
    stage.call_with(&["cp", "-", &inside("streamed")], b"from standard input\n");
    stage.call(&["cp", "--user", "worker", &outside("tree"), &inside("/tmp/workers")]);
    stage.shell(&sandbox, "cat streamed; find /tmp/workers -exec stat -c '%n %u %a' {} + | sort");
    assert_eq!(
        std::fs::read(outside("back/tree/inner/leaf")).or(std::fs::read(outside("back/inner/leaf"))).ok(),
        Some(b"leaf".to_vec())
    );
    stage.call(&["close", &sandbox, "--json"]);
}

/// Makes what is copied.
fn plant(local: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(local.join("tree/inner/empty"))?;
    std::fs::write(local.join("file"), "a file\n")?;
    std::fs::write(local.join("tree/inner/leaf"), "leaf")?;
    std::fs::write(local.join("tree/program"), "#!/bin/sh\n")?;
    std::fs::set_permissions(local.join("tree/program"), std::fs::Permissions::from_mode(0o755))?;
    symlink("inner/leaf", local.join("tree/link"))
}
