// Runs a grid on the host. Compiled without sanitizers: see fiber.hpp.
#include <gx/cuda/emulation/grid.hpp>

#include <algorithm>  // fill_n, max, shuffle
#include <array>      // variables
#include <memory>     // unique_ptr
#include <numeric>    // iota
#include <random>     // orders
#include <string>     // sentences
#include <utility>    // exchange
#include <vector>     // lanes

#include <sys/mman.h>     // memory without a history
#include <sys/syscall.h>  // SYS_mmap
#include <unistd.h>       // syscall

#include <gx/cuda_testing/hooks.hpp>    // misuse
#include <gx/cuda_testing/runtime.hpp>  // seed_shift

#include "fiber.hpp"

// Each race is reported, also where another kernel raced at the same address of shared memory.
extern "C" [[gnu::weak]] const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() {
    return "suppress_equal_addresses=0:report_signal_unsafe=0";
}

namespace gx::cuda::emulation {
namespace {

using Location = std::source_location;
constexpr std::size_t thread_stack_bytes = 64 << 10;
std::mt19937_64 random_order{1 + cuda_testing::seed_shift()};

enum class State : unsigned char { fresh, ready, at_block_barrier, at_warp_meeting, done };
enum class Meeting : unsigned char { barrier, exchange, ballot };

std::string line_of(const Location& at) {
    const std::string file = at.file_name();
    return file.substr(file.rfind('/') + 1) + ":" + std::to_string(at.line());
}
bool same_place(const Location& a, const Location& b) {
    return a.line() == b.line() && a.file_name() == b.file_name();
}

using LaneClocks = std::array<unsigned, warp_lanes>;

struct Thread {
    State state = State::fresh;
    unsigned index = 0;
    Fiber* fiber = nullptr;
    Location at{};  ///< where it waits
    Meeting meeting{};
    std::uint32_t mask = 0;  ///< lanes that meet
    std::uint64_t mine = 0, got = 0;
    unsigned from = 0;
    unsigned block_barriers = 0, warp_barriers = 0;
    /// For each lane of the warp: how many barriers of the warp that lane had come to, and one,
    /// when it was last heard of. A vector clock.
    LaneClocks known{};
    unsigned released = 0;  ///< which of its tokens it released at its last barrier of the warp
};

constexpr unsigned none = ~0u, several = ~0u - 1;

struct Write {
    unsigned thread = none, line = 0;
    unsigned epoch = 0;  ///< the block's barriers before
    unsigned clock = 0;  ///< of the thread
};
/// Reads of one element, or atomic accesses, since the block's last barrier before the last of
/// them: these do not conflict with each other.
struct Crowd {
    unsigned warp = none, line = 0;  ///< of the last
    unsigned epoch = 0;
    std::uint32_t lanes = 0;  ///< of the warp, where it is one
    unsigned clocks = none;   ///< of the lanes' last accesses: see SharedMemory::clocks()
};
struct History {
    Write write{};
    Crowd reads{}, atomics{};
};

/// Shared memory of a block, on pages of its own, so that it can lose its history.
class SharedMemory {
public:
    SharedMemory() = default;
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    ~SharedMemory() {
        ::munmap(data_, shared_limit_bytes);
        ::munmap(history_, shared_limit_bytes * sizeof(History));
        ::munmap(clocks_, clocks_max * sizeof(LaneClocks));
    }

