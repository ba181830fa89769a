// mpi_run(): starts an MPI job of the test's ranks under one MPI's own launcher, and reads what its
// ranks have written.
#pragma once

#include <chrono>   // jobs that hang
#include <cstdlib>  // system
#include <fstream>  // a file in the way
#include <string>   // commands
#include <utility>  // around a command
#include <vector>   // ranks

#include <gtest/gtest.h>

#include <support/files.hpp>          // Folder, read_text, holds
#include <testing/processes_run.hpp>  // WithProcesses

#if !defined(GX_MPI_RANK_OPENMPI)
#define GX_MPI_RANK_OPENMPI ""
#endif
#if !defined(GX_MPI_RANK_MPICH)
#define GX_MPI_RANK_MPICH ""
#endif

namespace gx::mpi_tests {

/// How a job ended: what each rank wrote, and what came to stdout and stderr.
struct JobEnd {
    int status = 0;
    std::vector<std::string> said{};  ///< [rank]
    std::string output{};
};

/// An MPI and its launcher, as Debian names them.
struct Mpi {
    const char *name, *launcher, *options, *wrapper, *program;
    friend void PrintTo(const Mpi& mpi, std::ostream* out) { *out << mpi.name; }
};
/// Ranks run as root in containers, and more of them than there are cores. Open MPI binds up to two
/// ranks to a core each, which their streams would share. Hydra kills the sessions of all ranks
/// with the first that dies: each rank gets another one.
inline constexpr Mpi open_mpi{"OpenMpi", "mpirun.openmpi",
                              "--allow-run-as-root --oversubscribe --bind-to none", "",
                              GX_MPI_RANK_OPENMPI};
inline constexpr Mpi mpich{"Mpich", "mpiexec.mpich", "", "setsid --wait", GX_MPI_RANK_MPICH};

/// Runs `arguments` of the rank program, as "mode more": the folder comes second. A job that hangs
/// is ended after `seconds`, with status 124. `around`: the command of the shell that holds it.
inline JobEnd mpi_run(const Mpi& mpi, int ranks, const std::string& arguments, const Mpi& by,
                      const testing_support::Folder& folder, int seconds = 200,
                      std::pair<std::string, std::string> around = {}) {
    const testing_support::Folder outside;
    std::ofstream(folder / "file") << "no folder";
    const std::size_t space = arguments.find(' ');
    const std::string more = space == arguments.npos ? "" : arguments.substr(space);
    const std::string command = "( " + around.first + "ASAN_OPTIONS=detect_leaks=0 timeout -k 5 " +
                                std::to_string(seconds) + " " + by.launcher + " " + by.options +
                                " -n " + std::to_string(ranks) + " " + by.wrapper + " " +
                                mpi.program + " " + arguments.substr(0, space) + " " +
                                folder.path.string() + more + around.second + " ) > " +
                                (outside / "output").string() + " 2>&1 < /dev/null";
    JobEnd end;
    const auto begin = std::chrono::steady_clock::now();
    const int status = std::system(command.c_str());
    end.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    // `timeout` returns 137 where it had to kill, as a launcher does whose rank was killed.
    const bool in_time = std::chrono::steady_clock::now() - begin < std::chrono::seconds(seconds);
    if (!in_time) end.status = 124;
    for (int r = 0; r < ranks; ++r)
        end.said.push_back(testing_support::read_text(folder.path / std::to_string(r)));
    end.output = testing_support::read_text(outside / "output");
    return end;
}

inline JobEnd mpi_run(const Mpi& mpi, int ranks, const std::string& arguments) {
    return mpi_run(mpi, ranks, arguments, mpi, testing_support::Folder());
}

/// Tests of each MPI; skipped where it is not installed.
class OnMpi : public testing_support::WithProcesses, public ::testing::WithParamInterface<Mpi> {
protected:
    void SetUp() override {
        WithProcesses::SetUp();
        if (IsSkipped()) return;
        if (std::string(GetParam().program).empty())
            GTEST_SKIP() << "skipped: the tests are not built for " << GetParam().name;
        if (!installed(GetParam())) GTEST_SKIP() << "skipped: there is no " << GetParam().launcher;
    }
    [[nodiscard]] static bool installed(const Mpi& mpi) {
        const std::string look = std::string("command -v ") + mpi.launcher + " > /dev/null 2>&1";
        return std::system(look.c_str()) == 0;
    }
    [[nodiscard]] JobEnd run(int ranks, const std::string& arguments) const {
        return mpi_run(GetParam(), ranks, arguments);
    }
    /// All ranks return, and each has written `text`.
    void expect_all(int ranks, const std::string& arguments, const std::string& text) const {
        const JobEnd end = run(ranks, arguments);
        EXPECT_EQ(end.status, 0) << end.output;
        for (int r = 0; r < ranks; ++r)
            EXPECT_EQ(end.said[static_cast<std::size_t>(r)], text)
                << "rank " << r << " of " << ranks << "\n"
                << end.output;
    }
    /// All ranks end with an error that holds these.
    template <class... Parts>
    void expect_error(int ranks, const std::string& arguments, const Parts&... parts) const {
        const JobEnd end = run(ranks, arguments);
        EXPECT_NE(end.status, 0) << end.output;
        EXPECT_NE(end.status, 124) << "it hung: " << end.output;
        for (int r = 0; r < ranks; ++r)
            EXPECT_TRUE(testing_support::holds(end.said[static_cast<std::size_t>(r)], parts...))
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
            EXPECT_TRUE(testing_support::holds(text, parts...)) << text << "\n" << end.output;
        }
        EXPECT_TRUE(any) << end.output;
    }
};
inline const auto both_mpis = ::testing::Values(open_mpi, mpich);
inline std::string name_of_mpi(const ::testing::TestParamInfo<Mpi>& info) {
    return info.param.name;
}

}  // namespace gx::mpi_tests
