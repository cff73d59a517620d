//! Patterns for one word of a path: `*`, `?`, `[a-z]` and `\`, in time that grows with pattern and word and no
//! faster.

/// A parsed pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(Vec<Token>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Letter(char),
    /// `?`
    One,
    /// `*`
    Any,
    /// `[a-z]`, or `[^a-z]` for all others.
    Class {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
}

impl Glob {
    /// Reads a pattern; `None` if a class has no end.
    pub fn parse(pattern: &str) -> Option<Self> {
        let mut letters = pattern.chars();
        let mut tokens = Vec::new();
        while let Some(letter) = letters.next() {
            tokens.push(match letter {
                '*' => Token::Any,
                '?' => Token::One,
                '\\' => Token::Letter(letters.next()?),
                '[' => class(&mut letters)?,
                other => Token::Letter(other),
            });
        }
        Some(Self(tokens))
    }

    /// Tells whether it covers the whole word.
    pub fn matches(&self, word: &[char]) -> bool {
        let (mut token, mut letter) = (0, 0);
        // The position of the last `*` and how much it covers so far: only it ever has to be tried again.
        let mut star = None;
        while letter < word.len() {
            match self.0.get(token) {
                Some(Token::Any) => {
                    star = Some((token, letter));
                    token += 1;
                }
                Some(other) if other.admits(word[letter]) => {
                    token += 1;
                    letter += 1;
                }
                Some(_) | None => {
                    let Some((at, covered)) = star else { return false };
                    star = Some((at, covered + 1));
                    token = at + 1;
                    letter = covered + 1;
                }
            }
        }
        self.0[token..].iter().all(|rest| *rest == Token::Any)
    }
}

impl Token {
    fn admits(&self, letter: char) -> bool {
        match self {
            Self::Letter(own) => *own == letter,
            Self::One | Self::Any => true,
            Self::Class { ranges, negated } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&letter)) != *negated
            }
        }
    }
}

/// Reads the text between the brackets.
fn class(letters: &mut std::str::Chars<'_>) -> Option<Token> {
    let mut next = letters.next()?;
    let negated = next == '^';
    if negated {
        next = letters.next()?;
    }
    let mut ranges = Vec::new();
    while next != ']' {
        let first = if next == '\\' { letters.next()? } else { next };
        next = letters.next()?;
        let mut last = first;
        if next == '-' {
            last = letters.next()?;
            if last == '\\' {
                last = letters.next()?;
            }
            next = letters.next()?;
        }
        ranges.push((first, last));
    }
    Some(Token::Class { ranges, negated })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(pattern: &str, word: &str) -> bool {
        Glob::parse(pattern).expect("a pattern").matches(&word.chars().collect::<Vec<_>>())
    }

    #[test]
    fn a_word_is_covered_as_a_whole() {
        for (pattern, word) in [
            ("a", "a"),
            ("*", ""),
            ("*", ".git"),
            ("*.md", "README.md"),
            ("a*b*c", "axxbyybc"),
            ("?", "ö"),
            ("[a-c]x", "bx"),
            ("[^a-c]x", "dx"),
            (r"\*", "*"),
            (r"[\]a]", "]"),
        ] {
            assert!(covers(pattern, word), "{pattern} {word}");
        }
        for (pattern, word) in [("a", "ab"), ("*.md", "README.mdx"), ("?", ""), ("[a-c]", "d"), (r"\*", "x")]
        {
            assert!(!covers(pattern, word), "{pattern} {word}");
        }
    }

    #[test]
    fn a_class_without_an_end_is_no_pattern() {
        for pattern in ["[", "[a", "[a-", "[^", "\\"] {
            assert_eq!(Glob::parse(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn many_stars_take_no_longer_than_pattern_times_word() {
        // Trying each star at every position would never end.
        let (pattern, word) = (format!("{}b", "*a".repeat(64)), "a".repeat(4000));

        assert!(!covers(&pattern, &word));
    }
}
