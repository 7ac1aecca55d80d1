//! What another user cannot do, nor the same user in another job. Users 1001 and 1002 are the two of the end-to-end tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use task_wire::{Begin, Code, REPLY_LEN, Reply, Request, Text};

use crate::node::{GIB, Node, Waiter, wait};

const ALICE: u32 = 1001;
const BOB: u32 = 1002;

/// A node whose folders everybody can pass through, or the tests would mean nothing.
fn open_node() -> Node {
    let node = Node::started();
    for dir in [node.dir.path(), &node.run_dir()] {
        std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
    }
    node
}

/// Runs a program as a user without groups.
fn as_user(uid: u32, words: &[&str]) -> Output {
    let mut setpriv = Command::new("setpriv");
    setpriv.args([&format!("--reuid={uid}"), "--clear-groups", "--regid=65534", "--"]);
    setpriv.args(words).current_dir("/").output().unwrap()
}

fn may(uid: u32, words: &[&str]) -> bool {
    as_user(uid, words).status.success()
}

/// What a user who connects and sends this is answered: `None` where it cannot connect, or is hung up without a word.
fn asks(uid: u32, socket: &Path, request: &Request) -> Option<Reply> {
    let code = "socket(S, AF_UNIX, SOCK_SEQPACKET, 0) && connect(S, sockaddr_un($ARGV[0])) or exit 1; \
                send(S, pack('H*', $ARGV[1]), MSG_NOSIGNAL); alarm 20; recv(S, $r, 9999, 0); print unpack('H*', $r)";
    let hex = request.encode().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    let done = as_user(uid, &["perl", "-MSocket", "-e", code, socket.to_str().unwrap(), &hex]);
    let text = String::from_utf8(done.stdout).unwrap();
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    let bytes: Vec<u8> = (0..text.len()).step_by(2).map(byte).collect();
    (bytes.len() == REPLY_LEN).then(|| Reply::decode(&bytes).unwrap())
}

fn begin(nonce: u64, mem: u64) -> Request {
    let bound = Text::EMPTY;
    let (image, managed, blocks, threads) = (1, 0, 1, 32);
    Request::Begin(Begin { image, nonce, mem, managed, blocks, threads, whole: false, sticky: false, bound })
}

fn is_granted(reply: Option<Reply>) -> bool {
    matches!(reply, Some(Reply::Granted(_)))
}

/// The folder's files: owner and mode.
fn files(node: &Node) -> BTreeMap<String, (u32, u32)> {
    let entries = std::fs::read_dir(node.at("")).unwrap().flatten();
    let facts = |e: std::fs::DirEntry| {
        let meta = e.metadata().unwrap();
        (e.file_name().into_string().unwrap(), (meta.uid(), meta.mode() & 0o777))
    };
    entries.map(facts).collect()
}

#[test]
fn nobody_else_connects_to_a_jobs_socket() {
    let node = open_node();
    node.add(12, ALICE);
    let socket = node.at("12.sock");
    assert_eq!(files(&node)["12.sock"], (ALICE, 0o600));
    assert!(is_granted(asks(ALICE, &socket, &begin(1, GIB))));
    assert_eq!(asks(BOB, &socket, &begin(1, GIB)), None);
    // Root can open the socket, but is not the job's user.
    let root = node.client(12);
    assert!(!root.begin(1, 1) || root.reply().is_none(), "hung up");
    // The control socket is root's.
    for uid in [ALICE, BOB] {
        assert_eq!(asks(uid, &node.at("control.sock"), &begin(1, 1)), None);
    }
}

/// The socket is its user's, who may open it to everybody.
#[test]
fn a_lease_in_someone_elses_job_is_not_had_where_its_user_lets_others_connect() {
    let node = open_node();
    node.add(12, ALICE);
    let socket = node.at("12.sock");
    assert!(may(ALICE, &["chmod", "0666", socket.to_str().unwrap()]));
    let code = "socket(S, AF_UNIX, SOCK_SEQPACKET, 0) && connect(S, sockaddr_un($ARGV[0])) or exit 1";
    assert!(
        may(BOB, &["perl", "-MSocket", "-e", code, socket.to_str().unwrap()]),
        "the kernel lets Bob connect"
    );
    assert_eq!(asks(BOB, &socket, &begin(1, GIB)), None, "the broker hangs up");
    assert_eq!(asks(BOB, &socket, &Request::Hello { image: 1 }), None);
    assert!(is_granted(asks(ALICE, &socket, &begin(1, GIB))));
    assert!(node.status().jobs[0].tasks.iter().all(|task| task.mem_mib == 1024));
}

#[test]
fn another_user_reads_none_of_the_brokers_files() {
    let node = open_node();
    node.add(12, ALICE);
    assert!(is_granted(asks(ALICE, &node.at("12.sock"), &begin(1, GIB))));
    let all = files(&node);
    assert!(all.contains_key("leases") && all.contains_key("12.job"), "{all:?}");
    for (name, (owner, mode)) in all {
        let own = if name == "12.sock" { ALICE } else { 0 };
        assert_eq!((owner, mode), (own, 0o600), "{name}");
        assert!(!may(BOB, &["cat", node.at(&name).to_str().unwrap()]), "{name}");
    }
    assert!(!node.events().is_empty());
    assert!(!may(BOB, &["cat", node.dir.path().join("events").to_str().unwrap()]));
}

