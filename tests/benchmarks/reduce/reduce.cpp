// All-reduce inside a machine: gx by threads and by MPI processes, MPI_Allreduce, and the floor.
// Run:     ./gx bench reduce [--ranks 2,4,8] [--sizes 1024,65536] [--launches N] [--json FILE]
// Prints:  a line for each world, reducer, rank count, size and type, with each goal: met, missed,
//          or why it is not judged
//
// They take turns, so that what disturbs the machine disturbs all: gx::SharedMemory on Threads; the
// floor (one pass without any library); MPI_Allreduce of Open MPI and of MPICH, in processes; and
// gx's reducers between processes of either. Beside a reducer that sends its messages by an MPI
// stands the MPI_Allreduce of that MPI, and the better of these reducers has the goal; beside all
// others stands the quicker of both. The peers and the floor sum, gx divides by the rank count too.
// Every rank rewrites its own gradient before each repeat. A launch may keep a speed of its own,
// and a machine that is shared be three times as slow in the next minute: so all jobs are launched
// several times. A time is the median over launches of rank 0's median, a ratio the median of the
// ratios within a launch. Ranks are bound to cores where there are enough, buffers lie on 2 MiB
// pages where the kernel has them: behind each time and in `pages_kib` are those that rank 0's
// buffer had, 4K or 2M; 4K if a launch had them.
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <gx/core/detail/gate.hpp>       // Gate
#include <gx/io/atomic_file.hpp>         // write_file
#include <gx/memory/buffer.hpp>          // Buffer
#include <gx/reducer/ring.hpp>           // Ring
#include <gx/shared_memory/reducer.hpp>  // SharedMemory
#include <gx/threads/threads.hpp>        // ThreadWorld

#include "../../../sims/support/command_line.hpp"  // run_program
#include "../machine.hpp"                          // cpu_name
#include "../step/clock.hpp"                       // median, OtherLoad
#include "../step/peer.hpp"                        // Peer
#include "../verdict.hpp"                          // verdict_of, why_not_judged
#include "pages.hpp"                               // pages_kib

namespace {

using gx::bench::Bound;
using gx::bench::median;
using gx::bench::Peer;
using gx::bench::Verdict;
using gx::bench::verdict_of;
using gx::bench::why_not_judged;
using Micros = std::vector<double>;
/// Of a turn: the time of each repeat, none if its job has ended, and the pages of the buffer.
struct Measured {
    Micros us{};
    int pages_kib = 0;
};
constexpr const char* in_halves = "bf16 buffers";  ///< a wire: gradients are kept in bf16

struct Settings {
    std::vector<int> ranks{2, 4, 8};
    std::vector<std::size_t> sizes{1 << 10, 1 << 16, 1 << 20, 16 << 20, 100 << 20};
    int launches = 7;
    std::filesystem::path json{};
};

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// ---- gx on threads ------------------------------------------------------------------------------

void bind_to_core(int rank) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<unsigned>(rank % cores()), &set);
    (void)sched_setaffinity(0, sizeof(set), &set);
}

/// `S`: what gradients are stored in, fp32 or the reducer's own element.
template <class R, class S = gx::fp32>
Measured on_threads(int ranks, std::size_t elements, int repeats) {
    const auto one = S::encode(1.0f);
    Measured all;
    gx::ThreadWorld<> world({.placement = {1, ranks}, .on_start = &bind_to_core});
    gx::detail::Gate gate;
    const bool spins = ranks <= cores();  // once: it takes 5 us, as it reads a file
    const auto meet = [&](int round) {
        const auto last = static_cast<std::uint64_t>(round * ranks);
        if (gate.enter(last)) return;
        while (!gx::detail::spin(spins, [&] { return gate.is_open(last); })) {
        }
    };
    world.run([&](auto& rank) {
        const auto count = static_cast<std::int64_t>(elements);
        gx::Buffer<typename S::storage> buffer(nullptr, count, "gradient");
        const auto values = buffer.view();
        R reducer;
        reducer.reserve(gx::ReducePlan::whole({1, ranks}, count));
        for (int i = -2; i < repeats; ++i) {
            std::ranges::fill(values, one);
            meet(i + 3);
            const auto from = std::chrono::steady_clock::now();
            bool complete = false;
            if constexpr (std::same_as<S, gx::fp32>)
                complete = reducer.all_reduce(rank.transport(), gx::Bucket(values)).complete();
            else complete = reducer.average(rank.transport(), values).complete();
            const std::chrono::duration<double, std::micro> took =
                std::chrono::steady_clock::now() - from;
            if (rank.rank() == 0 && i >= 0) all.us.push_back(took.count());
            if (!complete || values.front() != one || values.back() != one)
                throw gx::Error("the mean of ones is not 1: the reduction is at fault");
        }
        if (rank.rank() == 0)
            all.pages_kib = gx::bench::pages_kib(values.data(), values.size_bytes());
    });
    return all;
}

