// Runs a grid on one CPU thread: part of every image of kernels.
//
// Blocks run one after another. The threads of a block run one after another too, on one stack, until one of them meets __syncthreads:
// it is left there with its stack, and another stack goes on with the next thread. When all have started, those that wait
// continue, in order. A kernel without barriers therefore never switches stacks.

#include <cstddef>
#include <sys/mman.h>
#include <vector>

namespace {

struct Three {
    unsigned x, y, z;
};

// The same as __cuda_sim_place in cuda_runtime.h.
struct Place {
    Three thread, block, block_dim, grid_dim;
};

typedef void (*Call)(void *kernel, void **arguments);

constexpr size_t STACK = 256 << 10;
constexpr size_t GUARD = 4096;

struct Fiber {
    void *stack_pointer = nullptr;
    Place place = {};
    bool waits = false;
};

struct Grid {
    void *kernel;
    Call call;
    void **arguments;
    Place place;
    unsigned next, threads;
    Fiber *current;
    void *scheduler;
};

Grid grid;
std::vector<Fiber *> idle;

} // namespace

// Saves what a call keeps, and the stack; continues on the other stack where it was left.
extern "C" void __cuda_sim_switch(void **save, void *stack_pointer);
asm(R"(
    .text
    .hidden __cuda_sim_switch
    .globl __cuda_sim_switch
    .type __cuda_sim_switch, @function
__cuda_sim_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size __cuda_sim_switch, .-__cuda_sim_switch
)");

static void to_scheduler() {
    __cuda_sim_switch(&grid.current->stack_pointer, grid.scheduler);
}

static void run_threads() {
    for (;;) {
        while (grid.next < grid.threads) {
            unsigned id = grid.next++;
            Place &place = grid.current->place;
            place = grid.place;
            place.thread = {id % place.block_dim.x, id / place.block_dim.x % place.block_dim.y,
                            id / place.block_dim.x / place.block_dim.y};
            grid.call(grid.kernel, grid.arguments);
        }
        to_scheduler();
    }
}

static Fiber *new_fiber() {
    void *memory = mmap(nullptr, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return nullptr;
    mprotect(memory, GUARD, PROT_NONE);
    // Six registers, the address to continue at, and a word that leaves the stack aligned as after a call.
    void **top = reinterpret_cast<void **>(static_cast<char *>(memory) + STACK) - 1;
    *--top = reinterpret_cast<void *>(&run_threads);
    for (int i = 0; i < 6; i++)
        *--top = nullptr;
    Fiber *fiber = new Fiber;
    fiber->stack_pointer = top;
    return fiber;
}

static void resume(Fiber *fiber) {
    fiber->waits = false;
    grid.current = fiber;
    __cuda_sim_switch(&grid.scheduler, fiber->stack_pointer);
}

// All threads of one block. False without memory for a stack.
static bool run_block(std::vector<Fiber *> &waiting, std::vector<Fiber *> &again) {
    grid.next = 0;
    while (grid.next < grid.threads) {
        Fiber *fiber = idle.empty() ? new_fiber() : idle.back();
        if (!fiber)
            return false;
        if (!idle.empty())
            idle.pop_back();
        resume(fiber);
        (fiber->waits ? waiting : idle).push_back(fiber);
    }
    while (!waiting.empty()) {
        again.clear();
        for (Fiber *fiber : waiting) {
            resume(fiber);
            (fiber->waits ? again : idle).push_back(fiber);
        }
        waiting.swap(again);
    }
    return true;
}

extern "C" __attribute__((visibility("default"))) int __cuda_sim_run(void *kernel, Call call, void **arguments,
                                                                    const unsigned *blocks, const unsigned *threads,
                                                                    unsigned long) {
    std::vector<Fiber *> waiting, again;
    grid.kernel = kernel;
    grid.call = call;
    grid.arguments = arguments;
    grid.threads = threads[0] * threads[1] * threads[2];
    grid.place = {{0, 0, 0}, {0, 0, 0}, {threads[0], threads[1], threads[2]}, {blocks[0], blocks[1], blocks[2]}};
    Three &block = grid.place.block;
    for (block.z = 0; block.z < blocks[2]; block.z++)
        for (block.y = 0; block.y < blocks[1]; block.y++)
            for (block.x = 0; block.x < blocks[0]; block.x++)
                if (!run_block(waiting, again))
                    return 1;
    return 0;
}

extern "C" void *__cuda_sim_self() {
    return &grid.current->place;
}

extern "C" void __cuda_sim_barrier() {
    grid.current->waits = true;
    to_scheduler();
}
