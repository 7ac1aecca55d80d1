//! Every target on its corpus, and on mutations of it: few in a test run, `TESSERA_FUZZ_CASES=10000000` by hand, or fewer
//! if they take longer than `TESSERA_FUZZ_SECONDS`. The seed is the same in every run, or `TESSERA_FUZZ_SEED`.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stdout, reason = "how many cases were run")]

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs};

use fuzz_targets::{Mutator, TARGETS, Target, target};

fn fuzz_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz")
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let mut files: Vec<PathBuf> = fs::read_dir(fuzz_dir().join("corpus").join(name))
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{name}: no corpus");
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// Runs one input; if it panics, it is kept in the directory of temporary files and named.
fn run(target: Target, input: &[u8]) {
    if catch_unwind(|| (target.run)(input)).is_err() {
        let path = env::temp_dir().join(format!("fuzz-{}-{}", target.name, std::process::id()));
        fs::write(&path, input).unwrap();
        panic!("{}: {} ({:?})", target.name, path.display(), String::from_utf8_lossy(input));
    }
}

fn fuzz(name: &str) {
    let (target, corpus) = (target(name).unwrap(), corpus(name));
    corpus.iter().for_each(|input| run(target, input));
    let mut mutator = Mutator::new(number("TESSERA_FUZZ_SEED", 0x7e55_e2a0));
    let (begin, seconds) = (Instant::now(), number("TESSERA_FUZZ_SECONDS", u64::MAX));
    let mut cases = 0;
    while cases < number("TESSERA_FUZZ_CASES", 3000) && begin.elapsed().as_secs() < seconds {
        (0..1000).for_each(|_| run(target, &mutator.next(&corpus)));
        cases += 1000;
    }
    println!("{name}: {cases} cases");
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            fuzz(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_test_and_a_libfuzzer_program() {
            assert_eq!(TARGETS.map(|target| target.name), [$(stringify!($name)),*]);
            let manifest = fs::read_to_string(fuzz_dir().join("Cargo.toml")).unwrap();
            for target in TARGETS {
                assert!(manifest.contains(&format!("name = \"{}\"", target.name)), "{}", target.name);
                assert!(fuzz_dir().join(format!("fuzz_targets/{}.rs", target.name)).is_file(), "{}", target.name);
            }
        }
    };
}

targets!(
    options,
    request,
    placement,
    layout,
    node_word,
    admin_comment,
    edge_list,
    tessera_toml,
    links,
    gres_conf,
    squeue,
    sacct,
    mapa_jobs,
    plan_tasks,
    case_jobs,
    power_csv,
    power_model,
    task_wire,
    words,
);