// ---- Programs in processes of their own ---------------------------------------------------------

/// A job of `program` under the launcher of an MPI, or the program alone where there is none.
std::unique_ptr<Peer> start(const std::string& mpi, const std::string& program, int ranks,
                            bool prints_missing) {
    const bool fits = ranks <= cores();
    const auto folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    std::vector<std::string> command;
    if (mpi == "openmpi") {
        command = {"/usr/bin/mpirun.openmpi", "--quiet",   "--allow-run-as-root",
                   "--oversubscribe",         "--bind-to", fits ? "core" : "none"};
        if (!fits) command.insert(command.end(), {"--mca", "mpi_yield_when_idle", "1"});
    } else if (mpi == "mpich") {
        command = {"/usr/bin/mpiexec.mpich"};
        if (fits) command.insert(command.end(), {"-bind-to", "core"});
    }
    if (!mpi.empty()) command.insert(command.end(), {"-n", std::to_string(ranks)});
    command.push_back(folder / program);
    for (const std::string& file : {command.front(), command.back()})
        if (!std::filesystem::exists(file)) {
            if (prints_missing)
                std::printf("%s on %d ranks is left out: there is no %s\n", program.c_str(), ranks,
                            file.c_str());
            return nullptr;
        }
    return std::make_unique<Peer>(command, 1);
}

/// Something that is measured, and its median time in each launch, by the bytes of a gradient.
struct Contender {
    std::string world, reducer, wire;
    std::function<Measured(std::size_t elements, int repeats)> measure{};
    bool is_peer = false, is_floor = false;
    std::map<std::size_t, Micros> launches{};
    std::map<std::size_t, int> pages_kib{};  ///< the smallest of the launches

    [[nodiscard]] double us(std::size_t bytes) const { return median(launches.at(bytes)); }
};
/// Of the launches, how many times as long `other` took.
double ratio(const Contender& other, const Contender& mine, std::size_t bytes) {
    Micros ratios;
    for (std::size_t i = 0; i < mine.launches.at(bytes).size(); ++i)
        ratios.push_back(other.launches.at(bytes)[i] / mine.launches.at(bytes)[i]);
    return median(ratios);
}

