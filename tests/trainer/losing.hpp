// Worlds that lose ranks where a script says, devices that log the images of each step, and what
// such a run ends with.
#pragma once

#include <algorithm>  // find, min
#include <limits>     // no end
#include <cmath>      // lround
#include <map>        // how often
#include <mutex>      // ranks are threads
#include <ranges>     // drop
#include <span>       // lost ranks
#include <string>     // sentences
#include <vector>     // departures

#include <gtest/gtest.h>

#include <gx/collective/dissemination_barrier.hpp>  // barrier
#include <gx/core/error.hpp>                        // DeviceLost
#include <gx/core/world.hpp>                        // Survivors
#include <gx/reducer/name.hpp>                      // reducer_name
#include <gx/reference/device.hpp>                  // Device
#include <gx/sim/world/cluster.hpp>                 // Cluster
#include <gx/sim/world/device.hpp>                  // sim::Device
#include <gx/testing/mutant.hpp>                    // Mutant
#include <gx/threads/threads.hpp>                   // ThreadWorld
#include <gx/trainer/checkpoint.hpp>                // read_checkpoint
#include <gx/trainer/record.hpp>                    // LossRow
#include <trainer/small.hpp>                        // Folder

namespace testing_support {

/// Ranks of one world that leave it before step `step` of the run is applied.
struct Departure {
    std::vector<int> ranks{};
    std::int64_t step = 0;
    bool device = false;  ///< they lose their devices in that step's forward pass; gradients of
                          ///< earlier steps may be on their way. Else every rank has those
};

/// What all devices of a run see and write.
struct Script {
    std::vector<Departure> departures{};  ///< by world
    std::size_t world = 0;
    [[nodiscard]] std::int64_t first_step(std::size_t w) const {
        return w == 0 ? 0 : departures[w - 1].step;
    }
    std::mutex mutex{};
    /// Images of each training pass: by world, by pass.
    std::vector<std::map<std::int64_t, std::vector<int>>> seen{};
    std::map<std::pair<std::size_t, int>, std::int64_t> passes{};  ///< by world and rank
    /// Of the optimizer's state of a rank, where its reducer owns the update.
    std::map<std::pair<std::size_t, int>, std::int64_t> state_elements{};
};
inline Script& script() {
    static Script one;
    return one;
}

/// Logs the images of the training passes of a device, and loses it where the script says. Pixel 0
/// of an image is its number, where `numbered()` made the data.
class PassLog {
public:
    PassLog(const gx::Graph& graph, gx::DeviceOptions o)
        : rank_(o.rank), world_(script().world), pixels_(std::size_t(graph.input.elements())) {}
    void operator()(const gx::Batch& batch) {
        Script& s = script();
        const std::lock_guard lock(s.mutex);
        const std::int64_t pass = s.passes[{world_, rank_}]++;  // of all its devices
        if (world_ < s.departures.size() && s.departures[world_].device &&
            s.departures[world_].step == s.first_step(world_) + pass)
            for (const int rank : s.departures[world_].ranks)
                if (rank == rank_) throw gx::DeviceLost("the device of a rank is gone");
        s.seen.resize(std::max(s.seen.size(), world_ + 1));
        auto& images = s.seen[world_][pass];
        for (std::size_t i = 0; i < std::size_t(batch.count); ++i)
            images.push_back(static_cast<int>(std::lround(batch.images[i * pixels_])));
    }

private:
    int rank_;
    std::size_t world_, pixels_;
};

/// A reference device that may be lost.
class Mortal : public gx::reference::Device {
public:
    Mortal(const gx::Graph& graph, gx::DeviceOptions o)
        : gx::reference::Device(graph, o), log_(graph, o) {}
    gx::ForwardReport forward(const gx::Batch& batch, gx::Mode mode) {
        if (mode == gx::Mode::train) log_(batch);
        return gx::reference::Device::forward(batch, mode);
    }

private:
    PassLog log_;
};

/// Whether `bucket` is of the step that ranks depart before.
inline bool departs_at(const gx::Bucket& bucket) {
    const Script& s = script();
    return s.world < s.departures.size() && !s.departures[s.world].device &&
           bucket.gradient == std::uint64_t(s.departures[s.world].step);
}
/// A reduction that no rank gets. A barrier before it lets all earlier ones end.
gx::ReduceReport depart(gx::Transport auto& link) {
    const auto all = gx::collective::barrier(link, 0);
    if (!all.delivery.complete()) return {.delivery = all.delivery};
    const Script& s = script();
    return {.delivery = {gx::Delivery::Outcome::timed_out, s.departures[s.world].ranks.at(0)}};
}

/// R, but for departures: their step is the first that no rank gets.
template <gx::Reducer R>
struct Departing : gx::testing::Mutant<R> {
    static constexpr std::int64_t bucket_elements = [] {
        if constexpr (requires { R::bucket_elements; }) return R::bucket_elements;
        else return 0;
    }();
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        return departs_at(bucket) ? depart(link) : this->inner_.all_reduce(link, bucket);
    }
};
/// The same of a reducer that owns the update; logs how much of the optimizer's state it is given.
template <gx::Reducer R>
    requires gx::OwnsUpdate<R>
