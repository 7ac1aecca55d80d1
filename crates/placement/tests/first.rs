//! The plainest cases of each kind.
#![allow(clippy::unwrap_used, reason = "tests")]

use placement::*;

fn node(key: &str, n: usize, policy: MigPolicy) -> Node {
    let model = Model::find(key).unwrap();
    Node {
        gpus: (0..n).map(|_| Gpu { model, policy, state: GpuState::Free }).collect(),
        links: LinkMatrix::uniform(n, 25.0),
    }
}

fn ask(job: u32, isolation: Isolation) -> Ask {
    Ask::new(JobId(job), Uid(1000), Request::new(isolation))
}

#[test]
fn each_kind_once() {
    let mut n = node("a100-40gb", 8, MigPolicy::Dynamic);
    let p = Policy::default();
    for (job, iso, mem, inst, gpus) in [
        (1, Isolation::Auto, Some(9537), 1, None),
        (2, Isolation::Mig(Some("2g.10gb".into())), None, 1, None),
        (3, Isolation::Mig(None), Some(4000), 2, None),
        (4, Isolation::Mps, Some(2862), 1, None),
        (5, Isolation::Mps, Some(2862), 1, None),
        (6, Isolation::Whole, None, 1, Some(3)),
        (7, Isolation::Auto, None, 1, Some(1)),
    ] {
        let mut a = ask(job, iso);
        a.request.mem_mib = mem;
        a.request.instances = inst;
        a.request.gpus = gpus;
        let d = decide(&n, &a, &p);
        let g = d.chosen.clone().unwrap();
        eprintln!("{job}: {}", if job == 7 || job == 1 { d.to_string() } else { d.why() });
        n.apply(JobId(job), Uid(1000), &g).unwrap();
    }
    for job in 1..8 {
        assert!(n.release(JobId(job)));
    }
}
