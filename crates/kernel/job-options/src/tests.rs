//! Every value and every refusal, as a user sees it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use protocol::wire::{encode_request, parse_request};

use super::*;

fn no_file(_: &str) -> Result<String, String> {
    Err("cannot be read: no such file".to_owned())
}

fn parse_with(given: &[(Opt, &str)], file: &str) -> Result<Option<Request>, Vec<Refusal>> {
    let mut typed = Typed::default();
    for (opt, text) in given {
        typed.push(*opt, text, Source::CommandLine);
    }
    typed.request(&Renames::new(), &|_| Ok(file.to_owned()))
}

/// The request's wire form, or the refusal's lines.
fn outcome(given: &[(Opt, &str)]) -> String {
    match parse_with(given, "0 1\n1-2 # back\n\n2 1\n") {
        Ok(None) => "nothing".to_owned(),
        Ok(Some(request)) => {
            let wire = encode_request(&request);
            assert_eq!(parse_request(&wire).as_ref(), Ok(&request), "the wire carries all of it");
            wire
        }
        Err(refusals) => refusals.iter().map(|r| format!("refused: {r}")).collect::<Vec<_>>().join("\n"),
    }
}

#[test]
fn a_cap_above_every_board_is_refused() {
    assert_eq!(
        outcome(&[(Opt::Power, "2000W")]),
        "refused: --gpu-power=2000W: is not a power cap: expected whole watts, 1 to 1400 (no GPU draws more), such as 200 or 200W, or auto"
    );
    assert_eq!(outcome(&[(Opt::Power, "1400")]), "v1 iso=whole cap=1400");
}

#[test]
fn a_memory_without_a_unit_is_refused() {
    assert_eq!(
        outcome(&[(Opt::Mem, "10")]),
        "refused: --gpu-mem=10: has no unit: expected a size such as 10G or 500M (10^9 and 10^6 bytes), or 10Gi (2^30)"
    );
}

