//! Functions that the model copies, and the hashes of their text when the two were last compared.

const WORKER: &str = include_str!("../../../src/vqueue/worker.rs");
const LAUNCHER: &str = include_str!("../../../src/vqueue/launcher.rs");
const SHARED: &str = include_str!("../../../src/vqueue/shared.rs");
const GROUP: &str = include_str!("../../../src/vqueue/group.rs");
const SUBMITTER: &str = include_str!("../../../src/vqueue/submitter.rs");

/// File, its functions, and their hashes.
const ORIGINS: &[(&str, &[(&str, u64)])] = &[
    (
        WORKER,
        &[
            ("work<", 0xcbb4_5e0a_cc1a_9621),
            ("call_device<", 0xb3da_479a_dfe9_bb84),
            ("pass<", 0x944a_55c9_61dc_f7ca),
            ("quiesce<", 0xfa1b_f97f_0cb2_e35d),
            ("is_over<", 0xc28e_d76b_70ba_5ff7),
            ("has_work<", 0xd688_5e07_847d_43c6),
        ],
    ),
    (
        LAUNCHER,
        &[
            ("step(", 0x0b02_f581_076c_a610),
            ("step_ends(", 0x1d23_ead2_3674_8e2b),
            ("blocked(", 0xab57_76c0_c723_67ba),
            ("note_completed(", 0x458b_0f68_13b9_d489),
            ("launch_next(", 0x10c3_5bac_f02a_eed8),
            ("try_reclaim(", 0x3460_42b9_7829_1765),
        ],
    ),
    (
        SHARED,
        &[
            ("hold(", 0x027a_1b67_3711_836f),
            ("wake_asker(", 0x531c_0d60_916c_b223),
            ("hold_if_empty(", 0xc79f_0eff_2327_bb8d),
            ("release_when_drained(", 0x1c6a_a487_a90e_d7b8),
            ("go_on(", 0xcc70_72f1_5f6e_8fa2),
            ("try_quiesce(", 0x3ce0_be3a_cc11_66f6),
            ("reclaim(", 0xac8d_05c2_f8a2_211e),
            ("note_padded(", 0x8afd_4768_3906_4a35),
            ("is_quiesced(", 0x7f33_802f_a9fe_615b),
            ("shut_down(", 0x85c3_8dc2_bc76_45a7),
        ],
    ),
    (
        GROUP,
        &[
            ("hold(", 0x0632_de17_daca_b394),
            ("stop(", 0x6462_4f25_5dd1_e7e9),
            ("restore_locked(", 0x187c_4773_8bf0_ba2b),
        ],
    ),
    (SUBMITTER, &[("submit(", 0xe05a_8175_9716_ee9d)]),
];

/// Returns the words of a function, without comments.
fn words_of(file: &'static str, name: &str) -> Vec<&'static str> {
    let begin = file.find(&format!("fn {name}")).unwrap_or_else(|| panic!("no function {name}"));
    let mut depth = 0;
    let mut words = Vec::new();
    for line in file[begin..].lines() {
        let code = line.split("//").next().unwrap_or_default();
        words.extend(code.split_whitespace());
        depth += code.matches('{').count();
        depth -= code.matches('}').count();
        if depth == 0 && code.contains('}') {
            return words;
        }
    }
    panic!("{name} does not end")
}

/// FNV-1a.
fn hash(words: &[&str]) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    words.join(" ").bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

#[test]
fn code_is_that_of_which_the_model_is_a_copy() {
    let mut changed = String::new();
    for &(file, functions) in ORIGINS {
        for &(name, was) in functions {
            let is = hash(&words_of(file, name));
            if is != was {
                changed += &format!("\n(\"{name}\", {is:#x}),");
            }
        }
    }
    assert!(changed.is_empty(), "compare the model with the code, then write here:{changed}");
}

#[test]
fn hash_of_a_function_sees_code_and_no_comment() {
    let [code, commented, other] = [
        "fn a() {\n    b();\n}\nfn c() {}",
        "fn a() {\n    b(); // why\n}\n",
        "fn a() {\n    if b() { c() }\n}\n",
    ];
    let of = |file| hash(&words_of(file, "a("));
    assert_eq!(of(code), of(commented));
    assert_ne!(of(code), of(other));
}
