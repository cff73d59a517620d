//! Control and bidirectional characters in text that strangers write and we repeat.

use coracle_tests::{Home, requires};
use serde_json::json;

const ODD: [&str; 6] = ["\x1b[31mred", "a\u{202e}b", "a\u{2066}b", "a\u{200b}b", "a\u{85}b", "a\u{9b}2Jb"];

/// Whether there is something in it that is not seen but obeyed.
fn is_plain(text: &str) -> bool {
    let hidden = |character: char| character.is_control() && character != '\n';
    !text.chars().any(|character| hidden(character) || "\u{202e}\u{2066}\u{200b}".contains(character))
}

#[test]
fn keys_and_labels_with_characters_that_are_not_seen_are_refused() {
    requires!(native);
    let home = Home::new();

    for odd in ODD {
        let label = format!("name={odd}");
        for words in [["open", "--key", odd], ["open", "--label", &label]] {
            let refused = home.call(words).run().expect_code(125);
            assert!(is_plain(&refused.stderr), "{refused}");
        }
        for input in
            [json!({"session_key": odd}), json!({"labels": {odd: "x"}}), json!({"labels": {"x": odd}})]
        {
            let refused = home.operation("sandbox_open", &input).run().error();
            assert_eq!(refused["kind"], "invalid", "{input}");
            assert!(is_plain(refused["message"].as_str().expect("a message")), "{refused}");
        }
    }
    assert!(home.live().is_empty());
    for key in ["größe 你好", "שלום", "مرحبا", "e\u{301}"] {
        home.open_with(&["--key", key]);
    }
}

#[test]
fn what_is_repeated_to_a_person_is_escaped() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    for odd in ODD {
        for words in [
            &["show", odd][..],
            &["exec", &sandbox, "--cwd", odd, "--", "true"],
            &["exec", &sandbox, "--user", odd, "--", "true"],
            &["exec", &sandbox, "--", odd],
            &["run", "--image", odd, "--", "true"],
            &["run", "--network", odd, "--", "true"],
            &["run", "--backend", odd, "--", "true"],
            &["fs", "read", &sandbox, odd],
            &[odd],
        ] {
            for json in [None, Some("--json")] {
                // Behind `--` it would be the command's.
                let words = json.iter().chain(words).copied();
                let refused = home.call(words).run();
                assert_ne!(refused.code(), Some(0), "{refused}");
                assert!(is_plain(&refused.stderr), "{refused}");
                if json.is_some() {
                    let error = &refused.json()["error"];
                    let said = format!("{}{}", error["message"], error["hint"]);
                    assert!(is_plain(error["message"].as_str().unwrap_or_default()), "{said}");
                    assert!(is_plain(error["hint"].as_str().unwrap_or_default()), "{said}");
                }
            }
        }
    }
}
