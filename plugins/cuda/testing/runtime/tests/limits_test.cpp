// What the double says where the system gives no more memory or mappings, in a forked child.
#include "double.hpp"

#include <sys/mman.h>      // mmap, mprotect
#include <sys/resource.h>  // setrlimit

#include <fstream>  // limits

namespace {

using namespace double_test;

/// vm.max_map_count where a test can use it up, else 0.
int mappings_max() {
    std::ifstream file("/proc/sys/vm/max_map_count");
    int count = 0;
    file >> count;
    return count <= 1 << 20 ? count : 0;
}
/// Uses up the mappings that the process may have, but for twice as many as `pairs`.
void use_up_mappings(std::size_t pairs = 0) {
    constexpr std::size_t page_bytes = 4096;
    const auto count = static_cast<std::size_t>(mappings_max());
    auto* const all = static_cast<std::byte*>(
        ::mmap(nullptr, 2 * count * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    const auto set = [&](std::size_t i, int access) {
        return ::mprotect(all + 2 * i * page_bytes, page_bytes, access) == 0;
    };
    for (std::size_t i = 1; i < count; ++i)
        if (!set(i, PROT_READ)) break;
    while (::mmap(nullptr, page_bytes, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED) {
    }
    for (std::size_t i = 1; i <= pairs; ++i) set(i, PROT_NONE);
}
constexpr std::size_t page = 1024;  // in numbers
const std::string of_pages = "the access to pages of pinned memory 1 (12288 bytes) can't change: ";
class Limits : public Double {
protected:
    void SetUp() override {
        Double::SetUp();
        if (mappings_max() == 0) GTEST_SKIP() << "vm.max_map_count is too great to be met";
    }
    static constexpr const char* used_up =
        "the process has all mappings that the system allows (vm.max_map_count). An allocation "
        "takes two of them here: keep fewer, or raise the limit.";
    template <class F>
    static void expect_text(const std::string& text, F f) {
        const Ending ending = in_child(f);
        EXPECT_EQ(ending.text, text);
        EXPECT_EQ(ending.status, 3);
    }
};

TEST_F(Limits, OfMappingsEndAnAllocationWithASentence) {
    for (const std::size_t pairs : {0u, 1u}) {  // without and with one for a part of its pages
        expect_text("an allocation of 256 bytes fails: " + std::string(used_up), [=] {
            use_up_mappings(pairs);
            void* p = nullptr;
            cudaMalloc(&p, 256);
        });
        expect_text("an allocation of 4 bytes fails: " + std::string(used_up), [=] {
            use_up_mappings(pairs);
            void* p = nullptr;
            cudaMallocHost(&p, 4);
        });
    }
    const Ending ending = in_child([] {
        use_up_mappings(4);
        device_memory(1);
    });
    EXPECT_EQ(ending.status, 0) << ending.text;
}
TEST_F(Limits, OfMappingsLeaveMemoryThatIsThere) {
    const cudaStream_t s = new_stream();
    int *const x = device_memory(1), *const y = device_memory(1), *const out = pinned_memory(1);
    const Ending ending = in_child([=] {
        use_up_mappings();
        ok(cudaMemsetAsync(x, 1, 4, s));
        copy(out, x, 1, s);
        ok(cudaStreamSynchronize(s));
        if (*out != 0x01010101) throw std::runtime_error("another value");
        ok(cudaFree(y));
        (void)*static_cast<volatile int*>(y);
    });
    EXPECT_EQ(ending.signal, SIGSEGV);
    EXPECT_EQ(
        ending.text,
        "gx: the host touches byte 0 of device memory 2 of device 0 (4 bytes), which cudaFree "
        "freed.\n");
}
TEST_F(Limits, OfMappingsAreNamedWherePinnedPagesAreClosed) {
    const cudaStream_t s = new_stream();
    int *const x = device_memory(3 * page), *const mine = pinned_memory(3 * page);
    expect_text(of_pages + used_up, [=] {
        use_up_mappings();
        copy(x, mine + page, page, s);
    });
    const Ending ending = in_child([=] {
        copy(x, mine, 2 * page + 1, s);
        use_up_mappings();
        mine[2 * page + 2] = 1;
    });
    EXPECT_EQ(ending.signal, SIGSEGV);
    EXPECT_EQ(ending.text, "gx: " + of_pages + used_up + "\n");
}
/// In a child: all operations run in the last call, in which the first one opened pinned pages.
void use_up_mappings_in_a_call(bool fails_too) {
    reset({.progress = StreamProgress::eager, .check_at_exit = false});
    const cudaStream_t s = new_stream(), t = new_stream();
    int *const x = device_memory(3 * page), *const mine = pinned_memory(3 * page);
    bool is_ready = false;
    enqueue_when(s, "gate", [&] { return is_ready; }, [] {});
    copy(x, mine + page, page, s);
    enqueue_kernel(s, "k", [=] {
        use_up_mappings();
        if (fails_too) report_access(x - 1, 4, false, "k");
    });
    is_ready = true;
    ok(cudaLaunchHostFunc(t, [](void*) {}, nullptr));
}
TEST_F(Limits, OfMappingsAreNamedWherePagesCloseBehindAnOperation) {
    expect_text(of_pages + used_up, [] { use_up_mappings_in_a_call(false); });
    expect_text(
        "'k' (stream 1 of device 0) reads byte -4 of device memory 1 of device 0 (12288 "
        "bytes).",
        [] { use_up_mappings_in_a_call(true); });
}
/// In a child: of memory that the process may write, as much as it has and 32 MiB.
void limit_memory() {
    std::ifstream file("/proc/self/status");
    std::string word;
    rlim_t kilobytes = 0;
    while (file >> word)
        if (word == "VmData:") file >> kilobytes;
    const rlim_t bytes = (kilobytes << 10) + (rlim_t{32} << 20);
    const rlimit limit{bytes, bytes};
    ::setrlimit(RLIMIT_DATA, &limit);
}
TEST_F(Limits, OfMemoryOfTheHostFailAnAllocation) {
    constexpr std::size_t much = std::size_t{64} << 20;
    const Ending ending = in_child([] {
        limit_memory();
        void* p = nullptr;
        if (cudaMalloc(&p, much) != cudaErrorMemoryAllocation) throw std::runtime_error("device");
        if (cudaMallocHost(&p, much) != cudaErrorMemoryAllocation) throw std::runtime_error("host");
        device_memory(1);
    });
    EXPECT_EQ(ending.text, "");
    EXPECT_EQ(ending.status, 0);
    start({.poison = false});
    int* const x = device_memory(much / 4);
    expect_text(
        "the access to pages of device memory 1 of device 0 (67108864 bytes) can't change: the "
        "system has no memory for it.",
        [=] {
            limit_memory();
            ok(cudaMemsetAsync(x, 0, 4, nullptr));
            cudaDeviceSynchronize();
        });
}

}  // namespace
