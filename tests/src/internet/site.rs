//! Files on the web: a repository for git and an index with one package for pip, both made when first asked for.

use std::path::{Component, Path};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// A repository that can be cloned from files alone.
const REPOSITORY: &str = "
set -e
git init --quiet --initial-branch main work
echo 'from the internet' > work/README
git -C work add README
git -C work -c user.name=t -c user.email=t@ok.test commit --quiet --message first
git clone --quiet --bare work repository.git
git -C repository.git update-server-info
mkdir --parents simple/small
";

/// A wheel is an archive with three files about itself.
const WHEEL: &str = "
import zipfile
name = 'small-1.0-py3-none-any.whl'
with zipfile.ZipFile('simple/small/' + name, 'w') as wheel:
    wheel.writestr('small.py', 'WHERE = \"from the internet\"\\n')
    wheel.writestr('small-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: small\\nVersion: 1.0\\n')
    wheel.writestr('small-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('small-1.0.dist-info/RECORD', 'small.py,,\\nsmall-1.0.dist-info/METADATA,,\\nsmall-1.0.dist-info/WHEEL,,\\nsmall-1.0.dist-info/RECORD,,\\n')
open('simple/small/index.html', 'w').write(f'<!DOCTYPE html><html><body><a href=\"{name}\">{name}</a></body></html>')
";

/// A directory of files.
#[derive(Debug, Default)]
pub struct Site {
    made: OnceLock<TempDir>,
}

impl Site {
    /// Returns a file by its path; that of a directory is its index.
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        let path = Path::new(path.trim_start_matches('/'));
        if path.components().any(|part| !matches!(part, Component::Normal(_))) {
            return None;
        }
        let whole = self.made.get_or_init(make).path().join(path);
        std::fs::read(&whole).or_else(|_| std::fs::read(whole.join("index.html"))).ok()
    }
}

fn make() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory can be made");
    for words in [["sh", "-c", REPOSITORY], ["python3", "-c", WHEEL]] {
        let made = Command::new(words[0]).args(&words[1..]).current_dir(directory.path()).output();
        let made = made.expect("a program of the tests can be started");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    directory
}
