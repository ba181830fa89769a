// The share of a machine's cores that worlds give to a process, and affinity masks.
#include <gx/coordination/process_cores.hpp>

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace {

using gx::coordination::affinity_mask;
using gx::coordination::CoreShare;
using gx::coordination::process_cores;

// ---- Shares ----------------------------------------------------------------------------
TEST(ProcessCores, AreTheLeastShareOfAWorldThatLives) {
    EXPECT_EQ(process_cores(), 0);
    std::optional<CoreShare> all(2), one, equal;
    EXPECT_EQ(process_cores(), 2);
    one.emplace(1);
    EXPECT_EQ(process_cores(), 1);
    equal.emplace(1);
    const CoreShare more(7);
    EXPECT_EQ(process_cores(), 1);
    one.reset();
    EXPECT_EQ(process_cores(), 1) << "two worlds of one core";
    equal.reset();
    EXPECT_EQ(process_cores(), 2);
    all.reset();
    EXPECT_EQ(process_cores(), 7);
}
TEST(ProcessCores, AreThoseOfAWorldUntilItEnds) {
    {
        CoreShare none, share(3);
        CoreShare moved(std::move(share));
        EXPECT_EQ(process_cores(), 3);
        none = std::move(moved);
        EXPECT_EQ(process_cores(), 3);
        none = CoreShare(2);
        EXPECT_EQ(process_cores(), 2);
        CoreShare larger(5);
        none = std::move(larger);
        EXPECT_EQ(process_cores(), 5) << "the share of 2 has ended";
    }
    EXPECT_EQ(process_cores(), 0);
    const CoreShare less(0);
    EXPECT_EQ(process_cores(), 1) << "0 is without a share";
}

// ---- Masks -----------------------------------------------------------------------------
/// A machine of `cpus` CPUs, of which the thread may run on two.
auto machine(std::size_t cpus) {
    return [=](int, std::size_t bytes, cpu_set_t* set) {
        if (8 * bytes < cpus) return errno = EINVAL, -1;
        CPU_SET_S(3, bytes, set);
        CPU_SET_S(cpus - 1, bytes, set);
        return 0;
    };
}
TEST(AffinityMask, HasAsManyCharactersAsTheMachineHasCores) {
    for (const std::size_t cpus : {5u, 1024u, 1025u, 4096u}) {
        std::string expected(cpus, '0');
        expected[3] = expected[cpus - 1] = '1';
        EXPECT_EQ(affinity_mask(machine(cpus)), expected) << cpus;
    }
    EXPECT_NE(affinity_mask().find('1'), std::string::npos);
}
TEST(AffinityMask, IsOfAllCoresWhereTheSystemDoesNotTell) {
    const std::string all(std::max(1u, std::thread::hardware_concurrency()), '1');
    int calls = 0;
    const auto refuses = [&](int error) {
        return [&calls, error](int, std::size_t, cpu_set_t*) { return ++calls, errno = error, -1; };
    };
    EXPECT_EQ(affinity_mask(refuses(EPERM)), all);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(affinity_mask(refuses(EINVAL)), all) << "it ends";
    EXPECT_EQ(affinity_mask([](int, std::size_t, cpu_set_t*) { return 0; }), all) << "of no core";
}

}  // namespace
