// sim::Cluster: ranks as fibers in one thread, on a simulated network, in virtual time.
#pragma once

#include <cmath>     // lround
#include <cstdint>   // uint64_t
#include <memory>    // unique_ptr
#include <optional>  // the timed graph
#include <vector>    // ranks

#include <gx/core/account.hpp>       // Account
#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/core/problems.hpp>      // Problems
#include <gx/core/units.hpp>         // Nanoseconds
#include <gx/core/world.hpp>         // World, NoDevice
#include <gx/model/graph.hpp>        // Graph
#include <gx/sim/engine.hpp>         // Engine
#include <gx/sim/fault_hooks.hpp>    // FaultHooks, FaultPlan
#include <gx/sim/framework.hpp>      // Framework
#include <gx/sim/jitter.hpp>         // GpuVariation, OverlapSlowdown
#include <gx/sim/link_rates.hpp>     // trace_links
#include <gx/sim/memory.hpp>         // expect_fits
#include <gx/sim/network.hpp>        // Network
#include <gx/sim/post_office.hpp>    // PostOffice, Stretch
#include <gx/sim/race_hooks.hpp>     // RaceDetection, RaceHooks
#include <gx/sim/rank.hpp>           // Endpoint, Stream
#include <gx/sim/topology.hpp>       // ClusterSpec, Topology
#include <gx/sim/trace.hpp>          // Busy, TraceSink

namespace gx::sim {

/// What a run may change.
struct ClusterOptions {
    std::uint64_t seed = 0;                            ///< of the jitter; part of the event hash
    Nanoseconds deadline = std::chrono::seconds(600);  ///< virtual time that a message may take
    std::optional<Graph> timed_as{};  ///< time this graph; the numbers come from the trained one
    int timed_batch = 0;  ///< images per rank and step that are timed; 0: as many as are trained
    Precision compute = Precision::fp32;
    Framework framework = fused_kernels;  ///< which kernels the timed graph is made of
    double compute_jitter = 0;  ///< each pass takes (1 +- up to this share) of its time, uniformly
    GpuVariation variation{};            ///< besides: by named distributions
    OverlapSlowdown overlap_slowdown{};  ///< of kernels that start while the stream works
    bool copy_inputs = false;  ///< each batch crosses to the GPU during the pass before it
    TraceSink* trace = nullptr;
    FaultPlan faults{};  ///< what breaks, and when; of <gx/sim/faults.hpp>
    DeliveryRules delivery{};
    Limits limits{};               ///< beyond them a rank throws Stuck
    bool faults_must_fire = true;  ///< one that changed nothing in a whole run is an error
    /// A missing wait is an error, whatever this run's order. `true` is of <gx/sim/race_watch.hpp>.
    RaceDetection detect_races{};
};

template <class Inner>
class Device;

/// Ranks on a simulated cluster; a World. With `Inner` = a device, ranks train on it, and the
/// world is a TrainingWorld; with NoDevice they only communicate.
///
///     sim::Cluster<> world(sim::ethernet_10g(8), {.seed = 1});
///     world.run([](auto& rank) { ... rank.transport() ... rank.now() ... });
///     world.elapsed(), world.event_hash(), world.busy(rank)      of the last run
///
/// Order:  one thread, no wall clock: equal programs and seeds give equal bits, times and hashes.
/// Errors: as World says; a rank that waits for nobody, or longer than `deadline`, is told whom it
///         waited for. Options and faults that cannot be are listed by one gx::Error on
///         construction, and faults that changed nothing by one at the end of a whole run.
///         A rank that a fault kills throws nothing: died(rank) says so.
template <class Inner = NoDevice>
class Cluster {
public:
    class Rank;

    GX_COLD explicit Cluster(const ClusterSpec& spec, ClusterOptions options = {})
        : spec_(spec), options_(std::move(options)) {
        check().throw_if_any("this cluster cannot run");
    }

