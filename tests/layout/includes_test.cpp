// Includes point inward: which parts and rooms may include which, without cycles.
#include <layout/tree.hpp>

#include <optional>

namespace {

using namespace layout;

// ---- The rules -----------------------------------------------------------------------------

// Which parts of gx a part may include, itself aside. No part includes the trainer.
const Names roles{"core",         "collective", "io",      "loader",  "memory",    "model",
                  "coordination", "optimizer",  "reducer", "reflect", "scheduler", "threads"};
const std::map<std::string, Names> may_include{
    {"core", {}},
    {"reflect", {"core"}},
    {"threads", {"core"}},
    {"coordination",
     {"core", "memory"}},  // worlds of processes are built on it: in plugins and in testing
    {"io", {"core", "reflect"}},
    {"report", {"core", "io"}},
    {"memory", {"core"}},
    {"collective", {"core", "memory"}},
    {"reducer", {"core", "reflect", "memory", "collective"}},
    {"model", {"core"}},
    {"scheduler", {"core"}},
    {"optimizer", {"core", "model", "scheduler"}},
    {"loader", {"core", "io", "model"}},
    {"image", {"core", "reflect", "loader", "model"}},
    {"survival", {"core", "io"}},
    {"trainer",
     {"core", "reflect", "io", "report", "memory", "collective", "reducer", "model", "scheduler",
      "optimizer", "loader", "survival"}},
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
    {"topology", {"hardware", "network"}},
    {"timing", {"des", "hardware", "network", "topology", "compute"}},
    {"world", {"des", "hardware", "network", "topology", "compute"}},
    {"fault", {"des", "hardware", "network", "topology", "world"}},
    {"race", {"des", "world"}},
    {"io", {"catalog", "hardware", "compute"}},
    {"testing", {"catalog", "world", "race"}},
};
const Names known_to_rooms{"core",    "reflect",   "io",        "memory", "collective", "model",
                           "reducer", "scheduler", "optimizer", "loader", "testing"};

const Names part_of_a_plugin{"core",  "memory",     "reflect", "coordination",
                             "model", "collective", "reducer"};

// Libraries that include/gx never sees: they belong to plugins and to the simulator.
const Lines outside_libraries{"oneapi/", "dnnl", "cuda",    "cudnn",  "cublas",       "nccl",
                              "mpi.h",   "cub/", "thrust/", "torch/", "boost/context"};
const Lines test_libraries{"gtest/", "gmock/", "rapidcheck"};

// ---- Checks: each returns a sentence for each violation ---------------------------------------

bool is_of(const Lines& libraries, const std::string& what) {
    return std::ranges::any_of(libraries, [&](const auto& l) { return what.starts_with(l); });
}

// What `part` may include; none when the part is unknown.
std::optional<Names> allowed_for(const Header& h) {
    if (is_plugin(h) && h.part == "nccl") {  // on CUDA; its ranks are threads
        Names allowed = part_of_a_plugin;
        allowed.insert({"cuda", "threads"});
        return allowed;
    }
    if (is_plugin(h) && h.part == "mpi") {  // its ranks have streams that are threads
        Names allowed = part_of_a_plugin;
        allowed.insert("threads");
        return allowed;
    }
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
    std::map<std::string, Lines> all;  // .ipp too
    for (const Header& h : headers_of(root)) {
        Lines& includes = all["gx/" + h.name.string()];
        for (const std::string& line : lines_of(root / h.path)) {
            const std::string what = included_by(line);
            if (what.starts_with("gx/")) includes.push_back(what);
        }
    }
    CycleSearch search;
    const auto take = [&](const std::string& name, const std::string& what) {
        if (what != name && what.ends_with(".hpp")) search.includes[name].push_back(what);
    };
    for (const auto& [name, includes] : all) {
        if (!name.ends_with(".hpp")) continue;
        search.includes[name];
        for (const std::string& what : includes) {
            take(name, what);
            if (what.ends_with(".ipp"))
                for (const std::string& of_bodies : all[what]) take(name, of_bodies);
        }
    }
    Lines names;
    for (const auto& [name, includes] : search.includes) names.push_back(name);
    for (const std::string& name : names) {
        if (search.state[name] == 0) search.visit(name);
    }
    return search.said;
}

// ---- This tree --------------------------------------------------------------------------------

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

// ---- Planted violations -----------------------------------------------------------------------

class Planted : public layout::Planted {
protected:
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
};

TEST_F(Planted, IncludesOfTheWrongDirection) {
    expect_one("include/gx/core/a.hpp", "gx/reducer/ring.hpp");
    expect_one("include/gx/core/a.hpp", "gx/trainer/trainer.hpp");
    expect_one("include/gx/coordination/a.hpp", "gx/threads/threads.hpp");
    expect_one("include/gx/reducer/a.hpp", "gx/coordination/session.hpp");
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
    expect_none("include/gx/testing/a.hpp", "gx/coordination/session.hpp");
    expect_none("plugins/fast/include/gx/fast/a.hpp", "gx/coordination/session.hpp");
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
// Who includes b.hpp alone would read a.ipp before it.
TEST_F(Planted, AnIncludeCycleThroughAnImplementation) {
    plant_header("include/gx/core/a.hpp", "gx/core/impl/a.ipp");
    plant_header("include/gx/core/impl/a.ipp", "gx/core/a.hpp");
    plant_header("include/gx/core/b.hpp", "gx/core/a.hpp");
    expect_nothing(check_cycles(root_));
    plant_header("include/gx/core/impl/a.ipp", "gx/core/b.hpp");
    EXPECT_EQ(check_cycles(root_), Lines{"include cycle: gx/core/a.hpp gx/core/b.hpp"});
}

}  // namespace
