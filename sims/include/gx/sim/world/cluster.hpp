// sim::Cluster: ranks as fibers in one thread, on a simulated network, in virtual time.
#pragma once

#include <atomic>       // whether it runs
#include <chrono>       // chrono
#include <concepts>     // integral
#include <cstdint>      // uint64_t
#include <exception>    // exception_ptr
#include <memory>       // unique_ptr
#include <optional>     // the timed graph
#include <span>         // lost ranks
#include <string>       // sentences
#include <type_traits>  // conditional_t, is_same_v
#include <utility>      // move
#include <vector>       // ranks

#include <gx/core/world_info.hpp>            // WorldInfo
#include <gx/core/cold.hpp>                  // GX_COLD
#include <gx/core/decl.hpp>                  // GX_DECL
#include <gx/core/function_ref.hpp>          // FunctionRef
#include <gx/io/problems.hpp>                // Problems
#include <gx/core/units.hpp>                 // Nanoseconds
#include <gx/core/world.hpp>                 // World, NoDevice
#include <gx/memory/memory.hpp>              // InHostMemory
#include <gx/model/graph.hpp>                // Graph
#include <gx/sim/world/fault_interface.hpp>  // FaultInterface, FaultPlan
#include <gx/sim/compute/framework.hpp>      // Framework
#include <gx/sim/compute/jitter.hpp>         // GpuVariation, OverlapSlowdown
#include <gx/sim/world/race_interface.hpp>   // RaceDetection, RaceInterface
#include <gx/sim/world/rank.hpp>             // Endpoint, Stream
#include <gx/sim/hardware/machine.hpp>       // ClusterSpec
#include <gx/sim/world/activity.hpp>         // BusyTime, TraceSink
#include <gx/sim/world/core.hpp>             // core_of
#include <gx/sim/world/wire_scale.hpp>       // WireScale

namespace gx::sim {

/// What a phase of a run is timed as (TrainerOptions::phases).
struct TimedPhase {
    Graph graph{};
    int batch = 0;  ///< images per rank and step; 0: as many as are trained
};

/// Options of a run.
struct ClusterOptions {
    std::uint64_t seed = 0;  ///< of the jitter; part of the event hash
    /// Virtual time that a message may take; `forever`: as long as it takes.
    Nanoseconds deadline = std::chrono::seconds(600);
    std::optional<Graph> timed_as{};  ///< time this graph; the numbers come from the trained one
    int timed_batch = 0;  ///< images per rank and step that are timed; 0: as many as are trained
    /// One for each phase of the run, in the place of timed_as and timed_batch: an image size that
    /// is trained says nothing of the one that is timed. All have the same parameters.
    std::vector<TimedPhase> timed_phases{};
    Precision compute = Precision::fp32;  ///< of what is timed: see Compute
    Framework framework = fused_kernels;  ///< which kernels the timed graph is made of
    double compute_jitter = 0;  ///< each pass takes (1 +- up to this share) of its time, uniformly
    GpuVariation variation{};   ///< besides: by named distributions
    /// A factor on the time of each rank's kernels, for good, in the place of draws of
    /// variation.gpu; empty: drawn. Survivors keep theirs.
    std::vector<Factor> gpu_factors{};
    OverlapSlowdown overlap_slowdown{};  ///< of kernels that start while the stream works
    /// Charge a reducer's casts, scalings, sums and selections as kernels: VectorKernels.
    bool charge_reducer_kernels = true;
    /// Each batch crosses to the GPU during the pass before it: 1 byte a number of 8-bit pixels,
    /// else 4, or 2 in mixed precision. What normalising on the GPU takes is not charged.
    bool copy_inputs = false;
    TraceSink* trace = nullptr;
    FaultPlan faults{};  ///< what breaks, and when; of <gx/sim/fault/faults.hpp>
    DeliveryRules delivery{};
    Limits limits{};               ///< beyond them a rank throws Stuck
    bool faults_must_fire = true;  ///< one that changed nothing in a whole run is an error
    /// Threads of the host that compute passes of several ranks at once, where the Device has
    /// ConcurrentPasses; 0: one a core. No bit, time or hash depends on it.
    int threads = 0;
    /// Report a missing wait, whatever the order of this run; needs <gx/sim/race/monitor.hpp>.
    RaceDetection detect_races{};
};

namespace detail {
class DeviceTiming;
class PassWorkers;
}  // namespace detail

namespace detail::cluster {

class RankBase;

struct Run;  // in run.hpp

/// A rank but for its device.
class RankBase {
public:
    RankBase(int rank, Run& run);
    RankBase(const RankBase&) = delete;
    RankBase& operator=(const RankBase&) = delete;
    virtual ~RankBase();

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int ranks() const { return spec_.ranks(); }
    [[nodiscard]] Nanoseconds now() const;
    [[nodiscard]] Endpoint& transport() { return transport_; }
    [[nodiscard]] Stream& stream() { return stream_; }
    [[nodiscard]] const BusyTime& busy() const { return busy_; }
    [[nodiscard]] const ClusterSpec& spec() const { return spec_; }
    [[nodiscard]] const ClusterOptions& options() const { return options_; }
    [[nodiscard]] TraceSink* trace() const { return options_.trace; }