    /// Forgets the block before. A race with that one's accesses is none.
    void renew() {
        if (under_thread_sanitizer()) {
            // Unmapped pages lose their accesses; the bare system call is not seen as a write.
            ::munmap(data_, shared_limit_bytes);
            ::syscall(SYS_mmap, data_, shared_limit_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L);
        }
        for (volatile char* p = data_; p < data_ + used_; ++p) *p = '\xff';  // NaN
        used_ = count_ = clocks_used_ = 0;
    }
    struct Variable {
        const void* declaration = nullptr;
        std::size_t offset = 0, bytes = 0;
    };
    /// nullptr where a block has no room for it.
    const Variable* variable(const void* declaration, std::size_t bytes) {
        for (std::size_t i = 0; i < count_; ++i)
            if (variables_[i].declaration == declaration) return &variables_[i];
        const std::size_t rounded = (bytes + 15) / 16 * 16;
        if (count_ == variables_.size() || used_ + rounded > shared_limit_bytes) return nullptr;
        std::fill_n(history_ + used_, rounded, History{});
        variables_[count_] = {declaration, std::exchange(used_, used_ + rounded), bytes};
        return &variables_[count_++];
    }
    [[nodiscard]] char* begin(const Variable& v) const { return data_ + v.offset; }
    /// Of the element that begins there: elements of a variable do not overlap.
    History& history(const void* begin) {
        return history_[static_cast<std::size_t>(static_cast<const char*>(begin) - data_)];
    }
    LaneClocks& clocks(Crowd& c) {
        if (c.clocks == none) {
            c.clocks = clocks_used_++;
        }
        return clocks_[c.clocks];
    }

private:
    /// Pages that are there once they are touched. Threads take from them without malloc, which a
    /// sanitizer would see.
    template <class T>
    static T* pages(std::size_t count) {
        return static_cast<T*>(::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    }
    static constexpr std::size_t clocks_max = 2 * shared_limit_bytes;  // reads, atomics

    char* data_ = pages<char>(shared_limit_bytes);
    History* history_ = pages<History>(shared_limit_bytes);
    LaneClocks* clocks_ = pages<LaneClocks>(clocks_max);
    std::array<Variable, shared_variables_max> variables_{};
    std::size_t used_ = 0, count_ = 0;
    unsigned clocks_used_ = 0;
};

/// Thrown by a thread of a kernel. Reported from outside of its fiber: to ThreadSanitizer this is a
/// thread of its own, which can't lock the runtime's mutex again that the launching thread holds.
struct Failure {
    std::string sentence;
};

struct Grid {
    const char* kernel = "";
    const std::function<void()>* body = nullptr;
    dim3 blocks{}, threads_of_block{};
    unsigned block = 0;
    SharedMemory& shared;
    std::vector<Thread> threads{};
    unsigned warps = 0;
    std::vector<std::uint64_t> tokens{};  // of a block: two of its barrier, two of each thread
    std::size_t first_token = 0;
    Thread* running = nullptr;
    std::uint64_t start = 0, end = 0;

