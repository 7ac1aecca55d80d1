//! The jobs of a run, as `tests/programs/scale.c` reads them. Both controllers get the same ones; only a part of a GPU is asked for
//! differently: Slurm alone gets the nearest number of shards.

use std::fmt::Write as _;

use lab::fleet::{CORES_PER_NODE, Controller, GPUS_PER_NODE};

/// A part of a GPU: the request to Tessera, the GRES to Slurm alone, cores.
type Part<'a> = (&'a str, &'static str, u32);

/// Half a GPU, two of which fill one.
const HALF: Part<'_> = ("v1 iso=mig:3g.20gb", "gres:shard:20", 8);
const PARTS: [Part<'_>; 5] = [
    ("v1 iso=mig:1g.5gb", "gres:shard:5", 2),
    ("v1 iso=mig:2g.10gb", "gres:shard:10", 4),
    HALF,
    ("v1 iso=auto mem=9537", "gres:shard:10", 4),
    ("v1 iso=mps mem=9537", "gres:shard:10", 4),
];

const CORES_PER_GPU: u32 = CORES_PER_NODE / GPUS_PER_NODE;

/// Kinds of waiting jobs: each in a partition of its own, with the words of the table.
pub(super) const KINDS: [(&str, &str); 4] =
    [("pcpu", "no GPU"), ("pgpu", "gres/gpu"), ("ppart", "parts of GPUs"), ("pmulti", "several nodes")];

/// Waiting jobs that each ask for something else, so that no answer to one serves another.
pub(super) const ODD: (&str, &str) = ("podd", "distinct requests");

/// Kinds of waiting jobs and distinct requests.
pub(super) const ALL_KINDS: usize = KINDS.len() + 1;

/// Writes jobs for one controller.
pub(super) struct Jobs {
    controller: Controller,
    /// Ids of users and their groups.
    users: [(u32, u32); 2],
    state: u64,
    out: String,
}

/// Way of submission: with a script, or as an allocation without processes.
#[derive(Clone, Copy)]
enum Mode {
    Batch,
    Alloc,
}

/// Destination of a job, and its way there.
#[derive(Clone, Copy)]
struct To {
    label: &'static str,
    mode: Mode,
    partition: &'static str,
}

/// Request of a job on each of its nodes.
struct AskedKind<'a> {
    gres: Option<&'a str>,
    request: Option<&'a str>,
    cores: u32,
    nodes: u32,
}

impl Jobs {
    pub(super) fn new(controller: Controller, users: [(u32, u32); 2]) -> Self {
        Self { controller, users, state: 0x9e37_79b9_7f4a_7c15, out: String::new() }
    }

    /// As many jobs as take every GPU and core of so many nodes: nine tenths of the GPUs whole, the rest in halves.
    pub(super) fn full(mut self, nodes: usize) -> String {
        let to = |label| To { label, mode: Mode::Alloc, partition: "gpu" };
        let labels = [(8, 11, "8 GPUs"), (4, 8, "4 GPUs"), (2, 8, "2 GPUs"), (1, 8, "1 GPU")];
        for (gpus, twentieths, label) in labels {
            for _ in 0..nodes * twentieths / 20 {
                self.gpus(to(label), gpus, CORES_PER_GPU * gpus, 1);
            }
        }
        for _ in 0..nodes * 32 / 20 {
            self.part(to("half a GPU"), HALF);
        }
        self.out
    }

    /// Jobs that wait, each kind in its own partition, in turn.
    pub(super) fn waiting(mut self, count: usize) -> String {
        for index in 0..count {
            let to = |(partition, label)| To { label, mode: Mode::Batch, partition };
            match KINDS.get(index % ALL_KINDS) {
                Some(kind) => self.one_of_kind(kind.0, to(*kind)),
                None => self.odd(to(ODD), index / ALL_KINDS),
            }
        }
        self.out
    }

    /// A share of its own size, or a list of sizes with times of its own.
    fn odd(&mut self, to: To, number: usize) {
        let request = match number % 3 {
            0 => format!("v1 iso=mps mem={}", 5000 + number),
            1 => format!("v1 iso=auto mem={}", 5000 + number),
            _ => format!(
                "v1 iso=mig times=1g:{number},2g:{},3g:{},7g:{}",
                number / 2 + 1,
                number / 3 + 1,
                number / 7 + 1
            ),
        };
        self.part(to, (&request, "gres:shard:5", 2));
    }

    /// Jobs that take the places of those that end, in the partition of those.
    pub(super) fn next(mut self, count: usize) -> String {
        for index in 0..count {
            let kind = ["pcpu", "pgpu", "pgpu", "ppart"][index % 4];
            self.one_of_kind(kind, To { label: "next", mode: Mode::Alloc, partition: "gpu" });
        }
        self.out
    }

