//! The pass on IR by itself: where begin, frees and selections go.

use std::io::Write as _;
use std::process::{Command, Stdio};

use insta::assert_snapshot;

use crate::tools::built;

/// Declarations that every module here has.
const DECLARATIONS: &str = "
declare i32 @cudaMalloc(ptr, i64)
declare i32 @cudaFree(ptr)
declare i32 @cudaDeviceSynchronize()
declare i32 @__cudaPushCallConfiguration(i64, i32, i64, i32, i64, ptr)
declare void @_Z16__device_stub__kPi(ptr)
declare void @other()
";

/// A launch of `k` with the object `object`, one block of 32 threads.
fn launch(object: &str) -> String {
    format!(
        "  call i32 @__cudaPushCallConfiguration(i64 4294967297, i32 1, i64 4294967328, i32 1, i64 0, ptr null)
  call void @_Z16__device_stub__kPi(ptr {object})
"
    )
}

/// The functions that the pass makes of `module`, as verified IR.
fn transformed(module: &str) -> String {
    let mut opt = Command::new("opt-19");
    opt.arg("-load-pass-plugin").arg(built().join("tessera-case-pass.so"));
    opt.args(["-passes=tessera-case,verify", "-S", "-o", "-", "-"]);
    let mut child = opt.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(format!("{module}{DECLARATIONS}").as_bytes()).unwrap();
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success());
    String::from_utf8(done.stdout).unwrap()
}

/// The blocks and calls of a function in its order, without arguments that do not matter here.
fn calls(module: &str, function: &str) -> String {
    let text = transformed(module);
    let start = text.find(&format!("@{function}(")).unwrap_or_else(|| panic!("no {function} in {text}"));
    let body = text[start..].split("\n}").next().unwrap();
    let mut lines = Vec::new();
    for line in body.lines().skip(1) {
        let line = line.split(" ;").next().unwrap().trim();
        if line.ends_with(':') {
            lines.push(line.to_owned());
        } else if let Some((before, call)) = line.split_once("call ") {
            let name = call.split('@').nth(1).unwrap().split('(').next().unwrap();
            let arguments = call.split_once('(').unwrap().1.trim_end_matches(')');
            let shown =
                if name.starts_with("tessera_") { format!("{name}({arguments})") } else { name.to_owned() };
            let value = before.trim().trim_end_matches("= tail").trim_end_matches('=').trim();
            lines.push(if name.ends_with("_begin") {
                format!("  {value} = {shown}")
            } else {
                format!("  {shown}")
            });
        } else if line.starts_with("br ") || line.starts_with("ret ") || line == "unreachable" {
            lines.push(format!("  {line}"));
        }
    }
    lines.join("\n")
}

#[test]
fn ways_that_free_and_meet_again_have_one_free() {
    let module = format!(
        "define void @f(i64 %n, i1 %c) {{
entry:
  %p = alloca ptr
  call i32 @cudaMalloc(ptr %p, i64 %n)
  %v = load ptr, ptr %p
{}
  br i1 %c, label %left, label %right
left:
  call i32 @cudaFree(ptr %v)
  br label %meet
right:
  call i32 @cudaFree(ptr %v)
  br label %meet
meet:
  call void @other()
  ret void
}}
",
        launch("%v")
    );
    assert_snapshot!(calls(&module, "f"), @r"
        entry:
          llvm.uadd.sat.i64
          %1 = tessera_task_begin(i64 %0, i32 32, i64 1)
          cudaMalloc
          tessera_launch_prepare(i32 0, i64 0)
          __cudaPushCallConfiguration
          _Z16__device_stub__kPi
          br i1 %c, label %left, label %right
        left:
          tessera_task_select(i64 %1)
          cudaFree
          br label %meet
        right:
          tessera_task_select(i64 %1)
          cudaFree
          br label %meet
        meet:
          tessera_task_free(i64 %1)
          other
          ret void
        ");
}

