// The tree keeps its shape: include directions and cycles, folder sizes, one meaning for a type
// name, opening lines, a test beside each header, columns. Each rule is tried on a violation.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;
using Names = std::set<std::string>;

// ---- The rules -----------------------------------------------------------------------------

// Which parts of gx a part may include, itself aside. No part includes the trainer.
const Names roles{"core",      "collective", "io",      "loader",    "model",
                  "optimizer", "reducer",    "reflect", "scheduler", "threads"};
const std::map<std::string, Names> may_include{
    {"core", {}},
    {"reflect", {"core"}},
    {"threads", {"core"}},
    {"io", {"core", "reflect"}},
    {"report", {"core", "io"}},
    {"collective", {"core"}},
    {"reducer", {"core", "reflect", "collective"}},
    {"model", {"core"}},
    {"scheduler", {"core"}},
    {"optimizer", {"core", "model", "scheduler"}},
    {"loader", {"core", "io", "model"}},
    {"trainer",
     {"core", "reflect", "io", "report", "collective", "reducer", "model", "scheduler", "optimizer",
      "loader"}},
    {"testing", roles},
    {"reference", {"core", "collective", "model", "reducer", "scheduler", "optimizer"}},
};

// The rooms of the simulator, from the bottom up, and which rooms each may include. Beside them a
// room may include the parts in `known_to_rooms`.
const std::map<std::string, Names> rooms{
    {"des", {}},
    {"hardware", {}},
    {"network", {"des"}},
    {"catalog", {"hardware"}},
    {"compute", {"hardware"}},
    {"topology", {"hardware", "network", "des"}},
    {"timing", {"des", "hardware", "network", "topology", "compute"}},
    {"world", {"des", "hardware", "network", "topology", "compute"}},
    {"fault", {"des", "hardware", "network", "topology", "world"}},
    {"race", {"des", "world"}},
    {"elastic", {"des", "hardware", "network", "topology", "world", "fault"}},
    {"io", {"catalog", "hardware"}},
    {"testing", {"des", "hardware", "catalog", "network", "topology", "world", "race"}},
};
const Names known_to_rooms{"core",    "reflect",   "io",        "collective", "model",
                           "reducer", "scheduler", "optimizer", "loader",     "testing"};

// A name that stands for more than one public type: a role (its concept, its archetype and what
// models it), a collective and the reducer that executes it, or one shape (Rows: ranks, elements).
const Names shared_names{
    "Clock", "Device", "Loader",    "Model",     "Optimizer",       "Reducer",      "Ring",
    "Tree",  "Stream", "Scheduler", "Transport", "HalvingDoubling", "Hierarchical", "Rows"};

constexpr std::size_t headers_in_a_folder = 25;
const Names part_of_a_plugin{"core", "model", "collective", "reducer"};

