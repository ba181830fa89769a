#include <gx/core/detail/small_buffers.hpp>

#include <sys/wait.h>  // waitpid
#include <unistd.h>    // fork, _exit

#include <atomic>
#include <cstdint>  // uintptr_t
#include <cstring>  // memset
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::detail::SmallBuffers;

std::uintptr_t address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

TEST(SmallBuffers, AreOfTensOfKib) {
    EXPECT_FALSE(SmallBuffers::takes(SmallBuffers::least - 1, 64));
    EXPECT_TRUE(SmallBuffers::takes(SmallBuffers::least, 64));
    EXPECT_TRUE(SmallBuffers::takes(SmallBuffers::most, 4096));
    EXPECT_FALSE(SmallBuffers::takes(SmallBuffers::most + 1, 64));
    EXPECT_FALSE(SmallBuffers::takes(SmallBuffers::least, 8192));
}
TEST(SmallBuffers, ShareAPage) {
    std::vector<void*> all;
    for (int i = 0; i < 8; ++i) all.push_back(SmallBuffers::allocate(64 << 10));
    int shared = 0;
    for (std::size_t i = 0; i + 1 < all.size(); ++i)
        shared += address(all[i]) / SmallBuffers::page == address(all[i + 1]) / SmallBuffers::page;
    EXPECT_GE(shared, 6) << "at most one page ends among them";
    for (void* p : all) SmallBuffers::release(p, 64 << 10);
}
TEST(SmallBuffers, GiveMemoryToTheNextOfItsLength) {
    void* const block = SmallBuffers::allocate(100'000);
    SmallBuffers::release(block, 100'000);
    void* const other = SmallBuffers::allocate(40'000);
    EXPECT_NE(other, block);
    void* const again = SmallBuffers::allocate(131'072);
    EXPECT_EQ(again, block) << "both are of 2^17 bytes";
    SmallBuffers::release(other, 40'000);
    SmallBuffers::release(again, 131'072);
}
/// As from `malloc`: whole, aligned, apart from all others, and kept.
RC_GTEST_PROP(SmallBuffers, AreApart, ()) {
    struct Block {
        std::size_t bytes;
        unsigned char mark;
    };
    std::map<std::uintptr_t, Block> held;
    const auto release = [&](auto at) {
        auto* const p = reinterpret_cast<unsigned char*>(at->first);
        for (std::size_t i = 0; i < at->second.bytes; i += 1000) RC_ASSERT(p[i] == at->second.mark);
        RC_ASSERT(p[at->second.bytes - 1] == at->second.mark);
        SmallBuffers::release(p, at->second.bytes);
        return held.erase(at);
    };
    const int steps = *rc::gen::inRange(1, 60);
    for (int i = 0; i < steps; ++i) {
        if (!held.empty() && *rc::gen::inRange(0, 3) == 0) {
            release(std::next(held.begin(), *rc::gen::inRange<std::ptrdiff_t>(
                                                0, static_cast<std::ptrdiff_t>(held.size()))));
            continue;
        }
        const auto bytes =
            *rc::gen::inRange<std::size_t>(SmallBuffers::least, SmallBuffers::most + 1);
        void* const p = SmallBuffers::allocate(bytes);
        RC_ASSERT(address(p) % SmallBuffers::alignment_most == 0u);
        const auto mark = static_cast<unsigned char>(i);
        std::memset(p, mark, bytes);
        const auto [at, is_new] = held.insert({address(p), {bytes, mark}});
        RC_ASSERT(is_new);
    }
    while (!held.empty()) release(held.begin());
}
/// One thread allocates while another forks: no child finds the lists locked.
TEST(SmallBuffers, WorkInAChildOfAnotherThread) {
    std::atomic<bool> over = false;
    std::thread busy([&] {
        while (!over) SmallBuffers::release(SmallBuffers::allocate(20'000), 20'000);
    });
    int failed = 0;
    for (int i = 0; i < 200; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            ::alarm(20);
            SmallBuffers::release(SmallBuffers::allocate(20'000), 20'000);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        failed += status != 0;
        if (failed > 0) break;
    }
    over = true;
    busy.join();
    EXPECT_EQ(failed, 0);
}

}  // namespace
