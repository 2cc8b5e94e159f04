//! The opcode table: every line of [`ops`](super::ops) by its format and number.

use std::sync::LazyLock;

use super::inst::{Format, Op};
use super::ops::opcodes;

/// Lines of all formats; a line's place is its format's first place plus its number.
static TABLE: LazyLock<Vec<Option<&'static Op>>> = LazyLock::new(|| {
    let mut table = vec![None; place(Format::Mubuf, 0) + 0x400];
    for op in opcodes::all() {
        table[place(op.format, op.code)] = Some(op);
    }
    table
});

fn place(format: Format, code: u16) -> usize {
    format as usize * 0x400 + usize::from(code)
}

/// The line of an opcode.
pub(super) fn find(format: Format, code: u16) -> Option<&'static Op> {
    TABLE.get(place(format, code)).copied().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_lines_have_the_same_number_or_name() {
        let ops: Vec<_> = opcodes::all().collect();
        for (at, op) in ops.iter().enumerate() {
            let same = |other: &&&Op| {
                other.format == op.format && (other.code == op.code || other.name == op.name)
            };
            let other = ops[at + 1..].iter().find(same);
            assert!(other.is_none(), "{op:?} and {other:?}");
        }
    }
}
