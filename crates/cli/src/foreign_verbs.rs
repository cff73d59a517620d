//! Verbs of other tools that coracle does not have, and what does the same here.

/// A verb, and the advice for a person who types it.
const VERBS: &[(&str, &str)] = &[
    ("ls", "did you mean `coracle ps`?"),
    ("list", "did you mean `coracle ps`?"),
    ("delete", "did you mean `coracle close`?"),
    ("destroy", "did you mean `coracle close`?"),
    ("unpause", "did you mean `coracle resume`?"),
    ("rmi", "did you mean `coracle image remove`?"),
    ("create", "did you mean `coracle open`?"),
    ("commit", "did you mean `coracle snapshot`?"),
    ("build", "did you mean `coracle image build`?"),
    ("attach", "did you mean `coracle logs --follow`?"),
    ("port", "did you mean `coracle forward`?"),
    ("start", "a sandbox needs no start; `coracle exec` runs another command"),
];

/// Returns the advice for a verb of another tool.
pub fn advice(verb: &str) -> Option<&'static str> {
    VERBS.iter().find(|(name, _)| *name == verb).map(|(_, advice)| *advice)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    #[test]
    fn advice_names_verbs_that_exist() {
        let cli = Cli::command();

        for (foreign, advice) in VERBS {
            assert!(cli.find_subcommand(foreign).is_none(), "`{foreign}` is a verb of ours");
            let line = advice.split('`').nth(1).expect("a command");
            let words = line.split(' ').skip(1).filter(|word| !word.starts_with('-'));
            words.fold(&cli, |verb, word| verb.find_subcommand(word).unwrap_or_else(|| panic!("{line}")));
        }
    }
}
