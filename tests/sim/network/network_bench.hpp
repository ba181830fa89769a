// Bench: a network with an engine of its own, and when each flow ended.
#pragma once

#include <cstdint>  // uint64_t
#include <memory>   // unique_ptr
#include <utility>  // pair
#include <vector>   // flows

#include <gx/sim/network/network.hpp>  // FlowNetwork

/// Messages are started at once or later, and told apart by their order of making.
struct Bench {
    gx::sim::Engine engine{};
    gx::sim::FlowNetwork network{engine};
    std::vector<gx::Nanoseconds> ended{};
    struct Mark {
        Bench* bench;
        std::size_t index;
    };
    std::vector<std::unique_ptr<Mark>> marks{};

    int link(gx::BytesPerSecond rate) { return network.add_link(rate); }
    gx::sim::Transfer flow(std::vector<int> path, gx::Bytes bytes) {
        gx::sim::Transfer f{.bytes = bytes};
        for (const int l : path) f.path.add(l);
        marks.push_back(std::make_unique<Mark>(Mark{this, ended.size()}));
        ended.push_back(gx::Nanoseconds(-1));
        f.done = {[](void* m, std::uint64_t) {
                      auto& mark = *static_cast<Mark*>(m);
                      mark.bench->ended[mark.index] = mark.bench->engine.now();
                  },
                  marks.back().get(), 0};
        return f;
    }
    void start(std::vector<int> path, gx::Bytes bytes) {
        network.start(flow(std::move(path), bytes));
    }
    void start_at(gx::Nanoseconds t, const gx::sim::Transfer& f) {
        later.push_back({this, f});
        engine.at(t, f.rank,
                  {[](void* b, std::uint64_t i) {
                       auto& bench = *static_cast<Bench*>(b);
                       bench.network.start(bench.later[i].second);
                   },
                   this, later.size() - 1});
    }
    /// The link carries this much from then on.
    void set_at(gx::Nanoseconds t, int link, gx::BytesPerSecond rate) {
        changes.push_back({link, rate});
        engine.at(t, 0,
                  {[](void* b, std::uint64_t i) {
                       auto& bench = *static_cast<Bench*>(b);
                       const auto [changed, to] = bench.changes[i];
                       bench.network.set_capacity(changed, to);
                   },
                   this, changes.size() - 1});
    }
    std::vector<std::pair<Bench*, gx::sim::Transfer>> later{};
    std::vector<std::pair<int, gx::BytesPerSecond>> changes{};
};
