//! `.cu` programs, compiled and run.

#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Node, V100, compiler, ok, run, text};

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cu").join(name)
}

fn compile(node: &Node, arguments: &[&str]) -> Output {
    // Warnings of our own headers count as failures.
    run(Command::new(compiler()).current_dir(node.path("")).args(["-O1", "-Wall", "-Werror"]).args(arguments))
}

fn program(node: &Node, name: &str) -> PathBuf {
    let out = node.path("program");
    assert!(compile(node, &[source(name).to_str().unwrap(), "-o", out.to_str().unwrap()]).status.success());
    out
}

#[test]
fn a_vector_is_added() {
    let node = Node::new(V100);
    let out = ok(&mut node.command(program(&node, "vector_add.cu")));
    assert_eq!(text(&out), "wrong: 0 of 100000, cudaSuccess\n");
    let ops: Vec<_> = node.log().iter().map(|l| l["op"].as_str().unwrap().to_owned()).collect();
    let expect = ["context", "alloc", "alloc", "alloc", "launch", "free", "free", "free", "exit"];
    assert_eq!(ops, expect);
}

#[test]
fn every_construct_of_the_kernel_language_computes_right() {
    let node = Node::new(V100);
    let out = run(&mut node.command(program(&node, "language.cu")));
    let said = text(&out);
    assert!(out.status.success() && !said.contains("NOT"), "{said}");
    assert_eq!(said.lines().count(), 23, "every check ran");
}

/// Two files, each with its own image, linked into one program; and the kernels of one file for the driver API.
#[test]
fn several_files_and_kernels_alone() {
    let node = Node::new(V100);
    std::fs::write(
        node.path("a.cu"),
        "#include <cuda_runtime.h>\n#include <cstdio>\nvoid b(int *);\n__device__ int seen = 1;\n\
         __global__ void k(int *p) { *p += seen; }\n\
         int main() { int *p, r = 10; cudaMalloc(&p, 4); cudaMemcpy(p, &r, 4, cudaMemcpyHostToDevice);\n\
         k<<<1, 1>>>(p); b(p); cudaMemcpy(&r, p, 4, cudaMemcpyDeviceToHost); printf(\"%d\\n\", r); }\n",
    )
    .unwrap();
    std::fs::write(
        node.path("b.cu"),
        "#include <cuda_runtime.h>\nstatic __device__ int seen = 100;\n\
         static __global__ void k(int *p) { *p += seen; }\nvoid b(int *p) { k<<<1, 2>>>(p); }\n",
    )
    .unwrap();
    assert!(compile(&node, &["-c", "b.cu"]).status.success());
    assert!(compile(&node, &["a.cu", "b.o", "-o", "both"]).status.success());
    assert_eq!(text(&ok(&mut node.command(node.path("both")))), "211\n");
    assert!(compile(&node, &["--kernels", "a.cu"]).status.success());
    std::fs::write(
        node.path("driver.c"),
        "#include <cuda.h>\n#include <stdio.h>\nint main(void) { CUcontext c; CUmodule m; CUfunction f; CUdeviceptr p, g;\n\
         size_t n; int r = 5; void *args[] = {&p};\n\
         int e = cuInit(0) | cuCtxCreate(&c, 0, 0) | cuModuleLoad(&m, \"a.kern\") | cuModuleGetFunction(&f, m, \"_Z1kPi\");\n\
         e |= cuMemAlloc(&p, 4) | cuMemcpyHtoD(p, &r, 4) | cuModuleGetGlobal(&g, &n, m, \"seen\") | cuMemsetD32(g, 30, 1);\n\
         e |= cuLaunchKernel(f, 2, 1, 1, 3, 1, 1, 0, 0, args, 0) | cuMemcpyDtoH(&r, p, 4);\n\
         printf(\"%d %d %zu %d\\n\", e, r, n, cuModuleGetFunction(&f, m, \"none\")); return 0; }\n",
    )
    .unwrap();
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    ok(Command::new("cc")
        .current_dir(node.path(""))
        .args(["-Wall", include, "driver.c", "-o", "driver"])
        .arg(common::library("cuda")));
    let out = ok(node.command(node.path("driver")).current_dir(node.path("")));
    assert_eq!(text(&out), format!("0 {} 4 500\n", 5 + 6 * 30));
}

#[test]
fn what_cannot_be_compiled_is_said() {
    let node = Node::new(V100);
    let said = |file: &str, body: &str| {
        std::fs::write(node.path(file), format!("#include <cuda_runtime.h>\n{body}\nint main() {{}}\n"))
            .unwrap();
        let out = compile(&node, &[file, "-o", "x"]);
        assert!(!out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    let missing = said(
        "missing.cu",
        "extern __device__ int elsewhere(int);\n__global__ void k(int *p) { *p = elsewhere(1); }",
    );
    assert!(
        missing.contains("a kernel calls `_Z9elsewherei`, which is no device function of this file"),
        "{missing}"
    );
    let lambda = said(
        "lambda.cu",
        "template <class F> __global__ void k(F f) { f(); }\nvoid g() { k<<<1, 1>>>([] __device__() {}); }",
    );
    assert!(lambda.contains("takes a lambda or a type without a name"), "{lambda}");
    assert!(said("warp.cu", "__global__ void k() { __syncwarp(); }").contains("__syncwarp"));
}

/// A program that nvcc made has code for a GPU: it is refused, not run.
#[test]
fn code_for_a_gpu_is_refused() {
    let node = Node::new(V100);
    std::fs::write(node.path("gpu.fatbin"), [0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0].repeat(20)).unwrap();
    let source = source("vector_add.cu");
    let flags =
        ["-x", "cuda", "--cuda-host-only", "-nocudainc", "-nocudalib", "-Xclang", "-target-sdk-version=12.5"];
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include");
    let gpu = ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", "gpu.fatbin", include, "-o", "program"];
    let mut clang = Command::new("clang++-19");
    clang.current_dir(node.path("")).args(flags).arg(source).args(gpu).arg("-L").arg(node.path("lib"));
    ok(clang.arg("-l:libcudart.so.12"));
    let out = run(&mut node.command(node.path("program")));
    assert!(text(&out).contains("cudaErrorNoKernelImageForDevice"), "{}", text(&out));
}
