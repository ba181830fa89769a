// The grid of fabrics, sizes and reducers on hosts of network namespaces, and its score.
#include "namespaces.hpp"

#include <unistd.h>  // getpid

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include <gx/core/error.hpp>
#include <gx/io/atomic_file.hpp>
#include <gx/io/read_file.hpp>

#include "../../../sims/support/command_line.hpp"
#include "../machine.hpp"

namespace gx::bench {

namespace {

using nlohmann::json;

std::string quoted(const std::string& word) {
    std::string out = "'";
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

/// The command line that runs this program on one fabric and writes `out`.
std::string command_of(const json& grid, const json& fabric, const std::string& out) {
    const int hosts = fabric.at("hosts"), rate = fabric.at("rate");
    const std::int64_t eager = grid.at("eager_bytes");
    std::string c = fmt::format("OMPI_MCA_btl_tcp_eager_limit={} ", eager);
    c += fmt::format("{} --hosts {} --rate {}", quoted(GX_NETNS_HOSTS), hosts, rate);
    for (const char* option : {"leaf", "trunk", "flow"})
        if (fabric.contains(option)) c += fmt::format(" --{} {}", option, int(fabric[option]));
    if (fabric.contains("slow")) c += " --slow " + quoted(fabric["slow"]);
    c += fmt::format(" --mpi {} -- {} --namespaces --fabric {} --json {}", GX_MPI_NAME,
                     quoted(std::filesystem::read_symlink("/proc/self/exe")),
                     quoted(fabric.at("name")), quoted(out));
    if (fabric.contains("leaf")) c += fmt::format(" --leaf {}", int(fabric["leaf"]));
    for (const std::string reducer : grid.at("reducers")) c += " --reducer " + quoted(reducer);
    for (const std::int64_t bytes : grid.at("bytes")) c += fmt::format(" --bytes {}", bytes);
    return c + fmt::format(" --eager {} --repeats {} --least-wire-ms {}", eager,
                           int(grid.at("repeats")), double(grid.at("least_wire_ms")));
}

struct Score {
    std::size_t rows = 0;
    double mean = 0, p95 = 0, formula_mean = 0, formula_p95 = 0;
};
/// Of the scored rows; `fabric`: of that one alone.
Score score(const json& rows, const std::string& fabric = "") {
    std::vector<double> errors, formula;
    for (const json& row : rows) {
        if (!row.at("scored") || (!fabric.empty() && row.at("fabric") != fabric)) continue;
        errors.push_back(std::abs(double(row.at("error_pct"))));
        formula.push_back(std::abs(double(row.at("formula_error_pct"))));
    }
    const auto summary = [](std::vector<double> v, double& mean, double& p95) {
        if (v.empty()) return;
        std::sort(v.begin(), v.end());
        for (const double x : v) mean += x / double(v.size());
        p95 = v[static_cast<std::size_t>(std::ceil(0.95 * double(v.size()))) - 1];
    };
    Score s{.rows = errors.size()};
    summary(errors, s.mean, s.p95);
    summary(formula, s.formula_mean, s.formula_p95);
    return s;
}
void print(const std::string& name, const Score& s) {
    fmt::print(
        "{:28} {:5} rows  mean error {:5.1f} %, 95th percentile {:5.1f} %; without "
        "contention {:5.1f} % and {:5.1f} %\n",
        name, s.rows, s.mean, s.p95, s.formula_mean, s.formula_p95);
}

/// As JSON text, with a line for each field and each item of a list in it.
std::string lines_of(const json& fields) {
    std::string out = "{";
    const char* next = "\n";
    for (const auto& [name, value] : fields.items()) {
        out += next + json(name).dump() + ": ";
        next = ",\n";
        if (!value.is_array()) {
            out += value.dump();
            continue;
        }
        for (std::size_t i = 0; i < value.size(); ++i)
            out += (i == 0 ? "[\n  " : ",\n  ") + value[i].dump();
        out += "]";
    }
    return out + "\n}\n";
}

}  // namespace

int launcher_rank() {
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
        if (const char* rank = std::getenv(name)) return std::atoi(rank);
    return -1;
}

int run_grid(const std::string& grid_file, const std::string& out) {
    expect_outputs({{"--json", out}});
    const std::string file = grid_file.empty() ? GX_NETWORK_GRID : grid_file;
    const json grid = json::parse(read_input("--grid", file), nullptr, false);
    if (!grid.is_object() || !grid.contains("fabrics"))
        throw Error("--grid: '" + file +
                    "' is no grid: expected JSON with fabrics, reducers, "
                    "bytes, eager_bytes, repeats, least_wire_ms");
    double load[3]{};
    if (::getloadavg(load, 3) < 1) load[0] = -1;
    fmt::print("on {}; load average before: {:.1f} (other programs)\n", cpu_name(), load[0]);
    json rows = json::array();
    const std::string part =
        (std::filesystem::temp_directory_path() / fmt::format("gx_network_{}.json", ::getpid()))
            .string();
    json fabrics = json::array();
    for (const json& fabric : grid.at("fabrics")) {
        std::fflush(stdout);
        std::filesystem::remove(part);
        const int status = std::system(command_of(grid, fabric, part).c_str());
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            throw Error(fmt::format("fabric '{}' can't be measured: see above",
                                    std::string(fabric.at("name"))));
        json one = json::parse(read_input("--json", part));
        std::filesystem::remove(part);
        for (json& row : one.at("rows")) rows.push_back(row);
        one.erase("rows");
        fabrics.push_back(one);
    }
    for (const json& fabric : grid.at("fabrics")) {
        const std::string name = fabric.at("name");
        print(name, score(rows, name));
    }
    const Score all = score(rows);
    print("all", all);
    if (!out.empty())
        write_file(out, lines_of(json{{"benchmark", "network"},
                                      {"cpu", cpu_name()},
                                      {"load_average_before", load[0]},
                                      {"mpi", GX_MPI_NAME},
                                      {"fabrics", fabrics},
                                      {"scored_rows", all.rows},
                                      {"mean_error_pct", all.mean},
                                      {"p95_error_pct", all.p95},
                                      {"formula_mean_error_pct", all.formula_mean},
                                      {"formula_p95_error_pct", all.formula_p95},
                                      {"rows", rows}}));
    return 0;
}

}  // namespace gx::bench
