#include "arguments.hpp"  // first, so the header is seen to stand alone

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <support/files.hpp>  // error_of, holds

namespace {

using namespace gx::bench;
using testing_support::holds;

/// What is wrong with these words, in such a run.
std::string refusal(std::vector<std::string> words, bool under_mpirun) {
    Arguments asked;
    CLI::App app("", "gx bench network");
    add_options(app, asked);
    std::ranges::reverse(words);
    app.parse(std::move(words));
    return testing_support::error_of([&] { expect_in_effect(app, under_mpirun, asked.overlap); });
}

TEST(Arguments, ThatWouldHaveNoEffectAreRefused) {
    const std::vector<std::vector<std::string>> of_hosts{
        {"--machine-file", "m.json"}, {"--gpu", "K80"},
        {"--fabric", "ours"},         {"--leaf", "4"},
        {"--eager", "1024"},          {"--reducer", "Ring<fp16>"},
        {"--bytes", "1048576"},       {"--repeats", "5"},
        {"--least-wire-ms", "1"}};
    for (std::vector<std::string> words : of_hosts) {
        const std::string name = words[0];
        EXPECT_EQ(refusal(words, true), "no error") << name;
        EXPECT_TRUE(holds(refusal(words, false), name + ": ", "no effect", "mpirun -n 8",
                          "--mca btl_tcp_eager_limit 8388608", "--eager 8388608"))
            << name;
        words.push_back("--overlap");
        for (const bool under_mpirun : {false, true})
            EXPECT_TRUE(holds(refusal(words, under_mpirun), name + ": ", "without --overlap"))
                << name;
    }
    EXPECT_EQ(refusal({"--grid", "g.json"}, false), "no error");
    EXPECT_TRUE(holds(refusal({"--grid", "g.json"}, true), "--grid: ", "without mpirun"));
    EXPECT_TRUE(holds(refusal({"--grid", "g.json", "--overlap"}, false), "--grid: "));
    EXPECT_EQ(refusal({"--rate", "7", "--overlap"}, false), "no error");
    EXPECT_TRUE(holds(refusal({"--rate", "7"}, false), "--rate: ", "with --overlap"));
    EXPECT_TRUE(holds(refusal({"--rate", "7", "--overlap"}, true), "--rate: ", "without mpirun"));
    EXPECT_TRUE(holds(refusal({"--namespaces"}, false), "--namespaces: ", "under mpirun"));
    for (const bool under_mpirun : {false, true}) {
        EXPECT_EQ(refusal({}, under_mpirun), "no error");
        EXPECT_EQ(refusal({"--json", "o.json", "--overlap"}, under_mpirun), "no error");
    }
    EXPECT_EQ(refusal({"--namespaces", "--overlap"}, true), "no error");
}

}  // namespace
