//! Instructions as `llvm-objdump -d` lists them.

use std::ops::Range;

/// A register of a wave, or of its lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Register {
    Scalar(u32),
    Vector(u32),
}

/// One instruction.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Instruction {
    pub(crate) address: u64,
    pub(crate) mnemonic: String,
    pub(crate) operands: Vec<String>,
    /// Words after the operands, such as `glc`.
    pub(crate) modifiers: Vec<String>,
}

impl Instruction {
    /// Reads a line such as `s_branch 1  // 000000002808: BF820001 <append+0x110>`.
    fn parse(line: &str) -> Option<Self> {
        let (text, comment) = line.split_once("//")?;
        let address = u64::from_str_radix(comment.split_once(':')?.0.trim(), 16).ok()?;
        let (mnemonic, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        let mut operands: Vec<_> = rest.split(',').map(|part| part.trim().to_owned()).collect();
        let last = operands.pop().unwrap_or_default();
        let mut words = last.split_whitespace().map(str::to_owned);
        operands.extend(words.next());
        let modifiers = words.collect();
        Some(Self { address, mnemonic: mnemonic.to_owned(), operands, modifiers })
    }

    /// The registers of an operand, in their order; none if it is a number or something special.
    pub(crate) fn registers(&self, operand: usize) -> Vec<Register> {
        let parse = |text: &String| {
            let make = match text.chars().next()? {
                's' => Register::Scalar,
                'v' => Register::Vector,
                _ => return None,
            };
            Some(range(&text[1..])?.map(make).collect())
        };
        self.operands.get(operand).and_then(parse).unwrap_or_default()
    }

    /// Address that it may branch to: branches count in words from the next instruction.
    pub(crate) fn target(&self) -> Option<u64> {
        if !self.mnemonic.starts_with("s_cbranch_") && self.mnemonic != "s_branch" {
            return None;
        }
        let words: u16 = self.operands.first()?.parse().ok()?;
        self.address.checked_add_signed(4 + 4 * i64::from(words.cast_signed()))
    }

    /// Returns whether execution never goes on with the instruction after it.
    pub(crate) fn ends(&self) -> bool {
        ["s_branch", "s_endpgm", "s_setpc_b64"].contains(&self.mnemonic.as_str())
    }
}

/// `7` or `[4:7]`.
fn range(text: &str) -> Option<Range<u32>> {
    let Some(pair) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) else {
        let number: u32 = text.parse().ok()?;
        return Some(number..number + 1);
    };
    let (first, last) = pair.split_once(':')?;
    Some(first.parse().ok()?..last.parse::<u32>().ok()? + 1)
}

/// The instructions of one function of a listing.
pub(crate) fn function(listing: &str, name: &str) -> Vec<Instruction> {
    let head = format!(" <{name}>:");
    let lines = listing.lines().skip_while(|line| !line.ends_with(&head)).skip(1);
    lines.take_while(|line| !line.ends_with(">:")).filter_map(Instruction::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
0000000000002700 <append>:
\ts_load_dwordx8 s[12:19], s[6:7], 0x0                       // 000000002710: C00E0303 00000000
\tglobal_load_dword v4, v0, s[14:15] offset:16 glc           // 000000002840: DC518000 040E0000
\ts_cbranch_vccnz 65529                                      // 000000002A14: BF87FFF9 <append+0x2fc>
\ts_endpgm                                                   // 000000002A18: BF810000

0000000000002c00 <add>:
\ts_endpgm                                                   // 000000002C00: BF810000
";

    #[test]
    fn a_function_is_read_up_to_the_next() {
        let append = function(LISTING, "append");
        assert_eq!(append.len(), 4);
        assert_eq!(append[1].modifiers, ["offset:16", "glc"]);
        let scalars: Vec<_> = (12..20).map(Register::Scalar).collect();
        assert_eq!(append[0].registers(0), scalars);
        assert_eq!(append[1].registers(1), [Register::Vector(0)]);
        assert_eq!(append[0].registers(2), [], "a number");
        assert!(append[3].ends() && append[3].target().is_none());
        assert_eq!(function(LISTING, "add").len(), 1);
        assert!(function(LISTING, "none").is_empty());
    }

    #[test]
    fn branches_go_back_as_well() {
        assert_eq!(function(LISTING, "append")[2].target(), Some(0x29fc));
    }
}
