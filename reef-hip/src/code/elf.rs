//! Code objects: what the runtime loads, an ELF file of one GPU.
//!
//! `hipModuleLoadData` takes no length and trusts what it gets, so everything that a file says of
//! itself is checked before. And the runtime can't tell what a kernel's parameters are; the file
//! can.

use crate::code::target::Target;
use crate::driver::{BACKEND, Version};
use object::LittleEndian as Little;
use object::elf::{EM_AMDGPU, FileHeader64, PT_NOTE, SHT_NOBITS};
use object::read::elf::{FileHeader as _, ProgramHeader as _, SectionHeader as _};
use reef_core::{Error, Result};
use serde::Deserialize;

/// `NT_AMDGPU_METADATA`, whose owner is called `AMDGPU`.
const METADATA: u32 = 32;
/// `EF_AMDGPU_MACH`
const PROCESSOR: u32 = 0xff;
/// Processors by their numbers in a file's flags.
const PROCESSORS: [(u32, &str); 16] = [
    (0x2c, "gfx900"),
    (0x2d, "gfx902"),
    (0x2e, "gfx904"),
    (0x2f, "gfx906"),
    (0x30, "gfx908"),
    (0x31, "gfx909"),
    (0x32, "gfx90c"),
    (0x33, "gfx1010"),
    (0x34, "gfx1011"),
    (0x35, "gfx1012"),
    (0x36, "gfx1030"),
    (0x37, "gfx1031"),
    (0x38, "gfx1032"),
    (0x3f, "gfx90a"),
    (0x41, "gfx1100"),
    (0x4c, "gfx942"),
];

/// Kernels that a file describes.
pub(crate) type Kernels = Vec<Kernel>;

/// A file whose headers were read and whose parts are all there.
pub(crate) struct CodeObject<'a> {
    header: &'a FileHeader64<Little>,
    image: &'a [u8],
}

impl<'a> CodeObject<'a> {
    /// # Errors
    ///
    /// `Invalid` if it is not a code object of an AMD GPU, or cut off.
    pub(crate) fn parse(image: &'a [u8]) -> Result<Self> {
        let bad = |why: &'static str| Error::invalid("code object", why);
        if !image.starts_with(b"\x7fELF") {
            return Err(bad("is neither a code object nor a bundle of them"));
        }
        let header = FileHeader64::<Little>::parse(image)
            .map_err(|_| bad("is not an ELF file of 64 bits, or its header is cut off"))?;
        if header.endian().is_err() || header.e_machine(Little) != EM_AMDGPU {
            return Err(bad("is not for an AMD GPU"));
        }
        let code = Self { header, image };
        match code.is_whole() {
            Some(true) => Ok(code),
            _ => Err(bad("is cut off")),
        }
    }

    /// Returns whether all that the headers name lies inside; `None` if they themselves don't.
    fn is_whole(&self) -> Option<bool> {
        let inside = |offset: u64, size: u64| {
            offset.checked_add(size).is_some_and(|end| end <= self.image.len() as u64)
        };
        let segments = self.header.program_headers(Little, self.image).ok()?;
        let sections = self.header.section_headers(Little, self.image).ok()?;
        let of_file = sections.iter().filter(|section| section.sh_type(Little) != SHT_NOBITS);
        Some(
            segments.iter().all(|s| inside(s.p_offset(Little), s.p_filesz(Little)))
                && of_file.into_iter().all(|s| inside(s.sh_offset(Little), s.sh_size(Little))),
        )
    }

    /// 2 to 6, as in `-mcode-object-version`.
    fn version(&self) -> u32 {
        u32::from(self.header.e_ident.abi_version) + 2
    }

    /// Target that it was made for, as far as we know its processor.
    fn target(&self) -> Option<Target> {
        let flags = self.header.e_flags(Little).0;
        let processor = PROCESSORS.iter().find(|(number, _)| *number == flags & PROCESSOR)?.1;
        // From version 4 on there are two bits for each: none, any, off, on.
        let setting = |shift: u32| match flags >> shift & 3 {
            2 => Some(false),
            3 => Some(true),
            _ => None,
        };
        let known = self.version() >= 4;
        let [xnack, sramecc] = [8, 10].map(|shift| setting(shift).filter(|_| known));
        Some(Target { processor: processor.into(), sramecc, xnack })
    }