/// Those of `ranks` ranks that this machine has programs for, whose jobs are launched.
std::vector<Contender> contenders(int ranks, bool prints_missing) {
    std::vector<Contender> all;
    const auto on_own = [&]<class R, class S = gx::fp32>(const char* reducer, const char* wire) {
        all.push_back({"Threads", reducer, wire, [ranks](std::size_t elements, int repeats) {
                           return on_threads<R, S>(ranks, elements, repeats);
                       }});
    };
    on_own.operator()<gx::SharedMemory<>>("SharedMemory<fp32>", "fp32");
    on_own.operator()<gx::SharedMemory<gx::bf16>>("SharedMemory<bf16>", "bf16");
    on_own.operator()<gx::SharedMemory<gx::bf16>, gx::bf16>("SharedMemory<bf16>", in_halves);
    on_own.operator()<gx::Ring<>>("Ring<fp32>", "fp32");
    const auto join = [&](Contender c, std::shared_ptr<Peer> peer, const std::string& before,
                          const std::string& after) {
        c.measure = [peer, before, after](std::size_t elements, int repeats) {
            Measured turn{peer->ask(
                before + std::to_string(elements) + after + std::to_string(repeats), repeats + 1)};
            if (std::ssize(turn.us) != repeats + 1) return Measured{};
            turn.pages_kib = static_cast<int>(turn.us.back()), turn.us.pop_back();
            return turn;
        };
        all.push_back(std::move(c));
    };
    const auto job = [&](const std::string& mpi, const std::string& program) {
        return std::shared_ptr<Peer>(start(mpi, program, ranks, prints_missing));
    };
    if (const auto floor = job("", "gx_floor_reduce"))
        for (const std::string type : {"fp32", "bf16"})
            join({.world = "", .reducer = "floor", .wire = type, .is_floor = true}, floor,
                 std::to_string(ranks) + " ", " " + type + " ");
    for (const auto& [mpi, name] : {std::pair{"openmpi", "Open MPI"}, {"mpich", "MPICH"}}) {
        if (const auto peer = job(mpi, std::string("gx_reduce_peer_") + mpi))
            join({.world = "", .reducer = name, .wire = "fp32", .is_peer = true}, peer,
                 "MPI_Allreduce ", " ");
        if (const auto rank = job(mpi, std::string("gx_reduce_rank_") + mpi))
            for (const std::string reducer :
                 {"SharedMemory<fp32>", "SharedMemory<bf16>", "Ring<fp32>", "HalvingDoubling<fp32>",
                  "RecursiveDoubling<fp32>"})
                join({.world = std::string("mpi::World, ") + name,
                      .reducer = reducer,
                      .wire = reducer.find("bf16") == reducer.npos ? "fp32" : "bf16"},
                     rank, reducer + " ", " ");
    }
    return all;
}

// ---- Rows ---------------------------------------------------------------------------------------

int repeats_of(std::size_t bytes, int ranks) {
    const int alone = bytes <= 1 << 16 ? 200 : bytes <= 1 << 20 ? 50 : bytes <= 16 << 20 ? 10 : 3;
    return ranks <= cores() ? alone : std::max(3, alone / ranks);
}

bool sends_messages(const Contender& c) {
    return c.world.starts_with("mpi") && !c.reducer.starts_with("SharedMemory");
}

const char* short_name(int kib) { return kib == 4 ? "4K" : "2M"; }

/// What a row has to reach; 0: no goal.
struct Goal {
    double peer = 0;   ///< of a peer's time in its own, at least
    double floor = 0;  ///< of the floor's time in its own, at least
    double fp32 = 0;   ///< its own time in that of the same reducer in fp32, at most
};
Goal goal_of(const Contender& c, bool is_best_by_messages, int ranks, std::size_t bytes) {
    const bool small = bytes <= 1 << 10;
    if (is_best_by_messages && ranks <= 4 && !small) return {bytes < 1 << 20 ? 0.9 : 1.0};
    if (c.wire == in_halves && bytes >= 1 << 20) return {.fp32 = 0.6};
    if (c.reducer == "SharedMemory<bf16>" && c.wire != in_halves) return {.fp32 = 1.15};
    if (c.reducer != "SharedMemory<fp32>") return {};
    if (c.world != "Threads") return {bytes >= 100 << 20 ? 2.1 : 1.0, 0};
    if (ranks > 2) return {small ? 1.5 : 2.0, 0};
    return {small               ? 1.4
            : bytes <= 1 << 16  ? 3.5
            : bytes <= 1 << 20  ? 5.0
            : bytes <= 16 << 20 ? 2.5
                                : 2.1,
            small ? 0.8 : 0.9};
}

