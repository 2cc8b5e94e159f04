//! Loads of the live word by a kernel, whose address is the first thing in its parameters.
//!
//! Follows the address through the registers along every path that the kernel may take. What a
//! register *may* hold is kept, so that no load is missed as long as the address is only moved and
//! selected.

use super::listing::{Instruction, Register};
use std::collections::{BTreeMap, BTreeSet};

/// A half of an address that a register may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Half {
    /// Half of the address of the parameters.
    Parameters { high: bool },
    /// Half of the address of the live word.
    Live { high: bool },
}

const PARAMETERS: [Half; 2] = [Half::Parameters { high: false }, Half::Parameters { high: true }];
const LIVE: [Half; 2] = [Half::Live { high: false }, Half::Live { high: true }];

/// Address halves that registers may hold before an instruction.
type State = BTreeSet<(Register, Half)>;

/// A load of the live word.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Load {
    pub(crate) address: u64,
    pub(crate) mnemonic: String,
    /// It bypasses the caches of the compute unit.
    pub(crate) bypasses: bool,
    /// The kernel can come to it again.
    pub(crate) in_loop: bool,
}

/// The loads of a kernel that finds the parameters' address in two scalar registers from this one
/// on.
pub(crate) fn loads(code: &[Instruction], parameters_at: u32) -> Vec<Load> {
    let at = [Register::Scalar(parameters_at), Register::Scalar(parameters_at + 1)];
    let states = flow(code, at.into_iter().zip(PARAMETERS).collect());
    let found = code.iter().filter(|instruction| {
        states.get(&instruction.address).is_some_and(|state| is_live_load(instruction, state))
    });
    found
        .map(|instruction| Load {
            address: instruction.address,
            mnemonic: instruction.mnemonic.clone(),
            bypasses: !is_scalar_load(instruction)
                && instruction.modifiers.iter().any(|modifier| modifier == "glc"),
            in_loop: code.iter().any(|branch| {
                branch.address >= instruction.address
                    && branch.target().is_some_and(|target| target <= instruction.address)
            }),
        })
        .collect()
}

/// The states before each instruction that can be reached: the least that fit together.
fn flow(code: &[Instruction], start: State) -> BTreeMap<u64, State> {
    let places: BTreeMap<u64, usize> =
        code.iter().enumerate().map(|(place, instruction)| (instruction.address, place)).collect();
    let mut states = BTreeMap::new();
    let Some(first) = code.first() else { return states };
    let mut waiting = vec![(first.address, start)];
    while let Some((address, state)) = waiting.pop() {
        let Some(&place) = places.get(&address) else { continue };
        let known = states.get(&address);
        if known.is_some_and(|known: &State| state.is_subset(known)) {
            continue;
        }
        let all: State = state.union(known.unwrap_or(&State::new())).copied().collect();
        let after = step(&code[place], &all);
        states.insert(address, all);
        let next = code.get(place + 1).filter(|_| !code[place].ends());
        let targets = next.map(|next| next.address).into_iter().chain(code[place].target());
        waiting.extend(targets.map(|target| (target, after.clone())));
    }
    states
}

/// Address halves that registers may hold after an instruction.
fn step(instruction: &Instruction, before: &State) -> State {
    if writes_nothing(&instruction.mnemonic) {
        return before.clone();
    }
    let to = instruction.registers(0);
    let mut after: State = before.iter().filter(|(at, _)| !to.contains(at)).copied().collect();
    for operand in 1..instruction.operands.len() {
        let from = instruction.registers(operand);
        if is_move(&instruction.mnemonic) {
            for (&to, from) in to.iter().zip(&from) {
                after.extend(held(before, *from).map(|half| (to, half)));
            }
        }
    }
    if is_scalar_load(instruction) && points(before, &instruction.registers(1), PARAMETERS) {
        let words = offset(instruction).map_or(2, |bytes| bytes / 4);
        let halves = LIVE.iter().skip(words as usize);
        after.extend(to.iter().copied().zip(halves.copied()));
    }
    after
}

/// The offset of a scalar load, if it is a number.
fn offset(instruction: &Instruction) -> Option<u32> {
    u32::from_str_radix(instruction.operands.get(2)?.strip_prefix("0x")?, 16).ok()
}

fn held(state: &State, register: Register) -> impl Iterator<Item = Half> {
    state.iter().filter(move |(at, _)| *at == register).map(|(_, half)| *half)
}

/// Returns whether the first two of these registers may hold this address.
fn points(state: &State, registers: &[Register], address: [Half; 2]) -> bool {
    registers.len() >= 2
        && registers.iter().zip(address).all(|(at, half)| state.contains(&(*at, half)))
}

