// How an mpi::World is started: launchers, Slurm, communicators, thread levels, addresses.
#include "mpi_run.hpp"

namespace {

using namespace gx::mpi_tests;
using testing_support::Folder;
using testing_support::holds;
using testing_support::read_text;

class MpiStart : public OnMpi {
protected:
    [[nodiscard]] std::string other_mpi() const {
        return std::string(GetParam().name) == "Mpich" ? "Open MPI" : "MPICH";
    }
};
INSTANTIATE_TEST_SUITE_P(Both, MpiStart, both_mpis, name_of_mpi);

TEST_P(MpiStart, WithoutLargeFilesRanksShareNoMemory) {
    const JobEnd end = run(2, "small_files");
    EXPECT_EQ(end.status, 0) << end.output;
    for (const std::string& said : end.said)
        EXPECT_TRUE(holds(said, "ranks share no memory")) << said << end.output;
}
TEST_P(MpiStart, CommunicatorsThatAreNoWorldAreRefused) {
    for (const auto& [kind, why] :
         {std::pair{"communicator null", "MPI_COMM_NULL has no processes"},
          {"communicator inter", "MPI_Intercomm_merge"}})
        for (const std::string& said : run(2, kind).said) EXPECT_TRUE(holds(said, why)) << said;
}
TEST_P(MpiStart, MeetsAtAnAddressOfIpv6) {
    std::string interfaces;
    if (!std::getline(std::ifstream("/proc/net/if_inet6"), interfaces))
        GTEST_SKIP() << "skipped: this machine has no address of IPv6";
    for (const char* host : {"host ::1", "host [::1]", "host 127.0.0.1"})
        expect_all(2, host, "returned");
}
TEST_P(MpiStart, AHostThatIsNotKnownIsNamed) {
    const JobEnd end = run(2, "host no..host");  // which no name server is asked for
    EXPECT_TRUE(holds(end.said[1], "does not reach rank 0", "'no..host' is not known"))
        << end.said[1] << end.output;
}
TEST_P(MpiStart, ThreadLevelSingleIsRefused) {
    const JobEnd end = run(2, "user single");
    for (const std::string& said : end.said)
        EXPECT_TRUE(holds(said, "has thread level SINGLE", "MPI_THREAD_MULTIPLE")) << said;
}
/// The thread that initialised MPI makes all calls, though the rank and its stream are others.
TEST_P(MpiStart, AtLevelFunneledOneThreadCallsMpi) {
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
TEST_P(MpiStart, TrainsAtLevelFunneledWhoeverInitializesMpi) {
    expect_all(2, "train funneled", "the weights of threads and of a simulated cluster");
    expect_all(3, "train funneled user", "the weights of threads and of a simulated cluster");
    const JobEnd end = run(2, "train funneled user");
    EXPECT_NE(end.output.find("reductions on the rank's own thread, not beside the backward pass"),
              end.output.npos)
        << end.output;
}
TEST_P(MpiStart, TheOtherMpisLauncherIsNamed) {
    const Mpi& mine = GetParam();
    const Mpi& other = std::string(mine.name) == "Mpich" ? open_mpi : mpich;
    if (!installed(other)) GTEST_SKIP() << "skipped: there is no " << other.launcher;
    const JobEnd end = mpi_run(mine, 2, "info", other, Folder());
    EXPECT_NE(end.status, 0);
    expect_first(end, end.said, "has started 2 processes", other_mpi(), "has a world of 1",
                 "Start it by the mpirun of");
}
/// A Slurm of this machine alone; skipped without root or Slurm.
TEST_P(MpiStart, RunsUnderSlurm) {
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
TEST_P(MpiStart, NoLauncherIsNamed) {
    const Folder folder;
    const std::string command = std::string(GetParam().program) + " info " + folder.path.string() +
                                " > " + (folder / "output").string() + " 2>&1";
    EXPECT_NE(std::system(command.c_str()), 0);
    EXPECT_TRUE(holds(read_text(folder / "none"), "no MPI launcher has started this process",
                      "mpirun -n 4 PROGRAM"))
        << read_text(folder / "output");
}

}  // namespace
