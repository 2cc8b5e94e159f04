//! Lines that small sources make.

use super::check::changes;
use super::crates::{Crate, Module};
use super::{api, errors, keys, metrics, versions};

/// A library of one file.
fn library(source: &str) -> Crate {
    let module = Module {
        path: Vec::new(),
        is_public: true,
        source: source.to_owned(),
        tokens: source.parse::<proc_macro2::TokenStream>().unwrap().into_iter().collect(),
    };
    Crate { name: "one".into(), is_library: true, modules: vec![module] }
}

fn api_of(source: &str) -> Vec<String> {
    api::lines(&library(source)).into_iter().collect()
}

#[test]
fn public_items_are_listed_with_their_signatures() {
    let source = "
        pub fn f<T: Into<u8>>(
            x: T, // why
        ) -> Vec<u8> where T: Copy { g() }
        pub const N: u8 = 1;
        pub type A<T> = Vec<T>;
        pub(crate) fn hidden() {}
        fn own() {}
        #[cfg(test)] pub fn for_tests() {}
        #[doc(hidden)] pub fn left_out() {}
        pub mod m { pub const fn g() -> u8 { 1 } mod p { pub static S: u8 = 1; } }
    ";
    assert_eq!(
        api_of(source),
        [
            "const N: u8",
            "const fn m::g() -> u8",
            "fn f<T: Into<u8>>(x: T) -> Vec<u8> where T: Copy",
            "static S: u8",
            "type A<T> = Vec<T>",
        ]
    );
}

#[test]
fn fields_variants_and_members_are_lines_of_their_own() {
    let source = "
        #[derive(Debug, Clone)] pub struct S<T> { pub a: Map<u8, T>, b: u8 }
        pub struct P(u8); pub struct Q(pub u8, u8);
        #[non_exhaustive] pub enum E { A, B(u8), C { x: u8 } }
        pub unsafe trait T: Send { type O; fn f(&self) -> u8; fn g(&self) {} }
        impl<T: Copy> S<T> { pub fn new(a: T) -> Self { x } fn own() {} pub const N: u8 = 1; }
        impl<T> Drop for S<T> { fn drop(&mut self) {} }
        impl Drop for Own { fn drop(&mut self) {} }
    ";
    assert_eq!(
        api_of(source),
        [
            "const S::N: u8",
            "enum E non_exhaustive",
            "field S.a: Map<u8, T>",
            "fn S::new(a: T) -> Self",
            "fn T::f(&self) -> u8",
            "fn T::g(&self) { .. }",
            "impl<T> Drop for S<T>",
            "struct P(..)",
            "struct Q(pub u8, u8)",
            "struct S<T> derive(Clone, Debug)",
            "type T::O",
            "unsafe trait T: Send",
            "variant E::A",
            "variant E::B(u8)",
            "variant E::C { x: u8 }",
        ]
    );
}

#[test]
fn exports_are_listed_by_name() {
    let source = "pub use a::b::{C, d::{self, E as F}, g::*}; use h::I; pub(crate) use j::K;";
    assert_eq!(api_of(source), ["export C", "export F", "export a::b::g::*", "export d"]);
}

#[test]
fn texts_of_errors_are_listed_and_others_are_not() {
    let source = "
        fn f() -> Result<()> {
            log(\"not an error\");
            ensure!(x, \"a must be \\
                     a number, got {x}\");
            g().map_err(|error| format!(\"the file: {error}\"))?;
            Err(wrong(&format!(\"{} of b\", 1), \"word\"))
        }
        #[cfg(test)] mod tests { fn f() { Err(\"of a test\") } }
    ";
    let lines: Vec<_> = errors::lines(&library(source)).into_iter().collect();
    assert_eq!(lines, ["a must be a number, got {x}", "the file: {error}", "{} of b"]);
}

#[test]
fn keys_are_listed_as_serde_names_them() {
    let source = "
        #[derive(Serialize)] #[serde(rename_all = \"camelCase\")]
        struct A { pub the_name: Map<u8, u8>, #[serde(rename = \"b\")] c: u8, #[serde(flatten)] d: D }
        #[derive(Deserialize)] #[serde(rename_all = \"snake_case\")] enum E { FirstOne, B }
        struct Not { e: u8 }
        fn f() { json!({ \"x\": { \"b\": 1 }, \"y\": [\"z\"] }); Column::shown(\"p50_us\", \"p50\", 1, g) }
    ";
    let lines: Vec<_> = keys::lines(&library(source)).into_iter().collect();
    assert_eq!(lines, ["b 3", "first_one 1", "p50_us 1", "theName 1", "x 1", "y 1"]);
}

#[test]
fn metrics_are_listed_by_name() {
    let source = "
        const ALL: [(&str, &str); 1] = [(\"reef_gates\", \"Gates in a stream\")];
        const PENDING: &str = \"nv_pending\"; const PREFIX: &str = \"nv_\"; const OF: &str = \"of\";
        fn e() { let name = \"reef_calls\"; name }
        fn f() { r.register(\"answers\", help, c); g(\"not\", \"one\"); h(\"Not a name\", help) }
        #[cfg(test)] mod tests { fn f() { r.register(\"tested\", help, c) } }
    ";
    let mut of = library(source);
    assert!(metrics::lines(&of).is_empty());
    of.modules[0].path = vec!["observe".into(), "all".into()];
    assert_eq!(
        metrics::lines(&of).into_iter().collect::<Vec<_>>(),
        ["answers", "nv_pending", "reef_calls", "reef_gates"]
    );
}

#[test]
fn numbers_of_formats_are_listed() {
    let lines = versions::lines(&library("const VERSION: u8 = 3; const N: u8 = 1;"));
    assert_eq!(lines.into_iter().collect::<Vec<_>>(), ["one: : VERSION: u8 = 3"]);
}

#[test]
fn a_change_shows_from_both_sides() {
    assert_eq!(changes("a\nb 1\n", "a\nb 2\n"), ["- b 1", "+ b 2"]);
}

#[test]
fn page_of_support_has_the_versions_of_the_snapshot() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let versions = read("tests/snapshots/versions.txt");
    let of = |name: &str| {
        let value = versions.lines().find_map(|line| line.strip_prefix(name)).expect("a version");
        value.trim_start_matches("*b\"").trim_end_matches('"').to_owned()
    };
    let [guests, page] =
        ["wire", "layout"].map(|of_which| of(&format!("reef-guest: {of_which}: VERSION: u32 = ")));
    let local = of("reef-serve: handshake: MAGIC: [u8; 8] = ");
    let remote = of("reef-wire: handshake: VERSION: u32 = ");
    let snapshots = of("reef-snapshot: layout: VERSION: u32 = ");
    let support = read("docs/reference/support.md");
    for cells in [
        format!("(`local.sock`) | `{local}` |"),
        format!("(`guests.sock`) | {guests}; page {page} |"),
        format!("| remote devices and programs | {remote},"),
        format!("| snapshots | {snapshots} |"),
    ] {
        assert!(support.contains(&cells), "{cells}");
    }
}
