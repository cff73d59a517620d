//! Packages that add users, which `privileges: install` is for.

use coracle_images::testing::{Compression, Image};
use coracle_tests::{Home, debian, requires};

use crate::PATIENCE;
use crate::registry::Workplace;

const IMAGE: &str = "localhost/debian:programs";

fn load_debian(home: &Home) {
    let file = tempfile::NamedTempFile::new().expect("a file can be made");
    let archive = std::fs::read(debian::archive()).expect("the archive was made");
    let packed = Compression::Zstd.pack(&archive);
    let image = Image::of_parts(vec![archive], vec![(packed, Compression::Zstd)]);
    std::fs::write(file.path(), image.docker_save(&[IMAGE])).expect("it can be written");
    let path = file.path().to_string_lossy().into_owned();
    home.call(["image", "load", &path]).within(PATIENCE).succeed();
}

#[test]
fn apt_installs_a_package_that_adds_a_user() {
    requires!(images);
    requires!(internet);
    let flags = ["--image", IMAGE, "--privileges", "install"];
    let place = Workplace::prepared(include_str!("registries/apt.py"), &[], &flags, load_debian);

    let told = place.sh("echo 'deb [trusted=yes] http://ok.test/apt ./' > /etc/apt/sources.list
         apt-get -qq update > log 2>&1 || { cat log; exit 1; }
         DEBIAN_FRONTEND=noninteractive apt-get -qq --yes install served > log 2>&1 || { cat log; exit 1; }
         getent passwd served | cut -d: -f1,6; stat -c %U:%G /var/lib/served; dpkg -s served | grep Status");

    assert_eq!(told, "served:/var/lib/served\nserved:served\nStatus: install ok installed\n");
}

#[test]
fn a_user_is_added_to_the_host_image_and_commands_run_as_it() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--privileges", "install"]);

    home.exec(&sandbox, ["useradd", "--create-home", "builder"]).succeed();
    let added = ["adduser", "--quiet", "--comment", "a user", "--disabled-password", "tester"];
    home.exec(&sandbox, added).succeed();

    for user in ["builder", "tester"] {
        let ran = home
            .call(["exec", &sandbox, "--user", user, "--", "sh", "-c", "whoami; echo x > ~/mine"])
            .succeed();
        assert_eq!(ran.text(), format!("{user}\n"));
    }
}