#[test]
fn each_exit_has_a_free_but_not_where_the_process_ends() {
    let module = format!(
        "declare void @exit(i32) noreturn
define i32 @f(i64 %n, i32 %c) {{
entry:
  %p = alloca ptr
  call i32 @cudaMalloc(ptr %p, i64 %n)
  %v = load ptr, ptr %p
  switch i32 %c, label %on [i32 1, label %stop
                            i32 2, label %back]
stop:
  call void @exit(i32 1)
  unreachable
back:
  call i32 @cudaFree(ptr %v)
  ret i32 1
on:
{}
  call i32 @cudaFree(ptr %v)
  ret i32 0
}}
",
        launch("%v")
    );
    assert_snapshot!(calls(&module, "f"), @r"
        entry:
          llvm.uadd.sat.i64
          %1 = tessera_task_begin(i64 %0, i32 32, i64 1)
          cudaMalloc
        stop:
          exit
          unreachable
        back:
          cudaFree
          tessera_task_free(i64 %1)
          ret i32 1
        on:
          tessera_launch_prepare(i32 0, i64 0)
          __cudaPushCallConfiguration
          _Z16__device_stub__kPi
          cudaFree
          tessera_task_free(i64 %1)
          ret i32 0
        ");
}

#[test]
fn a_task_inside_a_loop_begins_and_ends_in_each_turn() {
    let module = format!(
        "define void @f(i64 %n) {{
entry:
  %p = alloca ptr
  br label %turn
turn:
  %i = phi i64 [ 0, %entry ], [ %next, %turn ]
  %size = mul i64 %i, 4
  call i32 @cudaMalloc(ptr %p, i64 %size)
  %v = load ptr, ptr %p
{}
  call i32 @cudaFree(ptr %v)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %turn, label %done
done:
  ret void
}}
",
        launch("%v")
    );
    assert_snapshot!(calls(&module, "f"), @r"
        entry:
          br label %turn
        turn:
          llvm.uadd.sat.i64
          %1 = tessera_task_begin(i64 %0, i32 32, i64 1)
          cudaMalloc
          tessera_launch_prepare(i32 0, i64 0)
          __cudaPushCallConfiguration
          _Z16__device_stub__kPi
          cudaFree
          tessera_task_free(i64 %1)
          br i1 %more, label %turn, label %done
        done:
          ret void
        ");
}

#[test]
fn an_object_of_each_turn_joins_the_task_round_the_loop() {
    let module = format!(
        "define void @f(i64 %n) {{
entry:
  %p = alloca ptr
  %q = alloca ptr
  call i32 @cudaMalloc(ptr %p, i64 100)
  %v = load ptr, ptr %p
  br label %turn
turn:
  %i = phi i64 [ 0, %entry ], [ %next, %turn ]
  call i32 @cudaMalloc(ptr %q, i64 %n)
  %w = load ptr, ptr %q
  %c = icmp eq i64 %i, 7
  %one = select i1 %c, ptr %v, ptr %w
{}
  call i32 @cudaFree(ptr %w)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %turn, label %done
done:
  call i32 @cudaFree(ptr %v)
  ret void
}}
",
        launch("%one")
    );
    assert_snapshot!(calls(&module, "f"), @r"
        entry:
          llvm.uadd.sat.i64
          %1 = tessera_task_begin(i64 %0, i32 32, i64 1)
          cudaMalloc
          br label %turn
        turn:
          cudaMalloc
          tessera_launch_prepare(i32 0, i64 0)
          __cudaPushCallConfiguration
          _Z16__device_stub__kPi
          cudaFree
          br i1 %more, label %turn, label %done
        done:
          cudaFree
          tessera_task_free(i64 %1)
          ret void
        ");
}

#[test]
fn objects_that_pile_up_in_a_loop_are_lazy() {
    let module = format!(
        "define void @f(i64 %n) {{
entry:
  %p = alloca ptr
  br label %turn
turn:
  %i = phi i64 [ 0, %entry ], [ %next, %turn ]
  call i32 @cudaMalloc(ptr %p, i64 %n)
  %v = load ptr, ptr %p
{}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %turn, label %done
done:
  call i32 @cudaFree(ptr %v)
  ret void
}}
",
        launch("%v")
    );
    assert_snapshot!(calls(&module, "f"), @r"
        entry:
          br label %turn
        turn:
          tessera.lazy.cudaMalloc
          tessera_launch_prepare(i32 32, i64 1)
          __cudaPushCallConfiguration
          tessera_lazy_address(ptr %1)
          _Z16__device_stub__kPi
          br i1 %more, label %turn, label %done
        done:
          tessera.lazy.cudaFree
          ret void
        ");
}

