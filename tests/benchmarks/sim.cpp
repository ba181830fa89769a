// How fast the simulator runs, beside SimGrid: messages a second, and virtual seconds a second.
// Run:     ./gx bench sim [--json FILE] [--ranks N] [--no-peer]
// Prints:  two lines per case: gx as users write it (a fiber per rank, a transport, payload) and
//          gx as callbacks written for this traffic, each beside SimGrid, which runs actors.
//          Processor seconds of construction and simulation, the least of three runs of each in
//          turn. The peer is SimGrid's C++ library, model CM02 without its TCP corrections, which
//          sim_peer/build.sh builds once, in minutes. Then a line per goal: fibers beside SimGrid,
//          and beside callbacks.
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <gx/collective/execute.hpp>
#include <gx/collective/ring.hpp>
#include <gx/sim/network/network.hpp>
#include <gx/sim/world/cluster.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/timing/all_reduce_time.hpp>
#include <gx/io/atomic_file.hpp>

#include "../../sims/support/command_line.hpp"  // expect_outputs, run_program
#include "sim_peer/fibers.hpp"
#include "sim_peer/ring.hpp"
#include "verdict.hpp"  // times_as_long, verdict_of

namespace {

using gx::Nanoseconds;
using gx::collective::Ring;
using namespace gx::literals;

struct Result {
    std::string name;
    std::string interface{};  ///< of gx: "fibers" or "callbacks"
    int ranks = 0;
    std::uint64_t messages = 0;
    double virtual_ms = 0, expected_ms = 0;  ///< expected: the closed form; 0 where there is none
    double cpu_seconds = 0;
    std::uint64_t solves = 0, flows_solved = 0;
    double peer_virtual_ms = 0, peer_cpu_seconds = 0;  ///< 0: the peer did not run
    std::string peer{};                                ///< its name and version

