// The name of a processor: hand-worked texts of /proc/cpuinfo, and this machine's own.
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "../../../sims/support/cpu_name.hpp"

namespace {

std::string name_in(const std::string& cpuinfo) {
    std::istringstream in(cpuinfo);
    return gx::cpu_name(in);
}
const std::string hidden =
    "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\nflags\t\t: fpu "
    "model : 3\n";

TEST(CpuName, IsTheModelsName) {
    EXPECT_EQ(name_in("cpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC 9R14\n"),
              "AMD EPYC 9R14");
    EXPECT_EQ(name_in(""), "unknown");
    EXPECT_EQ(name_in("BogoMIPS\t: 50.00\n:\n"), "unknown") << "of an ARM core";
    EXPECT_EQ(name_in("model name\t: AMD EPYC\n"), "AMD EPYC");
    EXPECT_EQ(name_in("model name\t:\n"), "unknown");
}
TEST(CpuName, HasFamilyAndModelWhereItHasNoNumber) {
    EXPECT_EQ(name_in(hidden), "AMD EPYC, family 25, model 17");
    EXPECT_EQ(name_in(hidden + "\nprocessor\t: 1\nmodel\t\t: 1\n"), "AMD EPYC, family 25, model 17")
        << "the first core's";
}
TEST(CpuName, IsTheSameInPython) {
    const auto tests = std::filesystem::path(__FILE__).parent_path() / "../..";
    const std::string command =
        "cd " + tests.string() + " && python3 -B -c 'import cpu_name; print(cpu_name.cpu_name())'";
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    std::string said(200, '\0');
    said.resize(std::fread(said.data(), 1, said.size(), pipe));
    EXPECT_EQ(::pclose(pipe), 0);
    EXPECT_EQ(said, gx::cpu_name() + "\n");
}

}  // namespace