#[test]
fn another_user_replaces_no_file_of_ours() {
    let node = open_node();
    node.add(12, ALICE);
    let folder = node.at("");
    let before = files(&node);
    let path = |name: &str| node.at(name).to_str().unwrap().to_owned();
    // Not even the user to whom the socket belongs.
    for uid in [ALICE, BOB] {
        for words in [
            vec!["touch".to_owned(), path("99.sock")],
            vec!["rm".to_owned(), "-f".to_owned(), path("12.sock")],
            vec!["mv".to_owned(), path("12.sock"), path("13.sock")],
            vec!["ln".to_owned(), "-sf".to_owned(), "/etc/passwd".to_owned(), path("12.notes")],
            vec!["mv".to_owned(), path(""), format!("{}.old", folder.display())],
            vec!["sh".to_owned(), "-c".to_owned(), format!(": > {}", path("leases"))],
        ] {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert!(!may(uid, &words), "{uid}: {words:?}");
        }
    }
    assert_eq!(files(&node), before);
    assert!(is_granted(asks(ALICE, &node.at("12.sock"), &begin(1, GIB))));
}

#[test]
fn another_process_frees_nobodys_task() {
    let node = open_node();
    node.add(12, 0);
    node.add(13, BOB);
    let holder = node.client(12);
    assert!(holder.begin(7, GIB));
    holder.granted(7);
    // Another user in a job of its own, and another process of the very job.
    let of_other_user = asks(BOB, &node.at("13.sock"), &Request::Free { image: 1, nonce: 7 });
    let of_other_process = asks(0, &node.at("12.sock"), &Request::Free { image: 1, nonce: 7 });
    for reply in [of_other_user, of_other_process] {
        assert!(matches!(reply, Some(Reply::Refused(r)) if r.code == Code::Unknown), "{reply:?}");
    }
    assert_eq!(node.status().devices[0].leased_mib, 1024);
    // Its own process frees it, once.
    assert!(holder.free(7) && holder.free(7));
    assert_eq!(holder.reply(), Some(Reply::Freed { nonce: 7 }));
    assert!(matches!(holder.reply(), Some(Reply::Refused(r)) if r.code == Code::Unknown));
}

/// A process of the same user can connect to both jobs' sockets. What it has in one ends with that one.
#[test]
fn a_job_of_the_same_user_cannot_hold_anothers_leases_past_its_end() {
    let node = Node::started();
    node.add(12, 0);
    node.add(13, 0);
    // A process that the first job's end does not end, because it is none of that job's.
    let first = node.client(12);
    assert!(first.begin(1, 10 * GIB));
    first.granted(1);
    let second = node.client(13);
    node.uses(std::process::id(), 10 << 10);
    // An epilog frees nothing that NVML still shows, and names it.
    assert_eq!(node.broker().end(12).unwrap().left, 1);
    assert!(first.reply().is_none(), "hung up");
    assert_eq!(node.status().jobs.len(), 1);
    let device = || node.status().devices[0].clone();
    assert_eq!((device().leased_mib, device().quarantined_mib), (0, 10 << 10));
    // By the other job it neither keeps nor grows what it had.
    assert!(second.free(1));
    assert!(matches!(second.reply(), Some(Reply::Refused(_))));
    assert_eq!(device().quarantined_mib, 10 << 10);
    assert!(second.begin(1, GIB));
    assert!(matches!(second.reply(), Some(Reply::Refused(r)) if r.code == Code::JobEnded));
    let mut other = Waiter::command(&node, 20 * GIB);
    other.env("TEST_SOCKET", task_control::socket(&node.run_dir(), 13));
    let other = Waiter(other.spawn().unwrap());
    wait("somebody to wait", || node.status().jobs[0].tasks.first().cloned());
    // As soon as its memory is free, it has nothing more, alive as it is.
    node.sim(&["proc", "remove", "--pid", &std::process::id().to_string()]);
    other.granted();
    assert!(second.begin(2, GIB));
    second.granted(2);
    assert!(second.free(2));
    assert_eq!(second.reply(), Some(Reply::Freed { nonce: 2 }));
}

/// A user cannot end the broker, nor stop, trace or slow it down by a signal.
#[test]
fn another_user_sends_it_no_signal() {
    let node = open_node();
    let status = node.status();
    for pid in [status.parent, status.child] {
        for signal in ["-KILL", "-STOP", "-0"] {
            let mut kill = Command::new("kill");
            kill.args([signal, &pid.to_string()]).uid(ALICE).stderr(std::process::Stdio::null());
            assert!(!kill.status().unwrap().success(), "{signal}");
        }
        assert!(!may(ALICE, &["cat", &format!("/proc/{pid}/environ")]));
    }
    assert_eq!(node.status().child, status.child);
}
