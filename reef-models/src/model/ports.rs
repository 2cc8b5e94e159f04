//! Inputs and outputs of a network, and their layout in memory that is copied at once.

use super::texts::Texts;
use reef_op::tensor::Spec;
use std::sync::Arc;

/// Every port starts at a multiple of this many bytes: whatever the type, and however wide the
/// vectors.
const ALIGNMENT: usize = 64;

/// A tensor that goes in or out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// As the file calls it.
    pub name: String,
    /// Element type and sizes.
    pub spec: Spec,
    /// Number of its storage.
    pub storage: usize,
    /// Sizes that each inference decides; those of `spec` are upper bounds then.
    pub extent: Extent,
    /// Set if the tensor is of texts: its int64 are places in this list.
    pub texts: Option<Arc<Texts>>,
}

/// Sizes of a port that are known before an inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// All are.
    #[default]
    Fixed,
    /// The size of `axis` is an upper bound. Each inference writes its own into storage `size`.
    Bounded {
        /// Number of the axis.
        axis: usize,
        /// Storage of the size: one int64.
        size: usize,
    },
    /// The port is itself the size of another one.
    Size,
    /// The port is one int64, which isn't 0 after an inference in which a loop did not end within
    /// its bound: the outputs are without meaning then. Its name says which loop, and the bound.
    Check,
}

impl Extent {
    /// Returns whether the network has the port for itself, so that the file has none of its name.
    pub fn is_internal(self) -> bool {
        matches!(self, Self::Size | Self::Check)
    }
}

impl Port {
    /// A tensor of known sizes that are not texts.
    pub fn new(name: impl Into<String>, spec: Spec, storage: usize) -> Self {
        Self { name: name.into(), spec, storage, extent: Extent::Fixed, texts: None }
    }

    /// The values of an inference that decided on `size` rows along the port's axis, of `bytes`,
    /// which have as many as the bound. A port of fixed sizes has all of them.
    pub fn cut(&self, bytes: Vec<u8>, size: i64) -> Vec<u8> {
        let Extent::Bounded { axis, .. } = self.extent else { return bytes };
        let dims = &self.spec.dims;
        let size = usize::try_from(size).unwrap_or_default().min(dims[axis]);
        let inner = dims[axis + 1..].iter().product::<usize>() * self.spec.element.bytes();
        let rows = bytes.chunks_exact((dims[axis] * inner).max(1));
        rows.flat_map(|row| &row[..size * inner]).copied().collect()
    }

    /// Type and sizes of this number of elements, which an inference made.
    pub fn spec_of(&self, elements: usize) -> Spec {
        let mut spec = self.spec.clone();
        if let Extent::Bounded { axis, .. } = self.extent {
            spec.dims[axis] = 1;
            spec.dims[axis] = elements.checked_div(spec.elements()).unwrap_or_default();
        }
        spec
    }
}

/// All tensors that go in, or all that come out, one behind the other in one piece of memory.
///
/// ```
/// use reef_models::{Port, Ports};
/// use reef_op::tensor::{Element, Spec};
///
/// let port = |name: &str, dims| Port::new(name, Spec { element: Element::F32, dims }, 0);
/// let ports = Ports::new([port("x", vec![1, 3]), port("mask", vec![2])]);
/// let first_bytes: Vec<usize> = ports.iter().map(|(offset, _)| offset).collect();
/// assert_eq!((first_bytes, ports.bytes()), (vec![0, 64], 72));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ports {
    each: Vec<(usize, Port)>,
    /// Ports that are sizes of others.
    sizes: Vec<(usize, Port)>,
    /// Ports that say whether loops ended.
    checks: Vec<(usize, Port)>,
    /// First bytes of all, by their storages: a sequence may be very many ports.
    offsets: Vec<(usize, usize)>,
    bytes: usize,
}

impl Ports {
    /// Lays them out in their order.
    pub fn new(ports: impl IntoIterator<Item = Port>) -> Self {
        let mut laid = Self::default();
        for port in ports {
            let offset = laid.bytes.next_multiple_of(ALIGNMENT);
            laid.bytes = offset.saturating_add(port.spec.bytes());
            match port.extent {
                Extent::Size => laid.sizes.push((offset, port)),
                Extent::Check => laid.checks.push((offset, port)),
                Extent::Fixed | Extent::Bounded { .. } => laid.each.push((offset, port)),
            }
        }
        laid.offsets = laid.all().map(|(offset, port)| (port.storage, *offset)).collect();
        laid.offsets.sort_by_key(|(storage, _)| *storage);
        laid
    }

