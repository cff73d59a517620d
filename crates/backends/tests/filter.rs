//! The filter compiler against the one the rest of the world uses, on rules and calls by chance.

#[path = "../build/program.rs"]
mod program;

use std::collections::BTreeMap;

use proptest::prelude::*;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use program::{Action, Alternative, Compare, Condition, Instruction, Rules, compile};

const X86_64: u32 = 0xc000_003e;
const ALLOW: u32 = 0x7fff_0000;
const REFUSE: u32 = 0x0005_0001;

/// One call as a filter sees it.
#[derive(Debug, Clone)]
struct Call {
    architecture: u32,
    number: u32,
    arguments: [u64; 6],
}

impl Call {
    fn word(&self, offset: u32) -> u32 {
        let argument = |offset: u32| self.arguments[(offset as usize - 16) / 8];
        match offset {
            0 => self.number,
            4 => self.architecture,
            _ if offset.is_multiple_of(8) => argument(offset) as u32,
            _ => (argument(offset - 4) >> 32) as u32,
        }
    }

    /// Does what the kernel does with the few instructions filters are made of.
    fn judged_by(&self, program: &[Instruction]) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let Instruction { code, matched, otherwise, value } = program[at];
            at += 1;
            let mut branch = |holds: bool| at += usize::from(if holds { matched } else { otherwise });
            match code {
                0x20 => word = self.word(value),
                0x54 => word &= value,
                0x05 => at += value as usize,
                0x15 => branch(word == value),
                0x25 => branch(word > value),
                0x35 => branch(word >= value),
                0x06 => return value,
                other => panic!("instruction {other:#x}"),
            }
        }
    }
}

fn reference(rules: &Rules) -> Vec<Instruction> {
    let condition = |condition: &Condition| {
        let compare = match condition.compare {
            Compare::Equal => SeccompCmpOp::Eq,
            Compare::Differs => SeccompCmpOp::Ne,
            Compare::Masked(mask) => SeccompCmpOp::MaskedEq(u64::from(mask)),
        };
        let value = u64::from(condition.value);
        SeccompCondition::new(condition.argument, SeccompCmpArgLen::Dword, compare, value).expect("sound")
    };
    let rule = |alternative: &Alternative| {
        SeccompRule::new(alternative.iter().map(condition).collect()).expect("sound")
    };
    let rules: BTreeMap<_, _> = rules
        .iter()
        .map(|(number, alternatives)| (i64::from(*number), alternatives.iter().map(rule).collect()))
        .collect();
    let filter = SeccompFilter::new(rules, SeccompAction::Errno(1), SeccompAction::Allow, TargetArch::x86_64);
    let program: BpfProgram = filter.expect("sound").try_into().expect("it compiles");
    program
        .iter()
        .map(|filter| Instruction {
            code: filter.code,
            matched: filter.jt,
            otherwise: filter.jf,
            value: filter.k,
        })
        .collect()
}

fn ours(rules: &Rules) -> Vec<Instruction> {
    compile(rules, X86_64, Action::Allow, Action::Errno(1))
}

fn conditions() -> impl Strategy<Value = Condition> {
    let compare =
        prop_oneof![Just(Compare::Equal), Just(Compare::Differs), (1u32..8).prop_map(Compare::Masked)];
    // Small numbers, so that rules and calls meet. The other compiler ignores what of a value is outside its mask.
    (0u8..6, compare, 0u32..8).prop_map(|(argument, compare, value)| match compare {
        Compare::Masked(mask) => Condition { argument, compare, value: value & mask },
        Compare::Equal | Compare::Differs => Condition { argument, compare, value },
    })
}

fn all_rules() -> impl Strategy<Value = Rules> {
    let alternatives = prop::collection::vec(prop::collection::vec(conditions(), 1..4), 0..4);
    prop::collection::btree_map(0u32..460, alternatives, 1..300)
}

fn calls() -> impl Strategy<Value = Call> {
    let number = prop_oneof![8 => 0u32..470, 1 => any::<u32>(), 1 => Just(0x4000_0001)];
    let argument = prop_oneof![4 => 0u64..8, 1 => any::<u64>(), 1 => Just(0xffff_ffff_0000_0001)];
    (number, prop::array::uniform6(argument)).prop_map(|(number, arguments)| Call {
        architecture: X86_64,
        number,
        arguments,
    })
}

proptest! {
    #[test]
    fn both_compilers_mean_the_same(rules in all_rules(), calls in prop::collection::vec(calls(), 100)) {
        let (ours, reference) = (ours(&rules), reference(&rules));

        for call in calls {
            prop_assert_eq!(call.judged_by(&ours), call.judged_by(&reference), "{:?}", call);
        }
    }

    #[test]
    fn every_listed_call_is_found_and_no_other(rules in prop::collection::btree_set(0u32..460, 1..300)) {
        let program = ours(&rules.iter().map(|number| (*number, Vec::new())).collect());

        for number in 0..470 {
            let call = Call { architecture: X86_64, number, arguments: [0; 6] };
            let expected = if rules.contains(&number) { ALLOW } else { REFUSE };
            prop_assert_eq!(call.judged_by(&program), expected, "{}", number);
        }
    }
}

#[test]
fn a_foreign_table_kills() {
    let program = ours(&Rules::from([(1, Vec::new())]));

    let call = Call { architecture: 0x4000_0003, number: 1, arguments: [0; 6] };

    assert_eq!(call.judged_by(&program), 0x8000_0000);
}
