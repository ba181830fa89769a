#include <gx/sim/des/fiber_stacks.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <gx/core/detail/sanitizers.hpp>
#include <gx/core/error.hpp>
#include <gx/sim/des/engine.hpp>

namespace {

using gx::sim::FiberStacks;

volatile char* low_end(const boost::context::stack_context& stack) {
    return static_cast<char*>(stack.sp) - stack.size;
}

TEST(FiberStacks, AReleasedStackIsTheNextOne) {
    FiberStacks stacks;
    auto a = stacks.allocate();
    void* const top = a.sp;
    const std::size_t idle = FiberStacks::idle();
    stacks.deallocate(a);
    EXPECT_EQ(FiberStacks::idle(), idle + 1);
    auto b = stacks.allocate();
    EXPECT_EQ(b.sp, top);
    stacks.deallocate(b);
}

TEST(FiberStacks, AReusedStackHasLostWhatLayDeep) {
    FiberStacks stacks;
    auto stack = stacks.allocate();
    *low_end(stack) = 7;
    stacks.deallocate(stack);
    stack = stacks.allocate();
    EXPECT_EQ(*low_end(stack), 0);  // its page was given back, and is fresh
    stacks.deallocate(stack);
}

TEST(FiberStacks, NoMoreIdleStacksThanItsLimit) {
    FiberStacks stacks;
    std::vector<boost::context::stack_context> all;
    for (std::size_t i = 0; i < FiberStacks::most_idle + 3; ++i) all.push_back(stacks.allocate());
    for (auto& stack : all) stacks.deallocate(stack);
    EXPECT_EQ(FiberStacks::idle(), FiberStacks::most_idle);
}

TEST(FiberStacksDeath, AnOverflowHitsTheGuardPage) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    FiberStacks stacks;
    auto stack = stacks.allocate();
    EXPECT_DEATH(*(low_end(stack) - 1) = 1, "");
    stacks.deallocate(stack);
}

// ---- A fault ------------------------------------------------------------------------
#if !GX_ADDRESS_SANITIZER && !GX_THREAD_SANITIZER  // they need address space
TEST(FiberStacks, SaysWhichLimitToRaise) {
    std::vector<boost::context::stack_context> all;
    FiberStacks stacks;
    while (FiberStacks::idle() > 0) all.push_back(stacks.allocate());
    rlimit before{};
    ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
    const rlimit none{1, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
    std::string sentence;
    try {
        all.push_back(stacks.allocate());
    } catch (const gx::Error& e) {
        sentence = e.what();
    }
    ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
    EXPECT_NE(sentence.find("vm.max_map_count"), std::string::npos) << sentence;
    for (auto& stack : all) stacks.deallocate(stack);
}
#endif

TEST(FiberStacks, ASecondWorldRunsOnTheStacksOfTheFirst) {
    std::size_t idle = 0;
    for (int world = 0; world < 3; ++world) {
        {
            gx::sim::Engine engine;
            for (int r = 0; r < 5; ++r) engine.spawn(r, "rank", [&] { engine.advance({}); });
            engine.run();
        }
        if (world == 0) idle = FiberStacks::idle();
    }
    EXPECT_EQ(FiberStacks::idle(), idle);
    EXPECT_GE(idle, 5u);
}

}  // namespace