    /// Each with its first byte.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (usize, &Port)> {
        self.each.iter().map(|(offset, port)| (*offset, port))
    }

    /// Number `index` with its first byte.
    pub fn get(&self, index: usize) -> Option<(usize, &Port)> {
        self.each.get(index).map(|(offset, port)| (*offset, port))
    }

    /// First byte of a storage, if it is that of a port, of the size of one or of a check.
    pub(crate) fn offset_of(&self, storage: usize) -> Option<usize> {
        let first = self.offsets.partition_point(|(of, _)| *of < storage);
        self.offsets.get(first).filter(|(of, _)| *of == storage).map(|(_, offset)| *offset)
    }

    fn all(&self) -> impl Iterator<Item = &(usize, Port)> {
        self.each.iter().chain(&self.sizes).chain(&self.checks)
    }

    /// Ports that say whether loops ended ([`Extent::Check`]), each with its first byte.
    pub fn checks(&self) -> impl ExactSizeIterator<Item = (usize, &Port)> {
        self.checks.iter().map(|(offset, port)| (*offset, port))
    }

    /// First byte of the size that an inference decides for `port`: one int64.
    pub fn size_of(&self, port: &Port) -> Option<usize> {
        match port.extent {
            Extent::Bounded { size, .. } => self.offset_of(size),
            Extent::Fixed | Extent::Size | Extent::Check => None,
        }
    }

    /// First byte and bytes of each port, of the sizes of some, and of checks.
    pub fn ranges(&self) -> impl Iterator<Item = (usize, usize)> {
        self.all().map(|(offset, port)| (*offset, port.spec.bytes()))
    }

    /// Number of ports.
    pub fn len(&self) -> usize {
        self.each.len()
    }

    /// Returns whether there is no port.
    pub fn is_empty(&self) -> bool {
        self.each.is_empty()
    }

    /// Bytes of all, and of what lies between them.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::Element;

    #[test]
    fn ports_lie_apart_and_aligned() {
        let port = |element, size| Port::new("", Spec { element, dims: vec![size] }, 0);
        let ports =
            Ports::new([port(Element::Bool, 3), port(Element::I64, 8), port(Element::F32, 1)]);
        let offsets: Vec<_> = ports.iter().map(|(offset, _)| offset).collect();
        assert_eq!((offsets, ports.bytes()), (vec![0, 64, 128], 132));
        assert_eq!((Ports::new([]).bytes(), ports.len()), (0, 3));
    }

    #[test]
    fn bounded_port_is_cut_along_its_axis() {
        let port = |axis| {
            let spec = Spec { element: Element::U8, dims: vec![2, 3] };
            Port { extent: Extent::Bounded { axis, size: 1 }, ..Port::new("", spec, 0) }
        };
        let all = || vec![1, 2, 3, 4, 5, 6];
        for (axis, size, want, dims) in [
            (0, 1, vec![1, 2, 3], [1, 3]),
            (1, 2, vec![1, 2, 4, 5], [2, 2]),
            (1, -1, vec![], [2, 0]),
            (0, 9, all(), [2, 3]),
        ] {
            assert_eq!(port(axis).cut(all(), size), want);
            assert_eq!(port(axis).spec_of(want.len()).dims, dims);
        }
        let size = Port { storage: 1, extent: Extent::Size, ..port(0) };
        let ports = Ports::new([port(0), size]);
        let (_, bounded) = ports.get(0).unwrap();
        assert_eq!((ports.len(), ports.size_of(bounded), ports.bytes()), (1, Some(64), 70));
    }

    #[test]
    fn check_is_no_tensor_of_the_file_but_has_its_bytes() {
        let port = |storage, extent| {
            let spec = Spec { element: Element::I64, dims: vec![] };
            Port { extent, ..Port::new("", spec, storage) }
        };
        let ports = Ports::new([port(3, Extent::Fixed), port(7, Extent::Check)]);
        let checks: Vec<_> = ports.checks().map(|(offset, port)| (offset, port.storage)).collect();
        assert_eq!((ports.len(), checks, ports.offset_of(7)), (1, vec![(64, 7)], Some(64)));
        assert_eq!(ports.ranges().collect::<Vec<_>>(), [(0, 8), (64, 8)]);
        let ports = [7, 3, 5].map(|storage| port(storage, Extent::Fixed));
        let ports = Ports::new(ports);
        let offsets = [2, 3, 4, 5, 7, 8].map(|storage| ports.offset_of(storage));
        assert_eq!(offsets, [None, Some(64), None, Some(128), Some(0), None]);
    }
}
