//! A user who tries every capability node again and again while another's instances are made.

use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::Instant;

use super::*;

/// Prints each node that it may open, once; in the end how often it has asked. `[ -r` asks the kernel what an open would ask: a
/// simulated node has no driver behind it that could be opened. The driver's own two, for administrators, are nodes 1 and 2.
const TRY_ALL: &str = r#"cd "$1" || exit 1
seen=' ' tries=0
while [ ! -e "$2" ]; do
    for node in nvidia-cap*; do
        case $node in nvidia-cap1 | nvidia-cap2) continue ;; esac
        tries=$((tries + 1))
        if [ -r "$node" ]; then
            case $seen in *" $node "*) ;; *) seen="$seen$node " && echo "$node" ;; esac
        fi
    done
done
echo "tries $tries""#;

/// A process of Bob's that spins until it is stopped.
struct Intruder {
    child: Child,
    opened: PathBuf,
    stop: PathBuf,
}

impl Intruder {
    fn start(node: &TestNode) -> Self {
        let (opened, stop) = (node.dir.join("opened"), node.dir.join("stop"));
        let mut command = Command::new("sh");
        command.args(["-c", TRY_ALL, "sh"]).arg(node.settings.node.dev_root.join("nvidia-caps")).arg(&stop);
        let output = std::fs::File::create(&opened).unwrap();
        let child = command.uid(BOB).gid(BOB).stdout(output).stderr(Stdio::null()).spawn().unwrap();
        Self { child, opened, stop }
    }

    /// The nodes that he could open so far.
    fn opened(&self) -> Vec<String> {
        let text = std::fs::read_to_string(&self.opened).unwrap();
        let nodes = text.lines().filter(|line| line.starts_with("nvidia-cap"));
        nodes.map(|node| format!("nvidia-caps/{node}")).collect()
    }

    /// Waits until he could open this node.
    fn wait_for(&self, node: &str) {
        let begin = Instant::now();
        while !self.opened().iter().any(|n| n == node) {
            assert!(begin.elapsed() < Duration::from_secs(60), "he does not look: {:?}", self.opened());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops him: what he could open, and how often he has tried.
    fn stop(mut self) -> (Vec<String>, u64) {
        std::fs::write(&self.stop, "").unwrap();
        assert!(self.child.wait().unwrap().success());
        let text = std::fs::read_to_string(&self.opened).unwrap();
        let tries = text.lines().find_map(|line| line.strip_prefix("tries ")).unwrap().parse().unwrap();
        (self.opened(), tries)
    }
}

impl Drop for Intruder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes instances of Alice's, each time others than before, and gives them back. The capability nodes are made anew.
fn one_round(node: &TestNode, round: u32) {
    let shapes = [
        mig(&[(0, "3g.20gb", 4), (0, "2g.10gb", 0)]),
        mig(&[(0, "4g.20gb", 0), (0, "1g.5gb", 5)]),
        compute(0, "3c.7g.40gb", 0),
    ];
    node.realise(round, ALICE, shapes[round as usize % shapes.len()].clone()).unwrap();
    node.release(round);
    for entry in std::fs::read_dir(node.settings.node.dev_root.join("nvidia-caps")).unwrap().flatten() {
        let name = entry.file_name();
        if name != "nvidia-cap1" && name != "nvidia-cap2" {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
}

#[test]
fn a_spinning_user_opens_no_node_of_anothers_new_instance() {
    on_node("tests::race::a_spinning_user_opens_no_node_of_anothers_new_instance", |node| {
        let intruder = Intruder::start(node);
        // His own instance shows that he sees what he may open.
        let own = node.realise(1000, BOB, mig(&[(1, "3g.20gb", 0)])).unwrap().entry.device_nodes;
        own.iter().for_each(|n| intruder.wait_for(n));
        node.release(1000);
        (0..24).for_each(|round| one_round(node, round));
        let (mut opened, tries) = intruder.stop();
        opened.retain(|node| !own.contains(node));
        assert_eq!(opened, [""; 0], "of another user's, in {tries} tries");
        assert!(tries > 1000, "{tries}");
        node.reconcile(&[]);
        node.assert_clean(&[]);
    });
}

#[test]
fn where_the_drivers_helper_makes_the_nodes_he_gets_in_and_the_administrator_is_told() {
    let name =
        "tests::race::where_the_drivers_helper_makes_the_nodes_he_gets_in_and_the_administrator_is_told";
    let node = NODE.replace("modify_device_files = false", "modify_device_files = true");
    on_node_of(name, &node, |node| {
        let complaint = crate::driver_params::complaint(&node.settings).unwrap();
        assert!(complaint.contains("NVreg_ModifyDeviceFiles=0"), "{complaint}");
        let intruder = Intruder::start(node);
        let begin = Instant::now();
        let mut rounds = 0..;
        while intruder.opened().is_empty() {
            assert!(begin.elapsed() < Duration::from_secs(60), "nothing is open for a moment any more");
            one_round(node, rounds.next().unwrap());
        }
        intruder.stop();
    });
}