// Libraries that include/gx never sees: they belong to plugins and to the simulator.
const Lines outside_libraries{"oneapi/", "dnnl", "cuda",    "cudnn",  "cublas",       "nccl",
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

// The part that `name`, a path below gx/, lies in: its first folder, or sim/ROOM in the simulator.
std::string part_of(const fs::path& name) {
    const std::string top = name.begin()->string();
    const auto second = std::next(name.begin());
    if (top != "sim" || std::next(second) == name.end()) return top;
    return top + "/" + second->string();
}

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
            const fs::path kind = entry.path().extension();
            if (kind != ".hpp" && kind != ".ipp") continue;
            const fs::path name = fs::relative(entry.path(), root / base);
            headers.push_back({base / name, part_of(name), name});
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

// The implementation of a header that is compiled once or included at the header's end.
bool is_implementation(const Header& h) { return h.path.extension() == ".ipp"; }

// What `part` may include; none when the part is unknown.
std::optional<Names> allowed_for(const Header& h) {
    if (is_plugin(h)) return part_of_a_plugin;
    if (h.part.starts_with("sim/")) {
        const auto room = rooms.find(h.part.substr(4));
        if (room == rooms.end()) return std::nullopt;
        Names allowed = known_to_rooms;
        for (const std::string& other : room->second) allowed.insert("sim/" + other);
        return allowed;
    }
    const auto rule = may_include.find(h.part);
    return rule == may_include.end() ? std::nullopt : std::optional(rule->second);
}

// ---- Checks: each returns a sentence for each violation ---------------------------------------

Lines check_includes(const fs::path& root) {
    Lines said;
    for (const Header& h : headers_of(root)) {
        const auto allowed = allowed_for(h);
        if (!allowed) {
            said.push_back(h.path.string() + ": '" + h.part +
                           "' is no part of gx that this test "
                           "knows: add it to may_include or to rooms");
            continue;
        }
        for (const std::string& line : lines_of(root / h.path)) {
            const std::string what = included_by(line);
            if (what.empty()) continue;
            if (what.starts_with("gx/")) {
                const std::string part = part_of(what.substr(3));
                if (part != h.part && !allowed->contains(part)) {
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

// Include cycles among headers, each named once by its members. An .ipp belongs to its header: what
// it includes counts as its own, and its header's include of it closes no cycle.
struct CycleSearch {
    std::map<std::string, Lines> includes;  // gx/... -> gx/...
    std::map<std::string, int> state;       // 1 on the path, 2 done
    Lines path, said;

    void visit(const std::string& name) {
        state[name] = 1;
        path.push_back(name);
        for (const std::string& next : includes[name]) {
            if (state[next] == 0) {
                visit(next);
            } else if (state[next] == 1) {
                std::string cycle = "include cycle:";
                for (auto at = std::ranges::find(path, next); at != path.end(); ++at) {
                    cycle += " " + *at;
                }
                said.push_back(cycle);
            }
        }
        path.pop_back();
        state[name] = 2;
    }
};

Lines check_cycles(const fs::path& root) {
    CycleSearch search;
    for (const Header& h : headers_of(root)) {
        if (is_implementation(h)) continue;
        Lines& includes = search.includes["gx/" + h.name.string()];
        for (const std::string& line : lines_of(root / h.path)) {
            const std::string what = included_by(line);
            if (what.starts_with("gx/") && what.ends_with(".hpp")) includes.push_back(what);
        }
    }
    Lines names;
    for (const auto& [name, includes] : search.includes) names.push_back(name);
    for (const std::string& name : names) {
        if (search.state[name] == 0) search.visit(name);
    }
    return search.said;
}

Lines check_folders(const fs::path& root) {
    std::map<fs::path, std::size_t> headers;
    for (const Header& h : headers_of(root)) ++headers[h.path.parent_path()];
    Lines said;
    for (const auto& [folder, count] : headers) {
        if (count <= headers_in_a_folder) continue;
        said.push_back(folder.string() + ": " + std::to_string(count) + " headers, at most " +
                       std::to_string(headers_in_a_folder) + ": split it by responsibility");
    }
    return said;
}

// The types that `file` defines at the level of a namespace that is no detail.
Names public_types_of(const fs::path& file) {
    static const std::regex opens(R"(^(?:inline )?namespace ?([\w:]*) ?\{)");
    static const std::regex defines(
        R"(^(?:template <.*> )?(?:class|struct|enum class|enum|concept|using) )"
        R"((?:\[\[\w+\]\] |GX_COLD )?(\w+)(.*)$)");
    Names types;
    Lines spaces;
    for (const std::string& line : lines_of(file)) {
        std::smatch match;
        if (std::regex_search(line, match, opens)) {
            spaces.push_back(match[1]);
        } else if (line.starts_with("}  // namespace") && !spaces.empty()) {
            spaces.pop_back();
        } else if (std::regex_match(line, match, defines)) {
            const bool hidden = std::ranges::any_of(
                spaces, [](const auto& s) { return s.find("detail") != std::string::npos; });
            const std::string rest = match[2];
            const bool specialised =
                rest.starts_with("<") || rest.starts_with(";") || rest.starts_with("::");
            const bool alias = line.starts_with("using") || line.find(" using ") != line.npos;
            if (hidden || specialised || (alias && !rest.starts_with(" ="))) continue;
            types.insert(match[1]);
        }
    }
    return types;
}

Lines check_type_names(const fs::path& root) {
    std::map<std::string, Lines> headers;
    for (const Header& h : headers_of(root)) {
        for (const std::string& type : public_types_of(root / h.path)) {
            headers[type].push_back(h.path.string());
        }
    }
    Lines said;
    for (const auto& [type, where] : headers) {
        if (where.size() < 2 || shared_names.contains(type)) continue;
        std::string sentence = "two public types are called " + type + ":";
        for (const std::string& header : where) sentence += " " + header;
        said.push_back(sentence);
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
    return file == "concept.hpp" || file == "fwd.hpp" || is_implementation(h) ||
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
            said.push_back(h.path.string() + ": no test at " + beside.string() +
                           ", and none named "
                           "in " +
                           exceptions_file.string());
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
    for (const char* top : {"include", "sims", "reference", "plugins", "examples", "tests", "cmake",
                            "conan", "gx", "CMakeLists.txt", ".ci"}) {
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

// A plugin has a README, a CMakeLists.txt that calls gx_plugin, headers below its own name and a
// test. One with reducers lists each header of them in tests/reducers.hpp: from that list
// gx_plugin runs them on threads and on a simulated cluster. The function makes both worlds, so a
// plugin that calls gx_header_library or gx_tests by itself may miss one.
Lines check_plugins(const fs::path& root) {
    Lines said;
    if (!fs::exists(root / "plugins")) return said;
    for (const auto& e : fs::directory_iterator(root / "plugins")) {
        if (!e.is_directory()) continue;
        const fs::path plugin = fs::relative(e.path(), root);
        const std::string name = plugin.filename().string();
        const auto says = [&](const std::string& what) {
            said.push_back(plugin.string() + ": " + what);
        };
        if (!fs::exists(e.path() / "README.md")) says("no README.md");
        bool calls = false;
        for (const std::string& line : lines_of(e.path() / "CMakeLists.txt")) {
            calls |= line.starts_with("gx_plugin(" + name);
            for (const char* part : {"gx_tests(", "gx_header_library(", "gx_compile_fail("}) {
                if (line.find(part) != std::string::npos)
                    says(std::string("CMakeLists.txt calls ") + part + "...): gx_plugin does");
            }
        }
        if (!calls) says("CMakeLists.txt does not call gx_plugin(" + name + " ...)");
        bool has_test = false;
        if (fs::exists(e.path() / "tests")) {
            for (const auto& file : fs::recursive_directory_iterator(e.path() / "tests"))
                has_test |= file.path().filename().string().ends_with("_test.cpp");
        }
        if (!has_test) says("no test tests/*_test.cpp");
        if (!fs::exists(e.path() / "include/gx" / name)) says("no headers in include/gx/" + name);
        Names listed;
        for (const std::string& line : lines_of(e.path() / "tests/reducers.hpp"))
            listed.insert(included_by(line));
        for (const Header& h : headers_of(root)) {
            if (!is_plugin(h) || *std::next(h.path.begin()) != name) continue;
            for (const std::string& line : lines_of(root / h.path)) {
                if (line.find("ReduceReport all_reduce(") == std::string::npos &&
                    line.find("public CollectiveReducer<") == std::string::npos) {
                    continue;
                }
                if (!listed.contains("gx/" + h.name.string()))
                    says("tests/reducers.hpp does not list the reducer of gx/" + h.name.string() +
                         ", so it runs in no world");
                break;
            }
        }
    }
    std::ranges::sort(said);
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
    for (const char* part : {"core", "model", "reducer", "sim/des", "sim/world", "reference"}) {
        EXPECT_TRUE(parts.contains(part)) << part;
    }
}
TEST(Layout, IncludesPointInward) { expect_nothing(check_includes(here)); }
TEST(Layout, HeadersIncludeWithoutCycles) { expect_nothing(check_cycles(here)); }
TEST(Layout, FoldersStaySmall) { expect_nothing(check_folders(here)); }
TEST(Layout, ATypeNameHasOneMeaning) { expect_nothing(check_type_names(here)); }
TEST(Layout, HeadersSayWhatTheyAreFor) { expect_nothing(check_openings(here)); }
TEST(Layout, EveryHeaderHasItsTest) { expect_nothing(check_tests(here)); }
TEST(Layout, LinesFitTheirColumns) { expect_nothing(check_columns(here)); }
TEST(Layout, PluginsAreWhole) { expect_nothing(check_plugins(here)); }
/// The program that README shows is the example that the suite runs.
TEST(Layout, TheReadmeShowsTheHeadline) {
    const Lines readme = lines_of(here / "README.md");
    const auto opens = std::ranges::find(readme, "```cpp");
    ASSERT_NE(opens, readme.end());
    const auto closes = std::find(opens, readme.end(), "```");
    const Lines shown(opens + 1, closes);
    const Lines example = lines_of(here / "examples/01_headline.cpp");
    const auto first = std::ranges::find_if(
        example, [](const std::string& line) { return line.starts_with("#include"); });
    EXPECT_EQ(shown, Lines(first, example.end()));
}
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
    expect_one("include/gx/trainer/a.hpp", "gx/sim/world/cluster.hpp");
    expect_one("include/gx/trainer/a.hpp", "gx/onednn/device.hpp");
    expect_one("include/gx/trainer/a.hpp", "gx/testing/conformance.hpp");
    expect_one("include/gx/trainer/a.hpp", "oneapi/dnnl/dnnl.hpp");
    expect_one("include/gx/core/a.hpp", "cuda_runtime.h");
    expect_one("include/gx/core/a.hpp", "boost/context/fiber.hpp");
    expect_one("include/gx/core/a.hpp", "gtest/gtest.h");
    expect_one("include/gx/nonsense/a.hpp", "vector");
    expect_one("sims/include/gx/sim/world/a.hpp", "gx/trainer/trainer.hpp");
    expect_one("sims/include/gx/sim/network/a.hpp", "gx/sim/world/cluster.hpp");
    expect_one("sims/include/gx/sim/world/impl/a.ipp", "gx/sim/fault/faults.hpp");
    expect_one("sims/include/gx/sim/a.hpp", "vector");
    expect_one("sims/include/gx/sim/attic/a.hpp", "vector");
    expect_one("reference/include/gx/reference/a.hpp", "gx/sim/world/cluster.hpp");
    expect_one("plugins/fast/include/gx/fast/a.hpp", "gx/trainer/trainer.hpp");
}
TEST_F(Planted, IncludesOfTheRightDirection) {
    expect_none("include/gx/reducer/a.hpp", "gx/collective/ring.hpp");
    expect_none("include/gx/trainer/a.hpp", "gx/reducer/ring.hpp");
    expect_none("include/gx/testing/a.hpp", "rapidcheck.h");
    expect_none("sims/include/gx/sim/des/a.hpp", "boost/context/fiber.hpp");
    expect_none("sims/include/gx/sim/world/a.hpp", "gx/sim/network/network.hpp");
    expect_none("plugins/fast/include/gx/fast/a.hpp", "oneapi/dnnl/dnnl.hpp");
    expect_none("plugins/fast/include/gx/fast/a.hpp", "gx/fast/b.hpp");
}
TEST_F(Planted, AnIncludeCycle) {
    plant_header("include/gx/core/a.hpp", "gx/core/b.hpp");
    plant_header("include/gx/core/b.hpp", "gx/core/c.hpp");
    plant_header("include/gx/core/c.hpp", "vector");
    expect_nothing(check_cycles(root_));
    plant_header("include/gx/core/c.hpp", "gx/core/a.hpp");
    EXPECT_EQ(check_cycles(root_),
              Lines{"include cycle: gx/core/a.hpp gx/core/b.hpp gx/core/c.hpp"});
}
TEST_F(Planted, AFolderTooLarge) {
    for (int i = 0; i < 25; ++i) {
        plant_header("include/gx/core/a" + std::to_string(i) + ".hpp", "vector");
    }
    expect_nothing(check_folders(root_));
    plant_header("include/gx/core/one_more.hpp", "vector");
    EXPECT_EQ(check_folders(root_).size(), 1u);
}
TEST_F(Planted, ATypeNameOfTwoMeanings) {
    plant("include/gx/core/a.hpp",
          "namespace gx {\nclass Link;\nstruct Way {};\ntemplate <typename T>\n"
          "class Pool final {\n};\n}  // namespace gx\n");
    plant("include/gx/core/b.hpp",
          "namespace gx::detail {\nstruct Way {};\n}  // namespace gx::detail\n"
          "namespace gx {\nclass Link {\n};\nclass Ring {\n};\n}  // namespace gx\n");
    plant("include/gx/core/c.hpp", "namespace gx::x {\nclass Ring {\n};\n}  // namespace gx::x\n");
    expect_nothing(check_type_names(root_));
    plant("include/gx/core/d.hpp",
          "namespace gx::y {\nenum class Way { up };\n"
          "using Pool = int;\n}  // namespace gx::y\n");
    EXPECT_EQ(check_type_names(root_).size(), 2u);
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
TEST_F(Planted, APluginThatMissesAPart) {
    const auto whole = [&] {
        fs::remove_all(root_);
        plant("plugins/fast/README.md", "What it is.\n");
        plant("plugins/fast/CMakeLists.txt", "gx_plugin(fast)\n");
        plant("plugins/fast/include/gx/fast/a.hpp",
              "// Purpose.\n    ReduceReport all_reduce(Transport auto& link,\n");
        plant("plugins/fast/tests/a_test.cpp", "");
        plant("plugins/fast/tests/reducers.hpp", "#include <gx/fast/a.hpp>\n");
    };
    whole();
    expect_nothing(check_plugins(root_));
    for (const char* part :
         {"README.md", "CMakeLists.txt", "tests/a_test.cpp", "tests/reducers.hpp"}) {
        whole();
        fs::remove(root_ / "plugins/fast" / part);
        EXPECT_EQ(check_plugins(root_).size(), 1u) << part;
    }
    whole();
    plant("plugins/fast/tests/reducers.hpp", "#include <gx/fast/b.hpp>\n");
    EXPECT_EQ(check_plugins(root_),
              Lines{"plugins/fast: tests/reducers.hpp does not list the reducer of gx/fast/a.hpp, "
                    "so it runs in no world"});
    whole();
    plant("plugins/fast/CMakeLists.txt", "gx_plugin(fast)\ngx_tests(tests LINKS gx::gx)\n");
    EXPECT_EQ(check_plugins(root_).size(), 1u) << "tests of its own making, maybe of one world";
    whole();
    plant("plugins/fast/include/gx/fast/b.hpp",
          "class B : public CollectiveReducer<Plan, E, Divide> {\n");
    EXPECT_EQ(check_plugins(root_).size(), 1u) << "a second reducer that is not listed";
    fs::remove_all(root_ / "plugins/fast/include");
    EXPECT_EQ(check_plugins(root_), Lines{"plugins/fast: no headers in include/gx/fast"});
}
TEST_F(Planted, AFolderWithoutReadme) {
    plant("plugins/fast/CMakeLists.txt", "");
    EXPECT_EQ(check_readmes(root_).size(), 7u);
    plant("plugins/fast/README.md", "What it is.\n");
    EXPECT_EQ(check_readmes(root_).size(), 6u);
}

}  // namespace
