//! Files of numpy that hold one array (`.npy`).
//!
//! The format is numpy's ("NPY format", versions 1 to 3): a magic word, the length of a header, the
//! header as a Python dictionary of three keys, and the values row-major. Little-endian arrays in
//! C's order are read.

use crate::errors::error::{Error, Result};
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use reef_op::tensor::{Array, Element, Spec};

const MAGIC: &[u8] = b"\x93NUMPY";
/// Longest header.
const MAX_HEADER: usize = 1 << 16;

/// Types by what a header calls them.
const TYPES: &[(&str, Element)] = &[
    ("<f4", Element::F32),
    ("<f2", Element::F16),
    ("<f8", Element::F64),
    ("<i8", Element::I64),
    ("<i4", Element::I32),
    ("<i2", Element::I16),
    ("|i1", Element::I8),
    ("<u8", Element::U64),
    ("<u4", Element::U32),
    ("<u2", Element::U16),
    ("|u1", Element::U8),
    ("|b1", Element::Bool),
];

/// Reads the bytes of a file; `name` names it in errors.
///
/// # Errors
///
/// `Npy` says what is wrong with it, `Memory` if `budget` has too little for its values.
pub fn from_bytes(bytes: &[u8], name: &str, budget: &Budget) -> Result<(Spec, Array)> {
    let wrong = |why: String| Error::Npy { file: name.into(), why };
    let (header, values) = split(bytes).map_err(wrong)?;
    let spec = spec(header).map_err(wrong)?;
    let want =
        spec.dims.iter().try_fold(spec.element.bytes(), |bytes, &size| bytes.checked_mul(size));
    if want != Some(values.len()) {
        return Err(wrong(format!("{} bytes of values for {spec}", values.len())));
    }
    let charged = Ledger::new(budget).charge(values.len() as u64);
    let _charge =
        charged.map_err(|why| Error::Memory { file: name.into(), at: "values".into(), why })?;
    let array = Array::from_le_bytes(spec.element, values);
    Ok((spec, array))
}

/// The bytes of a file. bfloat16, which numpy has not, becomes float32.
pub fn to_bytes(spec: &Spec, array: &Array) -> Vec<u8> {
    let single;
    let (element, array) = match array {
        Array::BF16(_) => {
            single = Array::F32(array.values().to_f64().iter().map(|&x| x as f32).collect());
            (Element::F32, &single)
        }
        _ => (spec.element, array),
    };
    let descr = TYPES.iter().find(|(_, other)| *other == element).map_or("<f4", |(name, _)| name);
    let sizes: String = spec.dims.iter().map(|size| format!("{size},")).collect();
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // Values begin at a multiple of 64 bytes, behind spaces and a line feed.
    let padded = (MAGIC.len() + 4 + header.len() + 1).next_multiple_of(64) - MAGIC.len() - 4;
    let header = format!("{header:<width$}\n", width = padded - 1);
    [MAGIC, &[1, 0], &(padded as u16).to_le_bytes(), header.as_bytes(), &array.to_le_bytes()]
        .concat()
}

/// The header's text, and the bytes behind it.
fn split(bytes: &[u8]) -> Result<(&str, &[u8]), String> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("no file of numpy")?;
    let (len, rest) = match rest {
        [1, _, a, b, rest @ ..] => (usize::from(u16::from_le_bytes([*a, *b])), rest),
        [2 | 3, _, a, b, c, d, rest @ ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, rest),
        [version, ..] => {
            return Err(format!(
                "version {version} of the format, 1 to 3 are read, or it ends there"
            ));
        }
        [] => return Err("it ends inside the header".into()),
    };
    let (header, values) = rest
        .split_at_checked(len)
        .filter(|_| len <= MAX_HEADER)
        .ok_or("it ends inside the header")?;
    let header = std::str::from_utf8(header).map_err(|_| "a header that isn't UTF-8")?;
    Ok((header, values))
}

/// Reads the type and shape in the dictionary of a header.
fn spec(header: &str) -> Result<Spec, String> {
    let descr = value_after(header, "'descr':")?;
    let descr =
        descr.strip_prefix('\'').and_then(|rest| rest.split_once('\'')).map(|(name, _)| name);
    let descr = descr.ok_or("a type that is not text: records are not read")?;
    let known = TYPES.iter().find(|(name, _)| *name == descr);
    let element =
        known.map(|(_, element)| *element).ok_or_else(|| format!("elements of type {descr:?}"))?;
    if !value_after(header, "'fortran_order':")?.starts_with("False") {
        return Err(
            "an array in Fortran's order: numpy.ascontiguousarray makes another of it".into()
        );
    }
    let shape =
        value_after(header, "'shape':")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    let sizes = shape
        .ok_or("a shape that is not a tuple")?
        .0
        .split(',')
        .map(str::trim)
        .filter(|size| !size.is_empty());
    let size = |size: &str| size.parse().map_err(|_| format!("a size of {size:?}"));
    Ok(Spec { element, dims: sizes.map(size).collect::<Result<_, String>>()? })
}

/// Text after a key of the header.
fn value_after<'a>(header: &'a str, key: &str) -> Result<&'a str, String> {
    let rest = header.split_once(key).map(|(_, rest)| rest.trim_start());
    rest.ok_or_else(|| format!("a header without {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<(Spec, Array), String> {
        from_bytes(bytes, "x.npy", &Budget::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn written_arrays_read_back_equal() {
        for (dims, array) in [
            (vec![2, 3], Array::F32(vec![1.0, -2.5, 0.0, f32::INFINITY, 4.0, 5.0])),
            (vec![], Array::I64(vec![-7])),
            (vec![3], Array::U8(vec![1, 2, 255])),
            (vec![0, 4], Array::F64(vec![])),
        ] {
            let spec = Spec { element: array.element(), dims };
            let bytes = to_bytes(&spec, &array);
            assert_eq!((bytes.len() - array.to_le_bytes().len()) % 64, 0);
            assert_eq!(read(&bytes), Ok((spec, array)));
        }
    }

    #[test]
    fn broken_files_are_refused_with_the_fault() {
        let good =
            to_bytes(&Spec { element: Element::F32, dims: vec![2] }, &Array::F32(vec![1.0, 2.0]));
        assert_eq!(read(b"GIF89a"), Err("x.npy: no file of numpy".into()));
        assert_eq!(read(&good[..20]), Err("x.npy: it ends inside the header".into()));
        assert_eq!(read(&good[..130]), Err("x.npy: 2 bytes of values for float32[2]".into()));
        let swap = |from: &str, to: &str| {
            let text: Vec<u8> = good.clone();
            let at = text.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            [&text[..at], to.as_bytes(), &text[at + from.len()..]].concat()
        };
        assert_eq!(read(&swap("<f4", ">f4")), Err("x.npy: elements of type \">f4\"".into()));
        assert!(read(&swap("False", "True ")).unwrap_err().contains("Fortran"));
        let many = read(&swap("(2,), }     ", "(1152921504606846976,4,), }")).unwrap_err();
        assert!(many.contains("bytes of values for") || many.contains("header"), "{many}");
    }
}
