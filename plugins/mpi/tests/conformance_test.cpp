// The conformance kit on mpi::World under both MPIs' launchers: a process a rank, 20 processes.
// Run:  GX_MPI_CONFORMANCE=all plugins.mpi.conformance_test   all reducers, which takes minutes
#include "mpi_run.hpp"

namespace {

using namespace gx::mpi_tests;

class MpiConformance : public OnMpi {
protected:
    /// All processes end with the same words.
    [[nodiscard]] std::string words_of_all(int ranks, const std::string& arguments,
                                           int seconds = 200) const {
        const testing_support::Folder folder;
        const JobEnd end = mpi_run(GetParam(), ranks, arguments, GetParam(), folder, seconds);
        EXPECT_EQ(end.status, 0) << end.output;
        for (const std::string& said : end.said) EXPECT_EQ(said, end.said[0]) << end.output;
        return end.said[0];
    }
};
INSTANTIATE_TEST_SUITE_P(Both, MpiConformance, both_mpis, name_of_mpi);

/// Where the kit needs an order of arrival, it skips: MPI's can't be chosen.
TEST_P(MpiConformance, AReducerConforms) {
    const char* const all = std::getenv("GX_MPI_CONFORMANCE");
    const bool every = all != nullptr && std::string(all) == "all";
    constexpr int most_ranks_of_the_kit = 20;
    const std::string said =
        every ? words_of_all(most_ranks_of_the_kit, "conformance", 7200)
              : words_of_all(most_ranks_of_the_kit, "conformance MultiRing\\<4,");
    std::printf("%s: %s\n", GetParam().name, said.c_str());
    EXPECT_EQ(said.find("wrong"), said.npos) << said;
    EXPECT_EQ(said.find("too few"), said.npos) << said;
    EXPECT_GE(std::stoi(said), every ? 8 : 1) << said;
}
/// Of values, of what outlives a reduction, and of what is gathered at 2 to 8 ranks.
TEST_P(MpiConformance, SeededBugsAreRejected) { EXPECT_EQ(words_of_all(8, "bugs"), "rejected"); }

}  // namespace
