//! The `WWW-Authenticate` header: what a registry asks for before it answers.

/// One way to authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Challenge {
    /// A name and a password, sent to the registry itself.
    Basic,
    /// A token, which the realm issues.
    Bearer { realm: String, service: Option<String> },
}

impl Challenge {
    /// Reads a header. Returns `None` if we know none of its ways. Ignores the scope: we ask only for reading this
    /// repository, even if the registry proposes more.
    pub fn parse(header: &str) -> Option<Self> {
        let (scheme, parameters) = header.trim().split_once(' ').unwrap_or((header.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameters = parameters_of(parameters)?;
        let value = |wanted: &str| {
            let found = parameters.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.clone())
        };
        Some(Challenge::Bearer { realm: value("realm")?, service: value("service") })
    }
}

/// Reads `name="value", name=value`. Returns `None` for anything else.
fn parameters_of(mut text: &str) -> Option<Vec<(String, String)>> {
    let mut parameters = Vec::new();
    loop {
        text = text.trim_start_matches([' ', '\t', ',']);
        if text.is_empty() {
            return Some(parameters);
        }
        let (name, rest) = text.split_once('=')?;
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                (rest[..end].trim().to_owned(), &rest[end..])
            }
        };
        parameters.push((name.trim().to_owned(), value));
        text = rest;
    }
}

/// Returns the text up to the closing quote, and what follows.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[index + 1..])),
            '\\' => value.push(characters.next()?.1),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>) -> Option<Challenge> {
        Some(Challenge::Bearer { realm: realm.into(), service: service.map(str::to_owned) })
    }

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let header =
            r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="a:b:c""#;

        assert_eq!(
            Challenge::parse(header),
            bearer("https://auth.docker.io/token", Some("registry.docker.io"))
        );
        assert_eq!(Challenge::parse("bearer realm=https://a/t , x=y"), bearer("https://a/t", None));
        assert_eq!(Challenge::parse(r#"Basic realm="x""#), Some(Challenge::Basic));
        assert_eq!(Challenge::parse("basic"), Some(Challenge::Basic));
    }

    #[test]
    fn what_is_broken_or_unknown_is_no_challenge() {
        for header in [
            "",
            "Negotiate",
            r#"Bearer realm="https://a"#,
            "Bearer",
            "Bearer service=x",
            r#"Bearer realm="\"#,
        ] {
            assert_eq!(Challenge::parse(header), None, "{header}");
        }
    }
}
