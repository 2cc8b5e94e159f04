//! Test that the vectors notice a wrong operation: each opcode is run with the operation of every
//! other opcode of its format, and with none, and some case of it must fail.

use std::collections::{BTreeMap, BTreeSet};

use super::golden::{Case, Golden};
use super::inst::{Inst, Op, Run};
use super::ops::opcodes;

/// Opcodes that do the same here, so that no vector could tell them apart.
const ALIKE: &[&[&str]] = &[
    &["s_cmp_eq_i32", "s_cmp_eq_u32"],
    &["s_cmp_lg_i32", "s_cmp_lg_u32"],
    &["s_load_dword", "s_buffer_load_dword"],
    &["s_memtime", "s_memrealtime"],
    &["v_rcp_f32", "v_rcp_iflag_f32"],
    &["v_exp_f32", "v_exp_legacy_f32"],
    &["v_log_f32", "v_log_legacy_f32"],
    &["v_mad_legacy_u16", "v_mad_legacy_i16"],
    &["v_mad_u16", "v_mad_i16"],
    &["v_pk_mad_i16", "v_pk_mad_u16"],
    // A comparison that fails leaves a read; reads don't name what would succeed.
    &["ds_read_b32", "ds_cmpst_rtn_b32"],
    &["ds_read_b32", "ds_cmpst_rtn_f32"],
    &["ds_read_b64", "ds_cmpst_rtn_b64"],
    &["ds_read_b64", "ds_cmpst_rtn_f64"],
    // With the operands of a `v_nop`.
    &["v_nop", "v_readfirstlane_b32"],
    &["v_nop", "v_swap_b32"],
    // Without a result.
    &["atomic_swap", "store_dword"],
    &["atomic_swap_x2", "store_dwordx2"],
];

/// Idle ones that have no immediate, which would be a jump to the next instruction.
const BARE: &[&str] = &["s_icache_inv", "s_ttracedata", "s_wakeup"];

/// Opcodes that change nothing that a wave sees.
const IDLE: &[&str] = &[
    "s_nop",
    "s_wakeup",
    "s_waitcnt",
    "s_setprio",
    "s_icache_inv",
    "s_incperflevel",
    "s_decperflevel",
    "s_ttracedata",
    "s_dcache_inv",
    "s_dcache_wb",
    "s_dcache_inv_vol",
    "s_dcache_wb_vol",
    "v_nop",
    "ds_nop",
    "buffer_wbinvl1",
    "buffer_wbinvl1_vol",
];

/// Comparisons that don't depend on the type: by test, and by whether they set the active lanes.
fn test_of(name: &str) -> Option<(&str, &str)> {
    let (kind, rest) = name.strip_prefix("v_")?.split_once('_')?;
    let (test, of) = rest.rsplit_once('_')?;
    let test = if test == "tru" { "t" } else { test };
    let integer = !of.starts_with('f');
    let same = matches!(test, "f" | "t") || (integer && matches!(test, "eq" | "ne"));
    same.then_some((kind, test))
}

fn alike(a: &str, b: &str) -> bool {
    let width = |name: &str| name[name.len() - 2..].to_owned();
    let always = |name| test_of(name).is_some_and(|(_, test)| matches!(test, "f" | "t"));
    let passes = |name| test_of(name).is_some_and(|(_, test)| test == "t");
    let idle = |name| IDLE.contains(&name);
    (idle(a) && idle(b))
        || (idle(a) && b == "s_set_gpr_idx_off")
        || (BARE.contains(&a) && b.contains("branch"))
        || ALIKE.iter().any(|group| group.contains(&a) && group.contains(&b))
        || (test_of(a).is_some()
            && test_of(b).is_some()
            // Lanes that all pass stay active.
            && (test_of(a) == test_of(b) || (passes(a) && passes(b)))
            && (always(a) || width(a) == width(b)))
}

struct Subject<'a> {
    golden: &'a Golden,
    op: &'static Op,
    cases: Vec<&'a Case>,
}

impl Subject<'_> {
    /// Returns whether some case fails with this operation in place of the right one.
    fn notices(&self, run: Run) -> bool {
        let change = |inst: Inst| Inst { run, ..inst };
        self.cases.iter().any(|case| self.golden.run(case, change).is_err())
    }

    /// Wrong operations that it can't tell from the right one, and should.
    fn survivors(&self) -> Vec<String> {
        let others =
            opcodes::all().filter(|op| op.format == self.op.format && op.name != self.op.name);
        let mut out: Vec<_> = others
            .filter(|other| !alike(self.op.name, other.name) && !self.notices(other.run))
            .map(|other| format!("{} passes as {}", other.name, self.op.name))
            .collect();
        if !IDLE.contains(&self.op.name) && !self.notices(Run::Alu(|_, _| ())) {
            out.push(format!("nothing passes as {}", self.op.name));
        }
        out
    }
}

#[test]
fn a_wrong_operation_is_noticed_for_every_opcode() {
    let golden = Golden::read();
    let mut cases = BTreeMap::<_, Vec<_>>::new();
    for case in &golden.cases {
        cases.entry(case.name).or_default().push(case);
    }
    let subjects: Vec<_> = opcodes::all()
        .map(|op| Subject { golden: &golden, op, cases: cases.remove(op.name).unwrap_or_default() })
        .collect();
    let half = subjects.len() / 2;
    let survivors: BTreeSet<_> = std::thread::scope(|scope| {
        let parts = [&subjects[..half], &subjects[half..]];
        let threads = parts.map(|part| {
            scope.spawn(|| part.iter().flat_map(Subject::survivors).collect::<Vec<_>>())
        });
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let shown: Vec<_> = survivors.iter().take(60).cloned().collect();
    assert!(survivors.is_empty(), "{} survivors:\n{}", survivors.len(), shown.join("\n"));
}

#[test]
fn every_opcode_has_cases() {
    let golden = Golden::read();
    let named: BTreeSet<_> = golden.cases.iter().map(|case| case.name).collect();
    let lacking: Vec<_> =
        opcodes::all().map(|op| op.name).filter(|name| !named.contains(name)).collect();
    assert!(lacking.is_empty(), "{lacking:?}");
}
