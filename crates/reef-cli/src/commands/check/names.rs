//! Names of kernels as their source has them.

use cpp_demangle::{DemangleOptions, Symbol};
use std::fmt::{self, Write};

/// Columns that a name takes in a table at most.
const MAX_COLUMNS: usize = 60;
/// Length of a name at most.
const MAX_BYTES: usize = 16 << 10;

/// Returns the name of the source, with its template's arguments and without its parameters; the
/// symbol itself if it is not one of C++.
pub(super) fn demangled(symbol: &str) -> String {
    let options = DemangleOptions::new().no_params().no_return_type();
    let mut name = Bounded(String::new());
    let read = Symbol::new(symbol).map(|read| read.structured_demangle(&mut name, &options));
    if matches!(read, Ok(Ok(()))) { name.0 } else { symbol.to_owned() }
}

/// Text that refuses to grow on: a short symbol may stand for a name without end.
struct Bounded(String);

impl Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// Returns the beginning of a name, as long as a table has room for.
pub(super) fn shortened(name: &str) -> String {
    match name.char_indices().nth(MAX_COLUMNS) {
        Some(_) => name.chars().take(MAX_COLUMNS - 1).chain(['…']).collect(),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbol_of_cpp_is_the_name_of_its_source() {
        assert_eq!(demangled("_Z3addPfS_i"), "add");
        assert_eq!(demangled("_ZN2at6native5scaleIfLi4EEEvPT_i"), "at::native::scale<float, 4>");
    }

    #[test]
    fn other_symbol_stays_as_it_is() {
        for symbol in ["matmul_kernel", "_Z", "_Z3", "", "_Zä", "reef_append"] {
            assert_eq!(demangled(symbol), symbol);
        }
    }

    #[test]
    fn name_that_is_too_long_stays_a_symbol() {
        let symbol = |bytes: usize| format!("_Z{bytes}{}v", "a".repeat(bytes));
        assert_eq!(demangled(&symbol(MAX_BYTES)).len(), MAX_BYTES);
        assert_eq!(demangled(&symbol(MAX_BYTES + 1)), symbol(MAX_BYTES + 1));
        let nested = format!("_Z1fI{}i{}Evv", "1AI".repeat(5000), "E".repeat(5000));
        assert_eq!(demangled(&nested), nested, "too deep");
    }

    #[test]
    fn long_name_is_cut_for_a_table() {
        let long = "ä".repeat(MAX_COLUMNS + 1);
        assert_eq!(shortened(&long).chars().count(), MAX_COLUMNS);
        assert!(shortened(&long).ends_with('…'));
        assert_eq!(shortened(&long[..2 * MAX_COLUMNS]), long[..2 * MAX_COLUMNS]);
    }
}