#[test]
fn a_wait_for_the_device_waits_for_both_tasks_and_unseen_code_for_none() {
    let module = format!(
        "define i32 @f(i64 %n) {{
entry:
  %p = alloca ptr
  %q = alloca ptr
  call i32 @cudaMalloc(ptr %p, i64 %n)
  %v = load ptr, ptr %p
  call i32 @cudaMalloc(ptr %q, i64 %n)
  %w = load ptr, ptr %q
{}{}
  %r = call i32 @cudaDeviceSynchronize()
  call i32 @cudaFree(ptr %v)
  call i32 @cudaFree(ptr %w)
  ret i32 %r
}}
",
        launch("%v"),
        launch("%w")
    );
    assert!(!transformed(&module).contains("tessera_task_sticky"));
    let unseen = module.replace("  %r = call", "  call void @other()\n  %r = call");
    assert!(
        transformed(&unseen).contains("tessera_task_sticky"),
        "the other code may wait for either device"
    );
    assert_snapshot!(calls(&module, "f"), @r"
        entry:
          llvm.uadd.sat.i64
          %1 = tessera_task_begin(i64 %0, i32 32, i64 1)
          cudaMalloc
          llvm.uadd.sat.i64
          %5 = tessera_task_begin(i64 %4, i32 32, i64 1)
          cudaMalloc
          tessera_launch_prepare(i32 0, i64 0)
          tessera_task_select(i64 %1)
          __cudaPushCallConfiguration
          _Z16__device_stub__kPi
          tessera_launch_prepare(i32 0, i64 0)
          tessera_task_select(i64 %5)
          __cudaPushCallConfiguration
          _Z16__device_stub__kPi
          tessera_task_select(i64 %1)
          cudaDeviceSynchronize
          tessera_task_select(i64 %5)
          cudaDeviceSynchronize
          tessera_task_select(i64 %1)
          cudaFree
          tessera_task_select(i64 %5)
          tessera_task_free(i64 %1)
          cudaFree
          tessera_task_free(i64 %5)
          ret i32 %12
        ");
}

/// Gives the blocks that a task asks for whose grid is the counter of a loop: from `first` by `step` while `more` holds, which
/// the loop asks at its head or at its end.
fn asked_blocks(first: i32, step: i32, more: &str, at_head: bool) -> String {
    let asks = |of: &str, on: &str| format!("%more = icmp {} br i1 %more, label {on}", more.replace('_', of));
    let (head, end) = if at_head {
        (asks("%i,", "%body, label %done"), "br label %head".to_owned())
    } else {
        ("br label %body".to_owned(), asks("%next,", "%head, label %done"))
    };
    let module = format!(
        "define void @f(i64 %n) {{
entry:
  %p = alloca ptr
  call i32 @cudaMalloc(ptr %p, i64 %n)
  %v = load ptr, ptr %p
  br label %head
head:
  %i = phi i32 [ {first}, %entry ], [ %next, %body ]
  {head}
body:
  %x = zext i32 %i to i64
  %grid = or i64 %x, 4294967296
  call i32 @__cudaPushCallConfiguration(i64 %grid, i32 1, i64 4294967328, i32 1, i64 0, ptr null)
  call void @_Z16__device_stub__kPi(ptr %v)
  %next = add i32 %i, {step}
  {end}
done:
  call i32 @cudaFree(ptr %v)
  ret void
}}
"
    );
    let calls = calls(&module.replace(" br i1", "\n  br i1"), "f");
    let begin = calls.lines().find(|line| line.contains("tessera_task_begin")).expect("a static task");
    begin.trim_end_matches(')').rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn a_grid_in_a_loop_asks_for_the_most_that_it_can_be() {
    assert_eq!(asked_blocks(1, 1, "sle i32 _ 5", true), "5");
    assert_eq!(asked_blocks(2, 3, "slt i32 _ 12", true), "11");
    assert_eq!(asked_blocks(7, -2, "sge i32 _ 2", true), "7");
    assert_eq!(asked_blocks(0, 1, "slt i32 _ 0", true), "1", "no turn, and yet a block");
    assert_eq!(asked_blocks(1, 1, "sle i32 _ 5", false), "5");
    assert_eq!(asked_blocks(7, -2, "sge i32 _ 2", false), "7");
}

/// `f` loads the second object's size from a global after the first is allocated, with `between` before the load.
fn second_size(between: &str) -> String {
    second_size_after("", between)
}

