//! Kernels and device functions.

use super::cursor::{Cursor, Kind};
use super::statement::Body;
use crate::error::Error;

/// `.entry` or `.func`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) is_entry: bool,
    pub(crate) parameters: Vec<Parameter<'a>>,
    /// Place of the bracket that ends the parameters, or at which `(..)` would be inserted.
    pub(crate) list_end: usize,
    pub(crate) has_list: bool,
    /// Directives between parameters and body, such as `.maxntid 128, 1, 1`.
    pub(crate) directives: &'a str,
    /// `None` of a declaration.
    pub(crate) body: Option<Body<'a>>,
    /// Place behind the bracket that begins the body.
    pub(crate) body_at: usize,
}

/// Parameter of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Parameter<'a> {
    pub(crate) name: &'a str,
    pub(crate) bytes: u64,
    pub(crate) align: u64,
    /// A struct or an array, of bytes.
    pub(crate) is_array: bool,
}

/// Offsets of parameters, and the end of the last one.
pub(crate) fn offsets(parameters: &[Parameter<'_>]) -> (Vec<u64>, u64) {
    let mut end = 0_u64;
    let mut offsets = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        let at = end.next_multiple_of(parameter.align.max(1));
        offsets.push(at);
        end = at.saturating_add(parameter.bytes);
    }
    (offsets, end)
}

/// Bytes of a value of a type such as `.b32`; `None` if it is not a type.
pub(crate) fn type_bytes(name: &str) -> Option<u64> {
    let bits = match name {
        "pred" => 8,
        "f16x2" | "bf16x2" => 32,
        "b128" => 128,
        _ => {
            let digits = name.trim_start_matches(|c: char| c.is_ascii_alphabetic());
            let letters = &name[..name.len() - digits.len()];
            match letters {
                "b" | "u" | "s" | "f" | "bf" => digits.parse().ok()?,
                _ => return None,
            }
        }
    };
    matches!(bits, 8 | 16 | 32 | 64 | 128).then_some(bits / 8)
}

/// Reads parameters between round brackets, of which the first has been taken.
///
/// # Errors
///
/// A parameter has a form that is not known, or the list does not end.
pub(crate) fn parameters<'a>(cursor: &mut Cursor<'a>) -> Result<Vec<Parameter<'a>>, Error> {
    let begin = cursor.at();
    let mut all = Vec::new();
    let mut current = Vec::new();
    loop {
        let token =
            cursor.next().ok_or_else(|| cursor.error(begin, "a parameter list does not end"))?;
        match token.text {
            "," | ")" => {
                if !current.is_empty() {
                    let unknown = || cursor.error(token.at, "a parameter must have type and name");
                    all.push(parameter(&current).ok_or_else(unknown)?);
                    current.clear();
                }
                if token.is(")") {
                    return Ok(all);
                }
            }
            _ => current.push((token.kind, token.text)),
        }
    }
}

/// `.param .align 8 .b8 name[64]`, `.param .u64 .ptr .global .align 16 name`, `.reg .b32 name`.
fn parameter<'a>(tokens: &[(Kind, &'a str)]) -> Option<Parameter<'a>> {
    let words: Vec<&str> =
        tokens.iter().filter(|(kind, _)| *kind == Kind::Word).map(|(_, text)| *text).collect();
    let element = words.iter().find_map(|word| type_bytes(word.strip_prefix('.')?))?;
    let is_pointer = words.contains(&".ptr");
    let align = words.iter().position(|word| *word == ".align");
    let align = align.and_then(|at| words.get(at + 1)?.parse().ok()).unwrap_or(element);
    // The alignment of what a pointer points to is not its own.
    let align = if is_pointer { element } else { align };
    let bracket = tokens.iter().position(|(_, text)| *text == "[");
    let name = match bracket {
        Some(at) => tokens[..at].last()?.1,
        None => words.last()?,
    };
    let count: u64 = match bracket {
        Some(at) => tokens.get(at + 1).and_then(|(_, text)| text.parse().ok()).unwrap_or(0),
        None => 1,
    };
    let is_name =
        name.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$' | '%'));
    let bytes = element.checked_mul(count)?;
    is_name.then_some(Parameter { name, bytes, align, is_array: bracket.is_some() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_places_as_in_c() {
        let text = ".param .u32 n, .param .u64 .ptr .global .align 16 x, .param .align 4 .b8 s[12],
            .param .u64 last)";
        let read = parameters(&mut Cursor::new(text, 0)).unwrap();
        let names: Vec<_> = read.iter().map(|p| (p.name, p.bytes, p.align)).collect();
        assert_eq!(names, [("n", 4, 4), ("x", 8, 8), ("s", 12, 4), ("last", 8, 8)]);
        assert_eq!(offsets(&read), (vec![0, 8, 16, 32], 40));
    }

    #[test]
    fn types_have_sizes() {
        let sizes = ["b8", "bf16", "f64", "pred", "u7", "align"].map(type_bytes);
        assert_eq!(sizes, [Some(1), Some(2), Some(8), Some(1), None, None]);
    }
}
