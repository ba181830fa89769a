// Worlds of a trial: a simulated cluster whose ranks log what they train on, and what they apply.
#pragma once

#include <algorithm>   // copy, fill
#include <array>       // scales
#include <cmath>       // lround
#include <deque>       // worlds
#include <filesystem>  // torn checkpoints
#include <functional>  // charges
#include <limits>      // infinity
#include <memory>      // unique_ptr
#include <optional>    // no bad layer
#include <span>        // batches
#include <string>      // sentences
#include <utility>     // move
#include <vector>      // logs

#include <fuzz/rank_log.hpp>             // RankLog
#include <fuzz/verdict.hpp>              // Scenario, Tampering, fault_classes
#include <gx/core/device.hpp>            // Batch, ForwardReport
#include <gx/core/error.hpp>             // LostRank
#include <gx/core/rng.hpp>               // Rng
#include <gx/core/world.hpp>             // Survivors
#include <gx/optimizer/update_args.hpp>  // UpdateArgs
#include <gx/sim/world/cluster.hpp>      // Cluster
#include <gx/trainer/checkpoint.hpp>     // checkpoint_name

namespace gx::sim::fuzz {

/// What one world has done.
struct WorldLog {
    ClusterSpec cluster{};
    std::vector<RankLog> ranks{};
    Nanoseconds elapsed{};
    std::uint64_t event_hash = 0;
    bool ended = false;                   ///< some rank was told that another is lost
    int told = 0, left = -1;              ///< how many; ranks of the next world, -1: none was asked
    int waiting = 0;                      ///< ranks that neither died nor finished the run
    std::string error{};                  ///< the first of them
    std::vector<std::string> problems{};  ///< of what must hold and did not
};

/// A trial, as its worlds see it.
struct Trial {
    const Scenario& scenario;
    const Tampering& tampering;
    double wire_scale = 1;           ///< by which Trainer divides the size of buckets
    std::filesystem::path folder{};  ///< of checkpoints, where there are any
    std::deque<WorldLog> worlds{};
    std::array<bool, fault_classes> fired{};
    std::size_t torn = 0;  ///< checkpoints that were torn
};

/// The device that is being built, for the loader that comes behind it.
struct Built {
    const Trial* trial = nullptr;
    int phase = 0;
};
inline Built built;

/// An Optimizer whose parameters are the last mean, and whose state is the sum of all.
class Adding {
public:
    struct Options {};
    static constexpr std::array<std::string_view, 1> state_names{"sum"}, scalar_names{"updates"};
    static constexpr bool elementwise = true;
    explicit Adding(Options) : log_(building) {}
    void reserve(std::size_t, std::span<const ParameterSlice>, const Graph&) {}
    void update(const UpdateArgs& a) {
        std::copy(a.gradients.begin(), a.gradients.end(), a.parameters.begin());
        for (std::size_t i = 0; i < a.state.size(); ++i) a.state[i] += a.gradients[i];
        updates_ += 1;
        log_->mean.assign(a.gradients.begin(), a.gradients.end());
        log_->sum.assign(a.state.begin(), a.state.end());
        log_->updates = updates_;
    }
    std::span<double> scalars() { return {&updates_, 1}; }

private:
    RankLog* log_;
    double updates_ = 0;
};

/// An Optimizer whose parameters are the sum of what this rank was given, and its state that of
/// what this rank ever was.
class Descending {
public:
    struct Options {};
    static constexpr std::array<std::string_view, 1> state_names{"sum"};
    static constexpr bool elementwise = true;
    explicit Descending(Options) : log_(building) {}
    void reserve(std::size_t, std::span<const ParameterSlice>, const Graph&) {}
    void update(const UpdateArgs& a) {
        if (log_->start.empty()) log_->start.assign(a.parameters.begin(), a.parameters.end());
        for (std::size_t i = 0; i < a.parameters.size(); ++i) a.parameters[i] += a.gradients[i];
        for (std::size_t i = 0; i < a.state.size(); ++i) a.state[i] += a.gradients[i];
        log_->own.assign(a.state.begin(), a.state.end());
    }

private:
    RankLog* log_;
};

/// A device whose gradients are made of the samples' own numbers. It takes the time that the
/// scenario says, and reports final parts of a gradient piece by piece.
/// Shapes: an image holds its number: pixel 0 + 256 * pixel 1; in phases its label is its number.
class NumberDevice {
public:
    template <class R>
    NumberDevice(const Trial& trial, const Graph& graph, RankLog& log, R& rank)
        : s_(trial.scenario),
          tampering_(trial.tampering),
          log_(log),
          values_(s_.seed, "fuzz.gradient"),
          skew_(Rng(s_.seed, "fuzz.skew").at(static_cast<std::uint64_t>(rank.rank()))),
          later_(trial.worlds.size() > 1),
          phase_(built.phase),
          pixels_(static_cast<std::size_t>(graph.input.elements())),
          charge_([&rank](Nanoseconds time) { rank.charge(time, "gradient", Activity::compute); }),
          wrote_([&rank](std::span<const float> piece) {
              note(rank.stream(), Access::write, piece, {"backward"});
          }),
          parameters_(static_cast<std::size_t>(s_.elements), 0.0f),
          slice_{{0, parameters_.size(), 0}} {}

