// Measures the network between hosts under MPI, predicts reducers on it, and times them for real.
// Run:     ./gx bench network [--json FILE]         on hosts of network namespaces; needs root
//          ./gx bench network --overlap             how much of it a step hides; needs root
//          mpirun -n 8 --map-by node --mca btl_tcp_eager_limit 8388608 gx_bench_network
//              --eager 8388608 --machine-file FILE     on your cluster
// Prints:  a line for each reducer and size; what was predicted without contention beside it; which
//          of these predictions do not hold for an MPI with handshakes
#include <sys/resource.h>  // getrusage

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gx/io/atomic_file.hpp>
#include <gx/mpi/world.hpp>
#include <gx/sim/catalog/find_gpu.hpp>
#include <gx/sim/io/machine_json.hpp>

#include "../../../sims/support/command_line.hpp"
#include "../../support/interface_bytes.hpp"
#include "../machine.hpp"
#include "arguments.hpp"
#include "connections.hpp"
#include "measure.hpp"
#include "namespaces.hpp"
#include "overlap.hpp"
#include "predict.hpp"
#include "reducers.hpp"

namespace gx::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Seconds of processor time: of this process, and of all cores of its host, busy and in all.
struct CpuTime {
    double own = 0, busy = 0, all = 0;
};
CpuTime cpu_time() {
    rusage u{};
    ::getrusage(RUSAGE_SELF, &u);
    const auto s = [](timeval t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
    CpuTime time{.own = s(u.ru_utime) + s(u.ru_stime)};
    std::ifstream in("/proc/stat");
    std::string cpu;
    in >> cpu;
    for (int i = 0; i < 8; ++i) {  // user nice system idle iowait irq softirq steal
        double ticks = 0;
        in >> ticks;
        time.all += ticks;
        if (i != 3 && i != 4) time.busy += ticks;
    }
    return time;
}

/// What one reducer took for one size.
struct Row {
    std::string reducer{};
    std::int64_t bytes = 0;
    double measured_ms = 0, spread_pct = 0, predicted_ms = 0, formula_ms = 0;
    double wire_ms = 0;  ///< of the bytes that the busiest host sends, at its rate
    double carried_least = 0, carried_most = 0;  ///< bytes of an interface over the reducer's
    double busy_pct = 0,
           own_pct = 0;  ///< of the cores of host 0: all programs; the ranks of its machine
};

template <class R>
Row time_reducer(mpi::JobRank<NoDevice>& rank, std::int64_t bytes, int repeats, double rate,
                 bool one_machine) {
    mpi::Transport& link = rank.transport();
    Lockstep together(rank);
    Row row{.reducer = reducer_name<R>(), .bytes = bytes};
    const auto count = static_cast<std::size_t>(bytes) / sizeof(float);
    std::vector<float> values(count);
    R reducer;
    reducer.reserve(ReducePlan::whole(link.placement(), static_cast<std::int64_t>(count)));
    std::vector<double> times;
    ReduceReport report;
    testing_support::InterfaceBytes carried_before;
    CpuTime cpu_before;
    for (int run = -1; run < repeats; ++run) {
        std::fill(values.begin(), values.end(), float(together.rank() + 1));
        together.barrier();
        if (run == 0) {
            carried_before = testing_support::interface_bytes();
            cpu_before = cpu_time();
        }
        together.barrier();
        const auto begin = Clock::now();
        report = reducer.all_reduce(link, Bucket(values));
        const double took = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
        together.expect(report.delivery);
        const float mean = float(together.ranks() + 1) / 2;
        for (const float x : {values.front(), values[count / 2], values.back()})
            if (std::abs(x - mean) > 0.01f * mean)
                throw Error(row.reducer + ": the mean is " + std::to_string(x) + " in place of " +
                            std::to_string(mean));
        const std::vector<double> all = together.gather(took);
        if (run >= 0) times.push_back(*std::max_element(all.begin(), all.end()));
    }
    const auto carried = testing_support::interface_bytes() - carried_before;
    const CpuTime cpu = cpu_time();
    row.measured_ms = median(times);
    row.spread_pct = 100 *
                     (*std::max_element(times.begin(), times.end()) -
                      *std::min_element(times.begin(), times.end())) /
                     row.measured_ms;
    const std::vector<double> sent = together.gather(double(report.bytes_sent));
    row.wire_ms = 1e3 * *std::max_element(sent.begin(), sent.end()) / rate;
    const double share =
        report.bytes_sent == 0 ? 1 : double(carried.sent) / (double(report.bytes_sent) * repeats);
    const std::vector<double> shares = together.gather(share);
    row.carried_least = *std::min_element(shares.begin(), shares.end());
    row.carried_most = *std::max_element(shares.begin(), shares.end());
    const double all_ticks = cpu.all - cpu_before.all;
    const double ticks_per_s = double(::sysconf(_SC_CLK_TCK));
    double own = 0;
    for (const double s : together.gather(cpu.own - cpu_before.own)) own += s;
    if (!one_machine) own = cpu.own - cpu_before.own;
    if (all_ticks > 0) {
        row.busy_pct = 100 * (cpu.busy - cpu_before.busy) / all_ticks;
        row.own_pct = 100 * own * ticks_per_s / all_ticks;
    }
    return row;
}

nlohmann::json json_of(const Row& r, const Network& network, bool scored) {
    const double error = 100 * (r.predicted_ms / r.measured_ms - 1);
    return {{"reducer", r.reducer},
            {"bytes", r.bytes},
            {"hosts", network.hosts},
            {"fabric", network.fabric},
            {"measured_ms", r.measured_ms},
            {"predicted_ms", r.predicted_ms},
            {"error_pct", error},
            {"spread_pct", r.spread_pct},
            {"formula_ms", r.formula_ms},
            {"formula_error_pct", 100 * (r.formula_ms / r.measured_ms - 1)},
            {"wire_ms", r.wire_ms},
            {"scored", scored},
            {"interface_bytes_over_sent", {r.carried_least, r.carried_most}},
            {"cores_busy_pct", r.busy_pct},
            {"cores_busy_by_ranks_pct", r.own_pct}};
}

void print_network(const Network& x) {
    const auto mbps = [](double bytes_per_s) { return 8e-6 * bytes_per_s; };
    fmt::print("{}: {} hosts; latency {:.0f} us; payload {:.1f} Mb/s of a host, {:.1f} of a pair",
               x.fabric, x.hosts, 1e6 * x.latency_s, mbps(x.host_bytes_per_s),
               mbps(x.pair_bytes_per_s));
    if (x.hosts_per_leaf > 0)
        fmt::print(", {:.1f} between leaves of {}", mbps(x.trunk_bytes_per_s), x.hosts_per_leaf);
    for (const SlowHost& s : x.slow)
        fmt::print("; host {} has {:.2f} of the others' rate", s.host, s.share);
    fmt::print("\n");
}

void expect_one_rank_a_host(const mpi::World<>& world) {
    const Placement placement = world.placement();
    if (world.ranks() < 2)
        throw Error(
            "one rank: a network is measured between hosts. Start a rank on each host, as "
            "in mpirun -n 8 --map-by node");
    for (int r = 1; r < world.ranks(); ++r)
        for (int other = 0; other < r; ++other)
            if (placement.node_of(r) == placement.node_of(other))
                throw Error(fmt::format(
                    "ranks {} and {} are on one node: a network is measured between hosts. Start "
                    "one rank on each host, as in mpirun -n 8 --map-by node",
                    other, r));
}

/// On the ranks of an MPI job.
void measure_and_compare(const Arguments& asked) {
    if (launcher_rank() == 0)
        expect_outputs({{"--json", asked.json}, {"--machine-file", asked.machine_file}});
    if (asked.namespaces) raise_priority();
    mpi::World<> world({.announce = !asked.namespaces});
    expect_one_rank_a_host(world);
    if (asked.leaf >= world.ranks())
        throw Error(fmt::format("--leaf {}: there are {} hosts; give fewer for each leaf",
                                asked.leaf, world.ranks()));
    world.run([&](auto& rank) {
        const bool root = rank.rank() == 0;
        Network network = measure(rank, asked.fabric, asked.leaf);
        network.eager_bytes = asked.eager_bytes;
        const sim::ClusterSpec cluster = cluster_of(network, asked.gpu);
        if (root) {
            print_network(network);
            if (!asked.machine_file.empty())
                write_file(asked.machine_file, to_json(cluster) + "\n");
            fmt::print("{:24} {:>9} {:>9} {:>7} {:>9} {:>7} {:>9} {:>7} {:>6} {:>6}\n", "reducer",
                       "bytes", "measured", "spread", "predicted", "error", "formula", "error",
                       "busy", "ranks'");
        }
        nlohmann::json rows = nlohmann::json::array();
        std::vector<std::string> too_low;
        std::int64_t largest = 0;  // of the messages there
        for (const std::int64_t bytes : asked.bytes) {
            for_each_reducer([&]<class R> {
                if (!asked.reducers.empty() &&
                    std::ranges::find(asked.reducers, reducer_name<R>()) == asked.reducers.end())
                    return;
                Row row = time_reducer<R>(rank, bytes, asked.repeats, network.host_bytes_per_s,
                                          asked.namespaces);
                if (asked.namespaces && bytes >= 1 << 20 &&
                    (row.carried_least < 1 || row.carried_most > 1.25))
                    throw Error(fmt::format(
                        "{}: an interface carried {:.2f} to {:.2f} times the bytes that the "
                        "reducer sent: expected 1 to 1.25; is there another way between the hosts?",
                        row.reducer, row.carried_least, row.carried_most));
                if (!root) return;
                const Predicted predicted = predict(row.reducer, bytes, network, cluster);
                row.predicted_ms = predicted.ms;
                row.formula_ms = predict(row.reducer, bytes, network, cluster, false).ms;
                if (predicted.handshakes_both_ways > 0)
                    too_low.push_back(fmt::format("{} of {} bytes", row.reducer, bytes));
                largest = std::max(largest, predicted.handshakes_both_ways);
                const bool scored = row.wire_ms >= asked.least_wire_ms;
                rows.push_back(json_of(row, network, scored));
                fmt::print(
                    "{:24} {:9} {:9.2f} {:5.1f} % {:9.2f} {:5.1f} % {:9.2f} {:5.1f} % "
                    "{:4.0f} % {:4.0f} %{}\n",
                    row.reducer, bytes, row.measured_ms, row.spread_pct, row.predicted_ms,
                    100 * (row.predicted_ms / row.measured_ms - 1), row.formula_ms,
                    100 * (row.formula_ms / row.measured_ms - 1), row.busy_pct, row.own_pct,
                    scored ? "" : "  not scored");
                std::fflush(stdout);
            });
        }
        if (!too_low.empty())
            fmt::print("{}\n", handshake_note(too_low, asked.eager_bytes, largest, GX_MPI_NAME));
        if (root && !asked.json.empty())
            write_file(asked.json, nlohmann::json{{"benchmark", "network"},
                                                  {"cpu", cpu_name()},
                                                  {"fabric", network.fabric},
                                                  {"latency_us", 1e6 * network.latency_s},
                                                  {"host_mbps", 8e-6 * network.host_bytes_per_s},
                                                  {"pair_mbps", 8e-6 * network.pair_bytes_per_s},
                                                  {"trunk_mbps", 8e-6 * network.trunk_bytes_per_s},
                                                  {"rows", rows}}
                                           .dump(2) +
                                       "\n");
    });
}

void expect_known(const std::vector<std::string>& reducers) {
    const std::vector<std::string> known = reducer_names();
    const std::vector<std::string_view> views(known.begin(), known.end());
    for (const std::string& name : reducers)
        if (std::ranges::find(known, name) == known.end())
            throw Error("--reducer: " + unknown_name("reducer", name, views));
}

Grid grid_of(const Arguments& asked) {
    const std::string file = asked.grid.empty() ? GX_NETWORK_GRID : asked.grid;
    return read_grid(read_input("--grid", file), "--grid: " + file, reducer_names());
}

}  // namespace
}  // namespace gx::bench

int main(int argc, char** argv) {
    gx::bench::Arguments asked;
    CLI::App app(
        "Measures the network between hosts under MPI, predicts reducers on it by the "
        "simulator, and times them.\nUnder mpirun: between its hosts, one rank on each. "
        "By itself: on hosts of network namespaces, of grid.json; needs root.",
        "gx bench network");
    gx::bench::add_options(app, asked);
    return gx::run_program(app, argc, argv, [&] {
        gx::bench::expect_known(asked.reducers);
        (void)gx::sim::find_gpu(asked.gpu);
        const bool by_launcher = gx::bench::launcher_rank() >= 0;
        gx::bench::expect_in_effect(app, by_launcher, asked.overlap);
        if (asked.overlap)
            return by_launcher ? gx::bench::measure_overlap(asked.json, asked.namespaces)
                               : gx::bench::run_overlap(asked.rate, asked.json);
        if (by_launcher) return gx::bench::measure_and_compare(asked), 0;
        return gx::bench::run_grid(gx::bench::grid_of(asked), asked.json);
    });
}
