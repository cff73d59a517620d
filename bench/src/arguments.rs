//! What the benchmark can be told.

use anyhow::{Context, Result, bail};

const HELP: &str = "\
Usage: cargo xtask bench [--rounds N] [--check] [FILTER]

  --rounds N   samples of each case (default 60)
  --check      fail if a goal that is due is missed
  FILTER       only cases whose name holds this, and `base`";

const ROUNDS: usize = 60;

/// The parsed command line.
pub struct Arguments {
    pub rounds: usize,
    pub check: bool,
    pub filter: String,
}

impl Arguments {
    /// Reads the words after the program's name; `None` if they only asked for help.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Self>> {
        let mut arguments = Self { rounds: ROUNDS, check: false, filter: String::new() };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--help" | "-h" => {
                    println!("{HELP}");
                    return Ok(None);
                }
                "--check" => arguments.check = true,
                "--rounds" => {
                    let number = words.next().context("`--rounds` needs a number")?;
                    arguments.rounds =
                        number.parse().with_context(|| format!("`{number}` is not a number of rounds"))?;
                }
                flag if flag.starts_with('-') => bail!("unknown flag `{flag}`\n\n{HELP}"),
                _ => arguments.filter = word,
            }
        }
        Ok(Some(arguments))
    }
}
