//! What a preloaded library can break: lookups by `dlsym`, programs that ask for their tasks themselves, setuid programs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use task_control::status::TaskState::Running;

use crate::node::{Node, built, wait};

/// A file of the tests.
fn source(name: &str) -> String {
    std::fs::read_to_string(format!("{}/tests/interposed/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

impl Node {
    /// Compiles a program, or a library by `-shared`, to a file of the node's `lib`.
    fn compile(&self, name: &str, source: &str, arguments: &[&str]) -> PathBuf {
        let (from, to) = (self.path(&format!("{name}.c")), self.path("lib").join(name));
        std::fs::write(&from, format!("#define _GNU_SOURCE\n{source}")).unwrap();
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Werror", "-fPIC", "-Wl,--no-as-needed"])
            .arg("-o")
            .arg(&to)
            .arg(&from)
            .arg("-L")
            .arg(self.path("lib"));
        cc.arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../../contrib/case-pass/include"));
        cc.arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../../sim/cuda-sim/include"));
        let output = cc.args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        to
    }

    fn prints(&self, program: &Path) -> String {
        let output = self.command(program).output().unwrap();
        let (said, errors) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        assert!(output.status.success(), "{said}{errors}{}", output.status);
        said
    }
}

/// `RTLD_NEXT` means the object after the caller, and `RTLD_DEFAULT` must not find a driver where there is none.
#[test]
fn lookups_that_are_not_ours_are_the_c_librarys() {
    let node = Node::new(1);
    node.compile("libbase.so", "int layer(void) { return 10; }", &["-shared"]);
    let layer =
        "#include <dlfcn.h>\nint layer(void) { return 1 + ((int (*)(void))dlsym(RTLD_NEXT, \"layer\"))(); }";
    node.compile("libupper.so", layer, &["-shared", "-l:libbase.so"]);
    let source = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        #include <stdlib.h>
        #include <string.h>
        int layer(void);
        /* An allocator that looks up the one below when it is first called, as several do. */
        static void *(*below)(size_t);
        void *malloc(size_t bytes) {
            if (!below)
                below = dlsym(RTLD_NEXT, "malloc");
            return below(bytes);
        }
        int main(void) {
            void *libc = dlopen("libc.so.6", RTLD_NOW), *mine = dlopen(NULL, RTLD_NOW);
            printf("%d\n", layer());
            printf("%d\n", dlsym(RTLD_DEFAULT, "strdup") == dlsym(libc, "strdup"));
            printf("%d\n", dlsym(mine, "malloc") == (void *)malloc && dlsym(RTLD_NEXT, "malloc") == dlsym(libc, "malloc"));
            for (int i = 0; i < 2; i++) {
                void *found = dlsym(i ? libc : RTLD_DEFAULT, "cuInit");
                printf("%d %d\n", found == NULL, strstr(dlerror(), "cuInit") != NULL);
            }
            printf("%d\n", dlsym(RTLD_DEFAULT, "cuNothing") == NULL && dlsym(libc, "c") == NULL && dlsym(libc, "") == NULL);
            void *driver = dlopen("libcuda.so.1", RTLD_NOW);
            printf("%d\n", driver && dlsym(driver, "cuInit") && dlsym(driver, "cuNothing") == NULL);
            printf("%d\n", dlsym(RTLD_DEFAULT, "cuInit") != NULL);
            return 0;
        }
    "#;
    let program = node.compile("looks", source, &["-l:libupper.so", "-l:libbase.so", "-ldl"]);
    assert_eq!(node.prints(&program), "11\n1\n1\n1 1\n1 1\n1\n1\n1\n");
    assert_eq!(node.tasks(), []);
}

/// A child that is forked while other threads look for a driver finds the C library whole: the lookup loads and unloads nothing.
#[test]
fn children_forked_beside_lookups_live() {
    let node = Node::new(1);
    // The C library looks for the driver everywhere.
    std::fs::remove_file(node.path("lib/libcuda.so.1")).unwrap();
    let program = node.compile("forks", &source("forks.c"), &["-pthread", "-ldl"]);
    assert_eq!(node.prints(&program), "0 0\n", "children that a signal ended, and that found a driver");
}

/// A program that is linked with the library asks itself: the job's `--gpu-mem` is not held in addition.
#[test]
fn a_program_with_probes_is_charged_for_its_tasks_alone() {
    let node = Node::new(1);
    node.add(Some(3072));
    let source = r#"
        #include <cuda.h>
        #include <stdio.h>
        #include <tessera_task.h>
        int main(void) {
            CUdeviceptr at;
            int64_t task = tessera_task_begin(5000ul << 20, 128, 8);
            printf("%d %d\n", task > 0, cuMemAlloc(&at, 4900ul << 20));
            fflush(stdout);
            getchar();
            cuMemFree(at);
            tessera_task_free(task);
            printf("%d\n", cuMemAlloc(&at, 1));
            return 0;
        }
    "#;
    let driver = built("libcuda.so");
    let arguments = ["-l:libtessera_task.so", driver.to_str().unwrap()];
    let program = node.compile("probed", source, &arguments);
    let mut child = node.command(&program).stdin(std::process::Stdio::piped()).spawn().unwrap();
    wait("its task", || (node.tasks() == [(Running, 5000)]).then_some(()));
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    node.assert_clean();
}

/// Code with probes that is loaded after the driver has started: its task is within what the process holds, or adds to it.
#[test]
fn a_plugin_with_probes_adds_to_what_its_process_holds() {
    let node = Node::new(1);
    node.add(Some(3072));
    let plugin = "#include <tessera_task.h>\nint64_t begin(uint64_t mib) { return tessera_task_begin(mib << 20, 128, 8); }\n\
                  void end(int64_t task) { tessera_task_free(task); }";
    node.compile("libplugin.so", plugin, &["-shared", "-l:libtessera_task.so"]);
    let source = r#"
        #include <cuda.h>
        #include <dlfcn.h>
        #include <stdint.h>
        #include <stdio.h>
        int main(void) {
            CUcontext context;
            CUdeviceptr at, more;
            size_t free, total;
            cuInit(0), cuCtxCreate(&context, 0, 0), cuMemAlloc(&at, 1000ul << 20);
            void *plugin = dlopen("libplugin.so", RTLD_NOW);
            int64_t (*begin)(uint64_t) = (int64_t (*)(uint64_t))dlsym(plugin, "begin");
            void (*end)(int64_t) = (void (*)(int64_t))dlsym(plugin, "end");
            int64_t small = begin(2000), large = begin(4000);
            cuMemGetInfo(&free, &total);
            printf("%d %zu %zu\n", small > 0 && large > small, free >> 20, total >> 20);
            printf("%d\n", cuMemAlloc(&more, 4000ul << 20) || cuMemFree(more));
            end(small), end(large), end(large);
            cuMemGetInfo(&free, &total);
            printf("%zu %zu\n", free >> 20, total >> 20);
            return 0;
        }
    "#;
    let driver = built("libcuda.so");
    let program = node.compile("loads", source, &[driver.to_str().unwrap(), "-ldl"]);
    assert_eq!(node.prints(&program), "1 4000 5000\n0\n2072 3072\n");
    node.assert_clean();
}

/// ld.so ignores the library for a program that runs with more rights than its caller.
#[test]
fn setuid_programs_do_not_load_it() {
    let node = Node::new(1);
    for dir in ["", "lib"] {
        std::fs::set_permissions(node.path(dir), PermissionsExt::from_mode(0o755)).unwrap();
    }
    let maps = |mode| {
        let cat = node.path("cat");
        std::fs::copy("/bin/cat", &cat).unwrap();
        std::fs::set_permissions(&cat, PermissionsExt::from_mode(mode)).unwrap();
        let mut setpriv = node.command("setpriv".as_ref());
        let output = setpriv.args(["--reuid=65534", "--clear-groups", "--regid=65534"]).arg(&cat);
        String::from_utf8(output.arg("/proc/self/maps").output().unwrap().stdout).unwrap()
    };
    assert!(maps(0o755).contains("libtessera_task.so"));
    let maps = maps(0o4755);
    assert!(maps.contains("/cat") && !maps.contains("libtessera_task.so"), "{maps}");
}

/// Each function reaches the driver with the arguments of the program, and counts as documented. The driver is a double that
/// writes down its calls; its `cuGetProcAddress` answers with other addresses than those that it exports.
#[test]
fn every_function_is_passed_on_and_counted() {
    let node = Node::new(1);
    node.add(Some(3072));
    std::fs::remove_file(node.path("lib/libcuda.so.1")).unwrap();
    node.compile("libcuda.so.1", &source("driver_double.c"), &["-shared", "-Wl,-soname,libcuda.so.1"]);
    let program = node.compile("caller", &source("every_function.c"), &["-ldl"]);
    let said = node.prints(&program);
    let expect = source("every_function.txt");
    assert_eq!(said, expect);
    // Each of ours is called.
    let is_called = |name: &&str| said.lines().any(|line| line.split(' ').next() == Some(name));
    let never: Vec<&str> =
        tessera_task::ffi::interpose::names().into_iter().filter(|n| !is_called(n)).collect();
    assert_eq!(never, ["cuMemGetInfo_v2"], "which says what is left");
    node.assert_clean();
}