nlohmann::json row_of(const Contender& mine, const std::vector<Contender>& all, int ranks,
                      std::size_t bytes) {
    const Contender *peer = nullptr, *floor = nullptr, *fp32 = nullptr, *best = nullptr;
    for (const Contender& c : all) {
        if (c.world == mine.world && c.reducer == "SharedMemory<fp32>" && &c != &mine) fp32 = &c;
        // Gradients are floats on every wire, but for those that are kept on 16 bits.
        if (c.is_floor && (c.wire == "bf16") == (mine.wire == in_halves)) floor = &c;
        const bool fits = !sends_messages(mine) || mine.world.ends_with(", " + c.reducer);
        if (c.is_peer && fits && (peer == nullptr || c.us(bytes) < peer->us(bytes))) peer = &c;
    }
    if (peer != nullptr && sends_messages(mine))
        for (const Contender& c : all)
            if (c.world == mine.world && sends_messages(c) &&
                (best == nullptr || ratio(*peer, c, bytes) > ratio(*peer, *best, bytes)))
                best = &c;
    const double us = mine.us(bytes);
    nlohmann::json row{{"world", mine.world}, {"reducer", mine.reducer}, {"ranks", ranks},
                       {"bytes", bytes},      {"wire", mine.wire},       {"gx_us", us},
                       {"peer", nullptr},     {"peer_us", nullptr},      {"floor_us", nullptr}};
    row["elements"] = bytes / sizeof(float), row["launches_us"] = mine.launches.at(bytes);
    const std::size_t kept = mine.wire == in_halves ? bytes / 2 : bytes;
    row["bytes"] = kept;
    row["goals"] = nlohmann::json::array();
    const bool judged = sends_messages(mine) && (peer == nullptr || best == &mine);
    const Goal goal = goal_of(mine, judged, ranks, bytes);
    const auto judge = [&](const char* beside, std::optional<double> value, double wanted,
                           Bound bound, const char* missing) {
        if (wanted == 0) return;
        nlohmann::json entry{{"beside", beside}, {"ratio", nullptr}, {"goal", wanted}};
        const Verdict verdict = verdict_of(value, wanted, bound);
        entry["met"] = nullptr;
        if (verdict == Verdict::not_judged) {
            const char* const why = why_not_judged(value, missing);
            std::printf("  %s (goal %.2f: not judged: %s)", beside, wanted, why);
            entry["why"] = why;
        } else {
            std::printf(" (goal %.2f: %s)", wanted, verdict == Verdict::met ? "met" : "missed");
            entry["ratio"] = *value, entry["met"] = verdict == Verdict::met;
        }
        row["goals"].push_back(std::move(entry));
    };
    const int pages = mine.pages_kib.at(bytes);
    row["pages_kib"] = {{"gx", pages}, {"peer", nullptr}, {"floor", nullptr}};
    std::printf("%-20s %-22s %-12s %d x %9zu floats  %10.1f us %s", mine.world.c_str(),
                mine.reducer.c_str(), mine.wire.c_str(), ranks, bytes / sizeof(float), us,
                short_name(pages));
    std::optional<double> share, times, of_fp32;
    if (floor != nullptr) {
        share = ratio(*floor, mine, bytes);
        row["floor_us"] = floor->us(bytes), row["floor_ratio"] = *share;
        const int floor_pages = floor->pages_kib.at(bytes);
        row["pages_kib"]["floor"] = floor_pages;
        std::printf("  floor %10.1f %s, %5.2f", floor->us(bytes), short_name(floor_pages), *share);
    }
    judge("floor", share, goal.floor, Bound::at_least, "gx_floor_reduce was not built");
    if (peer != nullptr) {
        times = ratio(*peer, mine, bytes);
        row["peer"] = peer->reducer, row["peer_us"] = peer->us(bytes);
        row["peer_ratio"] = *times, row["peer_launches_us"] = peer->launches.at(bytes);
        const int peer_pages = peer->pages_kib.at(bytes);
        row["pages_kib"]["peer"] = peer_pages;
        std::printf("  %s %10.1f %s, %5.2f", peer->reducer.c_str(), peer->us(bytes),
                    short_name(peer_pages), *times);
    }
    judge("peer", times, goal.peer, Bound::at_least,
          "no MPI_Allreduce beside it: its MPI or gx_reduce_peer_openmpi and _mpich are missing");
    if (fp32 != nullptr && goal.fp32 > 0) {
        of_fp32 = 1 / ratio(*fp32, mine, bytes);
        row["of_fp32"] = *of_fp32;
        std::printf("  of fp32 %5.2f", *of_fp32);
    }
    judge("fp32", of_fp32, goal.fp32, Bound::at_most, "its row in fp32 is missing");
    std::printf("\n");
    return row;
}

