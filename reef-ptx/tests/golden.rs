//! Verdicts on the checked-in corpus, as a table: `golden.txt`. `REEF_UPDATE_SNAPSHOTS=1` writes it
//! anew, so that a review sees what changes.

use reef_ptx::verdict::{Reason, Verdict};
use reef_ptx::{Image, Module, kernels};
use std::fs;
use std::path::{Path, PathBuf};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");

/// Files of the corpus with PTX in them, by name.
fn corpus() -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(Path::new(FOLDER).join("corpus")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e != "cu" && e != "py"));
    files.sort();
    let name = |file: &PathBuf| file.file_name().unwrap().to_str().unwrap().to_owned();
    files.iter().map(|file| (name(file), fs::read(file).unwrap())).collect()
}

fn answer(answer: &Result<(), Reason>) -> String {
    answer.as_ref().map_or_else(|reason| format!("no: {reason}"), |()| "yes".into())
}

/// One kernel, a line for each verdict.
fn entry(file: &str, kernel: &str, verdict: &Verdict) -> String {
    let rerun = format!("{}: {}", verdict.rerun.name(), verdict.rerun);
    let [stop, slice, abandon] = [&verdict.stop, &verdict.slice, &verdict.abandon].map(answer);
    format!(
        "{file} {kernel}\n  stop        {stop}\n  slice       {slice}\n  abandon     {abandon}\n  \
         idempotent  {rerun}\n"
    )
}

#[test]
fn verdicts_on_the_corpus_equal_the_table() {
    let mut table = String::new();
    for (file, bytes) in corpus() {
        let image = Image::read(&bytes).unwrap();
        assert!(!image.sources.is_empty(), "{file} has no PTX");
        for source in &image.sources {
            let module = Module::read(&source.text).unwrap();
            for kernel in kernels(&module) {
                table += &entry(&file, kernel.name(), &kernel.verdict());
            }
        }
    }
    let path = Path::new(FOLDER).join("golden.txt");
    if std::env::var_os("REEF_UPDATE_SNAPSHOTS").is_some() {
        fs::write(&path, &table).unwrap();
    }
    let want = fs::read_to_string(&path).unwrap();
    for (have, want) in table.lines().zip(want.lines()) {
        assert_eq!(have, want);
    }
    assert_eq!(table.lines().count(), want.lines().count());
    assert!(table.matches("  stop        yes").count() >= 18, "kernels are missing");
}
