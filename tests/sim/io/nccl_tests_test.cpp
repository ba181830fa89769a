#include <gx/sim/io/nccl_tests.hpp>  // first, so the header is seen to stand alone

#include <cmath>   // abs
#include <string>  // outputs
#include <vector>  // sizes

#include <fmt/core.h>  // lines
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>  // properties

#include <gx/collective/ring.hpp>             // Ring
#include <gx/core/error.hpp>                  // Error
#include <gx/sim/catalog/comm_stacks.hpp>     // find_profile
#include <gx/sim/catalog/find_machine.hpp>    // find_machine
#include <gx/sim/timing/all_reduce_time.hpp>  // all_reduce_time
#include <support/files.hpp>                  // error_of, holds

namespace {

using gx::sim::NcclTests;
using gx::sim::read_nccl_tests;
using testing_support::error_of;
using testing_support::holds;

/// As all_reduce_perf prints it (src/util.cu of nccl-tests, 2025), of a ring of such rates.
struct Printed {
    int hosts = 2, gpus = 4;
    double bus_gb_s = 10, hop_us = 20;
    std::vector<std::int64_t> sizes{1'048'576, 16'777'216, 268'435'456};
    std::string program = "all_reduce_perf", redop = "sum", wrong = "0";
    bool ends = true, alone = false;

