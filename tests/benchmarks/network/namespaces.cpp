// The grid of fabrics, sizes and reducers on hosts of network namespaces, and its score.
#include "namespaces.hpp"

#include <sys/resource.h>  // setpriority
#include <unistd.h>        // getpid

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

constexpr int cannot_make_hosts = 77, interrupted = 130;  // exit statuses

std::string quoted(const std::string& word) {
    std::string out = "'";
    for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
}

/// Runs this program with `options` on hosts of network namespaces. Returns its exit status;
/// says so when a SIGINT has ended it, which this process ignores meanwhile.
int run_on_hosts(const std::string& hosts, int eager, const std::string& options) {
    const int status = std::system(
        fmt::format("OMPI_MCA_btl_tcp_eager_limit={} {} {} --mpi {} -- {} --namespaces {}", eager,
                    quoted(GX_NETNS_HOSTS), hosts, GX_MPI_NAME,
                    quoted(std::filesystem::read_symlink("/proc/self/exe")), options)
            .c_str());
    const int ended = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (ended == interrupted)
        print_error("gx bench network: interrupted; the hosts are removed, no results written\n");
    return ended;
}

/// Runs this program on one fabric, which writes `out`. Returns its exit status.
int run_fabric(const Grid& grid, const Fabric& fabric, const std::string& out) {
    const std::string name = quoted(std::string(fabric.name.view()));
    std::string hosts = fmt::format("--hosts {} --rate {}", fabric.hosts, fabric.rate);
    std::string c = fmt::format("--fabric {} --json {}", name, quoted(out));
    if (fabric.leaf > 0) {
        hosts += fmt::format(" --leaf {} --trunk {}", fabric.leaf, fabric.trunk);
        c += fmt::format(" --leaf {}", fabric.leaf);
    }
    if (fabric.flow > 0) hosts += fmt::format(" --flow {}", fabric.flow);
    if (!fabric.slow.view().empty()) hosts += " --slow " + quoted(std::string(fabric.slow.view()));
    for (const std::string& reducer : grid.reducers) c += " --reducer " + quoted(reducer);
    for (const int bytes : grid.bytes) c += fmt::format(" --bytes {}", bytes);
    c += fmt::format(" --eager {} --repeats {} --least-wire-ms {}", grid.eager_bytes, grid.repeats,
                     grid.least_wire_ms);
    return run_on_hosts(hosts, grid.eager_bytes, c);
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

double load_average() {
    double load = 0;
    return ::getloadavg(&load, 1) == 1 ? load : -1;
}

void raise_priority() {
    (void)::setpriority(PRIO_PROCESS, 0, -15);
    std::ofstream("/proc/self/autogroup") << "-15";
}

int run_overlap(int rate_mbps, const std::string& out) {
    expect_outputs({{"--json", out}});
    const std::string json = out.empty() ? "" : " --json " + quoted(out);
    constexpr int eager = 8 << 20;  // as in grid.json, for the same reason
    return run_on_hosts(fmt::format("--hosts 2 --rate {}", rate_mbps), eager, "--overlap" + json);
}

int run_grid(const Grid& grid, const std::string& out) {
    expect_outputs({{"--json", out}});
    const double load = load_average();
    fmt::print("on {}; load average before: {:.1f} (other programs)\n", cpu_name(), load);
    json rows = json::array();
    const std::string part =
        (std::filesystem::temp_directory_path() / fmt::format("gx_network_{}.json", ::getpid()))
            .string();
    json fabrics = json::array();
    for (const Fabric& fabric : grid.fabrics) {
        std::fflush(stdout);
        std::filesystem::remove(part);
        const int status = run_fabric(grid, fabric, part);
        if (status == cannot_make_hosts || status == interrupted) return status;
        if (status != 0)
            throw Error(
                fmt::format("fabric '{}' can't be measured: see above", fabric.name.view()));
        json one = json::parse(read_input("--json", part));
        std::filesystem::remove(part);
        for (json& row : one.at("rows")) rows.push_back(row);
        one.erase("rows");
        fabrics.push_back(one);
    }
    for (const Fabric& fabric : grid.fabrics) {
        const std::string name(fabric.name.view());
        print(name, score(rows, name));
    }
    const Score all = score(rows);
    print("all", all);
    if (!out.empty())
        write_file(out, lines_of(json{{"benchmark", "network"},
                                      {"cpu", cpu_name()},
                                      {"load_average_before", load},
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
