//! The JSON form of scales.

use super::scales::{Scales, check_percentile};
use crate::errors::error::{Error, Result};
use crate::files::json;
use crate::memory::budget::Budget;
use crate::memory::ledger::Ledger;
use reef_op::Format;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

const KIND: &str = "reef-scales";
const VERSION: u32 = 1;

/// Scales as they stand in a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScalesFile {
    kind: String,
    version: u32,
    network: String,
    format: String,
    percentile: f64,
    samples: usize,
    #[serde(deserialize_with = "distinct")]
    largest: BTreeMap<String, f32>,
}

/// Reads a map, and refuses a name that is there twice.
fn distinct<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f32>, D::Error> {
    struct Distinct;

    impl<'de> Visitor<'de> for Distinct {
        type Value = BTreeMap<String, f32>;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("a map from names to numbers")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = BTreeMap::new();
            while let Some((name, value)) = map.next_entry::<String, f32>()? {
                if all.contains_key(&name) {
                    return Err(A::Error::custom(format!("names must differ, got {name:?} twice")));
                }
                all.insert(name, value);
            }
            Ok(all)
        }
    }

    from.deserialize_map(Distinct)
}

impl ScalesFile {
    fn of(scales: &Scales) -> Self {
        Self {
            kind: KIND.into(),
            version: VERSION,
            network: scales.network.clone(),
            format: scales.format.name().into(),
            percentile: scales.percentile,
            samples: scales.samples,
            largest: scales.largest.clone(),
        }
    }

    /// The scales, or the fault of the file.
    fn scales(self) -> Result<Scales, String> {
        let Self { kind, version, network, format, percentile, samples, largest } = self;
        if kind != KIND {
            return Err(format!("kind: must be {KIND:?}, got {kind:?}"));
        }
        if version != VERSION {
            return Err(format!("version: must be {VERSION}, got {version}"));
        }
        let format = format_named(&format)?;
        check_percentile(percentile)?;
        if samples == 0 {
            return Err("samples: must be at least 1, got 0".into());
        }
        let is_wrong = |value: f32| !(value >= 0.0 && value.is_finite());
        if let Some((name, value)) = largest.iter().find(|(_, value)| is_wrong(**value)) {
            return Err(format!("largest.{name}: must be finite and not negative, got {value}"));
        }
        Ok(Scales { network, format, percentile, samples, largest })
    }
}

/// The format of a name.
fn format_named(name: &str) -> Result<Format, String> {
    let found = Format::ALL.into_iter().find(|format| format.name() == name);
    let names = || Format::ALL.map(Format::name).join(" or ");
    found.ok_or_else(|| format!("format: must be {}, got {name:?}", names()))
}

impl Scales {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// `Io` if it can't be read or isn't a regular file, `Memory` if it is larger than the default
    /// [budget](Budget), and those of [`from_json`](Self::from_json).
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        Self::load_within(path, &Budget::default())
    }

    /// As [`load`](Self::load), with memory of this budget.
    ///
    /// # Errors
    ///
    /// Errors of `load`.
    pub fn load_within(path: impl AsRef<Path>, budget: &Budget) -> Result<Self> {
        json::read(path.as_ref(), &Ledger::new(budget), Self::from_json)
    }

    /// Parses the text of a file; `file` names it in errors.
    ///
    /// # Errors
    ///
    /// `Json`, or `Scales` if it is JSON of something else.
    pub fn from_json(text: &str, file: &str) -> Result<Self> {
        let wrong = |why| Error::Scales { file: file.into(), why };
        json::parse::<ScalesFile>(text, file)?.scales().map_err(wrong)
    }

    /// The text that [`from_json`](Self::from_json) reads.
    ///
    /// # Errors
    ///
    /// None that this data can cause.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(&ScalesFile::of(self))
            .map_err(|error| Error::Json { file: "scales".into(), why: error.to_string() })
    }

    /// Writes the file that [`load`](Self::load) reads.
    ///
    /// # Errors
    ///
    /// `Io`.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let (file, text) = (path.as_ref().display().to_string(), self.to_json()? + "\n");
        reef_files::write(path, text).map_err(|error| io(&file, &error))
    }
}

fn io(file: &str, error: &dyn fmt::Display) -> Error {
    Error::Io { file: file.into(), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scales(largest: impl IntoIterator<Item = (String, f32)>) -> Scales {
        Scales {
            network: "mine".into(),
            format: Format::Fp8,
            percentile: 99.9,
            samples: 3,
            largest: largest.into_iter().collect(),
        }
    }

    proptest! {
        #[test]
        fn file_gives_back_each_bit(bits in prop::collection::vec(0..0x7f80_0000_u32, 0..20)) {
            let named = |(i, bits): (usize, &u32)| (format!("layer{i}"), f32::from_bits(*bits));
            let scales = scales(bits.iter().enumerate().map(named));
            prop_assert_eq!(Scales::from_json(&scales.to_json().unwrap(), "a"), Ok(scales));
        }
    }

    #[test]
    fn errors_name_the_file_the_field_and_the_value() {
        let good = scales([("conv1".into(), 2.5)]).to_json().unwrap();
        let error = |from: &str, to: &str| {
            assert!(good.contains(from), "{good}");
            Scales::from_json(&good.replacen(from, to, 1), "a.json").unwrap_err().to_string()
        };
        let rows = [
            ("reef-scales", "profile", "a.json: kind: must be \"reef-scales\", got \"profile\""),
            ("\"version\": 1", "\"version\": 2", "a.json: version: must be 1, got 2"),
            ("fp8", "int4", "a.json: format: must be int8 or fp8, got \"int4\""),
            ("99.9", "0", "a.json: percentile: must be above 0 and at most 100, got 0"),
            ("99.9", "101", "a.json: percentile: must be above 0 and at most 100, got 101"),
            ("2.5", "-1", "a.json: largest.conv1: must be finite and not negative, got -1"),
            ("2.5", "1e39", "a.json: largest.conv1: must be finite and not negative, got inf"),
            ("\"samples\": 3", "\"samples\": 0", "a.json: samples: must be at least 1, got 0"),
        ];
        for (from, to, want) in rows {
            assert_eq!(error(from, to), want);
        }
        let twice = error("2.5", "2.5, \"conv1\": 3");
        assert!(twice.starts_with("a.json: largest: names must differ, got \"conv1\" twice"));
        assert!(error("2.5", "\"x\"").starts_with("a.json: largest.conv1: invalid type: string"));
        assert!(error("{", "").starts_with("a.json: "), "not JSON");
        assert!(error("\"samples\"", "\"more\"").starts_with("a.json: more: unknown field"));
    }
}
