//! Inputs and outputs of a network, and their layout in memory that is copied at once.

use reef_core::tensor::Spec;

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
}

/// All tensors that go in, or all that come out, one behind the other in one piece of memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ports {
    each: Vec<(usize, Port)>,
    bytes: usize,
}

impl Ports {
    /// Lays them out in their order.
    pub fn new(ports: impl IntoIterator<Item = Port>) -> Self {
        let mut laid = Self::default();
        for port in ports {
            let offset = laid.bytes.next_multiple_of(ALIGNMENT);
            laid.bytes = offset.saturating_add(port.spec.bytes());
            laid.each.push((offset, port));
        }
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
    use reef_core::tensor::Element;

    #[test]
    fn ports_lie_apart_and_aligned() {
        let port = |element, size| Port {
            name: String::new(),
            spec: Spec { element, dims: vec![size] },
            storage: 0,
        };
        let ports =
            Ports::new([port(Element::Bool, 3), port(Element::I64, 8), port(Element::F32, 1)]);
        let offsets: Vec<_> = ports.iter().map(|(offset, _)| offset).collect();
        assert_eq!((offsets, ports.bytes()), (vec![0, 64, 128], 132));
        assert_eq!((Ports::new([]).bytes(), ports.len()), (0, 3));
    }
}
