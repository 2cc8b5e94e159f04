//! Limits from environment variables: REEF's names, and those that HAMi's and Alnair's clusters
//! set.

use super::quantity::{bytes, parts_per_million};
use std::io::ErrorKind;
use std::path::PathBuf;

/// Folder in which Alnair's device plugin puts a container's limits.
const ALNAIR_WORKSPACE: &str = "/var/lib/alnair/workspace";

/// Maximum length of Alnair's file, which has a few lines.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Limits of memory, by devices.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Memory {
    /// Limit of each device that has none of its own, in bytes.
    pub each: Option<u64>,
    /// Limits of single visible devices, by their numbers, in bytes.
    pub of: Vec<(u32, u64)>,
}

/// Limits of a job.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Limits {
    /// Processes with the same name have one limit together.
    pub name: String,
    /// Device memory.
    pub memory: Memory,
    /// Parts of a device's time in parts per million, by devices. `None`: all devices.
    pub compute: Vec<(Option<u32>, u32)>,
    /// True if a job may have more than its part while no other job wants the device.
    pub is_work_conserving: bool,
}

/// Returns the folder of accounts files: `$REEF_ACCOUNTS`, or a folder of this user in `/dev/shm`.
pub fn folder(get: impl Fn(&str) -> Option<String>) -> PathBuf {
    let own = || PathBuf::from(format!("/dev/shm/reef-{}", rustix::process::getuid().as_raw()));
    get("REEF_ACCOUNTS").filter(|path| !path.is_empty()).map_or_else(own, PathBuf::from)
}

/// Returns a variable's value, unless it is blank.
fn set(get: &impl Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    get(name).filter(|value| !value.trim().is_empty())
}

fn wrong(name: &str, value: &str) -> impl Fn(String) -> String {
    let begin = format!("{name}={value}: ");
    move |why| begin.clone() + &why
}

impl Limits {
    /// Reads the environment by `get`, and Alnair's file. `None`: nothing is limited. Precedence:
    /// REEF, then HAMi, then Alnair, for memory and compute separately.
    ///
    /// # Errors
    ///
    /// A line that names the variable or the file, its value, and what is wrong with it.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let memory = match set(&get, "REEF_MEMORY") {
            Some(value) => each(bytes(&value).map_err(wrong("REEF_MEMORY", &value))?),
            None => match hami_memory(&get)? {
                hami if hami != Memory::default() => hami,
                _ => alnair_memory(&get)?,
            },
        };
        let compute = match set(&get, "REEF_COMPUTE") {
            Some(value) => {
                vec![(None, parts_per_million(&value).map_err(wrong("REEF_COMPUTE", &value))?)]
            }
            None => match hami_compute(&get)? {
                hami if !hami.is_empty() => hami,
                _ => alnair_compute(&get)?,
            },
        };
        let is_work_conserving = match set(&get, "REEF_COMPUTE_POLICY").as_deref() {
            None | Some("hard") => false,
            Some("soft") => true,
            Some(value) => {
                return Err(wrong("REEF_COMPUTE_POLICY", value)("not hard or soft".into()));
            }
        };
        let is_none = memory == Memory::default() && compute.is_empty();
        let name = name(&get);
        Ok((!is_none).then_some(Self { name, memory, compute, is_work_conserving }))
    }

    /// Returns whether memory is limited on any device.
    pub fn has_memory(&self) -> bool {
        self.memory != Memory::default()
    }

    /// Returns the limit of the visible device of this number, in bytes.
    pub fn memory_of(&self, device: u32) -> Option<u64> {
        let own = self.memory.of.iter().find(|(of, _)| *of == device);
        own.map(|(_, bytes)| *bytes).or(self.memory.each)
    }

    /// Returns the part of the visible device of this number, in parts per million.
    pub fn compute_of(&self, device: u32) -> Option<u32> {
        let find =
            |wanted| self.compute.iter().find(|(of, _)| *of == wanted).map(|(_, part)| *part);
        find(Some(device)).or_else(|| find(None))
    }
}

fn each(bytes: u64) -> Memory {
    Memory { each: Some(bytes), of: Vec::new() }
}

/// Returns the name of a limit's owner: a job, a container of Alnair or HAMi, or an empty name for
/// all other programs of this user.
fn name(get: &impl Fn(&str) -> Option<String>) -> String {
    let named = |name: &str| set(get, name).map(|value| format!("{name}={value}"));
    let names = ["REEF_LIMIT_ID", "REEF_JOB", "ALNAIR_ID", "CUDA_DEVICE_MEMORY_SHARED_CACHE"];
    names.into_iter().find_map(named).unwrap_or_default()
}

/// Maximum number of visible devices with limits of their own.
const MAX_DEVICES: u32 = 16;

