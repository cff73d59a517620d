//! The arguments of the benchmark.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

const HELP: &str = "\
Usage: cargo xtask bench [--rounds N] [--full] [--peers] [--json FILE] [--check] [FILTER]

  --rounds N   samples of each case (default 60)
  --full       1000 idle sandboxes and 100000 rows instead of a tenth to a fifth of that
  --peers      also podman, docker, AutoGen and llm-sandbox: installs what is missing, takes minutes longer
  --json FILE  write the results there instead of into `bench/results`
  --check      fail if a goal that is due is missed
  FILTER       only cases whose name holds this, and `base`";

const ROUNDS: usize = 60;

/// How large the crowds are that goals P6 and P10 speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// What a run of a few minutes has time for.
    Ordinary,
    /// What the goals say.
    Full,
}

/// Which peers are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peers {
    /// Those that take milliseconds.
    Quick,
    /// Those that need an engine and take up to ten seconds, too.
    All,
}

/// The parsed command line.
#[derive(Debug)]
pub struct Arguments {
    pub rounds: usize,
    pub scale: Scale,
    pub peers: Peers,
    pub json: Option<PathBuf>,
    pub check: bool,
    pub filter: String,
}

impl Arguments {
    /// Reads the words after the program's name; `None` if they only asked for help.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut arguments = Self::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--help" | "-h" => {
                    println!("{HELP}");
                    return Ok(None);
                }
                "--check" => arguments.check = true,
                "--full" => arguments.scale = Scale::Full,
                "--peers" => arguments.peers = Peers::All,
                "--json" => {
                    arguments.json = Some(words.next().context("`--json` needs the name of a file")?.into());
                }
                "--rounds" => arguments.rounds = rounds(words.next())?,
                flag if flag.starts_with('-') => bail!("unknown flag `{flag}`\n\n{HELP}"),
                _ => arguments.filter = word,
            }
        }
        Ok(Some(arguments))
    }
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            rounds: ROUNDS,
            scale: Scale::Ordinary,
            peers: Peers::Quick,
            json: None,
            check: false,
            filter: String::new(),
        }
    }
}

fn rounds(word: Option<String>) -> Result<usize> {
    let number = word.context("`--rounds` needs a number")?;
    number.parse().with_context(|| format!("`{number}` is not a number of rounds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Arguments>> {
        Arguments::parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn every_word_is_understood_or_refused() {
        let told =
            parse("--full --peers --json out.json --rounds 7 coracle").expect("valid").expect("no help");

        assert_eq!((told.rounds, told.scale, told.peers), (7, Scale::Full, Peers::All));
        assert_eq!((told.json, told.filter.as_str()), (Some("out.json".into()), "coracle"));
        assert!(parse("--rounds many").is_err());
        assert!(parse("--json").is_err());
        assert!(parse("--fast").is_err());
    }
}
