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
                let verdict = kernel.verdict();
                table += &entry(&file, kernel.name(), &verdict);
                match (kernel.with_preemption_points(), verdict.abandon) {
                    (Ok(variant), Ok(())) => {
                        table += &format!("  points      {}\n", variant.points)
                    }
                    (Err(reason), Err(other)) => assert_eq!(reason, other),
                    (_, abandon) => panic!("{file} {}: {abandon:?}", kernel.name()),
                }
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

/// Numbers by SplitMix64 (Steele et al. 2014).
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A file with a few bytes replaced, removed or repeated.
fn mutant(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut mutant = bytes.to_vec();
    for _ in 0..1 + random(&mut state) % 8 {
        let at = (random(&mut state) % mutant.len() as u64) as usize;
        let end = (at + 1 + (random(&mut state) % 40) as usize).min(mutant.len());
        match random(&mut state) % 4 {
            0 => mutant[at] = random(&mut state) as u8,
            1 => mutant[at] = b"{}()[];,.@%$:\"/\0\xff"[(random(&mut state) % 17) as usize],
            2 if end - at < mutant.len() => drop(mutant.drain(at..end)),
            _ => {
                let copy = mutant[at..end].to_vec();
                let to = (random(&mut state) % mutant.len() as u64) as usize;
                mutant.splice(to..to, copy);
            }
        }
    }
    mutant
}

/// The targets of `fuzz/` in short: nothing panics, and a variant is PTX that has no variant again.
#[test]
fn mutated_corpus_is_read_or_refused() {
    let (mut read, mut variants, mut points) = (0, 0, 0);
    for (file, bytes) in corpus() {
        for seed in 0..100 {
            let mutant = mutant(&bytes, seed);
            let _ = reef_ptx::image::load_form(&mutant);
            let _ = reef_ptx::image::link_form(&mutant);
            let Ok(image) = Image::read(&mutant) else { continue };
            for source in &image.sources {
                let Ok(module) = Module::read(&source.text) else { continue };
                read += 1;
                for kernel in kernels(&module) {
                    let verdict = kernel.verdict();
                    assert!(verdict.stop.is_ok() || verdict.slice.is_err(), "{file} seed {seed}");
                    let Ok(variant) = kernel.variant() else { continue };
                    variants += 1;
                    let again = Module::read(&variant.text)
                        .unwrap_or_else(|error| panic!("{file} seed {seed}: {error}"));
                    let own = kernels(&again).find(|own| own.name() == kernel.name());
                    assert!(own.is_some_and(|own| own.variant().is_err()), "{file} seed {seed}");
                    let Ok(variant) = kernel.with_preemption_points() else { continue };
                    points += variant.points;
                    let again = Module::read(&variant.text)
                        .unwrap_or_else(|error| panic!("{file} seed {seed}: {error}"));
                    let own = kernels(&again).find(|own| own.name() == kernel.name());
                    assert!(own.is_some_and(|own| own.variant().is_err()), "{file} seed {seed}");
                }
            }
        }
    }
    assert!(read > 120 && variants > 300, "{read} texts were read, {variants} variants were made");
    assert!(points > 100, "{points} preemption points");
}
