//! A planted fault of each rule is found, and what is right is not.

use super::baseline::{parse, raised, write};
use super::check::{hits_in, hits_of};
use super::{documents, glossary};

/// Lines, rules and texts of the hits.
fn found(source: &str) -> Vec<String> {
    hits_of(source).iter().map(|hit| format!("{} {} {}", hit.line, hit.rule, hit.text)).collect()
}

fn assert_clean(source: &str) {
    assert_eq!(found(source), [""; 0]);
}

#[test]
fn docs_that_begin_with_a_clause_are_found() {
    let source =
        "//! What is done.\n//! How it is done.\n\n/// The same as `f`.\n/// Who.\nfn g() {}\n";
    assert_eq!(found(source)[..2], ["1 2 begins with \"What\"", "4 2 begins with \"The same\""]);
    assert_clean("//! Whatever is done.\n\n/// Howitzer.\n// Where it is.\nfn g() {}\n");
    assert_clean("/// Queue. How\n/// Where it goes on.\nfn g() {}\n");
}

#[test]
fn persons_are_found_in_comments_and_texts() {
    let source = "// For who waits.\nfn f() { say(\"nobody is there\", \"who\") }\n";
    assert_eq!(found(source), ["1 3 who", "2 3 nobody"]);
    assert_clean("// `who` and who_is; whose\nfn who_is() {}\n");
    assert_clean("/// Runs.\n/// ```\n/// // who\n/// ```\nfn f() {}\n");
    assert_eq!(found("/// ```\n/// x\n/// ```\n/// who\nfn f() {}\n"), ["4 3 who"]);
}

#[test]
fn calques_are_found() {
    assert_eq!(found("// A page is no file.\n"), ["1 5 is no"]);
    assert_eq!(found("// Such pages are\n// no files.\n"), ["1 5 are no"]);
    assert_eq!(
        found("// A file is wanted, in front\n// of it.\n"),
        ["1 5 in front of", "1 5 is wanted"]
    );
    assert_eq!(
        found("/* beside\n it */\nconst A: &str = \"put aside\";"),
        ["1 5 beside", "3 5 aside"]
    );
    assert_clean("// There is no file, it is no longer there; is no more than 4.\n");
    assert_clean("// The options `beside`, beside_on and beside=4.\n");
}

#[test]
fn types_and_functions_that_are_no_nouns_and_verbs_are_found() {
    let source =
        "struct Given;\nenum Others { A }\nfn twice() {}\nstruct GivenName;\nfn run_twice() {}";
    assert_eq!(found(source), ["1 7 type Given", "2 7 type Others", "3 7 function twice"]);
    assert_clean(
        "fn f(f: fn(u8), twice: u8) {} // struct Given\nconst A: &str = \"struct Given;\";",
    );
}

#[test]
fn tuple_patterns_are_found_in_parameters_alone() {
    let source = "fn f<F: Fn(u8) -> u8>(x: u8,\n    (a, b): (u8, u8)) {}";
    assert_eq!(found(source), ["2 7 tuple pattern as a parameter of f"]);
    assert_clean("fn f((): (), x: &Map<u8, (u8, u8)>) { g(\"{(\") }");
    assert_clean("fn f(x: (u8, u8), State(s): State<u8>) { g(|(a, b)| a); h(x, (1, 2)) }");
}

#[test]
fn a_match_of_true_and_false_is_found() {
    assert_eq!(
        found("fn f() { match is_x(1) {\n true => 1,\n false => { 2 }\n} }"),
        ["1 7 match with true and false"]
    );
    assert_clean(
        "fn f() { match x { (true, _) => 1, true if y => 2, _ => match z { false => 1, _ => 2 } } }",
    );
    assert_clean("fn f() { match x { Some(true) => 1, Some(false) => 2, None => 3 } }");
    assert_clean("fn f() { match x { A => g(true), B => h(|| { false }) } }");
}

#[test]
fn struck_constants_are_found() {
    let source = "const MOST_JOBS: u8 = 1;\nstatic mut PATIENCE: u8 = 1;\nconst IDLE_LOOK: u8 = 1;";
    assert_eq!(found(source), ["1 8 MOST_JOBS", "2 8 PATIENCE", "3 8 IDLE_LOOK"]);
    assert_clean("const LOOKUPS: u8 = 1; const AT_LEAST: u8 = 1; const fn f() {}");
}

#[test]
fn names_of_tests_are_checked() {
    let long = "a".repeat(61);
    let source = format!(
        "#[test]\nfn {long}() {{}}\n#[tokio::test(x)]\nfn what_is_so() {{}}\n#[test]\n#[ignore]\nfn it_is_said() {{}}"
    );
    let long = format!("2 9 {long} has 61 characters");
    let expected = [&*long, "4 9 what_is_so begins with what_", "7 9 it_is_said ends in _is_said"];
    assert_eq!(found(&source), expected);
    assert_clean(
        "#[cfg(test)] mod tests { fn what_is_so() {} } #[test] fn a_b() {} fn who_is() {}",
    );
}

