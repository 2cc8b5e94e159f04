//! Kernels that may have no variant, and why.

use super::facts::Facts;
use super::reason::{Cause, Reason};
use crate::flow::access::accesses;
use crate::flow::code::Code;
use crate::flow::loops::Loops;
use crate::flow::roots::Roots;
use crate::flow::waits::wait;
use crate::text::cursor::words;
use crate::text::function::{Function, offsets};
use crate::text::module::Variable;
use crate::text::statement::Instruction;

/// Bytes of the variant's own parameter.
pub(crate) const PARAMETER_BYTES: u64 = 64;

/// Upper bound of a kernel's parameters, in bytes, before version 8.1 of PTX.
const MAX_PARAMETERS: u64 = 4096;

/// Functions of the system that wait for no block.
const SYSTEM: &[&str] = &["vprintf", "malloc", "free", "__assertfail"];

const CLUSTER: &[&str] =
    &["%clusterid", "%cluster_", "%nclusterid", "%is_explicit_cluster", "%nclusters"];

/// Answers whether blocks that have not begun may be held back, and run later.
///
/// # Errors
///
/// The reason against it.
pub(crate) fn may_be_stopped(facts: &Facts<'_, '_>) -> Result<(), Reason> {
    let function = facts.code.function;
    let (_, bytes) = offsets(&function.parameters);
    if bytes.next_multiple_of(8).saturating_add(PARAMETER_BYTES) > MAX_PARAMETERS {
        return Err(Reason::new(Cause::LongParameters(bytes)));
    }
    if let Some(op) = facts.wait {
        return Err(facts.reason(Cause::Waits, op));
    }
    instructions(facts)?;
    functions(facts)?;
    variables(facts)?;
    let is_reserved = |word: &str| word.starts_with("%reef") || word.starts_with("$reef");
    let text = &facts.module.text;
    if (text.contains("%reef") || text.contains("$reef")) && words(text).any(is_reserved) {
        return Err(Reason::new(Cause::Reserved));
    }
    Ok(())
}

/// Answers whether a launch may be cut into several, each with a part of its blocks.
///
/// # Errors
///
/// The reason against it.
pub(crate) fn may_be_sliced(facts: &Facts<'_, '_>) -> Result<(), Reason> {
    may_be_stopped(facts)?;
    if let Some(op) = facts.find_word(&["%gridid"]) {
        return Err(facts.reason(Cause::GridNumber, op));
    }
    for function in &facts.functions {
        let mut operands = function.located().flat_map(|(_, op, _)| &op.operands);
        if operands.any(|operand| words(operand.text).any(is_index)) {
            return Err(Reason::new(Cause::IndexInFunction(function.name.to_owned())));
        }
    }
    let is_vector = |word: &str| matches!(word, "%ctaid" | "%nctaid");
    let vector = facts.find(|instruction| {
        let has_narrow = instruction.has("u16") || instruction.has("b16");
        let mut words = instruction.operands.iter().flat_map(|operand| words(operand.text));
        words.any(|word| is_vector(word) || has_narrow && is_index(word))
    });
    match vector {
        Some(op) => Err(facts.reason(Cause::IndexForm, op)),
        None => Ok(()),
    }
}

/// Returns whether a word is the index of the block or the size of the grid.
fn is_index(word: &str) -> bool {
    matches!(word.split('.').next(), Some("%ctaid" | "%nctaid"))
}

fn instructions(facts: &Facts<'_, '_>) -> Result<(), Reason> {
    let directives = facts.code.function.directives;
    if directives.contains(".reqnctapercluster") || directives.contains(".explicitcluster") {
        return Err(Reason::new(Cause::Cluster));
    }
    let cluster = facts.find_word(CLUSTER).or_else(|| {
        facts.find(|op| {
            op.base() == "barrier" && op.has("cluster")
                || op.base() == "mapa"
                || op.has("multicast::cluster")
        })
    });
    let by_base = |base: &str| facts.find(|op| op.base() == base);
    let found = [
        (cluster, Cause::Cluster),
        (by_base("multimem"), Cause::Multimem),
        (by_base("clusterlaunchcontrol"), Cause::WorkStealing),
        (facts.find_word(&["%envreg"]), Cause::Environment),
    ];
    for (op, cause) in found {
        if let Some(op) = op {
            return Err(facts.reason(cause, op));
        }
    }
    Ok(())
}

/// Functions that are called have code here, and don't wait.
fn functions(facts: &Facts<'_, '_>) -> Result<(), Reason> {
    let known = |name: &str| facts.functions.iter().any(|function| function.name == name);
    if let Some(op) = facts.find(|op| op.base() == "call" && !callee(op).is_some_and(known)) {
        return Err(facts.reason(Cause::CallsByAddress, op));
    }
    for function in &facts.functions {
        let definition = facts.module.function(function.name).unwrap_or(function);
        if definition.body.is_some() {
            inner(facts, definition)?;
        } else if !SYSTEM.contains(&function.name) {
            let calls = |op: &Instruction<'_>| callee(op) == Some(function.name);
            let cause = Cause::Calls(function.name.to_owned());
            return Err(match facts.find(calls) {
                Some(op) => facts.reason(cause, op),
                None => Reason::new(cause),
            });
        }
    }
    Ok(())
}

fn inner(facts: &Facts<'_, '_>, function: &Function<'_>) -> Result<(), Reason> {
    let code = Code::read(function).ok_or_else(|| Reason::new(Cause::Unreadable))?;
    let accesses = accesses(&code, &Roots::of(facts.module, &code));
    let reason = |cause, op: usize| {
        let op = &code.ops[op];
        let source = op.loc.and_then(|loc| facts.module.source_line(loc));
        Reason { cause, line: Some(facts.module.line(op.at)), source }
    };
    if let Some(op) = wait(&code, &Loops::of(&code), &accesses) {
        return Err(reason(Cause::Waits, op));
    }
    let is_known = |name: &str| facts.functions.iter().any(|known| known.name == name);
    let by_address = code.ops.iter().position(|op| {
        op.instruction.base() == "call" && !callee(op.instruction).is_some_and(is_known)
    });
    by_address.map_or(Ok(()), |op| Err(reason(Cause::CallsByAddress, op)))
}

/// Name that a call names as its function, which may be a register.
pub(super) fn callee<'a>(op: &Instruction<'a>) -> Option<&'a str> {
    let has_result = op.operand(0).starts_with('(');
    (op.base() == "call").then(|| op.operands.get(usize::from(has_result)).map(|name| name.text))?
}

/// Beginnings of the names of variables that compilers make and nothing writes: texts, tables.
const CONSTANTS: &[&str] = &["$", "__cudart_", "__unnamed_"];

/// Variables that a variant's own module would have another instance of. The program may write
/// those that its source names, with or without `static`.
fn variables(facts: &Facts<'_, '_>) -> Result<(), Reason> {
    let is_state = |variable: &&Variable<'_>| match variable.space {
        "shared" => false,
        _ => {
            let is_constant = CONSTANTS.iter().any(|begin| variable.name.starts_with(begin));
            !variable.is_initialised || variable.is_visible || !is_constant
        }
    };
    match facts.variables.iter().find(is_state) {
        Some(variable) => {
            let cause = Cause::ModuleVariable(variable.name.to_owned());
            Err(match facts.find_word(&[variable.name]) {
                Some(op) => facts.reason(cause, op),
                None => Reason::new(cause),
            })
        }
        None => Ok(()),
    }
}