struct Departing<R> : R {
    using R::R;
    [[nodiscard]] static std::string name() { return gx::reducer_name<R>(); }
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        return departs_at(bucket) ? depart(link) : R::all_reduce(link, bucket);
    }
    void own_update(int rank, std::span<float> state) {
        {
            Script& s = script();
            const std::lock_guard lock(s.mutex);
            s.state_elements[{s.world, rank}] = std::ssize(state);
        }
        R::own_update(rank, state);
    }
};

/// `data` whose images hold their number in pixel 0, up to 255, which a loader hands out as it is.
inline gx::Split numbered(gx::Split data) {
    const auto pixels = std::size_t(data.train.shape.elements());
    for (std::size_t i = 0; i < std::size_t(data.train.count()); ++i)
        data.train.pixels[i * pixels] = static_cast<std::uint8_t>(i);
    data.train.mean = data.test.mean = {0};
    data.train.deviation = data.test.deviation = {1.0f / 255};
    return data;
}

/// `data` whose images have their number in every pixel, so that a resized one has it too.
inline gx::Split numbered_at_any_size(gx::Split data) {
    const auto pixels = std::size_t(data.train.shape.elements());
    for (std::size_t i = 0; i < data.train.pixels.size(); ++i)
        data.train.pixels[i] = static_cast<std::uint8_t>(i / pixels);
    return numbered(std::move(data));
}

/// W, that tells `script()` which world of a run it is. Where the script has a departure, the next
/// world is without these ranks; else as W has it.
template <class W>
class Scripted {
public:
    using Rank = typename W::Rank;
    explicit Scripted(std::unique_ptr<W> world, std::size_t index = 0)
        : world_(std::move(world)), index_(index) {}
    [[nodiscard]] int ranks() const { return world_->ranks(); }
    [[nodiscard]] gx::Placement placement() const { return world_->placement(); }
    void run(gx::FunctionRef<void(Rank&)> f) {
        script().world = index_;
        world_->run(f);
    }
    [[nodiscard]] gx::Survivors<Scripted> survivors(std::span<const int> lost,
                                                    gx::Nanoseconds t) const {
        const auto& all = script().departures;
        const bool scripted = index_ < all.size() && !all[index_].device;
        auto left = world_->survivors(scripted ? std::span<const int>(all[index_].ranks) : lost, t);
        return {left.members, left.world
                                  ? std::make_unique<Scripted>(std::move(left.world), index_ + 1)
                                  : nullptr};
    }

private:
    std::unique_ptr<W> world_;
    std::size_t index_;
};
using ScriptedCluster = Scripted<gx::sim::Cluster<Mortal>>;
using ScriptedThreads = Scripted<gx::ThreadWorld<Mortal>>;

