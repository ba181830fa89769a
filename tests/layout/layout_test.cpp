// The tree keeps its shape: who includes whom, what a header opens with, which test stands beside
// it, how long a line is. Each rule is also tried on a planted violation.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;
using Names = std::set<std::string>;

// ---- The rules -----------------------------------------------------------------------------

// Which parts of gx a part may include, itself aside. Nobody knows the trainer.
const std::map<std::string, Names> may_include{
    {"core", {}},
    {"collective", {"core"}},
    {"reducer", {"core", "collective"}},
    {"model", {"core"}},
    {"scheduler", {"core"}},
    {"optimizer", {"core", "model", "scheduler"}},
    {"loader", {"core", "model"}},
    {"trainer",
     {"core", "collective", "reducer", "model", "scheduler", "optimizer", "loader"}},
    {"testing", {"core", "collective", "reducer", "model", "scheduler", "optimizer", "loader"}},
    {"sim", {"core", "collective", "model", "reducer", "scheduler", "optimizer", "loader"}},
    {"reference", {"core", "collective", "model", "reducer", "scheduler", "optimizer"}},
};
const Names part_of_a_plugin{"core", "model", "collective", "reducer"};

// Libraries that include/gx never sees: they belong to plugins and to the simulator.
const Lines outside_libraries{"oneapi/", "dnnl", "cuda",    "cudnn", "cublas", "nccl",
                              "mpi.h",   "cub/", "thrust/", "torch/", "boost/context"};
const Lines test_libraries{"gtest/", "gmock/", "rapidcheck"};

// Headers whose test is another's, because they only declare, or because one program covers both.
// The value is that test, below the root.
const fs::path exceptions_file = "tests/layout/tested_elsewhere.txt";

constexpr std::size_t columns = 100;

// ---- Reading the tree ----------------------------------------------------------------------

Lines lines_of(const fs::path& file) {
    std::ifstream in(file);
    Lines lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

struct Header {
    fs::path path;     // below the root
    std::string part;  // the folder below gx/
    fs::path name;     // below include/gx/: reducer/ring.hpp
};

std::vector<Header> headers_of(const fs::path& root) {
    std::vector<fs::path> bases{"include/gx", "sims/include/gx", "reference/include/gx"};
    if (fs::exists(root / "plugins")) {
        for (const auto& plugin : fs::directory_iterator(root / "plugins")) {
            bases.push_back(fs::relative(plugin.path() / "include/gx", root));
        }
    }
    std::vector<Header> headers;
    for (const fs::path& base : bases) {
        if (!fs::exists(root / base)) continue;
        for (const auto& entry : fs::recursive_directory_iterator(root / base)) {
            if (entry.path().extension() != ".hpp") continue;
            const fs::path name = fs::relative(entry.path(), root / base);
            headers.push_back({base / name, name.begin()->string(), name});
        }
    }
    std::ranges::sort(headers, {}, &Header::path);
    return headers;
}

bool is_plugin(const Header& h) { return h.path.begin()->string() == "plugins"; }
bool is_core_tree(const Header& h) { return h.path.begin()->string() == "include"; }

// What `#include <what>` or `#include "what"` names; empty on any other line.
std::string included_by(const std::string& line) {
    const std::size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') return {};
    const std::size_t word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos || !line.substr(word).starts_with("include")) return {};
    const std::size_t open = line.find_first_of("<\"", word);
    if (open == std::string::npos) return {};
    const std::size_t close = line.find_first_of(">\"", open + 1);
    return line.substr(open + 1, close - open - 1);
}

bool is_of(const Lines& libraries, const std::string& what) {
    return std::ranges::any_of(libraries, [&](const auto& l) { return what.starts_with(l); });
}

// ---- Checks: each answers a sentence for each violation ---------------------------------------

