//! Options of a profile, from the environment.

use super::api::{Api, Set};
use super::report::alnair::timeline_calls;
use std::path::PathBuf;

/// Default folder of Alnair's profiler.
const FOLDER: &str = "./test";
/// Folder in which Alnair's plugin keeps a container's files.
const WORKSPACE: &str = "/var/lib/alnair/workspace";

/// Version of Alnair's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `metrics.log` with three lines for each function, `timeline.log`.
    One,
    /// A line for each function, with bytes.
    Two,
    /// Four lines in the workspace, and no timeline.
    Three,
}

/// Outputs of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Alnair's files, and their folder.
    pub alnair: Option<(Version, PathBuf)>,
    /// A table on stderr at the end.
    pub table: bool,
    /// A file for Perfetto.
    pub trace: Option<PathBuf>,
    /// Record only calls between `cuProfilerStart` and `cuProfilerStop`.
    pub range: bool,
}

impl ProfileOptions {
    /// Reads `REEF_PROFILE`, a list of `v1`, `v2`, `v3`, `table`, `trace` and `range`; without it,
    /// `PFLOG` alone means `v1`. `None`: there is no profile.
    ///
    /// # Errors
    ///
    /// A line that names the variable, and the fault of its value.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let set = |name: &str| get(name).filter(|value| !value.trim().is_empty());
        let path = |name: &str, or: &str| PathBuf::from(set(name).unwrap_or_else(|| or.into()));
        let list = set("REEF_PROFILE").or_else(|| set("PFLOG").map(|_| "v1".into()));
        let Some(list) = list else { return Ok(None) };
        let mut options = Self::default();
        for word in list.split(',').map(str::trim) {
            let wrong = |why: &str| Err(format!("REEF_PROFILE={list}: {word}{why}"));
            match word {
                "v1" | "v2" | "v3" if options.alnair.is_some() => {
                    return wrong(": metrics.log has one version");
                }
                "v1" => options.alnair = Some((Version::One, path("PFLOG", FOLDER))),
                "v2" => options.alnair = Some((Version::Two, path("PFLOG", FOLDER))),
                "v3" => {
                    let folder = path("ALNAIR_WORKSPACE_PATH", WORKSPACE);
                    options.alnair = Some((Version::Three, folder));
                }
                "table" => options.table = true,
                "trace" => options.trace = Some(path("REEF_PROFILE_TRACE", "reef-trace.json")),
                "range" => options.range = true,
                _ => return wrong(" isn't one of v1, v2, v3, table, trace, range"),
            }
        }
        let is_shown = options.table || options.trace.is_some();
        if options.range && (options.alnair.is_some() || !is_shown) {
            return Err(format!(
                "REEF_PROFILE={list}: range goes with table and trace, and alone with them"
            ));
        }
        Ok(Some(options))
    }

    /// Returns the functions whose calls have to be written one by one.
    pub fn sent(&self) -> Set {
        let lines = match self.alnair {
            Some((Version::One | Version::Two, _)) => timeline_calls(),
            _ => Set::default(),
        };
        let spans = if self.trace.is_some() { Set::of(&Api::ALL) } else { Set::default() };
        lines.or(spans)
    }

    /// Returns whether the allocated bytes have to be known.
    pub fn needs_memory(&self) -> bool {
        matches!(self.alnair, Some((Version::Two | Version::Three, _)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Option<ProfileOptions>, String> {
        ProfileOptions::read(|name| {
            set.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn options_are_read_as_a_list() {
        assert_eq!(read(&[("PFLOG", "")]), Ok(None));
        let one = read(&[("PFLOG", "logs")]).unwrap().unwrap();
        assert_eq!(one.alnair, Some((Version::One, "logs".into())));
        let all = [("REEF_PROFILE", "v2, table,trace"), ("REEF_PROFILE_TRACE", "/tmp/a.json")];
        let all = read(&all).unwrap().unwrap();
        assert_eq!(all.alnair, Some((Version::Two, FOLDER.into())));
        assert!(all.table && all.needs_memory() && all.sent().has(Api::Launch));
        assert_eq!(all.trace, Some("/tmp/a.json".into()));
        let three = read(&[("REEF_PROFILE", "v3"), ("PFLOG", "logs")]).unwrap().unwrap();
        assert_eq!(three.alnair, Some((Version::Three, WORKSPACE.into())));
        assert!(!three.sent().has(Api::CopyIn));
    }

    #[test]
    fn unknown_or_conflicting_options_are_errors() {
        let said = |list| read(&[("REEF_PROFILE", list)]).unwrap_err();
        assert_eq!(said("v4"), "REEF_PROFILE=v4: v4 isn't one of v1, v2, v3, table, trace, range");
        for list in ["range", "range,v1", "table,v2,range"] {
            assert!(said(list).ends_with("range goes with table and trace, and alone with them"));
        }
        assert_eq!(said("v1,v2"), "REEF_PROFILE=v1,v2: v2: metrics.log has one version");
    }
}
