//! Measures what people ask at a large site: `tessera free`, `why` and `layout`, and the exporter's answers, for 1,000 nodes of 8 GPUs.
//! Slurm's commands are stand-ins that print files, so that the time is Tessera's own.

mod site;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab::paths::target_dir;

use super::stats::Spread;
use super::table::{Reference, Row};
use crate::command::{TaskError, at, output};
use crate::test::cargo;

/// How often each command runs and each answer is fetched.
const ROUNDS: usize = 10;
/// Most that the page may weigh, kB.
const PAGE_KB: f64 = 300.0;
/// Most memory that the exporter may have had at once, MiB.
const EXPORTER_MIB: f64 = 128.0;

pub(super) fn measure() -> Result<Vec<Row>, TaskError> {
    eprintln!("bench: people");
    output(&mut cargo(&["build", "--release", "-p", "tessera-cli"]))?;
    let dir = target_dir().join("people");
    site::write(&dir)?;
    let mut rows = Vec::new();
    let slurm = "sh -c 'scontrol show nodes; squeue; sinfo'";
    let waiting = site::PENDING.to_string();
    for args in [&["free"][..], &["why", &waiting], &["layout"]] {
        let (mut ours, mut stand_ins) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let mut plain = site::command(&dir, "sh");
            stand_ins.push(milliseconds(plain.args(["-c", "scontrol show nodes; squeue; sinfo"]))?);
            ours.push(milliseconds(site::tessera(&dir).args(args))?);
        }
        let lines = output(site::tessera(&dir).args(args))?.lines().count();
        let case = format!("{} at {} nodes: {lines} lines", args[0], site::NODES);
        rows.extend(row(
            case,
            "ms",
            &ours,
            Spread::of(&stand_ins).map(|s| Reference::Measured(slurm.to_owned(), s)),
        ));
    }
    rows.extend(exporter(&dir)?);
    Ok(rows)
}

fn row(case: String, unit: &'static str, ours: &[f64], reference: Option<Reference>) -> Option<Row> {
    Some(Row { bench: "people", case, unit, ours: Spread::of(ours)?, reference: reference? })
}

fn milliseconds(command: &mut Command) -> Result<f64, TaskError> {
    let begin = Instant::now();
    output(command)?;
    Ok(begin.elapsed().as_secs_f64() * 1000.0)
}

/// Ends with its scope.
struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn exporter(dir: &Path) -> Result<Vec<Row>, TaskError> {
    let mut command = site::tessera(dir);
    command.args(["exporter", "--page", "--users", "--every", "1s", "--listen", "127.0.0.1:0"]);
    let mut running = KilledOnDrop(at(dir, command.stderr(Stdio::piped()).spawn())?);
    let mut line = String::new();
    if let Some(stderr) = running.0.stderr.take() {
        at(dir, BufReader::new(stderr).read_line(&mut line))?;
    }
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let page = |path: &str| at(dir, get(address, path));
    while !page("/metrics")?.0.contains("tessera_gpus") {
        std::thread::sleep(Duration::from_millis(100));
    }
    let mut rows = Vec::new();
    for (path, what) in [("/metrics", "scrape"), ("/", "page")] {
        let (mut ours, mut still, mut weight) = (Vec::new(), Vec::new(), 0.0);
        for _ in 0..ROUNDS {
            still.push(page("/page.css")?.1);
            let (text, ms) = page(path)?;
            ours.push(ms);
            #[expect(clippy::cast_precision_loss, reason = "bytes of a page")]
            let bytes = text.len() as f64;
            weight = bytes / 1000.0;
        }
        let still = Spread::of(&still).map(|s| Reference::Measured("a file of the page".to_owned(), s));
        let case = format!("exporter's {what} at {} nodes: {weight:.0} kB", site::NODES);
        rows.extend(row(case, "ms", &ours, still));
        if path == "/" {
            rows.extend(row(
                "the page's weight".to_owned(),
                "kB",
                &[weight],
                Some(Reference::Target(PAGE_KB)),
            ));
        }
    }
    let status = fs::read_to_string(format!("/proc/{}/status", running.0.id())).unwrap_or_default();
    let most = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    let case = "exporter's most memory so far".to_owned();
    rows.extend(
        most.and_then(|kib| row(case, "MiB", &[kib / 1024.0], Some(Reference::Target(EXPORTER_MIB)))),
    );
    Ok(rows)
}

/// An answer with its headers, and the milliseconds until its end.
fn get(address: &str, path: &str) -> std::io::Result<(String, f64)> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok((answer, begin.elapsed().as_secs_f64() * 1000.0))
}
