//! Code that a program has given to the driver, as far as variants of its kernels need it.

use super::contents::code;
use super::fatbin::{self, Entry, Kind, MAGIC as FATBIN, Packing};
use super::{cubin, ptx};
use crate::error::Error;

/// PTX of a loaded image, packed as it was there, and the capabilities of its machine code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceCode {
    texts: Vec<Text>,
    machine: Vec<Machine>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Machine {
    /// As 90.
    capability: u32,
    /// Hashes of the code of its kernels. There are none without PTX, or if it is packed.
    hashes: Vec<(String, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Text {
    /// It stands inside of machine code, for its lines.
    is_inside: bool,
    capability: u32,
    packing: Packing,
    bytes: Vec<u8>,
    raw_size: usize,
}

impl DeviceCode {
    /// Reads a fatbin, a CUBIN or PTX. Nothing is unpacked yet.
    ///
    /// # Errors
    ///
    /// It is none of these, or is damaged.
    pub fn read(image: &[u8]) -> Result<Self, Error> {
        let mut loaded = Self::default();
        if image.starts_with(&FATBIN) {
            let entries: Vec<_> = fatbin::split(image)?.0.collect::<Result<_, _>>()?;
            let has_ptx = entries.iter().any(|entry| entry.kind == Kind::Ptx);
            entries.iter().for_each(|entry| loaded.add_entry(entry, has_ptx));
        } else if image.starts_with(&cubin::MAGIC) {
            loaded.add_cubin(image, false)?;
        } else {
            let text = ptx::check(image)?;
            loaded.add_text(capability(text).unwrap_or(0), text, false);
        }
        Ok(loaded)
    }

    fn add_entry(&mut self, entry: &Entry<'_>, has_ptx: bool) {
        let Entry { capability, packing, raw_size, payload, .. } = *entry;
        if entry.kind == Kind::Ptx {
            let (is_inside, bytes) = (false, payload.to_vec());
            self.texts.push(Text { is_inside, capability, packing, bytes, raw_size });
        } else if packing != Packing::Plain || self.add_cubin(payload, has_ptx).is_err() {
            self.machine.push(Machine { capability, hashes: Vec::new() });
        }
    }

    fn add_cubin(&mut self, image: &[u8], has_ptx: bool) -> Result<(), Error> {
        let cubin = cubin::read(image)?;
        let is_useful = has_ptx || cubin.ptx.is_some();
        let hashes = if is_useful { cubin::hashes(image) } else { None };
        let hashes = hashes.unwrap_or_default();
        self.machine.push(Machine { capability: cubin.capability, hashes });
        cubin.ptx.iter().for_each(|text| self.add_text(cubin.capability, text, true));
        Ok(())
    }

    fn add_text(&mut self, capability: u32, text: &str, is_inside: bool) {
        let (bytes, packing) = (text.as_bytes().to_vec(), Packing::Plain);
        let raw_size = text.len();
        self.texts.push(Text { is_inside, capability, packing, bytes, raw_size });
    }

    /// Returns what a driver takes of the image that ignores machine code, with the copies of texts
    /// inside of that.
    #[must_use]
    pub fn without_machine_code(mut self) -> Self {
        self.machine.clear();
        self.texts.retain(|text| !text.is_inside);
        self
    }

    /// Machine code that a device of this capability runs.
    fn machine(&self, capability: u32) -> Option<&Machine> {
        let fits = |of: u32| of / 10 == capability / 10 && of <= capability;
        let all = self.machine.iter().filter(|machine| fits(machine.capability));
        all.max_by_key(|machine| machine.capability)
    }

    /// Returns whether the machine code that a device of this capability runs for a kernel is that
    /// of a CUBIN. `None`: the driver compiles the text.
    pub fn is_compiled_as(&self, capability: u32, kernel: &str, compiled: &[u8]) -> Option<bool> {
        let of = |hashes: &[(String, u64)]| {
            hashes.iter().find(|(name, _)| name == kernel).map(|(_, hash)| *hash)
        };
        let machine = of(&self.machine(capability)?.hashes);
        let compiled = cubin::hashes(compiled).and_then(|hashes| of(&hashes));
        Some(machine.is_some() && machine == compiled)
    }

    /// Returns whether a device of this capability runs machine code of the image.
    pub fn has_machine_code(&self, capability: u32) -> bool {
        self.machine(capability).is_some()
    }

    /// PTX of the code that a device of this capability runs, such as 90. It is PTX of the same
    /// target as the machine code, or the PTX that the driver compiles if no machine code fits.
    ///
    /// # Errors
    ///
    /// The reason for which there is none.
    pub fn text(&self, capability: u32) -> Result<String, &'static str> {
        let machine = self.machine(capability).map(|machine| machine.capability);
        let older = || self.texts.iter().map(|text| text.capability).filter(|of| *of <= capability);
        let wanted = machine.or_else(|| older().max());
        let of_target = || self.texts.iter().filter(|text| Some(text.capability) == wanted);
        // With line information machine code has a copy of its PTX, which is in the image as well.
        let has_own = of_target().any(|text| !text.is_inside);
        let mut found = of_target().filter(|text| !(has_own && text.is_inside));
        let text = match (found.next(), found.next()) {
            (Some(text), None) => text,
            (Some(text), Some(other)) if text == other => text,
            (Some(_), Some(_)) => return Err("two PTX texts of one target"),
            (None, _) if self.texts.is_empty() => return Err("no PTX"),
            (None, _) => return Err("its PTX is for another GPU than its machine code"),
        };
        let text = text.read().map_err(|_| "its PTX is damaged")?;
        if ptx::target(&text).contains(&"debug") {
            return Err("it is compiled for a debugger");
        }
        Ok(text)
    }
}

impl Text {
    fn read(&self) -> Result<String, Error> {
        let &Self { capability, packing, ref bytes, raw_size, .. } = self;
        let entry = Entry { kind: Kind::Ptx, capability, packing, payload: bytes, raw_size };
        let code = code(&entry)?.ok_or(Error::Image("this build cannot unpack it"))?;
        ptx::check(&code).map(str::to_owned)
    }
}

/// Capability in `.target sm_90a`.
fn capability(text: &str) -> Option<u32> {
    let name = ptx::target(text).into_iter().next()?.strip_prefix("sm_")?;
    let digits = name.find(|c: char| !c.is_ascii_digit()).unwrap_or(name.len());
    name[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::fatbin::tests::{joined, of};
    use super::*;

    const PTX: &[u8] = b".version 9.0\n.target sm_90a, texmode_independent\n.address_size 64\n";

    #[test]
    fn text_alone_is_for_its_target_and_later_ones() {
        let loaded = DeviceCode::read(PTX).unwrap();
        assert_eq!(loaded.text(90).unwrap().as_bytes(), PTX);
        assert_eq!(loaded.text(100).unwrap().as_bytes(), PTX);
        assert!(loaded.text(80).is_err());
    }

    #[test]
    fn machine_code_is_told_from_other_code() {
        let cubin = include_bytes!("../../tests/corpus/scale_in_place.cubin");
        let (code, read) = (DeviceCode::read(cubin).unwrap(), cubin::read(cubin).unwrap());
        let (capability, kernel) = (read.capability, &read.kernels[0]);
        assert_eq!(code.is_compiled_as(capability, kernel, cubin), Some(true));
        assert_eq!(code.is_compiled_as(capability, "another", cubin), Some(false));
        assert_eq!(code.is_compiled_as(capability + 20, kernel, cubin), None);
        // The last words of the code are branches to themselves.
        let at = cubin
            .windows(8)
            .rposition(|word| word == [0x47, 0x79, 0xfc, 0, 0xfc, 0xff, 0xff, 0xff]);
        let mut other = *cubin;
        other[at.unwrap_or_else(|| panic!("no such word"))] ^= 1;
        assert_eq!(code.is_compiled_as(capability, kernel, &other), Some(false));
    }

    #[test]
    fn text_of_another_target_than_the_code_is_refused() {
        let mut older = of(2, b"code", 0, 0);
        older[16 + 28] = 80;
        let both = DeviceCode::read(&joined(&[older, of(1, PTX, 0, 0)])).unwrap();
        assert!(both.text(90).is_ok(), "the driver compiles the text");
        assert_eq!(
            both.text(86),
            Err("its PTX is for another GPU than its machine code"),
            "the code for 80 runs"
        );
        let same = DeviceCode::read(&joined(&[of(2, b"code", 0, 0), of(1, PTX, 0, 0)])).unwrap();
        assert!(same.text(90).is_ok());
        let none = DeviceCode::read(&of(2, b"code", 0, 0)).unwrap();
        assert_eq!(none.text(90), Err("no PTX"));
    }

    #[test]
    fn newest_text_is_taken_where_machine_code_is_ignored() {
        let older_text = b".version 9.0\n.target sm_80\n";
        let entry = |kind: u8, bytes: &[u8], capability: u8| {
            let mut entry = of(kind, bytes, 0, 0);
            entry[16 + 28] = capability;
            entry
        };
        let all = [entry(2, b"code", 80), entry(1, older_text, 80), entry(1, PTX, 86)];
        let code = DeviceCode::read(&joined(&all)).unwrap();
        assert_eq!(code.text(86).unwrap().as_bytes(), older_text, "as the code for 80 runs");
        let code = code.without_machine_code();
        assert_eq!(code.text(86).unwrap().as_bytes(), PTX);
        assert!(!code.has_machine_code(86));
    }

    #[test]
    fn texts_that_cannot_be_told_apart_are_refused() {
        let other = of(1, b".version 9.0\n.target sm_90\n", 0, 0);
        let two = DeviceCode::read(&joined(&[of(1, PTX, 0, 0), other])).unwrap();
        assert_eq!(two.text(90), Err("two PTX texts of one target"));
        let debug = DeviceCode::read(b".version 9.0\n.target sm_90, debug\n").unwrap();
        assert_eq!(debug.text(90), Err("it is compiled for a debugger"));
    }

    #[test]
    fn target_in_a_comment_is_none() {
        let text =
            b"// .target sm_50\n.version 9.0\n/*\n.target sm_50, debug\n*/ .target sm_90,\n x\n";
        let code = DeviceCode::read(text).unwrap();
        assert_eq!(code.text(90).unwrap().as_bytes(), text);
        assert!(code.text(80).is_err());
        let debug = b".version 9.0 .target sm_90, // two lines\n debug\n";
        let code = DeviceCode::read(debug).unwrap();
        assert_eq!(code.text(90), Err("it is compiled for a debugger"));
    }

    #[test]
    fn text_of_the_image_is_taken_and_not_its_copy_in_code() {
        let cubin = include_bytes!("../../tests/corpus/scale_in_place.cubin");
        let capability = cubin::read(cubin).unwrap().capability;
        assert!(DeviceCode::read(cubin).unwrap().text(capability).is_ok(), "it has a copy");
        let mut with_ptx = of(1, PTX, 0, 0);
        with_ptx[16 + 28] = capability as u8;
        let both = DeviceCode::read(&joined(&[of(2, cubin, 0, 0), with_ptx])).unwrap();
        assert_eq!(both.text(capability).unwrap().as_bytes(), PTX);
    }

    #[test]
    fn packed_text_is_unpacked_when_it_is_needed() {
        let block = [b"\xf0\x33", PTX].concat(); // an LZ4 block of literals alone
        let loaded = DeviceCode::read(&of(1, &block, 0x2000, PTX.len() as u64)).unwrap();
        assert_eq!(PTX.len(), 15 + 0x33);
        assert_eq!(loaded.text(90).unwrap().as_bytes(), PTX);
    }
}
