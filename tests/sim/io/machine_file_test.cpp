#include <gx/sim/io/machine_file.hpp>  // first, so the header is seen to stand alone

#include <filesystem>  // a folder of the test's own
#include <fstream>     // files
#include <string>      // sentences

#include <gtest/gtest.h>

#include <gx/sim/catalog/comm_stacks.hpp>  // find_profile
#include <sim/support/known_machines.hpp>  // known_machines

namespace {

namespace fs = std::filesystem;
using gx::sim::find_or_read_machine;

/// A file of this text, for as long as the test runs.
class Written {
public:
    Written(const std::string& name, const std::string& text)
        : path_(fs::path(::testing::TempDir()) / ("machine_file_" + name)) {
        std::ofstream(path_) << text;
    }
    ~Written() { fs::remove(path_); }
    Written(const Written&) = delete;
    Written& operator=(const Written&) = delete;
    [[nodiscard]] std::string path() const { return path_.string(); }

private:
    fs::path path_;
};
std::string refusal(const std::string& name_or_file) {
    try {
        (void)find_or_read_machine(name_or_file);
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}
const std::string one_gpu =
    R"(<system version="1"><cpu arch="x86_64" vendor="GenuineIntel" modelid="85">
<pci busid="0000:11:00.0" link_speed="8 GT/s" link_width="16"><gpu dev="0" sm="70"/></pci>
</cpu></system>)";

// ---- Cases worked by hand -----------------------------------------------------------
TEST(MachineFile, ReadsWhatTheNameSays) {
    const Written json("a.json", R"({"name": "ours", "gpu": "K80", "nic_gbps": 10})");
    const Written xml("b.xml", one_gpu);
    EXPECT_EQ(find_or_read_machine("p3.16xlarge").gpus, 8);
    EXPECT_EQ(find_or_read_machine(json.path()).name.view(), "ours");
    EXPECT_EQ(find_or_read_machine(json.path()).gpu.name, gx::sim::k80().name);
    EXPECT_EQ(find_or_read_machine(xml.path()).name.view(), "machine_file_b");
    EXPECT_EQ(find_or_read_machine(xml.path()).gpu.name, gx::sim::v100().name);
}

TEST(MachineFile, AClusterStatesItsNetworkAndAMachineDoesNot) {
    using gx::sim::states_network;
    gx::sim::ClusterSpec c{.machine = gx::sim::find_machine("p3.16xlarge")};
    EXPECT_FALSE(states_network(c));
    c.machines = 4;
    EXPECT_FALSE(states_network(c)) << "a count says nothing of it";
    c.machines = 1;
    c.profile = gx::sim::find_profile("ib-edr");
    EXPECT_TRUE(states_network(c)) << "of one machine too";
    c.profile = {};
    c.latency = gx::Nanoseconds(1);
    EXPECT_TRUE(states_network(c));
}
TEST(MachineFile, AClusterFileKeepsItsNetwork) {
    const Written cluster("e.json",
                          R"({"machine": {"name": "ours", "gpu": "K80", "nic_gbps": 0.1,
                              "host_gb_per_s": 12}, "machines": 4, "latency_us": 50,
                              "flow_cap_gbps": 0.05})");
    const Written machine("f.json", R"({"name": "ours", "gpu": "K80", "nic_gbps": 10})");
    const auto read = gx::sim::find_or_read_cluster(cluster.path());
    EXPECT_EQ(read.machines, 4);
    EXPECT_EQ(read.latency.count(), 50'000);
    EXPECT_DOUBLE_EQ(read.flow_cap.count, 0.05e9 / 8);
    EXPECT_DOUBLE_EQ(read.nic_rate().count, 0.1e9 / 8);
    for (const std::string& one : {machine.path(), std::string("p3.16xlarge")}) {
        EXPECT_EQ(gx::sim::find_or_read_cluster(one).machines, 1);
        EXPECT_EQ(gx::sim::find_or_read_cluster(one).machine.gpus, find_or_read_machine(one).gpus);
    }
}

// ---- Bad input ----------------------------------------------------------------------
TEST(MachineFile, NamesTheFileAndWhatIsWrongInIt) {
    const Written json("c.json", R"({"gpu": "K80", "nic": 10})");
    const Written xml("d.xml", one_gpu + "\n<gpu/>");
    EXPECT_EQ(refusal(json.path()),
              json.path() + ": line 1: field 'nic' has no unit: write 'nic_gbps'");
    const Written cluster("g.json", R"({"machine": {"gpu": "K80", "nic_gbps": 0,
                                         "host_gb_per_s": 12}, "machines": 2})");
    const Written text("h.json", "{");
    for (const Written* bad : {&cluster, &text}) {
        try {
            (void)gx::sim::find_or_read_cluster(bad->path());
            ADD_FAILURE() << bad->path();
        } catch (const gx::Error& e) {
            EXPECT_EQ(std::string(e.what()).find(bad->path() + ": "), 0u) << e.what();
        }
    }
    EXPECT_EQ(refusal(xml.path()),
              xml.path() + ": line 4: not XML: a second element follows the first");
    EXPECT_EQ(refusal("nowhere/ours.json"),
              "file 'nowhere/ours.json' cannot be read. Name a file that exists and is readable.");
    EXPECT_EQ(refusal("p3.16xlage"),
              "unknown machine 'p3.16xlage': did you mean 'p3.16xlarge'? (known are " +
                  testing_support::known_machines() + ")");
    const Written other("i.txt", "{}");
    EXPECT_EQ(refusal(other.path()),
              "unknown machine '" + other.path() +
                  "', though there is a file of that name: a machine file's name ends in .json, or "
                  "in .xml as NCCL dumps it. Rename it, or name a known machine.");
    EXPECT_EQ(gx::sim::find_or_read_machine("p3.16xlarge").name, "p3.16xlarge");
    const fs::path folder = fs::path(::testing::TempDir()) / "machine_file_folder.json";
    fs::create_directory(folder);
    EXPECT_EQ(refusal(folder.string()),
              "file '" + folder.string() + "' is a folder. Name a file in it.");
    fs::remove(folder);
    for (const char* extension : {".json", ".xml"}) {
        const fs::path endless = fs::path(::testing::TempDir()) / "machine_file_endless";
        fs::create_symlink("/dev/zero", endless.string() + extension);
        EXPECT_EQ(refusal(endless.string() + extension),
                  "file '" + endless.string() + extension +
                      "' is longer than 16777216 bytes. Name a shorter one.");
        fs::remove(endless.string() + extension);
    }
}

}  // namespace
