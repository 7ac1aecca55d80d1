//! Each shape in `contrib/case-pass/tests/shapes`: what the pass reports of it, and how it runs.

use insta::assert_snapshot;

use crate::compiled::{Compiled, shapes};
use crate::{leases, report, runs};

macro_rules! shapes {
    ($($name:ident: $snapshot:literal)*) => {
        $(
            #[test]
            fn $name() {
                let shape = Compiled::of(stringify!($name));
                assert_snapshot!(report::of(&shape), @$snapshot);
                runs::check(&shape);
                leases::check(&shape);
            }
        )*

        #[test]
        fn every_shape_has_a_test() {
            let mut names = vec![$(stringify!($name)),*];
            names.sort_unstable();
            assert_eq!(names, shapes().names);
        }
    };
}

shapes! {
    again: r"
        main:7
          static [fill:10] [v:9=128] begin 9 free [12] mem 8388736 threads 32 blocks 1
          static [fill:15] [v:14=256] begin 14 free [17] mem 8388864 threads 64 blocks 1
        "
    aliases: r"
        main:7
          static [fill:12 fill:13 fill:14] [a:9=256 b:10=256] begin 9 free [19] mem 8389120 threads 64 blocks 1
        "
    array: r"
        main:12
          static [sum:24] [table:21=40 out:22=128] begin 21 free [29] mem 8388776 threads 32 blocks 1
          no task: cudaMalloc 18: the address goes to memory that other code may read
        "
    behind_calls: r"
        allocate:9
          no task: cudaMalloc 9: the address goes to memory that other code may read
        execute:11
          lazy [fill:11] []: the launch of fill at behind_calls.cu:11 uses the global variable buffer
        "
    branches: r"
        run:8
          static [small:15 large:17] [v:11=256 v:13=1024] begin 10 free [26] mem 8389888 threads 64 blocks 8
        "
    chain: r"
        main:8
          static [link:17 link:18 link:20 link:21] [a:10=128 b:11=128 c:12=128 d:13=128 e:14=128] begin 10 free [28] mem 8389248 threads 32 blocks 1
          static [alone:19] [x:15=128] begin 15 free [29] mem 8388736 threads 32 blocks 1
        "
    checked_helper: r"
        main:32
          static [add:23] [v:19=256 w:20=256] begin 34 free [34 34], held to exit mem 8389120 threads 64 blocks 1
        "
    checked_loop: r"
        main:7
          static [fill:12] [v:10=256] begin 10 free [21] mem 8388864 threads 64 blocks 1
        "
    closure: r"
        main:8
          static [set:13 set:14 set:15 join:16 join:17] [a:10=128 b:11=128 c:12=128] begin 10 free [21] mem 8388992 threads 32 blocks 1
        "
    early_return: r"
        run:7
          static [halve:14 halve:19] [v:11=null] begin 11 free [12 16 21] mem null threads null blocks 1
        "
    errors: r"
        main:17
          static [fill:21] [v:19=256 w:20=256] begin 19 free [26] mem 8389120 threads 64 blocks 1
        "
    exceptions: r"
        owned:19
          static [add:23] [o:10=128] begin 20 free [27 27] mem 8388736 threads 32 blocks 1
        caught:29
          static [add:35 add:37] [v:31=128] begin 31 free [40] mem 8388736 threads 32 blocks 1
        "
    growth: r"
        main:8
          lazy [measure:11 use:14] [n:10=4 v:13=null]: the size of v (growth.cu:13) is not known at the task's begin, growth.cu:10
        "
    heap_helper: r"
        main:16
          static [fill:22] [v:20=128] begin 20 free [24] mem 33554560 threads 32 blocks 1
        "
    heap_late: r"
        main:9
          lazy [fill:13] [v:12=128]: heap, which may be called before a launch, sets the heap limit at heap_late.cu:7
        "
    heap_limit: r"
        main:7
          static [fill:11] [v:10=128] begin 10 free [13] mem 33554560 threads 32 blocks 1
        "
    helpers: r"
        main:30
          static [twice:28] [v:19=null] begin 35 free [38] mem null threads 64 blocks null
        "
    independent: r"
        main:8
          static [one:12] [a:10=128] begin 10 free [17] mem 8388736 threads 32 blocks 1
          static [two:13] [b:11=256] begin 11 free [18] mem 8388864 threads 32 blocks 2
        "
    later: r"
        run:8
          static [first:11 second:13] [a:10=null b:12=null] begin 10 free [16] mem null threads null blocks 1
        "
    lazy_kinds: r"
        main:20
          lazy [sum:59] []: the launch of sum at lazy_kinds.cu:59 uses the global variable objects
          no task: cudaMalloc 27: the address goes to memory that other code may read
          no task: cudaMallocPitch 34: the address goes to memory that other code may read
          no task: cudaMallocAsync 38: the address goes to memory that other code may read
          no task: cudaMalloc 41: the address goes to memory that other code may read
          no task: cudaMalloc3D 45: the address goes to memory that other code may read
          no task: cudaMallocManaged 48: the address goes to memory that other code may read
          no task: cudaMalloc 52: the address goes to memory that other code may read
          no task: cudaMalloc 56: the address goes to memory that other code may read
          no task: cudaMalloc 58: the address goes to memory that other code may read
        "
    lazy_threads: r"
        allocate:11
          no task: cudaMalloc 15: the address goes to memory that other code may read
        launch:19
          lazy [add:19] []: the launch of add at lazy_threads.cu:19 uses the global variable first
        "
    loops: r"
        swapped:39
          static [step:14] [from:10=128 to:11=128] begin 39 free [39] mem 8388864 threads 32 blocks 1
        each:40
          static [step:31] [v:29=null] begin 40 free [40] mem null threads 32 blocks null
        "
    managed: r"
        main:7
          static [twice:12 twice:15] [v:9=128] begin 9 free [18] mem 8388736 threads 32 blocks 1
        "
    no_free: r"
        leak:7
          lazy [fill:10] [v:9=128]: v may still be allocated when the function returns, after no_free.cu:11
        main:15
          static [fill:18] [v:17=128] begin 17 free [], held to exit mem 8388736 threads 32 blocks 1
        "
    pitched: r"
        main:10
          static [mark:18] [v:16=null] begin 16 free [20] mem 8390656 threads 50 blocks 4
        "
    pointer_array: r"
        main:7
          static [step:18] [buffers:10=128 buffers+8:11=128] begin 10 free [22] mem 8388864 threads 32 blocks 1
        "
    straight: r"
        main:10
          static [add:21] [da:16=4096 db:17=4096 dc:18=4096] begin 16 free [25] mem 8400896 threads 128 blocks 8
        "
    stream_ordered: r"
        main:7
          static [fill:12] [v:11=128] begin 11 free [15] mem 8388736 threads 32 blocks 1
        "
    streams: r"
        main:7
          static [set:14] [a:12=128] begin 12 free [20] mem 8388736 threads 32 blocks 1
          static [set:15] [b:13=256] begin 13 free [21] mem 8388864 threads 64 blocks 1
        "
    structs: r"
        main:28
          static [square:35] [b:19=128 b+8:20=128] begin 33 free [37] mem 8388864 threads 32 blocks 1
        "
    symbols: r"
        main:9
          static [shift:13] [v:12=128] begin 12 free [15] mem 8388736 threads 32 blocks 1
        "
    threads: r"
        work:8
          static [count:11] [v:10=null] begin 10 free [13] mem null threads null blocks 1
        "
    too_large: r"
        allocate:9
          no task: cudaMalloc 9: the address goes to memory that other code may read
        main:11
          lazy [fill:14] []: the launch of fill at too_large.cu:14 uses the global variable buffer
        "
    unwaited: r"
        start:7
          lazy [nothing:7] []: nothing waits for the launch at unwaited.cu:7 before the function returns
        startAndWait:8
          static [nothing:9] [] begin 9 free [10] mem 8388608 threads 64 blocks null
        "
    volume: r"
        main:10
          static [mark:15] [p:13=null] begin 13 free [18] mem 8394752 threads 16 blocks 12
        "
    wavefront: r"
        run:25
          lazy [wave:42 wave:47 scale:56 scale:57] [v:27=null factors:30=16 rest:35=null]: the size of rest (wavefront.cu:35) is not known at the task's begin, wavefront.cu:27
        main:69
          static [wave:42 wave:47 scale:56 scale:57] [v:27=400 factors:30=16 rest:35=null] begin 73 free [73] mem null threads 32 blocks null
        "
}
