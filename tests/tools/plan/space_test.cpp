#include <tools/plan/space.hpp>

#include <algorithm>  // count
#include <fstream>    // machine files
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gx/sim/catalog/cluster_of.hpp>    // cluster_of
#include <gx/sim/catalog/find_machine.hpp>  // find_machine
#include <gx/sim/io/machine_file.hpp>       // to_json
#include <support/files.hpp>                // Folder, error_of, holds
#include <tools/predict/interval.hpp>       // between

namespace {

using gx::sim::ClusterSpec;
using gx::sim::MachineSpec;
using gx::tools::plan::Arguments;
using gx::tools::plan::Inputs;
using gx::tools::plan::space_of;
using testing_support::error_of;
using testing_support::Folder;
using testing_support::holds;

std::string file_of(const Folder& folder, const MachineSpec& m) {
    const auto path = folder.path / (std::string(m.name.view()) + ".json");
    std::ofstream(path) << to_json(m);
    return path.string();
}
Arguments of(std::vector<std::string> machines) {
    Arguments o;
    o.machines = std::move(machines);
    return o;
}
/// What is said of that, a line each.
std::string said_of(const std::string& what, const Inputs& inputs) {
    std::string text;
    for (const auto& i : inputs)
        if (i.of == what) text += i.text + "\n";
    return text;
}
std::string network_of(const Arguments& o) {
    Inputs inputs;
    (void)space_of(o, inputs);
    return said_of("network", inputs);
}

// ---- The network that candidates are timed on -----------------------------------------
TEST(SpaceOf, ACopyOfAMachineUnderAnotherNameHasItsNetwork) {
    const Folder folder;
    for (const auto make : gx::sim::machine_makers) {
        MachineSpec m = make();
        const std::string known(m.name.view());
        m.name = "ours";
        Inputs inputs;
        Arguments o = of({known, file_of(folder, m)});
        o.most_gpus = 2 * m.gpus;
        const auto all = space_of(o, inputs).clusters;
        ASSERT_EQ(all.size() % 2, 0u);
        for (std::size_t i = 0, half = all.size() / 2; i < half; ++i) {
            const ClusterSpec &a = all[i], &b = all[half + i];
            ASSERT_EQ(a.machine.name.view(), known);
            ASSERT_EQ(b.machine.name.view(), "ours");
            EXPECT_EQ(a.profile.name, b.profile.name) << known;
            EXPECT_EQ(a.message_latency(gx::sim::LinkClass::net),
                      b.message_latency(gx::sim::LinkClass::net));
            EXPECT_EQ(a.connection_cap(), b.connection_cap()) << known;
            EXPECT_EQ(gx::tools::predict::between(a), gx::tools::predict::between(b)) << known;
        }
        EXPECT_EQ(std::ranges::count(said_of("network", inputs), '\n'), 1)
            << known << ": both are assumed to have one network";
    }
}
// ---- Counts of machines ----------------------------------------------------------------
TEST(SpaceOf, CountsArePowersOfTwoTheLargestAndThatOfTheFile) {
    const Folder folder;
    ClusterSpec three = gx::sim::cluster_of("p3.16xlarge", 3);
    three.name = "ours";
    const std::string file = folder / "three.json";
    std::ofstream(file) << gx::sim::to_json(three);
    const auto counts = [&](const std::string& machine, int most_gpus, std::vector<int> count) {
        Arguments o = of({machine});
        o.most_gpus = most_gpus;
        o.counts = std::move(count);
        Inputs inputs;
        std::vector<int> found;
        for (const ClusterSpec& c : space_of(o, inputs).clusters) found.push_back(c.machines);
        return found;
    };
    EXPECT_EQ(counts("p3.16xlarge", 64, {}), (std::vector{1, 2, 4, 8}));
    EXPECT_EQ(counts("p3.16xlarge", 63, {}), (std::vector{1, 2, 4, 7}));
    EXPECT_EQ(counts("p3.16xlarge", 48, {}), (std::vector{1, 2, 4, 6}));
    EXPECT_EQ(counts("p3.16xlarge", 8, {}), std::vector{1});
    EXPECT_EQ(counts(file, 64, {}), (std::vector{1, 2, 3, 4, 8}));
    EXPECT_EQ(counts(file, 16, {}), (std::vector{1, 2}));
    EXPECT_EQ(counts("p3.16xlarge", 64, {12, 5, 5}), (std::vector{5, 12}));
}
TEST(SpaceOf, SaysWhichCountsWereConsidered) {
    Arguments o = of({"p3.16xlarge", "p3.2xlarge"});
    o.most_gpus = 48;
    Inputs inputs;
    (void)space_of(o, inputs);
    EXPECT_EQ(said_of("counts of machines", inputs),
              "powers of two, those of cluster files and the largest, all of at most 48 GPUs "
              "(others by --count)\n");
    o.counts = {5};
    inputs.clear();
    (void)space_of(o, inputs);
    EXPECT_EQ(said_of("counts of machines", inputs), "");
}
/// Its one pass over the memory of a machine's CPU ranks is what other documents recommend.
TEST(SpaceOf, SaysHowSharedMemoryIsTimed) {
    Arguments o = of({"p3.2xlarge"});
    Inputs inputs;
    (void)space_of(o, inputs);
    EXPECT_EQ(said_of("SharedMemory", inputs), "");
    o.served = true;
    (void)space_of(o, inputs);
    EXPECT_NE(said_of("SharedMemory", inputs).find("is not timed"), std::string::npos);
}

TEST(SpaceOf, ANameStatesNoNetwork) {
    const Folder folder;
    MachineSpec m = gx::sim::find_machine("p3.16xlarge");
    m.profile = {};
    Inputs inputs;
    for (const ClusterSpec& c : space_of(of({file_of(folder, m)}), inputs).clusters)
        EXPECT_EQ(c.profile.name.view(), "nccl-2.10");
}
TEST(SpaceOf, SaysWhereNoNetworkStackIsStated) {
    EXPECT_EQ(network_of(of({"p3.16xlarge"})),
              "data sheets of p3.16xlarge, profile nccl-2.10+tcp-aws (another by --profile)\n");
    EXPECT_EQ(network_of(of({"DGX-1V", "p4d.24xlarge"})),
              "data sheets of DGX-1V, profile nccl-2.10 (another by --profile); no network stack "
              "is stated, so that NICs carry their line rate (field 'profile' of a machine file "
              "states one, as nccl-2.10+tcp-aws)\n"
              "data sheets of p4d.24xlarge, profile nccl-2.10+roce-100g (another by --profile)\n");
    Arguments o = of({"p3.16xlarge"});
    o.profile = "nccl-2.5";
    EXPECT_EQ(network_of(o),
              "data sheets of p3.16xlarge, profile nccl-2.5; no network stack is stated, so that "
              "NICs carry their line rate (field 'profile' of a machine file states one, as "
              "nccl-2.10+tcp-aws)\n");
}

// ---- Bad input ----------------------------------------------------------------------
TEST(SpaceOf, NamesTheProfileThatAMachineFileMisspells) {
    const Folder folder;
    MachineSpec m = gx::sim::find_machine("p3.16xlarge");
    m.profile = "nccl-2.10+tcp-asw";
    EXPECT_TRUE(holds(error_of([&] { (void)network_of(of({file_of(folder, m)})); }),
                      "field 'profile': unknown profile 'tcp-asw': did you mean 'tcp-aws'?"));
}

}  // namespace
