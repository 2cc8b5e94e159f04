//! Memory that an image takes on a device, read from it, because the driver doesn't return it.

use super::declarations::declarations;
use super::fatbin::{self, Entry, Kind, MAGIC as FATBIN};
use super::{contents, cubin};
use crate::error::Error;

/// Memory of an image on a device, in bytes, at most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Variables in global and constant memory.
    pub data: u64,
    /// Machine code, which is loaded at once or at its first use.
    pub code: u64,
    /// A part of the image can't be read, and counts as nothing.
    pub is_unknown: bool,
}

impl Footprint {
    /// An image that can't be read.
    pub const UNKNOWN: Self = Self { data: 0, code: 0, is_unknown: true };

    /// Reads a CUBIN, a fatbin or PTX, for devices of this compute capability, such as 90; zero:
    /// any. Of PTX the size of the machine code is unknown, and counts as none.
    pub fn of(image: &[u8], capability: u32) -> Self {
        Self::read(image, capability, false)
    }

    /// Reads an image of which a driver may load the PTX although there is machine code.
    pub fn of_any(image: &[u8]) -> Self {
        Self::read(image, 0, true)
    }

    fn read(image: &[u8], capability: u32, may_ignore_machine: bool) -> Self {
        let read = if image.starts_with(&FATBIN) {
            of_fatbin(image, capability, may_ignore_machine)
        } else if image.starts_with(&cubin::MAGIC) {
            of_cubin(image)
        } else if image.starts_with(b"\x7f") {
            Ok(Self::UNKNOWN) // of a later kind, and not a text
        } else {
            Ok(of_text(image))
        };
        read.unwrap_or(Self::UNKNOWN)
    }

    /// The larger of each: an image has the same code for several kinds of devices, of which one
    /// is loaded.
    fn or(self, other: Self) -> Self {
        Self {
            data: self.data.max(other.data),
            code: self.code.max(other.code),
            is_unknown: self.is_unknown || other.is_unknown,
        }
    }
}

fn of_cubin(image: &[u8]) -> Result<Footprint, Error> {
    let (data, code) = cubin::sizes(image)?;
    Ok(Footprint { data, code, is_unknown: false })
}

fn of_text(text: &[u8]) -> Footprint {
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let data = declarations(&text).into_iter();
    let data = data.fold(0, |sum: u64, of| sum.saturating_add(of.bytes));
    Footprint { data, ..Footprint::default() }
}

/// The largest entry for a device: its own machine code. If there is none, or the driver may ignore
/// it: the largest one among text and machine code that the device can run.
fn of_fatbin(image: &[u8], capability: u32, may_ignore_machine: bool) -> Result<Footprint, Error> {
    let entries: Vec<_> = fatbin::split(image)?.0.collect::<Result<_, _>>()?;
    let largest = |kind: Kind, fits: &dyn Fn(&Entry<'_>) -> bool| {
        let fitting = entries.iter().filter(|entry| entry.kind == kind && fits(entry));
        fitting.map(of_entry).reduce(Footprint::or)
    };
    let is_own = |entry: &Entry<'_>| capability == 0 || entry.capability == capability;
    let own = largest(Kind::Machine, &is_own).filter(|own| !own.is_unknown);
    if let Some(own) = own.filter(|_| !may_ignore_machine) {
        return Ok(own);
    }
    // A device runs the machine code of those before it with the same first digit. The driver may
    // prefer to compile a text.
    let is_run = |of: u32| of / 10 == capability / 10 && of <= capability;
    let machine = largest(Kind::Machine, &|entry| capability == 0 || is_run(entry.capability));
    Ok(match (machine, largest(Kind::Ptx, &|_| true)) {
        (Some(machine), Some(text)) => machine.or(text),
        // Code of a kind that isn't read, perhaps.
        (machine, text) => machine.or(text).unwrap_or(Footprint::UNKNOWN),
    })
}

