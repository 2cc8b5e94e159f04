//! Texts of a network, whose tensors hold places in a list of them.

use std::collections::BTreeMap;

/// Texts that a network knows, each once. A tensor of texts holds their places as int64.
///
/// The place behind the last one stands for all texts that are not in the list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    all: Vec<String>,
    places: BTreeMap<String, usize>,
    /// Bytes of the longest one.
    longest: usize,
}

impl Texts {
    /// All texts, in the order of their places.
    pub fn all(&self) -> &[String] {
        &self.all
    }

    /// The text at a place; `None` if it stands for an unknown one.
    pub fn get(&self, place: i64) -> Option<&str> {
        Some(self.all.get(usize::try_from(place).ok()?)?)
    }

    /// Bytes of the longest text.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The place of a text. One that is not in the list has the place behind the last one.
    pub fn place(&self, text: &str) -> i64 {
        self.known_place(text).unwrap_or(self.all.len() as i64)
    }

    /// The place of a text in the list.
    pub(crate) fn known_place(&self, text: &str) -> Option<i64> {
        self.places.get(text).map(|&place| place as i64)
    }

    /// Puts a text behind the others, if it is not there yet.
    #[cfg(feature = "onnx")]
    pub(crate) fn add(&mut self, text: &str) {
        if self.known_place(text).is_none() {
            self.places.insert(text.into(), self.all.len());
            self.all.push(text.into());
            self.longest = self.longest.max(text.len());
        }
    }
}

#[cfg(all(test, feature = "onnx"))]
mod tests {
    use super::*;

    #[test]
    fn text_has_one_place_and_unknown_ones_share_the_last() {
        let mut texts = Texts::default();
        ["b", "ä", "b", ""].iter().for_each(|text| texts.add(text));
        assert_eq!((texts.all(), texts.longest()), (&["b", "ä", ""].map(String::from)[..], 2));
        assert_eq!(["ä", "", "c"].map(|text| texts.place(text)), [1, 2, 3]);
        assert_eq!([0, 3, -1].map(|place| texts.get(place)), [Some("b"), None, None]);
    }
}
