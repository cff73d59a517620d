//! The files of the machine's `/etc` that programs need, and none that could hold a secret.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// Copied as they are, links as links. Everything else in `/etc` stays outside.
const COPIED: [&str; 22] = [
    "alternatives",
    "ca-certificates.conf",
    "debian_version",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "mime.types",
    "os-release",
    "perl",
    "pki/tls/certs",
    "protocols",
    "python3",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "timezone",
];

/// Files we write, the same on every machine.
const WRITTEN: [(&str, &str); 10] = [
    ("group", "root:x:0:\ndaemon:x:1:\ntty:x:5:\nusers:x:100:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("host.conf", "multi on\n"),
    ("hostname", "sandbox\n"),
    ("hosts", "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost sandbox\n"),
    ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"),
    (
        "passwd",
        "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n\
         agent:x:1000:1000:agent:/home/agent:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    // Programs that ask PAM trust only root: `chfn`, which `adduser` calls, and `su`.
    (
        "pam.d/other",
        "auth sufficient pam_rootok.so\nauth required pam_deny.so\naccount required pam_permit.so\n\
         password required pam_deny.so\nsession required pam_permit.so\n",
    ),
    ("profile", "export PS1='\\u@\\h:\\w\\$ '\n"),
    ("resolv.conf", ""),
    ("shells", "/bin/sh\n/bin/bash\n"),
];

/// Returns what the copy depends on: when each source last changed.
pub fn fingerprint() -> String {
    use std::os::unix::fs::MetadataExt;
    let changed = |name: &&str| {
        fs::symlink_metadata(Path::new("/etc").join(name)).map_or(0, |metadata| metadata.ctime())
    };
    COPIED.iter().map(|name| format!("{:x}.", changed(name))).collect()
}

/// Fills `target`.
pub fn build(target: &Path) -> io::Result<()> {
    for name in COPIED {
        let source = Path::new("/etc").join(name);
        if source.symlink_metadata().is_ok() {
            make_parents(target, name)?;
            copy(&source, &target.join(name))?;
        }
    }
    for (name, text) in WRITTEN {
        make_parents(target, name)?;
        fs::write(target.join(name), text)?;
        fs::set_permissions(target.join(name), fs::Permissions::from_mode(0o644))?;
    }
    symlink("/proc/self/mounts", target.join("mtab"))
}

/// Copies a file, a link or a directory. Leaves out what not every user may read: it may be secret.
fn copy(source: &Path, target: &Path) -> io::Result<()> {
    let metadata = source.symlink_metadata()?;
    if metadata.is_symlink() {
        return symlink(fs::read_link(source)?, target);
    }
    if metadata.is_dir() {
        make_directory(target)?;
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            // Most of the alternatives are manual pages, which no program in a sandbox needs.
            if entry.path().extension().is_none_or(|extension| extension != "gz") {
                copy(&entry.path(), &target.join(entry.file_name()))?;
            }
        }
        return Ok(());
    }
    let world_readable = metadata.permissions().mode() & 0o004 != 0;
    if metadata.is_file() && world_readable {
        fs::copy(source, target)?;
    }
    Ok(())
}

fn make_parents(target: &Path, name: &str) -> io::Result<()> {
    let mut directory = target.to_path_buf();
    for part in Path::new(name).parent().into_iter().flat_map(Path::components) {
        directory.push(part);
        make_directory(&directory)?;
    }
    Ok(())
}

/// Makes a directory that all users may enter, independent of the caller's umask.
fn make_directory(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        fs::create_dir(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}