    fn one_of_kind(&mut self, kind: &str, to: To) {
        match kind {
            "pcpu" => {
                let cores = self.one_of([1, 4, 16, 64]);
                self.line(to, &AskedKind { gres: None, request: None, cores, nodes: 1 });
            }
            "pgpu" => {
                let gpus = self.one_of([1, 1, 2, 2, 4, 4, 8, 3]);
                let cores = self.one_of([4, 8, 16]) * gpus;
                self.gpus(to, gpus, cores, 1);
            }
            "ppart" => {
                let part = self.one_of(PARTS);
                self.part(to, part);
            }
            _ => {
                let (gpus, nodes) = (self.one_of([4, 8, 8]), self.one_of([2, 4, 8]));
                self.gpus(to, gpus, 8 * gpus, nodes);
            }
        }
    }

    fn gpus(&mut self, to: To, gpus: u32, cores: u32, nodes: u32) {
        let gres = format!("gres:gpu:{gpus}");
        self.line(to, &AskedKind { gres: Some(&gres), request: None, cores, nodes });
    }

    fn part(&mut self, to: To, (request, gres, cores): Part<'_>) {
        let (gres, request) = match self.controller {
            Controller::Stock => (Some(gres), None),
            Controller::Tessera => (None, Some(request)),
        };
        self.line(to, &AskedKind { gres, request, cores, nodes: 1 });
    }

    fn line(&mut self, to: To, ask: &AskedKind<'_>) {
        let minutes = 90 + self.below(1900);
        let (user, group) = self.one_of(self.users);
        let mode = match to.mode {
            Mode::Batch => "batch",
            Mode::Alloc => "alloc",
        };
        // Written to a String: cannot fail.
        let _ = writeln!(
            self.out,
            "{}\t{mode}\t{}\t{}\t{minutes}\t{}\t{}\t{}\t{user}\t{group}",
            to.label,
            ask.gres.unwrap_or("-"),
            ask.cores,
            to.partition,
            ask.nodes,
            ask.request.unwrap_or("-"),
        );
    }

    fn one_of<T: Copy, const N: usize>(&mut self, pool: [T; N]) -> T {
        pool[self.below(N)]
    }

    /// Draws a number, the same in every run (xorshift, Marsaglia 2003).
    fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        usize::try_from(self.state >> 33).unwrap_or_default() % limit
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn jobs(controller: Controller) -> Jobs {
        Jobs::new(controller, [(1, 10), (2, 20)])
    }

    fn field(line: &str, at: usize) -> &str {
        line.split('\t').nth(at).unwrap()
    }

    #[test]
    fn every_gpu_and_core_is_taken_and_none_is_left() {
        for nodes in [20, 60, 1000] {
            let text = jobs(Controller::Stock).full(nodes);
            let half_gpus = |line: &str| {
                let (kind, count) = field(line, 2).strip_prefix("gres:").unwrap().split_once(':').unwrap();
                if kind == "gpu" { 2 * count.parse::<usize>().unwrap() } else { 1 }
            };
            let cores: usize = text.lines().map(|line| field(line, 3).parse::<usize>().unwrap()).sum();
            assert_eq!(text.lines().map(half_gpus).sum::<usize>(), 16 * nodes);
            assert_eq!(cores, 128 * nodes);
        }
    }

    #[test]
    fn controllers_get_the_same_jobs_but_for_the_words_of_a_part() {
        let [stock, tessera] = Controller::BOTH.map(|controller| jobs(controller).waiting(400));
        let mut parts = 0;
        for (stock, tessera) in stock.lines().zip(tessera.lines()) {
            let is_part = ["parts of GPUs", ODD.1].contains(&field(stock, 0));
            parts += usize::from(is_part);
            for at in 0..10 {
                let differs = is_part && (at == 2 || at == 7);
                assert_eq!(field(stock, at) != field(tessera, at), differs, "{stock}\n{tessera}");
            }
        }
        assert_eq!((stock.lines().count(), tessera.lines().count(), parts), (400, 400, 160));
    }

    #[test]
    fn requests_are_those_that_tessera_reads() {
        let waiting = jobs(Controller::Tessera).waiting(1500);
        let odd = waiting.lines().filter(|line| field(line, 0) == ODD.1).map(|line| field(line, 7));
        let odd: BTreeSet<&str> = odd.collect();
        assert_eq!(odd.len(), 300, "each is another");
        for request in PARTS.map(|(request, ..)| request).into_iter().chain(odd) {
            protocol::wire::parse_request(request).unwrap();
        }
    }
}
