//! Classification: an output as its largest values, each with its index: `VALUE:INDEX`.

use crate::error::{Error, Result};
use crate::tensor::{TensorInfo, push_text, texts};
use reef::tensor::Element;
use std::borrow::Cow;

/// Maximum bytes of a text: its length, a sign, 39 digits, a point with six digits, a colon, an
/// index.
const MAX_TEXT_BYTES: u64 = 4 + 1 + 39 + 7 + 1 + 20;

/// Refuses a tensor that cannot be classified.
///
/// # Errors
///
/// `Unimplemented` for a type other than FP32.
pub(super) fn check(info: &TensorInfo) -> Result<()> {
    if info.element == Some(Element::F32) {
        return Ok(());
    }
    let (name, datatype) = (&info.name, info.datatype());
    let text = format!("tensor {name}: classification of {datatype} instead of FP32");
    Err(Error::Unimplemented(text))
}

/// Returns the shape of such an output: classes of each row, or of all values if there are no rows.
pub(super) fn shape(info: &TensorInfo, classes: usize) -> Vec<i64> {
    let (rows, values) = rows(info);
    let kept = classes.min(values) as i64;
    if info.shape.len() < 2 { vec![kept] } else { vec![rows as i64, kept] }
}

/// Returns the maximum bytes that creating such an output takes, including the output.
pub(super) fn max_bytes(info: &TensorInfo, classes: usize) -> u64 {
    let (rows, values) = rows(info);
    let texts = (rows.saturating_mul(classes.min(values)) as u64).saturating_mul(MAX_TEXT_BYTES);
    texts.saturating_add((values as u64).saturating_mul(size_of::<usize>() as u64))
}

/// Returns the number of rows, and of values in each.
fn rows(info: &TensorInfo) -> (usize, usize) {
    let rows = if info.shape.len() < 2 { 1 } else { info.shape[0].max(0) as usize };
    (rows, info.elements() / rows.max(1))
}

/// Returns the `classes` largest values of each row, the largest first, of equal ones the first.
/// Texts are encoded as on the wire: each follows its length.
pub(super) fn to_bytes(info: &TensorInfo, bytes: &[u8], classes: usize) -> Vec<u8> {
    let (words, _) = bytes.as_chunks::<4>();
    let (mut order, mut all) = (Vec::new(), Vec::new());
    for row in words.chunks(rows(info).1.max(1)) {
        largest(row, classes, &mut order);
        for &at in &order {
            let text = format!("{:.6}:{at}", f32::from_le_bytes(row[at]));
            push_text(&mut all, text.as_bytes());
        }
    }
    all
}

/// Finds the indices of the largest values of a row.
fn largest(row: &[[u8; 4]], classes: usize, order: &mut Vec<usize>) {
    let value = |at: usize| f32::from_le_bytes(row[at]);
    let larger = |a: &usize, b: &usize| value(*b).total_cmp(&value(*a)).then(a.cmp(b));
    order.clear();
    order.extend(0..row.len());
    if (1..row.len()).contains(&classes) {
        order.select_nth_unstable_by(classes - 1, larger);
    }
    order.truncate(classes);
    order.sort_unstable_by(larger);
}

/// Decodes the texts of such bytes.
pub(super) fn from_bytes(bytes: &[u8]) -> Vec<Cow<'_, str>> {
    texts(bytes).unwrap_or_default().into_iter().map(String::from_utf8_lossy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classification_sorts_each_row() {
        let info = |shape: &[i64], element| TensorInfo {
            name: "logits".into(),
            element: Some(element),
            shape: shape.into(),
            offset: 0,
            bound: None,
            texts: None,
        };
        let rows = info(&[2, 3], Element::F32);
        let bytes = crate::tensor::to_bytes(&[0.5, 2.0, -1.0, 3.0, 3.0, f32::NAN.copysign(-1.0)]);
        let texts = to_bytes(&rows, &bytes, 2);
        assert!(texts.len() as u64 <= max_bytes(&rows, 2));
        let said = from_bytes(&texts);
        assert_eq!(said, ["2.000000:1", "0.500000:0", "3.000000:0", "3.000000:1"]);
        assert_eq!(from_bytes(&to_bytes(&rows, &bytes, 9)).len(), 6, "no more than there are");
        assert_eq!(shape(&rows, 2), [2, 2]);
        assert_eq!(shape(&rows, 9), [2, 3], "no more than there are");
        assert_eq!(shape(&info(&[6], Element::F32), 4), [4]);
        assert!(check(&info(&[6], Element::I64)).is_err() && check(&rows).is_ok());
    }
}