fn is_live_load(instruction: &Instruction, state: &State) -> bool {
    let vector = ["global_load_", "flat_load_"];
    let is_load = is_scalar_load(instruction)
        || vector.iter().any(|kind| instruction.mnemonic.starts_with(kind));
    let addresses = 1..instruction.operands.len();
    is_load
        && addresses.into_iter().any(|operand| points(state, &instruction.registers(operand), LIVE))
}

fn is_scalar_load(instruction: &Instruction) -> bool {
    instruction.mnemonic.starts_with("s_load_")
}

fn is_move(mnemonic: &str) -> bool {
    ["s_mov_", "s_cmov_", "s_cselect_", "v_mov_", "v_cndmask_", "v_readfirstlane_"]
        .iter()
        .any(|start| mnemonic.starts_with(start))
}

/// Returns whether the first operand is not a result.
fn writes_nothing(mnemonic: &str) -> bool {
    let reads = ["s_cmp", "s_bitcmp", "s_cbranch", "s_branch", "s_waitcnt", "s_nop", "s_barrier"];
    mnemonic.contains("_store_")
        || mnemonic.contains("ds_write")
        || reads.iter().any(|start| mnemonic.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amd::listing::function;

    /// A kernel of these lines, four bytes each.
    fn loads_of(lines: &[&str]) -> Vec<Load> {
        let line = |(i, text): (usize, &&str)| format!("\t{text} // {:012X}: 00000000\n", i * 4);
        let body: String = lines.iter().enumerate().map(line).collect();
        loads(&function(&format!("0000 <k>:\n{body}"), "k"), 4)
    }

    const GUARD: &str = "s_load_dwordx8 s[8:15], s[4:5], 0x0";
    const LIVE_LOAD: &str = "global_load_dword v1, v0, s[8:9] glc";

    #[test]
    fn a_poll_goes_past_the_caches() {
        let load = &loads_of(&[GUARD, LIVE_LOAD])[..];
        assert!(
            matches!(load, [Load { address: 4, bypasses: true, in_loop: false, .. }]),
            "{load:?}"
        );
    }

    #[test]
    fn loads_through_a_cache_are_told_apart() {
        for bad in ["s_load_dword s3, s[8:9], 0x0", "global_load_dword v1, v0, s[8:9]"] {
            let loads = loads_of(&[GUARD, bad]);
            assert!(matches!(loads[..], [Load { bypasses: false, .. }]), "{bad}: {loads:?}");
        }
    }

    #[test]
    fn the_address_is_followed_through_moves() {
        let to_lanes = ["v_mov_b32_e32 v2, s8", "v_mov_b32_e32 v3, s9"];
        let flat = "flat_load_dword v1, v[2:3]";
        assert!(!loads_of(&[GUARD, to_lanes[0], to_lanes[1], flat])[0].bypasses);
        let moved = ["s_mov_b64 s[20:21], s[8:9]", "s_load_dword s3, s[20:21], 0x0"];
        assert_eq!(loads_of(&[GUARD, moved[0], moved[1]])[0].mnemonic, "s_load_dword");
        let parts = ["s_load_dword s9, s[4:5], 0x4", "s_load_dword s8, s[4:5], 0x0"];
        assert_eq!(loads_of(&[parts[0], parts[1], LIVE_LOAD]).len(), 1);
    }

    #[test]
    fn overwritten_address_is_forgotten() {
        assert_eq!(loads_of(&[GUARD, "s_mov_b64 s[8:9], exec", LIVE_LOAD]), []);
        assert_eq!(loads_of(&[GUARD, "global_load_dword v1, v0, s[10:11]"]), [], "other words");
        assert_eq!(
            loads_of(&["s_load_dwordx2 s[8:9], s[4:5], 0x40", LIVE_LOAD]),
            [],
            "other parameters"
        );
    }

    #[test]
    fn every_path_counts() {
        // One path writes over the address, the other jumps there.
        let code = [GUARD, "s_cbranch_scc1 1", "s_mov_b64 s[8:9], exec", LIVE_LOAD];
        assert_eq!(loads_of(&code).len(), 1);
        let ends = [GUARD, "s_cbranch_scc1 1", "s_endpgm", LIVE_LOAD];
        assert_eq!(loads_of(&ends).len(), 1);
    }

    #[test]
    fn a_loop_is_what_can_be_come_to_again() {
        let polls = loads_of(&[GUARD, LIVE_LOAD, "s_cbranch_vccnz 65534"]);
        assert!(polls[0].in_loop, "{polls:?}");
        let hoisted = loads_of(&[GUARD, LIVE_LOAD, "s_nop 0", "s_cbranch_vccnz 65534"]);
        assert!(!hoisted[0].in_loop, "{hoisted:?}");
    }
}