/// Sets the script: the departures, and nothing seen.
inline void set_script(std::vector<Departure> departures) {
    script().departures = std::move(departures);
    script().world = 0;
    script().seen.clear();
    script().passes.clear();
    script().state_elements.clear();
}
inline ScriptedCluster scripted_cluster(const gx::sim::ClusterSpec& spec,
                                        gx::sim::ClusterOptions options = {}) {
    using World = gx::sim::Cluster<Mortal>;
    return ScriptedCluster(std::make_unique<World>(spec, std::move(options)));
}
inline ScriptedThreads scripted_threads(int ranks) {
    using World = gx::ThreadWorld<Mortal>;
    return ScriptedThreads(std::make_unique<World>(World::Options{.placement = {ranks, 1}}));
}

/// The departures that repeat the history of `losses`, of a run that began with `ranks`: who left,
/// each after the steps of its world that count.
inline std::vector<Departure> departures_of(const std::vector<gx::LossRow>& losses, int ranks) {
    std::vector<int> members(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < members.size(); ++i) members[i] = static_cast<int>(i);
    std::vector<Departure> out;
    for (std::size_t i = 0; i < losses.size(); ++i) {
        std::int64_t end = losses[i].step;
        for (const gx::LossRow& later : losses | std::views::drop(i))
            end = std::min(end, later.step);
        Departure d{.step = end};
        std::vector<int> left;
        for (std::size_t r = 0; r < members.size(); ++r)
            if (std::ranges::find(losses[i].lost, members[r]) != losses[i].lost.end())
                d.ranks.push_back(static_cast<int>(r));
            else left.push_back(members[r]);
        members = left;
        out.push_back(std::move(d));
    }
    return out;
}

/// How often each image was seen in the steps that count.
inline std::map<int, int> seen_in(const std::vector<gx::LossRow>& losses) {
    std::map<int, int> times;
    const auto& seen = script().seen;
    for (std::size_t w = 0; w < seen.size(); ++w) {
        std::int64_t first = w == 0 ? 0 : -1, end = std::numeric_limits<std::int64_t>::max();
        for (const gx::LossRow& row : losses) {
            if (row.world == int(w)) first = row.step;
            if (row.world > int(w)) end = std::min(end, row.step);
        }
        if (first < 0) continue;  // it broke before its first step
        for (const auto& [pass, images] : seen[w])
            if (first + pass < end)
                for (const int image : images) ++times[image];
    }
    return times;
}

/// A run, the state of its last checkpoint, and how often each image was seen.
struct Outcome {
    gx::RunRecord record{};
    gx::Checkpoint end{};
    std::map<int, int> seen{};
};
/// Trains T of model M.
template <class T, class M>
Outcome outcome(auto& world, const gx::Split& data, typename T::Options o, bool evaluates = false) {
    const Folder folder;
    o.output = folder.path;
    o.evaluate = evaluates;
    Outcome out{.record = T(o).train(world, data)};
    const auto graph = gx::graph<M>({.input = data.train.shape, .classes = data.train.classes});
    out.end = gx::read_checkpoint(folder.path / gx::checkpoint_name(o.epochs), graph);
    out.seen = seen_in(out.record.losses);
    return out;
}
inline void expect_same_state(const Outcome& a, const Outcome& b) {
    EXPECT_EQ(a.record.weights_hash, b.record.weights_hash);
    EXPECT_EQ(a.end.parameters, b.end.parameters);
    EXPECT_EQ(a.end.statistics, b.end.statistics);
    EXPECT_EQ(a.end.optimizer, b.end.optimizer);
    EXPECT_EQ(a.end.scalars, b.end.scalars);
    EXPECT_EQ(a.end.reducer, b.end.reducer);
    EXPECT_EQ(a.end.updates, b.end.updates);
}

}  // namespace testing_support
