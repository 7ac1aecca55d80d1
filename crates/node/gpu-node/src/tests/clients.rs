//! Other programs that have a GPU open while its MIG mode has to change.

use std::fs::{self, OpenOptions, Permissions};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};

use error_chain::with_causes;
use rustix::fs::OFlags;

use super::*;

/// A monitoring program; killed when dropped.
struct Monitor(Child);

impl Monitor {
    /// It has the device node open, which no driver stands behind here.
    fn of(node: &TestNode, device: &str, uid: u32) -> Self {
        let flags = i32::try_from(OFlags::PATH.bits()).unwrap();
        let open =
            OpenOptions::new().read(true).custom_flags(flags).open(node.settings.node.dev_root.join(device));
        let mut sleep = Command::new("sleep");
        Self(
            sleep
                .arg("600")
                .env("SLURM_JOB_ID", "9")
                .stdin(Stdio::from(open.unwrap()))
                .uid(uid)
                .gid(uid)
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn other_programs_are_named_or_stopped_and_started() {
    on_node("tests::clients::other_programs_are_named_or_stopped_and_started", |node| {
        node.reconcile(&[]);
        let (running, told, script) =
            ["running", "told", "gpu-clients"].map(|name| node.dir.join(name)).into();
        let monitor = Monitor::of(node, "nvidia0", 0);
        // As nvidia-smi, this resets no GPU that is in use.
        fs::write(&running, "").unwrap();
        let reset = node.settings.node.gpu_reset_command.join(" ");
        let only_if_free = format!("test ! -e {} && exec {reset}", running.display());
        let mut settings = node.settings.clone();
        settings.node.gpu_reset_command = vec!["/bin/sh".into(), "-c".into(), only_if_free];
        settings.node.operation_timeout_ms = 10_000;

        let why = with_causes(
            &crate::realise(&settings, &node.job(1, ALICE, mig(&[(0, "1g.5gb", 0)]))).unwrap_err(),
        );
        let pid = monitor.0.id();
        let named = format!(
            "cannot be reset to switch its MIG mode (it is open in sleep (process {pid}): stop such programs"
        );
        assert!(why.contains(&named), "{why}");

        let body = format!(
            "#!/bin/sh\nexec >> {}\necho $1 $2\ntest $1 = start || exec rm {}\nflock -n {}/locks/gpu-$2 echo free\n",
            told.display(),
            running.display(),
            settings.node.state_dir.display()
        );
        fs::write(&script, body).unwrap();
        fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        settings.node.gpu_clients_command = vec![script.display().to_string(), "%a".into(), "%i".into()];
        let done = crate::realise(&settings, &node.job(2, ALICE, mig(&[(0, "1g.5gb", 0)]))).unwrap();
        assert_eq!(fs::read_to_string(&told).unwrap(), "stop 0\nstart 0\nfree\n", "another prolog may go on");
        let note =
            |verb| format!("GPU 0: gpu_clients_command has {verb} other programs, for a change of MIG mode");
        assert_eq!(done.notes[done.notes.len() - 2..], [note("stopped"), note("started")]);
        node.release(2);
    });
}

/// Eight jobs begin on a node: the first that is ready starts DCGM while the others are still resetting their GPUs.
#[test]
fn programs_that_another_prolog_has_started_again_are_stopped_again() {
    on_node("tests::clients::programs_that_another_prolog_has_started_again_are_stopped_again", |node| {
        node.reconcile(&[]);
        let monitor = Monitor::of(node, "nvidia0", 0);
        let (dir, device) = (node.dir.display(), node.settings.node.dev_root.join("nvidia0"));
        fs::write(node.dir.join("pid"), monitor.0.id().to_string()).unwrap();
        let reset = node.settings.node.gpu_reset_command.join(" ");
        let is_open = |pid: &str| format!("ls -l /proc/{pid}/fd 2>&1 | grep -q nvidia0");
        let only_if_free = format!("{} && exit 1; exec {reset}", is_open(&format!("$(cat {dir}/pid)")));
        let open = "sysopen(F, shift, 010000000) or die; sleep 60";
        let body = format!(
            "#!/bin/sh\necho $1 >> {dir}/told\ntest $1 = stop || exit 0\nkill $(cat {dir}/pid)\ntest -e {dir}/again && exit 0\n\
             touch {dir}/again\nperl -e '{open}' {} &\necho $! > {dir}/pid\nuntil {}; do sleep 0.01; done\n",
            device.display(),
            is_open("$!")
        );
        let script = node.dir.join("gpu-clients");
        fs::write(&script, body).unwrap();
        fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
        let mut settings = node.settings.clone();
        settings.node.operation_timeout_ms = 20_000;
        settings.node.gpu_reset_command = vec!["/bin/sh".into(), "-c".into(), only_if_free];
        settings.node.gpu_clients_command = vec![script.display().to_string(), "%a".into()];
        crate::realise(&settings, &node.job(1, ALICE, mig(&[(0, "1g.5gb", 0)]))).unwrap();
        assert_eq!(fs::read_to_string(node.dir.join("told")).unwrap(), "stop\nstop\nstart\n");
        node.release(1);
        node.assert_clean(&[]);
    });
}

/// `nvidia-smi`, a health check or a sample of usage opens each GPU for a moment, and a reset fails in that moment.
#[test]
fn a_reset_is_tried_again_once_a_passing_program_has_closed_the_gpu() {
    on_node("tests::clients::a_reset_is_tried_again_once_a_passing_program_has_closed_the_gpu", |node| {
        node.reconcile(&[]);
        let reset = node.settings.node.gpu_reset_command.join(" ");
        let mut settings = node.settings.clone();
        // It has the GPU open until after the first reset, or has closed it before anybody looks.
        for (job, gpu, stays_s) in [(1, 0, "2"), (2, 1, "0")] {
            let tried = node.dir.join(format!("tried{gpu}"));
            let mut monitor = Monitor::of(node, &format!("nvidia{gpu}"), 0);
            let first = format!("(sleep {stays_s}; kill {}) & test {stays_s} != 0 || wait", monitor.0.id());
            let script = format!("test -e {} && exec {reset}; touch {0}; {first}; exit 1", tried.display());
            settings.node.gpu_reset_command = vec!["/bin/sh".into(), "-c".into(), script];
            let reaps = std::thread::spawn(move || monitor.0.wait().unwrap());
            crate::realise(&settings, &node.job(job, ALICE, mig(&[(gpu, "1g.5gb", 0)]))).unwrap();
            assert!(tried.exists());
            reaps.join().unwrap();
            node.release(job);
        }
        node.assert_clean(&[]);
    });
}

/// An administrator can be asked to stop a monitoring program. What a user's job has kept open is no reason to drain the node,
/// under whatever name, and while nobody can see it: it may be on its way through a socket.
#[test]
fn only_the_systems_own_programs_can_be_why_a_reset_drains_the_node() {
    on_node("tests::clients::only_the_systems_own_programs_can_be_why_a_reset_drains_the_node", |node| {
        node.reconcile(&[]);
        let mut settings = node.settings.clone();
        settings.node.gpu_reset_command = vec!["/bin/false".into()];
        settings.node.operation_timeout_ms = 4_000;
        // A process of a running job is left alone, even if it has a node of another GPU open.
        node.realise(9, ALICE, whole(&[1])).unwrap();
        let x = settings.node.dev_root.join("x");
        fs::hard_link(settings.node.dev_root.join("nvidia0"), &x).unwrap();
        let holders = [
            (Some(("nvidia0", 0)), true),
            (Some(("nvidia0", 999)), true),
            (Some(("nvidia0", ALICE)), false),
            (Some(("x", ALICE)), false),
            (None, false),
        ];
        for (job, (holder, drains)) in (1..).zip(holders) {
            let _open = holder.map(|(name, uid)| Monitor::of(node, name, uid));
            let why = crate::realise(&settings, &node.job(job, BOB, mig(&[(0, "1g.5gb", 0)]))).unwrap_err();
            assert_eq!(matches!(why, RealiseError::NodeUnfit(_)), drains, "{holder:?}: {why:?}");
            let (RealiseError::NodeUnfit(fault) | RealiseError::JobFailed(fault)) = &why;
            assert_eq!(fault.unwell_gpu().is_some(), holder.is_none(), "{holder:?}: {why:?}");
            let is_named = with_causes(&why).contains("it is open in sleep");
            assert_eq!(is_named, holder.is_some(), "{holder:?}: {why:?}");
            node.release(job);
        }
        fs::remove_file(x).unwrap();
        settings.node.gpu_reset_command = vec!["/no/such/program".into()];
        let why = crate::realise(&settings, &node.job(6, BOB, mig(&[(0, "1g.5gb", 0)]))).unwrap_err();
        let RealiseError::NodeUnfit(fault) = &why else { panic!("{why:?}") };
        assert_eq!(fault.unwell_gpu(), None, "the program is missing");
        node.release(6);
        node.realise(7, BOB, mig(&[(0, "1g.5gb", 0)])).unwrap();
        node.release(7);
        node.release(9);
        node.assert_clean(&[]);
    });
}