    /// Checks that a runtime of this version can load it for `device`.
    ///
    /// # Errors
    ///
    /// `Invalid` says what it is and what the device is; `Unsupported` if the runtime is too old.
    pub(crate) fn check(&self, device: &Target, runtime: Version) -> Result<()> {
        let version = self.version();
        // Seen: HIP 5.2 refuses version 5, and 5.7 version 6; no runtime that we know has a later
        // one.
        let since = match version {
            ..=4 => (0, 0),
            5 => (5, 3),
            6 => (6, 0),
            _ => (u32::MAX, 0),
        };
        if (runtime.major, runtime.minor) < since {
            let what = format!(
                "code objects of version {version} with HIP {runtime}: build with \
                 -mcode-object-version=4"
            );
            return Err(Error::Unsupported { backend: BACKEND, what });
        }
        match self.target() {
            Some(target) if !target.runs_on(device) => Err(Error::invalid(
                "code object",
                format!("is for {target}, the device is {device}"),
            )),
            _ => Ok(()), // of processors that we don't know the runtime judges
        }
    }

    /// Kernels that it describes; none if the description can't be read.
    pub(crate) fn kernels(&self) -> Kernels {
        let metadata = self.metadata().and_then(|bytes| rmp_serde::from_slice(bytes).ok());
        metadata.map_or_else(Vec::new, |metadata: Metadata| metadata.kernels)
    }

    fn metadata(&self) -> Option<&'a [u8]> {
        let segments = self.header.program_headers(Little, self.image).ok()?;
        for segment in segments.iter().filter(|segment| segment.p_type(Little) == PT_NOTE) {
            let mut notes = segment.notes(Little, self.image).ok()??;
            while let Some(note) = notes.next().ok()? {
                if note.n_type(Little).0 == METADATA && note.name() == b"AMDGPU" {
                    return Some(note.desc());
                }
            }
        }
        None
    }
}

/// Metadata that compilers write about a file's kernels, in MessagePack.
#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "amdhsa.kernels")]
    kernels: Vec<Kernel>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Kernel {
    #[serde(rename = ".name")]
    pub(crate) name: String,
    /// Kernels without parameters have none.
    #[serde(rename = ".args", default)]
    args: Vec<Argument>,
}

impl Kernel {
    /// Bytes of each parameter that the host passes; what is hidden the runtime adds.
    pub(crate) fn parameters(&self) -> Vec<usize> {
        let passed = self.args.iter().filter(|arg| !arg.kind.starts_with("hidden_"));
        passed.map(|arg| arg.size).collect()
    }
}

