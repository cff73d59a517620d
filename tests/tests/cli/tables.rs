//! What is shown at a terminal: tables that fit, colour, and numbers that are drawn anew. Pipes get everything, and plainly.

use coracle_tests::terminal::{plain, terminal};
use coracle_tests::{Call, Home, requires};

fn at_terminal(call: Call, columns: u16) -> Call {
    let call = call.env("TERM", "xterm").env("NO_COLOR", "").env("CLICOLOR", "").env("CLICOLOR_FORCE", "");
    call.through(terminal(columns))
}

#[test]
fn tables_fit_the_terminal_and_pipes_get_all_of_it() {
    requires!(native);
    let home = Home::new();
    let key = "a key that is much longer than any terminal of eighty columns has room for ".repeat(2);
    let sandbox = home.open_with(&["--key", &key]);
    home.call(["exec", &sandbox, "--id", "e", "echo", &"word ".repeat(40)]).succeed();

    for columns in [80, 60, 132] {
        for verb in [&["ps"][..], &["stats"], &["show", &sandbox], &["backends"], &["config"], &["images"]] {
            let shown = at_terminal(home.call(verb), columns).succeed();
            // Facts of `show` are no table; the terminal wraps them.
            let is_fact = |line: &String| line.starts_with("key ") || line.starts_with("mounts ");
            let mut rows = plain(shown.text()).into_iter().filter(|line| !is_fact(line));
            let wide = rows.find(|line| line.chars().count() > columns.into());
            assert_eq!(wide, None, "{verb:?} at {columns}");
        }
        let listed = at_terminal(home.call(["ps"]), columns).succeed();
        assert!(
            plain(listed.text()).iter().any(|line| line.contains(&sandbox) && line.contains('…')),
            "{listed}"
        );
    }
    let piped = home.call(["ps"]).succeed();
    assert!(piped.text().contains(key.trim_end()) && piped.text().contains("EPOCH"), "{piped}");
}

#[test]
fn stats_show_keys_where_there_are_some() {
    requires!(native);
    let home = Home::new();
    home.open();
    let heading =
        |columns: u16| plain(at_terminal(home.call(["stats"]), columns).succeed().text())[0].clone();
    assert!(!heading(80).contains("KEY"), "{}", heading(80));

    let keyed = home.open_with(&["--key", "fix-the-bug"]);

    for columns in [80, 132] {
        let shown = plain(at_terminal(home.call(["stats"]), columns).succeed().text());
        assert!(shown[0].contains("KEY") && shown[0].contains("MEMORY"), "{shown:?}");
        let row = shown.iter().find(|line| line.contains(&keyed)).expect("its row");
        assert!(row.contains("fix-the-bug") && row.chars().count() <= columns.into(), "{row}");
    }
    let told = home.call(["stats", &keyed, "--json"]).succeed().json();
    assert_eq!(told[0]["session_key"], "fix-the-bug", "{told}");
}

#[test]
fn colour_is_for_terminals_and_can_be_refused() {
    requires!(native);
    let home = Home::new();
    home.open_with(&["--key", "web"]);
    let shown = |name: &str, value: &str| {
        let listed = at_terminal(home.call(["ps"]), 80).env(name, value).succeed().text().to_owned();
        let failed = at_terminal(home.call(["show", "none"]), 80).env(name, value).run();
        (listed, failed.expect_code(125).text().to_owned())
    };

    let coloured = shown("LANG", "C");
    assert!(coloured.0.contains("\x1b[32mready\x1b[0m"), "{}", coloured.0);
    assert!(coloured.1.contains("\x1b[1;31merror\x1b[0m: "), "{}", coloured.1);
    for (name, value) in [("NO_COLOR", "1"), ("CLICOLOR", "0"), ("TERM", "dumb")] {
        let plainly = shown(name, value);
        assert!(!plainly.0.contains('\x1b') && !plainly.1.contains('\x1b'), "{name}: {plainly:?}");
        assert_eq!(plain(&plainly.1), plain(&coloured.1), "the words are the same");
    }
    let piped = home.call(["ps"]).env("TERM", "xterm").succeed();
    assert!(!piped.text().contains('\x1b'));
}

#[test]
fn watched_numbers_are_drawn_over_and_tell_the_share_of_the_processor() {
    requires!(native);
    let home = Home::new();
    home.call(["run", "-d", "--name", "busy", "sh", "-c", "while :; do :; done"]).succeed();
    let id = home.live()[0]["sandbox_id"].as_str().expect("an id").to_owned();

    let watch = at_terminal(home.call(["stats", "-w"]), 80).start();
    // The column behind the id and the key.
    let percent = |line: &str| line.split_whitespace().nth(2).and_then(|word| word.parse::<f64>().ok());
    watch.wait_for(|shown| {
        let shown = plain(&String::from_utf8_lossy(shown));
        shown
            .iter()
            .filter(|line| line.contains(&id))
            .any(|line| percent(line).is_some_and(|share| share > 5.0))
    });

    let shown = String::from_utf8_lossy(&watch.stdout()).into_owned();
    assert_eq!(shown.matches("\x1b[2J").count(), 1, "cleared once");
    assert!(shown.matches("\x1b[H").count() >= 2, "drawn over: {shown:?}");
    assert!(plain(&shown).iter().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.contains("CPU %"));
    watch.kill();
    home.call(["rm", "busy"]).succeed();
}

#[test]
fn help_fits_the_terminal() {
    let home = Home::new();

    for line in [&["--help"][..], &["run", "--help"], &["open", "--help"], &["mcp", "install", "--help"]] {
        for columns in [60, 80] {
            let shown = plain(at_terminal(home.call(line), columns).succeed().text());
            let long = shown.iter().find(|line| line.chars().count() > usize::from(columns));
            assert_eq!(long, None, "{line:?} at {columns}");
        }
    }
}