#[test]
fn synonyms_are_found_in_prose_and_names() {
    let source = "// It lets go of\n// so many bytes.\nfn rouse_all() {}\nstruct NewsRing;";
    assert_eq!(
        found(source),
        [
            "1 14 lets go: say releases",
            "2 14 so many: say a number with its name",
            "3 14 rouse_all: rouse: say wake",
            "4 14 NewsRing: news: say event, message or result"
        ]
    );
    assert_clean("// So many that it fails: `let go`.\nfn renews() {}");
}

#[test]
fn comments_past_the_last_column_are_found() {
    let (fits, long) = ("x".repeat(97), "x".repeat(98));
    assert_clean(&format!(
        "// {fits}\nconst A: &str = \"{long}\";\n/// | {long}\n// https://{long}\n"
    ));
    assert_eq!(found(&format!("\n// {long}\nlet a = 1; // {long}\n")).len(), 2);
}

#[test]
fn literals_and_lifetimes_are_told_apart() {
    let source = "fn f<'a>(x: &'a str) { g('\"', '\\'', b'\\\\', r#\"a \" // who\"#, \"b\\\" who is\") }\n// him\n";
    assert_eq!(found(source), ["1 3 who", "1 3 who", "2 3 him"]);
}

#[test]
fn a_baseline_is_read_as_written_and_the_smaller_side_of_a_conflict_counts() {
    let text =
        "a/b.rs 2 3\n<<<<<<< one\na/c.rs 7 4\n=======\na/c.rs 7 2\n>>>>>>> two\nbuild.rs 15 1\n";
    let counts = parse(text).unwrap();
    assert_eq!(counts[&("a/c.rs".to_owned(), 7)], 2);
    assert_eq!(parse(&write(&counts)), Ok(counts));
    assert!(parse("a/b.rs 2").is_err());
}

#[test]
fn a_baseline_falls_and_files_may_move() {
    let before = parse("a/b.rs 2 3\na/c.rs 2 1\n").unwrap();
    assert_eq!(raised(&before, &parse("a/new.rs 2 4\n").unwrap()), [""; 0]);
    assert_eq!(
        raised(&before, &parse("a/b.rs 2 5\nc/d.rs 7 1\n").unwrap()),
        ["a: rule 2: 4 before, 5 now", "c: rule 7: 0 before, 1 now"]
    );
}

#[test]
fn long_sentences_of_documents_are_found() {
    let long = "word ".repeat(41);
    let text = format!(
        "# Head\n\nShort. A `b c`\n{long}end. Short.\n\n    {long}\n\n```\n{long}\n```\n| {long} |\n"
    );
    let hits = documents::hits(&text);
    assert_eq!(hits.len(), 1);
    assert_eq!((hits[0].line, hits[0].rule), (3, 1));
    assert!(hits[0].text.starts_with("44 words: A x word"), "{hits:?}");
}

#[test]
fn sentences_end_with_points_items_and_paragraphs() {
    let text = "One [link to](a.md) it, e.g. this. Two\nlines (of it.) Three\n- item `a. b` more\n- next\n  line\n\nLast";
    let words: Vec<usize> = documents::sentences(text).iter().map(|s| s.words.len()).collect();
    assert_eq!(words, [6, 4, 1, 3, 2, 1]);
}

#[test]
fn scripts_are_checked_for_struck_names_alone() {
    let script = format!("def beside_it(): pass  # {}\n# a look\n", "word ".repeat(50));
    let of = |path: &str| hits_in(path, &script).iter().map(|hit| hit.line).collect::<Vec<_>>();
    assert_eq!((of("tools/a.py"), of("tools/a.sh")), (vec![1, 2], vec![1, 2]));
    assert!(hits_in("tools/a.md", &script).iter().any(|hit| hit.rule == 1));
}

#[test]
fn terms_of_the_glossary_have_one_meaning() {
    let files = ["a/src/b.rs".to_owned(), "a/src/c.rs".to_owned()];
    let head = "| term | meaning | lives in |\n|---|---|---|\n";
    let fine =
        "| view (of b), `plan` | one; two | `src/{b,c}.rs`, `a/src/` |\n| x | y | `A::b` |\n";
    assert_eq!(glossary::faults(&format!("{head}{fine}"), &files), [""; 0]);
    let wrong = "| Plan | three | `src/d.rs` |\n| z | of b: one; two | |\n";
    assert_eq!(
        glossary::faults(&format!("{head}{fine}{wrong}"), &files),
        [
            "docs/glossary.md:5: \"plan\" has another meaning in line 3",
            "docs/glossary.md:5: there is no file src/d.rs",
            "docs/glossary.md:6: z: must have one meaning a term, between `; `, got 2"
        ]
    );
}
