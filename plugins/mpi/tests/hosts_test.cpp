// mpi::World on several hosts: network namespaces of this machine, joined by links of limited rate.
// Skipped without root.
#include "mpi_run.hpp"

#include <numeric>

namespace {

using namespace gx::mpi_tests;
using testing_support::Folder;
using testing_support::holds;
using testing_support::read_text;

/// A folder that the hosts share: they have no /dev/shm in common.
struct SharedFolder : Folder {
    SharedFolder() {
        std::filesystem::remove_all(path);
        path = std::filesystem::temp_directory_path() / path.filename();
        std::filesystem::create_directories(path);
    }
};

/// Runs hosts.sh with these arguments; `output`: both its stdout and its stderr.
JobEnd run_hosts(const std::string& arguments, const Folder& folder) {
    const std::string output = (folder / "output").string();
    const int status = std::system(
        ("timeout -k 5 100 " GX_NETNS_HOSTS " " + arguments + " > " + output + " 2>&1 < /dev/null")
            .c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, {}, read_text(output)};
}

class MpiHosts : public OnMpi {
protected:
    /// Runs ranks on hosts. Where this machine can't make hosts, the status is 77.
    [[nodiscard]] JobEnd on_hosts(const std::vector<int>& ranks, const std::string& mode) const {
        const std::string mpi = std::string(GetParam().name) == "Mpich" ? "mpich" : "openmpi";
        const SharedFolder folder, outside;
        std::ofstream(folder / "file") << "no folder";
        std::string of_each;
        for (const int n : ranks) of_each += (of_each.empty() ? "" : ",") + std::to_string(n);
        JobEnd end = run_hosts("--hosts " + std::to_string(ranks.size()) + " --rate 200 --mpi " +
                                   mpi + " --ranks " + of_each + " -- " + GetParam().program + " " +
                                   mode + " " + folder.path.string(),
                               outside);
        for (int r = 0; r < std::accumulate(ranks.begin(), ranks.end(), 0); ++r)
            end.said.push_back(read_text(folder.path / std::to_string(r)));
        return end;
    }
    /// A rank on each of three hosts. Returns why this machine can't make hosts; "": it can.
    [[nodiscard]] std::string expect_all(const std::string& mode, const std::string& text) const {
        const JobEnd end = on_hosts({1, 1, 1}, mode);
        if (end.status == 77) return end.output;
        EXPECT_EQ(end.status, 0) << end.output;
        for (const std::string& said : end.said) EXPECT_EQ(said, text) << end.output;
        return "";
    }
};
INSTANTIATE_TEST_SUITE_P(Both, MpiHosts, both_mpis, name_of_mpi);

#define EXPECT_ON_HOSTS(mode, text) \
    if (const std::string lacks = expect_all(mode, text); !lacks.empty()) GTEST_SKIP() << lacks

/// The interface of each host carries the reducer's bytes, and at most a quarter more: no library
/// takes the hosts for one node, or sends another way.
TEST_P(MpiHosts, EachIsANodeWhoseInterfaceCarriesTheReducersBytes) {
    EXPECT_ON_HOSTS("wire", "3 nodes, and the interface carried the bytes of Ring<fp32>");
}
TEST_P(MpiHosts, RanksOfOneMachineAreOneNode) {
    for (const std::string& said : run(3, "wire").said) EXPECT_EQ(said, "1 node");
}
/// Debian's MPICH 4.0.2 may hang in MPI_Finalize where several ranks a host exchanged long
/// messages, a program without gx too: a rank that waits there is ended, with another status.
TEST_P(MpiHosts, RanksOfEachHostShareMemory) {
    const JobEnd end = on_hosts({2, 2}, "levels");
    if (end.status == 77) GTEST_SKIP() << end.output;
    if (!holds(end.output, "in MPI_Finalize")) {
        EXPECT_EQ(end.status, 0) << end.output;
    }
    for (const std::string& said : end.said)
        EXPECT_EQ(said, "2 hosts of 2 ranks, the bits of threads") << end.output;
    EXPECT_TRUE(holds(end.output, "ranks of a host share memory, on pages of ")) << end.output;
}
/// The deadline is 10 minutes.
TEST_P(MpiHosts, NameTheRankThatIsMissedInTheMemoryOfAHost) {
    const JobEnd end = on_hosts({2, 2}, "last_leaves");
    if (end.status == 77) GTEST_SKIP() << end.output;
    for (int r = 0; r < 3; ++r)
        EXPECT_TRUE(holds(end.said[std::size_t(r)], "misses rank 3, ", "rank 3 ")) << end.output;
}
TEST_P(MpiHosts, MayHaveUnequalNumbersOfRanks) {
    const JobEnd end = on_hosts({1, 3, 1}, "reductions");
    if (end.status == 77) GTEST_SKIP() << end.output;
    EXPECT_EQ(end.status, 0) << end.output;
    for (const std::string& said : end.said)
        EXPECT_TRUE(holds(said, " reducers have the bits of threads")) << said << end.output;
    EXPECT_TRUE(holds(end.output, "host0: 1, host1: 3, host2: 1")) << end.output;
}
TEST_P(MpiHosts, TrainsAsThreads) {
    EXPECT_ON_HOSTS("train", "the weights of threads and of a simulated cluster");
}

/// What it refuses before it makes anything; without root too.
TEST(MpiHostsScript, BadInput) {
    const Folder folder;
    const auto expect = [&](const std::string& arguments, const std::string& sentence) {
        const JobEnd end = run_hosts(arguments, folder);
        EXPECT_EQ(end.status, 2) << end.output;
        EXPECT_EQ(end.output, "hosts.sh: " + sentence + "\n");
    };
    expect("--hosts 1 --rate 100 -- true", "--hosts: '1' is not a whole number from 2 to 16");
    expect("--hosts 17 --rate 100 -- true", "--hosts: '17' is not a whole number from 2 to 16");
    expect("--hosts 010 --rate 100 -- true", "--hosts: '010' is not a whole number from 2 to 16");
    expect("--hosts 4 --rate 100 --slow 02:50 -- true",
           "--slow: '02' is not a whole number from 0 to 3");
    expect("--hosts 4 --rate 0 -- true", "--rate: '0' is not a whole number from 1 to 10000");
    expect("--hosts 4 -- true", "--rate: '' is not a whole number from 1 to 10000");
    expect("--hosts 4 --rate 100 --leaf 2 -- true", "--leaf and --trunk: give both");
    expect("--hosts 4 --rate 100 --leaf 4 --trunk 9 -- true",
           "--leaf: '4' is not a whole number from 1 to 3");
    expect("--hosts 4 --rate 100 --slow 50 -- true", "--slow: '50' is not HOST:MBIT");
    expect("--hosts 4 --rate 100 --slow 4:50 -- true",
           "--slow: '4' is not a whole number from 0 to 3");
    expect("--hosts 4 --rate 100 --mpi lam -- true", "--mpi: 'lam' is neither openmpi nor mpich");
    expect("--hosts 4 --rate 100 --ranks 2 -- true", "--ranks: give --mpi too");
    expect("--hosts 4 --rate 100 --mpi mpich --ranks 0 -- true",
           "--ranks: '0' is not a whole number from 1 to 64");
    expect("--hosts 4 --rate 100 --mpi mpich --ranks 1,2,1 -- true",
           "--ranks: give one number, or one for each of 4 hosts");
    expect("--hosts 4 --rate 100 --speed 9 -- true", "unknown option '--speed'; --help lists them");
    expect("--hosts 4 --rate", "--rate: a value is missing");
    expect("--hosts 4 --rate 100", "a program is missing: end with -- PROGRAM [ARGUMENT...]");
}
TEST(MpiHostsScript, ReturnsItsProgramsStatus) {
    const Folder folder;
    const JobEnd end = run_hosts(
        "--hosts 2 --rate 100 -- bash -c 'hostname; ip -o -4 addr show eth0; exit 5'", folder);
    if (end.status == 77) {
        EXPECT_TRUE(holds(end.output, "hosts.sh: skipped: ")) << end.output;
        GTEST_SKIP() << end.output;
    }
    EXPECT_EQ(end.status, 5) << end.output;
    EXPECT_TRUE(holds(end.output, "host0\n", "10.77.0.1/24")) << end.output;
}
/// Not behind its program, which takes a minute.
TEST(MpiHostsScript, EndsByASignal) {
    const SharedFolder folder;
    const std::string started = (folder / "started").string(),
                      output = (folder / "output").string();
    const int status = std::system(
        (GX_NETNS_HOSTS " --hosts 2 --rate 100 -- sh -c 'echo > " + started + "; sleep 60' > " +
         output + " 2>&1 < /dev/null & pid=$!; until [ -e " + started +
         " ] || ! kill -0 $pid; do sleep 0.1; done; kill -TERM $pid; wait $pid")
            .c_str());
    if (holds(read_text(output), "hosts.sh: skipped: ")) GTEST_SKIP() << read_text(output);
    EXPECT_EQ(WEXITSTATUS(status), 143) << read_text(output);
    EXPECT_EQ(read_text(output), "") << "no line of the shell about what was killed";
}

}  // namespace
