// Each header includes what it uses of the standard library, by the table in std_names.txt.
#include <layout/tree.hpp>

#include <regex>
#include <sstream>

namespace {

using namespace layout;

const fs::path table_file = "tests/layout/std_names.txt";

// The headers that declare each name.
std::map<std::string, Names> headers_of_names(const fs::path& root) {
    std::map<std::string, Names> table;
    for (const std::string& line : lines_of(root / table_file)) {
        const auto colon = line.find(':');
        if (line.starts_with("#") || colon == std::string::npos) continue;
        Names headers;
        std::istringstream before(line.substr(0, colon)), after(line.substr(colon + 1));
        for (std::string header; before >> header;) headers.insert(header);
        for (std::string name; after >> name;) table[name].insert(headers.begin(), headers.end());
    }
    return table;
}

// The names after std:: in a file, outside comments and text in quotes.
Names std_names_of(const Lines& lines) {
    static const std::regex quoted(R"("(?:[^"\\]|\\.)*")"), name(R"(\bstd::(\w+))");
    Names names;
    for (const std::string& line : lines) {
        const std::string code = std::regex_replace(line, quoted, "\"\"");
        const std::string text = code.substr(0, code.find("//"));
        for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at)
            names.insert((*at)[1]);
    }
    return names;
}

Lines check_std_names(const fs::path& root, const std::map<std::string, Names>& table) {
    Lines said;
    for (const Header& h : headers_of(root)) {
        if (is_implementation(h)) continue;
        const Lines lines = lines_of(root / h.path);
        Names included;
        for (const std::string& line : lines) included.insert(included_by(line));
        for (const std::string& name : std_names_of(lines)) {
            const auto found = table.find(name);
            if (found == table.end()) {
                said.push_back(h.path.string() + ": std::" + name + " is not in " +
                               table_file.string() + ": add it with its header");
            } else if (std::ranges::none_of(found->second, [&](const std::string& header) {
                           return included.contains(header);
                       })) {
                said.push_back(h.path.string() + ": uses std::" + name + " without <" +
                               *found->second.begin() + ">");
            }
        }
    }
    return said;
}

TEST(Layout, HeadersIncludeWhatTheyUseOfTheStandardLibrary) {
    const auto table = headers_of_names(here);
    EXPECT_GT(table.size(), 100u);
    expect_nothing(check_std_names(here, table));
}

// ---- Planted violations -----------------------------------------------------------------------

using Planted = layout::Planted;

TEST_F(Planted, ANameWithoutItsHeader) {
    const std::map<std::string, Names> table{{"vector", {"vector"}}, {"byte", {"cstddef", "span"}}};
    const auto said = [&](const std::string& text) {
        plant("include/gx/core/a.hpp", text);
        return check_std_names(root_, table);
    };
    expect_nothing(said("#include <vector>\nstd::vector<int> v;  // of std::string, once\n"));
    expect_nothing(said("#include <span>\nvoid f(std::byte);\n"));
    expect_nothing(said("auto text = \"std::vector\";\n"));
    EXPECT_EQ(said("#include <map>\nstd::vector<std::byte> v;\n"),
              (Lines{"include/gx/core/a.hpp: uses std::byte without <cstddef>",
                     "include/gx/core/a.hpp: uses std::vector without <vector>"}));
    EXPECT_EQ(said("std::lisst<int> v;\n"),
              Lines{"include/gx/core/a.hpp: std::lisst is not in tests/layout/std_names.txt: add "
                    "it with its header"});
}

}  // namespace
