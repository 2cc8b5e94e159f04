//! Kernels that may run again after they have run, wholly or in part.
//!
//! A kernel is idempotent if it reads no memory that it writes. Memory is told apart by the
//! parameter or variable that an address comes from; two parameters may point to one place, which
//! only a launch shows.

use super::facts::Facts;
use super::reason::{Cause, KernelMemory, Reason};
use super::refuse::callee;
use crate::flow::access::{Access, AccessKind};
use crate::flow::roots::{Mask, Root, UNKNOWN};
use std::collections::BTreeSet;
use std::fmt::{self, Display};

/// Reason for which a kernel is idempotent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Idempotent {
    /// It writes no memory that others see.
    WritesNothing,
    /// It reads no memory that others see.
    ReadsNothing,
}

/// Verdict on a second run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rerun {
    /// A second run changes nothing.
    Yes(Idempotent),
    /// As `Yes`, if the memory of these pairs does not overlap. The first of each is written.
    IfDistinct(Vec<(KernelMemory, KernelMemory)>),
    /// A second run may change results.
    No(Reason),
    /// The text does not tell.
    Unknown(Reason),
}

impl Rerun {
    /// Short name for tables and JSON.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Yes(_) => "yes",
            Self::IfDistinct(_) => "if distinct",
            Self::No(_) => "no",
            Self::Unknown(_) => "unknown",
        }
    }

    /// Reason of a `No` or `Unknown`.
    pub const fn reason(&self) -> Option<&Reason> {
        match self {
            Self::No(reason) | Self::Unknown(reason) => Some(reason),
            _ => None,
        }
    }
}

impl Display for Rerun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Yes(Idempotent::WritesNothing) => f.write_str("it writes nothing"),
            Self::Yes(Idempotent::ReadsNothing) => f.write_str("it reads nothing"),
            Self::IfDistinct(pairs) => {
                f.write_str("if these do not overlap: ")?;
                for (at, (written, read)) in pairs.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(f, "{comma}{written} and {read}")?;
                }
                Ok(())
            }
            Self::No(reason) | Self::Unknown(reason) => write!(f, "{reason}"),
        }
    }
}

/// Registers whose values another run does not repeat.
const CLOCKS: &[&str] = &["%clock", "%globaltimer", "%smid", "%nsmid", "%warpid", "%pm"];

/// Answers whether a kernel may run again.
pub(super) fn rerun(facts: &Facts<'_, '_>) -> Rerun {
    if let Some(op) = facts.wait {
        return Rerun::No(facts.reason(Cause::Waits, op));
    }
    if let Some(access) =
        of_kind(facts, AccessKind::Update).find(|access| !is_harmless(facts, access))
    {
        return Rerun::No(facts.reason(Cause::Atomic, access.op));
    }
    if let Some(reason) = unknown(facts) {
        return Rerun::Unknown(reason);
    }
    distinct(facts)
}

fn of_kind<'f>(facts: &'f Facts<'_, '_>, kind: AccessKind) -> impl Iterator<Item = &'f Access> {
    facts.accesses.iter().filter(move |access| access.kind == kind)
}

/// Returns whether an atomic operation gives the same when it is repeated, and its result is not
/// used: minimum, maximum, and, or. The memory must not be read otherwise, as for a store.
fn is_harmless(facts: &Facts<'_, '_>, access: &Access) -> bool {
    let op = &facts.code.ops[access.op];
    let is_stable = ["min", "max", "and", "or"].iter().any(|name| op.instruction.has(name));
    let is_used = |result| {
        facts.code.ops.iter().any(|op| op.guard == Some(result) || op.read().any(|r| r == result))
    };
    is_stable
        && matches!(op.instruction.base(), "atom" | "red")
        && !op.written().iter().any(|result| is_used(*result))
}

/// First property that hides what the kernel does.
fn unknown(facts: &Facts<'_, '_>) -> Option<Reason> {
    if let Some(op) = facts.find(|op| op.base() == "call") {
        let name = callee(facts.code.ops[op].instruction);
        let cause = match name.filter(|name| facts.module.function(name).is_some()) {
            Some(name) => Cause::CallsFunction(name.to_owned()),
            None => Cause::CallsByAddress,
        };
        return Some(facts.reason(cause, op));
    }
    if let Some(access) = of_kind(facts, AccessKind::Unknown).next() {
        let name = facts.code.ops[access.op].instruction.opcode.to_owned();
        return Some(facts.reason(Cause::UnknownInstruction(name), access.op));
    }
    let is_strong = |access: &&Access| access.is_strong && access.kind != AccessKind::Update;
    if let Some(access) = facts.accesses.iter().find(is_strong) {
        return Some(facts.reason(Cause::Strong, access.op));
    }
    facts.find_word(CLOCKS).map(|op| facts.reason(Cause::Clock, op))
}

/// Compares the memory that is written with the memory that is read.
fn distinct(facts: &Facts<'_, '_>) -> Rerun {
    let is_lost = |access: &&Access| access.roots == 0 || access.roots & UNKNOWN != 0;
    let writes: Vec<&Access> =
        facts.accesses.iter().filter(|access| access.kind != AccessKind::Read).collect();
    let reads: Vec<&Access> = of_kind(facts, AccessKind::Read).collect();
    if writes.is_empty() {
        return Rerun::Yes(Idempotent::WritesNothing);
    }
    if reads.is_empty() {
        return Rerun::Yes(Idempotent::ReadsNothing);
    }
    if let Some(access) = writes.iter().copied().find(is_lost) {
        return Rerun::Unknown(facts.reason(Cause::LostStore, access.op));
    }
    if let Some(access) = reads.iter().copied().find(is_lost) {
        return Rerun::Unknown(facts.reason(Cause::LostLoad, access.op));
    }
    let written: Mask = writes.iter().fold(0, |mask, access| mask | access.roots);
    let read: Mask = reads.iter().fold(0, |mask, access| mask | access.roots);
    if let Some(access) = writes.iter().find(|access| access.roots & read != 0) {
        let root = facts.roots.named(access.roots & read).next().map(place);
        let root = root.unwrap_or(KernelMemory::Variable(String::new()));
        return Rerun::Unknown(facts.reason(Cause::SameMemory(root), access.op));
    }
    let mut pairs = BTreeSet::new();
    for to in facts.roots.named(written) {
        for from in facts.roots.named(read) {
            pairs.insert((place(to), place(from)));
        }
    }
    Rerun::IfDistinct(pairs.into_iter().collect())
}

fn place(root: Root<'_>) -> KernelMemory {
    match root {
        Root::Parameter(at, offset) => KernelMemory::Parameter(at, offset),
        Root::Variable(name) => KernelMemory::Variable(name.to_owned()),
    }
}
