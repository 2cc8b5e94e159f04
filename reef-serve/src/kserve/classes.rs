//! An output as its largest values, each with its place: `VALUE:INDEX`.

use crate::error::{Error, Result};
use crate::tensor::TensorInfo;
use reef::tensor::Element;

/// The shape of such an output: classes of each row, or of all values if there are no rows.
///
/// # Errors
///
/// `Unimplemented` for what is not of FP32.
pub(super) fn shape(info: &TensorInfo, classes: usize) -> Result<Vec<i64>> {
    if info.element != Element::F32 {
        let text = format!(
            "tensor {}: classification of {}, FP32 is possible",
            info.name,
            info.datatype()
        );
        return Err(Error::Unimplemented(text));
    }
    let (rows, values) = rows(info);
    let kept = classes.min(values) as i64;
    Ok(if info.shape.len() < 2 { vec![kept] } else { vec![rows as i64, kept] })
}

/// How many rows there are, and values of each.
fn rows(info: &TensorInfo) -> (usize, usize) {
    let rows = if info.shape.len() < 2 { 1 } else { info.shape[0].max(0) as usize };
    (rows, info.elements() / rows.max(1))
}

/// The `classes` largest values of each row, the largest first; of equal ones the first.
pub(super) fn texts(info: &TensorInfo, bytes: &[u8], classes: usize) -> Vec<String> {
    let (words, _) = bytes.as_chunks::<4>();
    let values: Vec<f32> = words.iter().map(|&word| f32::from_le_bytes(word)).collect();
    values.chunks(rows(info).1.max(1)).flat_map(|row| largest(row, classes)).collect()
}

fn largest(row: &[f32], classes: usize) -> Vec<String> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
    order.iter().take(classes).map(|&at| format!("{:.6}:{at}", row[at])).collect()
}

/// As the wire has texts: each behind its length.
pub(super) fn to_bytes(texts: &[String]) -> Vec<u8> {
    let one = |text: &String| [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat();
    texts.iter().flat_map(one).collect()
}

/// The texts of such bytes.
pub(super) fn from_bytes(mut bytes: &[u8]) -> Vec<&str> {
    let mut texts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let (text, rest) = rest.split_at(rest.len().min(u32::from_le_bytes(*length) as usize));
        texts.push(std::str::from_utf8(text).unwrap_or_default());
        bytes = rest;
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_largest_values_first() {
        let info = |shape: &[i64], element| TensorInfo {
            name: "logits".into(),
            element,
            shape: shape.into(),
            offset: 0,
        };
        let rows = info(&[2, 3], Element::F32);
        let bytes = crate::tensor::to_bytes(&[0.5, 2.0, -1.0, 3.0, 3.0, f32::NAN.copysign(-1.0)]);
        let said = texts(&rows, &bytes, 2);
        assert_eq!(said, ["2.000000:1", "0.500000:0", "3.000000:0", "3.000000:1"]);
        assert_eq!(from_bytes(&to_bytes(&said)), said);
        assert_eq!(shape(&rows, 2), Ok(vec![2, 2]));
        assert_eq!(shape(&rows, 9), Ok(vec![2, 3]), "no more than there are");
        assert_eq!(shape(&info(&[6], Element::F32), 4), Ok(vec![4]));
        assert!(shape(&info(&[6], Element::I64), 4).is_err());
    }
}
