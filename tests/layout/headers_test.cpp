// Every header: its opening line, a test beside it, type names of one meaning; folders and lines
// stay short, and properties are asserted.
#include <layout/tree.hpp>

#include <regex>
#include <sstream>
#include <string_view>
#include <utility>

namespace {

using namespace layout;

// ---- The rules -----------------------------------------------------------------------------

// A name that stands for more than one public type: a role (its concept, its archetype and what
// models it), a collective and the reducer that executes it, one shape (Rows: ranks, elements), or
// what a library has under that name (AllReduce, of NCCL and of MPI).
const Names shared_names{"Clock",
                         "Device",
                         "Loader",
                         "Model",
                         "Optimizer",
                         "Reducer",
                         "Ring",
                         "Tree",
                         "Stream",
                         "Scheduler",
                         "Survival",
                         "Transport",
                         "HalvingDoubling",
                         "Hierarchical",
                         "RecursiveDoubling",
                         "Rows",
                         "World",
                         "AllReduce"};

constexpr std::size_t headers_in_a_folder = 25;

// Headers whose test is another's, because they only declare, or because one program covers both.
// The value is that test, below the root.
const fs::path exceptions_file = "tests/layout/tested_elsewhere.txt";

constexpr std::size_t columns = 100;
constexpr std::size_t opening_words = 15;  // behind the slashes, the name among them

// ---- Checks: each returns a sentence for each violation ---------------------------------------

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

std::size_t words_of(const std::string& text) {
    std::istringstream in(text);
    std::size_t words = 0;
    for (std::string word; in >> word;) ++words;
    return words;
}

Lines check_openings(const fs::path& root) {
    Lines said;
    for (const Header& h : headers_of(root)) {
        const Lines lines = lines_of(root / h.path);
        if (lines.empty() || !lines[0].starts_with("// ")) {
            said.push_back(h.path.string() + ": opens without its line of purpose, '// ...'");
        } else if (const std::size_t words = words_of(lines[0].substr(3)); words > opening_words) {
            said.push_back(h.path.string() + ": opens with " + std::to_string(words) +
                           " words, at most " + std::to_string(opening_words) +
                           ": name the term, and leave detail to the comment of the type");
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
    static const Names kinds{".hpp", ".ipp", ".cpp", ".sh", ".cmake", ".txt", ".cu", ".cuh", ".py"};
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

// rc::check returns whether a property holds; a test that ignores it passes whatever it returns.
Lines check_properties(const fs::path& root) {
    Lines said;
    for (const char* top : {"tests", "plugins", "sims", "reference"}) {
        if (!fs::exists(root / top)) continue;
        for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
            const std::string kind = entry.path().extension().string();
            if (kind != ".cpp" && kind != ".hpp") continue;
            int number = 0;
            bool continues = false;  // the line before is an open "EXPECT_TRUE(" or the like
            for (const std::string& line : lines_of(entry.path())) {
                ++number;
                const bool inside = std::exchange(continues, line.ends_with('('));
                const std::size_t text = line.find_first_not_of(' ');
                if (inside || text == std::string::npos ||
                    !line.substr(text).starts_with("rc::check"))
                    continue;
                said.push_back(fs::relative(entry.path(), root).string() + ":" +
                               std::to_string(number) +
                               ": the result is ignored: write EXPECT_TRUE(rc::check(...))");
            }
        }
    }
    std::ranges::sort(said);
    return said;
}

// ---- This tree --------------------------------------------------------------------------------

TEST(Layout, FoldersStaySmall) { expect_nothing(check_folders(here)); }
TEST(Layout, ATypeNameHasOneMeaning) { expect_nothing(check_type_names(here)); }
TEST(Layout, HeadersSayWhatTheyAreFor) { expect_nothing(check_openings(here)); }
TEST(Layout, EveryHeaderHasItsTest) { expect_nothing(check_tests(here)); }
TEST(Layout, LinesFitTheirColumns) { expect_nothing(check_columns(here)); }
TEST(Layout, PropertiesAreAsserted) { expect_nothing(check_properties(here)); }

// ---- Planted violations -----------------------------------------------------------------------

using Planted = layout::Planted;

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
TEST_F(Planted, AHeaderThatOpensAtLength) {
    const std::string fifteen = "// Ring: a b c d e f g h i j k l m n";
    plant("include/gx/core/a.hpp", fifteen + ".\n#pragma once\n");
    expect_nothing(check_openings(root_));
    plant("include/gx/core/a.hpp", fifteen + " o.\n#pragma once\n");
    EXPECT_EQ(check_openings(root_),
              Lines{"include/gx/core/a.hpp: opens with 16 words, at most 15: name the term, and "
                    "leave detail to the comment of the type"});
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
TEST_F(Planted, APropertyThatNothingAsserts) {
    plant("tests/core/a_test.cpp",
          "    EXPECT_TRUE(rc::check([] {}));\nEXPECT_TRUE(\n    rc::check(f));");
    expect_nothing(check_properties(root_));
    plant("tests/core/a_test.cpp", "\n    rc::check([] { RC_ASSERT(false); });\n");
    EXPECT_EQ(check_properties(root_),
              Lines{"tests/core/a_test.cpp:2: the result is ignored: write "
                    "EXPECT_TRUE(rc::check(...))"});
}
TEST_F(Planted, ALineTooLong) {
    plant("include/gx/core/a.hpp", std::string(columns, 'x') + "\n" + std::string(columns, 'x'));
    expect_nothing(check_columns(root_));
    plant("include/gx/core/a.hpp", "\n" + std::string(columns + 1, 'x'));
    EXPECT_EQ(check_columns(root_), Lines{"include/gx/core/a.hpp:2: 101 columns"});
}

}  // namespace
