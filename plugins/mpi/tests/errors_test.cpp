// Errors of ranks of an mpi::World, under both MPIs' launchers: which ranks say what.
#include "mpi_run.hpp"

namespace {

using namespace gx::mpi_tests;
using testing_support::Folder;
using testing_support::holds;
using testing_support::read_text;

class MpiErrors : public OnMpi {};
INSTANTIATE_TEST_SUITE_P(Both, MpiErrors, both_mpis, name_of_mpi);

TEST_P(MpiErrors, ARankThatThrowsStopsAllWithItsError) {
    for (const int thrower : {0, 1}) {
        const std::string rank = std::to_string(thrower);
        const JobEnd end = run(3, "throw " + rank);
        EXPECT_NE(end.status, 0);
        for (const int r : {0, 1, 2}) {
            const std::string& said = end.said[static_cast<std::size_t>(r)];
            if (r == thrower) EXPECT_EQ(said, "the disk is full");
            else
                EXPECT_TRUE(holds(said, "the disk is full. This is the error of rank " + rank,
                                  "Rank " + std::to_string(r) + " was stopped in step "))
                    << said << end.output;
        }
    }
}
TEST_P(MpiErrors, MoreRanksThanImagesAreNamed) {
    expect_error(3, "few", "3 ranks and 2 training images");
}
/// A folder that only rank 0 can't make, and a file that it can't write: all know which, and whose.
TEST_P(MpiErrors, OutputThatRankZeroCannotWriteIsNamed) {
    expect_error(2, "output none", "/file/none", "ot a directory");
    expect_error(2, "output full", "epoch-0001.safetensors");
}
TEST_P(MpiErrors, AnotherCompositionIsNamed) {
    expect_error(3, "composition", "the composition of rank 1 is '", "DoubleBuffered",
                 "that of rank 0 is '", "Bucketed");
}
TEST_P(MpiErrors, OtherTermsAreNamed) {
    expect_error(3, "terms 4", "the seed of rank 1 is '4', that of rank 0 is '3'");
}
TEST_P(MpiErrors, OtherCheckpointsAreNamed) {
    expect_error(2, "resume weights", "the option resume (a hash of its weights) of rank 1 is '",
                 "that of rank 0 is '");
    expect_error(2, "resume over",
                 "the option resume (the step of the checkpoint) of rank 1 is 'not given'");
}
/// Shorter and longer than expected, eager and by a handshake. Open MPI does not report one of a
/// handshake that is longer: it copies all of it, and may crash, which names a lost rank.
TEST_P(MpiErrors, MessagesOfAnotherLengthNameBothRanks) {
    const auto expected = [](const std::string& bytes) {
        return "rank 1, in step 7, bucket 3, operation all-reduce, expected a message of " + bytes +
               " bytes from rank 0 on channel 0, and got ";
    };
    expect_error(2, "lengths 64 128", expected("128"), "one of 64");
    expect_error(2, "lengths 128 64", expected("64"), "a longer one");
    expect_error(2, "lengths 2000000 3000000", expected("3000000"), "one of 2000000");
    if (std::string(GetParam().name) == "Mpich")
        expect_error(2, "lengths 3000000 2000000", expected("2000000"), "a longer one");
}
TEST_P(MpiErrors, MessagesOfAnotherBucketNameBothRanks) {
    expect_error(2, "buckets 4 3",
                 "rank 0 sends bucket 4 of step 7 where rank 1 receives bucket 3 of step 7, on "
                 "channel 0");
    EXPECT_EQ(run(2, "buckets 3 -1").said[1], "returned") << "a receive of no bucket";
    EXPECT_EQ(run(2, "buckets -1 3").said[1], "returned") << "a message of no bucket";
}
TEST_P(MpiErrors, ReducersThatSkipOrRepeatAReductionAreNamedAtOnce) {
    expect_error(3, "bucket skips", "where rank", "bucket 0 of step 4", "bucket 0 of step 3");
    expect_error(3, "bucket repeats", "where rank", "bucket 0 of step 4", "bucket 0 of step 3");
}
TEST_P(MpiErrors, AChannelThatIsNoTag) { expect_error(1, "channel", "channel -1 is no tag of"); }
TEST_P(MpiErrors, ARankThatHasReturnedIsNotWaitedFor) {
    const JobEnd end = run(2, "left");
    EXPECT_NE(end.status, 0) << end.output;
    EXPECT_NE(end.status, 124) << "it hung: " << end.output;
    EXPECT_TRUE(holds(end.said[0], "rank 0 (host ", ") has returned, and rank 1 waited for it"))
        << end.output;
    EXPECT_TRUE(holds(end.said[1], "rank 0 timed out")) << end.output;
}
/// MPI does not name the rank that is missing in its own collective; the waits-for graph does.
TEST_P(MpiErrors, NamesTheRankThatIsNotInACollectiveOfMpi) {
    expect_error(3, "collective", "rank 1", " timed out");
}
/// Also to the rank that is late itself, and waits.
TEST_P(MpiErrors, ADeadlineNamesTheRankThatIsWaitedFor) {
    for (const int waits : {0, 1})
        expect_error(2, "late " + std::to_string(waits), "rank " + std::to_string(1 - waits),
                     " timed out");
}
TEST_P(MpiErrors, ARankThatLeavesBeforeRunIsNamed) {
    const testing_support::Folder folder;
    testing_support::write_text(
        folder / "rank.sh", "\"$@\"; status=$?; echo $status > " + (folder / "ended-").string() +
                                "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; exit $status\n");
    const std::string wrapper =
        std::string(GetParam().wrapper) + " sh " + (folder / "rank.sh").string();
    Mpi mpi = GetParam();
    mpi.wrapper = wrapper.c_str();
    const JobEnd end = mpi_run(mpi, 3, "early", mpi, folder);
    if (std::string(mpi.name) == "OpenMpi") {
        EXPECT_NE(end.status, 0) << end.output;
    } else {  // whose mpiexec ended with 0 in 6 of 60 such jobs, and lets each rank end by itself
        for (const auto& [rank, status] :
             {std::pair{"ended-0", "1\n"}, {"ended-1", "0\n"}, {"ended-2", "1\n"}})
            EXPECT_EQ(read_text(folder / rank), status) << rank;
    }
    EXPECT_EQ(end.said[1], "left");
    expect_first(end, {end.said[0], end.said[2]}, "rank 1 on host ", " left before run()");
}
/// Its error ends the process, which does not wait in MPI_Finalize for the rank that stays away,
/// nor in a function that waits in MPI.
TEST_P(MpiErrors, ARankThatMakesNoWorldEndsTheJob) {
    for (const std::string in : {"MPI_Comm_idup", "MPI_Init_thread", "MPI_Comm_split_type"}) {
        const JobEnd end = mpi_run(GetParam(), 2, "absent " + in, GetParam(), Folder(), 30);
        EXPECT_NE(end.status, 0) << end.output;
        EXPECT_NE(end.status, 124) << "it hung: " << end.output;
        if (in == "MPI_Comm_idup")
            EXPECT_TRUE(holds(end.said[0], "not all ranks came to MPI_Comm_idup within 1000 ms"))
                << end.said[0] << end.output;
        else
            EXPECT_TRUE(holds(end.output, "gx: rank 0 has waited for 1000 ms in " + in +
                                              ", in operation meeting of all ranks"))
                << end.output;
    }
}
TEST_P(MpiErrors, DeadlinesMayBeTheLongestTime) { expect_all(2, "endless", "returned"); }
/// The inner world leaves signals, and the launcher's end, to the outer one.
TEST_P(MpiErrors, AWorldInsideOfAnothersRun) {
    expect_all(2, "inside",
               "signal 0, not handled; signal 15, handled; signal 15, handled; "
               "signal 0, not handled");
}
TEST_P(MpiErrors, DoesNotRunAfterAnError) {
    const JobEnd end = run(2, "again");
    for (const std::string& said : end.said)
        EXPECT_TRUE(holds(said, "the first error", " | a rank of this world has failed",
                          "resume from a checkpoint"))
            << end.output;
}

}  // namespace
