//! A user who asks as much as possible, and processes that hand their connections on.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use task_wire::{Begin, Code, Reply, Request, Text};

use crate::node::{Client, GIB, Node, Waiter, is_in_namespace, kill, states, wait, with_number};

fn begin(image: u64, nonce: u64, mem: u64) -> [u8; task_wire::REQUEST_LEN] {
    let (managed, blocks, threads, bound) = (0, 8, 64, Text::EMPTY);
    let begin = Begin { image, nonce, mem, managed, blocks, threads, whole: false, sticky: false, bound };
    Request::Begin(begin).encode()
}

/// Stops the broker until it is told to go on.
fn stops(node: &Node) -> Pid {
    let child = node.status().child;
    let broker = Pid::from_raw(i32::try_from(child).unwrap()).unwrap();
    kill_process(broker, Signal::STOP).unwrap();
    let stat = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap();
    wait("a stop", || stat().contains(") T ").then_some(()));
    broker
}

/// Sixty requests of one job were served before one of another job that came just after them.
#[test]
fn a_crowd_of_one_job_is_served_after_one_request_of_each_other_job() {
    let node = Node::started();
    node.add(12, 0);
    node.add(13, 0);
    let crowd: Vec<Client> = (0..60).map(|_| node.client(13)).collect();
    let other = node.client(12);
    for client in crowd.iter().chain([&other]) {
        assert!(client.send(&Request::Hello { image: 1 }.encode()));
        assert!(matches!(client.reply(), Some(Reply::Welcome(_))));
    }
    let broker = stops(&node);
    for (nonce, client) in (0..).zip(&crowd) {
        assert!(client.begin(nonce, 2 << 20));
    }
    assert!(other.begin(1000, 2 << 20));
    kill_process(broker, Signal::CONT).unwrap();
    // A process hears of its tasks on all its connections, and tasks are numbered as they begin.
    let number = std::iter::repeat_with(|| other.reply()).find_map(|reply| match reply {
        Some(Reply::Granted(grant)) => (grant.nonce == 1000).then_some(grant.task),
        other => panic!("{other:?}"),
    });
    assert_eq!(number, Some(2));
}

