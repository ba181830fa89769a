// The project's headers as the layout tests read them, and a folder for planted violations.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace layout {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;
using Names = std::set<std::string>;

inline const fs::path here = GX_SOURCE_DIR;

inline Lines lines_of(const fs::path& file) {
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
inline std::string part_of(const fs::path& name) {
    const std::string top = name.begin()->string();
    const auto second = std::next(name.begin());
    if (top != "sim" || std::next(second) == name.end()) return top;
    return top + "/" + second->string();
}

inline std::vector<Header> headers_of(const fs::path& root) {
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

inline bool is_plugin(const Header& h) { return h.path.begin()->string() == "plugins"; }
inline bool is_core_tree(const Header& h) { return h.path.begin()->string() == "include"; }

// What `#include <what>` or `#include "what"` names; empty on any other line.
inline std::string included_by(const std::string& line) {
    const std::size_t hash = line.find_first_not_of(" \t");
    if (hash == std::string::npos || line[hash] != '#') return {};
    const std::size_t word = line.find_first_not_of(" \t", hash + 1);
    if (word == std::string::npos || !line.substr(word).starts_with("include")) return {};
    const std::size_t open = line.find_first_of("<\"", word);
    if (open == std::string::npos) return {};
    const std::size_t close = line.find_first_of(">\"", open + 1);
    return line.substr(open + 1, close - open - 1);
}

// The implementation of a header that is compiled once or included at the header's end.
inline bool is_implementation(const Header& h) { return h.path.extension() == ".ipp"; }

/// Each sentence is a failure of this test.
inline void expect_nothing(const Lines& said) {
    for (const std::string& sentence : said) ADD_FAILURE() << sentence;
}

/// A folder of its own for each test, removed behind it.
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
    fs::path root_;
};

}  // namespace layout
