//! Records of suspended processes, one JSON file each.
//!
//! The record says how much memory a return needs; the driver doesn't. It names the process by its
//! number and the time of its start, so that a later process of the same number is not taken for
//! it.

use crate::api::Uuid;
use crate::error::Error;
use reef_guest::limit::ProcessStat;
use reef_guest::swap::Moved;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A process, so that no later one of its number is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Start time in ticks since the boot, field 22 of `/proc/PID/stat`.
    pub start: u64,
}

impl Process {
    /// The process of this number.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn of(pid: u32) -> io::Result<Self> {
        Ok(Self { pid, start: ProcessStat::of(pid)?.start })
    }

    /// Returns whether the process lives.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).is_ok_and(|now| now == *self)
    }

    /// Returns whether the process has ended. A process of which nothing can be read has not.
    fn has_ended(&self) -> bool {
        match Self::of(self.pid) {
            Ok(now) => now != *self,
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Name of its program, up to 15 characters.
    pub fn name(&self) -> String {
        let name = std::fs::read(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&name).trim_end().to_owned()
    }
}

/// Memory on one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Identity of the GPU, 32 hexadecimal digits.
    pub device: String,
    /// Bytes.
    pub bytes: u64,
}

impl Held {
    /// Returns bytes on a GPU.
    pub fn new(device: &Uuid, bytes: u64) -> Self {
        Self { device: device.iter().map(|byte| format!("{byte:02x}")).collect(), bytes }
    }

    /// Identity of the GPU. `None`: the text is not one.
    pub fn uuid(&self) -> Option<Uuid> {
        let text = Some(self.device.as_str()).filter(|text| text.len() == 32 && text.is_ascii())?;
        let mut uuid = Uuid::default();
        for (at, byte) in uuid.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
        }
        Some(uuid)
    }
}

/// Time of each step, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Steps {
    /// Until the work of all processes had ended.
    pub lock: f64,
    /// Copies to the host.
    pub checkpoint: f64,
    /// Copies to the GPU.
    pub restore: f64,
    /// Until the last process went on.
    pub unlock: f64,
}

/// A suspended process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Suspended {
    /// The process.
    pub process: Process,
    /// Name of its program.
    pub name: String,
    /// Memory it had, by GPU.
    pub held: Vec<Held>,
    /// End of the suspension, in seconds since 1970.
    pub since: u64,
    /// Time of each step.
    pub steps: Steps,
    /// True if the daemon suspended it for a real-time program's memory, and brings it back.
    #[serde(default)]
    pub for_memory: bool,
    /// True if the program has moved its own memory ([`reef_guest::swap`]), and must move it back.
    #[serde(default)]
    pub is_swapped: bool,
    /// Part of the memory that the program has moved itself, by GPU.
    #[serde(default)]
    pub swapped: Vec<Held>,
}

impl Suspended {
    pub(crate) fn now(process: Process, held: Vec<Held>, steps: Steps) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            process,
            name: process.name(),
            held,
            since,
            steps,
            for_memory: false,
            is_swapped: false,
            swapped: Vec::new(),
        }
    }

    /// A process that was suspended by another program: nothing is known of its memory.
    pub(crate) fn unknown(pid: u32) -> Result<Self, Error> {
        let gone = |error| Error::Record { what: format!("process {pid}"), error };
        let process = Process::of(pid).map_err(gone)?;
        Ok(Self::now(process, Vec::new(), Steps::default()))
    }

    /// Notes memory that the program moved itself before it was suspended.
    pub(crate) fn add(&mut self, moved: &Moved) {
        self.is_swapped = true;
        self.steps.checkpoint += moved.seconds;
        for (device, bytes) in &moved.devices {
            let more = Held::new(device, *bytes);
            self.swapped.push(more.clone());
            match self.held.iter_mut().find(|held| held.device == more.device) {
                Some(held) => held.bytes = held.bytes.saturating_add(more.bytes),
                None => self.held.push(more),
            }
        }
    }

    /// Raises its memory to what it had before, where that is more.
    pub(crate) fn raise(&mut self, had: &[Held]) {
        for had in had {
            match self.held.iter_mut().find(|held| held.device == had.device) {
                Some(held) => held.bytes = held.bytes.max(had.bytes),
                None => self.held.push(had.clone()),
            }
        }
    }

    /// Returns the record with the memory that the driver brings back, without the program's own
    /// part.
    pub(crate) fn without_swapped(&self) -> Self {
        let mut rest = self.clone();
        for held in &mut rest.held {
            let own = self.swapped.iter().filter(|own| own.device == held.device);
            let own = own.fold(0_u64, |sum, own| sum.saturating_add(own.bytes));
            held.bytes = held.bytes.saturating_sub(own);
        }
        rest
    }

    /// Bytes on all GPUs together.
    pub fn bytes(&self) -> u64 {
        self.held.iter().fold(0, |sum, held| sum.saturating_add(held.bytes))
    }
}

/// Maximum length of a record.
const MAX_RECORD_BYTES: u64 = 4 << 20;

/// The folder of the records.
#[derive(Clone, Debug)]
pub struct Records(PathBuf);