/// Each image's tasks end with the next image, and nobody hears of it.
#[test]
fn what_images_before_asked_for_takes_no_memory() {
    let node = Node::started();
    node.add(12, 0);
    let _holder = Waiter::holding(&node, 20 * GIB);
    let client = node.client(12);
    let child = node.status().child;
    // Without the pages of libraries: a look at the devices, which may come at any time, needs some for the first time.
    let resident = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let ask = |images: std::ops::Range<u64>| {
        images.clone().for_each(|image| assert!(client.send(&begin(image, image, 10 * GIB))));
        // The answer to this comes after all of those.
        assert!(client.send(&Request::Free { image: images.end, nonce: 0 }.encode()));
        assert!(matches!(client.reply(), Some(Reply::Refused(r)) if r.code == Code::Unknown));
    };
    ask(1..1000);
    let before = resident();
    ask(1000..61_000);
    let grown = resident().saturating_sub(before);
    assert!(grown < 1536, "{grown} KiB for 60,000 requests");
    assert_eq!(states(&node.status()).len(), 2);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// A Perl program connects to the socket in its first argument, forks, and ends. Its child writes its number, and sends the request in the
/// second argument, in hexadecimal, when it is told to. It writes how many bytes came back.
const HANDED_ON: &str = "socket(S, AF_UNIX, SOCK_SEQPACKET, 0) && connect(S, sockaddr_un($ARGV[0])) or exit 1; \
                         $| = 1; $me = $$; fork and exit; select(undef, undef, undef, .002) while kill 0, $me; \
                         print qq($$\\n); <STDIN>; send(S, pack('H*', $ARGV[1]), MSG_NOSIGNAL); \
                         recv(S, $r, 9999, 0); print length($r) + 0, qq(\\n); sleep 600";

/// Starts that program; its number is that of the process that ends.
fn hands_on(node: &Node, job: u32, uid: u32) -> Child {
    let hex = hex(&begin(1, 1, GIB));
    let socket = task_control::socket(&node.run_dir(), job);
    let mut perl = Command::new("perl");
    perl.args(["-MSocket", "-e", HANDED_ON]).arg(socket).arg(hex).uid(uid);
    perl.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/").spawn().unwrap()
}

/// The child of such a program, once that has ended.
struct Heir {
    number: u32,
    out: BufReader<ChildStdout>,
    input: ChildStdin,
}

impl Heir {
    fn of(mut perl: Child) -> Heir {
        let (mut out, input) = (BufReader::new(perl.stdout.take().unwrap()), perl.stdin.take().unwrap());
        perl.wait().unwrap();
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        Heir { number: line.trim().parse().unwrap(), out, input }
    }

    /// What came back to it, bytes.
    fn answered(&mut self) -> usize {
        self.input.write_all(b"now\n").unwrap();
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line.trim().parse().unwrap()
    }
}

impl Drop for Heir {
    fn drop(&mut self) {
        kill(self.number);
    }
}

/// Before, the lease was that of a process whose end had been seen already, and stayed until the end of its job.
#[test]
fn a_connection_ends_with_the_process_that_made_it() {
    let node = Node::started();
    node.add(12, 0);
    let mut heir = Heir::of(hands_on(&node, 12, 0));
    // The broker hears of an end before it answers what came later.
    node.status();
    assert_eq!(heir.answered(), 0);
    assert!(states(&node.status()).is_empty());
}

/// Before, the broker took another user's process for the one that had connected, when that ended before the broker looked and
/// the other had its number: what was asked then was asked in its name.
#[test]
fn nobody_asks_in_the_name_of_another_users_process() {
    const NAME: &str = "crowd::nobody_asks_in_the_name_of_another_users_process";
    if !is_in_namespace(NAME) {
        return;
    }
    let node = Node::started();
    for dir in [node.dir.path(), &node.run_dir()] {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
    }
    node.add(12, 1001);
    let broker = stops(&node);
    let perl = hands_on(&node, 12, 1001);
    let number = perl.id();
    let mut heir = Heir::of(perl);
    let mut other = with_number(number, || Command::new("sleep").arg("600").uid(1002).spawn().unwrap());
    kill_process(broker, Signal::CONT).unwrap();
    assert_eq!(heir.answered(), 0);
    assert!(states(&node.status()).is_empty());
    other.kill().unwrap();
    other.wait().unwrap();
}

/// Of twenty processes with as many connections as one may have, a thousand and twenty-four connections stay.
#[test]
fn a_job_has_no_more_connections_than_its_limit() {
    const MANY: &str = "$n = 0; for (1..64) { my $s; socket($s, AF_UNIX, SOCK_SEQPACKET, 0) \
                        && connect($s, sockaddr_un($ARGV[0])) or exit 1; push @all, $s } for my $s (@all) { \
                        send($s, pack('H*', $ARGV[1]), MSG_NOSIGNAL); recv($s, my $r, 9999, 0); $n++ if length($r) } \
                        $| = 1; print qq($n\\n); <STDIN>";
    let node = Node::started();
    node.add(12, 0);
    let hello = hex(&Request::Hello { image: 1 }.encode());
    let many = || {
        let mut perl = Command::new("perl");
        perl.args(["-MSocket", "-e", MANY]).arg(node.at("12.sock")).arg(&hello);
        let mut perl = perl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(perl.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (perl, line.trim().parse::<usize>().unwrap())
    };
    let mut crowd: Vec<(Child, usize)> = (0..20).map(|_| many()).collect();
    assert_eq!(crowd.iter().map(|(_, n)| n).sum::<usize>(), 1024);
    for (perl, _) in &mut crowd {
        perl.kill().unwrap();
        perl.wait().unwrap();
    }
}
