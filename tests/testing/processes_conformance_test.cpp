// The conformance kit on processes: its results come back because the heap is shared memory.
#include <gx/testing/processes.hpp>

#include <sys/mman.h>  // mmap, madvise

#include <gtest/gtest.h>

#include <atomic>   // the end of the heap
#include <cstdlib>  // abort
#include <new>      // operator new

#include <gx/reducer/ring.hpp>            // Ring
#include <gx/testing/conformance.hpp>     // check
#include <gx/testing/mutants_values.hpp>  // DriftOneRank
#include <gx/top_k/reducer.hpp>           // TopK

#include <testing/processes_run.hpp>  // WithProcesses

namespace {

/// Memory for operator new that processes forked later share, so that what a child writes to the
/// kit's vectors, and what it makes them allocate, is seen by the root at the same address. Blocks
/// are not used again; those of whole pages give their memory back.
class SharedHeap {
public:
    std::atomic<bool> sharing = true;  ///< else malloc: the world's own memory is copied by fork()

    void* allocate(std::size_t bytes, std::size_t alignment) {
        if (!sharing)
            return std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
        const std::size_t align = std::max(alignment, bytes >= large ? page : sizeof(Block));
        const std::size_t span = (bytes + sizeof(Block) + align + page) / page * page;
        const std::size_t whole = bytes >= large ? span + page : bytes + sizeof(Block) + align;
        const std::size_t begin =
            end_->fetch_add((whole + sizeof(Block) - 1) / sizeof(Block) * sizeof(Block));
        if (begin + whole > capacity) std::abort();
        const std::size_t at = (begin + sizeof(Block) + align - 1) / align * align;
        new (base_ + at - sizeof(Block)) Block{bytes};
        return base_ + at;
    }
    void release(void* memory) {
        if (memory < base_ || memory >= base_ + capacity) return std::free(memory);
        const std::size_t bytes = reinterpret_cast<Block*>(memory)[-1].bytes;
        if (bytes >= large) ::madvise(memory, bytes / page * page, MADV_REMOVE);
    }

private:
    struct alignas(16) Block {
        std::size_t bytes;
    };
    static constexpr std::size_t page = 4096, large = 4 * page, capacity = std::size_t{1} << 38;
    char* base_ = static_cast<char*>(::mmap(nullptr, capacity, PROT_READ | PROT_WRITE,
                                            MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    std::atomic<std::size_t>* end_ = new (base_) std::atomic<std::size_t>(page);
};
SharedHeap& heap() {
    alignas(SharedHeap) static unsigned char place[sizeof(SharedHeap)];
    static SharedHeap& one = *new (place) SharedHeap;  // never destroyed
    return one;
}

}  // namespace

void* operator new(std::size_t n) { return heap().allocate(n, 16); }
void* operator new(std::size_t n, std::align_val_t a) {
    return heap().allocate(n, static_cast<std::size_t>(a));
}
void operator delete(void* p) noexcept { heap().release(p); }
void operator delete(void* p, std::size_t) noexcept { heap().release(p); }
void operator delete(void* p, std::align_val_t) noexcept { heap().release(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { heap().release(p); }

namespace {

struct OnProcesses {
    template <class F>
    void operator()(gx::Placement placement, F f) const {
        heap().sharing = false;
        gx::testing::ProcessWorld<>({.placement = placement}).run([&](auto& rank) {
            heap().sharing = true;
            f(rank);
            heap().sharing = false;
        });
        heap().sharing = true;
    }
};

using ProcessesConformance = testing_support::WithProcesses;

TEST_F(ProcessesConformance, Ring) {
    const auto report = gx::testing::check<gx::Ring<gx::fp32>>(OnProcesses{});
    EXPECT_TRUE(report.empty()) << report.text();
}
TEST_F(ProcessesConformance, AReducerWithState) {
    const auto report = gx::testing::check<gx::TopK>(OnProcesses{});
    EXPECT_TRUE(report.empty()) << report.text();
}
TEST_F(ProcessesConformance, AWrongReducerIsFound) {
    gx::testing::ConformanceReport report;
    gx::testing::check_agreement<gx::testing::DriftOneRank<gx::Ring<gx::fp32>>>(OnProcesses{}, 1,
                                                                                report);
    EXPECT_FALSE(report.empty());
}

}  // namespace