fn of_entry(entry: &Entry<'_>) -> Footprint {
    let of_code = |code: &[u8]| match entry.kind {
        Kind::Ptx => Ok(of_text(code)),
        _ => of_cubin(code),
    };
    let code = contents::code(entry).ok().flatten();
    code.and_then(|code| of_code(&code).ok()).unwrap_or(Footprint::UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::super::fatbin::tests::{joined, of};
    use super::*;

    const CUBIN: &[u8] = include_bytes!("../../tests/corpus/scale_in_place.cubin");

    /// A CUBIN with a section of this length that has no bytes, as variables have.
    fn with_variables(bytes: u64) -> Vec<u8> {
        with_names(b"\0.shstrtab\0.nv.global\0.text.k\0\0\0", bytes, 22)
    }

    /// A CUBIN with three sections of these names, a multiple of eight: the names, one at 11 of
    /// this length that has no bytes, and code.
    fn with_names(names: &[u8], bytes: u64, code: u32) -> Vec<u8> {
        let section = |name: u32, kind: u32, at: u64, bytes: u64| {
            let mut header = [0_u8; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[4..8].copy_from_slice(&kind.to_le_bytes());
            header[24..32].copy_from_slice(&at.to_le_bytes());
            header[32..40].copy_from_slice(&bytes.to_le_bytes());
            header
        };
        let mut image = vec![0_u8; 64];
        image[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        image[18..20].copy_from_slice(&190_u16.to_le_bytes()); // EM_CUDA
        image[20] = 1;
        image[40..48].copy_from_slice(&(64 + names.len() as u64).to_le_bytes());
        image[58..64].copy_from_slice(&[64, 0, 4, 0, 1, 0]);
        image.extend(names);
        image.extend(section(0, 0, 0, 0));
        image.extend(section(1, 3, 64, names.len() as u64));
        image.extend(section(11, 8, 0, bytes)); // no bits
        image.extend(section(code, 1, 64, 8));
        image
    }

    fn data(image: &[u8]) -> (u64, bool) {
        let Footprint { data, is_unknown, .. } = Footprint::of(image, 0);
        (data, is_unknown)
    }

    #[test]
    fn sections_with_variables_and_code_are_counted() {
        let want = Footprint { data: 256 << 20, code: 8, is_unknown: false };
        assert_eq!(Footprint::of(&with_variables(256 << 20), 90), want);
        assert_eq!(Footprint::of(&of(2, &with_variables(256 << 20), 0, 0), 90), want);
        let file = Footprint::of(CUBIN, 90);
        assert!(file.code > 0 && !file.is_unknown);
    }

    #[test]
    fn constants_are_counted() {
        let machine =
            with_names(b"\0.shstrtab\0.nv.constant3\0.text.k\0\0\0\0\0\0\0\0", 65_536, 25);
        assert_eq!((data(&machine), Footprint::of(&machine, 90).code), ((65_536, false), 8));
        let parameters =
            with_names(b"\0.shstrtab\0.nv.constant0.k\0.text.k\0\0\0\0\0\0", 65_536, 27);
        assert_eq!(data(&parameters), (0, false), "a kernel's own");
        assert_eq!(data(b".const .b8 a[65536]; .global .b8 b[1];"), (65_537, false));
    }

    #[test]
    fn image_at_an_odd_address_is_read() {
        let want = Footprint::of(CUBIN, 90);
        let mut room = vec![0; CUBIN.len() + 8];
        for begin in 0..8 {
            room[begin..begin + CUBIN.len()].copy_from_slice(CUBIN);
            assert_eq!(Footprint::of(&room[begin..begin + CUBIN.len()], 90), want, "{begin}");
        }
    }

    #[test]
    fn largest_machine_code_of_a_fatbin_counts() {
        let code = |bytes| of(2, &with_variables(bytes), 0, 0);
        let text = of(1, b".global .b8 a[30];\0", 0, 0);
        assert_eq!(data(&joined(&[code(10), code(20), text.clone()])), (20, false));
        assert_eq!(data(&text), (30, false));
        let both = joined(&[code(20), text]);
        let on = |capability| Footprint::of(&both, capability).data;
        assert_eq!((on(90), on(86)), (20, 30), "machine code of 9.0 is none for 8.x");
    }

    #[test]
    fn text_counts_where_no_machine_code_is_run() {
        let code = |capability: u8| {
            let mut image = of(2, &with_variables(20), 0, 0);
            image[16 + 28] = capability;
            image
        };
        let text = of(1, b".global .b8 a[30];\0", 0, 0);
        let newer = joined(&[code(89), text.clone()]);
        let on = |capability| Footprint::of(&newer, capability).data;
        assert_eq!((on(89), on(86)), (20, 30), "machine code of 8.9 is none for 8.6");
        let older = joined(&[code(80), text.clone()]);
        assert_eq!(Footprint::of(&older, 86).data, 30, "either may be taken");
        let own = joined(&[code(86), text]);
        assert_eq!(Footprint::of(&own, 86).data, 20);
        assert_eq!(Footprint::of_any(&own).data, 30, "the driver was told to take text");
    }

    #[test]
    fn image_that_is_cut_off_is_unknown() {
        let whole = with_variables(10);
        for len in 4..whole.len() {
            assert_eq!(Footprint::of(&whole[..len], 90), Footprint::UNKNOWN, "{len}");
        }
        assert_eq!(data(&of(2, b"packed somehow", 0, 0)), (0, true));
        assert_eq!(data(&of(8, b"intermediate code", 0, 0)), (0, true));
        assert_eq!(data(b"\x7fTileIR\0\x0d\x01"), (0, true));
        let fatbin = of(1, b".global .b8 a[30];", 0, 0);
        assert_eq!(data(&fatbin[..fatbin.len() - 1]), (0, true));
    }

    #[cfg(feature = "unpack")]
    #[test]
    fn packed_entries_are_unpacked() {
        // ".global .b8 a[" as literals, eight times "9" by a copy of itself, and "];" at the end.
        let packed = [b"\xf4\x00.global .b8 a[9".as_slice(), &[1, 0, 0x20], b"];"].concat();
        assert_eq!(data(&of(1, &packed, 0x2000, 15 + 8 + 2)), (999_999_999, false));
        assert_eq!(data(&of(1, &packed, 0x2000, 15 + 8)), (0, true), "more than it says");
        assert_eq!(data(&of(2, b"(\xb5/\xfd", 0x8000, 100)), (0, true));
        // A frame of zstd with one raw block: magic, no checksum, one byte of size, block, bytes.
        let text = b".global .b8 a[30];";
        let size = text.len() as u8;
        let block = [1 | size << 3, 0, 0]; // the last one, raw
        let frame = [b"\x28\xb5\x2f\xfd\x20".as_slice(), &[size], &block, text].concat();
        assert_eq!(data(&of(1, &frame, 0x8000, u64::from(size))), (30, false));
    }
}
