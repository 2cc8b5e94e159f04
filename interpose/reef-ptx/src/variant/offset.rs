//! Reads of the block's index and of the grid's size, as the whole launch has them.

use crate::text::cursor::Cursor;
use crate::text::edit::Edit;
use crate::text::function::Function;
use std::fmt::Write;

/// Place in the parameter, and whether it is added to the register's value.
fn source(word: &str) -> Option<(u32, bool)> {
    let (register, dimension) = word.split_once('.')?;
    let dimension = match dimension {
        "x" => 0,
        "y" => 4,
        "z" => 8,
        _ => return None,
    };
    match register {
        "%ctaid" => Some((24 + dimension, true)),
        "%nctaid" => Some((36 + dimension, false)),
        _ => None,
    }
}

/// Replaces all reads in a kernel's body.
pub(super) fn add(edit: &mut Edit, kernel: &Function<'_>) {
    let mut count = 0;
    for (statement, instruction, _) in kernel.located() {
        let mut before = String::new();
        for operand in &instruction.operands {
            for token in Cursor::new(operand.text, 0) {
                let Some((place, is_added)) = source(token.text) else { continue };
                // Writing to a string cannot fail.
                let _ = write!(before, "ld.param.u32 %reefs{count}, [$reef+{place}];\n\t");
                if is_added {
                    let _ = write!(before, "mov.u32 %reeft{count}, {};\n\t", token.text);
                    let _ =
                        write!(before, "add.u32 %reefs{count}, %reefs{count}, %reeft{count};\n\t");
                }
                let at = operand.at + token.at;
                edit.replace(at, at + token.text.len(), format!("%reefs{count}"));
                count += 1;
            }
        }
        if !before.is_empty() {
            edit.insert(statement.at, before);
        }
    }
    if count > 0 {
        let registers = format!("\n\t.reg .b32 %reefs<{count}>;\n\t.reg .b32 %reeft<{count}>;");
        edit.insert(kernel.body_at, registers);
    }
}
