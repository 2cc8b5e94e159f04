//! Prepared claims, on disk: the file outlives the plugin and a reboot of the machine.

use super::claim::Prepared;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The version of the file's format.
const VERSION: u64 = 1;
const FILE: &str = "claims.json";
const LOCK: &str = "claims.lock";

/// Claims by their UIDs.
pub(super) type Claims = BTreeMap<String, Prepared>;

/// The file, locked against a second plugin; it is read and written whole.
#[derive(Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    /// The system releases the lock with it.
    _lock: File,
    pub(super) claims: Claims,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u64,
    claims: Claims,
}

impl Checkpoint {
    /// Reads the file of this folder; without a file there are no claims. Waits for the lock, which
    /// is never held for long.
    ///
    /// # Errors
    ///
    /// The file can't be read, or isn't a checkpoint of this version: it isn't overwritten then.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        let (path, lock) = (folder.join(FILE), folder.join(LOCK));
        let file = reef_files::own(&lock, File::options().create(true).truncate(false).write(true));
        let file = file.and_then(|file| file.lock().map(|()| file));
        let _lock = file.map_err(|error| Error::of(&lock, &error))?;
        let claims = match reef_files::read_to_string(&path, reef_files::MAX_TEXT_BYTES) {
            Ok(text) => parse(&text).map_err(|why| damaged(&path, &why))?,
            Err(error) if error.kind() == ErrorKind::NotFound => Claims::new(),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                return Err(damaged(&path, "not UTF-8"));
            }
            Err(error) => return Err(Error::of(&path, &error)),
        };
        Ok(Self { path, _lock, claims })
    }

    /// Writes the file anew. After a crash there is the old one or the new one, whole.
    pub(super) fn save(&self) -> Result<()> {
        let content = Content { version: VERSION, claims: self.claims.clone() };
        let text = serde_json::to_string_pretty(&content).expect("names are texts");
        let write = || {
            reef_files::write(&self.path, text)?;
            File::open(self.path.parent().unwrap_or(Path::new("/")))?.sync_all()
        };
        write().map_err(|error: std::io::Error| Error::of(&self.path, &error))
    }
}

pub(super) fn parse(text: &str) -> std::result::Result<Claims, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    match value["version"].as_u64() {
        Some(VERSION) => (),
        Some(other) => return Err(format!("version {other}, this plugin has {VERSION}")),
        None => return Err("no version in it".into()),
    }
    let content = Content::deserialize(value).map_err(|error| error.to_string())?;
    Ok(content.claims)
}

fn damaged(path: &Path, why: &str) -> Error {
    Error::Failed(format!(
        "{}: {why}; without this file no claim is known to be prepared, and pods that run keep what they have",
        path.display()
    ))
}