Lines check_includes(const fs::path& root) {
    Lines said;
    for (const Header& h : headers_of(root)) {
        const auto rule = may_include.find(h.part);
        if (rule == may_include.end() && !is_plugin(h)) {
            said.push_back(h.path.string() + ": '" + h.part + "' is no part of gx that this test "
                           "knows: add it to may_include");
            continue;
        }
        const Names& allowed = is_plugin(h) ? part_of_a_plugin : rule->second;
        for (const std::string& line : lines_of(root / h.path)) {
            const std::string what = included_by(line);
            if (what.empty()) continue;
            if (what.starts_with("gx/")) {
                const std::string part = what.substr(3, what.find('/', 3) - 3);
                if (part != h.part && !allowed.contains(part)) {
                    said.push_back(h.path.string() + ": '" + h.part + "' may not include " + what);
                }
            } else if (is_core_tree(h) && is_of(outside_libraries, what)) {
                said.push_back(h.path.string() + ": include/gx sees no " + what +
                               ": it belongs to a plugin or to sims");
            } else if (h.part != "testing" && is_of(test_libraries, what)) {
                said.push_back(h.path.string() + ": " + what + " belongs to tests");
            }
        }
    }
    return said;
}

Lines check_openings(const fs::path& root) {
    Lines said;
    for (const Header& h : headers_of(root)) {
        const Lines lines = lines_of(root / h.path);
        if (lines.empty() || !lines[0].starts_with("// ")) {
            said.push_back(h.path.string() + ": opens without its line of purpose, '// ...'");
        }
        if (std::ranges::find(lines, "#pragma once") == lines.end()) {
            said.push_back(h.path.string() + ": no '#pragma once'");
        }
    }
    return said;
}

std::map<std::string, std::string> exceptions_of(const fs::path& root) {
    std::map<std::string, std::string> tests;
    for (const std::string& line : lines_of(root / exceptions_file)) {
        if (line.empty() || line[0] == '#') continue;
        const auto colon = line.find(": ");
        if (colon != std::string::npos) tests[line.substr(0, colon)] = line.substr(colon + 2);
    }
    return tests;
}

fs::path test_beside(const Header& h) {
    fs::path name = h.name;
    name.replace_extension();
    name += "_test.cpp";
    if (!is_plugin(h)) return "tests" / name;
    const auto plugin = *std::next(h.path.begin());
    return "plugins" / plugin / "tests" / fs::relative(name, h.part);
}

// Concepts are tested by what models them; detail/ by the header that it is a detail of.
bool needs_no_test(const Header& h) {
    const std::string file = h.path.filename().string();
    return file == "concept.hpp" || file == "fwd.hpp" ||
           std::ranges::find(h.name, fs::path("detail")) != h.name.end();
}

Lines check_tests(const fs::path& root) {
    Lines said;
    const auto exceptions = exceptions_of(root);
    Names seen;
    for (const Header& h : headers_of(root)) {
        if (needs_no_test(h)) continue;
        const fs::path beside = test_beside(h);
        if (fs::exists(root / beside)) continue;
        const auto other = exceptions.find(h.path.string());
        if (other == exceptions.end()) {
            said.push_back(h.path.string() + ": no test at " + beside.string() + ", and none named "
                           "in " + exceptions_file.string());
        } else if (!fs::exists(root / other->second)) {
            said.push_back(h.path.string() + ": its test " + other->second + " is not there");
        } else {
            seen.insert(other->first);
        }
    }
    for (const auto& [header, test] : exceptions) {
        if (!seen.contains(header)) {
            said.push_back(exceptions_file.string() + ": " + header +
                           " is gone or has a test beside it: drop the line");
        }
    }
    return said;
}

