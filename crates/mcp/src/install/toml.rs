//! Adds an entry to settings in TOML in place: comments and order stay as the person wrote them.

use coracle_core::{Error, Kind, Result};
use toml::de::{DeTable, DeValue};
use toml::map::Entry as TableEntry;
use toml::{Table, Value};

use super::Entry;

/// Returns the text with the program of the entry in `[servers.name]`. Other keys that people put there stay.
///
/// The result is parsed again: if anything but the entry has changed, or the entry is wrong, it is refused.
pub fn merged(text: &str, servers: &str, name: &str, entry: &Entry) -> Result<String> {
    let before = parsed(text)?;
    let members = members(entry);
    let wanted = wanted(before.clone(), [servers, name], &members)?;
    if before == wanted {
        return Ok(text.to_owned());
    }
    let merged = placed(text, [servers, name], &members)?;
    match parsed(&merged)? == wanted {
        true => Ok(merged),
        false => Err(not_tables(servers)),
    }
}

fn parsed(text: &str) -> Result<Table> {
    text.parse().map_err(unreadable)
}

fn unreadable(error: toml::de::Error) -> Error {
    Error::new(Kind::Invalid, "it is not TOML").caused_by(Box::new(error) as Box<_>)
}

fn not_tables(servers: &str) -> Error {
    Error::new(Kind::Invalid, format!("`{servers}` is not written as tables"))
}

