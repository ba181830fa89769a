// How processes of an mpi::World end, under both MPIs' launchers: none holds another.
#include "mpi_run.hpp"

namespace {

using namespace gx::mpi_tests;
using testing_support::Folder;
using testing_support::holds;

class MpiEnds : public OnMpi {};
INSTANTIATE_TEST_SUITE_P(Both, MpiEnds, both_mpis, name_of_mpi);

/// It is a rank that has left, or, in a run, one that is lost, whatever other worlds it has.
TEST_P(MpiEnds, AProcessThatExitsHoldsNoOther) {
    const JobEnd behind = mpi_run(GetParam(), 3, "exits behind", GetParam(), Folder(), 30);
    EXPECT_NE(behind.status, 0) << behind.output;
    EXPECT_NE(behind.status, 124) << "it hung: " << behind.output;
    EXPECT_EQ(behind.said[0], "returned") << behind.output;
    const JobEnd in = mpi_run(GetParam(), 3, "exits in", GetParam(), Folder(), 30);
    EXPECT_NE(in.status, 124) << "it hung: " << in.output;
    expect_first(in, {in.said[0], in.said[2]}, "step 4, operation all-reduce: rank 1 is lost");
    const JobEnd first = mpi_run(GetParam(), 3, "exits first", GetParam(), Folder(), 30);
    EXPECT_NE(first.status, 124) << "it hung: " << first.output;
    EXPECT_EQ(first.said[0], "returned") << first.output;
    // A launcher may take this one for the rank's orderly end.
    const JobEnd quiet = mpi_run(GetParam(), 3, "exits quietly", GetParam(), Folder(), 30);
    EXPECT_NE(quiet.status, 124) << "it hung: " << quiet.output;
    expect_first(quiet, {quiet.said[0], quiet.said[2]},
                 "step 4, operation all-reduce: rank 1 is lost");
    expect_all(2, "exits never", "returned");
}
/// What all ranks have finished is not lost where they can't meet for another run.
TEST_P(MpiEnds, ARunIsDoneThoughTheRanksDoNotMeetBehindIt) {
    expect_all(3, "out_of_files but", "returned");
    const JobEnd end = mpi_run(GetParam(), 3, "out_of_files none", GetParam(), Folder(), 60);
    EXPECT_NE(end.status, 124) << "it hung: " << end.output;
    expect_first(end, end.said, "returned; next: ");
    EXPECT_TRUE(holds(end.output, "gx: rank 1 has finished its run, and can't begin another: ",
                      "Too many open files; raise the limit of open files"))
        << end.output;
}
/// The others wait for it there, and not in MPI_Finalize, which they leave out then.
TEST_P(MpiEnds, ARankThatDiesAtItsExitHoldsNoOtherAndIsNamed) {
    for (const std::string how : {"killed", "quietly"}) {
        const JobEnd end = mpi_run(GetParam(), 3, "dies_at_exit " + how, GetParam(), Folder(), 30);
        EXPECT_NE(end.status, 124) << "it hung: " << end.output;
        EXPECT_TRUE(holds(end.output, "gx: rank 1 (host ", " is lost: its connection ended"))
            << end.output;
    }
}
/// One after the other or side by side, of which each rank has its own order.
TEST_P(MpiEnds, WorldsOfSeveralThreadsEndInAnyOrder) {
    const JobEnd end = mpi_run(GetParam(), 3, "threads", GetParam(), Folder(), 30);
    EXPECT_EQ(end.status, 0) << end.output;
    for (const std::string& said : end.said) EXPECT_EQ(said, "returned") << end.output;
}
/// As in a job of two programs: those that leave it to gx do not wait for it at their exits.
TEST_P(MpiEnds, OneRankMayEndMpiItself) {
    const JobEnd end = mpi_run(GetParam(), 3, "mixed", GetParam(), Folder(), 30);
    EXPECT_EQ(end.status, 0) << end.output;
    for (const std::string& said : end.said) EXPECT_EQ(said, "returned") << end.output;
}
TEST_P(MpiEnds, AnErrorBesideAWorldIsAnnouncedWhileOthersGoOn) {
    const JobEnd end = mpi_run(GetParam(), 2, "throws_beside", GetParam(), Folder(), 30);
    EXPECT_NE(end.status, 124) << "it hung: " << end.output;
    EXPECT_TRUE(holds(end.output, "gx: rank 1 leaves a world by an exception")) << end.output;
    const JobEnd good = run(2, "recovers");
    EXPECT_EQ(good.status, 0) << good.output;
    for (const std::string& said : good.said) EXPECT_EQ(said, "returned") << good.output;
}
TEST_P(MpiEnds, ARankMayCallFinalizeItself) {
    const JobEnd end = mpi_run(GetParam(), 2, "finalizes", GetParam(), Folder(), 30);
    EXPECT_EQ(end.status, 0) << end.output;
}
TEST_P(MpiEnds, BehindFinalizeThereIsNoRun) {
    expect_all(2, "runs_finalized all", "MPI is finalised: call run() before MPI_Finalize");
    const JobEnd end = mpi_run(GetParam(), 2, "runs_finalized one", GetParam(), Folder(), 50);
    EXPECT_TRUE(holds(end.output, "gx: rank 1 calls MPI_Finalize where ranks have failed, or "))
        << end.output;
    // where a rank leaves before run(), MPICH's mpiexec ends with 0 at times (README)
    if (std::string(GetParam().name) != "Mpich") {
        EXPECT_NE(end.status, 0) << end.output;
    }
    EXPECT_NE(end.status, 124) << "it hung: " << end.output;
    EXPECT_TRUE(holds(end.said[0], "rank 1 on host ", " left before run()")) << end.said[0];
}
TEST_P(MpiEnds, AChildOfARankIsNone) {
    expect_all(2, "forks", "returned");
    const JobEnd end = run(2, "forks_in_a_run");
    EXPECT_EQ(end.status, 0) << end.output;
    for (const std::string& said : end.said) EXPECT_EQ(said, "returned") << end.output;
    for (const char* const why :
         {"it has returned from the rank's function", "a child can't go on"})
        EXPECT_TRUE(holds(end.output, std::string("gx: a child by fork() of rank 1 ends: ") + why +
                                          ". A child of a rank ends by _exit() or exec"))
            << end.output;
}
TEST_P(MpiEnds, WithoutThreadsARankEndsInOrder) {
    const JobEnd end = mpi_run(GetParam(), 2, "lacks_threads run", GetParam(), Folder(), 30);
    EXPECT_NE(end.status, 124) << "it hung: " << end.output;
    for (const std::string& said : end.said)
        EXPECT_TRUE(holds(said, "a thread can't be made: Resource temporarily unavailable"))
            << said;
    expect_all(2, "lacks_threads leave", "returned");
    expect_all(2, "lacks_threads exit", "returned");
}
TEST_P(MpiEnds, ASignalAtTheEndOfARunEndsTheProcess) {
    const JobEnd end = mpi_run(GetParam(), 2, "signalled", GetParam(), Folder(), 30);
    EXPECT_NE(end.status, 0) << end.output;
    EXPECT_NE(end.status, 124) << "it hung: " << end.output;
    EXPECT_NE(end.said[1], "a second run") << end.output;
}
TEST_P(MpiEnds, RunsInItselfByNoMeans) {
    expect_error(2, "in_itself", "run() of this world is called inside of its own run()");
}

}  // namespace
