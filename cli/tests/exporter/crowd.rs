//! Many clients, or one who wants to keep the others out.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{Exporter, slurm};

/// Connections that hold what they get and ask nothing.
fn hold(exporter: &Exporter, count: usize) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(&exporter.address).unwrap();
        // One that has been closed by now cannot be written to.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n");
        stream
    };
    (0..count).map(connect).collect()
}

/// A scrape with the patience of Prometheus.
fn scrape(exporter: &Exporter) -> String {
    let mut stream = TcpStream::connect(&exporter.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer in time");
    answer
}

fn open_files(exporter: &Exporter) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", exporter.child.id())).unwrap().count()
}

/// Until an end of file or a reset; `false` while the other side still keeps it open.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    match stream.read(&mut [0; 512]) {
        Ok(n) => n == 0 || is_closed(stream),
        Err(e) => e.kind() != ErrorKind::WouldBlock,
    }
}

/// Whoever opens more connections than the exporter may have files loses the oldest to a scrape from the same address.
#[test]
fn idle_connections_do_not_keep_a_scrape_out() {
    let exporter = Exporter::start_by("ulimit -n 256; exec \"$@\"", &["--every", "1s"]);
    let held = hold(&exporter, 400);
    for _ in 0..3 {
        let answer = scrape(&exporter);
        assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("tessera_slurm_up 1"), "{answer}");
    }
    let kept = held.iter().filter(|stream| !is_closed(stream)).count();
    assert!(kept <= 32, "of one address no more: {kept}");
    assert!(open_files(&exporter) < 100);
    // Slurm is asked all the same.
    exporter.put("nodes", &super::NODES.replace("whole[job13]", "free"));
    exporter.until("/metrics", "tessera_gpus{node=\"n2\",model=\"a100-40gb\",state=\"free\"} 1");
}

#[test]
fn who_sends_no_request_is_hung_up_on() {
    let exporter = Exporter::start(&[]);
    let held = hold(&exporter, 10);
    assert!(held.iter().all(|stream| !is_closed(stream)));
    let start = Instant::now();
    while !held.iter().all(is_closed) {
        assert!(start.elapsed() < Duration::from_secs(60), "they stay");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(start.elapsed() > Duration::from_secs(5), "a slow client has time");
}

/// A request larger than any browser's is not kept, and those of others are answered.
#[test]
fn a_request_without_end_is_hung_up_on() {
    let exporter = Exporter::start(&[]);
    let mut stream = TcpStream::connect(&exporter.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(8))).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: ").unwrap();
    // Far less than 1 MiB is taken before the exporter hangs up.
    let part = [b'x'; 1024];
    let _ = (0..1024).try_for_each(|_| stream.write_all(&part));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    assert!(is_closed(&stream));
    assert!(scrape(&exporter).starts_with("HTTP/1.1 200 OK"));
}

/// Between two looks, any number of clicks on any jobs costs slurmctld one question of each kind.
#[test]
fn clicks_on_jobs_ask_slurm_once() {
    let exporter = Exporter::start_by("exec \"$@\"", &["--page", "--every", "1h"]);
    let asked = || std::fs::read_to_string(exporter.dir.path().join("asked")).unwrap().lines().count();
    let after_look = asked();
    assert!(exporter.get("/jobs/20").contains("job 20 of a user asks for an instance 4g.20gb"));
    // The users of all jobs, what each asks Slurm for, and which nodes it rules out. The jobs are those of the look.
    assert_eq!(asked(), after_look + 3);
    for id in 0..60 {
        let answer = exporter.get(&format!("/jobs/{id}"));
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    }
    assert!(exporter.get("/jobs/11").contains("job 11 does not wait: it is RUNNING"));
    assert_eq!(asked(), after_look + 3);
}

/// When Slurm does not answer a click, it is not asked again by the next one.
#[test]
fn clicks_do_not_press_a_slurm_that_is_away() {
    let exporter = Exporter::start_by("exec \"$@\"", &["--page", "--every", "1h"]);
    slurm::program(exporter.dir.path(), "squeue", "echo x >> tried; echo 'Unable to contact' >&2; exit 1");
    for id in [20, 11, 99] {
        assert!(exporter.get(&format!("/jobs/{id}")).contains("squeue failed: Unable to contact"));
    }
    assert_eq!(std::fs::read_to_string(exporter.dir.path().join("tried")).unwrap(), "x\n");
}
