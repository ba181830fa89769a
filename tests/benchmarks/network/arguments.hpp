// Arguments: the options of the network benchmark, and the kind of run that each is for.
#pragma once

#include <cstdint>      // bytes
#include <string>       // names
#include <string_view>  // groups
#include <vector>       // lists

#include <fmt/format.h>  // sentences

#include <gx/core/error.hpp>  // Error

#include "../../../sims/support/command_line.hpp"  // count_in, number_in

namespace gx::bench {

struct Arguments {
    std::string fabric = "network", gpu = "V100-SXM2-16GB", json, machine_file, grid;
    std::vector<std::string> reducers{};  ///< none: all
    std::vector<std::int64_t> bytes{16'384, 1'572'864, 4'194'304};
    int leaf = 0, repeats = 7;
    std::int64_t eager_bytes = 65'536;
    double least_wire_ms = 50;
    bool namespaces = false, overlap = false;
    int rate = 50;
};

// Groups of options, by the run that they are for; those of no such group are for any.
constexpr const char* for_hosts = "Under mpirun, without --overlap";
constexpr const char* for_launch = "Under mpirun";
constexpr const char* for_grid = "By itself, without --overlap";
constexpr const char* for_overlap = "By itself, with --overlap";

inline void add_options(CLI::App& app, Arguments& asked) {
    app.add_option("--json", asked.json, "also write what was measured there");
    app.add_flag("--overlap", asked.overlap,
                 "train on two hosts of one core each, with buckets and without: how much of the "
                 "network's time is hidden");
    app.add_option("--machine-file", asked.machine_file,
                   "write the network there, as a cluster that gx_plan and sim::Cluster read")
        ->group(for_hosts);
    app.add_option("--gpu", asked.gpu, "the GPU of that cluster's machines (not measured)")
        ->group(for_hosts);
    app.add_option("--fabric", asked.fabric, "the network's name in the results")->group(for_hosts);
    app.add_option("--leaf", asked.leaf, "hosts on one leaf switch; 0: all are on one switch")
        ->check(count_in(0, 100'000))
        ->group(for_hosts);
    app.add_option("--eager", asked.eager_bytes,
                   "bytes of a message that this MPI sends without a handshake")
        ->check(count_in(0, std::int64_t{1} << 40))
        ->group(for_hosts);
    app.add_option("--reducer", asked.reducers, "only these")->group(for_hosts);
    app.add_option("--bytes", asked.bytes, "of the gradients, fp32")
        ->check(count_in(64, std::int64_t{1} << 32))
        ->group(for_hosts);
    app.add_option("--repeats", asked.repeats, "of each, after one that does not count; the median")
        ->check(count_in(1, 1000))
        ->group(for_hosts);
    app.add_option("--least-wire-ms", asked.least_wire_ms, "below it a row is not scored")
        ->check(number_in(0, 1e9))
        ->group(for_hosts);
    app.add_flag("--namespaces", asked.namespaces,
                 "the hosts are network namespaces: their interfaces' counters are checked")
        ->group(for_launch);
    app.add_option("--grid", asked.grid, "another file than grid.json")->group(for_grid);
    app.add_option("--rate", asked.rate, "of the hosts' links, Mb/s")
        ->check(count_in(1, 10'000))
        ->group(for_overlap);
}

/// Expects that each option that was given is for this run.
/// Errors: gx::Error with the first that would have no effect, and the run that it is for.
inline void expect_in_effect(const CLI::App& app, bool under_mpirun, bool overlap) {
    for (const CLI::Option* o : app.get_options()) {
        const std::string_view group = o->get_group();
        const auto refuse = [&](bool fits, const char* run) {
            if (fits) return;
            throw Error(fmt::format(
                "{}: this option has no effect here, it is for a run {}. Start such a run, or "
                "leave the option out.",
                o->get_name(), run));
        };
        if (o->count() == 0) continue;
        if (group == for_hosts)
            refuse(under_mpirun && !overlap,
                   "between your hosts under mpirun, without --overlap, as in mpirun -n 8 --map-by "
                   "node --mca btl_tcp_eager_limit 8388608 build/release/gx_bench_network --eager "
                   "8388608 --machine-file ours.json");
        if (group == for_launch) refuse(under_mpirun, "under mpirun");
        if (group == for_grid)
            refuse(!under_mpirun && !overlap,
                   "without mpirun and --overlap, on hosts of network namespaces");
        if (group == for_overlap)
            refuse(!under_mpirun && overlap, "with --overlap, without mpirun");
    }
}

}  // namespace gx::bench