    [[nodiscard]] int ranks() const { return spec_.ranks(); }
    [[nodiscard]] Placement placement() const { return spec_.placement(); }
    [[nodiscard]] const ClusterSpec& spec() const { return spec_; }
    [[nodiscard]] const ClusterOptions& options() const { return options_; }

    GX_COLD void run(FunctionRef<void(Rank&)> f);

    /// Spans of the next run go to `sink`; nullptr: nowhere. Kernels, reductions and messages.
    void trace_to(TraceSink* sink) { options_.trace = sink; }

    /// What a report says of this cluster, and of the last run.
    GX_COLD [[nodiscard]] Account account() const;

    [[nodiscard]] Nanoseconds elapsed() const { return last().engine.now(); }
    [[nodiscard]] std::uint64_t event_hash() const { return last().engine.event_hash(); }
    /// The last run's faults killed it.
    [[nodiscard]] bool died(int rank) const {
        return last().faults && last().faults->dead(rank);
    }
    /// At the end of the last run, lost NICs and switches had left it no way to most of the others.
    [[nodiscard]] bool unreachable(int rank) const {
        return last().faults && last().faults->unreachable(rank);
    }
    /// What ended the function of `rank` in the last run; nullptr where it returned, or died.
    [[nodiscard]] std::exception_ptr error_of(int rank) const {
        return last().ranks[static_cast<std::size_t>(rank)]->error_;
    }
    /// Faults of the last run that changed nothing.
    [[nodiscard]] std::vector<std::string> unfired_faults() const {
        return last().faults ? last().faults->unfired() : std::vector<std::string>{};
    }
    [[nodiscard]] bool fault_fired(std::size_t fault) const {
        return last().faults && last().faults->fired(fault);
    }
    [[nodiscard]] const PostOffice& post_office() const { return last().office; }
    [[nodiscard]] const Network& network() const { return last().network; }
    [[nodiscard]] const Topology& topology() const { return last().topology; }
    [[nodiscard]] Busy busy(int rank) const {
        return last().ranks[static_cast<std::size_t>(rank)]->busy();
    }

private:
    struct FitsKey {
        Label name{};
        std::int64_t parameters = 0, macs = 0;
        int batch = 0;
        bool operator==(const FitsKey&) const = default;
    };
    struct Run {
        GX_COLD explicit Run(const ClusterSpec& spec, const ClusterOptions& o)
            : engine(o.seed),
              network(engine),
              topology(spec, network, o.faults.reroutes()),
              office(engine, network, topology, o.deadline, o.trace) {
            races = o.detect_races.start(engine, spec.ranks());
            office.watch(races.get());
            faults = o.faults.start(o.seed, engine, network, topology, office);
            office.suffer(faults.get(), o.delivery);
        }
        std::vector<std::unique_ptr<Rank>> ranks{};
        std::unique_ptr<RaceHooks> races{};  // outlives the fibers
        std::unique_ptr<FaultHooks> faults{};
        Engine engine;
        Network network;
        Topology topology;
        PostOffice office;
        FitsKey fits{};
    };
    [[nodiscard]] const Run& last() const {
        GX_EXPECT(run_ != nullptr, "nothing has run on this cluster yet");
        return *run_;
    }

    GX_COLD [[nodiscard]] Problems check() const;

    ClusterSpec spec_;
    ClusterOptions options_;
    std::unique_ptr<Run> run_{};
};

/// What a rank's function is given.
template <class Inner>
class Cluster<Inner>::Rank {
public:
    using Device =
        std::conditional_t<std::is_same_v<Inner, NoDevice>, NoDevice, sim::Device<Inner>>;