#[derive(Debug, Deserialize)]
struct Argument {
    #[serde(rename = ".size")]
    size: usize,
    #[serde(rename = ".value_kind")]
    kind: String,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A map of MessagePack with at most 15 entries.
    fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = vec![0x80 | entries.len() as u8];
        for (key, value) in entries {
            bytes.extend(text(key));
            bytes.extend(value);
        }
        bytes
    }

    fn array(items: &[Vec<u8>]) -> Vec<u8> {
        [vec![0x90 | items.len() as u8], items.concat()].concat()
    }

    /// A text of at most 31 bytes.
    fn text(text: &str) -> Vec<u8> {
        [&[0xa0 | text.len() as u8], text.as_bytes()].concat()
    }

    /// Metadata that a compiler writes of `bump(u32 *, Guard)` and `empty()`.
    fn metadata() -> Vec<u8> {
        let argument = |size: u8, kind| {
            map(&[(".offset", vec![0]), (".size", vec![size]), (".value_kind", text(kind))])
        };
        let arguments = [
            argument(8, "global_buffer"),
            argument(64, "by_value"),
            argument(8, "hidden_global_offset_x"),
            argument(8, "hidden_none"),
        ];
        let bump = map(&[(".name", text("bump")), (".args", array(&arguments))]);
        let empty = map(&[(".name", text("empty")), (".vgpr_count", vec![3])]);
        map(&[
            ("amdhsa.version", array(&[vec![1], vec![2]])),
            ("amdhsa.kernels", array(&[bump, empty])),
        ])
    }

    /// A file with nothing but a note, of this version and with these flags.
    pub(crate) fn code_object(version: u8, flags: u32) -> Vec<u8> {
        let metadata = metadata();
        let note = [
            &[7u32, metadata.len() as u32, METADATA].map(u32::to_le_bytes).concat()[..],
            b"AMDGPU\0\0",
            &metadata,
            &vec![0; metadata.len().next_multiple_of(4) - metadata.len()],
        ]
        .concat();
        let mut file = b"\x7fELF\x02\x01\x01\x40".to_vec();
        file.extend([version - 2, 0, 0, 0, 0, 0, 0, 0]);
        let halves =
            |halves: &[u16]| halves.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let words = |words: &[u64]| words.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        file.extend(halves(&[3, 224, 1, 0])); // a shared object for AMD's GPUs
        file.extend(words(&[0, 64, 0])); // program headers at 64, no sections
        file.extend(flags.to_le_bytes());
        file.extend(halves(&[64, 56, 1, 64, 0, 0]));
        file.extend([4u32, 4].map(u32::to_le_bytes).concat()); // a note, to be read
        let size = note.len() as u64;
        file.extend(words(&[120, 120, 120, size, size, 4]));
        file.extend(note);
        file
    }

    fn check(version: u8, flags: u32, runtime: i32) -> Result<()> {
        let device = Target::parse("gfx906:sramecc+:xnack-").unwrap();
        CodeObject::parse(&code_object(version, flags))?.check(&device, runtime.into())
    }

    const ANY: u32 = 0x52f;

    #[test]
    fn parameters_are_those_that_the_host_passes() {
        let file = code_object(4, ANY);
        let kernels = CodeObject::parse(&file).unwrap().kernels();
        let found: Vec<_> = kernels.iter().map(|k| (k.name.as_str(), k.parameters())).collect();
        assert_eq!(found, [("bump", vec![8, 64]), ("empty", vec![])]);
    }

    #[test]
    fn code_is_for_the_device_or_refused() {
        for flags in [ANY, 0xe2f, 0xd2f, 0x62f, 0xff] {
            assert_eq!(check(4, flags, 50221153), Ok(()), "{flags:#x}");
        }
        let refused = |flags| check(4, flags, 50221153).unwrap_err().to_string();
        let device = "the device is gfx906:sramecc+:xnack-";
        assert_eq!(refused(0x52c), format!("code object: is for gfx900, {device}"));
        assert_eq!(refused(0x72f), format!("code object: is for gfx906:xnack+, {device}"));
        assert_eq!(refused(0x92f), format!("code object: is for gfx906:sramecc-, {device}"));
    }

    #[test]
    fn each_version_of_code_needs_its_runtime() {
        let rows = [
            (3, 50221153, true),
            (4, 50221153, true),
            (5, 50221153, false),
            (5, 50731921, true),
            (6, 50731921, false),
            (6, 60443484, true),
            (6, 70152801, true),
            (7, 70152801, false),
        ];
        for (version, runtime, loads) in rows {
            let checked = check(version, ANY, runtime);
            assert_eq!(checked.is_ok(), loads, "version {version} with {runtime}: {checked:?}");
        }
        let error = check(5, ANY, 50221153).unwrap_err().to_string();
        assert!(error.ends_with("HIP 5.2.21153: build with -mcode-object-version=4"), "{error}");
    }

    #[test]
    fn file_that_is_cut_off_anywhere_is_refused() {
        let file = code_object(4, ANY);
        for length in 0..file.len() {
            let parsed = CodeObject::parse(&file[..length]);
            assert!(matches!(parsed, Err(Error::Invalid(_))), "{length} bytes");
        }
    }

    #[test]
    fn files_of_other_machines_are_refused() {
        let mut file = code_object(4, ANY);
        file[18] = 62; // x86-64
        let error = CodeObject::parse(&file).err().unwrap().to_string();
        assert_eq!(error, "code object: is not for an AMD GPU");
        assert!(CodeObject::parse(b"//\n.version 6.0\n").is_err());
    }

    #[test]
    fn garbage_in_a_note_is_no_parameters() {
        let mut file = code_object(4, ANY);
        let at = file.windows(7).position(|w| w == b"AMDGPU\0").unwrap() + 8;
        file[at..].fill(0xc1); // no such thing in MessagePack
        assert!(CodeObject::parse(&file).unwrap().kernels().is_empty());
    }

    proptest::proptest! {
        /// A file that passes has all its parts inside: reading them doesn't panic either.
        #[test]
        fn garbled_files_are_refused_or_whole(
            changes in proptest::collection::vec((0..10_000usize, 0..=255u8), 1..12),
            cut in 0..10_000usize,
        ) {
            let mut file = code_object(4, ANY);
            for (at, value) in changes {
                let at = at % file.len();
                file[at] = value;
            }
            for file in [&file[..], &file[..cut % file.len()]] {
                if let Ok(code) = CodeObject::parse(file) {
                    let device = Target::parse("gfx906:sramecc+:xnack-").unwrap();
                    let _ = code.check(&device, 60443484.into());
                    code.kernels().iter().for_each(|kernel| drop(kernel.parameters()));
                }
            }
        }
    }
}