    [[noreturn]] void fail(const Thread& t, const Location& at, const std::string& what) const {
        throw Failure{"kernel '" + std::string(kernel) + "', block " + std::to_string(block) +
                      ", thread " + std::to_string(t.index) + ", " + line_of(at) + ": " + what};
    }
    // 0: the block, t + 1: thread t. A barrier shares its token with the second after it.
    void* token(unsigned of, unsigned barrier) {
        return &tokens[first_token + 2 * of + barrier % 2];
    }
};
thread_local Grid* grid_now = nullptr;

/// One grid runs at a time, on any thread of the host. But to ThreadSanitizer a fiber is a thread:
/// it would find no race between kernels of two threads of the host that took the same.
std::vector<std::unique_ptr<Fiber>>& fibers(std::size_t count) {
    static std::vector<std::unique_ptr<Fiber>> of_all_threads;
    static thread_local std::vector<std::unique_ptr<Fiber>> of_this_thread;
    auto& all = under_thread_sanitizer() ? of_this_thread : of_all_threads;
    while (all.size() < count) all.push_back(std::make_unique<Fiber>(thread_stack_bytes));
    return all;
}

std::string name_of(const Thread& t) { return "thread " + std::to_string(t.index); }

// ---- Meetings -----------------------------------------------------------------------------------

bool release_block(Grid& g) {
    std::size_t waiting = 0;
    const Thread *first = nullptr, *ended = nullptr;
    for (const Thread& t : g.threads) {
        if (t.state == State::at_block_barrier && waiting++ == 0) first = &t;
        if (t.state == State::done && ended == nullptr) ended = &t;
        if (t.state == State::at_warp_meeting) return false;
    }
    if (waiting == 0) return false;
    if (ended != nullptr)
        g.fail(*first, first->at,
               "waits at a barrier of the block, and " + name_of(*ended) +
                   " has ended without it. All threads of a block must come to each barrier");
    for (Thread& t : g.threads)
        if (!same_place(t.at, first->at))
            g.fail(*first, first->at,
                   "waits at a barrier of the block, and " + name_of(t) + " at the one in " +
                       line_of(t.at) + ". All threads of a block must come to the same barrier");
    for (Thread& t : g.threads) {
        t.state = State::ready;
        ++t.block_barriers;
    }
    return true;
}

/// After a barrier each lane of the mask knows what any of them knew. The scheduler writes clocks:
/// a sanitizer would see a thread's memcpy.
void join_clocks(Grid& g, std::size_t first, std::uint32_t mask) {
    LaneClocks joined{};
    for (std::size_t k = 0; k < warp_lanes; ++k)
        for (std::size_t l = 0; (mask >> k & 1u) != 0 && l < warp_lanes; ++l)
            joined[l] = std::max(joined[l], g.threads[first + k].known[l]);
    for (std::size_t k = 0; k < warp_lanes; ++k) {
        if ((mask >> k & 1u) == 0) continue;
        Thread& t = g.threads[first + k];
        t.known = joined;
        ++t.known[k];
        t.released = t.warp_barriers++;
    }
}

bool release_warp(Grid& g, unsigned warp) {
    const std::size_t first = std::size_t{warp} * warp_lanes;
    const std::size_t lanes = std::min<std::size_t>(warp_lanes, g.threads.size() - first);
    bool any = false;
    for (std::size_t i = 0; i < lanes; ++i) {
        const Thread& leader = g.threads[first + i];
        const std::uint32_t mask = leader.mask;
        if (leader.state != State::at_warp_meeting) continue;
        const auto is_here = [&](std::size_t k) {
            const Thread& t = g.threads[first + k];
            return t.state == State::at_warp_meeting && t.mask == mask;
        };
        bool all = true;
        for (std::size_t k = 0; k < warp_lanes; ++k)
            if ((mask >> k & 1u) != 0) all = all && k < lanes && is_here(k);
        if (!all) continue;
        std::uint64_t votes = 0;
        for (std::size_t k = 0; k < lanes; ++k) {
            if ((mask >> k & 1u) == 0) continue;
            Thread& t = g.threads[first + k];
            if (t.meeting != leader.meeting ||
                (t.meeting != Meeting::barrier && !same_place(t.at, leader.at)))
                g.fail(leader, leader.at,
                       "exchanges with its warp, and " + name_of(t) + " meets it in " +
                           line_of(t.at) + ". All lanes of the mask must call the same function");
            votes |= std::uint64_t{t.mine != 0} << k;
        }
        for (std::size_t k = 0; k < lanes; ++k) {
            if ((mask >> k & 1u) == 0) continue;
            Thread& t = g.threads[first + k];
            t.got = t.meeting == Meeting::ballot ? votes : g.threads[first + t.from].mine;
        }
        if (leader.meeting == Meeting::barrier) join_clocks(g, first, mask);
        for (std::size_t k = 0; k < lanes; ++k)
            if ((mask >> k & 1u) != 0) g.threads[first + k].state = State::ready;
        any = true;
    }
    return any;
}

/// Lets threads go on that have met all that they wait for; false where there are none.
bool release_any(Grid& g) {
    bool any = release_block(g);
    for (unsigned w = 0; w < g.warps; ++w) any = release_warp(g, w) || any;
    return any;
}

[[noreturn]] void fail_stuck(const Grid& g) {
    for (const Thread& t : g.threads) {
        if (t.state != State::at_warp_meeting) continue;
        const std::size_t first = t.index / warp_lanes * warp_lanes;
        for (std::size_t k = 0; k < warp_lanes; ++k) {
            if ((t.mask >> k & 1u) == 0) continue;
            if (first + k >= g.threads.size())
                g.fail(t, t.at, "waits for lane " + std::to_string(k) + ", which its warp lacks");
            const Thread& missing = g.threads[first + k];
            if (missing.state == State::done)
                g.fail(t, t.at,
                       "waits for its warp, and " + name_of(missing) + " has ended without it");
            if (missing.state != State::at_warp_meeting || missing.mask != t.mask)
                g.fail(t, t.at,
                       "waits for its warp, and " + name_of(missing) + " waits in " +
                           line_of(missing.at));
        }
    }
    g.fail(g.threads.front(), {}, "its threads wait for each other");
}

// ---- Blocks -------------------------------------------------------------------------------------

void start_thread(Grid& g, Thread& t) {
    t.fiber->begin([&g, &t] {
        struct End {  // also where an error unwinds the thread
            Grid& g;
            ~End() { release(&g.end); }
        } end{g};
        acquire(&g.start);
        (*g.body)();
        t.state = State::done;
    });
    t.state = State::ready;
}

void run_block(Grid& g, std::vector<unsigned>& order) {
    // Of a thread that has ended: the next to start takes it over, for its stack is in the caches.
    // ThreadSanitizer would find no race between the two.
    Fiber* left = nullptr;
    for (;;) {
        std::shuffle(order.begin(), order.end(), random_order);
        std::size_t done = 0;
        for (const unsigned i : order) {
            Thread& t = g.threads[i];
            if (t.state == State::fresh) {
                if (left != nullptr) t.fiber = std::exchange(left, nullptr);
                start_thread(g, t);
            }
            if (t.state == State::ready) {
                g.running = &t;
                t.fiber->resume();
                if (t.state == State::done && !under_thread_sanitizer()) left = t.fiber;
            }
            done += t.state == State::done;
        }
        if (done == g.threads.size()) return;
        if (!release_any(g)) fail_stuck(g);
    }
}

void prepare_block(Grid& g, std::size_t turn, std::size_t tokens_of_block) {
    const unsigned count = g.threads_of_block.x;
    g.shared.renew();
    g.first_token = under_thread_sanitizer() ? turn * tokens_of_block : 0;
    g.threads.assign(count, {});
    g.warps = (count + warp_lanes - 1) / warp_lanes;
    // One fiber more than threads, or a thread and its like of the block before would be one to
    // ThreadSanitizer, which would find no race between the two.
    auto& all = fibers(under_thread_sanitizer() ? count + 1 : count);
    for (unsigned i = 0; i < count; ++i) {
        g.threads[i].index = i;
        g.threads[i].known[i % warp_lanes] = 1;
        g.threads[i].fiber = all[(i + turn) % all.size()].get();
    }
}

/// Of a block that failed: some are in the middle of the kernel, and unwind now.
void end_threads(Grid& g) {
    fibers(0).clear();
    acquire(&g.end);
}

void acquire_lanes(Grid& g, const Thread& t) {
    const unsigned first = t.index / warp_lanes * warp_lanes;
    for (unsigned k = 0; k < warp_lanes; ++k)
        if ((t.mask >> k & 1u) != 0) acquire(g.token(1 + first + k, g.threads[first + k].released));
}

std::uint64_t meet(std::uint32_t mask, Meeting meeting, std::uint64_t mine, unsigned from,
                   const Location& at) {
    Grid& g = *grid_now;
    Thread& t = *g.running;
    if ((mask >> t.index % warp_lanes & 1u) == 0)
        g.fail(t, at, "is not in the mask that it meets its warp with");
    if ((mask >> from & 1u) == 0)
        g.fail(t, at, "reads from lane " + std::to_string(from) + ", which is not in the mask");
    t.at = at;
    t.meeting = meeting;
    t.mask = mask;
    t.mine = mine;
    t.from = from;
    t.state = State::at_warp_meeting;
    if (meeting == Meeting::barrier) release(g.token(1 + t.index, t.warp_barriers));
    t.fiber->suspend();
    if (meeting == Meeting::barrier) acquire_lanes(g, t);
    return t.got;
}

/// Whether thread `other`'s access happened before what `t` does now.
bool happened_before(unsigned other, unsigned epoch, unsigned clock, const Thread& t) {
    if (other == t.index || epoch < t.block_barriers) return true;
    return other / warp_lanes == t.index / warp_lanes && t.known[other % warp_lanes] >= clock;
}
/// A thread of the crowd whose access did not; `none`: there is no such thread.
unsigned concurrent(Crowd& c, const Thread& t) {
    if (c.warp == none || c.epoch < t.block_barriers) return none;
    if (c.warp == several) return several;
    const LaneClocks& clocks = grid_now->shared.clocks(c);
    for (unsigned k = 0; k < warp_lanes; ++k)
        if ((c.lanes >> k & 1u) != 0 &&
            !happened_before(c.warp * warp_lanes + k, c.epoch, clocks[k], t))
            return c.warp * warp_lanes + k;
    return none;
}
void join(Crowd& c, const Thread& t, unsigned line) {
    const unsigned warp = t.index / warp_lanes, lane = t.index % warp_lanes;
    const bool again = c.warp != none && c.epoch == t.block_barriers;
    c.lanes = again ? c.lanes | 1u << lane : 1u << lane;
    c.warp = again && c.warp != warp ? several : warp;
    c.epoch = t.block_barriers;
    c.line = line;
    grid_now->shared.clocks(c)[lane] = t.known[lane];
}

std::string conflict(const char* does, unsigned other, const char* did, unsigned line) {
    const std::string who =
        (other == several ? "other threads" : "thread " + std::to_string(other)) + " " + did +
        " in line " + std::to_string(line);
    return std::string(does) + " shared memory that " + who + ", and no barrier orders the two";
}

}  // namespace

// ---- What kernels call --------------------------------------------------------------------------

Place place() {
    const Grid& g = *grid_now;
    return {{g.running->index, 0, 0}, {g.block, 0, 0}, g.threads_of_block, g.blocks};
}

void out_of_range(const Index& i, std::int64_t size, const char* memory) {
    misused(i.at, "element " + std::to_string(i.value) + " of " + memory + " of " +
                      std::to_string(size) + " elements");
}
void misaligned(const Index& i, std::size_t bytes) {
    misused(i.at, "element " + std::to_string(i.value) + " of a span that is not aligned to " +
                      std::to_string(bytes) + " bytes");
}
void out_of_span(const Index& first, std::int64_t count, std::int64_t size) {
    const std::string what = std::to_string(count) + " elements from element " +
                             std::to_string(first.value) + " of a span of " + std::to_string(size) +
                             " elements";
    if (grid_now != nullptr) misused(first.at, what);
    cuda_testing::misuse(line_of(first.at) + ": " + what);
}
void misused(const Location& at, const std::string& what) {
    grid_now->fail(*grid_now->running, at, what);
}

void sync_block(const Location& at) {
    Thread& t = *grid_now->running;
    void* const token = grid_now->token(0, t.block_barriers);
    t.at = at;
    t.state = State::at_block_barrier;
    release(token);
    t.fiber->suspend();
    acquire(token);
}
void sync_warp(std::uint32_t mask, const Location& at) {
    meet(mask, Meeting::barrier, 0, lane_index(), at);
}
std::uint64_t exchange(std::uint32_t mask, std::uint64_t mine, unsigned from, const Location& at) {
    return meet(mask, Meeting::exchange, mine, from, at);
}
std::uint32_t ballot(std::uint32_t mask, bool mine, const Location& at) {
    return static_cast<std::uint32_t>(
        meet(mask, Meeting::ballot, std::uint64_t{mine}, lane_index(), at));
}

void* shared_bytes(const void* declaration, std::size_t bytes, const Location& at) {
    const auto* const variable = grid_now->shared.variable(declaration, bytes);
    if (variable == nullptr)
        misused(at, "a block has " + std::to_string(shared_limit_bytes) +
                        " bytes of shared memory, in at most " +
                        std::to_string(shared_variables_max) + " variables");
    if (variable->bytes != bytes)
        misused(at, "shared memory, of " + std::to_string(variable->bytes) +
                        " bytes before, is declared with " + std::to_string(bytes));
    return grid_now->shared.begin(*variable);
}

void use_shared(const void* begin, SharedUse use, const Index& i) {
    const Thread& t = *grid_now->running;
    History& h = grid_now->shared.history(begin);
    const char* const does = use == SharedUse::reads    ? "reads"
                             : use == SharedUse::writes ? "writes"
                                                        : "atomically adds to";
    const auto expect_none = [&](Crowd& c, const char* did) {
        const unsigned other = concurrent(c, t);
        if (other != none) misused(i.at, conflict(does, other, did, c.line));
    };
    const Write& w = h.write;
    if (use != SharedUse::writes && w.thread == none)
        misused(i.at, "reads element " + std::to_string(i.value) +
                          " of shared memory, which no thread has written");
    if (w.thread != none && !happened_before(w.thread, w.epoch, w.clock, t))
        misused(i.at, conflict(does, w.thread, "wrote", w.line));
    if (use != SharedUse::reads) expect_none(h.reads, "read");
    if (use != SharedUse::atomic) expect_none(h.atomics, "added to atomically");
    if (use == SharedUse::reads) join(h.reads, t, i.at.line());
    if (use == SharedUse::atomic) join(h.atomics, t, i.at.line());
    if (use == SharedUse::writes)
        h.write = {t.index, i.at.line(), t.block_barriers, t.known[t.index % warp_lanes]};
}

// ---- Runs ---------------------------------------------------------------------------------------

void run_grid(const char* kernel, dim3 blocks, dim3 threads, const std::function<void()>& thread) {
    const std::string name = "kernel '" + std::string(kernel) + "': ";
    if (blocks.y * blocks.z * threads.y * threads.z != 1)
        cuda_testing::misuse(name + "a grid of one dimension is expected");
    if (!is_launchable(blocks.x, threads.x))
        cuda_testing::misuse(name + std::to_string(blocks.x) + " blocks of " +
                             std::to_string(threads.x) +
                             " threads; a GPU takes 1 to 2147483647 of 1 to 1024");
    static thread_local SharedMemory shared;
    Grid g{.shared = shared};
    g.kernel = kernel;
    g.body = &thread;
    g.blocks = blocks;
    g.threads_of_block = threads;
    const std::size_t tokens_of_block = 2 + 2 * std::size_t{threads.x};
    g.tokens.resize(under_thread_sanitizer() ? tokens_of_block * blocks.x : tokens_of_block);
    std::vector<unsigned> thread_order(threads.x), block_order(blocks.x);
    std::iota(thread_order.begin(), thread_order.end(), 0u);
    std::iota(block_order.begin(), block_order.end(), 0u);
    std::shuffle(block_order.begin(), block_order.end(), random_order);
    struct Running {
        Grid* outer;
        ~Running() { grid_now = outer; }
    } running{std::exchange(grid_now, &g)};
    release(&g.start);
    for (std::size_t turn = 0; turn < block_order.size(); ++turn) {
        g.block = block_order[turn];
        prepare_block(g, turn, tokens_of_block);
        try {
            run_block(g, thread_order);
        } catch (const Failure& failure) {
            end_threads(g);
            cuda_testing::misuse(failure.sentence);
        } catch (...) {
            end_threads(g);
            throw;
        }
    }
    acquire(&g.end);
}

namespace {
Traffic traffic;
}
Traffic take_traffic() { return std::exchange(traffic, {}); }
void count_traffic(std::size_t bytes, bool written) {
    (written ? traffic.written : traffic.read) += static_cast<std::int64_t>(bytes);
}

void seed(std::uint64_t value) { random_order.seed(value + cuda_testing::seed_shift()); }

bool under_thread_sanitizer() { return __tsan_create_fiber != nullptr; }

}  // namespace gx::cuda::emulation