    ForwardReport forward(const Batch& batch, Mode mode) {
        if (mode == Mode::train) {
            auto& samples = log_.samples.emplace_back();
            for (std::size_t i = 0; i < static_cast<std::size_t>(batch.count); ++i)
                samples.push_back(number_of(batch, i));
        }
        return {.loss_sum = double(batch.count)};
    }
    void backward(float, std::span<float> out, GradientsReady ready) {
        const auto& samples = log_.samples.back();
        std::vector<float> row(out.size());
        for (const std::uint32_t sample : samples)
            for (std::size_t i = 0; i < row.size(); ++i) row[i] += value(sample, i);
        if (s_.overflows && !samples.empty() && samples[0] % 5 == 0)
            row[samples[0] % row.size()] = std::numeric_limits<float>::infinity();
        std::size_t end = row.size();
        for (int piece = s_.pieces; piece-- > 0;) {
            charge_(s_.compute +
                    (s_.skew.count() == 0
                         ? Nanoseconds(0)
                         : Nanoseconds(static_cast<std::int64_t>(skew_.below(
                               draws_++, static_cast<std::uint64_t>(s_.skew.count()))))));
            const std::size_t begin =
                row.size() * static_cast<std::size_t>(piece) / static_cast<std::size_t>(s_.pieces);
            if (end > 0 && begin == 0) log_.rows.push_back(row);
            if (tampering_.ready_early) ready(begin);
            std::copy(row.begin() + static_cast<std::ptrdiff_t>(begin),
                      row.begin() + static_cast<std::ptrdiff_t>(end),
                      out.begin() + static_cast<std::ptrdiff_t>(begin));
            wrote_(out.subspan(begin, end - begin));
            end = begin;
            if (!tampering_.ready_early) ready(begin);
        }
    }
    void update(FunctionRef<void(std::span<float>)> change) {
        const bool twice = tampering_.apply_twice || (tampering_.twice_in_phase && phase_ > 0);
        const int times = twice && later_ && updates_ == 1 ? 2 : 1;
        for (int n = 0; n < times; ++n) change(parameters_);
        ++updates_;  // the first is that which brings the state
    }
    /// For what the ranks exchange.
    void receive(FunctionRef<void(std::span<float>)> change) { change(parameters_); }
    [[nodiscard]] std::span<const float> parameters() const { return parameters_; }
    [[nodiscard]] std::span<const ParameterSlice> slices() const { return slice_; }
    [[nodiscard]] std::span<float> statistics() { return {}; }
    void to_canonical(std::span<const float> mine, std::span<float> canonical) const {
        std::fill(std::copy(mine.begin(), mine.end(), canonical.begin()), canonical.end(), 0.0f);
    }
    void from_canonical(std::span<const float> canonical, std::span<float> mine) const {
        std::copy_n(canonical.begin(), mine.size(), mine.begin());
    }
    [[nodiscard]] std::optional<std::string> first_non_finite() const { return std::nullopt; }

private:
    [[nodiscard]] std::uint32_t number_of(const Batch& batch, std::size_t i) const {
        if (!s_.phases.empty()) return static_cast<std::uint32_t>(batch.labels[i]);
        return static_cast<std::uint32_t>(std::lround(batch.images[i * pixels_]) +
                                          256 * std::lround(batch.images[i * pixels_ + 1]));
    }
    [[nodiscard]] float value(std::uint32_t sample, std::size_t i) const {
        const auto four = values_.at(sample).bits(i / 4);
        const std::uint32_t word = four[i % 4];
        const float integer = static_cast<float>(static_cast<int>(word % 17) - 8);
        if (!s_.wide) return integer;
        constexpr std::array<float, 5> scales{0x1p-6f, 0x1p-3f, 1.0f, 0x1p3f, 0x1p6f};
        return (integer + static_cast<float>(word >> 20) * 0x1p-12f) * scales[word / 32 % 5];
    }
    const Scenario& s_;
    const Tampering& tampering_;
    RankLog& log_;
    Rng values_, skew_;
    std::uint64_t draws_ = 0;
    bool later_;
    int phase_;
    std::size_t pixels_;
    int updates_ = 0;
    std::function<void(Nanoseconds)> charge_;
    std::function<void(std::span<const float>)> wrote_;
    std::vector<float> parameters_;
    std::vector<ParameterSlice> slice_;
};

/// A simulated cluster that trains on NumberDevices and logs each world. It Shrinks as sim::Cluster
/// does, with the scenario's faults or, where that heals, without.
class LoggedCluster {
public:
    class Rank {
    public:
        using Device = NumberDevice;
        Rank(Cluster<>::Rank& rank, Trial& trial, WorldLog& log)
            : rank_(rank), trial_(trial), log_(log) {}
        [[nodiscard]] int rank() const { return rank_.rank(); }
        [[nodiscard]] int ranks() const { return rank_.ranks(); }
        [[nodiscard]] Nanoseconds now() const { return rank_.now(); }
        [[nodiscard]] Endpoint& transport() { return rank_.transport(); }
        [[nodiscard]] Stream& stream() { return rank_.stream(); }
        [[nodiscard]] double wire_scale() const { return trial_.wire_scale; }
        [[nodiscard]] std::unique_ptr<Device> make_device(const Graph& graph, DeviceOptions o) {
            building = &log_.ranks[static_cast<std::size_t>(rank())];
            built = {&trial_, o.phase};
            return std::make_unique<Device>(trial_, graph, *building, rank_);
        }

