// What a newcomer finds: whole plugins, a README in each folder, a README that shows the headline.
#include <layout/tree.hpp>

#include <algorithm>  // max, min
#include <map>        // titles
#include <regex>      // reductions, classes and their bases
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

/// A header's lines as one text, without comments.
std::string code_of(const fs::path& file) {
    std::string code;
    for (const std::string& line : lines_of(file)) code += line.substr(0, line.find("//")) + "\n";
    return code;
}

/// What each match of `found` holds in its first group.
Lines all_in(const std::string& code, const std::regex& found) {
    Lines groups;
    for (std::sregex_iterator at(code.begin(), code.end(), found), end; at != end; ++at)
        groups.push_back((*at)[1]);
    return groups;
}

/// Whether a class of this header has a reduction of its own, or a base class among `reducers`.
bool defines_reducer(const std::string& code, const Names& reducers) {
    static const std::regex own("\\b(ReduceReport|auto)\\s+all_reduce\\s*\\("),
        arguments("<[^<>]*>"),
        base("\\b(?:class|struct)\\s[^:;{}()]*(?:::[^:;{}()]*)*:([^:;{][^;{]*)\\{"), word("(\\w+)");
    if (std::regex_search(code, own)) return true;
    for (std::string list : all_in(code, base)) {
        for (std::string outer; outer != list;)
            outer = list, list = std::regex_replace(list, arguments, "");
        for (const std::string& name : all_in(list, word))
            if (reducers.contains(name)) return true;
    }
    return false;
}

/// Headers of gx's own reducers, and of those in plugins: each `name` below gx/.
Names reducer_headers(const fs::path& root) {
    static const std::regex at_file_scope("(?:^|\n)(?:class|struct)\\s+(\\w+)");
    std::map<std::string, std::string> rest;  // the code of each header without a reducer so far
    for (const Header& h : headers_of(root))
        if (is_plugin(h) || h.part == "reducer") rest[h.name.string()] = code_of(root / h.path);
    Names found, reducers;
    for (bool grows = true; grows;) {
        grows = std::erase_if(rest, [&](const auto& header) {
                    if (!defines_reducer(header.second, reducers)) return false;
                    found.insert(header.first);
                    for (const std::string& name : all_in(header.second, at_file_scope))
                        reducers.insert(name);
                    return true;
                }) > 0;
    }
    return found;
}

/// What a plugin's list of reducers includes.
Names listed_in(const fs::path& plugin) {
    Names listed;
    for (const std::string& line : lines_of(plugin / "tests/reducers.hpp"))
        listed.insert(included_by(line));
    return listed;
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
    const Names reducers = reducer_headers(root);
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
        const Names listed = listed_in(e.path());
        for (const std::string& header : reducers)
            if (header.starts_with(name + "/") && !listed.contains("gx/" + header))
                says("tests/reducers.hpp does not list the reducer of gx/" + header +
                     ", so it runs in no world");
    }
    std::ranges::sort(said);
    return said;
}

// ---- This tree --------------------------------------------------------------------------------

TEST(Layout, PluginsAreWhole) { expect_nothing(check_plugins(here)); }
/// Else a plugin's list could lose its reducers, and the test above would miss none.
TEST(Layout, ReducersThatAreListedAreSeen) {
    const Names reducers = reducer_headers(here);
    int seen = 0;
    for (const auto& e : fs::directory_iterator(here / "plugins"))
        for (const std::string& header : listed_in(e.path())) {
            const std::string own = "gx/" + e.path().filename().string() + "/";
            if (!header.starts_with(own)) continue;
            EXPECT_TRUE(reducers.contains(header.substr(3))) << header;
            ++seen;
        }
    EXPECT_GE(seen, 14);
}
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
              "// Purpose.\nclass OfA {\n    ReduceReport all_reduce(Transport auto& link,\n");
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
    plant("include/gx/reducer/base.hpp",
          "class Native {\n    ReduceReport all_reduce(T& link);\n};\n");
    plant("include/gx/reducer/ring.hpp", "class Ring : public Native {\n};\n");
    for (const char* line :
         {"class B : public Native<Plan, E, Divide> {\n",
          "class B : public gx::Native<Plan, E, Divide> {\n",
          "struct B : Native<Plan, E, Divide> {\n", "class B final : private Ring<E> {\n",
          "template <class E, class Divide = detail::Halves>\nclass B\n    : public Native<E> {\n",
          "template <>\nclass B<gx::fp16> : Wire<gx::fp32>, public gx::Ring<gx::fp32> {\n",
          "class B : public OfA {\n",
          "    auto all_reduce(T& link, const BucketOn<T>& bucket) -> gx::ReduceReport {\n",
          "    gx::ReduceReport all_reduce(T& link, const gx::BucketOn<T>& bucket) {\n",
          "    gx::ReduceReport\n    all_reduce(T& link, const gx::BucketOn<T>& bucket) {\n"}) {
        plant("plugins/fast/include/gx/fast/b.hpp", line);
        EXPECT_EQ(check_plugins(root_).size(), 1u) << "a second reducer, not listed: " << line;
    }
    for (const char* line : {"// class B : public Native<E> {\n", "class Ring;\nclass B {\n",
                             "class B : public Plan<Ring<E>> {\n", "class Native<int>;\n"}) {
        plant("plugins/fast/include/gx/fast/b.hpp", line);
        EXPECT_EQ(check_plugins(root_), Lines{}) << line;
    }
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
