//! Parameters of requests and tensors, including a tensor's shared memory, and those in headers.

use crate::error::{Error, Result};
use crate::tensor::short;
use axum::http::{HeaderMap, HeaderValue};
use std::fmt;

/// Maximum length of an id, a name, and the name or the text of a parameter, in bytes. They are
/// copied, and some are repeated in the answer.
pub(crate) const MAX_TEXT_BYTES: usize = 4096;

/// Returns the value of a header that a request has at most once: of two values, a proxy or another
/// reader may take the other one.
///
/// # Errors
///
/// `Invalid` if it is there twice.
pub(crate) fn only_header<'a>(
    headers: &'a HeaderMap,
    name: &str,
) -> Result<Option<&'a HeaderValue>> {
    let mut given = headers.get_all(name).iter();
    let value = given.next();
    if given.next().is_some() {
        return Err(Error::Invalid(format!("header {name}: must be given once")));
    }
    Ok(value)
}

/// A parameter of a request or tensor, of any type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Parameter {
    Number(u64),
    Text(String),
    Flag(bool),
    Other,
}

impl Parameter {
    pub(crate) fn number(&self, key: &str) -> Result<u64> {
        match self {
            Self::Number(n) => Ok(*n),
            other => Err(wrong(key, "a non-negative integer", other)),
        }
    }

    /// Returns a number that must fit 32 bits.
    pub(crate) fn small(&self, key: &str) -> Result<u32> {
        let number = self.number(key)?;
        u32::try_from(number).map_err(|_| wrong(key, &format!("at most {}", u32::MAX), self))
    }

    /// True if the value stands for the absence of the parameter.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Number(0) | Self::Flag(false))
    }

    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        match self {
            Self::Flag(flag) => Ok(*flag),
            other => Err(wrong(key, "true or false", other)),
        }
    }

    /// Returns an id: a number other than 0, or a text; `None` for an empty one.
    pub(crate) fn id(&self, key: &str) -> Result<Option<String>> {
        match self {
            Self::Number(number) => Ok(Some(number.to_string())),
            Self::Text(text) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
            other => Err(wrong(key, "a positive integer or a text", other)),
        }
    }

    fn text(&self, key: &str) -> Result<String> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            other => Err(wrong(key, "a text", other)),
        }
    }
}

fn wrong(key: &str, expected: &str, got: &Parameter) -> Error {
    Error::Invalid(format!("parameter {key}: must be {expected}, got {got}"))
}

impl fmt::Display for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{:?}", short(text)),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Other => f.write_str("a negative number, a fraction or a value of another kind"),
        }
    }
}

/// A part of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RegionPart {
    pub(crate) region: String,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Returns the part of a region that the parameters of a tensor name, if any.
///
/// # Errors
///
/// `Invalid`.
pub(crate) fn region_part<'a>(
    parameters: impl IntoIterator<Item = (&'a str, Parameter)>,
) -> Result<Option<RegionPart>> {
    let (mut region, mut offset, mut bytes) = (None, None, None);
    for (key, value) in parameters {
        match key {
            "shared_memory_region" => region = Some(value.text(key)?),
            "shared_memory_offset" => offset = Some(value.number(key)?),
            "shared_memory_byte_size" => bytes = Some(value.number(key)?),
            _ => {}
        }
    }
    match (region, bytes) {
        (None, None) if offset.is_none() => Ok(None),
        (Some(region), Some(bytes)) => {
            Ok(Some(RegionPart { region, offset: offset.unwrap_or_default(), bytes }))
        }
        _ => {
            Err(Error::Invalid("shared memory: region and byte size must be given together".into()))
        }
    }
}

/// Returns the number of largest values requested in place of an output; 0 is the output itself.
///
/// # Errors
///
/// `Invalid`.
pub(crate) fn classes<'a>(
    parameters: impl IntoIterator<Item = (&'a str, Parameter)>,
) -> Result<usize> {
    let given = parameters.into_iter().find(|(key, _)| *key == "classification");
    let given = given.map(|(key, value)| value.small(key)).transpose()?;
    Ok(given.unwrap_or_default() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, header};

    #[test]
    fn header_of_two_values_is_refused() {
        let value = HeaderValue::from_static;
        let headers: HeaderMap = [
            (header::AUTHORIZATION, value("Bearer a")),
            (HeaderName::from_static("reef-class"), value("be")),
            (HeaderName::from_static("reef-class"), value("rt")),
        ]
        .into_iter()
        .collect();
        assert_eq!(only_header(&headers, "host"), Ok(None));
        assert_eq!(only_header(&headers, "authorization"), Ok(Some(&value("Bearer a"))));
        let why = "header reef-class: must be given once";
        assert_eq!(only_header(&headers, "reef-class"), Err(Error::Invalid(why.into())));
    }

    #[test]
    fn region_without_byte_size_is_refused() {
        let text = |text: &str| Parameter::Text(text.into());
        let all = [
            ("shared_memory_region", text("r")),
            ("shared_memory_byte_size", Parameter::Number(8)),
            ("shared_memory_offset", Parameter::Number(4)),
        ];
        let want = RegionPart { region: "r".into(), offset: 4, bytes: 8 };
        assert_eq!(region_part(all.clone()), Ok(Some(want)));
        assert!(region_part(all[..1].to_vec()).is_err() && region_part(all[1..].to_vec()).is_err());
        assert!(region_part(all[2..].to_vec()).is_err(), "an offset of no region");
        assert_eq!(region_part([("mine", Parameter::Other)]), Ok(None));
        assert!(region_part([("shared_memory_region", Parameter::Number(1))]).is_err());
        assert_eq!(classes([("classification", Parameter::Number(3))]), Ok(3));
        assert_eq!(classes(all), Ok(0));
        assert!(classes([("classification", Parameter::Flag(true))]).is_err());
        let said = classes([("classification", Parameter::Number(1 << 62))]).unwrap_err();
        let why = "must be at most 4294967295, got 4611686018427387904";
        assert_eq!(said, Error::Invalid(format!("parameter classification: {why}")));
    }
}
