// mpi::World under both MPIs' launchers: bits, training, and what it says.
#include "mpi_run.hpp"

namespace {

using namespace gx::mpi_tests;
using testing_support::holds;

class MpiWorld : public OnMpi {
protected:
    /// "36 reducers have the bits of threads": those of the core, and of the plugins of the build.
    static void expect_equal_reductions(const std::string& said, const JobEnd& end) {
        EXPECT_TRUE(said.ends_with(" reducers have the bits of threads")) << said << end.output;
        EXPECT_GE(std::atoi(said.c_str()), 8) << said;
    }
};
INSTANTIATE_TEST_SUITE_P(Both, MpiWorld, both_mpis, name_of_mpi);

// ---- Bits ---------------------------------------------------------------------------------------

TEST_P(MpiWorld, EveryReducerHasTheBitsOfThreads) {
    for (const int ranks : {1, 3, 4}) {
        const JobEnd end = run(ranks, "reductions");
        EXPECT_EQ(end.status, 0) << end.output;
        for (const std::string& said : end.said) expect_equal_reductions(said, end);
    }
}
/// Ranks 1, 0 and 2 of two communicators, under all thread levels that gx takes.
TEST_P(MpiWorld, ACommunicatorOfTheUsersMpi) {
    for (const char* level : {"multiple", "serialized", "funneled"}) {
        const JobEnd end = run(3, std::string("user ") + level);
        EXPECT_EQ(end.status, 0) << end.output;
        const std::string ranks[]{"rank 1 of 2: ", "rank 0 of 2: ", "rank 0 of 1: "};
        for (const std::size_t r : {0u, 1u, 2u}) {
            ASSERT_TRUE(end.said[r].starts_with(ranks[r])) << end.said[r] << end.output;
            expect_equal_reductions(end.said[r].substr(ranks[r].size()), end);
        }
    }
}
TEST_P(MpiWorld, MpisOwnAllReduceIsTheMeanAndEqualOnAllRanks) {
    for (const int ranks : {1, 2, 3, 5}) {
        const JobEnd end = run(ranks, "native");
        EXPECT_EQ(end.status, 0) << end.output;
        EXPECT_TRUE(end.said[0].starts_with("mpi::AllReduce<fp32> ")) << end.said[0];
        for (const std::string& said : end.said) EXPECT_EQ(said, end.said[0]);
    }
}
TEST_P(MpiWorld, RanksOfOneMachineShareMemory) {
    for (const int ranks : {1, 2, 3})
        expect_all(ranks, "shared", "the bits of threads, the bits of threads");
}
/// Whether the last of them works for all is not decided by each for itself.
TEST_P(MpiWorld, RanksThatSeeOtherNumbersOfCoresShareMemory) {
    for (const std::string cores : {"1", "64"})
        expect_all(3, "shared " + cores, "the bits of threads, the bits of threads");
}
/// So that their devices do not compute on all cores at once.
TEST_P(MpiWorld, TellsDevicesTheShareOfItsProcess) {
    for (const int ranks : {1, 2}) expect_all(ranks, "cores", "the share of each rank");
}
TEST_P(MpiWorld, LongMessagesInPieces) {
    for (const int ranks : {1, 2}) expect_all(ranks, "pieces", "the same bytes");
}

TEST_P(MpiWorld, AReductionAllocatesNothingOnceOthersHaveGoneBefore) {
    expect_all(2, "allocations", "0 allocations after some");
}

// ---- Training -----------------------------------------------------------------------------------

/// Bit for bit, with three reducers. Also: only rank 0 can write its output, and is observed; each
/// process reads its share of the images.
TEST_P(MpiWorld, TrainsAsThreadsAndASimulatedClusterAndResumes) {
    for (const int ranks : {1, 2, 3, 4, 5})
        expect_all(ranks, "train", "the weights of threads and of a simulated cluster");
}

// ---- What its report says -----------------------------------------------------------------------

TEST_P(MpiWorld, SaysWhatItRunsOn) {
    const JobEnd end = run(3, "info");
    for (const std::string& said : end.said)
        EXPECT_TRUE(holds(said, "3 ranks on 1 host (", ": 3)", "at thread level MULTIPLE",
                          "coordination at tcp:127.0.0.1:", "ranks share memory, on pages of "))
            << said;
    const std::string name = std::string(GetParam().name) == "Mpich" ? "MPICH " : "Open MPI ";
    EXPECT_TRUE(holds(end.said[0], "; " + name)) << end.said[0];
    const std::string over = "messages by MPI_Isend and MPI_Irecv over ";
    const char* chosen = name == "MPICH " ? "its device ch" : "a transport of its own choice";
    EXPECT_TRUE(holds(end.said[0], over + chosen)) << end.said[0];
    EXPECT_EQ(end.output.find(end.said[0]), end.output.rfind(end.said[0])) << "said once";
    EXPECT_NE(end.output.find(end.said[0]), end.output.npos) << end.output;
    const JobEnd set = mpi_run(GetParam(), 1, "info", GetParam(), testing_support::Folder(), 200,
                               {"OMPI_MCA_btl=self,tcp UCX_TLS=self,tcp FI_PROVIDER=tcp ", ""});
    const bool by_ofi = holds(set.said[0], "its device ch4:ofi");
    EXPECT_TRUE(holds(set.said[0], name != "MPICH "
                                       ? over + "OMPI_MCA_btl=self,tcp, UCX_TLS=self,tcp, "
                                                "FI_PROVIDER=tcp;"
                                   : by_ofi ? over + "its device ch4:ofi, FI_PROVIDER=tcp;"
                                            : over + "its device ch4:ucx, UCX_TLS=self,tcp;"))
        << set.said[0] << ": the settings that this MPI reads, and no other";
}

}  // namespace
