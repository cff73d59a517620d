//! The golden images of languages, as far as they can be built without their bases: everything but the first line.

use std::path::Path;

use coracle_core::runtime::Runtime;
use coracle_tests::engines::{TEST_IMAGE, docker};
use coracle_tests::requires;

use crate::workshop::{build, home};

#[test]
fn every_language_has_a_file_that_builds_and_whose_user_owns_the_workspace() {
    requires!(docker);
    let home = home(docker());
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../images");
    let base = format!("BASE={TEST_IMAGE}");

    for runtime in Runtime::ALL {
        let tag = format!("localhost/coracle-{runtime}:latest");
        let flags = ["--build-arg", &base, "--build-arg", "PACKAGES="];
        build(&home, docker(), &tag, &directory.join(runtime.name()), &flags).succeed();

        let script = "id -u && pwd && touch /workspace/mine && echo $HOME";
        let run = ["run", "--backend", "docker", "--image", &tag, "--", "sh", "-c", script];
        assert_eq!(home.call(run).succeed().text(), "10001\n/workspace\n/home/agent\n", "{runtime}");
    }
}