    private:
        Cluster<>::Rank& rank_;
        Trial& trial_;
        WorldLog& log_;
    };

    LoggedCluster(const ClusterSpec& spec, ClusterOptions options, Trial& trial)
        : cluster_(spec, std::move(options)), trial_(trial) {}

    [[nodiscard]] int ranks() const { return cluster_.ranks(); }
    [[nodiscard]] Placement placement() const { return cluster_.placement(); }

    void run(FunctionRef<void(Rank&)> f) {
        WorldLog& log = trial_.worlds.emplace_back();
        log.cluster = cluster_.spec();
        log.ranks.resize(static_cast<std::size_t>(ranks()));
        try {
            cluster_.run([&](Cluster<>::Rank& rank) {
                Rank mine(rank, trial_, log);
                f(mine);
                log.ranks[static_cast<std::size_t>(rank.rank())].finished = true;
            });
        } catch (const LostRank& e) {
            log.ended = true;
            log.error = e.what();
            close(log);
            throw;
        } catch (...) {
            close(log);
            throw;
        }
        close(log);
    }
    [[nodiscard]] Survivors<LoggedCluster> survivors(std::span<const int> lost, Nanoseconds t) {
        tear();
        const Core core = cluster_.core(lost);
        trial_.worlds.back().left = static_cast<int>(core.members.size());
        Survivors<LoggedCluster> left{.members = core.members};
        if (core.members.empty()) return left;
        ClusterOptions options = cluster_.after(core, t);
        if (trial_.scenario.heals) options.faults = {};
        left.world = std::make_unique<LoggedCluster>(core.cluster, std::move(options), trial_);
        return left;
    }

private:
    /// What the world has done, and whether its ranks were told alike.
    void close(WorldLog& log) {
        for (RankLog& rank : log.ranks) rank.closed = true;
        log.elapsed = cluster_.elapsed();
        log.event_hash = cluster_.event_hash();
        const FaultList& faults = cluster_.options().faults.list();
        bool spoils = false;
        for (std::size_t i = 0; i < faults.size(); ++i) {
            const FaultClass c = class_of(faults[i]);
            spoils = spoils || c == FaultClass::bit_flip || c == FaultClass::nan;
            if (cluster_.fault_fired(i)) trial_.fired[static_cast<std::size_t>(c)] = true;
        }
        int named = -1;
        bool died = false;
        std::vector<bool> threw(static_cast<std::size_t>(ranks()));  // an error that is no loss
        for (int r = 0; r < ranks(); ++r) {
            died = died || cluster_.died(r);
            const RankLog& rank = log.ranks[static_cast<std::size_t>(r)];
            log.waiting += cluster_.died(r) || rank.finished ? 0 : 1;
            if (!cluster_.error_of(r)) continue;
            try {
                std::rethrow_exception(cluster_.error_of(r));
            } catch (const LostRank& e) {
                ++log.told;
                if (named >= 0 && e.lost() != named)
                    log.problems.push_back("rank " + std::to_string(r) + " names failed rank " +
                                           std::to_string(e.lost()) + " where others name rank " +
                                           std::to_string(named));
                named = e.lost();
            } catch (...) {  // run() throws it
                threw[static_cast<std::size_t>(r)] = true;
            }
        }
        const bool explained =
            named >= 0 && (cluster_.died(named) || threw[static_cast<std::size_t>(named)]);
        if (named >= 0 && died && !explained && !spoils)
            log.problems.push_back("rank " + std::to_string(named) +
                                   " is named as failed; it is alive, and another rank has died");
    }
    /// Tears the checkpoints that the scenario says, once each.
    void tear() {
        for (const Fault& f : trial_.scenario.faults) {
            const auto* torn = std::get_if<TornCheckpoint>(&f);
            if (!torn || trial_.folder.empty()) continue;
            const auto file = trial_.folder / checkpoint_name(torn->write + 1);
            if (trial_.torn++ > 0 || !std::filesystem::exists(file)) continue;
            const auto bytes = static_cast<double>(std::filesystem::file_size(file));
            std::filesystem::resize_file(file, static_cast<std::uintmax_t>(torn->share * bytes));
            trial_.fired[static_cast<std::size_t>(FaultClass::torn_checkpoint)] = true;
        }
    }

    Cluster<> cluster_;
    Trial& trial_;
};

}  // namespace gx::sim::fuzz
