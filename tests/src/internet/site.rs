//! Files on the web: a git repository and a package index for pip, both made at their first request, and files that a
//! test has published.

use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock, PoisonError};

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
mkdir --parents simple/small simple/requests me
cp --recursive repository.git me/project
";

/// A wheel is an archive with three files about itself.
const WHEELS: &str = "
import zipfile
for name in ['small', 'requests']:
    file, info = f'{name}-1.0-py3-none-any.whl', f'{name}-1.0.dist-info'
    with zipfile.ZipFile(f'simple/{name}/{file}', 'w') as wheel:
        wheel.writestr(f'{name}.py', 'WHERE = \"from the internet\"\\n')
        wheel.writestr(f'{info}/METADATA', f'Metadata-Version: 2.1\\nName: {name}\\nVersion: 1.0\\n')
        wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\\nGenerator: t\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
        wheel.writestr(f'{info}/RECORD', f'{name}.py,,\\n{info}/METADATA,,\\n{info}/WHEEL,,\\n{info}/RECORD,,\\n')
    open(f'simple/{name}/index.html', 'w').write(f'<!DOCTYPE html><html><body><a href=\"{file}\">{file}</a></body></html>')
";

/// A directory of files.
#[derive(Debug, Default)]
pub struct Site {
    made: OnceLock<TempDir>,
    published: Mutex<Vec<PathBuf>>,
}

impl Site {
    /// Returns a file by its path; that of a directory is its index.
    pub fn file(&self, path: &str) -> Option<Vec<u8>> {
        let path = Path::new(path.trim_start_matches('/'));
        if path.components().any(|part| !matches!(part, Component::Normal(_))) {
            return None;
        }
        let read = |root: &Path| {
            let whole = root.join(path);
            std::fs::read(&whole).or_else(|_| std::fs::read(whole.join("index.html"))).ok()
        };
        let published = self.published.lock().unwrap_or_else(PoisonError::into_inner).clone();
        published.iter().find_map(|root| read(root)).or_else(|| read(self.made.get_or_init(make).path()))
    }

    /// Has the files below a directory found as well.
    pub fn publish(&self, root: &Path) {
        self.published.lock().unwrap_or_else(PoisonError::into_inner).push(root.to_owned());
    }
}

fn make() -> TempDir {
    let directory = tempfile::tempdir().expect("a directory can be made");
    for words in [["sh", "-c", REPOSITORY], ["python3", "-c", WHEELS]] {
        let made = Command::new(words[0]).args(&words[1..]).current_dir(directory.path()).output();
        let made = made.expect("a program of the tests can be started");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
    directory
}
