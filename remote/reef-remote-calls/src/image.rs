//! Length of an image that a program gives by its address alone.

/// Magic number of a fat binary.
const FATBIN: u32 = 0xBA55_ED50;
/// Magic number of an ELF file.
const ELF: u32 = 0x464C_457F;

/// Returns the number of bytes of an image, from its header.
///
/// It is a fat binary, an ELF file, or text that ends with a zero, which counts.
///
/// `read` returns the bytes at an offset, as many as it is asked for.
///
/// # Errors
///
/// The part of the header that is wrong.
pub fn image_len(read: impl Fn(usize, usize) -> Vec<u8>) -> Result<usize, &'static str> {
    let number = |offset: usize, len: usize| {
        let bytes = read(offset, len);
        bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte))
    };
    match number(0, 4) as u32 {
        FATBIN => {
            let (header, rest) = (number(6, 2), number(8, 8));
            usize::try_from(header.saturating_add(rest)).map_err(|_| "fat binary: its size")
        }
        ELF => {
            if number(4, 1) != 2 {
                return Err("ELF: must have 64 bits");
            }
            let table = |at: usize, entry: usize, count: usize| {
                number(at, 8).saturating_add(number(entry, 2) * number(count, 2))
            };
            let mut end = table(40, 58, 60).max(table(32, 54, 56));
            let (sections, entry, count) = (number(40, 8), number(58, 2), number(60, 2));
            for section in 0..count {
                let at = sections.saturating_add(section * entry) as usize;
                let is_empty = number(at + 4, 4) == 8; // SHT_NOBITS
                let last = number(at + 24, 8).saturating_add(number(at + 32, 8));
                end = end.max(if is_empty { 0 } else { last });
            }
            let (segments, entry, count) = (number(32, 8), number(54, 2), number(56, 2));
            for segment in 0..count {
                let at = segments.saturating_add(segment * entry) as usize;
                end = end.max(number(at + 8, 8).saturating_add(number(at + 32, 8)));
            }
            usize::try_from(end).map_err(|_| "ELF: its size")
        }
        _ => {
            let mut len = 0;
            while read(len, 1) != [0] {
                len += 1;
            }
            Ok(len + 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn len(bytes: &[u8]) -> Result<usize, &'static str> {
        image_len(|at, len| bytes.get(at..at + len).unwrap_or(&[0; 8][..len.min(8)]).to_vec())
    }

    #[test]
    fn text_ends_with_a_zero() {
        assert_eq!(len(b".version 8.0\n\0rest"), Ok(14));
        assert_eq!(len(b"\0"), Ok(1));
    }

    #[test]
    fn fat_binary_has_its_size_in_the_header() {
        let mut bytes = FATBIN.to_le_bytes().to_vec();
        bytes.extend([1, 0, 16, 0]);
        bytes.extend(1000_u64.to_le_bytes());
        assert_eq!(len(&bytes), Ok(1016));
    }

    #[test]
    fn elf_ends_after_its_last_section() {
        let mut bytes = vec![0_u8; 64 + 64];
        bytes[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2]);
        bytes[40] = 64; // section headers
        bytes[58] = 64;
        bytes[60] = 1;
        bytes[64 + 4] = 1; // SHT_PROGBITS
        bytes[64 + 24..64 + 26].copy_from_slice(&[0, 2]);
        bytes[64 + 32] = 9;
        assert_eq!(len(&bytes), Ok(512 + 9));
        bytes[4] = 1;
        assert!(len(&bytes).is_err());
    }

    /// The server refuses an image that is cut off in a segment.
    #[test]
    fn elf_ends_after_its_last_segment() {
        let mut bytes = vec![0_u8; 64 + 56];
        bytes[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2]);
        bytes[32] = 64; // program headers
        bytes[54] = 56;
        bytes[56] = 1;
        assert_eq!(len(&bytes), Ok(64 + 56));
        bytes[64 + 8..64 + 10].copy_from_slice(&[0, 2]);
        bytes[64 + 32] = 9;
        assert_eq!(len(&bytes), Ok(512 + 9));
    }
}