/// Makes `second_size` with `before` ahead of the first allocation.
fn second_size_after(before: &str, between: &str) -> String {
    format!(
        "@size = global i64 8
declare i32 @printf(ptr, ...)
declare i32 @__isoc99_scanf(ptr, ...)
declare i64 @time(ptr)
declare i32 @rand()
declare i32 @cudaGetDevice(ptr)
declare i32 @cudaMemcpy(ptr, ptr, i64, i32)
declare i32 @cudaMemcpyAsync(ptr, ptr, i64, i32, ptr)
declare i32 @cudaLaunchHostFunc(ptr, ptr, ptr)
define void @f(i64 %n) {{
entry:
  %p = alloca ptr
  %q = alloca ptr
{before}
  call i32 @cudaMalloc(ptr %p, i64 %n)
  %v = load ptr, ptr %p
{between}
  %m = load i64, ptr @size
  %twice = mul i64 %m, 2
  call i32 @cudaMalloc(ptr %q, i64 %twice)
  %w = load ptr, ptr %q
  %one = select i1 true, ptr %v, ptr %w
{}{}
  call i32 @__cudaPushCallConfiguration(i64 4294967297, i32 1, i64 4294967328, i32 1, i64 0, ptr null)
  call void @_Z17__device_stub__k2PiS_(ptr %v, ptr %w)
  call i32 @cudaFree(ptr %v)
  call i32 @cudaFree(ptr %w)
  ret void
}}
declare void @_Z17__device_stub__k2PiS_(ptr, ptr)
",
        launch("%v"),
        launch("%w")
    )
}

