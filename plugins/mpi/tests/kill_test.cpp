// Kills a random rank of an MPI job at a random moment of training: every survivor names it with
// step, bucket and operation, nothing hangs, no process is left, and a resumed run has all bits.
// GX_KILLS=100 GX_SEED=1 repeats more kills of each MPI, from another seed; the default is 3.
#include "mpi_run.hpp"

#include <dirent.h>  // opendir

#include <algorithm>
#include <cstdio>
#include <random>
#include <string_view>

namespace {

using namespace gx::mpi_tests;
using testing_support::Folder;
using testing_support::read_text;

class MpiKill : public OnMpi {};
INSTANTIATE_TEST_SUITE_P(Both, MpiKill, both_mpis, name_of_mpi);

int from_environment(const char* name, int otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : std::atoi(text);
}

/// Processes that have `word` in their command line, zombies aside.
int processes_with(const std::string& word) {
    int count = 0;
    DIR* const all = ::opendir("/proc");
    while (const dirent* const one = ::readdir(all)) {
        const std::string line = read_text(std::string("/proc/") + one->d_name + "/cmdline");
        count += line.find(word) != line.npos;
    }
    ::closedir(all);
    return count;
}

/// What rank `r` has said of the loss of `lost`: its own error, or a line on stderr.
bool names(const JobEnd& end, int r, int lost) {
    const std::string who = "rank " + std::to_string(lost);
    const std::string& said = end.said[static_cast<std::size_t>(r)];
    const auto by = [&](const std::string& reason) {
        return said.find(": " + who + " " + reason) != said.npos;
    };
    if ((by("timed out") || by("stopped first")) && said.find("step ") != said.npos &&
        said.find("operation ") != said.npos)
        return true;
    const std::size_t line = end.output.find("gx: " + who + " ");
    return line != end.output.npos &&
           end.output.find("Rank " + std::to_string(r) + " was stopped in step ", line) !=
               end.output.npos;
}

TEST_P(MpiKill, EverySurvivorNamesTheLostRank) {
    constexpr int ranks = 3;
    const int kills = from_environment("GX_KILLS", 3);
    const auto seed = static_cast<unsigned>(from_environment("GX_SEED", 1));
    std::mt19937 random(seed);
    const auto draw = [&](int most) {
        return static_cast<int>(random() % static_cast<unsigned>(most));
    };
    int named = 0;
    for (int k = 0; k < kills; ++k) {
        const int lost = k % ranks, step = 1 + draw(20), ns = 1 + draw(3'000'000);
        const Folder folder;
        const std::string what =
            std::to_string(lost) + " " + std::to_string(step) + " " + std::to_string(ns);
        const JobEnd end = mpi_run(GetParam(), ranks, "kill " + what, GetParam(), folder);
        bool by_all = true;
        for (int r = 0; r < ranks; ++r) by_all &= r == lost || names(end, r, lost);
        named += by_all;
        std::string said;
        for (const std::string& one : end.said) said += "  '" + one + "'\n";
        EXPECT_TRUE(by_all) << "rank, step, ns: " << what << "\n" << said << end.output;
        EXPECT_NE(end.status, 0) << end.output;
        EXPECT_NE(end.status, 124) << "it hung: " << end.output;
        EXPECT_EQ(processes_with(folder.path.string()), 0) << "a process is left";
    }
    std::printf("%s: %d of %d kills named by every survivor (seed %u)\n", GetParam().name, named,
                kills, seed);
}

TEST_P(MpiKill, WhileItWorksOnMemoryThatAllShare) {
    for (const int lost : {0, 1, 2}) {
        const JobEnd end = run(3, "killed_sharing " + std::to_string(lost));
        EXPECT_NE(end.status, 124) << "it hung: " << end.output;
        for (const int r : {0, 1, 2})
            EXPECT_TRUE(r == lost || names(end, r, lost)) << "rank " << r << "\n" << end.output;
    }
}
TEST_P(MpiKill, BeforeTheFirstRunAndAfterTheLastOneThePhaseIsNamed) {
    const JobEnd before = run(3, "phase before");
    for (const std::size_t r : {0u, 2u})
        EXPECT_TRUE(
            testing_support::holds(before.said[r], "rank 1 (host ", ") is lost: ", "operation "))
            << before.output;
    const JobEnd after = run(3, "phase after");
    EXPECT_EQ(after.said[0], "returned") << "its run has";
    EXPECT_TRUE(testing_support::holds(after.output, "gx: rank 1 (host ", ") is lost: ",
                                       "Rank 0 was stopped in operation no run: after the last",
                                       "Rank 2 was stopped in operation no run: after the last"))
        << after.output;
    for (const JobEnd* end : {&before, &after}) {
        // Hydra, MPICH's launcher, ended once with 0 of many times: a race of its own.
        if (std::string_view(GetParam().name) != "Mpich") {
            EXPECT_NE(end->status, 0);
        }
        EXPECT_NE(end->status, 124) << "it hung";
    }
}

/// A run is killed in each of its first steps until it ends; its weights are those of threads.
TEST_P(MpiKill, AResumedRunHasTheBitsOfOneThatWasNotKilled) {
    const Folder folder;
    std::string said;
    int runs = 0;
    for (; runs < 6 && said.find("the weights of threads") == said.npos; ++runs) {
        // Rank 0 first, which writes the checkpoints; later runs start with more epochs behind.
        const std::string kill = std::to_string(runs % 2) + (runs < 3 ? " 6" : " 1000");
        const JobEnd end = mpi_run(GetParam(), 2, "resume " + kill, GetParam(), folder);
        EXPECT_NE(end.status, 124) << end.output;
        said = end.said[1 - static_cast<std::size_t>(runs % 2)];
    }
    EXPECT_EQ(said, "the weights of threads") << "after " << runs << " runs";
    EXPECT_EQ(runs, 4);
}

}  // namespace
