//! A session key on a container engine: the same spec finds the sandbox, another is refused or replaces it.

use coracle_tests::engines::docker;
use coracle_tests::requires;
use serde_json::json;

#[test]
fn the_same_key_with_another_wish_is_a_conflict_and_replacing_reopens_on_docker() {
    requires!(docker);
    let home = docker().home();
    let other = tempfile::tempdir().expect("a directory can be made");
    let workspace = other.path().to_str().expect("temporary paths are text");
    let wish = ["--key", "k", "--network", "allow=a.test", "--pids", "99"];
    let first = home.open_with(&wish);

    for (fields, flags) in [
        (&["network"][..], &["--network", "open"][..]),
        (&["image"], &["--image", "alpine:3"]),
        (&["limits.pids"], &["--pids", "98"]),
        (&["mounts./workspace"], &["--workspace", workspace]),
        (&["limits.memory_mb", "network"], &["--memory", "77m", "--network", "none"]),
        (&["backend"], &["--backend", "native"]),
    ] {
        let error = home.call(["open", "--key", "k", "--json"].iter().chain(flags)).run().error();

        let told = (&error["kind"], &error["details"]["fields"]);
        assert_eq!(told, (&json!("conflict"), &json!(fields)), "{error}");
    }
    assert_eq!(home.open_with(&wish), first);
    assert_eq!(home.open_with(&["--key", "k"]), first, "what is not written is not compared");

    home.exec(&first, ["touch", "old"]).succeed();
    let next = home.open_with(&["--key", "k", "--replace", "--pids", "98"]);

    assert_ne!(next, first);
    assert_eq!(home.live().iter().map(|record| &record["sandbox_id"]).collect::<Vec<_>>(), [&json!(next)]);
    home.exec("k", ["test", "!", "-e", "old"]).succeed();
    assert_eq!(home.census().guests().len(), 1, "{}", home.census().describe());
}