std::size_t columns_of(std::string_view line) {
    return static_cast<std::size_t>(std::ranges::count_if(
        line, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

Lines check_columns(const fs::path& root) {
    static const Names kinds{".hpp", ".cpp", ".sh", ".cmake", ".txt", ".cu", ".cuh", ".py"};
    Lines said;
    for (const char* top : {"include", "sims", "reference", "plugins", "examples", "tests",
                            "cmake", "conan", "gx", "CMakeLists.txt", ".ci"}) {
        if (!fs::exists(root / top)) continue;
        std::vector<fs::path> files;
        if (fs::is_regular_file(root / top)) {
            files.push_back(root / top);
        } else {
            for (const auto& e : fs::recursive_directory_iterator(root / top)) {
                if (kinds.contains(e.path().extension().string())) files.push_back(e.path());
            }
        }
        for (const fs::path& file : files) {
            int number = 0;
            for (const std::string& line : lines_of(file)) {
                ++number;
                if (columns_of(line) <= columns) continue;
                said.push_back(fs::relative(file, root).string() + ":" + std::to_string(number) +
                               ": " + std::to_string(columns_of(line)) + " columns");
            }
        }
    }
    std::ranges::sort(said);
    return said;
}

Lines check_readmes(const fs::path& root) {
    Lines said;
    std::vector<fs::path> folders{".", "sims", "reference", "plugins", "examples", "tests"};
    if (fs::exists(root / "plugins")) {
        for (const auto& e : fs::directory_iterator(root / "plugins")) {
            if (e.is_directory()) folders.push_back(fs::relative(e.path(), root));
        }
    }
    for (const fs::path& folder : folders) {
        if (fs::exists(root / folder / "README.md")) continue;
        said.push_back(folder.string() + ": no README.md for who enters here");
    }
    return said;
}

void expect_nothing(const Lines& said) {
    for (const std::string& sentence : said) ADD_FAILURE() << sentence;
}

// ---- This tree --------------------------------------------------------------------------------

const fs::path here = GX_SOURCE_DIR;

TEST(Layout, IsReadAtAll) {
    const auto headers = headers_of(here);
    EXPECT_GT(headers.size(), 30u);
    Names parts;
    for (const Header& h : headers) parts.insert(h.part);
    for (const char* part : {"core", "model", "reducer", "sim", "reference"}) {
        EXPECT_TRUE(parts.contains(part)) << part;
    }
}
TEST(Layout, IncludesPointInward) { expect_nothing(check_includes(here)); }
TEST(Layout, HeadersSayWhatTheyAreFor) { expect_nothing(check_openings(here)); }
TEST(Layout, EveryHeaderHasItsTest) { expect_nothing(check_tests(here)); }
TEST(Layout, LinesFitTheirColumns) { expect_nothing(check_columns(here)); }
TEST(Layout, FoldersHaveAReadme) { expect_nothing(check_readmes(here)); }

// ---- Planted violations -----------------------------------------------------------------------

class Planted : public ::testing::Test {
protected:
    void SetUp() override {
        root_ = fs::temp_directory_path() /
                ("gx_layout_" + std::to_string(getpid()) + "_" +
                 ::testing::UnitTest::GetInstance()->current_test_info()->name());
        fs::remove_all(root_);
    }
    void TearDown() override { fs::remove_all(root_); }

    void plant(const fs::path& file, const std::string& text) const {
        fs::create_directories((root_ / file).parent_path());
        std::ofstream(root_ / file) << text;
    }
    void plant_header(const fs::path& file, const std::string& include) const {
        plant(file, "// Purpose.\n#pragma once\n#include <" + include + ">  // why\n");
    }
    // The one violation that this header with this include is.
    void expect_one(const fs::path& file, const std::string& include) const {
        fs::remove_all(root_);
        plant_header(file, include);
        EXPECT_EQ(check_includes(root_).size(), 1u) << file << " including " << include;
    }
    void expect_none(const fs::path& file, const std::string& include) const {
        fs::remove_all(root_);
        plant_header(file, include);
        expect_nothing(check_includes(root_));
    }

    fs::path root_;
};

TEST_F(Planted, IncludesOfTheWrongDirection) {
    expect_one("include/gx/core/a.hpp", "gx/reducer/ring.hpp");
    expect_one("include/gx/core/a.hpp", "gx/trainer/trainer.hpp");
    expect_one("include/gx/collective/a.hpp", "gx/reducer/ring.hpp");
    expect_one("include/gx/model/a.hpp", "gx/reducer/ring.hpp");
    expect_one("include/gx/reducer/a.hpp", "gx/trainer/trainer.hpp");
    expect_one("include/gx/trainer/a.hpp", "gx/sim/cluster.hpp");
    expect_one("include/gx/trainer/a.hpp", "gx/onednn/device.hpp");
    expect_one("include/gx/trainer/a.hpp", "gx/testing/conformance.hpp");
    expect_one("include/gx/trainer/a.hpp", "oneapi/dnnl/dnnl.hpp");
    expect_one("include/gx/core/a.hpp", "cuda_runtime.h");
    expect_one("include/gx/core/a.hpp", "boost/context/fiber.hpp");
    expect_one("include/gx/core/a.hpp", "gtest/gtest.h");
    expect_one("include/gx/nonsense/a.hpp", "vector");
    expect_one("sims/include/gx/sim/a.hpp", "gx/trainer/trainer.hpp");
    expect_one("reference/include/gx/reference/a.hpp", "gx/sim/cluster.hpp");
    expect_one("plugins/fast/include/gx/fast/a.hpp", "gx/trainer/trainer.hpp");
}
TEST_F(Planted, IncludesOfTheRightDirection) {
    expect_none("include/gx/reducer/a.hpp", "gx/collective/ring.hpp");
    expect_none("include/gx/trainer/a.hpp", "gx/reducer/ring.hpp");
    expect_none("include/gx/testing/a.hpp", "rapidcheck.h");
    expect_none("sims/include/gx/sim/a.hpp", "boost/context/fiber.hpp");
    expect_none("plugins/fast/include/gx/fast/a.hpp", "oneapi/dnnl/dnnl.hpp");
    expect_none("plugins/fast/include/gx/fast/a.hpp", "gx/fast/b.hpp");
}
TEST_F(Planted, HeadersThatOpenWrongly) {
    plant("include/gx/core/a.hpp", "#pragma once\n");
    EXPECT_EQ(check_openings(root_).size(), 1u);
    plant("include/gx/core/a.hpp", "// Purpose.\n");
    EXPECT_EQ(check_openings(root_).size(), 1u);
}
TEST_F(Planted, HeadersWithoutATest) {
    plant_header("include/gx/core/a.hpp", "vector");
    plant_header("plugins/fast/include/gx/fast/b.hpp", "vector");
    EXPECT_EQ(check_tests(root_).size(), 2u);
    plant("tests/core/a_test.cpp", "");
    plant("plugins/fast/tests/b_test.cpp", "");
    expect_nothing(check_tests(root_));
    fs::remove(root_ / "tests/core/a_test.cpp");
    plant(exceptions_file, "# reasons\ninclude/gx/core/a.hpp: tests/core/all_test.cpp\n");
    EXPECT_EQ(check_tests(root_).size(), 2u) << "its test is missing, so the line covers nothing";
    plant("tests/core/all_test.cpp", "");
    expect_nothing(check_tests(root_));
    plant("tests/core/a_test.cpp", "");
    EXPECT_EQ(check_tests(root_).size(), 1u) << "the line is needed no more";
}
TEST_F(Planted, ALineTooLong) {
    plant("include/gx/core/a.hpp", std::string(columns, 'x') + "\n" + std::string(columns, 'x'));
    expect_nothing(check_columns(root_));
    plant("include/gx/core/a.hpp", "\n" + std::string(columns + 1, 'x'));
    EXPECT_EQ(check_columns(root_), Lines{"include/gx/core/a.hpp:2: 101 columns"});
}
TEST_F(Planted, AFolderWithoutReadme) {
    plant("plugins/fast/CMakeLists.txt", "");
    EXPECT_EQ(check_readmes(root_).size(), 7u);
    plant("plugins/fast/README.md", "What it is.\n");
    EXPECT_EQ(check_readmes(root_).size(), 6u);
}

}  // namespace
