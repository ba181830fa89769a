// Races between threads of a kernel, which ThreadSanitizer reports by their lines.
#include "planted_faults.hpp"

#include <iterator>  // size
#include <string>    // lines
#include <vector>    // memory

#include <gtest/gtest.h>

#include <gx/cuda/emulation/grid.hpp>  // run_grid

extern "C" {
__attribute__((no_sanitize("thread"))) const char* __tsan_default_options();  // before its start
const char* __tsan_default_options() {  // each report counts, and none ends the program
    return "exitcode=0:suppress_equal_addresses=0";
}
[[gnu::weak]] int __tsan_get_report_mop(void*, unsigned long, int*, void**, int*, int*, int*,
                                        void**, unsigned long);
[[gnu::weak]] void __sanitizer_symbolize_pc(void*, const char*, char*, std::size_t);
void __tsan_on_report(void* report);
}

namespace {

using namespace gx;
using namespace gx::cuda_tests;

// First access of each report. ThreadSanitizer must not check this memory while it reports.
void* reported[256];
std::size_t reports = 0;

/// File and line of the first access of report `i`.
__attribute__((no_sanitize("thread"))) std::string line_of(std::size_t i) {
    char text[512] = "";
    __sanitizer_symbolize_pc(reported[i], "%s:%l", text, sizeof text);
    return text;
}

}  // namespace

__attribute__((no_sanitize("thread"))) void __tsan_on_report(void* report) {
    int thread = 0, size = 0, write = 0, atomic = 0;
    void* address = nullptr;
    void* stack[8] = {};
    __tsan_get_report_mop(report, 0, &thread, &address, &size, &write, &atomic, stack, 8);
    if (reports < std::size(reported)) reported[reports++] = stack[0];
}

namespace {

// The others end with an error before two threads come to a race.
class Races : public ::testing::Test {
protected:
    void SetUp() override {
        if (!cuda::emulation::under_thread_sanitizer())
            GTEST_SKIP() << "ThreadSanitizer is not in this build";
        reports = 0;
    }
    static void run(const char* name, Kernel kernel, std::uint64_t seed) {
        constexpr std::int64_t count = 1024;
        std::vector<float> x(count, 1.0f), y(count);
        cuda::emulation::seed(seed);
        cuda::emulation::run_grid(name, dim3(count / fault_threads), dim3(fault_threads),
                                  [&] { kernel({x.data(), count}, {y.data(), count}); });
    }
};

class PlantedRaces : public Races, public ::testing::WithParamInterface<PlantedFault> {};

TEST_P(PlantedRaces, AreNotInTheRightKernel) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) run(GetParam().name, GetParam().right, seed);
    EXPECT_EQ(reports, 0u);
}
/// Once: ThreadSanitizer reports the same two lines once a program.
TEST_P(PlantedRaces, AreReportedWithTheirLines) {
    run(GetParam().name, GetParam().wrong, 1);
    ASSERT_EQ(reports > 0, GetParam().races);
    for (std::size_t i = 0; i < reports; ++i)
        EXPECT_NE(line_of(i).find("planted_faults.hpp:"), std::string::npos) << line_of(i);
}
TEST_F(Races, AreNotInAnyRightKernel) {
    for (const PlantedFault& f : planted_faults) {
        run(f.name, f.right, 1);
        EXPECT_EQ(reports, 0u) << f.name;
    }
}
std::vector<PlantedFault> without_an_error() {
    std::vector<PlantedFault> some;
    for (const PlantedFault& f : planted_faults)
        if (*f.sentence == '\0') some.push_back(f);
    return some;
}
INSTANTIATE_TEST_SUITE_P(Planted, PlantedRaces, ::testing::ValuesIn(without_an_error()),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
