//! Makes foreign text safe to print: a name must not move the cursor, reverse the line or pass for one of our lines.
//!
//! Messages are escaped here and nowhere else; data, such as the details of an error or the output of a command, is not.

/// Tells whether a character changes how others appear, or is invisible: control characters, marks that turn the
/// direction of text, and characters of zero width.
pub fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Returns the text on one line, control and invisible characters escaped.
pub fn line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        // Not everything that `escape_debug` would escape: combining accents are part of many languages.
        match is_hidden(character) {
            true => shown.extend(character.escape_debug()),
            false => shown.push(character),
        }
    }
    shown
}

/// Does the same to each line of a text.
pub fn message(text: &str) -> String {
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Does the same, and indents every line after the first, so that none passes for a new message.
pub fn paragraph(text: &str) -> String {
    message(text.trim_end()).replace('\n', "\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(line("a\x1b[2Jb\u{202e}c"), "a\\u{1b}[2Jb\\u{202e}c");
        assert_eq!(line("it's \"ok\" \\ größe"), "it's \"ok\" \\ größe");
        assert_eq!(message("a\rb\nc\u{2067}"), "a\\rb\nc\\u{2067}");
    }

    #[test]
    fn what_was_escaped_stays_as_it_is() {
        let once = message("a\x1bb\u{202e}\n\\");

        assert_eq!(message(&once), once);
    }

    #[test]
    fn a_second_line_does_not_look_like_a_first_one() {
        assert_eq!(paragraph("a\nhint: lie\n"), "a\n  hint: lie");
    }

    #[test]
    fn letters_of_every_script_can_be_seen() {
        let text = "größe 你好 שלום مرحبا e\u{301} हिन्दी 🦀";

        assert_eq!(line(text), text);
        assert!("\u{202e}\u{2066}\u{200f}\u{200b}\u{feff}\x1b\n\u{85}".chars().all(is_hidden));
    }
}
