//! What a load brings with it, in the place of what the repository has.

use super::model_config::ModelConfig;
use super::upload::Upload;
use crate::error::{Error, Result};
use crate::models::budget::Budget;
use crate::name::{ModelName, shown};
use bytes::Bytes;
use std::sync::Arc;

/// Longest configuration, in bytes.
const MAX_CONFIG: usize = 64 << 10;

/// Parameters of a load, as clients give them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LoadParameters {
    /// A configuration as JSON.
    config: Option<String>,
    /// Names and contents.
    files: Vec<(String, Bytes)>,
}

/// A value of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LoadValue {
    Text(String),
    Bytes(Bytes),
    Other,
}

impl LoadParameters {
    /// Takes a parameter: `config`, or `file:VERSION/NAME`.
    ///
    /// # Errors
    ///
    /// `Unimplemented` for another one; `Invalid` if it has another type, or is too long a
    /// configuration.
    pub(crate) fn add(&mut self, key: &str, value: LoadValue) -> Result<()> {
        match (key, key.strip_prefix("file:"), value) {
            ("config", _, LoadValue::Text(config)) => self.config = Some(short(config)?),
            ("config", ..) => return Err(Error::Invalid("config: JSON as text is wanted".into())),
            (_, Some(name), LoadValue::Bytes(bytes)) => self.files.push((name.into(), bytes)),
            (_, Some(_), _) => {
                let shown = shown(key);
                return Err(Error::Invalid(format!("{shown:?}: bytes are wanted")));
            }
            _ => {
                let shown = shown(key);
                return Err(Error::Unimplemented(format!("load with parameter {shown:?}")));
            }
        }
        Ok(())
    }
}

/// Refuses a configuration whose values would take far more memory than it has bytes.
fn short(config: String) -> Result<String> {
    match config.len() {
        0..=MAX_CONFIG => Ok(config),
        bytes => Err(Error::Invalid(format!("config: {bytes} bytes, {MAX_CONFIG} are possible"))),
    }
}

/// What counts for a model in the place of what the repository says, until it is loaded without
/// parameters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replacement {
    pub(crate) config: Option<ModelConfig>,
    /// All of its files.
    pub(crate) upload: Option<Arc<Upload>>,
}

impl Replacement {
    /// What `given` says of a model. Files are written, within `budget` and `most` bytes.
    ///
    /// # Errors
    ///
    /// What is wrong with the parameters; `Exhausted`.
    pub(crate) fn new(
        name: &ModelName,
        given: &LoadParameters,
        budget: &Budget,
        most: u64,
    ) -> Result<Self> {
        if given.config.is_none() && !given.files.is_empty() {
            let text = format!("model {name}: files come with a config, which is missing");
            return Err(Error::Invalid(text));
        }
        let config = given.config.as_ref().map(|config| ModelConfig::from_json(name, config));
        let config = config.transpose().map_err(|e| e.map(|why| format!("model {name}: {why}")))?;
        let write = || Upload::write(name.as_str(), &given.files, budget, most).map(Arc::new);
        let upload = (!given.files.is_empty()).then(write).transpose()?;
        Ok(Self { config, upload })
    }
}
