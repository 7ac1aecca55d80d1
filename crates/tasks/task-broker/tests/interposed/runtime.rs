//! Programs of the CUDA runtime API, with kernels: the same output with the library and without.

use std::path::{Path, PathBuf};
use std::process::Command;

use task_control::status::TaskState::Running;

use crate::node::{Node, built, wait};

fn succeeds(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A `.cu` program of the simulator's tests, linked with the shared runtime.
fn compile(node: &Node, name: &str) -> PathBuf {
    let out = node.path("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sim/cuda-sim/tests/cu").join(name);
    let compiler = built("cuda-sim-cc");
    succeeds(Command::new(compiler).current_dir(node.path("")).arg("-O1").arg(source).arg("-o").arg(&out));
    out
}

#[test]
fn programs_of_the_runtime_print_what_they_print_without_it() {
    let node = Node::new(1);
    node.add(Some(1024));
    for name in ["vector_add.cu", "language.cu"] {
        let program = compile(&node, name);
        let run = |mut command: Command| {
            let output = command.output().unwrap();
            let errors = String::from_utf8(output.stderr).unwrap();
            (output.status.code(), String::from_utf8(output.stdout).unwrap(), errors.lines().count())
        };
        // What the plain program does to the driver is not looked at.
        let mut plain = node.plain(&program);
        plain.env_remove("CUDA_SIM_LOG");
        let (with, without) = (run(node.command(&program)), run(plain));
        assert_eq!((with.0, &with.1), (without.0, &without.1), "{name}");
        assert_eq!((with.0, without.2), (Some(0), 0), "{name}");
        // One of them asks for more than there is, and is told.
        assert_eq!(with.2, usize::from(name == "language.cu"), "{name}");
    }
    node.assert_clean();
    let events = std::fs::read_to_string(node.path("events")).unwrap();
    let declared = format!("\"mem\":{}", 1024u64 << 20);
    assert_eq!(events.matches(&declared).count(), 2, "one for each program: {events}");
}

/// The runtime answers from what the driver answers: the declared memory is all there is.
#[test]
fn the_runtime_sees_what_its_process_may_use() {
    let node = Node::new(1);
    node.add(Some(1024));
    let source = r#"
        #include <cuda_runtime.h>
        #include <cstdio>
        int main() {
            size_t free, total;
            void *a, *b;
            cudaError_t first = cudaMalloc(&a, 1000 << 20);
            cudaMemGetInfo(&free, &total);
            printf("%d %zu %zu\n", first, free >> 20, total >> 20);
            fflush(stdout);
            cudaError_t second = cudaMalloc(&b, 40ull << 30);
            cudaDeviceReset();
            cudaMemGetInfo(&free, &total);
            printf("%d %d %zu\n", second, cudaSetDevice(1), free >> 20);
            fflush(stdout);
            getchar();
        }
    "#;
    std::fs::write(node.path("memory.cu"), source).unwrap();
    let program = node.path("memory");
    let mut compiler = Command::new(built("cuda-sim-cc"));
    succeeds(compiler.current_dir(node.path("")).arg("memory.cu").arg("-o").arg(&program));
    let mut child = node.command(&program);
    let child = child.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = child.stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait("its lease", || (node.tasks() == [(Running, 1024)]).then_some(()));
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 24 1024\n2 101 1024\n");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.starts_with("tessera: an allocation of 40960 MiB failed"), "{errors}");
    node.assert_clean();
}
