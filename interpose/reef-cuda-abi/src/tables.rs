//! Names of the driver's functions, and symbols of their variants.

/// Lines of a name, and the first and the last version of CUDA whose headers have it.
///
/// `runtime` stands in the place of versions if no header has the name, but NVIDIA's runtimes look
/// it up.
pub const NAMES: &str = include_str!("../names.txt");

/// Lines of a name, the version of CUDA that introduced a variant (1000 × major + 10 × minor), and
/// the variant's symbol; from the typedefs of CUDA's headers.
pub const VERSIONS: &str = include_str!("../versions.txt");

/// Ends of the symbols of variants for per-thread default streams.
pub const PTSZ_SUFFIXES: [&str; 2] = ["_ptsz", "_ptds"];

/// Returns the names of the driver's functions, in the order of [`NAMES`].
pub fn names() -> impl Iterator<Item = &'static str> {
    NAMES.lines().filter_map(|line| line.split(' ').next())
}

/// Returns the symbol of a function's variant in a version of CUDA, such as 12040. `None`: all
/// variants are newer. A name without variants is its own symbol.
pub fn symbol(name: &str, version: i32) -> Option<&str> {
    let of_name = |line: &'static str| line.split_once(' ').filter(|(of, _)| *of == name);
    let variant = |(_, rest): (&'static str, &'static str)| {
        let (since, symbol) = rest.split_once(' ')?;
        Some((since.parse::<i32>().ok()?, symbol))
    };
    let mut variants = VERSIONS.lines().filter_map(of_name).filter_map(variant).peekable();
    if variants.peek().is_none() {
        return Some(name);
    }
    variants.rfind(|(since, _)| *since <= version).map(|(_, symbol)| symbol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_sorted_and_stand_once() {
        assert!(names().zip(names().skip(1)).all(|(before, after)| before < after));
    }

    #[test]
    fn symbols_of_variants_are_names() {
        let names: BTreeSet<&str> = names().collect();
        for line in VERSIONS.lines() {
            let [_, since, symbol] = line.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{line:?} must have three words");
            };
            assert!(since.parse::<i32>().is_ok() && names.contains(symbol), "{line:?}");
        }
    }

    #[test]
    fn symbol_is_that_of_the_newest_variant_of_a_version() {
        assert_eq!(symbol("cuMemAlloc", 2000), Some("cuMemAlloc"));
        assert_eq!(symbol("cuMemAlloc", 12000), Some("cuMemAlloc_v2"));
        assert_eq!(symbol("cuLaunchKernelEx", 11000), None);
        assert_eq!(symbol("cuNoSuchFunction", 12000), Some("cuNoSuchFunction"));
    }
}
