// How fast the simulator runs: messages a second, and virtual seconds per second of processor.
// Run:     ./gx bench sim [--json FILE] [--ranks N]
// Prints:  one line a case; times are of this process's processor, the least of three runs.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <gx/collective/execute.hpp>
#include <gx/collective/ring.hpp>
#include <gx/sim/cluster.hpp>
#include <gx/sim/machines.hpp>
#include <gx/sim/timing.hpp>

namespace {

using gx::Nanoseconds;
using gx::collective::Ring;
using namespace gx::literals;

struct Result {
    std::string name;
    int ranks = 0;
    std::uint64_t messages = 0;
    double virtual_ms = 0, expected_ms = 0;  ///< expected: the closed form; 0 where there is none
    double cpu_seconds = 0;
};

struct Outcome {
    std::uint64_t messages = 0;
    Nanoseconds time{};
};

double cpu_seconds() {
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

Result measure(std::string name, int ranks, double expected_ms,
               const std::function<Outcome()>& simulate) {
    Result r{std::move(name), ranks, 0, 0, expected_ms, 1e9};
    for (int run = 0; run < 3; ++run) {
        const double begin = cpu_seconds();
        const Outcome o = simulate();
        r.cpu_seconds = std::min(r.cpu_seconds, cpu_seconds() - begin);
        r.messages = o.messages;
        r.virtual_ms = 1e3 * gx::seconds(o.time);
    }
    fmt::print("{:34} {:5} ranks {:9} messages {:10.4f} ms virtual {:8.3f} s cpu {:6.2f} M msg/s\n",
               r.name, ranks, r.messages, r.virtual_ms, r.cpu_seconds,
               1e-6 * static_cast<double>(r.messages) / r.cpu_seconds);
    return r;
}

/// 25 Gb/s, 10 us, no cap: the case whose closed form is known.
gx::sim::ClusterSpec star(int machines) {
    auto spec = gx::sim::ethernet_10g(machines);
    spec.machine.nic_line_rate = 25_Gbps;
    spec.goodput = 1;
    spec.flow_cap = {0};
    spec.latency = 10_us;
    return spec;
}

Result ring(int ranks) {
    const double chunk_ms = 1e3 * 1e8 / ranks / 3.125e9;
    const double expected = 2.0 * (ranks - 1) * (0.010 + chunk_ms);
    return measure("ring of 100 MB, no payload", ranks, expected, [&] {
        const auto t = gx::sim::all_reduce_time(Ring(ranks), star(ranks), 100_MB);
        return Outcome{t.messages, t.time};
    });
}

/// Four rings share NICs: each solve has a component of all machines.
Result contended(int machines) {
    const auto spec = gx::sim::p3_16xlarge(machines);
    return measure("four rings of 100 MB, shared NICs", spec.ranks(), 0, [&] {
        std::vector<Ring> rings;
        for (int k = 0; k < 4; ++k)
            rings.push_back(gx::collective::machine_ring(spec.placement(), k));
        const auto t = gx::sim::all_reduce_time(std::span<const Ring>(rings), spec, 100_MB);
        return Outcome{t.messages, t.time};
    });
}

Result payload(int ranks, std::size_t elements) {
    const auto spec = star(ranks);
    const double chunk_ms = 1e3 * 4.0 * static_cast<double>(elements) / ranks / 3.125e9;
    const double expected = 2.0 * (ranks - 1) * (0.010 + chunk_ms);
    return measure("ring with payload, on fibers", ranks, expected, [&] {
        gx::sim::Cluster<> world(spec);
        world.run([&](auto& rank) {
            std::vector<float> data(elements, 1.0f), scratch(elements / std::size_t(ranks) + 1);
            const std::array flows{
                gx::collective::Flow<gx::fp32, Ring>{Ring(ranks), data, scratch, 0}};
            if (!gx::collective::execute(rank.transport(), flows).delivery.complete()) std::abort();
        });
        return Outcome{world.network().messages(), world.elapsed()};
    });
}

}  // namespace

int main(int argc, char** argv) {
    std::string json;
    int ranks = 1024;
    for (int i = 1; i < argc; ++i) {
        const std::string_view word = argv[i];
        if (word == "--json" && i + 1 < argc) json = argv[++i];
        else if (word == "--ranks" && i + 1 < argc && std::atoi(argv[i + 1]) > 1)
            ranks = std::atoi(argv[++i]);
        else {
            fmt::print(stderr, "gx bench sim: '{}' is not --json FILE or --ranks N, N above 1\n",
                       word);
            return 2;
        }
    }
    const std::vector<Result> results{ring(ranks), contended(8), payload(8, 1 << 20),
                                      payload(64, 1 << 16)};
    nlohmann::json cases = nlohmann::json::array();
    for (const Result& r : results) {
        const double per_second = static_cast<double>(r.messages) / r.cpu_seconds;
        cases.push_back({{"name", r.name}, {"ranks", r.ranks}, {"messages", r.messages},
                         {"virtual_ms", r.virtual_ms}, {"closed_form_ms", r.expected_ms},
                         {"cpu_seconds", r.cpu_seconds},
                         {"messages_per_cpu_second", per_second},
                         {"virtual_seconds_per_cpu_second", 1e-3 * r.virtual_ms / r.cpu_seconds}});
    }
    if (json.empty()) return 0;
    std::ofstream out(json);
    out << nlohmann::json{{"benchmark", "sim"}, {"cases", cases}}.dump(2) << '\n';
    if (out.flush()) return 0;
    fmt::print(stderr, "gx bench sim: '{}' cannot be written\n", json);
    return 1;
}