#[test]
fn a_size_in_memory_counts_only_while_nobody_can_have_written_it() {
    assert_snapshot!(calls(&second_size(""), "f"), @r"
        entry:
          llvm.uadd.sat.i64
          llvm.uadd.sat.i64
          %4 = tessera_task_begin(i64 %3, i32 32, i64 1)
          cudaMalloc
          cudaMalloc
          tessera_launch_prepare(i32 0, i64 0)
          __cudaPushCallConfiguration
          _Z16__device_stub__kPi
          tessera_launch_prepare(i32 0, i64 0)
          __cudaPushCallConfiguration
          _Z16__device_stub__kPi
          tessera_launch_prepare(i32 0, i64 0)
          __cudaPushCallConfiguration
          _Z17__device_stub__k2PiS_
          cudaFree
          cudaFree
          tessera_task_free(i64 %4)
          ret void
        ");
    for writes in ["void @other()", "i64 @time(ptr @size)", "i32 @cudaGetDevice(ptr @size)"] {
        let written = calls(&second_size(&format!("  call {writes}")), "f");
        assert!(written.contains("tessera.lazy.cudaMalloc"), "{writes}");
    }
    for harmless in ["i64 @time(ptr null)", "i32 @rand()"] {
        let same = calls(&second_size(&format!("  call {harmless}")), "f");
        assert!(!same.contains("tessera.lazy.cudaMalloc"), "{harmless}");
    }
    // A kernel that ends then may have written it.
    assert!(
        calls(&second_size("  call i32 @cudaDeviceSynchronize()"), "f").contains("tessera.lazy.cudaMalloc")
    );
}

#[test]
fn a_copy_to_the_device_may_end_work_that_writes_a_size() {
    const TO_DEVICE: &str = "  call i32 @cudaMemcpy(ptr %v, ptr @size, i64 8, i32 1)";
    const TO_HOST: &str = "  call i32 @cudaMemcpyAsync(ptr @size, ptr null, i64 8, i32 2, ptr null)";
    let is_static = |function: &str, before: &str| {
        let module = second_size_after(before, TO_DEVICE).replace("@f(", &format!("@{function}("));
        !calls(&module, function).contains("tessera.lazy.cudaMalloc")
    };
    assert!(is_static("main", "") && is_static("main", "  call i32 (ptr, ...) @__isoc99_scanf(ptr null)"));
    assert!(!is_static("f", ""), "its caller may have started something");
    let (kernel, on_host) =
        (launch("null"), "  call i32 @cudaLaunchHostFunc(ptr null, ptr @other, ptr null)");
    for starts in [TO_HOST, &kernel, on_host, "  call void @other()"] {
        assert!(!is_static("main", starts), "{starts}");
        let waits = "  call i32 @cudaDeviceSynchronize()";
        assert!(is_static("f", &format!("{starts}\n{waits}")), "{starts}");
        assert!(!is_static("f", &format!("{waits}\n{starts}")), "{starts}");
        assert!(!is_static("main", &format!("{starts}\n  call i32 @cudaFree(ptr null)")), "{starts}");
    }
    // Copies that write the device, and those that have ended.
    for ended in [
        TO_HOST.replace("i32 2", "i32 1"),
        TO_DEVICE.replace("ptr %v", "ptr null"),
        TO_DEVICE.replace("(ptr %v, ptr @size, i64 8, i32 1", "(ptr @size, ptr null, i64 8, i32 2"),
    ] {
        assert!(is_static("main", &ended), "{ended}");
    }
}

/// A launch with a structure by value, which is copied from an argument.
fn with_structure(kind: &str) -> String {
    format!(
        "{kind}
declare void @_Z17__device_stub__k3Pi5Shape(ptr, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @f(i64 %n, ptr %from) {{
  %p = alloca ptr
  %shape = alloca %T
  call i32 @cudaMalloc(ptr %p, i64 %n)
  %v = load ptr, ptr %p
  call void @llvm.memcpy.p0.p0.i64(ptr %shape, ptr %from, i64 24, i1 false)
  call i32 @__cudaPushCallConfiguration(i64 4294967297, i32 1, i64 4294967328, i32 1, i64 0, ptr null)
  call void @_Z17__device_stub__k3Pi5Shape(ptr %v, ptr byval(%T) %shape)
  call i32 @cudaFree(ptr %v)
  ret void
}}"
    )
}

#[test]
fn a_structure_by_value_makes_a_task_lazy_if_it_may_have_a_pointer() {
    for numbers in ["%T = type { i64, double, [4 x i8] }", "%T = type { %S, i64 }\n%S = type { i64, float }"]
    {
        assert!(transformed(&with_structure(numbers)).contains("call i64 @tessera_task_begin"), "{numbers}");
    }
    let union = "%T = type { %union.anon, i64 }\n%union.anon = type { i64 }";
    for pointers in ["%T = type { i64, [2 x ptr] }", union] {
        assert!(
            !transformed(&with_structure(pointers)).contains("call i64 @tessera_task_begin"),
            "{pointers}"
        );
    }
}

#[test]
fn an_exception_ends_the_task_where_its_owner_frees() {
    let module = format!(
        "declare i32 @__gxx_personality_v0(...)
define void @f(i64 %n) personality ptr @__gxx_personality_v0 {{
entry:
  %p = alloca ptr
  call i32 @cudaMalloc(ptr %p, i64 %n)
  %v = load ptr, ptr %p
  invoke void @other() to label %on unwind label %pad
on:
{}
  call i32 @cudaFree(ptr %v)
  ret void
pad:
  %e = landingpad {{ ptr, i32 }} cleanup
  call i32 @cudaFree(ptr %v)
  resume {{ ptr, i32 }} %e
}}
",
        launch("%v")
    );
    assert_snapshot!(calls(&module, "f"), @r"
        entry:
          llvm.uadd.sat.i64
          %1 = tessera_task_begin(i64 %0, i32 32, i64 1)
          cudaMalloc
        on:
          tessera_launch_prepare(i32 0, i64 0)
          tessera_task_select(i64 %1)
          __cudaPushCallConfiguration
          _Z16__device_stub__kPi
          cudaFree
          tessera_task_free(i64 %1)
          ret void
        pad:
          tessera_task_select(i64 %1)
          cudaFree
          tessera_task_free(i64 %1)
        ");
}

#[test]
fn a_program_that_asks_for_its_tasks_itself_is_left_as_it_is() {
    let module = format!(
        "declare i64 @tessera_task_begin(i64, i32, i64)
define void @f(ptr %v) {{
  call i64 @tessera_task_begin(i64 1, i32 1, i64 1)
{}
  ret void
}}
",
        launch("%v")
    );
    let text = transformed(&module);
    assert!(!text.contains("tessera_launch_prepare") && !text.contains("tessera_task_sticky"), "{text}");
}

/// Declarations that are not CUDA's: the calls stay as they are.
#[test]
fn functions_that_only_have_such_a_name_are_not_touched() {
    let module = "define i32 @f(i64 %n) {
  %r = call i32 @cudaMalloc3D(i64 %n)
  %s = call i32 @cudaMemcpy()
  ret i32 %r
}
declare i32 @cudaMalloc3D(i64)
declare i32 @cudaMemcpy()
";
    assert_snapshot!(calls(module, "f"), @r"
        tessera_launch_prepare(i32 0, i64 0)
        cudaMalloc3D
        tessera_launch_prepare(i32 0, i64 0)
        cudaMemcpy
        ret i32 %r
        ");
}
