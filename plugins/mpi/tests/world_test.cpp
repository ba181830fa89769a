// mpi::World under both MPIs' launchers: bits, training, errors of ranks, and bad input.
#include <limits>
#include <optional>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/mpi/bucket_tags.hpp>

#include "mpi_run.hpp"

namespace {

using namespace gx::mpi_tests;
using testing_support::Folder;
using testing_support::holds;
using testing_support::read_text;

class MpiWorld : public OnMpi {
protected:
    /// All ranks end with an error that holds these.
    template <class... Parts>
    void expect_error(int ranks, const std::string& arguments, const Parts&... parts) const {
        const JobEnd end = run(ranks, arguments);
        EXPECT_NE(end.status, 0) << end.output;
        EXPECT_NE(end.status, 124) << "it hung: " << end.output;
        for (int r = 0; r < ranks; ++r)
            EXPECT_TRUE(holds(end.said[static_cast<std::size_t>(r)], parts...))
                << "rank " << r << "\n"
                << end.output;
    }
    /// One of these ranks says it; each other one too, unless the launcher, which ends all when one
    /// has failed, was there before it.
    template <class... Parts>
    static void expect_first(const JobEnd& end, const std::vector<std::string>& said,
                             const Parts&... parts) {
        bool any = false;
        for (const std::string& text : said) {
            if (text.empty()) continue;
            any = true;
            EXPECT_TRUE(holds(text, parts...)) << text << "\n" << end.output;
        }
        EXPECT_TRUE(any) << end.output;
    }
    /// "36 reducers have the bits of threads": those of the core, and of the plugins of the build.
    static void expect_equal_reductions(const std::string& said, const JobEnd& end) {
        EXPECT_TRUE(said.ends_with(" reducers have the bits of threads")) << said << end.output;
        EXPECT_GE(std::atoi(said.c_str()), 8) << said;
    }
    [[nodiscard]] std::string other_mpi() const {
        return std::string(GetParam().name) == "Mpich" ? "Open MPI" : "MPICH";
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
    EXPECT_EQ(end.output.find(end.said[0]), end.output.rfind(end.said[0])) << "said once";
    EXPECT_NE(end.output.find(end.said[0]), end.output.npos) << end.output;
}

// ---- Errors of ranks ----------------------------------------------------------------------------

TEST_P(MpiWorld, ARankThatThrowsStopsAllWithItsError) {
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
TEST_P(MpiWorld, MoreRanksThanImagesAreNamed) {
    expect_error(3, "few", "3 ranks and 2 training images");
}
/// A folder that only rank 0 can't make, and a file that it can't write: all know which, and whose.
TEST_P(MpiWorld, OutputThatRankZeroCannotWriteIsNamed) {
    expect_error(2, "output none", "/file/none", "ot a directory");
    expect_error(2, "output full", "epoch-0001.safetensors");
}
TEST_P(MpiWorld, AnotherCompositionIsNamed) {
    expect_error(3, "composition", "the composition of rank 1 is '", "DoubleBuffered",
                 "that of rank 0 is '", "Bucketed");
}
TEST_P(MpiWorld, OtherTermsAreNamed) {
    expect_error(3, "terms 4", "the seed of rank 1 is '4', that of rank 0 is '3'");
}
TEST_P(MpiWorld, OtherCheckpointsAreNamed) {
    expect_error(2, "resume weights", "the option resume (a hash of its weights) of rank 1 is '",
                 "that of rank 0 is '");
    expect_error(2, "resume over",
                 "the option resume (the step of the checkpoint) of rank 1 is 'not given'");
}
/// Shorter and longer than expected, eager and by a handshake. Open MPI does not report one of a
/// handshake that is longer: it copies all of it, and may crash, which names a lost rank.
TEST_P(MpiWorld, MessagesOfAnotherLengthNameBothRanks) {
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
TEST_P(MpiWorld, MessagesOfAnotherBucketNameBothRanks) {
    expect_error(2, "buckets 4 3",
                 "rank 0 sends bucket 4 of step 7 where rank 1 receives bucket 3 of step 7, on "
                 "channel 0");
    EXPECT_EQ(run(2, "buckets 3 -1").said[1], "returned") << "a receive of no bucket";
    EXPECT_EQ(run(2, "buckets -1 3").said[1], "returned") << "a message of no bucket";
}
TEST_P(MpiWorld, ReducersThatSkipOrRepeatAReductionAreNamedAtOnce) {
    expect_error(3, "bucket skips", "where rank", "bucket 0 of step 4", "bucket 0 of step 3");
    expect_error(3, "bucket repeats", "where rank", "bucket 0 of step 4", "bucket 0 of step 3");
}
TEST_P(MpiWorld, AChannelThatIsNoTag) { expect_error(1, "channel", "channel -1 is no tag of"); }
TEST_P(MpiWorld, ARankThatHasReturnedIsNotWaitedFor) {
    const JobEnd end = run(2, "left");
    EXPECT_NE(end.status, 0) << end.output;
    EXPECT_NE(end.status, 124) << "it hung: " << end.output;
    EXPECT_TRUE(holds(end.said[0], "rank 0 (host ", ") has returned, and rank 1 waited for it"))
        << end.output;
    EXPECT_TRUE(holds(end.said[1], "rank 0 timed out")) << end.output;
}
/// MPI does not name the rank that is missing in its own collective; the waits-for graph does.
TEST_P(MpiWorld, NamesTheRankThatIsNotInACollectiveOfMpi) {
    expect_error(3, "collective", "rank 1", " timed out");
}
/// Also to the rank that is late itself, and waits.
TEST_P(MpiWorld, ADeadlineNamesTheRankThatIsWaitedFor) {
    for (const int waits : {0, 1})
        expect_error(2, "late " + std::to_string(waits), "rank " + std::to_string(1 - waits),
                     " timed out");
}
TEST_P(MpiWorld, ARankThatLeavesBeforeRunIsNamed) {
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
TEST_P(MpiWorld, ARankThatMakesNoWorldEndsTheJob) {
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
TEST_P(MpiWorld, DeadlinesMayBeTheLongestTime) { expect_all(2, "endless", "returned"); }
/// The inner world leaves signals, and the launcher's end, to the outer one.
TEST_P(MpiWorld, AWorldInsideOfAnothersRun) {
    expect_all(2, "inside",
               "signal 0, not handled; signal 15, handled; signal 15, handled; "
               "signal 0, not handled");
}
TEST_P(MpiWorld, DoesNotRunAfterAnError) {
    const JobEnd end = run(2, "again");
    for (const std::string& said : end.said)
        EXPECT_TRUE(holds(said, "the first error", " | a rank of this world has failed",
                          "resume from a checkpoint"))
            << end.output;
}

// ---- How it ends --------------------------------------------------------------------------------

/// It is a rank that has left, or, in a run, one that is lost, whatever other worlds it has.
TEST_P(MpiWorld, AProcessThatExitsHoldsNoOther) {
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
/// The others wait for it there, and not in MPI_Finalize, which they leave out then.
TEST_P(MpiWorld, ARankThatDiesAtItsExitHoldsNoOtherAndIsNamed) {
    for (const std::string how : {"killed", "quietly"}) {
        const JobEnd end = mpi_run(GetParam(), 3, "dies_at_exit " + how, GetParam(), Folder(), 30);
        EXPECT_NE(end.status, 124) << "it hung: " << end.output;
        EXPECT_TRUE(holds(end.output, "gx: rank 1 (host ", " is lost: its connection ended"))
            << end.output;
    }
}
/// One after the other or side by side, of which each rank has its own order.
TEST_P(MpiWorld, WorldsOfSeveralThreadsEndInAnyOrder) {
    const JobEnd end = mpi_run(GetParam(), 3, "threads", GetParam(), Folder(), 30);
    EXPECT_EQ(end.status, 0) << end.output;
    for (const std::string& said : end.said) EXPECT_EQ(said, "returned") << end.output;
}
/// As in a job of two programs: those that leave it to gx do not wait for it at their exits.
TEST_P(MpiWorld, OneRankMayEndMpiItself) {
    const JobEnd end = mpi_run(GetParam(), 3, "mixed", GetParam(), Folder(), 30);
    EXPECT_EQ(end.status, 0) << end.output;
    for (const std::string& said : end.said) EXPECT_EQ(said, "returned") << end.output;
}
TEST_P(MpiWorld, AnErrorBesideAWorldIsAnnouncedWhileOthersGoOn) {
    const JobEnd end = mpi_run(GetParam(), 2, "throws_beside", GetParam(), Folder(), 30);
    EXPECT_NE(end.status, 124) << "it hung: " << end.output;
    EXPECT_TRUE(holds(end.output, "gx: rank 1 leaves a world by an exception")) << end.output;
    const JobEnd good = run(2, "recovers");
    EXPECT_EQ(good.status, 0) << good.output;
    for (const std::string& said : good.said) EXPECT_EQ(said, "returned") << good.output;
}
TEST_P(MpiWorld, ARankMayCallFinalizeItself) {
    const JobEnd end = mpi_run(GetParam(), 2, "finalizes", GetParam(), Folder(), 30);
    EXPECT_EQ(end.status, 0) << end.output;
}
TEST_P(MpiWorld, BehindFinalizeThereIsNoRun) {
    expect_all(2, "runs_finalized all", "MPI is finalised: call run() before MPI_Finalize");
    const JobEnd end = mpi_run(GetParam(), 2, "runs_finalized one", GetParam(), Folder(), 50);
    EXPECT_TRUE(holds(end.output, "gx: rank 1 calls MPI_Finalize where ranks have failed, or "))
        << end.output;
    EXPECT_NE(end.status, 0) << end.output;
    EXPECT_NE(end.status, 124) << "it hung: " << end.output;
    EXPECT_TRUE(holds(end.said[0], "rank 1 on host ", " left before run()")) << end.said[0];
}
TEST_P(MpiWorld, AChildOfARankIsNone) {
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
TEST_P(MpiWorld, WithoutThreadsARankEndsInOrder) {
    const JobEnd end = mpi_run(GetParam(), 2, "lacks_threads run", GetParam(), Folder(), 30);
    EXPECT_NE(end.status, 124) << "it hung: " << end.output;
    for (const std::string& said : end.said)
        EXPECT_TRUE(holds(said, "a thread can't be made: Resource temporarily unavailable"))
            << said;
    expect_all(2, "lacks_threads leave", "returned");
    expect_all(2, "lacks_threads exit", "returned");
}
TEST_P(MpiWorld, ASignalAtTheEndOfARunEndsTheProcess) {
    const JobEnd end = mpi_run(GetParam(), 2, "signalled", GetParam(), Folder(), 30);
    EXPECT_NE(end.status, 0) << end.output;
    EXPECT_NE(end.status, 124) << "it hung: " << end.output;
    EXPECT_NE(end.said[1], "a second run") << end.output;
}
TEST_P(MpiWorld, RunsInItselfByNoMeans) {
    expect_error(2, "in_itself", "run() of this world is called inside of its own run()");
}

// ---- How it is started --------------------------------------------------------------------------

TEST_P(MpiWorld, WithoutLargeFilesRanksShareNoMemory) {
    const JobEnd end = run(2, "small_files");
    EXPECT_EQ(end.status, 0) << end.output;
    for (const std::string& said : end.said)
        EXPECT_TRUE(holds(said, "ranks share no memory")) << said << end.output;
}
TEST_P(MpiWorld, CommunicatorsThatAreNoWorldAreRefused) {
    for (const auto& [kind, why] :
         {std::pair{"communicator null", "MPI_COMM_NULL has no processes"},
          {"communicator inter", "MPI_Intercomm_merge"}})
        for (const std::string& said : run(2, kind).said) EXPECT_TRUE(holds(said, why)) << said;
}
TEST_P(MpiWorld, MeetsAtAnAddressOfIpv6) {
    std::string interfaces;
    if (!std::getline(std::ifstream("/proc/net/if_inet6"), interfaces))
        GTEST_SKIP() << "skipped: this machine has no address of IPv6";
    for (const char* host : {"host ::1", "host [::1]", "host 127.0.0.1"})
        expect_all(2, host, "returned");
}
TEST_P(MpiWorld, AHostThatIsNotKnownIsNamed) {
    const JobEnd end = run(2, "host no..host");  // which no name server is asked for
    EXPECT_TRUE(holds(end.said[1], "does not reach rank 0", "'no..host' is not known"))
        << end.said[1] << end.output;
}
TEST_P(MpiWorld, ThreadLevelSingleIsRefused) {
    const JobEnd end = run(2, "user single");
    for (const std::string& said : end.said)
        EXPECT_TRUE(holds(said, "has thread level SINGLE", "MPI_THREAD_MULTIPLE")) << said;
}
/// The thread that initialised MPI makes all calls, though the rank and its stream are others.
TEST_P(MpiWorld, AtLevelFunneledOneThreadCallsMpi) {
    const JobEnd one = run(3, "level funneled");
    EXPECT_EQ(one.status, 0) << one.output;
    for (const std::string& said : one.said)
        EXPECT_TRUE(said.starts_with("one thread has called MPI: mpi::AllReduce<fp32> ") &&
                    holds(said, " reducers have the bits of threads",
                          "; MPI is called by the thread that initialised it"))
            << said << one.output;
    const JobEnd end = run(2, "level serialized");
    EXPECT_TRUE(end.said[0].starts_with("threads: ")) << end.said[0] << end.output;
}
TEST_P(MpiWorld, TrainsAtLevelFunneledWhoeverInitializesMpi) {
    expect_all(2, "train funneled", "the weights of threads and of a simulated cluster");
    expect_all(3, "train funneled user", "the weights of threads and of a simulated cluster");
    const JobEnd end = run(2, "train funneled user");
    EXPECT_NE(end.output.find("reductions on the rank's own thread, not beside the backward pass"),
              end.output.npos)
        << end.output;
}
TEST_P(MpiWorld, TheOtherMpisLauncherIsNamed) {
    const Mpi& mine = GetParam();
    const Mpi& other = std::string(mine.name) == "Mpich" ? open_mpi : mpich;
    if (!installed(other)) GTEST_SKIP() << "skipped: there is no " << other.launcher;
    const JobEnd end = mpi_run(mine, 2, "info", other, Folder());
    EXPECT_NE(end.status, 0);
    expect_first(end, end.said, "has started 2 processes", other_mpi(), "has a world of 1",
                 "Start it by the mpirun of");
}
/// A Slurm of this machine alone; skipped without root or Slurm.
TEST_P(MpiWorld, RunsUnderSlurm) {
    Mpi slurm = GetParam();
    const bool is_mpich = std::string(GetParam().name) == "Mpich";
    const std::string srun = "-- srun --overcommit --mpi=", pmi = is_mpich ? "pmi2" : "pmix";
    const std::string right = srun + pmi, wrong = srun + "none";
    slurm.launcher = GX_SLURM_RUN, slurm.wrapper = "";
    Mpi plain = GetParam();
    plain.wrapper = "";
    slurm.options = right.c_str();
    const JobEnd end = mpi_run(plain, 3, "train", slurm, Folder());
    if (end.status == 77) GTEST_SKIP() << end.output;
    EXPECT_EQ(end.status, 0) << end.output;
    for (const std::string& said : end.said)
        EXPECT_EQ(said, "the weights of threads and of a simulated cluster") << end.output;
    if (!is_mpich) return;  // Open MPI itself ends a process of srun without its PMI
    slurm.options = wrong.c_str();
    const JobEnd refused = mpi_run(plain, 2, "info", slurm, Folder());
    EXPECT_NE(refused.status, 0);
    EXPECT_NE(refused.status, 124) << "it hung: " << refused.output;
    for (const std::string& said : refused.said)
        EXPECT_TRUE(holds(said, "srun has started 2 processes (SLURM_NTASKS), and MPICH ",
                          "--mpi=pmi2 MPICH"))
            << said << refused.output;
}
TEST(MpiSlurmScript, BadInputAndTheCommandsStatus) {
    const Folder folder;
    const auto expect = [&](const std::string& arguments, int status, const std::string& said) {
        const std::string output = (folder / "output").string();
        const int end = std::system(
            (std::string(GX_SLURM_RUN) + " " + arguments + " > " + output + " 2>&1").c_str());
        const std::string text = read_text(output);
        if (WEXITSTATUS(end) == 77 && holds(text, "slurm.sh: skipped: ")) return;
        EXPECT_EQ(WEXITSTATUS(end), status) << text;
        EXPECT_EQ(text, said);
    };
    expect("--cpus 0 -- true", 2, "slurm.sh: --cpus: '0' is not a whole number above 0\n");
    expect("--nodes 2 -- true", 2, "slurm.sh: unknown option '--nodes'; --help lists them\n");
    expect("", 2, "slurm.sh: a command is missing: end with -- COMMAND [ARGUMENT...]\n");
    expect("-- sh -c 'echo said; exit 5'", 5, "said\n");
}
TEST_P(MpiWorld, NoLauncherIsNamed) {
    const Folder folder;
    const std::string command = std::string(GetParam().program) + " info " + folder.path.string() +
                                " > " + (folder / "output").string() + " 2>&1";
    EXPECT_NE(std::system(command.c_str()), 0);
    EXPECT_TRUE(holds(read_text(folder / "none"), "no MPI launcher has started this process",
                      "mpirun -n 4 PROGRAM"))
        << read_text(folder / "output");
}

// ---- Tags of buckets ----------------------------------------------------------------------------

gx::MessageBucket bucket_of(std::int64_t step, int index) {
    return gx::MessageBucket({"all-reduce", step, index});
}
constexpr int least_tag_max = 32'767, largest_tag_max = std::numeric_limits<int>::max();

TEST(MpiBucketTags, AreStepAndIndexModuloWhatFits) {
    const gx::mpi::BucketTags narrow(least_tag_max), wide(largest_tag_max);
    EXPECT_EQ(narrow.tag_of({}), 0);
    EXPECT_EQ(narrow.tag_of(bucket_of(0, 0)), 1);
    EXPECT_EQ(narrow.tag_of(bucket_of(1, 2)), 131);
    EXPECT_EQ(narrow.tag_of(bucket_of(254, 127)), 255 * 128);
    EXPECT_EQ(narrow.tag_of(bucket_of(255, 128)), 1);
    EXPECT_EQ(wide.tag_of(bucket_of(1, 2)), 1027);
    EXPECT_EQ(wide.tag_of(bucket_of(2'097'150, 1'023)), 2'097'151 * 1'024);

    EXPECT_EQ(narrow.other_than(bucket_of(1'000, 1), 0), std::nullopt) << "a message of none";
    EXPECT_EQ(narrow.other_than({}, 5), std::nullopt) << "a receive of none";
    const auto other = narrow.other_than(bucket_of(254, 1), narrow.tag_of(bucket_of(256, 0)));
    EXPECT_EQ(other, bucket_of(256, 0)) << "beyond where tags begin anew";
    EXPECT_EQ(narrow.other_than(bucket_of(7, 300), narrow.tag_of(bucket_of(7, 301))),
              bucket_of(7, 301))
        << "beyond the indices of tags";
    EXPECT_EQ(narrow.other_than(bucket_of(2, 1), narrow.tag_of(bucket_of(254, 1))),
              bucket_of(254, 1))
        << "no step is before 0";
}
TEST(MpiBucketTags, TellTheNearestIndex) {
    const gx::mpi::BucketTags narrow(least_tag_max), wide(largest_tag_max);
    for (const auto& [receive, send] : {std::pair{1'024, 1'023}, {1'023, 1'024}, {0, 1'000}}) {
        const int tag = wide.tag_of(bucket_of(7, send));
        EXPECT_EQ(wide.other_than(bucket_of(7, receive), tag), bucket_of(7, send));
    }
    EXPECT_EQ(narrow.other_than(bucket_of(7, 127), narrow.tag_of(bucket_of(7, 128))),
              bucket_of(7, 128));
}
RC_GTEST_PROP(MpiBucketTags, TellTheBucketOfAStepNearby, ()) {
    const int tag_max = *rc::gen::element(least_tag_max, 8'388'607, largest_tag_max);
    const gx::mpi::BucketTags tags(tag_max);
    const auto step = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 36);
    const auto other_step = std::max<std::int64_t>(0, step + *rc::gen::inRange(-127, 128));
    const int index = *rc::gen::inRange(0, 5'000);
    const auto receive = bucket_of(step, index);
    const auto send = bucket_of(other_step, std::max(0, index + *rc::gen::inRange(-63, 64)));
    const int tag = tags.tag_of(send);
    RC_ASSERT(tag > 0 && tag <= tag_max);
    const auto told = tags.other_than(receive, tag);
    RC_ASSERT(told.has_value() == !(send == receive));
    if (told) RC_ASSERT(*told == send);
}

}  // namespace