    /// Spends virtual time on an activity that is not simulated in detail.
    /// Errors: gx::Error for a duration below 0, or one that ends beyond 146 years.
    void charge(Nanoseconds duration, const Label& name, Activity activity = Activity::other);
    /// Errors: gx::Error when a step over `batch` images does not fit in the GPU.
    void expect_fits(const Graph& graph, int batch, UpdateCost update = {});
    /// Those of the host that compute passes; nullptr: the calling thread alone.
    [[nodiscard]] PassWorkers* pass_workers();
    /// Sets the wire scale: from now on gradients cost as many bytes as the timed model's.
    void wire_scale(WireScale s);
    /// Bytes of the timed gradient per byte of the trained one.
    [[nodiscard]] double wire_scale() const {
        return static_cast<double>(wire_scale_.timed) / static_cast<double>(wire_scale_.real);
    }
    /// A device begins or ends: TimesItsWork is asked of the newest there is.
    void begins(const detail::DeviceTiming& device) { devices_.push_back(&device); }
    void ends(const detail::DeviceTiming& device) { std::erase(devices_, &device); }
    // TimesItsWork, while it has a device.
    [[nodiscard]] int timed_count(int count) const;
    [[nodiscard]] Nanoseconds undisturbed_pass(int count) const;
    [[nodiscard]] Nanoseconds undisturbed_update() const;
    /// Number of the next forward or backward: from 0 over all devices of this rank in the run, so
    /// that a device which is rebuilt goes on with the draws of the one before.
    [[nodiscard]] std::uint64_t next_pass() { return passes_++; }

    [[nodiscard]] std::exception_ptr error() const { return error_; }

private:
    friend struct Run;
    void live(FunctionRef<void(RankBase&)> f);
    [[nodiscard]] const detail::DeviceTiming& timing() const;

    int rank_;
    Run& run_;
    const ClusterSpec& spec_;
    const ClusterOptions& options_;
    BusyTime busy_{};
    WireScale wire_scale_{};
    std::vector<const detail::DeviceTiming*> devices_{};  ///< oldest first; a test may add one
    std::uint64_t passes_ = 0;
    const ScheduledFiber* main_ = nullptr;
    std::exception_ptr error_{};
    Endpoint transport_;
    Stream stream_;
};

GX_COLD [[nodiscard]] GX_DECL Problems check(const ClusterSpec& spec,
                                             const ClusterOptions& options);
GX_COLD [[nodiscard]] GX_DECL WorldInfo info(const ClusterSpec& spec,
                                             const ClusterOptions& options);

/// A cluster but for the device of its ranks.
class Base {
public:
    GX_COLD Base(const ClusterSpec& spec, ClusterOptions options);
    Base(Base&&) = delete;  // its run refers to it

    [[nodiscard]] int ranks() const { return spec_.ranks(); }
    [[nodiscard]] Placement placement() const { return spec_.placement(); }
    [[nodiscard]] const ClusterSpec& spec() const { return spec_; }
    [[nodiscard]] const ClusterOptions& options() const { return options_; }

    /// The core that survivors(lost) makes a cluster of.
    GX_COLD [[nodiscard]] Core core(std::span<const int> lost) const;
    /// The options of that cluster.
    GX_COLD [[nodiscard]] ClusterOptions after(const Core& core, Nanoseconds restart_time) const;

    /// Sends the spans of the next run, kernels, reductions and messages, to `sink`; nullptr: none.
    void trace_to(TraceSink* sink) { options_.trace = sink; }

    /// Clock, prices and model corrections, and the last run's event hash, for the report.
    GX_COLD [[nodiscard]] WorldInfo info() const;

    // ---- The last run; references last until the next one ----------------------------------
    [[nodiscard]] Nanoseconds elapsed() const;
    [[nodiscard]] std::uint64_t event_hash() const;
    [[nodiscard]] BusyTime busy(int rank) const;
    /// Whether a fault killed the rank.
    [[nodiscard]] bool died(int rank) const;
    /// Whether failed NICs and switches had left it no route to most others when the run ended.
    [[nodiscard]] bool unreachable(int rank) const;
    /// The exception that left the function of `rank`; nullptr if it returned or died.
    [[nodiscard]] std::exception_ptr error_of(int rank) const;
    /// Faults that had no effect.
    [[nodiscard]] std::vector<std::string> unfired_faults() const;
    [[nodiscard]] bool fault_fired(std::size_t fault) const;
    [[nodiscard]] const MessageMatcher& matcher() const;  ///< of <gx/sim/world/matching.hpp>
    [[nodiscard]] const FlowNetwork& network() const;     ///< of <gx/sim/network/network.hpp>
    [[nodiscard]] const Topology& topology() const;       ///< of <gx/sim/topology/topology.hpp>

protected:
    ~Base();
    using MakeRank = FunctionRef<std::unique_ptr<RankBase>(int rank, Run& run)>;
    GX_COLD void run_ranks(MakeRank make, FunctionRef<void(RankBase&)> f);

private:
    [[nodiscard]] const Run& last() const;
    [[nodiscard]] const RankBase& last(int rank) const;