    Rank(int rank, const Cluster& cluster, Run& run)
        : rank_(rank),
          cluster_(cluster),
          run_(run),
          transport_(rank, cluster.placement(), run.engine, run.office, busy_, main_),
          stream_(rank, run.engine, busy_, cluster.options_.trace) {
        stream_.watch(run.races.get());
        transport_.trace_to(cluster.options_.trace);
        transport_.suffer(run.faults.get(), cluster.options_.limits);
    }
    Rank(const Rank&) = delete;
    Rank& operator=(const Rank&) = delete;

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return cluster_.ranks(); }
    [[nodiscard]] Nanoseconds now() const { return run_.engine.now(); }
    [[nodiscard]] Endpoint& transport() { return transport_; }
    [[nodiscard]] Stream& stream() { return stream_; }
    [[nodiscard]] const Busy& busy() const { return busy_; }
    [[nodiscard]] const ClusterSpec& spec() const { return cluster_.spec_; }
    [[nodiscard]] const ClusterOptions& options() const { return cluster_.options_; }
    [[nodiscard]] TraceSink* trace() const { return cluster_.options_.trace; }

    /// Spends virtual time on something that is not simulated by itself.
    void charge(Nanoseconds duration, const Label& name, Activity activity = Activity::other) {
        const Nanoseconds begin = now();
        FaultHooks* faults = run_.faults.get();
        if (faults)
            duration = faults->end_of(rank_, duration, activity == Activity::compute) - begin;
        run_.engine.note(EventKind::charge, rank_, static_cast<std::uint64_t>(activity),
                         static_cast<std::uint64_t>(duration.count()));
        run_.engine.advance(duration);
        busy_.add(activity, duration);
        if (TraceSink* sink = trace()) sink->add({rank_, Track::compute, name, begin, now()});
        if (faults && faults->dead(rank_) && std::uncaught_exceptions() == 0)
            throw RankDied{rank_};
    }
    /// Errors: throws gx::Error when a step over `batch` images does not fit in the GPU. The ranks
    ///         ask alike, so the answer for the first is kept for all.
    void expect_fits(const Graph& graph, int batch) {
        const FitsKey key{graph.name, graph.parameter_elements(), graph.macs(), batch};
        if (run_.fits == key) return;
        sim::expect_fits(graph, batch, spec().machine.gpu, options().compute);
        run_.fits = key;
    }
    /// From here on gradients weigh as much on the wire as those of the timed model.
    void stretch(Stretch s) { run_.office.stretch(s); }

    /// Errors: a timed batch that does not fit in the GPU's memory throws gx::Error.
    [[nodiscard]] std::unique_ptr<Device> make_device(
        const Graph& graph, DeviceOptions options) requires(!std::is_same_v<Inner, NoDevice>) {
        return std::make_unique<Device>(graph, options, *this);
    }

private:
    friend class Cluster;
    void live(FunctionRef<void(Rank&)> f) {
        Engine& engine = run_.engine;
        try {
            f(*this);
        } catch (const boost::context::detail::forced_unwind&) {
            throw;
        } catch (...) {
            if (!run_.faults || !run_.faults->dead(rank_)) {
                error_ = std::current_exception();
                engine.fail(rank_, error_);
            }
        }
        stream_.close();
        run_.office.rank_ended(rank_);
        engine.note(EventKind::rank_done, rank_, 0, 0);
    }

    int rank_;
    const Cluster& cluster_;
    Run& run_;
    Busy busy_{};
    const Strand* main_ = nullptr;
    std::exception_ptr error_{};
    Endpoint transport_;
    Stream stream_;
};

template <class Inner>
void Cluster<Inner>::run(FunctionRef<void(Rank&)> f) {
    run_ = std::make_unique<Run>(spec_, options_);
    if (options_.trace) trace_links(*options_.trace, run_->topology, run_->network);
    for (int r = 0; r < ranks(); ++r)
        run_->ranks.push_back(std::make_unique<Rank>(r, *this, *run_));
    for (auto& each : run_->ranks) {
        Rank& rank = *each;
        rank.main_ = &run_->engine.spawn(rank.rank(), "rank " + std::to_string(rank.rank()),
                                         [&rank, f] { rank.live(f); });
    }
    run_->engine.run();
    if (!options_.faults_must_fire) return;
    Problems unfired;
    for (std::string& sentence : unfired_faults()) unfired.add(std::move(sentence));
    unfired.throw_if_any("faults that never came");
}

