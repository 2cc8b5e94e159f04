//! Parameters of a load, which replace the repository's description.

use super::model_config::ModelConfig;
use super::upload::Upload;
use crate::error::{Error, Result};
use crate::models::budget::Budget;
use crate::name::{ModelName, excerpt};
use bytes::Bytes;
use std::sync::Arc;

/// Maximum length of a configuration, in bytes.
const MAX_CONFIG_BYTES: usize = 64 << 10;

/// Parameters of a load request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LoadParameters {
    /// A configuration as JSON.
    config: Option<String>,
    /// Names and contents of files.
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
    /// Adds a parameter: `config`, or `file:VERSION/NAME`.
    ///
    /// # Errors
    ///
    /// `Unimplemented` for any other one; `Invalid` if it has another type, or the configuration is
    /// too long.
    pub(crate) fn add(&mut self, key: &str, value: LoadValue) -> Result<()> {
        match (key, key.strip_prefix("file:"), value) {
            ("config", _, LoadValue::Text(config)) => self.config = Some(check_len(config)?),
            ("config", ..) => return Err(Error::Invalid("config must be JSON as text".into())),
            (_, Some(name), LoadValue::Bytes(bytes)) => self.files.push((name.into(), bytes)),
            (_, Some(_), _) => {
                let shown = excerpt(key);
                return Err(Error::Invalid(format!("{shown:?} must be bytes")));
            }
            _ => {
                let shown = excerpt(key);
                return Err(Error::Unimplemented(format!("load with parameter {shown:?}")));
            }
        }
        Ok(())
    }
}

/// Refuses a configuration whose values could take far more memory than it has bytes.
fn check_len(config: String) -> Result<String> {
    match config.len() {
        0..=MAX_CONFIG_BYTES => Ok(config),
        bytes => Err(Error::Invalid(format!(
            "config must be at most {MAX_CONFIG_BYTES} bytes, got {bytes}"
        ))),
    }
}

/// Replacement of the repository's description of a model, until the model is loaded without
/// parameters.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replacement {
    pub(crate) config: Option<ModelConfig>,
    /// All of its files.
    pub(crate) upload: Option<Arc<Upload>>,
}

impl Replacement {
    /// Reads the parameters of a load. Files are written, within `budget` and `max` bytes.
    ///
    /// # Errors
    ///
    /// Errors of the parameters; `Exhausted`.
    pub(crate) fn new(
        name: &ModelName,
        given: &LoadParameters,
        budget: &Budget,
        max: u64,
    ) -> Result<Self> {
        if given.config.is_none() && !given.files.is_empty() {
            let text = format!("model {name}: files require a config");
            return Err(Error::Invalid(text));
        }
        let config = given.config.as_ref().map(|config| ModelConfig::from_json(name, config));
        let config =
            config.transpose().map_err(|e| e.map_text(|why| format!("model {name}: {why}")))?;
        let write = || Upload::write(name.as_str(), &given.files, budget, max).map(Arc::new);
        let upload = (!given.files.is_empty()).then(write).transpose()?;
        Ok(Self { config, upload })
    }
}
