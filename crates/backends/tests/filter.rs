//! Compares our filter compiler with the one in common use, on random rules and calls.

#[path = "../build/program.rs"]
mod program;

use std::collections::BTreeMap;

use proptest::prelude::*;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use program::{Action, Alternative, Compare, Condition, Instruction, Rule, Rules, compile};

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

    /// Does what the kernel does with the few instructions that filters consist of.
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
        .map(|(number, listed)| (i64::from(*number), listed.alternatives.iter().map(rule).collect()))
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
    compile(rules, X86_64, Action::Errno(1))
}

fn allowed_if(alternatives: Vec<Alternative>) -> Rule {
    Rule { alternatives, matched: Action::Allow, otherwise: Action::Errno(1) }
}

fn conditions() -> impl Strategy<Value = Condition> {
    let compare =
        prop_oneof![Just(Compare::Equal), Just(Compare::Differs), (1u32..8).prop_map(Compare::Masked)];
    // Small numbers, so that rules and calls meet. The other compiler ignores bits of a value outside its mask.
    (0u8..6, compare, 0u32..8).prop_map(|(argument, compare, value)| match compare {
        Compare::Masked(mask) => Condition { argument, compare, value: value & mask },
        Compare::Equal | Compare::Differs => Condition { argument, compare, value },
    })
}

fn all_rules() -> impl Strategy<Value = Rules> {
    let alternatives = prop::collection::vec(prop::collection::vec(conditions(), 1..4), 0..4);
    prop::collection::btree_map(0u32..460, alternatives.prop_map(allowed_if), 1..300)
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
        let program = ours(&rules.iter().map(|number| (*number, allowed_if(Vec::new()))).collect());

        for number in 0..470 {
            let call = Call { architecture: X86_64, number, arguments: [0; 6] };
            let expected = if rules.contains(&number) { ALLOW } else { REFUSE };
            prop_assert_eq!(call.judged_by(&program), expected, "{}", number);
        }
    }
}

#[test]
fn a_foreign_table_kills() {
    let program = ours(&Rules::from([(1, allowed_if(Vec::new()))]));

    let call = Call { architecture: 0x4000_0003, number: 1, arguments: [0; 6] };

    assert_eq!(call.judged_by(&program), 0x8000_0000);
}

/// The shipped filters, for the machine the tests run on.
#[cfg(target_arch = "x86_64")]
mod shipped {
    use super::*;

    const COMMANDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter"));
    const DEBUG: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/debug-filter"));
    const LAST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/last-filter"));

    /// Returns a filter's answer to a call: an error number, or 0 if it allows it.
    fn answer(filter: &[u8], call: libc::c_long, arguments: &[u64]) -> i32 {
        let program: Vec<_> = filter
            .chunks_exact(8)
            .map(|bytes| Instruction {
                code: u16::from_ne_bytes([bytes[0], bytes[1]]),
                matched: bytes[2],
                otherwise: bytes[3],
                value: u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            })
            .collect();
        let mut six = [0; 6];
        six[..arguments.len()].copy_from_slice(arguments);
        let number = u32::try_from(call).expect("calls have small numbers");
        match (Call { architecture: X86_64, number, arguments: six }).judged_by(&program) {
            ALLOW => 0,
            refused => (refused & 0xffff) as i32,
        }
    }

    #[test]
    fn a_denied_socket_is_of_a_family_the_kernel_does_not_know() {
        const AUDIT: u64 = 9;
        const SCTP: u64 = 132;
        let socket = |family: i32, protocol: u64| {
            answer(COMMANDS, libc::SYS_socket, &[family as u64, libc::SOCK_RAW as u64, protocol])
        };

        for family in (0..50).filter(|family| {
            ![libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK].contains(family)
        }) {
            assert_eq!(socket(family, 0), libc::EAFNOSUPPORT, "{family}");
        }
        assert_eq!((socket(libc::AF_NETLINK, AUDIT), socket(libc::AF_NETLINK, 0)), (libc::EAFNOSUPPORT, 0));
        assert_eq!((socket(libc::AF_INET, SCTP), socket(libc::AF_INET, 6)), (libc::EAFNOSUPPORT, 0));
        assert_eq!(answer(COMMANDS, libc::SYS_socketpair, &[libc::AF_VSOCK as u64]), libc::EAFNOSUPPORT);
    }

    #[test]
    fn what_is_refused_on_purpose_says_so() {
        for call in [libc::SYS_mount, libc::SYS_setns, libc::SYS_bpf, libc::SYS_keyctl, libc::SYS_reboot] {
            assert_eq!(answer(COMMANDS, call, &[]), libc::EPERM, "{call}");
            assert_eq!(answer(DEBUG, call, &[]), libc::EPERM, "{call}");
        }
        let namespace = [libc::CLONE_NEWUSER as u64];
        assert_eq!(answer(COMMANDS, libc::SYS_unshare, &namespace), libc::EPERM);
        assert_eq!(answer(COMMANDS, libc::SYS_clone, &namespace), libc::EPERM);
        assert_eq!(answer(LAST, libc::SYS_unshare, &[libc::CLONE_NEWUTS as u64]), libc::EPERM);
    }

    #[test]
    fn what_is_not_listed_looks_like_an_older_kernel() {
        const X32_GETPID: libc::c_long = 0x4000_0000 | 39;
        for call in [libc::SYS_io_uring_setup, libc::SYS_io_setup, libc::SYS_mseal, X32_GETPID, 999, 100_000]
        {
            assert_eq!(answer(COMMANDS, call, &[]), libc::ENOSYS, "{call}");
        }
        assert_eq!(answer(LAST, libc::SYS_clone3, &[]), libc::ENOSYS);
        for call in [libc::SYS_faccessat2, libc::SYS_openat2, libc::SYS_statx, libc::SYS_rseq] {
            assert_eq!(answer(COMMANDS, call, &[]), 0, "{call}");
        }
    }

    #[test]
    fn only_debugging_may_trace_and_may_nothing_else() {
        let more = [libc::SYS_ptrace, libc::SYS_process_vm_readv, libc::SYS_process_vm_writev];
        for call in 0..600 {
            let answers = (answer(COMMANDS, call, &[]), answer(DEBUG, call, &[]));
            let expected = if more.contains(&call) { (libc::EPERM, 0) } else { (answers.0, answers.0) };
            assert_eq!(answers, expected, "{call}");
        }
        let fixed_addresses = [libc::ADDR_NO_RANDOMIZE as u64];
        assert_eq!(answer(COMMANDS, libc::SYS_personality, &fixed_addresses), libc::EPERM);
        assert_eq!(answer(DEBUG, libc::SYS_personality, &fixed_addresses), 0);
    }
}
