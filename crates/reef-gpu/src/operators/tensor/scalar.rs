//! Numbers as words.

use reef_op::tensor::{Array, Domain, Element, Scalar};

/// A number of a domain, the low half first.
pub(super) fn bits(scalar: Scalar, domain: Domain) -> [u32; 2] {
    halves(match (domain, scalar) {
        (Domain::F32, Scalar::Real(number)) => (number as f32).to_bits().into(),
        (Domain::F32, Scalar::Whole(number)) => (number as f32).to_bits().into(),
        (Domain::F64, Scalar::Real(number)) => number.to_bits(),
        (Domain::F64, Scalar::Whole(number)) => (number as f64).to_bits(),
        (Domain::I64, Scalar::Real(number)) => (number as i64) as u64,
        (Domain::U64, Scalar::Real(number)) => number as u64,
        (_, Scalar::Whole(number)) => number as u64,
    })
}

/// A number as an element stores it, the low half first.
pub(super) fn stored(scalar: Scalar, element: Element) -> [u32; 2] {
    let array = match scalar {
        Scalar::Real(number) => Array::from_f64(element, [number]),
        Scalar::Whole(number) => Array::from_i64(element, [number]),
    };
    let mut bytes = array.to_le_bytes();
    bytes.resize(8, 0);
    halves(u64::from_le_bytes(bytes.try_into().expect("there are 8")))
}

fn halves(bits: u64) -> [u32; 2] {
    [bits as u32, (bits >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;
    use reef_op::tensor::{Half, Stored};

    #[test]
    fn numbers_are_stored_as_their_elements_are() {
        let half = Half::from_f32(1.5).0.into();
        assert_eq!(stored(Scalar::Real(1.5), Element::F16), [half, 0]);
        assert_eq!(stored(Scalar::Whole(-1), Element::I8), [0xff, 0]);
        assert_eq!(bits(Scalar::Whole(-1), Domain::I64), [u32::MAX; 2]);
        assert_eq!(bits(Scalar::Real(1.0), Domain::F32), [0x3f80_0000, 0]);
    }
}
