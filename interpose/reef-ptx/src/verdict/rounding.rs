//! Kernels whose results may depend on the compiler.

use crate::text::function::Function;
use crate::text::statement::Instruction;

const FLOATS: [&str; 7] = ["f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64"];
const ROUNDINGS: [&str; 4] = ["rn", "rz", "rm", "rp"];

/// Returns whether two compilers may give a function's results other last bits: a product and a sum
/// without a rounding may become one instruction (PTX ISA 9.0, `mul` and `add`), and approximations
/// are sequences of the compiler's choice.
pub(crate) fn depends_on_compiler(function: &Function<'_>) -> bool {
    function.located().any(|(_, instruction, _)| is_free(instruction))
}

fn is_free(instruction: &Instruction<'_>) -> bool {
    let has = |name: &&str| instruction.has(name);
    if !FLOATS.iter().any(has) {
        return false;
    }
    match instruction.base() {
        "add" | "sub" | "mul" | "mad" => !ROUNDINGS.iter().any(has),
        _ => instruction.has("approx") || instruction.has("full"),
    }
}