/// Of the last minute.
std::string load_average() {
    std::string first;
    std::ifstream("/proc/loadavg") >> first;
    return first;
}

void measure(const Settings& settings) {
    gx::expect_outputs({{"--json", settings.json}});
    for (const std::size_t bytes : settings.sizes)
        if (bytes % sizeof(float) != 0)
            throw gx::Error("--sizes " + std::to_string(bytes) +
                            ": expected a multiple of 4, the bytes of a float");
    std::printf("on %s, %d cores; ranks on more cores than there are yield; 4K, 2M: pages\n",
                gx::bench::cpu_name().c_str(), cores());
    nlohmann::json rows = nlohmann::json::array();
    const std::string load_before = load_average();
    for (const int ranks : settings.ranks) {
        std::vector<Contender> all;
        for (int launch = 0; launch < settings.launches; ++launch) {
            std::fprintf(stderr, "%d ranks: launch %d of %d\n", ranks, launch + 1,
                         settings.launches);
            std::vector<Contender> launched = contenders(ranks, launch == 0);
            for (Contender& c : launched)  // all jobs have started then, and sleep
                if (c.measure(1, 1).us.empty()) throw gx::Error(c.reducer + " did not start");
            for (const std::size_t bytes : settings.sizes)
                for (Contender& c : launched) {
                    const Measured turn =
                        c.measure(bytes / sizeof(float), repeats_of(bytes, ranks));
                    if (turn.us.empty())
                        throw gx::Error(c.reducer + " ended before it was measured");
                    c.launches[bytes].push_back(median(turn.us));
                    c.pages_kib[bytes] = turn.pages_kib;
                }
            for (Contender& c : launched) c.measure = {};  // which ends its job
            if (launch == 0) all = std::move(launched);
            else
                for (std::size_t i = 0; i < all.size(); ++i)
                    for (const std::size_t bytes : settings.sizes) {
                        int& pages = all[i].pages_kib[bytes];
                        pages = std::min(pages, launched[i].pages_kib[bytes]);
                        all[i].launches[bytes].push_back(launched[i].launches[bytes].front());
                    }
        }
        for (const std::size_t bytes : settings.sizes)
            for (const Contender& c : all)
                if (!c.is_peer && !c.is_floor) rows.push_back(row_of(c, all, ranks, bytes));
        std::fflush(stdout);
    }
    int judged = 0, met = 0, not_judged = 0;
    for (const auto& row : rows)
        for (const auto& goal : row.at("goals")) {
            if (goal.at("met").is_null()) ++not_judged;
            else ++judged, met += goal.at("met").get<bool>();
        }
    std::printf("goals met: %d of %d", met, judged);
    if (not_judged > 0)
        std::printf(
            "; not judged: %d, for the reason beside each; ./gx bench reduce builds what is "
            "missing where the MPIs are installed",
            not_judged);
    std::printf("\n");
    const std::string load = load_before + " before, " + load_average() + " after";
    std::printf("load averages (the peers' processes sleep between their turns): %s\n",
                load.c_str());
    if (settings.json.empty()) return;
    const nlohmann::json all{
        {"benchmark", "reduce"}, {"cpu", gx::bench::cpu_name()},  {"cores", cores()},
        {"load", load},          {"launches", settings.launches}, {"rows", rows}};
    gx::write_file(settings.json, all.dump(2) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
    Settings s;
    CLI::App app("All-reduce inside a machine: gx, MPI_Allreduce and the floor, in turns.",
                 "gx bench reduce");
    app.option_defaults()->always_capture_default();
    app.add_option("--ranks", s.ranks, "rank counts")
        ->delimiter(',')
        ->check(CLI::IsMember({2, 4, 8}));
    app.add_option("--sizes", s.sizes, "bytes of a gradient")
        ->delimiter(',')
        ->check(gx::count_in(4, 1 << 30));
    app.add_option("--launches", s.launches, "of each job")->check(gx::count_in(1, 1 << 20));
    app.add_option("--json", s.json, "also write what was measured there");
    return gx::run_program(app, argc, argv, [&] { measure(s); });
}