#[test]
fn compute_instances_that_no_job_can_have() {
    use Opt::{Instances, Isolation, Mem, Place, Sms, Times};
    let four = (Isolation, "mig-shared:4c.7g.40gb");
    let cases: &[&[(Opt, &str)]] = &[
        &[four],
        &[(Isolation, "mig-shared:5c.7g.40gb"), (Mem, "1G")],
        &[(Isolation, "mig-shared:7c.7g.40gb"), (Mem, "1G")],
        &[(Isolation, "mig-shared:1c.1g.5gb"), (Mem, "1G")],
        &[(Isolation, "mig-shared:1c.2g.11gb"), (Mem, "1G")],
        &[four, (Mem, "50G")],
        &[four, (Mem, "1G"), (Sms, "80")],
        &[four, (Mem, "1G"), (Instances, "2"), (Times, "4g:60")],
        &[four, (Mem, "1G"), (Place, "0@4")],
    ];
    let lines: Vec<String> = cases.iter().map(|case| outcome(case)).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn accepted_options_make_their_request() {
    use Opt::{Bandwidth, Instances, Isolation, Mem, Pattern, Sms};
    let cases: &[(&[(Opt, &str)], &str)] = &[
        (&[], "nothing"),
        (&[(Mem, "10G")], "v1 iso=auto mem=9537"),
        (&[(Mem, "10G"), (Instances, "2")], "v1 iso=auto mem=9537 inst=2"),
        (&[(Isolation, "mig"), (Mem, "10Gi")], "v1 iso=mig typed=1 mem=10240"),
        (&[(Isolation, "mig:2g.10gb"), (Instances, "2")], "v1 iso=mig:2g.10gb typed=1 inst=2"),
        (&[(Isolation, "mig:2g.10gb"), (Mem, "10G")], "v1 iso=mig:2g.10gb typed=1 mem=9537"),
        (&[(Isolation, "mig-shared:4c.7g.40gb"), (Mem, "10G")], "v1 iso=mig:4c.7g.40gb typed=1 mem=9537"),
        (
            &[(Isolation, "mig-shared:1c.2g.10gb"), (Mem, "1G"), (Opt::App, "bert"), (Opt::Place, "3@4")],
            "v1 iso=mig:1c.2g.10gb typed=1 mem=954 job-profile=bert place=3@4",
        ),
        (&[(Isolation, "mps"), (Mem, "3G"), (Sms, "25%")], "v1 iso=mps typed=1 mem=2862 threads=25"),
        (&[(Isolation, "mps"), (Instances, "1")], "v1 iso=mps typed=1"),
        (&[(Isolation, "gpu-tasks")], "v1 iso=tasks typed=1"),
        (&[(Isolation, "tasks")], "v1 iso=tasks typed=1"),
        (&[(Isolation, "tasks:probes"), (Mem, "3G")], "v1 iso=tasks:probes typed=1 mem=2862"),
        (&[(Isolation, "mig"), (Sms, "100")], "v1 iso=mig typed=1 threads=100"),
        (
            &[(Isolation, "whole"), (Pattern, "ring"), (Bandwidth, "sensitive")],
            "v1 iso=whole typed=1 pattern=ring bw=sensitive",
        ),
        (&[(Pattern, "ring+tree")], "v1 iso=whole pattern=ring+tree"),
        (&[(Pattern, "file:/x")], "v1 iso=whole pattern=edges:0-1,1-2"),
        (&[(Bandwidth, "insensitive")], "v1 iso=whole bw=insensitive"),
        (&[(Opt::SetPolicy, "preserve")], "v1 iso=whole policy=preserve"),
        (&[(Opt::Wait, "25GB/s,20:00")], "v1 iso=whole wait=25:1200"),
        (&[(Opt::Wait, "none"), (Isolation, "mig")], "v1 iso=mig typed=1 wait=none"),
        (&[(Opt::Power, "200W")], "v1 iso=whole cap=200"),
        (&[(Opt::Power, "200"), (Mem, "10G")], "v1 iso=auto mem=9537 cap=200"),
        (&[(Opt::Power, "150w"), (Isolation, "mps"), (Mem, "3G")], "v1 iso=mps typed=1 mem=2862 cap=150"),
        (&[(Opt::Power, "auto"), (Opt::App, "bert")], "v1 iso=whole job-profile=bert cap=auto"),
        (
            &[(Opt::Power, "auto"), (Opt::App, "bert"), (Isolation, "mig:7g.40gb")],
            "v1 iso=mig:7g.40gb typed=1 job-profile=bert cap=auto",
        ),
        (&[(Isolation, "slurm")], "v1 iso=none typed=1"),
        (&[(Mem, "20G"), (Mem, "10G")], "v1 iso=auto mem=9537"),
    ];
    for (given, want) in cases {
        assert_eq!(outcome(given), *want, "{given:?}");
    }
}

#[test]
fn a_wrong_value_says_what_is_expected() {
    let cases: &[(Opt, &[&str])] = &[
        (
            Opt::Isolation,
            &[
                "mgi",
                "",
                "mig:",
                "mig:2G.10GB",
                "mig:../x",
                "%s",
                "MIG",
                "mps:3G",
                "1g.5gb",
                "hole",
                "3G",
                "gpu",
                "Shared",
                "slice",
                "none",
                "mig:4c.7g.40gb",
                "mig-shared:2g.10gb",
                "mig-shared",
                "mig:1g.5g",
            ],
        ),
        (Opt::Mem, &["0", "-3G", "10X", "lots", "", "9999T"]),
        (Opt::Instances, &["0", "-1", "two", "1.5", "99999999999999999999", ""]),
        (Opt::Sms, &["0", "101", "101%", "%", "-5", "25%%", "2 5"]),
        (Opt::Pattern, &["Ring", "file:", "mesh"]),
        (Opt::Bandwidth, &["high", ""]),
        (Opt::SetPolicy, &["best", ""]),
        (Opt::Wait, &["25", "25:0", "fast:60", "25:20:00", "25GB/s", "25GB/s,0"]),
        (Opt::Power, &["0", "200 W", "-5", "2e2", "10001", "Auto"]),
    ];
    let mut lines = String::new();
    for (opt, texts) in cases {
        for text in *texts {
            lines += &(outcome(&[(*opt, text)]) + "\n");
        }
    }
    insta::assert_snapshot!(lines);
}

#[test]
fn options_that_exclude_each_other_are_named() {
    use Opt::{Bandwidth, Instances, Isolation, Mem, Pattern, Sms};
    let cases: &[&[(Opt, &str)]] = &[
        &[(Instances, "2")],
        &[(Sms, "25")],
        &[(Sms, "25"), (Pattern, "ring")],
        &[(Isolation, "mps"), (Instances, "2")],
        &[(Isolation, "mps"), (Pattern, "ring")],
        &[(Isolation, "mig"), (Pattern, "file:/x")],
        &[(Isolation, "whole"), (Sms, "50"), (Instances, "4")],
        &[(Isolation, "slurm"), (Mem, "1G"), (Bandwidth, "sensitive")],
        &[(Isolation, "mig"), (Opt::SetPolicy, "greedy")],
        &[(Isolation, "mps"), (Opt::SetPolicy, "greedy")],
        &[(Isolation, "mps"), (Opt::Wait, "25GB/s,60s")],
        &[(Isolation, "tasks"), (Instances, "2"), (Sms, "25")],
        &[
            (Isolation, "tasks:probes"),
            (Pattern, "ring"),
            (Opt::SetPolicy, "greedy"),
            (Opt::Wait, "25GB/s,60s"),
        ],
        &[(Isolation, "tasks"), (Opt::Times, "1g:60")],
        &[(Opt::Power, "auto")],
        &[(Opt::Power, "auto"), (Opt::App, "bert"), (Isolation, "mig:2g.10gb")],
        &[(Opt::Power, "auto"), (Opt::App, "bert"), (Mem, "10G")],
        &[(Opt::Power, "auto"), (Isolation, "slurm")],
        &[(Isolation, "gpu-tasks:none")],
        &[(Bandwidth, "insensitive"), (Opt::Wait, "25GB/s,60s")],
        &[(Isolation, "mig:2g.10gb"), (Mem, "10Gi")],
        &[(Isolation, "mig:2g.11gb")],
        &[(Isolation, "mig:9g.1gb")],
        &[(Isolation, "mig:1g.5g")],
        &[(Isolation, "mig:1g.5gb"), (Sms, "50")],
        &[(Mem, "999G")],
        &[(Mem, "10G"), (Mem, "20X")],
        &[(Mem, "0"), (Sms, "101")],
    ];
    let lines: Vec<String> = cases.iter().map(|given| outcome(given)).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_wrong_edge_list_says_what_is_expected() {
    let many =
        (0..1100u16).map(|i| format!("{} {}\n", i % 1000, i % 1000 + 1 + i / 1000)).collect::<String>();
    for (file, want) in [
        ("", "has no edges"),
        ("# nothing\n", "has no edges"),
        ("0 1\n1\n", "line 2: \"1\""),
        ("0 0", "line 1"),
        ("0 1 0", "line 1"),
        ("0 1 2 3", "line 1"),
        ("0 1 -2", "line 1"),
        ("0-1-2", "line 1"),
        ("-1 2 3", "line 1"),
        ("0 1024", "line 1"),
        (&many, "more than 1024 edges"),
    ] {
        let refusals = parse_with(&[(Opt::Pattern, "file:/e")], file).unwrap_err();
        assert!(refusals[0].0.contains(want), "{file:.20}: {refusals:?}");
        assert!(refusals[0].0.starts_with("--gpu-pattern=file:/e: "), "{refusals:?}");
    }
    let mut typed = Typed::default();
    typed.push(Opt::Pattern, "file:/nowhere", Source::CommandLine);
    let refusals = typed.request(&Renames::new(), &no_file).unwrap_err();
    assert_eq!(refusals[0].0, "--gpu-pattern=file:/nowhere: cannot be read: no such file");
}

/// Gives the values that count of an `#SBATCH` line, the environment and the command line; empty: nothing typed there.
fn overridden(script: &[(Opt, &str)], env: &[(&str, &str)], command_line: &[(Opt, &str)]) -> String {
    let env: BTreeMap<&str, &str> = env.iter().copied().collect();
    let mut typed = Typed::default();
    for (opt, text) in script {
        typed.push(*opt, text, Source::Script);
    }
    for (opt, text) in command_line {
        typed.push(*opt, text, Source::CommandLine);
    }
    typed.fill_from_env(&|name| env.get(name).map(ToString::to_string));
    match typed.request(&Renames::new(), &no_file) {
        Ok(request) => request.map_or_else(|| "nothing".to_owned(), |r| encode_request(&r)),
        Err(refusals) => refusals.iter().map(|r| r.0.clone()).collect::<Vec<_>>().join("\n"),
    }
}

#[test]
fn the_command_line_overrides_the_environment_and_that_the_script() {
    use Opt::{Instances, Isolation, Mem, Sms};
    let env = [("TESSERA_GPU_MEM", "20G"), ("TESSERA_GPU_PATTERN", "")];
    assert_eq!(overridden(&[(Mem, "30G")], &[], &[(Mem, "10G")]), "v1 iso=auto mem=9537");
    assert_eq!(overridden(&[(Mem, "30G")], &env, &[(Mem, "10G")]), "v1 iso=auto mem=9537");
    assert_eq!(overridden(&[(Mem, "30G")], &env, &[]), "v1 iso=auto mem=19074");
    assert_eq!(overridden(&[(Mem, "30G")], &[], &[]), "v1 iso=auto mem=28611");
    assert_eq!(overridden(&[], &env, &[]), "v1 iso=auto mem=19074");
    // Options that nobody repeats stand beside each other, wherever they were typed; what is overridden is not read.
    let (script, line) = ([(Isolation, "mps"), (Mem, "lots")], [(Sms, "25")]);
    assert_eq!(overridden(&script, &env, &line), "v1 iso=mps typed=1 mem=19074 threads=25");
    let why = overridden(&[(Instances, "2")], &[("TESSERA_GPU_INSTANCES", "0")], &[(Mem, "1G")]);
    assert!(why.starts_with("TESSERA_GPU_INSTANCES=0: "), "{why}");
}

#[test]
fn slurm_overrides_the_other_options_of_the_places_before_its_own() {
    use Opt::{Isolation, Mem};
    let mem = [(Mem, "10G")];
    let env_mem = [("TESSERA_GPU_MEM", "20G")];
    let env_slurm = [("TESSERA_GPU_ISOLATION", "slurm")];
    assert_eq!(overridden(&mem, &env_mem, &[(Isolation, "slurm")]), "v1 iso=none typed=1");
    assert_eq!(overridden(&mem, &env_slurm, &[]), "v1 iso=none typed=1");
    for both in [
        overridden(&[(Isolation, "slurm"), (Mem, "10G")], &[], &[]),
        overridden(&[(Isolation, "slurm")], &[], &mem),
        overridden(&[], &env_slurm, &mem),
    ] {
        assert!(both.starts_with("--gpu-mem cannot be combined with --gpu-isolation=slurm"), "{both}");
    }
}

#[test]
fn a_previous_components_value_is_dropped_once() {
    let mut typed = Typed::default();
    typed.push(Opt::Mem, "10G", Source::Script);
    typed.push(Opt::Mem, "5G", Source::Script);
    typed.drop_one(Opt::Mem, "10G");
    let wire =
        |typed: &Typed| typed.request(&Renames::new(), &no_file).map(|r| r.map(|r| encode_request(&r)));
    assert_eq!(wire(&typed), Ok(Some("v1 iso=auto mem=4769".to_owned())));
    typed.drop_one(Opt::Mem, "5G");
    typed.drop_one(Opt::Sms, "5");
    assert_eq!(wire(&typed), Ok(None));
}

#[test]
fn old_names_are_taken_and_named_in_messages() {
    let typed = |name: &str, text: &str| {
        let mut typed = Typed::default();
        typed.push_as(Spec::by_name(name).unwrap(), text, Source::CommandLine);
        typed.push(Opt::Isolation, "mig", Source::CommandLine);
        typed.request(&Renames::new(), &no_file).map(|request| encode_request(&request.unwrap()))
    };
    assert_eq!(typed("gpu-threads", "25"), Ok("v1 iso=mig typed=1 threads=25".to_owned()));
    assert_eq!(typed("gpu-profile", "bert"), Ok("v1 iso=mig typed=1 job-profile=bert".to_owned()));
    let why = typed("gpu-threads", "101").unwrap_err();
    assert!(why[0].0.starts_with("--gpu-threads=101: "), "{why:?}");
    let old = [("TESSERA_GPU_THREADS", "25"), ("TESSERA_GPU_PROFILE", "bert")];
    assert_eq!(overridden(&[], &old, &[(Opt::Mem, "1G")]), "v1 iso=mig mem=954 threads=25 job-profile=bert");
    let both = [("TESSERA_GPU_THREADS", "25"), ("TESSERA_GPU_SMS", "50")];
    assert_eq!(overridden(&[], &both, &[(Opt::Mem, "1G")]), "v1 iso=auto mem=954 threads=50");
}

#[test]
fn messages_use_the_sites_names() {
    let renames: Renames = [(Opt::Mem, "site-gpu-mem".to_owned())].into();
    let mut typed = Typed::default();
    typed.push(Opt::Mem, &format!("{}x", "9".repeat(100)), Source::CommandLine);
    let refusals = typed.request(&renames, &no_file).unwrap_err();
    assert!(refusals[0].0.starts_with("--site-gpu-mem=999999"), "{refusals:?}");
    assert!(refusals[0].0.len() < 250, "{refusals:?}");
    assert_eq!(typed.names(&renames), ["--site-gpu-mem"]);
}

#[test]
fn the_table_is_in_order_and_within_slurms_limits() {
    for (i, spec) in Spec::ALL.iter().enumerate() {
        assert_eq!(spec.opt.spec().name, spec.name);
        assert_eq!(spec.opt as usize, i);
        assert!(spec.usage.starts_with("[tessera] "));
    }
    for (i, spec) in Spec::all_and_old().enumerate() {
        assert_eq!(Spec::by_position(i).map(|s| s.name), Some(spec.name));
        assert_eq!(Spec::by_name(spec.name).map(|s| s.opt), Some(spec.opt));
        assert_eq!(spec.env, format!("TESSERA_{}", spec.name.to_uppercase().replace('-', "_")));
    }
    let help: String =
        Spec::all_and_old().map(|s| format!("--{}={}\n    {}\n", s.name, s.arginfo, s.usage)).collect();
    insta::assert_snapshot!(help);
}

proptest! {
    #[test]
    fn no_option_text_panics_the_check(opt in 0usize..11, text in ".*", file in any::<Vec<u8>>()) {
        let opt = Spec::ALL[opt].opt;
        let file = String::from_utf8_lossy(&file).into_owned();
        let _ = parse_with(&[(opt, &text), (Opt::Pattern, "file:x")], &file);
        let _ = outcome(&[(opt, &text)]);
    }

    #[test]
    fn refusals_are_one_line(opt in 0usize..11, text in "[^\\x00-\\x1f\\x7f-\\u{9f}]*") {
        let opt = Spec::ALL[opt].opt;
        if let Err(refusals) = parse_with(&[(opt, &text)], "0 1") {
            for refusal in refusals {
                prop_assert!(!refusal.0.contains('\n') && refusal.0.len() < 800, "{refusal}");
            }
        }
    }
}
