// What a newcomer finds: whole plugins, a README in each folder, a README that shows the headline.
#include <layout/tree.hpp>

#include <algorithm>  // max, min
#include <map>        // titles
#include <regex>      // what begins a reducer
#include <utility>    // pair

#include <gx/report/chart.hpp>  // colours

namespace {

using namespace layout;

// ---- Checks: each returns a sentence for each violation ---------------------------------------

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

/// Whether a line of a header begins the reduction of a reducer, or names the base that has one.
bool defines_reducer(const std::string& line) {
    static const std::regex begins("(ReduceReport|auto) +all_reduce\\(|\\bCollectiveReducer<");
    const std::size_t comment = line.find("//");
    return std::regex_search(line.substr(0, comment), begins);
}

// A plugin has a README, a CMakeLists.txt that calls gx_plugin, headers below its own name and a
// test. One with reducers lists each header of them in tests/reducers.hpp: from that list
// gx_plugin runs them on threads and on a simulated cluster. The function makes both worlds, so a
// plugin that calls gx_header_library or gx_tests by itself may miss one. A README that was copied
// from another plugin has a title of its own.
Lines check_plugins(const fs::path& root) {
    Lines said;
    std::map<std::string, std::string> titles;  // and whose it is
    if (!fs::exists(root / "plugins")) return said;
    for (const auto& e : fs::directory_iterator(root / "plugins")) {
        if (!e.is_directory()) continue;
        const fs::path plugin = fs::relative(e.path(), root);
        const std::string name = plugin.filename().string();
        const auto says = [&](const std::string& what) {
            said.push_back(plugin.string() + ": " + what);
        };
        if (!fs::exists(e.path() / "README.md")) says("no README.md");
        else {
            const std::string title = lines_of(e.path() / "README.md").at(0);
            if (const auto [other, is_new] = titles.emplace(title, name); !is_new)
                said.push_back("plugins: the READMEs of " + std::min(name, other->second) +
                               " and " + std::max(name, other->second) + " have one title, '" +
                               title + "': say what each is");
        }
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
                if (!defines_reducer(line)) continue;
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

// ---- This tree --------------------------------------------------------------------------------

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
/// The demo's picture is printed anew where a report's colours change: ./gx demo, breakdown.svg.
TEST(Layout, TheReadmesPictureHasTheColoursOfAReport) {
    using gx::chart::Part;
    const Lines picture = lines_of(here / "docs/demo.svg");
    for (const auto& [part, name] : {std::pair{Part::compute, "compute"},
                                     {Part::waiting, "exposed communication"},
                                     {Part::input, "input"},
                                     {Part::idle, "idle"}}) {
        const std::string title = std::string("<title>") + name + ":",
                          key = std::string(">") + name + "<";
        int found = 0;
        for (const std::string& line : picture) {
            if (line.find(title) == line.npos && line.find(key) == line.npos) continue;
            ++found;
            EXPECT_NE(line.find(gx::chart::colour(part)), line.npos) << line;
        }
        EXPECT_EQ(found, 4) << name << ": in the key, and of three reducers";
    }
}
TEST(Layout, FoldersHaveAReadme) { expect_nothing(check_readmes(here)); }

// ---- Planted violations -----------------------------------------------------------------------

using Planted = layout::Planted;

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
    for (const char* line :
         {"class B : public CollectiveReducer<Plan, E, Divide> {\n",
          "class B : public gx::CollectiveReducer<Plan, E, Divide> {\n",
          "struct B : CollectiveReducer<Plan, E, Divide> {\n",
          "    auto all_reduce(T& link, const BucketOn<T>& bucket) -> gx::ReduceReport {\n",
          "    gx::ReduceReport all_reduce(T& link, const gx::BucketOn<T>& bucket) {\n"}) {
        plant("plugins/fast/include/gx/fast/b.hpp", line);
        EXPECT_EQ(check_plugins(root_).size(), 1u) << "a second reducer, not listed: " << line;
    }
    plant("plugins/fast/include/gx/fast/b.hpp", "// As a CollectiveReducer<> has it.\n");
    expect_nothing(check_plugins(root_));
    fs::remove_all(root_ / "plugins/fast/include");
    EXPECT_EQ(check_plugins(root_), Lines{"plugins/fast: no headers in include/gx/fast"});
    whole();
    fs::copy(root_ / "plugins/fast", root_ / "plugins/copy", fs::copy_options::recursive);
    plant("plugins/copy/CMakeLists.txt", "gx_plugin(copy)\n");
    fs::rename(root_ / "plugins/copy/include/gx/fast", root_ / "plugins/copy/include/gx/copy");
    plant("plugins/copy/tests/reducers.hpp", "#include <gx/copy/a.hpp>\n");
    EXPECT_EQ(check_plugins(root_),
              Lines{"plugins: the READMEs of copy and fast have one title, 'What it is.': say what "
                    "each is"});
}
TEST_F(Planted, AFolderWithoutReadme) {
    plant("plugins/fast/CMakeLists.txt", "");
    EXPECT_EQ(check_readmes(root_).size(), 7u);
    plant("plugins/fast/README.md", "What it is.\n");
    EXPECT_EQ(check_readmes(root_).size(), 6u);
}

}  // namespace
