//! Turns rules about system calls into a filter that the kernel loads quickly.
//!
//! When a filter is installed the kernel runs it once for every system call, to learn which are always allowed.
//! With a list of 250 comparisons that takes longer than making the rest of a sandbox; with a tree it takes as long
//! as eight comparisons.

use std::collections::BTreeMap;

/// What happens to each listed call.
pub type Rules = BTreeMap<u32, Rule>;

/// What happens to one call.
#[derive(Debug, Clone)]
pub struct Rule {
    /// One of them must hold; without any, every call matches.
    pub alternatives: Vec<Alternative>,
    pub matched: Action,
    pub otherwise: Action,
}

/// Conditions that must all hold.
pub type Alternative = Vec<Condition>;

/// One condition on the lower half of an argument.
#[derive(Debug, Clone, Copy)]
pub struct Condition {
    pub argument: u8,
    pub compare: Compare,
    pub value: u32,
}

#[derive(Debug, Clone, Copy)]
pub enum Compare {
    Equal,
    Differs,
    /// The bits of the mask must be those of the value.
    Masked(u32),
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Allow,
    Errno(u16),
    Kill,
}

/// One instruction, like the kernel's `sock_filter`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    pub code: u16,
    pub matched: u8,
    pub otherwise: u8,
    pub value: u32,
}

/// `struct seccomp_data`: the call's number, the architecture, the instruction pointer, the arguments.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;
/// The lower half comes first on every architecture that the guest supports.
const ARGUMENT: u32 = 8;

const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// Compiles rules; `unlisted` is for calls without one. Kills a caller that uses another architecture's table,
/// whose numbers the filter would misread.
pub fn compile(rules: &Rules, architecture: u32, unlisted: Action) -> Vec<Instruction> {
    let mut program = vec![
        plain(LOAD, ARCHITECTURE),
        branch(IF_EQUAL, architecture, 1, 0),
        leave(Action::Kill),
        plain(LOAD, NUMBER),
    ];
    program.extend(tree(&ranges(rules, unlisted)));
    program
}

/// The calls from a number up to the next range, and what happens to them.
struct Range {
    from: u32,
    block: Vec<Instruction>,
}

/// Splits all numbers into ranges of calls that are treated alike.
fn ranges(rules: &Rules, unlisted: Action) -> Vec<Range> {
    let mut ranges: Vec<Range> = vec![Range { from: 0, block: vec![leave(unlisted)] }];
    for (&number, rule) in rules {
        begin(&mut ranges, number, rule.block());
        begin(&mut ranges, number + 1, vec![leave(unlisted)]);
    }
    ranges.dedup_by(|later, earlier| later.block == earlier.block);
    ranges
}

fn begin(ranges: &mut Vec<Range>, from: u32, block: Vec<Instruction>) {
    if ranges.last().is_some_and(|last| last.from == from) {
        ranges.pop();
    }
    ranges.push(Range { from, block });
}

/// Finds the range of a number by halving.
fn tree(ranges: &[Range]) -> Vec<Instruction> {
    if let [range] = ranges {
        return range.block.clone();
    }
    let (below, above) = ranges.split_at(ranges.len() / 2);
    let lower = tree(below);
    let mut program = skip_if(IF_AT_LEAST, above[0].from, lower.len());
    program.extend(lower);
    program.extend(tree(above));
    program
}

/// Skips this many instructions if the comparison holds; a branch alone reaches 255.
fn skip_if(code: u16, value: u32, length: usize) -> Vec<Instruction> {
    match u8::try_from(length) {
        Ok(short) => vec![branch(code, value, short, 0)],
        Err(_) => {
            let far = u32::try_from(length).expect("a filter has at most 4096 instructions");
            vec![branch(code, value, 0, 1), plain(JUMP, far)]
        }
    }
}

impl Rule {
    fn block(&self) -> Vec<Instruction> {
        if self.alternatives.is_empty() {
            return vec![leave(self.matched)];
        }
        let mut program: Vec<_> =
            self.alternatives.iter().flat_map(|conditions| alternative(conditions, self.matched)).collect();
        program.push(leave(self.otherwise));
        program
    }
}

/// Returns `matched` if all conditions hold, otherwise goes on after it.
fn alternative(conditions: &[Condition], matched: Action) -> Vec<Instruction> {
    let mut program = vec![leave(matched)];
    for condition in conditions.iter().rev() {
        let rest = u8::try_from(program.len()).expect("a rule has few conditions");
        let mut test = vec![plain(LOAD, ARGUMENTS + ARGUMENT * u32::from(condition.argument))];
        match condition.compare {
            Compare::Equal => test.push(branch(IF_EQUAL, condition.value, 0, rest)),
            Compare::Differs => test.push(branch(IF_EQUAL, condition.value, rest, 0)),
            Compare::Masked(mask) => {
                test.extend([plain(AND, mask), branch(IF_EQUAL, condition.value, 0, rest)]);
            }
        }
        program.splice(0..0, test);
    }
    program
}

fn leave(action: Action) -> Instruction {
    let value = match action {
        Action::Allow => 0x7fff_0000,
        Action::Errno(number) => 0x0005_0000 | u32::from(number),
        Action::Kill => 0x8000_0000,
    };
    plain(RETURN, value)
}

fn plain(code: u16, value: u32) -> Instruction {
    Instruction { code, matched: 0, otherwise: 0, value }
}

fn branch(code: u16, value: u32, matched: u8, otherwise: u8) -> Instruction {
    Instruction { code, matched, otherwise, value }
}