template <class Inner>
Problems Cluster<Inner>::check() const {
    Problems problems;
    problems.check(options_.deadline.count() > 0,
                   "deadline is " + std::to_string(options_.deadline.count()) +
                       " ns: it ends every wait at once; give the longest time that a message "
                       "may take");
    problems.check(options_.timed_batch >= 0, "timed_batch is " +
                                                  std::to_string(options_.timed_batch) +
                                                  ": give at least 1, or 0 for the trained one");
    problems.check(options_.compute_jitter >= 0 && options_.compute_jitter < 1,
                   "compute_jitter is " + std::to_string(options_.compute_jitter) +
                       ": it is a share of at least 0 and below 1");
    for (const Jitter& jitter : {options_.variation.gpu, options_.variation.pass})
        problems.check(jitter.fault().empty(), "variation: " + std::string(jitter.fault()));
    problems.check(options_.overlap_slowdown.share >= 0 && options_.overlap_slowdown.share < 100,
                   "overlap_slowdown is " + std::to_string(options_.overlap_slowdown.share) +
                       ": it is the share of its time that a kernel takes longer, at least 0");
    problems.check(options_.faults.empty() || options_.deadline != Engine::no_deadline,
                   "there are faults and no deadline: what waits for a lost rank would wait for "
                   "ever; give a deadline");
    options_.faults.check(spec_, problems);
    return problems;
}

template <class Inner>
Account Cluster<Inner>::account() const {
    const auto gbit = [](BytesPerSecond r) { return std::to_string(std::lround(r.count * 8e-9)); };
    Account a{.world = "simulated: " + std::string(spec_.name.view()) + ", " +
                       std::to_string(ranks()) + " GPUs",
              .clock = "virtual",
              .timed_batch = options_.timed_batch,
              .price = {spec_.machine.price.count * spec_.machines}};
    const std::string precision = std::string(to_string(options_.compute)) +
                                  (options_.compute == Precision::mixed ? " precision" : "");
    if (options_.timed_as || options_.timed_batch > 0) {
        a.timed_as = options_.timed_as ? std::string(options_.timed_as->name.view())
                                       : std::string("the trained network");
        if (options_.timed_batch > 0)
            a.timed_as += ", " + std::to_string(options_.timed_batch) + " images a GPU and step";
        a.timed_as += ", " + precision + " on " + std::string(spec_.machine.gpu.name.view());
    }
    a.notes.push_back("Kernels: a roofline of flops and bytes on " +
                      std::string(spec_.machine.gpu.name.view()) + ", " + precision +
                      ", with the efficiencies that gx/sim/gpus.hpp gives and sources.");
    a.notes.push_back(
        "Network: fluid flows with max-min fair shares; " + gbit(spec_.machine.nic_line_rate) +
        " Gbit/s a machine, goodput " + std::to_string(spec_.goodput).substr(0, 5) + ", at most " +
        (spec_.flow_cap.count > 0 ? gbit(spec_.flow_cap) + " Gbit/s" : "the line rate") +
        " a flow, latency " + std::to_string(spec_.latency.count() / 1000) + " us.");
    if (options_.compute_jitter > 0)
        a.notes.push_back("Jitter: every pass takes up to " +
                          std::to_string(options_.compute_jitter) +
                          " of its time more or less, uniformly, from the seed.");
    for (const auto& [what, jitter] : {std::pair{"GPUs differ", options_.variation.gpu},
                                       std::pair{"passes vary", options_.variation.pass}})
        if (jitter.kind != Jitter::Kind::none)
            a.notes.push_back("Jitter: " + std::string(what) + " by a " +
                              std::string(to_string(jitter.kind)) + " distribution of " +
                              std::to_string(jitter.amount) + ", from the seed.");
    if (options_.overlap_slowdown.share > 0)
        a.notes.push_back("Kernels beside communication take " +
                          std::to_string(options_.overlap_slowdown.share) +
                          " of their time longer.");
    if (run_) a.event_hash = event_hash();
    return a;
}

static_assert(explain_world<Cluster<>>());

}  // namespace gx::sim

#include <gx/sim/device.hpp>  // Device<Inner>, which a rank makes
