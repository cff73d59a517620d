//! Adding an entry to settings in TOML, line by line: comments and the order of things are the person's.

use coracle_core::{Error, Kind, Result};
use toml::{Table, Value};

use super::Entry;

/// Returns the text with the table `[servers.name]` being the entry.
///
/// The result is read again: if anything but the entry has changed, or is not what it should be, it is refused.
pub fn merged(text: &str, servers: &str, name: &str, entry: &Entry) -> Result<String> {
    let mut before = parsed(text)?;
    let wanted = Value::Table(table(entry));
    if taken(&mut before, servers, name).as_ref() == Some(&wanted) {
        return Ok(text.to_owned());
    }
    let merged = placed(text, &format!("[{servers}.{name}]"), &lines(entry));
    let mut after = parsed(&merged)?;
    let placed = taken(&mut after, servers, name);
    match placed == Some(wanted) && before == after {
        true => Ok(merged),
        false => Err(Error::new(Kind::Invalid, format!("`{servers}` is not written as tables"))),
    }
}

fn parsed(text: &str) -> Result<Table> {
    text.parse()
        .map_err(|error| Error::new(Kind::Invalid, "it is not TOML").caused_by(Box::new(error) as Box<_>))
}

/// Takes an entry out, and the table of servers if nothing else is in it.
fn taken(settings: &mut Table, servers: &str, name: &str) -> Option<Value> {
    let listed = settings.get_mut(servers)?.as_table_mut()?;
    let entry = listed.remove(name);
    if listed.is_empty() {
        settings.remove(servers);
    }
    entry
}

fn table(Entry { command, arguments }: &Entry) -> Table {
    let arguments = arguments.iter().cloned().map(Value::String).collect();
    [("command".to_owned(), Value::String(command.clone())), ("args".to_owned(), Value::Array(arguments))]
        .into_iter()
        .collect()
}

fn lines(Entry { command, arguments }: &Entry) -> String {
    let arguments: Vec<String> = arguments.iter().map(|argument| quoted(argument)).collect();
    format!("command = {}\nargs = [{}]\n", quoted(command), arguments.join(", "))
}

/// JSON's strings are strings of TOML, too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Puts the lines under their header, in the place of those that are there, else at the end.
fn placed(text: &str, header: &str, lines: &str) -> String {
    let mut out = String::new();
    let mut found = false;
    let mut ours = false;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if trimmed.starts_with('[') {
            ours = trimmed == header;
            if ours {
                found = true;
                out.push_str(&format!("{header}\n{lines}"));
            }
        }
        // An empty line is the gap to what comes next.
        if !ours || trimmed.is_empty() {
            out.push_str(line);
        }
    }
    if !found {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        let gap = if out.is_empty() { "" } else { "\n" };
        out.push_str(&format!("{gap}{header}\n{lines}"));
    }
    out
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
            "[mcp_servers.coracle]\ncommand = \"coracle\"\nargs = [\"mcp\"]\n\n[tui]\ntheme = \"x\"\n"
        );
        assert_eq!(merged(&once, "mcp").expect("it is TOML"), once);
    }

    #[test]
    fn what_cannot_be_read_or_would_change_is_refused() {
        for text in [
            "[",
            "mcp_servers = 3",
            "mcp_servers = {other = {command = \"x\"}}",
            "[mcp_servers.coracle]\ncommand = \"x\"\n[mcp_servers.coracle.env]\nA = \"b\"\n",
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
