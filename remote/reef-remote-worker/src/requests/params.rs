//! Parameters of a kernel, in the form that the driver takes.

use crate::state::handles::Layout;

/// Parameters of a kernel, and the address of each.
#[derive(Debug)]
pub(crate) struct Params {
    bytes: Vec<u64>,
    places: Vec<usize>,
    len: usize,
}

impl Params {
    pub(crate) const fn new() -> Self {
        Self { bytes: Vec::new(), places: Vec::new(), len: 0 }
    }

    /// Takes the bytes of a message, with zeros up to the end of the last parameter.
    pub(crate) fn set(&mut self, given: &[u8], layout: Option<&Layout>) {
        let ends = layout.into_iter().flatten();
        let ends = ends.map(|(offset, size)| offset.saturating_add(*size) as usize);
        let len = ends.fold(given.len(), usize::max);
        self.bytes.clear();
        self.bytes.resize(len.div_ceil(8) + 1, 0);
        for (word, chunk) in self.bytes.iter_mut().zip(given.chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..chunk.len()].copy_from_slice(chunk);
            *word = u64::from_ne_bytes(bytes);
        }
        let base = self.bytes.as_ptr() as usize;
        self.places.clear();
        self.places.extend(layout.into_iter().flatten().map(|(offset, _)| base + *offset as usize));
        self.places.push(0);
        self.len = given.len();
    }

    /// Address of the list of parameters' addresses.
    pub(crate) fn places(&self) -> usize {
        self.places.as_ptr() as usize
    }

    /// The list that gives all parameters as one block: `CU_LAUNCH_PARAM_…`.
    pub(crate) fn extra(&self) -> [usize; 5] {
        [1, self.bytes.as_ptr() as usize, 2, &raw const self.len as usize, 0]
    }
}