fn is_disabled(get: &impl Fn(&str) -> Option<String>) -> bool {
    set(get, "CUDA_DISABLE_CONTROL").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Reads a variable of HAMi, for all devices and for single ones. The value 0 means no limit there.
fn hami<T>(
    get: &impl Fn(&str) -> Option<String>,
    name: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<(Option<u32>, T)>, String> {
    let one = |of: Option<u32>| {
        let name = of.map_or(name.to_owned(), |of| format!("{name}_{of}"));
        let value = set(get, &name).filter(|value| value.trim() != "0")?;
        Some(parse(&value).map(|parsed| (of, parsed)).map_err(wrong(&name, &value)))
    };
    let all = std::iter::once(None).chain((0..MAX_DEVICES).map(Some));
    if is_disabled(get) { Ok(Vec::new()) } else { all.filter_map(one).collect() }
}

fn hami_memory(get: &impl Fn(&str) -> Option<String>) -> Result<Memory, String> {
    let all = hami(get, "CUDA_DEVICE_MEMORY_LIMIT", bytes)?;
    let each = all.iter().find(|(of, _)| of.is_none()).map(|(_, bytes)| *bytes);
    Ok(Memory { each, of: all.into_iter().filter_map(|(of, bytes)| Some((of?, bytes))).collect() })
}

fn hami_compute(get: &impl Fn(&str) -> Option<String>) -> Result<Vec<(Option<u32>, u32)>, String> {
    if set(get, "GPU_CORE_UTILIZATION_POLICY").as_deref() == Some("disable") {
        return Ok(Vec::new());
    }
    hami(get, "CUDA_DEVICE_SM_LIMIT", parts_per_million)
}

/// Reads Alnair's memory limit. A container without `ALNAIR_ID` or without the file isn't limited.
fn alnair_memory(get: &impl Fn(&str) -> Option<String>) -> Result<Memory, String> {
    if set(get, "ALNAIR_ID").is_none() {
        return Ok(Memory::default());
    }
    let folder = set(get, "ALNAIR_WORKSPACE_PATH").unwrap_or_else(|| ALNAIR_WORKSPACE.into());
    let path = PathBuf::from(folder).join("limits");
    let begin = format!("{}: ", path.display());
    let text = match reef_files::read_to_string(&path, MAX_FILE_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Memory::default()),
        read => read.map_err(|error| format!("{begin}{error}"))?,
    };
    let value = text.lines().find_map(|line| line.trim().strip_prefix("vmem:"));
    let value = value.ok_or_else(|| format!("{begin}no line vmem:BYTES"))?;
    Ok(each(bytes(value).map_err(|why| format!("{begin}vmem:{value}: {why}"))?))
}

/// Reads Alnair's compute limit. As in Alnair's own library, a number outside of 1 to 100 means no
/// limit.
fn alnair_compute(
    get: &impl Fn(&str) -> Option<String>,
) -> Result<Vec<(Option<u32>, u32)>, String> {
    const NAME: &str = "ALNAIR_VGPU_COMPUTE_PERCENTILE";
    let Some(value) = set(get, "ALNAIR_ID").and_then(|_| set(get, NAME)) else {
        return Ok(Vec::new());
    };
    let number = value.trim().parse::<f64>().ok().filter(|number| number.is_finite());
    match number {
        Some(number) if !(1.0..=100.0).contains(&number) => Ok(Vec::new()),
        _ => Ok(vec![(None, parts_per_million(&value).map_err(wrong(NAME, &value))?)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads these variables, and Alnair's file with this text, if there is one.
    fn read(set: &[(&str, &str)], file: Option<&str>) -> Result<Option<Limits>, String> {
        let folder = tempfile::tempdir().unwrap();
        if let Some(text) = file {
            std::fs::write(folder.path().join("limits"), text).unwrap();
        }
        let workspace = folder.path().to_str().unwrap();
        let set = [set, &[("ALNAIR_WORKSPACE_PATH", workspace)]].concat();
        let get = |name: &str| {
            set.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).to_owned())
        };
        Limits::read(get).map_err(|why| why.replace(workspace, "FOLDER"))
    }

    fn limits(set: &[(&str, &str)], file: Option<&str>) -> Limits {
        read(set, file).unwrap().unwrap()
    }

    #[test]
    fn empty_environment_limits_nothing() {
        assert_eq!(read(&[], None), Ok(None));
        let none =
            [("CUDA_DEVICE_MEMORY_LIMIT", "0"), ("CUDA_DEVICE_SM_LIMIT", "0"), ("REEF_JOB", "j")];
        assert_eq!(read(&none, None), Ok(None));
        assert_eq!(read(&[("ALNAIR_VGPU_COMPUTE_PERCENTILE", "30")], Some("vmem:5")), Ok(None));
        assert_eq!(read(&[("ALNAIR_ID", "abcde")], None), Ok(None));
    }

    #[test]
    fn own_variables_take_precedence_over_those_of_clusters() {
        let all = [
            ("CUDA_DEVICE_MEMORY_LIMIT", "2g"),
            ("CUDA_DEVICE_MEMORY_LIMIT_1", "3000m"),
            ("CUDA_DEVICE_SM_LIMIT", "40"),
            ("CUDA_DEVICE_MEMORY_SHARED_CACHE", "/tmp/vgpu"),
            ("ALNAIR_ID", "abcde"),
            ("ALNAIR_VGPU_COMPUTE_PERCENTILE", "20"),
        ];
        let hami = limits(&all, Some("vmem:1073741824"));
        assert_eq!((hami.memory_of(0), hami.memory_of(1)), (Some(2 << 30), Some(3000 << 20)));
        assert_eq!((hami.compute_of(0), hami.name.as_str()), (Some(400_000), "ALNAIR_ID=abcde"));
        let alnair = limits(&all[4..], Some("vmem:1073741824"));
        assert_eq!((alnair.memory_of(3), alnair.compute_of(3)), (Some(1 << 30), Some(200_000)));
        let ours = [&all[..], &[("REEF_MEMORY", "8GiB"), ("REEF_COMPUTE", "30%")]].concat();
        let ours = limits(&ours, None);
        assert_eq!((ours.memory_of(1), ours.compute_of(1)), (Some(8 << 30), Some(300_000)));
    }

    #[test]
    fn hami_limits_can_be_switched_off() {
        let off = [("CUDA_DEVICE_MEMORY_LIMIT", "2g"), ("CUDA_DISABLE_CONTROL", "true")];
        assert_eq!(read(&off, None), Ok(None));
        let no_time = [("CUDA_DEVICE_SM_LIMIT", "40"), ("GPU_CORE_UTILIZATION_POLICY", "disable")];
        assert_eq!(read(&no_time, None), Ok(None));
    }

    #[test]
    fn invalid_value_is_an_error_and_not_unlimited() {
        for (name, value, want) in [
            ("REEF_MEMORY", "8GB", "REEF_MEMORY=8GB: GB isn't one of the units "),
            ("REEF_MEMORY", "0", "REEF_MEMORY=0: no program runs in 0 bytes"),
            ("REEF_COMPUTE", "0", "REEF_COMPUTE=0: not a share of 1% to 100%"),
            ("REEF_COMPUTE_POLICY", "x", "REEF_COMPUTE_POLICY=x: not hard or soft"),
            ("CUDA_DEVICE_MEMORY_LIMIT_0", "3q", "CUDA_DEVICE_MEMORY_LIMIT_0=3q: q isn't one of "),
            ("CUDA_DEVICE_SM_LIMIT", "101", "CUDA_DEVICE_SM_LIMIT=101: not a share of 1% to 100%"),
        ] {
            let error = read(&[(name, value)], None).unwrap_err();
            assert!(error.starts_with(want), "{error}");
        }
        let alnair =
            |part| read(&[("ALNAIR_ID", "x"), ("ALNAIR_VGPU_COMPUTE_PERCENTILE", part)], None);
        assert_eq!((alnair("0"), alnair("-1"), alnair("101")), (Ok(None), Ok(None), Ok(None)));
        for part in ["3O", "NaN", "inf"] {
            let error = alnair(part).unwrap_err();
            let want = format!("ALNAIR_VGPU_COMPUTE_PERCENTILE={part}: not a share of 1% to 100%");
            assert_eq!(error, want);
        }
        let error = read(&[("ALNAIR_ID", "x")], Some("vmem:0")).unwrap_err();
        assert_eq!(error, "FOLDER/limits: vmem:0: no program runs in 0 bytes");
        let error = read(&[("ALNAIR_ID", "x")], Some("nothing")).unwrap_err();
        assert_eq!(error, "FOLDER/limits: no line vmem:BYTES");
    }

    #[test]
    fn file_of_limits_that_cannot_be_read_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let limits = folder.path().join("limits");
        let read = || {
            Limits::read(|name| match name {
                "ALNAIR_ID" => Some("x".to_owned()),
                "ALNAIR_WORKSPACE_PATH" => folder.path().to_str().map(str::to_owned),
                _ => None,
            })
        };
        let said = || read().unwrap_err();
        assert_eq!(read(), Ok(None), "there is none");
        std::os::unix::fs::symlink("/dev/zero", &limits).unwrap();
        assert!(said().ends_with("limits: must be a regular file, got a device"), "{}", said());
        std::fs::remove_file(&limits).unwrap();
        std::fs::File::create(&limits).unwrap().set_len(1 << 40).unwrap();
        assert!(said().ends_with("limits: must have at most 65536 bytes, got more"), "{}", said());
    }
}
