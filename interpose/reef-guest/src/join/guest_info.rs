//! Job, token, part of the time and wishes that a guest sends with its request.

use crate::colocation::share::ShareRequest;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// Job and token of a program (`reef exec --job`, `--token-file`), its part of the device's time,
/// and whether it asks for phases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestInfo {
    job: String,
    token: Secret,
    part: u32,
    is_for_phases: bool,
    colocate: ShareRequest,
    program: u64,
}

/// Text that isn't printed.
#[derive(Clone, Default, PartialEq, Eq)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(if self.0.is_empty() { "none" } else { "set" })
    }
}

impl GuestInfo {
    /// Maximum bytes of a job's name.
    pub const MAX_JOB: usize = 40;
    /// Maximum bytes of a token.
    pub const MAX_TOKEN: usize = 160;
    /// Largest number of a program: a message has six bytes for it.
    pub(super) const MAX_PROGRAM: u64 = (1 << 48) - 1;

    /// Checks a job's name and a token. An empty one means none.
    ///
    /// # Errors
    ///
    /// One of them is too long, or has control characters.
    pub fn new(job: impl Into<String>, token: impl Into<String>) -> Result<Self, String> {
        let (job, token) = (job.into(), token.into());
        check("a job's name", &job, Self::MAX_JOB)?;
        check("a token", &token, Self::MAX_TOKEN)?;
        Ok(Self {
            job,
            token: Secret(token),
            part: 0,
            is_for_phases: false,
            colocate: ShareRequest::default(),
            program: 0,
        })
    }

    /// Sets the part of the device's time that the program may have, in parts per million. Zero: no
    /// limit.
    #[must_use]
    pub fn with_part(self, part: u32) -> Self {
        Self { part, ..self }
    }

    /// Returns the part of the device's time, in parts per million. Zero: no limit.
    pub fn part(&self) -> u32 {
        self.part
    }

    /// Sets what passes while real-time programs are busy, as the program wishes.
    #[must_use]
    pub fn with_shares(self, colocate: ShareRequest) -> Self {
        Self { colocate, ..self }
    }

    /// Returns what the program wishes to pass while real-time programs are busy.
    pub fn shares(&self) -> ShareRequest {
        self.colocate
    }

    /// Makes the request one for real-time phases of a best-effort guest: it never holds that guest
    /// or its job.
    #[must_use]
    pub fn for_phases(self) -> Self {
        Self { is_for_phases: true, ..self }
    }

    /// Returns whether the request is for real-time phases.
    pub fn is_for_phases(&self) -> bool {
        self.is_for_phases
    }

    /// Names the program by its executable file and its arguments. The daemon gives it, when it
    /// starts again, the windows that it had next to the same other programs.
    #[must_use]
    pub fn with_program(
        self,
        executable: &Path,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        executable.hash(&mut hasher);
        arguments.into_iter().for_each(|argument| argument.hash(&mut hasher));
        self.with_program_number((hasher.finish() & Self::MAX_PROGRAM).max(1))
    }

    /// Sets the number of the program, which is at most [`MAX_PROGRAM`](Self::MAX_PROGRAM).
    pub(super) fn with_program_number(self, program: u64) -> Self {
        Self { program, ..self }
    }

    /// Returns the number of the program: the same one for the same executable file and arguments.
    /// Zero: they are not known.
    pub fn program(&self) -> u64 {
        self.program
    }

    /// Returns the job's name. Processes of one user with the same job are held together. Empty:
    /// none.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// Returns the token, by which a class may be granted. Empty: none.
    pub fn token(&self) -> &str {
        &self.token.0
    }
}

fn check(what: &str, text: &str, most: usize) -> Result<(), String> {
    match text.len() {
        length if length > most => Err(format!("{what} of {length} bytes, {most} at most")),
        _ if text.chars().any(char::is_control) => Err(format!("{what} with control characters")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlong_or_unprintable_info_is_refused_and_tokens_hidden() {
        let said = |job: &str, token: &str| GuestInfo::new(job, token).unwrap_err();
        assert_eq!(said(&"x".repeat(41), ""), "a job's name of 41 bytes, 40 at most");
        assert_eq!(said("", &"x".repeat(161)), "a token of 161 bytes, 160 at most");
        assert_eq!(said("a\0b", ""), "a job's name with control characters");
        let info = GuestInfo::new("job", "secret").unwrap();
        assert_eq!((info.job(), info.token()), ("job", "secret"));
        assert!(!format!("{info:?}").contains("secret"));
    }

    #[test]
    fn program_has_a_number_by_its_file_and_arguments() {
        let number = |file: &str, arguments: &[&str]| {
            let arguments = arguments.iter().map(OsString::from);
            GuestInfo::default().with_program(Path::new(file), arguments).program()
        };
        let one = number("/usr/bin/python3", &["python3", "serve.py"]);
        assert_eq!(one, number("/usr/bin/python3", &["python3", "serve.py"]));
        for other in [
            number("/usr/bin/python3", &["python3", "train.py"]),
            number("/usr/bin/python3", &["python3serve.py"]),
            number("/usr/bin/pypy3", &["python3", "serve.py"]),
            number("/usr/bin/python3", &[]),
        ] {
            assert!(other != one && (1..=GuestInfo::MAX_PROGRAM).contains(&other), "{other}");
        }
        assert_eq!(GuestInfo::default().program(), 0);
    }
}
