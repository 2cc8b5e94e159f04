//! Device code: which builds there are of each source, and how what ships is packed.

/// Which of the two builds of each kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// Runs to its end once started, at no cost. Serves real-time work.
    Plain,
    /// Stops when told to and says which blocks have run.
    Guarded,
}

/// Unpacks device code that ships with a backend, packed with zlib.
///
/// # Panics
///
/// If it isn't whole: backends test that each file of theirs is.
pub fn unpack(packed: &[u8]) -> Vec<u8> {
    miniz_oxide::inflate::decompress_to_vec_zlib(packed).expect("a test unpacks each image")
}