impl Records {
    /// Records in this folder, which is made when the first one is written.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into())
    }

    fn file(&self, pid: u32) -> PathBuf {
        self.0.join(format!("{pid}.json"))
    }

    /// Writes a record, whole or not at all.
    ///
    /// # Errors
    ///
    /// `Record`: the system's.
    pub fn save(&self, record: &Suspended) -> Result<(), Error> {
        let file = self.file(record.process.pid);
        let written = std::fs::create_dir_all(&self.0)
            .and_then(|()| reef_files::write(&file, serde_json::to_vec_pretty(record)?));
        written.map_err(|error| failed(&file, error))
    }

    /// Forgets a process.
    pub fn forget(&self, pid: u32) {
        let _ = std::fs::remove_file(self.file(pid)); // absent: it was forgotten
    }

    /// The record of a process that lives. `None`: there is none.
    pub fn find(&self, pid: u32) -> Option<Suspended> {
        let is_meant = |record: &Suspended| record.process.pid == pid && record.process.is_alive();
        self.read(pid).ok().filter(is_meant)
    }

    fn read(&self, pid: u32) -> io::Result<Suspended> {
        let text = reef_files::read(self.file(pid), MAX_RECORD_BYTES)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// Returns whether the process of a record has ended. One that can't be read is kept for as
    /// long as there is a process of its number.
    fn is_over(&self, pid: u32) -> bool {
        match self.read(pid) {
            Ok(record) if record.process.pid == pid => record.process.has_ended(),
            _ => Process::of(pid).is_err_and(|error| error.kind() == io::ErrorKind::NotFound),
        }
    }

    /// Records of all processes that live, by number. Those of dead ones are removed.
    pub fn all(&self) -> Vec<Suspended> {
        let files = std::fs::read_dir(&self.0).into_iter().flatten().flatten();
        let pid = |entry: std::fs::DirEntry| {
            entry.file_name().to_str()?.strip_suffix(".json")?.parse().ok()
        };
        let mut pids: Vec<u32> = files.filter_map(pid).collect();
        pids.sort_unstable();
        let alive = |pid: u32| {
            let found = self.find(pid);
            if found.is_none() && self.is_over(pid) {
                self.forget(pid);
            }
            found
        };
        pids.into_iter().filter_map(alive).collect()
    }
}

fn failed(what: &Path, error: io::Error) -> Error {
    Error::Record { what: what.display().to_string(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(process: Process) -> Suspended {
        Suspended::now(process, vec![Held::new(&[7; 16], 5)], Steps::default())
    }

    #[test]
    fn record_of_living_process_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let (records, own) = (Records::at(folder.path()), Process::of(std::process::id()).unwrap());
        records.save(&record(own)).unwrap();
        assert_eq!(records.find(own.pid).unwrap().bytes(), 5);
        assert_eq!(records.all().len(), 1);
        records.forget(own.pid);
        assert!(records.find(own.pid).is_none());
    }

    #[test]
    fn driver_brings_back_what_the_program_has_not_moved() {
        let own = Process::of(std::process::id()).unwrap();
        let mut record = record(own);
        record.add(&Moved { devices: vec![([7; 16], 40), ([8; 16], 9)], seconds: 0.0 });
        assert_eq!(record.bytes(), 54);
        let rest = record.without_swapped();
        assert_eq!(rest.held, [Held::new(&[7; 16], 5), Held::new(&[8; 16], 0)]);
        record.raise(&[Held::new(&[7; 16], 44), Held::new(&[8; 16], 10), Held::new(&[9; 16], 1)]);
        assert_eq!(record.bytes(), 45 + 10 + 1);
    }

    #[test]
    fn record_of_earlier_process_of_same_number_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::at(folder.path());
        let own = Process::of(std::process::id()).unwrap();
        records.save(&record(Process { start: own.start + 1, ..own })).unwrap();
        assert!(
            records.all().is_empty() && !folder.path().join(format!("{}.json", own.pid)).exists()
        );
    }

    #[test]
    fn broken_record_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("1.json"), b"{\"process\":").unwrap();
        std::fs::write(folder.path().join("readme"), b"").unwrap();
        assert!(Records::at(folder.path()).all().is_empty());
        assert!(folder.path().join("readme").exists(), "files of others stay");
    }

    /// It may be one that could not be read in this moment.
    #[test]
    fn record_that_is_not_read_stays_while_its_process_lives() {
        let folder = tempfile::tempdir().unwrap();
        let [own, gone] = [std::process::id(), u32::MAX];
        for pid in [own, gone] {
            std::fs::write(folder.path().join(format!("{pid}.json")), "{").unwrap();
        }
        assert!(Records::at(folder.path()).all().is_empty());
        assert!(folder.path().join(format!("{own}.json")).exists());
        assert!(!folder.path().join(format!("{gone}.json")).exists());
    }

    #[test]
    fn record_is_written_through_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let own = Process::of(std::process::id()).unwrap();
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        let link = folder.path().join(format!("{}.new", own.pid));
        std::os::unix::fs::symlink(&precious, link).unwrap();
        Records::at(folder.path()).save(&record(own)).unwrap();
        assert_eq!(std::fs::read(&precious).unwrap(), b"precious");
    }

    proptest! {
        #[test]
        fn identity_survives_its_text(uuid: [u8; 16]) {
            prop_assert_eq!(Held::new(&uuid, 1).uuid(), Some(uuid));
        }

        #[test]
        fn text_that_is_no_identity_is_refused(text in "[0-9a-g]{0,40}") {
            let held = Held { device: text.clone(), bytes: 1 };
            let is_hex = text.len() == 32 && !text.contains('g');
            prop_assert_eq!(held.uuid().is_some(), is_hex);
        }
    }
}
