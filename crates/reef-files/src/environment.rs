//! Variables of the program that a library is loaded into.

use std::ffi::{OsString, c_ulong};

/// `AT_SECURE`: the entry of the auxiliary vector with what the loader goes by.
const SECURE: c_ulong = 23;

/// Returns whether the program has more rights than its caller: by a set-user-ID or set-group-ID
/// bit, or by capabilities of its file.
pub fn is_privileged() -> bool {
    unsafe extern "C" {
        fn getauxval(entry: c_ulong) -> c_ulong;
    }
    // SAFETY: the C library's function, which reads a table that no thread writes to.
    unsafe { getauxval(SECURE) != 0 }
}

/// Returns a variable of the environment. A program with more rights than its caller has none, as
/// the loader ignores `LD_PRELOAD` there: its caller may not choose which files it opens.
pub fn variable(name: &str) -> Option<OsString> {
    if is_privileged() { None } else { std::env::var_os(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_program_has_its_variables() {
        assert!(!is_privileged());
        assert_eq!(variable("PATH"), std::env::var_os("PATH"));
        assert_eq!(variable("REEF_TEST_NO_SUCH_VARIABLE"), None);
    }
}
