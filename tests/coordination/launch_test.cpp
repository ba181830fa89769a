// Launch: recorded environments of each launcher, and sentences for those that are not right.
#include <gx/coordination/launch.hpp>

#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <gx/coordination/socket.hpp>  // every_host
#include <gx/core/error.hpp>

#include <support/files.hpp>  // error_of, holds

namespace {

using namespace gx::coordination;
using testing_support::error_of;
using testing_support::holds;
using Variables = std::map<std::string, std::string>;

std::optional<Launch> launch_of(const Variables& variables) {
    return launch_from([&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
    });
}
std::string refused(const Variables& variables) {
    return error_of([&] { (void)launch_of(variables); });
}
/// `variables` with some of them changed; "-" removes one.
Variables with(Variables variables, const Variables& changes) {
    for (const auto& [name, value] : changes)
        if (value == "-") variables.erase(name);
        else variables[name] = value;
    return variables;
}

// ---- Recorded environments ---------------------------------------------------------------------

// torchrun --no-python --nproc-per-node 2 (PyTorch 2.15).
const Variables torchrun{{"RANK", "1"},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"GROUP_RANK", "0"},
                         {"MASTER_ADDR", "localhost"},
                         {"MASTER_PORT", "35389"},
                         {"TORCHELASTIC_RESTART_COUNT", "0"},
                         {"TORCHELASTIC_RUN_ID", "ff4f5f4d"}};