    [[nodiscard]] double per_second() const { return static_cast<double>(messages) / cpu_seconds; }
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

void print(const Result& r) {
    fmt::print(
        "{:40} {:9} {:5} ranks {:9} messages {:10.4f} ms virtual {:8.4f} s cpu {:6.2f} M "
        "msg/s\n",
        r.name, r.interface, r.ranks, r.messages, r.virtual_ms, r.cpu_seconds,
        1e-6 * r.per_second());
    if (r.peer_cpu_seconds > 0)
        fmt::print("{:40} {:>45} {:10.4f} ms virtual {:8.4f} s cpu {:6.1f} times as long\n", "",
                   r.peer + ":", r.peer_virtual_ms, r.peer_cpu_seconds,
                   r.peer_cpu_seconds / r.cpu_seconds);
    std::fflush(stdout);
}

Result measure(std::string name, std::string interface, int ranks, double expected_ms,
               const std::function<Outcome()>& simulate) {
    Result r{.name = std::move(name),
             .interface = std::move(interface),
             .ranks = ranks,
             .expected_ms = expected_ms,
             .cpu_seconds = 1e9};
    for (int run = 0; run < 3; ++run) {
        const double begin = cpu_seconds();
        const Outcome o = simulate();
        r.cpu_seconds = std::min(r.cpu_seconds, cpu_seconds() - begin);
        r.messages = o.messages;
        r.virtual_ms = 1e3 * gx::seconds(o.time);
    }
    print(r);
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
    return measure("ring of 100 MB, no payload", "timing", ranks, expected, [&] {
        const auto t = gx::sim::all_reduce_time(Ring(ranks), star(ranks), 100_MB);
        return Outcome{t.messages, t.time};
    });
}

/// Four rings share NICs: each solve has a component of all machines.
Result contended(int machines) {
    const auto spec = gx::sim::plain_p3_16xlarge(machines);
    return measure("four rings of 100 MB, shared NICs", "timing", spec.ranks(), 0, [&] {
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
    return measure("ring with payload", "fibers", ranks, expected, [&] {
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

// ---- The same traffic in gx and in SimGrid ------------------------------------------
struct Peer {
    std::string program;  ///< empty: it is not there
    std::string missing;  ///< then a sentence that says why
    std::string version;  ///< of the library, once it has run

    static Peer find(bool wanted) {
        if (!wanted) return {"", "SimGrid was not asked for: --no-peer", ""};
        const std::string folder = GX_PEER_FOLDER;
        const std::string build = std::string(GX_PEER_SOURCE) + "/build.sh '" + folder + "'";
        if (!std::filesystem::exists(folder + "/simgrid_peer")) {
            fmt::print("SimGrid is fetched and built first, once; this takes minutes\n");
            std::fflush(stdout);
        }
        Peer peer{folder + "/simgrid_peer", "", ""};
        std::string said;
        std::FILE* out = popen(build.c_str(), "r");
        for (int c = 0; out != nullptr && (c = std::fgetc(out)) != EOF;)
            if (c != '\n') said += static_cast<char>(c);
        if (out != nullptr && pclose(out) == 0) return peer;
        return {"", "Nothing is compared with SimGrid: " + said, ""};
    }
    /// Virtual seconds and seconds of processor; zeros where it does not run.
    std::pair<double, double> run(const traffic::Case& c) {
        const std::string line =
            fmt::format("'{}' {} {} {} {} {} {} {} 2>/dev/null", program, c.hosts, c.leaf_hosts,
                        c.rounds, c.bytes, c.latency_ns, c.jitter_ns, c.host_bytes_per_second);
        std::pair<double, double> result{0, 0};
        std::FILE* out = popen(line.c_str(), "r");
        if (out == nullptr) return result;
        std::array<char, 16> text{};
        if (std::fscanf(out, "%lf %lf %*d %15s", &result.first, &result.second, text.data()) != 3)
            result = {0, 0};
        version = text.data();
        pclose(out);
        return result;
    }
};

void simulate_callbacks(const traffic::Case& c, Result& r) {
    traffic::CallbackRing ring(c);
    ring.run();
    r.messages = ring.network().messages();
    r.solves = ring.network().solves();
    r.flows_solved = ring.network().flows_solved();
    r.virtual_ms = 1e3 * gx::seconds(ring.time());
}
void simulate_fibers(const traffic::Case& c, Result& r) {
    gx::sim::Cluster<> world(traffic::cluster_of(c));
    traffic::run_ring(world, c, traffic::ring_order(c));
    r.messages = world.network().messages();
    r.solves = world.network().solves();
    r.flows_solved = world.network().flows_solved();
    r.virtual_ms = 1e3 * gx::seconds(world.elapsed());
}

/// All sides in turn, three times; the least of each. Construction counts on each side; gx pays for
/// its destructors too.
std::array<Result, 2> compare(const std::string& name, const traffic::Case& c, Peer& peer) {
    std::array<Result, 2> rows;
    rows.fill({.name = name, .ranks = c.hosts, .cpu_seconds = 1e9});
    rows[0].interface = "fibers";
    rows[1].interface = "callbacks";
    const std::array simulate{&simulate_fibers, &simulate_callbacks};
    double peer_seconds = 1e9, peer_virtual = 0;
    for (int run = 0; run < 3; ++run) {
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const double begin = cpu_seconds();
            simulate[i](c, rows[i]);
            rows[i].cpu_seconds = std::min(rows[i].cpu_seconds, cpu_seconds() - begin);
        }
        if (peer.program.empty()) continue;
        const auto [time, spent] = peer.run(c);
        if (spent == 0) continue;
        peer_virtual = 1e3 * time;
        peer_seconds = std::min(peer_seconds, spent);
    }
    for (Result& r : rows) {
        r.peer_virtual_ms = peer_virtual;
        if (peer_virtual > 0) r.peer_cpu_seconds = peer_seconds;
        r.peer = "SimGrid " + peer.version;
        print(r);
    }
    return rows;
}
/// `flows` equal messages between two machines, while others come to the receiver one by one and
/// share its link. `apart`: each crosses a link of its own too, so that none are equal.
Result equal_flows(int flows, bool apart) {
    Result r{.name = apart ? "as many that are not equal" : "equal messages, and a rival at times",
             .interface = "callbacks",
             .ranks = 3,
             .cpu_seconds = 1e9};
    for (int run = 0; run < 3; ++run) {
        gx::sim::Engine engine;
        gx::sim::FlowNetwork network(engine);
        for (int link = 0; link < 3 + (apart ? flows : 0); ++link) network.add_link(10_GBps);
        const double begin = cpu_seconds();
        const gx::Task nothing{[](void*, std::uint64_t) {}, nullptr, 0};
        for (int i = 0; i < flows; ++i) {
            gx::sim::Transfer flow{.bytes = {100'000'000 / flows}, .done = nothing};
            flow.path.add(0);
            if (apart) flow.path.add(3 + i);
            flow.path.add(2);
            network.start(flow);
        }
        for (int i = 0; i < 1000; ++i) {
            gx::sim::Transfer rival{.bytes = {1000},
                                    .latency = Nanoseconds(10'000 * i),
                                    .weight = flows,
                                    .rank = 1,
                                    .done = nothing};
            rival.path.add(1);
            rival.path.add(2);
            network.start(rival);
        }
        engine.drain();
        r.cpu_seconds = std::min(r.cpu_seconds, cpu_seconds() - begin);
        r.messages = network.messages();
        r.solves = network.solves();
        r.flows_solved = network.flows_solved();
        r.virtual_ms = 1e3 * gx::seconds(engine.now());
    }
    print(r);
    return r;
}
/// 4:1 leaf-spine, 16 hosts a leaf, 10 Gb/s a host, a ring of 100 MB cut to `rounds`.
std::array<Result, 2> leaf_spine(int hosts, int rounds, std::int64_t jitter_ns, Peer& peer) {
    const traffic::Case c{.hosts = hosts,
                          .leaf_hosts = 16,
                          .rounds = rounds,
                          .bytes = 1e8 / hosts,
                          .jitter_ns = jitter_ns};
    return compare(jitter_ns == 0 ? "4:1 leaf-spine, lock step" : "4:1 leaf-spine, jittered", c,
                   peer);
}

double peak_memory_mb() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1e3;  // kB on Linux
}

nlohmann::json to_json(const Result& r) {
    nlohmann::json j{{"name", r.name},
                     {"interface", r.interface},
                     {"ranks", r.ranks},
                     {"messages", r.messages},
                     {"virtual_ms", r.virtual_ms},
                     {"cpu_seconds", r.cpu_seconds},
                     {"messages_per_cpu_second", r.per_second()},
                     {"virtual_seconds_per_cpu_second", 1e-3 * r.virtual_ms / r.cpu_seconds}};
    if (r.expected_ms > 0) j["closed_form_ms"] = r.expected_ms;
    if (r.solves > 0) j["solves"] = r.solves;
    if (r.flows_solved > 0) j["flows_solved"] = r.flows_solved;
    if (r.peer_cpu_seconds == 0) return j;
    j["simgrid_virtual_ms"] = r.peer_virtual_ms;
    j["simgrid_cpu_seconds"] = r.peer_cpu_seconds;
    j["simgrid_messages_per_cpu_second"] = static_cast<double>(r.messages) / r.peer_cpu_seconds;
    j["times_simgrid_messages_per_second"] = r.peer_cpu_seconds / r.cpu_seconds;
    j["virtual_time_error_pct"] = 100 * (r.virtual_ms / r.peer_virtual_ms - 1);
    return j;
}

// ---- Goals --------------------------------------------------------------------------
/// A ratio beside its goal.
struct Judged {
    std::string what;
    std::optional<double> ratio;
    double goal;
    gx::bench::Bound bound;

    [[nodiscard]] gx::bench::Verdict verdict() const {
        return gx::bench::verdict_of(ratio, goal, bound);
    }
};
/// Of the rows that `compare` makes, two a case: those that have a goal.
std::vector<Judged> judge(const std::vector<Result>& rows) {
    std::vector<Judged> all;
    for (std::size_t i = 0; i + 1 < rows.size(); i += 2) {
        const Result &fibers = rows[i], &callbacks = rows[i + 1];
        const std::string of = fmt::format("{}, {} ranks: ", fibers.name, fibers.ranks);
        const bool lock_step = fibers.name.ends_with("lock step");
        all.push_back({of + "SimGrid's time in that of fibers",
                       gx::bench::times_as_long(fibers.peer_cpu_seconds, fibers.cpu_seconds),
                       lock_step ? 3.0 : 4.0, gx::bench::Bound::at_least});
        if (fibers.name.ends_with("jittered"))
            all.push_back({of + "fibers' time in that of callbacks",
                           gx::bench::times_as_long(fibers.cpu_seconds, callbacks.cpu_seconds),
                           1.25, gx::bench::Bound::at_most});
    }
    return all;
}
nlohmann::json print_goals(const std::vector<Judged>& all) {
    nlohmann::json rows = nlohmann::json::array();
    for (const Judged& g : all) {
        const auto verdict = g.verdict();
        const bool least = g.bound == gx::bench::Bound::at_least;
        nlohmann::json row{{"what", g.what},
                           {"ratio", nullptr},
                           {least ? "at_least" : "at_most", g.goal},
                           {"met", nullptr}};
        fmt::print("goal: {}, {} {}: ", g.what, least ? "at least" : "at most", g.goal);
        if (verdict == gx::bench::Verdict::not_judged) {
            fmt::print("not judged: {}\n",
                       gx::bench::why_not_judged(g.ratio, "SimGrid did not run"));
        } else {
            row["ratio"] = *g.ratio, row["met"] = verdict == gx::bench::Verdict::met;
            fmt::print("{:.2f}, {}\n", *g.ratio,
                       verdict == gx::bench::Verdict::met ? "met" : "MISSED");
        }
        rows.push_back(row);
    }
    return rows;
}

void measure(const std::string& json, int ranks, bool with_peer) {
    gx::expect_outputs({{"--json", json}});
    Peer peer = Peer::find(with_peer), nobody{"", "", ""};
    if (peer.program.empty()) fmt::print("{}\n", peer.missing);
    std::vector<Result> results;
    const auto keep = [&](const std::array<Result, 2>& rows) {
        results.insert(results.end(), rows.begin(), rows.end());
    };
    keep(compare(
        "ring of 100 MB on a star, 100 rounds",
        {.hosts = 1024, .rounds = 100, .bytes = 1e8 / 1024, .host_bytes_per_second = 3.125e9},
        peer));
    for (const int hosts : {64, 256, 1024}) {
        const int rounds = 16'384 / hosts;
        keep(leaf_spine(hosts, rounds, 0, peer));
        keep(leaf_spine(hosts, rounds, 100'000, peer));
    }
    const std::vector<Judged> judged = judge(results);
    keep(compare("ring of 100 MB on a star, every message",
                 {.hosts = ranks,
                  .rounds = 2 * (ranks - 1),
                  .bytes = 1e8 / ranks,
                  .host_bytes_per_second = 3.125e9},
                 nobody));
    const Result equal = equal_flows(256, false), apart = equal_flows(256, true);
    const double fold = apart.cpu_seconds / equal.cpu_seconds;
    fmt::print("{:40} {:>45} {:6.1f} times as long, {:.1f} times as many flows solved\n", "", "",
               fold, double(apart.flows_solved) / double(equal.flows_solved));
    results.insert(results.end(), {equal, apart});
    const double memory_mb = peak_memory_mb();  // of all that was simulated so far
    results.push_back(ring(1024));
    results.push_back(contended(8));
    results.push_back(payload(8, 1 << 20));
    results.push_back(payload(64, 1 << 16));
    fmt::print("memory at most {:.1f} MB\n", memory_mb);
    const nlohmann::json goals = print_goals(judged);
    if (json.empty()) return;
    nlohmann::json cases = nlohmann::json::array();
    for (const Result& r : results) cases.push_back(to_json(r));
    nlohmann::json all{{"benchmark", "sim"},
                       {"cases", cases},
                       {"goals", goals},
                       {"peak_memory_mb", memory_mb},
                       {"times_faster_for_equal_flows", fold}};
    if (peer.program.empty()) all["peer_missing"] = peer.missing;
    else
        all["peer"] =
            fmt::format("SimGrid {}, C++ library, CM02, crosstraffic 0, TCP-gamma 0", peer.version);
    gx::write_file(json, all.dump(2) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
    std::string json;
    int ranks = 4096;
    bool no_peer = false;
    CLI::App app("Messages a second of the simulator, and of SimGrid where it is installed.",
                 "gx bench sim");
    app.add_option("--json", json, "also write what was measured there");
    app.add_flag("--no-peer", no_peer, "leave SimGrid out");
    app.add_option("--ranks", ranks, "of the ring that simulates every message")
        ->check(gx::count_in(2, 65'536))
        ->capture_default_str();
    return gx::run_program(app, argc, argv, [&] { measure(json, ranks, !no_peer); });
}
