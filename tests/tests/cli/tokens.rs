//! `coracle token`: shown once, kept without its secret, listed and revoked by its id.

use coracle_tests::Home;
use serde_json::json;

#[test]
fn a_token_is_shown_once_and_kept_without_its_secret() {
    let home = Home::new();

    let made = home.call([
        "token",
        "create",
        "--tenant",
        "acme",
        "--allow",
        "sandbox_*,image_list",
        "--expires",
        "30d",
    ]);
    let made = made.succeed();
    let text = made.text().trim().to_owned();
    let listed = home.call(["token", "list", "--json"]).succeed();

    let parts: Vec<_> = text.split('_').collect();
    assert_eq!((parts[0], parts[1].len(), parts[2].len()), ("crl", 26, 52));
    let token = &listed.json()[0];
    assert_eq!(token["token_id"], format!("tok_{}", parts[1]));
    assert_eq!((&token["tenant"], &token["state"]), (&json!("acme"), &json!("valid")));
    assert_eq!(token["allow"], json!(["sandbox_*", "image_list"]));
    let life = token["expires_at"].as_u64().expect("an end") - token["created_at"].as_u64().expect("a time");
    assert_eq!(life, 30 * 86_400_000);
    let shown = format!("{}{}", listed.text(), home.call(["token", "list"]).succeed().text());
    assert!(!shown.contains(parts[2]) && !shown.contains("digest"), "{shown}");
}

#[test]
fn a_revoked_token_says_so() {
    let home = Home::new();
    let made = home.call(["token", "create", "--tenant", "acme", "--label", "ci", "--json"]).succeed().json();
    let id = made["token_id"].as_str().expect("an id").to_owned();

    home.call(["token", "revoke", &id]).succeed();
    home.call(["token", "revoke", &id]).succeed();

    let table = home.call(["token", "list"]).succeed().text().to_owned();
    let row = table.lines().nth(1).expect("a row").split_whitespace().collect::<Vec<_>>();
    assert_eq!(row[..5], [id.as_str(), "acme", "*", "revoked", "never"]);
    assert_eq!(row[6], "ci");
}

#[test]
fn what_is_no_token_no_tenant_and_no_operation_is_refused() {
    let home = Home::new();
    let refused = |words: &[&str]| home.call(words.iter().copied().chain(["--json"])).run().error_kind();

    assert_eq!(refused(&["token", "revoke", "tok_none"]), "not_found");
    assert_eq!(refused(&["token", "create", "--tenant", "acme", "--allow", "sandbox_opne"]), "invalid");
    assert_eq!(refused(&["token", "create", "--tenant", "acme", "--label", "a\nb"]), "invalid");
    for bounds in [["--max-memory", "1m"], ["--max-network", "some"], ["--max-images", "docker.io/lib*"]] {
        let words = [&["token", "create", "--tenant", "acme"][..], &bounds].concat();
        home.call(words).run().expect_code(125);
    }
    home.call(["token", "create", "--tenant", "a/b"]).run().expect_code(125);
    home.call(["token", "create"]).run().expect_code(125);
    assert_eq!(home.call(["token", "list", "--json"]).succeed().json(), json!([]));
}
