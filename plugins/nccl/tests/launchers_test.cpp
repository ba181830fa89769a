// Launchers, where this machine has them: each starts three ranks, which train as threads do; and
// who is named where one of them is killed.
#include <gx/nccl/launched_world.hpp>

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include <support/files.hpp>          // Folder, read_text, holds
#include <testing/processes_run.hpp>  // WithProcesses

namespace {

using namespace testing_support;
using Launchers = WithProcesses;

/// A shell's exit status; its output is `output`.
int shell(const std::string& command, const std::filesystem::path& output) {
    return std::system(("( " + command + " ) > " + output.string() + " 2>&1").c_str());
}
/// The first of the programs whose `--version` has this text; "": none.
std::string find(std::initializer_list<const char*> programs, const std::string& text) {
    const Folder folder;
    for (const std::string program : programs) {
        (void)shell(program + " --version", folder / "version");
        if (read_text(folder / "version").find(text) != std::string::npos) return program;
    }
    return "";
}
std::string rank_program() { return GX_LAUNCHED_RANK; }
/// A port that nobody has now.
std::string free_port() {
    const gx::coordination::Listener listener("tcp:127.0.0.1:0");
    return listener.address().substr(listener.address().rfind(':') + 1);
}

/// `command` starts three ranks of rank_program() with these arguments.
template <class Command>
void expect_trains(const std::string& launcher, Command command) {
    const Folder folder;
    const int status = shell("timeout 200 " + command(folder.path.string()), folder / "output");
    EXPECT_EQ(status, 0) << read_text(folder / "output");
    for (const int r : {0, 1, 2})
        EXPECT_EQ(read_text(folder.path / std::to_string(r)),
                  "rank " + std::to_string(r) + " of 3 by " + launcher + ": the weights of threads")
            << read_text(folder / "output");
}
template <class Command>
void expect_names_killed(Command command) {
    const Folder folder;
    EXPECT_NE(shell("timeout 200 " + command(folder.path.string() + " 1"), folder / "output"), 0);
    for (const int r : {0, 2})
        EXPECT_TRUE(holds(read_text(folder.path / std::to_string(r)),
                          "rank " + std::to_string(r) + ", step ", ", bucket ", "operation ",
                          ": rank 1 is lost: "))
            << read_text(folder / "output");
}

/// `command` lets the others run on where one dies.
template <class Command>
void expect_goes_on(const std::string& launcher, Command command) {
    const Folder folder;
    (void)shell("timeout 200 " + command(folder.path.string() + " 1 on"), folder / "output");
    for (const int r : {0, 2})
        EXPECT_EQ(read_text(folder.path / std::to_string(r)),
                  "rank " + std::to_string(r) + " of 3 by " + launcher +
                      ": went on as one of 2, without rank 1")
            << read_text(folder / "output");
}

TEST_F(Launchers, OpenMpi) {
    const std::string mpirun = find({"mpirun.openmpi", "mpirun"}, "Open MPI");
    if (mpirun.empty()) GTEST_SKIP() << "skipped: there is no mpirun of Open MPI (openmpi-bin)";
    const auto command = [&](const std::string& arguments) {
        return mpirun + " --allow-run-as-root --oversubscribe --bind-to none -n 3 " +
               rank_program() + " " + arguments;
    };
    expect_trains("mpirun", command);
    expect_names_killed(command);
    expect_goes_on("mpirun", [&](const std::string& arguments) {
        return mpirun +
               " --allow-run-as-root --oversubscribe --bind-to none --enable-recovery -n 3 " +
               rank_program() + " " + arguments;
    });
}
TEST_F(Launchers, Mpich) {
    const std::string mpiexec = find({"mpiexec.mpich", "mpiexec.hydra", "mpiexec"}, "HYDRA");
    if (mpiexec.empty()) GTEST_SKIP() << "skipped: there is no mpiexec of MPICH (mpich)";
    const auto command = [&](const std::string& arguments) {
        return mpiexec + " -genv GX_PORT " + free_port() + " -n 3 " + rank_program() + " " +
               arguments;
    };
    expect_trains("mpiexec", command);  // it kills all others with the first: they say nothing
}
TEST_F(Launchers, Torchrun) {
    const char* const given = std::getenv("GX_TORCHRUN");
    const std::string torchrun =
        given != nullptr ? given : find({"torchrun"}, "[--no-python]");  // its usage
    if (torchrun.empty())
        GTEST_SKIP() << "skipped: there is no torchrun of PyTorch 2 or newer (pip install torch; "
                        "GX_TORCHRUN names it)";
    const auto command = [&](const std::string& arguments) {
        return torchrun + " --standalone --no-python --nproc-per-node 3 " + rank_program() + " " +
               arguments;
    };
    expect_trains("torchrun", command);
    expect_names_killed(command);
}
TEST_F(Launchers, Srun) {
    const Folder folder;
    std::string cluster;  // the one that this machine is of, or one of it alone
    if (shell("timeout 20 srun -n 1 true", folder / "none") != 0) {
        cluster = GX_SLURM_RUN " -- ";
        const int status = shell("timeout 60 " + cluster + "srun -n 1 true", folder / "output");
        if (WEXITSTATUS(status) == 77) GTEST_SKIP() << read_text(folder / "output");
        ASSERT_EQ(status, 0) << read_text(folder / "output");
    }
    const auto command = [&](const std::string& arguments) {
        return cluster + "srun -n 3 --overcommit " + rank_program() + " " + arguments;
    };
    expect_trains("srun", command);
    expect_names_killed(command);
}
/// What srun sets, by hand.
TEST_F(Launchers, AnEnvironmentAsOfSrun) {
    const std::string port = free_port();
    const auto command = [&](const std::string& arguments) {
        std::string text = "sh -c 'pids=; status=0; ";
        for (const std::string r : {"0", "1", "2"})
            text +=
                "SLURM_PROCID=" + r + " SLURM_NTASKS=3 SLURM_LOCALID=" + r +
                " SLURM_STEP_NODELIST=localhost SLURM_JOB_ID=7 SLURM_STEP_ID=0 GX_PORT=" + port +
                " " + rank_program() + " " + arguments + " & pids=\"$pids $!\"; ";
        return text + "for p in $pids; do wait $p || status=1; done; exit $status'";
    };
    expect_trains("srun", command);
    expect_names_killed(command);
    expect_goes_on("srun", command);
}
TEST_F(Launchers, NoneIsNamed) {
    const Folder folder;
    EXPECT_NE(shell("env -i " + rank_program() + " " + folder.path.string(), folder / "output"), 0);
    EXPECT_TRUE(holds(read_text(folder / "unknown"), "no launcher has started this process",
                      "Start it by torchrun --no-python, mpirun or srun"));
}

}  // namespace
