// How fast threads average a gradient, beside copying as many bytes in the same run.
// Run:     ./gx bench threads [--json FILE]
// Prints:  a line for each reducer; the limit is memory that is read once and written once.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gx/threads/threads.hpp>
#include <gx/model/resnet.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/name.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/io/atomic_file.hpp>

#include "../../sims/support/command_line.hpp"  // expect_outputs, run_program
#include "machine.hpp"                          // cpu_name

namespace {

using Clock = std::chrono::steady_clock;

constexpr int ranks = 2, repetitions = 7;

/// Seconds of `work(rank)` on all ranks together, the least of a few runs.
template <class Prepare>
double least_seconds(Prepare prepare) {
    double least = 1e9;
    gx::Threads<ranks> world;
    world.run([&](auto& rank) {
        auto work = prepare(rank);
        std::byte token{};
        for (int run = 0; run < repetitions; ++run) {
            auto& link = rank.transport();  // both begin together
            const auto sent = link.send(1 - rank.rank(), 1, {&token, 1});
            std::byte theirs{};
            const auto received = link.receive(1 - rank.rank(), 1, {&theirs, 1});
            (void)link.wait(sent), (void)link.wait(received);
            const auto begin = Clock::now();
            work();
            const std::chrono::duration<double> took = Clock::now() - begin;
            if (rank.rank() == 0) least = std::min(least, took.count());
        }
    });
    return least;
}

/// Every rank copies a gradient: what an all-reduce must at least read and write.
double copying(std::size_t elements) {
    return least_seconds([elements](auto&) {
        return [from = std::vector<float>(elements, 1.0f),
                to = std::vector<float>(elements, 2.0f)]() mutable {
            std::copy(from.begin(), from.end(), to.begin());
        };
    });
}
template <class R>
nlohmann::json reducing(std::size_t elements) {
    const double limit = copying(elements);
    const double seconds = least_seconds([elements](auto& rank) {
        R reducer;
        reducer.reserve(gx::ReducePlan::whole(rank.transport().placement(),
                                              static_cast<std::int64_t>(elements)));
        return [&rank, reducer = std::move(reducer),
                values = std::vector<float>(elements, 1.0f)]() mutable {
            (void)reducer.all_reduce(rank.transport(), values);
        };
    });
    fmt::print("{:30} {:7.1f} ms, {:4.1f} times the {:5.1f} ms of copying\n", gx::reducer_name<R>(),
               1e3 * seconds, seconds / limit, 1e3 * limit);
    return {{"reducer", gx::reducer_name<R>()},
            {"milliseconds", 1e3 * seconds},
            {"copying_milliseconds", 1e3 * limit},
            {"times_copying", seconds / limit}};
}

void measure(const std::string& json) {
    gx::expect_outputs({{"--json", json}});
    using gx::Bucketed, gx::Ring, gx::fp16;
    const auto elements = static_cast<std::size_t>(gx::graph<gx::ResNet50>().parameter_elements());
    fmt::print("{} threads, {:.0f} MB of gradients each, on {}\n", ranks, 4e-6 * double(elements),
               gx::bench::cpu_name());
    nlohmann::json cases = nlohmann::json::array();
    cases.push_back(reducing<Ring<>>(elements));
    cases.push_back(reducing<Bucketed<Ring<>, 4 << 20>>(elements));
    cases.push_back(reducing<Bucketed<Ring<>, 1 << 20>>(elements));
    cases.push_back(reducing<Bucketed<Ring<>, 1 << 18>>(elements));
    cases.push_back(reducing<Ring<fp16>>(elements));
    cases.push_back(reducing<Bucketed<Ring<fp16>, 1 << 19>>(elements));
    if (json.empty()) return;
    const nlohmann::json all{{"benchmark", "threads"},
                             {"cpu", gx::bench::cpu_name()},
                             {"ranks", ranks},
                             {"cases", cases}};
    gx::write_file(json, all.dump(2) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
    std::string json;
    CLI::App app("How fast threads average a gradient, beside copying as many bytes.",
                 "gx bench threads");
    app.add_option("--json", json, "also write what was measured there");
    return gx::run_program(app, argc, argv, [&] { measure(json); });
}
