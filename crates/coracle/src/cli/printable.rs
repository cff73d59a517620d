//! Text from elsewhere made safe for a terminal: a file name must not move the cursor or pass for a line of ours.

/// Returns the text on one line, control and invisible characters escaped.
pub fn line(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        let escaped = character.escape_debug();
        // Quotes and backslashes have short escapes and do no harm; what cannot be seen has long ones.
        match character.is_control() || escaped.len() > 2 {
            true => shown.extend(escaped),
            false => shown.push(character),
        }
    }
    shown
}

/// Like `line`, but keeps line breaks; lines behind the first are indented, so that none passes for a new message.
pub fn paragraph(text: &str) -> String {
    text.trim_end().split('\n').map(line).collect::<Vec<_>>().join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped() {
        assert_eq!(line("a\x1b[2Jb\u{202e}c"), "a\\u{1b}[2Jb\\u{202e}c");
        assert_eq!(line("it's \"ok\" \\ größe"), "it's \"ok\" \\ größe");
    }

    #[test]
    fn a_second_line_does_not_look_like_a_first_one() {
        assert_eq!(paragraph("a\nhint: lie\n"), "a\n  hint: lie");
    }
}
