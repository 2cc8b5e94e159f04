//! One instruction, of whatever encoding.

use super::memory::{ds, flat, mubuf};
use super::scalar::{scalar, smem};
use super::vector::{vector, vop3, vop3p};
use super::words::{Decoded, Undecodable, Words};

/// Decodes one instruction. `second` is the word after the first, if that is mapped.
pub(in crate::isa) fn decode(first: u32, second: Option<u32>) -> Decoded {
    let mut words = Words::new(first, second);
    let mut inst = match first >> 26 {
        0b110000 => smem(&mut words)?,
        0b110100 if first >> 23 & 7 == 7 => vop3p(&mut words)?,
        0b110100 => vop3(&mut words)?,
        0b110110 => ds(&mut words)?,
        0b110111 => flat(&mut words)?,
        0b111000 => mubuf(&mut words)?,
        _ if first >> 31 == 0 => vector(&mut words)?,
        _ if first >> 30 == 0b10 => scalar(&mut words)?,
        _ => return Err(Undecodable::Encoding),
    };
    inst.words = [first, second.unwrap_or(0)];
    inst.len = words.used();
    Ok(inst)
}