/// The members of an entry.
type Members = [(&'static str, Value); 2];

fn members(Entry { command, arguments }: &Entry) -> Members {
    let arguments = arguments.iter().cloned().map(Value::String).collect();
    [("command", Value::String(command.clone())), ("args", Value::Array(arguments))]
}

/// Returns the settings with our server in them.
fn wanted(mut settings: Table, path: [&str; 2], members: &Members) -> Result<Table> {
    let mut table = &mut settings;
    for name in path {
        let entry = match table.entry(name) {
            TableEntry::Occupied(entry) => entry.into_mut(),
            TableEntry::Vacant(entry) => entry.insert(Value::Table(Table::new())),
        };
        table = entry.as_table_mut().ok_or_else(|| not_tables(path[0]))?;
    }
    super::expect_program(table.contains_key("url"))?;
    table.extend(members.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    Ok(settings)
}

/// Replaces existing members; adds missing ones below the header, and a missing header at the end.
fn placed(text: &str, [servers, name]: [&str; 2], members: &Members) -> Result<String> {
    let settings = DeTable::parse(text).map_err(unreadable)?;
    let listed = settings.get_ref().get(servers).and_then(|listed| listed.get_ref().as_table());
    let table = listed.and_then(|listed| listed.get(name)).and_then(|table| table.get_ref().as_table());
    let known = |key: &str| table.and_then(|table| table.get(key));
    let missing: String = members
        .iter()
        .filter(|(key, _)| known(key).is_none())
        .map(|(key, value)| format!("{key} = {}\n", written(value)))
        .collect();
    let mut edits: Vec<_> = members
        .iter()
        .filter_map(|(key, value)| {
            Some((known(key).map(toml::Spanned::<DeValue<'_>>::span)?, written(value)))
        })
        .collect();
    let header = format!("[{servers}.{name}]");
    if !missing.is_empty() {
        edits.push(match below(text, &header) {
            Some(at) => (at..at, missing),
            None => (text.len()..text.len(), format!("{}{header}\n{missing}", gap(text))),
        });
    }
    // From the last to the first, so that the positions of the others stay valid.
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut out = text.to_owned();
    edits.into_iter().for_each(|(range, value)| out.replace_range(range, &value));
    Ok(out)
}

/// Returns where the line below a header begins, if the text has that header.
fn below(text: &str, header: &str) -> Option<usize> {
    let mut at = 0;
    text.split_inclusive('\n').find_map(|line| {
        at += line.len();
        (line.trim() == header && line.ends_with('\n')).then_some(at)
    })
}

/// Returns the separator between a table at the end and the text before it.
fn gap(text: &str) -> &'static str {
    match text {
        "" => "",
        text if text.ends_with('\n') => "\n",
        _ => "\n\n",
    }
}

/// Strings of JSON, and arrays of them, are valid TOML.
fn written(value: &Value) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(Value::as_str).map(quoted).collect();
            format!("[{}]", items.join(", "))
        }
        other => quoted(other.as_str().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(argument: &str) -> Entry {
        Entry { command: "coracle".to_owned(), arguments: vec![argument.to_owned()] }
    }

    fn merged(text: &str, argument: &str) -> Result<String> {
        super::merged(text, "mcp_servers", "coracle", &entry(argument))
    }

    #[test]
    fn an_entry_is_added_below_everything_else() {
        let before = "# mine\nmodel = \"o9\" # the best\n\n[mcp_servers.other]\ncommand = \"x\"";

        let after = merged(before, "mcp").expect("it is TOML");

        assert_eq!(
            after,
            format!("{before}\n\n[mcp_servers.coracle]\ncommand = \"coracle\"\nargs = [\"mcp\"]\n")
        );
    }

    #[test]
    fn an_entry_is_changed_where_it_stands_and_twice_is_as_good_as_once() {
        let before = "[mcp_servers.coracle]\ncommand = \"old\"\n\n[tui]\ntheme = \"x\"\n";

        let once = merged(before, "mcp").expect("it is TOML");

        assert_eq!(
            once,
            "[mcp_servers.coracle]\nargs = [\"mcp\"]\ncommand = \"coracle\"\n\n[tui]\ntheme = \"x\"\n"
        );
        assert_eq!(merged(&once, "mcp").expect("it is TOML"), once);
    }

    #[test]
    fn what_people_have_added_to_it_stays() {
        let before = "[mcp_servers.coracle.env]\nA = \"b\" # mine\n\n[mcp_servers.coracle]\n\
            startup_timeout_sec = 30 # it is slow here\nargs = [\n  \"old\", # why\n]\nenabled = true\n";

        let once = merged(before, "mcp").expect("it is TOML");

        assert_eq!(
            once,
            "[mcp_servers.coracle.env]\nA = \"b\" # mine\n\n[mcp_servers.coracle]\ncommand = \"coracle\"\n\
            startup_timeout_sec = 30 # it is slow here\nargs = [\"mcp\"]\nenabled = true\n"
        );
        assert_eq!(merged(&once, "mcp").expect("it is TOML"), once);
    }

    #[test]
    fn an_entry_that_is_written_otherwise_is_changed_all_the_same() {
        for (before, after) in [
            (
                "[mcp_servers]\ncoracle = {command = \"x\", args = [], cwd = \"/\"}\n",
                "[mcp_servers]\ncoracle = {command = \"coracle\", args = [\"mcp\"], cwd = \"/\"}\n",
            ),
            (
                "[mcp_servers.coracle.env]\nA = \"b\"\n",
                "[mcp_servers.coracle.env]\nA = \"b\"\n\n[mcp_servers.coracle]\n\
                command = \"coracle\"\nargs = [\"mcp\"]\n",
            ),
        ] {
            assert_eq!(merged(before, "mcp").expect("it is TOML"), after);
        }
    }

    #[test]
    fn what_cannot_be_read_or_would_change_is_refused() {
        for text in [
            "[",
            "mcp_servers = 3",
            "[mcp_servers]\ncoracle = 3",
            "mcp_servers = {other = {command = \"x\"}}",
            "mcp_servers = {coracle = {command = \"x\"}}",
            "[mcp_servers.coracle]\nurl = \"http://127.0.0.1:1/mcp\"\n",
            // A header inside a string is none, and text below it would end up in the string.
            "[mcp_servers]\ncoracle.note = \"\"\"\n[mcp_servers.coracle]\n\"\"\"\n",
        ] {
            assert!(merged(text, "mcp").is_err(), "{text}");
        }
    }

    #[test]
    fn words_are_quoted() {
        let after = merged("", "a\"b\\c\u{1}").expect("nothing is there");

        assert!(after.contains(r#"args = ["a\"b\\c\u0001"]"#), "{after}");
    }
}
