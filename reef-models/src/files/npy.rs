//! Files of numpy that hold one array (`.npy`).
//!
//! The format is numpy's ("NPY format", versions 1 to 3): a magic word, the length of a header, the
//! header as a Python dictionary of three keys, and the values row-major. Little-endian arrays in
//! C's order are read.
//!
//! ```
//! use reef_models::{Budget, npy};
//! use reef_op::tensor::{Array, Element, Spec};
//!
//! let spec = Spec { element: Element::F32, dims: vec![1, 3] };
//! let array = Array::F32(vec![0.5, 1.0, 1.5]);
//! let file = npy::to_bytes(&spec, &array);
//! assert_eq!(npy::from_bytes(&file, "x.npy", &Budget::new(1 << 20))?, (spec, array));
//! # Ok::<(), reef_models::Error>(())
//! ```

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
    file(descr, &spec.dims, &array.to_le_bytes())
}

/// The bytes of a file with this type.
fn file(descr: &str, dims: &[usize], values: &[u8]) -> Vec<u8> {
    let sizes: String = dims.iter().map(|size| format!("{size},")).collect();
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // Values begin at a multiple of 64 bytes, behind spaces and a line feed.
    let padded = (MAGIC.len() + 4 + header.len() + 1).next_multiple_of(64) - MAGIC.len() - 4;
    let header = format!("{header:<width$}\n", width = padded - 1);
    [MAGIC, &[1, 0], &(padded as u16).to_le_bytes(), header.as_bytes(), values].concat()
}

/// Reads the bytes of a file of texts, which numpy calls `<U` and a number; `None` if it has
/// numbers. `name` names it in errors.
///
/// # Errors
///
/// Returns the errors of [`from_bytes`].
pub fn texts_from_bytes(
    bytes: &[u8],
    name: &str,
    budget: &Budget,
) -> Result<Option<(Vec<usize>, Vec<String>)>> {
    let wrong = |why: String| Error::Npy { file: name.into(), why };
    let (header, values) = split(bytes).map_err(wrong)?;
    let (descr, dims) = fields(header).map_err(wrong)?;
    let chars = descr.strip_prefix("<U").and_then(|chars| chars.parse().ok());
    let Some(chars) = chars.filter(|&chars: &usize| chars > 0) else { return Ok(None) };
    let bytes = |one: usize| dims.iter().try_fold(one, |bytes, &size| bytes.checked_mul(size));
    if chars.checked_mul(CODE).and_then(bytes) != Some(values.len()) {
        let len = values.len();
        return Err(wrong(format!("{len} bytes of values for texts {dims:?} of {chars}")));
    }
    let count = (values.len() / (chars * CODE)) as u64;
    let charged = Ledger::new(budget).charge((TEXT * count).saturating_add(values.len() as u64));
    let _charge =
        charged.map_err(|why| Error::Memory { file: name.into(), at: "values".into(), why })?;
    let text = |codes: &[u8]| {
        let (codes, _) = codes.as_chunks::<CODE>();
        let chars = codes.iter().map(|&code| char::from_u32(u32::from_le_bytes(code)));
        let text = chars.collect::<Option<String>>()?;
        Some(text.trim_end_matches('\0').to_owned())
    };
    let texts = values.chunks_exact(chars * CODE).map(text).collect::<Option<_>>();
    let texts = texts.ok_or_else(|| wrong("a text that isn't Unicode".into()))?;
    Ok(Some((dims, texts)))
}

/// Bytes of a character in a file.
const CODE: usize = 4;

/// Bytes that are charged for a text besides its own.
const TEXT: u64 = 128;

/// The bytes of a file of texts.
pub fn texts_to_bytes(dims: &[usize], texts: &[&str]) -> Vec<u8> {
    let longest = texts.iter().map(|text| text.chars().count()).max().unwrap_or_default().max(1);
    let mut values = Vec::with_capacity(texts.len() * longest * CODE);
    for text in texts {
        let end = values.len() + longest * CODE;
        values.extend(text.chars().flat_map(|char| u32::from(char).to_le_bytes()));
        values.resize(end, 0);
    }
    file(&format!("<U{longest}"), dims, &values)
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
    let (descr, dims) = fields(header)?;
    let known = TYPES.iter().find(|(name, _)| *name == descr);
    let element =
        known.map(|(_, element)| *element).ok_or_else(|| format!("elements of type {descr:?}"))?;
    Ok(Spec { element, dims })
}

/// As [`spec`], the type as the header calls it.
fn fields(header: &str) -> Result<(&str, Vec<usize>), String> {
    let descr = value_after(header, "'descr':")?;
    let descr =
        descr.strip_prefix('\'').and_then(|rest| rest.split_once('\'')).map(|(name, _)| name);
    let descr = descr.ok_or("a type that is not text: records are not read")?;
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
    Ok((descr, sizes.map(size).collect::<Result<_, String>>()?))
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
    fn written_texts_read_back_equal() {
        let read = |bytes: &[u8]| texts_from_bytes(bytes, "x.npy", &Budget::default());
        for (dims, texts) in
            [(vec![3], vec!["a", "", "grün"]), (vec![2, 1], vec!["", ""]), (vec![0], vec![])]
        {
            let bytes = texts_to_bytes(&dims, &texts);
            let texts = texts.into_iter().map(String::from).collect();
            assert_eq!(read(&bytes).unwrap(), Some((dims, texts)));
        }
        let numbers =
            to_bytes(&Spec { element: Element::F32, dims: vec![1] }, &Array::F32(vec![1.0]));
        assert_eq!(read(&numbers).unwrap(), None);
        let good = texts_to_bytes(&[2], &["ab", "c"]);
        let why = read(&good[..good.len() - 1]).unwrap_err().to_string();
        assert_eq!(why, "x.npy: 15 bytes of values for texts [2] of 2");
        let mut broken = good.clone();
        broken[good.len() - 8..].fill(0xff);
        let why = read(&broken).unwrap_err().to_string();
        assert_eq!(why, "x.npy: a text that isn't Unicode");
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
