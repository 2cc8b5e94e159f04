//! What a guest shows besides its request.

/// What a program was told to say of itself (`reef exec --job`, `--token-file`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestInfo {
    job: String,
    token: Secret,
    part: u32,
}

/// A text that isn't printed.
#[derive(Clone, Default, PartialEq, Eq)]
struct Secret(String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(if self.0.is_empty() { "none" } else { "set" })
    }
}

impl GuestInfo {
    /// Most bytes of a job's name.
    pub const MAX_JOB: usize = 40;
    /// Most bytes of a token.
    pub const MAX_TOKEN: usize = 160;

    /// A job's name and a token; empty ones are none.
    ///
    /// # Errors
    ///
    /// In words: one of them is too long, or has a character in it that doesn't print.
    pub fn new(job: impl Into<String>, token: impl Into<String>) -> Result<Self, String> {
        let (job, token) = (job.into(), token.into());
        check("a job's name", &job, Self::MAX_JOB)?;
        check("a token", &token, Self::MAX_TOKEN)?;
        Ok(Self { job, token: Secret(token), part: 0 })
    }

    /// The same of a program that may have so much of its device's time, in parts per million;
    /// zero: all.
    #[must_use]
    pub fn with_part(self, part: u32) -> Self {
        Self { part, ..self }
    }

    /// Its part of its device's time, in parts per million. Zero: it has no limit.
    pub fn part(&self) -> u32 {
        self.part
    }

    /// Processes of one user that name the same job are held together. Empty: none.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// What it may use to be granted a class. Empty: none.
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
    fn what_is_too_long_or_does_not_print_is_refused_and_tokens_are_not_shown() {
        let said = |job: &str, token: &str| GuestInfo::new(job, token).unwrap_err();
        assert_eq!(said(&"x".repeat(41), ""), "a job's name of 41 bytes, 40 at most");
        assert_eq!(said("", &"x".repeat(161)), "a token of 161 bytes, 160 at most");
        assert_eq!(said("a\0b", ""), "a job's name with control characters");
        let info = GuestInfo::new("job", "secret").unwrap();
        assert_eq!((info.job(), info.token()), ("job", "secret"));
        assert!(!format!("{info:?}").contains("secret"));
    }
}