    [[nodiscard]] double us(std::int64_t bytes) const {
        const double n = hosts * gpus;
        return 2 * (n - 1) * (hop_us + static_cast<double>(bytes) * 1e-3 / (n * bus_gb_s));
    }
    [[nodiscard]] std::string text() const {
        const int n = hosts * gpus;
        std::string out = fmt::format(
            "# nccl-tests version 2.17.6 nccl-headers=22803 nccl-library=22803\n"
            "# Collective test starting: {}\n"
            "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 268435456 step: 16(factor) warmup "
            "iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0 unalign: 0\n#\n"
            "# Using devices\n",
            program);
        for (int r = 0; r < n; ++r)
            out += fmt::format(
                "#  Rank {:2} Group  0 Pid {:6} on   node{:03} device {:2} [0000:07:00] NVIDIA "
                "H100 80GB HBM3\n",
                alone ? 0 : r, 1000 + r, r / gpus, r % gpus);
        out +=
            "node000:1000:1012 [0] NCCL INFO Using network IB\n#\n"
            "#                                                              out-of-place"
            "                       in-place          \n"
            "#       size         count      type   redop    root     time   algbw   busbw  "
            "#wrong     time   algbw   busbw  #wrong \n"
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)  "
            "           (us)  (GB/s)  (GB/s)         \n";
        for (const std::int64_t s : sizes) {
            const double t = us(s), a = static_cast<double>(s) * 1e-3 / t;
            out += fmt::format("{:12}  {:12}     float  {:>6}      -1", s, s / 4, redop);
            for (int half = 0; half < 2; ++half)
                out += fmt::format("  {:7.2f}  {:6.2f}  {:6.2f}  {:>6}", t, a, a * 2 * (n - 1) / n,
                                   wrong);
            out += "\n";
        }
        if (ends)
            out +=
                "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 7.5 \n#\n"
                "# Collective test concluded: all_reduce_perf\n";
        return out;
    }
};
NcclTests read(const Printed& p) { return read_nccl_tests(p.text(), "t.txt"); }
std::string refusal(const std::string& text) {
    return error_of([&] { (void)read_nccl_tests(text, "t.txt"); });
}
std::string replaced(std::string text, const std::string& what, const std::string& by) {
    const auto at = text.find(what);
    EXPECT_NE(at, text.npos) << what;
    return text.replace(at, what.size(), by);
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(NcclTests, ReadsVersionRanksHostsAndTimes) {
    const NcclTests t = read({});
    EXPECT_EQ(t.version, "2.17.6");
    EXPECT_EQ(t.library, "2.28.3");
    EXPECT_EQ(t.gpu, "NVIDIA H100 80GB HBM3");
    EXPECT_EQ(t.ranks, 8);
    EXPECT_EQ(t.hosts, 2);
    ASSERT_EQ(t.rows.size(), 3u);
    EXPECT_EQ(t.rows[1].bytes.count, 16'777'216);
    EXPECT_NEAR(gx::seconds(t.rows[1].in_place) * 1e6, Printed{}.us(16'777'216), 0.01);
}
TEST(NcclTests, ACodeThatIsNoVersionOfTheLibraryIsNotSaid) {
    for (const char* code : {"9999999999999", "-1", "x"})
        EXPECT_EQ(read_nccl_tests(
                      replaced(Printed{}.text(), "library=22803", std::string("library=") + code),
                      "t.txt")
                      .library,
                  "");
}
TEST(NcclTests, LeavesOutTheRankThatALauncherPutsBeforeEachLine) {
    const std::string plain = Printed{}.text();
    for (const char* rank :
         {"[1,0]<stdout>:", "[prterun-node000-1012@1,0]<stdout>: ", " 0: ", "0: ", "[0] "}) {
        std::string labelled;
        for (std::size_t at = 0; at < plain.size(); at = plain.find('\n', at) + 1)
            labelled += rank + plain.substr(at, plain.find('\n', at) + 1 - at);
        labelled += "[1,1]<stderr>:Warning: 7 8 9\n";
        const NcclTests t = read_nccl_tests(labelled, "t.txt");
        EXPECT_EQ(t.version, "2.17.6") << rank;
        EXPECT_EQ(t.gpu, "NVIDIA H100 80GB HBM3");
        EXPECT_EQ(t.ranks, 8);
        ASSERT_EQ(t.rows.size(), 3u);
        EXPECT_EQ(t.rows[2].in_place, read({}).rows[2].in_place);
    }
}
/// Sizes, times and bandwidths of NVIDIA/nccl issue 340, two GPUs, nccl-tests before 2022.
TEST(NcclTests, ReadsWhatWasPrintedBefore2022) {
    const std::string text =
        "# nThread 1 nGpus 2 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: "
        "20 validation: 1 \n#\n# Using devices\n"
        "#   Rank  0 Pid  11034 on     server device  0 [0x3b] GeForce RTX 2080 Ti\n"
        "#   Rank  1 Pid  11034 on     server device  1 [0x86] GeForce RTX 2080 Ti\n#\n"
        "#                                                     out-of-place               "
        "in-place\n"
        "#       size         count    type   redop     time   algbw   busbw  error     time   "
        "algbw   busbw  error\n"
        "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  "
        "(GB/s)  (GB/s)       \n"
        "    67108864      16777216   float     sum   1568.3   42.79   42.79  0e+00   1560.9   "
        "42.99   42.99  0e+00\n"
        "   134217728      33554432   float     sum   3298.6   40.69   40.69  0e+00   3070.3   "
        "43.71   43.71  0e+00\n"
        "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 6.6972 \n#\n";
    const NcclTests t = read_nccl_tests(text, "t.txt");
    EXPECT_EQ(t.version, "");
    EXPECT_EQ(t.hosts, 1);
    EXPECT_EQ(t.ranks, 2);
    EXPECT_EQ(t.rows[0].out_of_place, gx::nanoseconds(1568.3e-6));
    const auto rates = gx::sim::ring_rates(t, "t.txt");
    EXPECT_NEAR(rates.bus.count, 67'108'864 / (3070.3e-6 - 1560.9e-6), 1e6);  // through both
}
/// Bandwidths of small buffers have one digit or two, each rounded by itself: a published row.
TEST(NcclTests, ReadsBandwidthsOfSmallBuffers) {
    const std::string row =
        "         512           128     float     sum      -1  34.36    0.01    0.03       0  "
        "34.48 "
        "   0.01    0.03       0\n";
    const std::string text = Printed{}.text();
    const NcclTests t =
        read_nccl_tests(replaced(text, "     1048576  ", row + "     1048576  "), "t.txt");
    ASSERT_EQ(t.rows.size(), 4u);
    EXPECT_EQ(t.rows[0].out_of_place, gx::nanoseconds(34.36e-6));
}
TEST(NcclTests, ColumnsOfSingleIterationsAreSkipped) {
    std::string text = Printed{}.text();
    for (int half = 0; half < 2; ++half) {
        const auto at = text.rfind("#wrong", half == 0 ? text.npos : text.rfind("#wrong") - 1);
        text.insert(at + 6, "    i_min    i_max    i_p99    i_cv%");
    }
    std::string out;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = text.find('\n', at);
        std::string line = text.substr(at, end - at);
        if (line.find("float") != line.npos) {
            const auto first = line.find("       0  ");
            ASSERT_NE(first, line.npos);
            line.insert(first + 8, "  1.0  2.0  2.0  1.0");
            line += "  1.0  2.0  2.0  1.0";
        }
        out += line + "\n";
        at = end + 1;
    }
    const NcclTests t = read_nccl_tests(out, "t.txt"), plain = read({});
    ASSERT_EQ(t.rows.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(t.rows[i].in_place, plain.rows[i].in_place);
}

// ---- A property: the simulated ring takes what the printed one took ------------------
RC_GTEST_PROP(NcclTests, ASimulatedRingTakesWhatWasMeasured, ()) {
    Printed p;
    p.hosts = *rc::gen::element(1, 2, 4, 8);
    p.gpus = *rc::gen::element(2, 4, 8);
    p.bus_gb_s = *rc::gen::inRange(1, 400) * 0.5;
    p.hop_us = *rc::gen::inRange(1, 60);
    const NcclTests t = read(p);
    gx::sim::ClusterSpec c{.machine = gx::sim::find_machine(p.gpus == 8   ? "p3.16xlarge"
                                                            : p.gpus == 4 ? "p3.8xlarge"
                                                                          : "p3.2xlarge"),
                           .machines = p.hosts,
                           .profile = gx::sim::find_profile("nccl-2.10+tcp-aws")};
    c.machine.gpus = p.gpus;
    if (p.hosts > 1) {  // inside a machine nothing shall bound the ring
        Printed inside = p;
        inside.hosts = 1, inside.bus_gb_s = 2000, inside.hop_us = 0;
        c = gx::sim::with_measured(c, read(inside), "i.txt");
    }
    c = gx::sim::with_measured(c, t, "t.txt");
    for (const NcclTests::Row& r : t.rows) {
        const auto ring = gx::sim::all_reduce_time(gx::collective::Ring(t.ranks), c, r.bytes).time;
        RC_ASSERT(std::abs(gx::seconds(ring) / gx::seconds(r.in_place) - 1) < 0.01);
    }
}
RC_GTEST_PROP(NcclTests, ReadsSizesFromEightBytesOn, ()) {
    Printed p;
    p.hosts = *rc::gen::inRange(1, 9);
    p.gpus = *rc::gen::inRange(2, 17);
    p.bus_gb_s = *rc::gen::inRange(1, 400) * 0.5;
    p.hop_us = *rc::gen::inRange(100, 6000) * 0.01;
    p.sizes.clear();
    for (std::int64_t bytes = 8; bytes <= 1 << 30; bytes *= 2) p.sizes.push_back(bytes);
    RC_ASSERT(read(p).rows.size() == p.sizes.size());
}

// ---- What is refused ----------------------------------------------------------------
TEST(NcclTests, RefusalsNameTheLine) {
    const std::string text = Printed{}.text();
    EXPECT_TRUE(holds(refusal(""), "t.txt", "all_reduce_perf"));
    EXPECT_TRUE(holds(refusal(replaced(text, "   redop    root     time", "   redop     time")),
                      "line 17", "version"));
    EXPECT_TRUE(holds(refusal(replaced(text, "root     time", "root  cputime")), "line 17", "-C"));
    EXPECT_TRUE(holds(refusal(text.substr(0, text.find("# Out of"))), "Avg bus bandwidth"));
    EXPECT_TRUE(holds(refusal(text.substr(0, text.find("# Out of") - 60)), "line 21", "cut"));
    EXPECT_TRUE(
        holds(refusal(Printed{.program = "all_gather_perf"}.text()), "line 2", "all_gather_perf"));
    EXPECT_TRUE(holds(refusal(Printed{.redop = "none"}.text()), "line 19", "redop"));
    EXPECT_TRUE(holds(refusal(Printed{.wrong = "3"}.text()), "line 19", "wrong values"));
    EXPECT_TRUE(holds(refusal(replaced(text, "values : 0 OK", "values : 9 FAILED")), "line 22",
                      "out of bounds"));
    EXPECT_TRUE(holds(refusal(Printed{.alone = true}.text()), "line 7", "MPI=1"));
    std::string rate = text;
    const auto at = rate.rfind("float");
    rate.replace(rate.find("  ", at + 30), 9, "     0.00");
    EXPECT_TRUE(holds(refusal(rate), "line 21"));
    EXPECT_TRUE(holds(refusal(text + text), "line 31", "second run"));
}
TEST(NcclTests, RatesNeedTwoLargeSizes) {
    EXPECT_TRUE(holds(error_of([] { (void)ring_rates(read({.sizes = {1024, 1 << 24}}), "t.txt"); }),
                      "t.txt", "1 size of 1 MB", "-b 1M"));
}
TEST(NcclTests, RanksOfAHostAreThoseOfTheMachine) {
    gx::sim::ClusterSpec c{.machine = gx::sim::find_machine("p3.16xlarge")};
    EXPECT_TRUE(holds(error_of([&] { (void)with_measured(c, read({}), "t.txt"); }), "t.txt",
                      "8 ranks on 2 hosts", "p3.16xlarge", "8 GPUs"));
    for (const int gpus : {2, 16})
        EXPECT_TRUE(holds(
            error_of([&] { (void)with_measured(c, read({.hosts = 1, .gpus = gpus}), "t.txt"); }),
            "t.txt", std::to_string(gpus) + " ranks on 1 host,", "p3.16xlarge", "8 GPUs"));
}

}  // namespace