    ClusterSpec spec_;
    ClusterOptions options_;
    std::unique_ptr<Run> run_;
    std::atomic<bool> runs_ = false;
};

}  // namespace detail::cluster

template <class Inner>
class Device;  // in device.hpp

/// Ranks on a simulated cluster; a World. With `Inner` = a device, ranks train on it, and the
/// world is a TrainingWorld; with NoDevice they only communicate.
///
///     sim::Cluster<> world(sim::ethernet_10g(8), {.seed = 1});
///     world.run([](auto& rank) { ... rank.transport() ... rank.now() ... });
///     world.elapsed(), world.event_hash(), world.busy(rank)      of the last run
///
/// Order:  ranks are fibers of one thread, and no wall clock is read: equal programs and seeds give
///         equal bits, times and hashes. Devices' passes may be computed by other threads
///         (ClusterOptions::threads), which nothing of this depends on.
/// Errors: as World says; a wait that cannot be met, or takes longer than `deadline`, names the
///         missing rank. One gx::Error on construction lists what is invalid, and
///         one at the end of a complete run the faults that had no effect. run() inside of a
///         run of the same cluster throws gx::Error. A rank killed by a
///         fault throws nothing; died(rank) is then true.
///
/// It Shrinks. The next world is the largest core of equal machines without the ranks that have
/// died; where none has, without those that are named and those without a route to the others. Its
/// faults are those that are not over and hit its members, `restart_time` later; one that has fired
/// need not fire again. A torus becomes a star.
template <class Inner = NoDevice>
class Cluster : public detail::cluster::Base {
    static_assert(
        InHostMemory<Inner>,
        "gx: a simulated cluster computes its ranks' steps in the host's memory, and this "
        "Device has a memory of its own. Fix: sim::Cluster<onednn::Device>, or "
        "sim::Cluster<reference::Device>; on GPUs, nccl::World.");

public:
    class Rank;

    GX_COLD explicit Cluster(const ClusterSpec& spec, ClusterOptions options = {})
        : Base(spec, std::move(options)) {}
    /// Compile-time error: a number is no cluster.
    template <std::integral N>
    explicit Cluster(N) : Cluster(ClusterSpec{}) {
        static_assert(!sizeof(N),
                      "gx: sim::Cluster(number): of which machines? Fix: "
                      "'Cluster<Device> cluster(ethernet_10g(8))', or 'cluster_of(\"p3.16xlarge\", "
                      "8)' (gx/sim/catalog).");
    }

    GX_COLD void run(FunctionRef<void(Rank&)> f) {
        const auto make = [](int rank, detail::cluster::Run& run) {
            return std::unique_ptr<detail::cluster::RankBase>(std::make_unique<Rank>(rank, run));
        };
        run_ranks(make, [&](detail::cluster::RankBase& rank) { f(static_cast<Rank&>(rank)); });
    }

    /// After a run: a cluster of the ranks that are left. `lost`: those that errors name.
    GX_COLD [[nodiscard]] Survivors<Cluster> survivors(std::span<const int> lost,
                                                       Nanoseconds restart_time) const {
        const Core core = this->core(lost);
        Survivors<Cluster> left{.members = core.members};
        if (!core.members.empty())
            left.world = std::make_unique<Cluster>(core.cluster, after(core, restart_time));
        return left;
    }
};

/// The argument of a rank's function.
template <class Inner>
class Cluster<Inner>::Rank : public detail::cluster::RankBase {
public:
    using Device =
        std::conditional_t<std::is_same_v<Inner, NoDevice>, NoDevice, sim::Device<Inner>>;
    using RankBase::RankBase;

    /// Errors: a timed batch that does not fit in the GPU's memory throws gx::Error.
    [[nodiscard]] std::unique_ptr<Device> make_device(const Graph& graph, DeviceOptions options)
        requires(!std::is_same_v<Inner, NoDevice>)
    {
        static_assert(
            requires { sizeof(Device); },
            "gx: a rank of this cluster trains on gx::sim::Device, which is not defined "
            "here. Fix: include <gx/sim/world/device.hpp>.");
        return std::make_unique<Device>(graph, options, *this);
    }
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/world/impl/cluster.ipp>
#endif
