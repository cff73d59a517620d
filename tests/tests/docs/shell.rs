//! A person's shell: it is given one command after the other, and notes what each prints and how it ends.

use super::page::Step;

/// What the shell itself says before and after a command. No command prints the first character of it.
const BEGIN: &str = "\u{1e}begin ";
const END: &str = "\n\u{1e}end ";

/// How the person leaves: nothing goes on in the background, and nothing of coracle's stays.
const LEAVE: &str = "kill $(jobs -p) 2>/dev/null; wait; coracle purge --yes; exit\n";

/// What became of one command.
#[derive(Debug)]
pub struct Ended<'a> {
    pub step: &'a Step,
    pub code: Option<i32>,
    pub printed: String,
}

/// Returns a script for bash that carries the steps out in one shell, so that variables last. `notes` is a directory
/// it may write to.
pub fn script(steps: &[&Step], notes: &str) -> String {
    let carried_out: String =
        steps.iter().enumerate().map(|(number, step)| carry_out(number, step, notes)).collect();
    format!("exec 2>&1\n{carried_out}{LEAVE}")
}

fn carry_out(number: usize, step: &Step, notes: &str) -> String {
    let command = match step.in_background() {
        // A person goes on when a program says that it is there.
        Some(program) => {
            let note = format!("{notes}/{number}");
            format!(
                "{program} >{note} 2>&1 &\nuntil [ -s {note} ] || ! kill -0 $! 2>/dev/null; do sleep 0.05; done; cat {note}"
            )
        }
        None => step.command.clone(),
    };
    format!(
        "printf '%s' '{BEGIN}{number}\n'\neval \"$(cat <<'STEP'\n{command}\nSTEP\n)\" </dev/null\nprintf '%s%d\\n' '{END}' $?\n"
    )
}

/// Reads what the shell has printed. A step it never came to is not among the ended.
pub fn read<'a>(steps: &[&'a Step], printed: &str) -> Vec<Ended<'a>> {
    let parts = printed.split(BEGIN).skip(1);
    let ended = parts.zip(steps).map(|(part, step)| {
        let (_, rest) = part.split_once('\n').unwrap_or((part, ""));
        let (printed, end) = rest.split_once(END).unwrap_or((rest, ""));
        Ended {
            step,
            code: end.lines().next().and_then(|code| code.parse().ok()),
            printed: printed.to_owned(),
        }
    });
    ended.collect()
}

impl Ended<'_> {
    /// Returns what is different from what the page says.
    pub fn complaint(&self) -> Option<String> {
        let Self { step, code, printed } = self;
        let wrong = match code {
            Some(code) if *code == step.exit() => {
                (!step.admits(printed)).then(|| "it prints something else".to_owned())
            }
            Some(code) => Some(format!("it exits with {code} instead of {}", step.exit())),
            None => Some("it did not come to its end".to_owned()),
        };
        wrong.map(|wrong| {
            let expected = step.output.join("\n");
            format!(
                "line {}: {wrong}\n$ {}\nprinted:\n{printed}\nthe page says:\n{expected}\n",
                step.line, step.command
            )
        })
    }
}
