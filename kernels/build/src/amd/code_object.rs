//! Kernels of a code object: the metadata in its note, and each kernel's descriptor.

use crate::error::Result;
use object::read::elf::{ElfFile64, FileHeader, SectionHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, elf};
use rmpv::Value;

/// `NT_AMDGPU_METADATA`.
const METADATA: elf::NoteType = elf::NoteType(32);
/// Offset of the properties in a kernel descriptor, which say what the kernel finds in its first
/// registers.
const PROPERTIES: usize = 56;
/// Values that may precede the address of the parameters: bit of the properties, registers.
const BEFORE_PARAMETERS: [(u16, u32); 3] = [(1, 4), (1 << 1, 2), (1 << 2, 2)];
const HAS_PARAMETERS: u16 = 1 << 3;

/// Resources of the device that a kernel takes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    /// The most of a workgroup.
    pub(crate) threads: u64,
    /// Vector registers of a lane.
    pub(crate) vgprs: u64,
    /// Scalar registers of a wave.
    pub(crate) sgprs: u64,
    /// Registers of both kinds that had to go to memory.
    pub(crate) spills: u64,
    /// Bytes of shared memory, without what a launch adds.
    pub(crate) shared: u64,
    /// Bytes of memory of each lane's own.
    pub(crate) private: u64,
    /// Bytes of the parameters.
    pub(crate) parameters: u64,
    pub(crate) arguments: Vec<Argument>,
    /// The first of the two scalar registers that hold the parameters' address at the start, if any
    /// do.
    pub(crate) parameters_at: Option<u32>,
}

/// A parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    /// `by_value`, `global_buffer` or what the runtime adds: `hidden_…`.
    pub(crate) kind: String,
}

/// The kernels of a code object, in its order.
pub(crate) fn kernels(code: &[u8]) -> Result<Vec<Kernel>> {
    let file = ElfFile64::<Endianness>::parse(code)?;
    let metadata = metadata(&file, code)?;
    let kernels = field(&metadata, "amdhsa.kernels")?.as_array().ok_or("no list of kernels")?;
    kernels.iter().map(|value| kernel(&file, value)).collect()
}

fn metadata(file: &ElfFile64<'_>, code: &[u8]) -> Result<Value> {
    let endian = file.endian();
    let sections = file.elf_section_table().iter();
    for section in sections.filter(|section| section.sh_type(endian) == elf::SHT_NOTE) {
        let Some(mut notes) = section.notes(endian, code)? else { continue };
        while let Some(note) = notes.next()? {
            if note.name() == b"AMDGPU" && note.n_type(endian) == METADATA {
                return Ok(rmpv::decode::read_value(&mut note.desc())?);
            }
        }
    }
    let machine = file.elf_header().e_machine(endian);
    Err(format!("an ELF file for machine {machine} without AMD's metadata").into())
}

fn kernel(file: &ElfFile64<'_>, value: &Value) -> Result<Kernel> {
    let number = |name| number(value, name);
    let arguments = match field(value, ".args") {
        Ok(list) => list.as_array().ok_or("arguments are not a list")?.as_slice(),
        Err(_) => &[],
    };
    Ok(Kernel {
        name: text(value, ".name")?,
        threads: number(".max_flat_workgroup_size")?,
        vgprs: number(".vgpr_count")?,
        sgprs: number(".sgpr_count")?,
        spills: number(".vgpr_spill_count")? + number(".sgpr_spill_count")?,
        shared: number(".group_segment_fixed_size")?,
        private: number(".private_segment_fixed_size")?,
        parameters: number(".kernarg_segment_size")?,
        arguments: arguments.iter().map(argument).collect::<Result<_>>()?,
        parameters_at: parameters_at(descriptor(file, &text(value, ".symbol")?)?),
    })
}

fn argument(value: &Value) -> Result<Argument> {
    Ok(Argument {
        offset: number(value, ".offset")?,
        size: number(value, ".size")?,
        kind: text(value, ".value_kind")?,
    })
}

/// The properties in the descriptor of this name.
fn descriptor(file: &ElfFile64<'_>, name: &str) -> Result<u16> {
    let missing = || format!("no descriptor {name}");
    let symbol = file.dynamic_symbols().find(|s| s.name() == Ok(name)).ok_or_else(missing)?;
    let section = file.section_by_index(symbol.section_index().ok_or_else(missing)?)?;
    let bytes = section.data_range(symbol.address(), 64)?.ok_or_else(missing)?;
    Ok(u16::from_le_bytes([bytes[PROPERTIES], bytes[PROPERTIES + 1]]))
}

fn parameters_at(properties: u16) -> Option<u32> {
    let before = BEFORE_PARAMETERS.iter().filter(|(bit, _)| properties & bit != 0);
    (properties & HAS_PARAMETERS != 0).then(|| before.map(|(_, registers)| registers).sum())
}

fn field<'a>(value: &'a Value, name: &str) -> Result<&'a Value> {
    let fields = value.as_map().into_iter().flatten();
    let found = fields.into_iter().find(|(key, _)| key.as_str() == Some(name));
    found.map(|(_, value)| value).ok_or_else(|| format!("metadata without {name}").into())
}

fn number(value: &Value, name: &str) -> Result<u64> {
    field(value, name)?.as_u64().ok_or_else(|| format!("metadata: {name} is not a number").into())
}

fn text(value: &Value, name: &str) -> Result<String> {
    let text = field(value, name)?.as_str();
    Ok(text.ok_or_else(|| format!("metadata: {name} is not a text"))?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn a_shipped_code_object_is_read() {
        let images = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../reef-hip/images"));
        let code = crate::folder::read(&images.join("builtin-guarded-gfx906.z")).unwrap();
        let kernels = kernels(&code).unwrap();
        let append = kernels.iter().find(|kernel| kernel.name == "append").unwrap();
        assert_eq!((append.threads, append.parameters), (1024, 72 + 3 * 8));
        let guard = Argument { offset: 0, size: 72, kind: "by_value".into() };
        let cells = Argument { offset: 72, size: 8, kind: "global_buffer".into() };
        assert_eq!(append.arguments[..2], [guard, cells]);
        assert!(append.vgprs > 0 && append.sgprs > 0 && append.parameters_at.is_some());
    }

    #[test]
    fn the_parameters_stand_behind_what_else_the_kernel_asks_for() {
        assert_eq!(parameters_at(0b1000), Some(0));
        assert_eq!(parameters_at(0b1011), Some(6));
        assert_eq!(parameters_at(0b1111), Some(8));
        assert_eq!(parameters_at(0b0011), None);
    }

    #[test]
    fn file_that_is_not_a_code_object_is_refused() {
        assert!(kernels(b"\x7fELF, as it seems").is_err());
    }
}