// mpirun.openmpi -n 3 (Open MPI 4.1.4).
const Variables open_mpi{{"OMPI_COMM_WORLD_RANK", "2"},
                         {"OMPI_COMM_WORLD_SIZE", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                         {"PMIX_NAMESPACE", "3283812353"}};
// mpiexec.mpich -n 3 (MPICH 4.0.2).
const Variables hydra{
    {"PMI_RANK", "0"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "3"}};
// srun -N 3 -n 5 --mpi=pmi2: as recorded with one node (Slurm 22.05.8), and as its manual says.
const Variables slurm{{"SLURM_PROCID", "3"},    {"SLURM_NTASKS", "5"},
                      {"SLURM_LOCALID", "1"},   {"SLURM_STEP_NODELIST", "node[03-05]"},
                      {"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "0"},
                      {"PMI_RANK", "3"},        {"PMI_SIZE", "5"}};

TEST(Launch, ReadsTorchrun) {
    EXPECT_EQ(launch_of(torchrun), (Launch{.launcher = "torchrun",
                                           .rank = 1,
                                           .ranks = 2,
                                           .local_rank = 1,
                                           .local_ranks = 2,
                                           .host = "localhost",
                                           .address = "tcp:localhost:35390",
                                           .listens = "tcp:localhost:35390",
                                           .run_id = "torchrun ff4f5f4d.0"}));
}
TEST(Launch, ReadsOpenMpiOnOneHostWithoutAnAddress) {
    const auto l = launch_of(open_mpi);
    EXPECT_EQ(l->rank, 2);
    EXPECT_EQ(l->ranks, 3);
    EXPECT_EQ(l->local_rank, 2);
    EXPECT_TRUE(l->address.starts_with("tcp:127.0.0.1:2")) << l->address;
    EXPECT_EQ(l->listens, l->address);
    EXPECT_NE(launch_of(with(open_mpi, {{"PMIX_NAMESPACE", "3283812354"}}))->address, l->address)
        << "two jobs of one host meet at ports of their own";
}
TEST(Launch, ReadsHydra) {
    EXPECT_EQ(launch_of(hydra), (Launch{.launcher = "mpiexec",
                                        .rank = 0,
                                        .ranks = 3,
                                        .local_rank = 0,
                                        .local_ranks = 3,
                                        .host = "127.0.0.1",
                                        .address = "tcp:127.0.0.1:29501",
                                        .listens = "tcp:127.0.0.1:29501",
                                        .run_id = "mpiexec "}));
}
TEST(Launch, ReadsSlurm) {
    const auto l = launch_of(slurm);
    EXPECT_EQ(l->launcher, "srun") << "that it sets PMI_RANK does not make it Hydra";
    EXPECT_EQ(l->rank, 3);
    EXPECT_EQ(l->ranks, 5);
    EXPECT_EQ(l->local_rank, 1);
    EXPECT_EQ(l->local_ranks, -1);
    EXPECT_TRUE(l->address.starts_with("tcp:node03:2")) << l->address;
    EXPECT_TRUE(l->listens.starts_with("tcp:" + every_host() + ":2"))
        << "the name of a host may mean its loopback interface there: " << l->listens;
    EXPECT_EQ(l->run_id, "srun 4711.0.");
}
TEST(LocalRank, IsThatOfTheLauncherAlone) {
    const auto of = [](const Variables& variables) {
        return local_rank_from([&](const char* name) -> const char* {
            const auto found = variables.find(name);
            return found == variables.end() ? nullptr : found->second.c_str();
        });
    };
    EXPECT_EQ(of({}), std::nullopt);
    EXPECT_EQ(of({{"RANK", "5"}, {"LOCAL_RANK", "1"}}), 1);
    EXPECT_EQ(of({{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "2"}}), 2);
    EXPECT_EQ(of({{"PMI_RANK", "5"}, {"MPI_LOCALRANKID", "3"}}), 3);
    EXPECT_EQ(of({{"SLURM_PROCID", "5"}, {"SLURM_LOCALID", "1"}, {"SLURM_STEP_NODELIST", "n1"}}),
              1);
    EXPECT_EQ(of({{"SLURM_PROCID", "0"}}), std::nullopt) << "the script of a job";
    EXPECT_EQ(of({{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}), std::nullopt) << "the same";
    EXPECT_TRUE(holds(error_of([&] { (void)of({{"RANK", "5"}, {"LOCAL_RANK", "one"}}); }),
                      "LOCAL_RANK is 'one'", "a rank on this host"));
}
TEST(Launch, AnInnerLauncherCounts) {
    EXPECT_EQ(launch_of(with(slurm, open_mpi))->launcher, "mpirun");
    EXPECT_EQ(launch_of(with(slurm, hydra))->launcher, "mpiexec");
    EXPECT_EQ(launch_of(with(slurm, torchrun))->launcher, "torchrun");
}
TEST(Launch, ThereMayBeNone) {
    EXPECT_EQ(launch_of({}), std::nullopt);
    EXPECT_EQ(launch_of({{"MASTER_ADDR", "a"}, {"SLURM_JOB_ID", "1"}}), std::nullopt);
}

// ---- Addresses ---------------------------------------------------------------------------------

TEST(Launch, ThePortMayBeGiven) {
    for (const Variables& v : {torchrun, open_mpi, hydra, slurm})
        EXPECT_TRUE(launch_of(with(v, {{"GX_PORT", "4000"}}))->address.ends_with(":4000"));
    EXPECT_TRUE(launch_of(with(hydra, {{"MASTER_PORT", "4000"}}))->address.ends_with(":4001"));
    EXPECT_TRUE(launch_of(with(torchrun, {{"MASTER_PORT", "-"}}))->address.ends_with(":29501"));
}
TEST(Launch, TheHostMayBeGiven) {
    const auto far = launch_of(with(hydra, {{"MASTER_ADDR", "10.0.0.7"}}));
    EXPECT_EQ(far->address, "tcp:10.0.0.7:29501");
    EXPECT_EQ(far->listens, "tcp:" + every_host() + ":29501");
    const auto v6 = launch_of(with(hydra, {{"MASTER_ADDR", "fe80::7"}}));
    EXPECT_EQ(launch_of(with(hydra, {{"MASTER_ADDR", "[fe80::7]"}})), v6);
    EXPECT_EQ(v6->address, "tcp:[fe80::7]:29501");
    EXPECT_EQ(v6->listens, far->listens);
    EXPECT_TRUE(holds(launch_of(with(torchrun, {{"MASTER_ADDR", "-"}}))->address, "127.0.0.1"));
    EXPECT_TRUE(holds(launch_of(with(slurm, {{"MASTER_ADDR", "a.b"}}))->address, "tcp:a.b:"));
}
TEST(Launch, AListOfHostsHasAFirstOne) {
    const std::vector<std::pair<std::string, std::string>> cases{
        {"node1", "node1"},
        {"node[03-05,9]", "node03"},
        {"a,b[1-2]", "a"},
        {"rack[1-2]node[007,9],x", "rack1node007"},
        {"gpu-[1-3].site.org", "gpu-1.site.org"},
        {"n[5]", "n5"}};
    for (const auto& [list, first] : cases) EXPECT_EQ(first_host(list), first) << list;
    for (const char* const bad :
         {"", ",", "a,", ",a", "a[", "a[]", "a[1", "a[1-]", "a[-1]", "a[2-1]", "a[1,,2]", "a]b",
          "a b", "a[x-y]", "a[1-2-3]", "a[1][", "a/b"})
        EXPECT_TRUE(holds(error_of([&] { (void)first_host(bad); }), "SLURM_STEP_NODELIST is '"))
            << bad;
}

// ---- Bad input ---------------------------------------------------------------------------------

TEST(Launch, NamesTheVariableThatIsNotRight) {
    struct Case {
        Variables variables;
        std::string sentence;
    };
    const std::vector<Case> cases{
        {with(torchrun, {{"RANK", "2"}}),
         "RANK is '2': expected a rank of 2 (WORLD_SIZE), a number from 0 to 1"},
        {with(torchrun, {{"RANK", "one"}}), "RANK is 'one': expected a rank"},
        {with(torchrun, {{"RANK", ""}}), "RANK is ''"},
        {with(torchrun, {{"RANK", "+1"}}), "RANK is '+1'"},
        {with(torchrun, {{"RANK", " 1"}}), "RANK is ' 1'"},
        {with(torchrun, {{"RANK", "-"}}), "RANK is not set, and WORLD_SIZE is '2'"},
        {with(torchrun, {{"WORLD_SIZE", "-"}}), "WORLD_SIZE is not set, and RANK is '1'"},
        {with(torchrun, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE is '0': expected the number of ranks"},
        {with(torchrun, {{"WORLD_SIZE", "99999999999999999999"}}), "WORLD_SIZE is '9999"},
        {with(torchrun, {{"LOCAL_RANK", "2"}}),
         "LOCAL_RANK is '2': expected a rank on this host of 2 (LOCAL_WORLD_SIZE)"},
        {with(torchrun, {{"RANK", "0"}}), "LOCAL_RANK is '1': expected at most RANK, which is 0"},
        {with(torchrun, {{"LOCAL_WORLD_SIZE", "3"}}),
         "LOCAL_WORLD_SIZE is '3': expected the ranks"},
        {with(torchrun, {{"MASTER_PORT", "65535"}}), "MASTER_PORT is '65535': expected the port"},
        {with(torchrun, {{"GX_PORT", "0"}}), "GX_PORT is '0': expected a free port"},
        {with(torchrun, {{"MASTER_ADDR", ""}}), "MASTER_ADDR is ''"},
        {with(torchrun, {{"MASTER_ADDR", "a b"}}), "MASTER_ADDR is 'a b'"},
        {with(torchrun, {{"MASTER_ADDR", "[fe80::7"}}), "MASTER_ADDR is '[fe80::7'"},
        {with(torchrun, {{"MASTER_ADDR", "a:29500"}}),
         "MASTER_ADDR is 'a:29500': expected the name or the IP address of the host of rank 0, and "
         "its port as MASTER_PORT"},
        {with(open_mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}),
         "MASTER_ADDR is not set, and OMPI_COMM_WORLD_LOCAL_SIZE is '2' of 3"},
        {with(open_mpi, {{"OMPI_COMM_WORLD_SIZE", "-"}}), "OMPI_COMM_WORLD_SIZE is not set"},
        {with(hydra, {{"PMI_RANK", "-"}}), "PMI_RANK is not set"},
        {with(hydra, {{"PMI_SIZE", "x"}}), "PMI_SIZE is 'x'"},
        {with(torchrun, {{"RANK", "1x"}}), "RANK is '1x': expected a rank"},
        {with(slurm, {{"SLURM_STEP_NODELIST", "-"}}), "Start the program by srun"},
        {with(slurm, {{"SLURM_STEP_NODELIST", "node[3-"}}), "a bracket is not closed"},
        {with(slurm, {{"SLURM_PROCID", "5"}}), "SLURM_PROCID is '5'"},
        {with(slurm, {{"SLURM_LOCALID", "-1"}}), "SLURM_LOCALID is '-1'"}};
    for (const Case& c : cases)
        EXPECT_TRUE(holds(refused(c.variables), c.sentence))
            << refused(c.variables) << "\n  instead of " << c.sentence;
}

/// Whatever one variable holds: a launch that holds together, or a sentence that names a variable.
TEST(Launch, MalformedValuesAreNamed) {
    const std::vector<Variables> all{torchrun, open_mpi, hydra, slurm};
    EXPECT_TRUE(rc::check([&] {
        Variables v = *rc::gen::elementOf(all);
        const std::string name = *rc::gen::elementOf([&] {
            std::vector<std::string> names{"GX_PORT", "MASTER_PORT", "MASTER_ADDR"};
            for (const auto& [n, value] : v) names.push_back(n);
            return names;
        }());
        std::string value = *rc::gen::oneOf(
            rc::gen::container<std::string>(rc::gen::elementOf(std::string("0129-[],ax .:"))),
            rc::gen::map(rc::gen::inRange(-3, 70000), [](int n) { return std::to_string(n); }),
            rc::gen::string<std::string>());
        value = value.c_str();  // what an environment can hold
        v[name] = value;
        try {
            const Launch l = launch_of(v).value();
            RC_ASSERT(l.rank >= 0 && l.rank < l.ranks);
            RC_ASSERT(l.local_rank < (l.local_ranks < 0 ? l.ranks : l.local_ranks));
            RC_ASSERT(l.address.starts_with("tcp:") && l.listens.starts_with("tcp:"));
        } catch (const gx::Error& e) {
            RC_ASSERT(holds(e.what(), " is '") || holds(e.what(), "is not set"));
        }
    }));
}

}  // namespace
