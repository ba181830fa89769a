// Cluster: a run, its ranks, check of options, and description in a report.
#pragma once

#include <algorithm>  // min
#include <cmath>      // lround
#include <exception>  // current_exception
#include <string>     // sentences
#include <thread>     // hardware_concurrency
#include <utility>    // pair

#include <boost/context/detail/exception.hpp>  // forced_unwind

#include <gx/core/contract.hpp>               // GX_EXPECT
#include <gx/io/duration_text.hpp>            // duration_text
#include <gx/sim/world/cluster.hpp>           // Cluster
#include <gx/sim/world/nic_trace.hpp>         // trace_links
#include <gx/sim/world/run.hpp>               // Run
#include <gx/sim/compute/gpu_memory.hpp>      // expect_fits
#include <gx/sim/topology/check_cluster.hpp>  // check_cluster

namespace gx::sim::detail::cluster {

// ---- A run ------------------------------------------------------------------------------

GX_DECL Run::Run(const ClusterSpec& s, const ClusterOptions& o)
    : spec(s),
      options(o),
      engine(o.seed),
      network(engine),
      topology(spec, network, o.faults.reroutes()),
      matcher(engine, network, topology, o.deadline, o.trace) {
    races = o.detect_races.start(engine, spec.ranks());
    matcher.set_race_detector(races.get());
    faults = o.faults.start(o.seed, engine, network, topology, matcher);
    matcher.set_faults(faults.get(), o.delivery);
    if (o.charge_reducer_kernels)
        matcher.cap_gradients(VectorKernels(spec.machine.gpu).fused_rate());
    if (o.trace) trace_links(*o.trace, topology, network);
}

GX_DECL Run::~Run() = default;

GX_DECL RankBase::~RankBase() = default;

GX_DECL void Run::run(FunctionRef<void(RankBase&)> f) {
    for (auto& each : ranks) {
        RankBase& rank = *each;
        rank.main_ = &engine.spawn(rank.rank(), "rank " + std::to_string(rank.rank()),
                                   [&rank, f] { rank.live(f); });
    }
    engine.run();
    if (!options.faults_must_fire || !faults) return;
    Problems unfired;
    for (std::string& sentence : faults->unfired()) unfired.add(std::move(sentence));
    unfired.throw_if_any("faults without effect");
}

GX_DECL void Run::expect_fits(const Graph& graph, int batch, UpdateCost update) {
    const FitsKey key{graph.name, graph.parameter_elements(), graph.macs(), batch, update};
    if (fits == key) return;
    sim::expect_fits(graph, batch, spec.machine.gpu, options.compute, update);
    fits = key;
}

GX_DECL PassWorkers* Run::pass_workers() {
    const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    const int threads = std::min(options.threads > 0 ? options.threads : cores, spec.ranks());
    if (!workers && threads > 1) workers = std::make_unique<PassWorkers>(threads);
    return workers.get();
}

// ---- A rank -----------------------------------------------------------------------------

GX_DECL RankBase::RankBase(int rank, Run& run)
    : rank_(rank),
      run_(run),
      spec_(run.spec),
      options_(run.options),
      transport_(rank, run.spec.placement(), run.engine, run.matcher, busy_, main_),
      stream_(rank, run.engine, busy_, run.options.trace) {
    stream_.set_race_detector(run.races.get());
    transport_.trace_to(run.options.trace);
    transport_.set_faults(run.faults.get(), run.options.limits);
    if (run.options.charge_reducer_kernels)
        transport_.charge_kernels(VectorKernels(run.spec.machine.gpu));
}

GX_DECL Nanoseconds RankBase::now() const { return run_.engine.now(); }
GX_DECL void RankBase::expect_fits(const Graph& graph, int batch, UpdateCost update) {
    run_.expect_fits(graph, batch, update);
}
GX_DECL PassWorkers* RankBase::pass_workers() { return run_.pass_workers(); }
GX_DECL void RankBase::wire_scale(WireScale s) {
    wire_scale_ = s;
    run_.matcher.wire_scale(s);
}

GX_DECL void RankBase::charge(Nanoseconds duration, const Label& name, Activity activity) {
    const Nanoseconds begin = now();
    if (duration < Nanoseconds{0} || duration > Nanoseconds::max() / 2 - begin)
        throw Error("gx: rank " + std::to_string(rank_) + " charges '" + std::string(name.view()) +
                    "' with " + std::to_string(duration.count()) + " ns at " +
                    duration_text(begin) +
                    ": expected 0 or more, and virtual time ends after 146 years");
    FaultInterface* faults = run_.faults.get();
    if (faults) duration = faults->end_of(rank_, duration, activity == Activity::compute) - begin;
    run_.engine.note(EventKind::charge, rank_, static_cast<std::uint64_t>(activity),
                     static_cast<std::uint64_t>(duration.count()));
    run_.engine.advance(duration);
    busy_.add(activity, duration);
    if (TraceSink* sink = trace()) sink->add({rank_, Track::compute, name, begin, now()});
    if (faults && faults->dead(rank_) && std::uncaught_exceptions() == 0) throw RankDied{rank_};
}

GX_DECL void RankBase::live(FunctionRef<void(RankBase&)> f) {
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
    run_.matcher.rank_ended(rank_);
    engine.note(EventKind::rank_done, rank_, 0, 0);
}

// ---- A cluster --------------------------------------------------------------------------

GX_DECL Base::Base(const ClusterSpec& spec, ClusterOptions options)
    : spec_(spec), options_(std::move(options)) {
    check(spec_, options_).throw_if_any("this cluster cannot run");
}
GX_DECL Base::~Base() = default;

GX_DECL void Base::run_ranks(MakeRank make, FunctionRef<void(RankBase&)> f) {
    if (runs_.exchange(true))
        throw Error(
            "sim::Cluster::run: this cluster runs, and one of its ranks, or another thread, runs "
            "it again. Make another cluster for a run within a run, or beside one.");
    struct Runs {
        ~Runs() { is = false; }
        std::atomic<bool>& is;
    } const runs{runs_};
    run_.reset();  // its stacks
    run_ = std::make_unique<Run>(spec_, options_);
    for (int r = 0; r < ranks(); ++r) run_->ranks.push_back(make(r, *run_));
    run_->run(f);
}

GX_DECL Core Base::core(std::span<const int> lost) const {
    std::vector<bool> left(static_cast<std::size_t>(ranks()), true);
    bool any = false;
    for (int r = 0; r < ranks(); ++r)
        if (died(r)) left[static_cast<std::size_t>(r)] = false, any = true;
    if (!any && !lost.empty()) {
        for (const int r : lost) {
            GX_EXPECT(r >= 0 && r < ranks(), "a lost rank is one of this cluster's");
            left[static_cast<std::size_t>(r)] = false;
        }
        for (int r = 0; r < ranks(); ++r)  // as others may be, behind the same switch
            if (unreachable(r)) left[static_cast<std::size_t>(r)] = false;
    }
    return core_of(whole(spec_), left, options_.faults.reroutes());
}
GX_DECL ClusterOptions Base::after(const Core& core, Nanoseconds restart_time) const {
    ClusterOptions options = options_;
    options.faults =
        options_.faults.seen_by(core, spec_, elapsed() + restart_time, last().faults.get());
    options.trace = nullptr;
    ++options.seed;
    if (options_.variation.gpu.kind == Jitter::Kind::none && options_.gpu_factors.empty())
        return options;
    options.gpu_factors.clear();
    for (const int r : core.members)
        options.gpu_factors.push_back(options_.gpu_factors.empty()
                                          ? options_.variation.of_gpu(options_.seed, r)
                                          : options_.gpu_factors[static_cast<std::size_t>(r)]);
    return options;
}

GX_DECL WorldInfo Base::info() const {
    WorldInfo a = cluster::info(spec_, options_);
    if (run_) a.event_hash = event_hash();
    return a;
}

GX_DECL const Run& Base::last() const {
    GX_EXPECT(run_ != nullptr, "nothing has run on this cluster yet");
    return *run_;
}
GX_DECL Nanoseconds Base::elapsed() const { return last().engine.now(); }
GX_DECL std::uint64_t Base::event_hash() const { return last().engine.event_hash(); }
GX_DECL const RankBase& Base::last(int rank) const {
    GX_EXPECT(rank >= 0 && rank < std::ssize(last().ranks), "a rank of this cluster is asked for");
    return *last().ranks[static_cast<std::size_t>(rank)];
}
GX_DECL BusyTime Base::busy(int rank) const { return last(rank).busy(); }
GX_DECL bool Base::died(int rank) const {
    const RankBase& of = last(rank);
    return last().faults && last().faults->dead(of.rank());
}
GX_DECL bool Base::unreachable(int rank) const {
    const RankBase& of = last(rank);
    return last().faults && last().faults->unreachable(of.rank());
}
GX_DECL std::exception_ptr Base::error_of(int rank) const { return last(rank).error(); }
GX_DECL std::vector<std::string> Base::unfired_faults() const {
    return last().faults ? last().faults->unfired() : std::vector<std::string>{};
}
GX_DECL bool Base::fault_fired(std::size_t fault) const {
    return last().faults && last().faults->fired(fault);
}
GX_DECL const MessageMatcher& Base::matcher() const { return last().matcher; }
GX_DECL const FlowNetwork& Base::network() const { return last().network; }
GX_DECL const Topology& Base::topology() const { return last().topology; }

// ---- Options and report -----------------------------------------------------------------

GX_DECL Problems check(const ClusterSpec& spec, const ClusterOptions& options) {
    Problems problems;
    problems.check(options.deadline.count() > 0,
                   "deadline is " + duration_text(options.deadline) +
                       ": it ends every wait at once; give the longest time that a message "
                       "may take");
    problems.check(
        options.threads >= 0 && options.threads <= 1024,
        "threads is " + std::to_string(options.threads) + ": give 1 to 1024, or 0 for one a core");
    problems.check(options.timed_batch >= 0, "timed_batch is " +
                                                 std::to_string(options.timed_batch) +
                                                 ": give at least 1, or 0 for the trained one");
    const auto& timed = options.timed_phases;
    problems.check(timed.empty() || (!options.timed_as && options.timed_batch == 0),
                   "timed_phases are given beside timed_as or timed_batch: give one of them");
    for (std::size_t i = 0; i < timed.size(); ++i) {
        const std::string name = "timed_phases[" + std::to_string(i) + "]";
        problems.check(timed[i].batch >= 0, name + ".batch is " + std::to_string(timed[i].batch) +
                                                ": give at least 1, or 0 for the trained one");
        problems.check(timed[i].graph.parameter_elements() == timed[0].graph.parameter_elements(),
                       name + ": " + std::string(timed[i].graph.name.view()) + " has " +
                           std::to_string(timed[i].graph.parameter_elements()) +
                           " parameters and that of the first phase " +
                           std::to_string(timed[0].graph.parameter_elements()) +
                           ": give one network, whose parameters do not depend on the image size");
    }
    problems.check(options.compute_jitter >= 0 && options.compute_jitter < 1,
                   "compute_jitter is " + std::to_string(options.compute_jitter) +
                       ": it is a share of at least 0 and below 1");
    for (const Jitter& jitter : {options.variation.gpu, options.variation.pass})
        problems.check(jitter.fault().empty(), "variation: " + std::string(jitter.fault()));
    const auto& factors = options.gpu_factors;
    problems.check(factors.empty() || std::ssize(factors) == spec.ranks(),
                   "gpu_factors has " + std::to_string(factors.size()) + " numbers for " +
                       std::to_string(spec.ranks()) + " ranks: give one for each, or none");
    for (const Factor& f : factors)
        problems.check(f.value() >= 0 && f.value() <= 1000,
                       "gpu_factors has " + std::to_string(f.value()) +
                           ": a GPU takes from 0 to 1000 times its time");
    problems.check(options.framework.dispatch.count() >= 0 &&
                       options.framework.dispatch.count() <= 1'000'000'000,
                   "framework.dispatch is " + duration_text(options.framework.dispatch) +
                       ": give a time from 0 to 1 s");
    problems.check(!options.copy_inputs || spec.machine.gpu.copy_engines > 0,
                   "copy_inputs asks for copies that run beside kernels, and the GPU has no copy "
                   "engine: give it one, or leave copy_inputs out");
    problems.check(!options.timed_as || !options.timed_as->ops.empty(),
                   "timed_as is a graph without operations: give the one that is timed, or none");
    problems.check(options.overlap_slowdown.share >= 0 && options.overlap_slowdown.share < 100,
                   "overlap_slowdown is " + std::to_string(options.overlap_slowdown.share) +
                       ": it is the share of its time that a kernel takes longer, at least 0");
    problems.check(options.faults.empty() || options.deadline != forever,
                   "there are faults and no deadline: what waits for a lost rank would wait for "
                   "ever; give a deadline");
    if (problems.collect([&] { check_cluster(spec, options.faults.reroutes()); }))
        options.faults.check(spec, problems);
    return problems;
}

GX_DECL WorldInfo info(const ClusterSpec& spec, const ClusterOptions& options) {
    const auto gbit = [](BytesPerSecond r) { return std::to_string(std::lround(r.count * 8e-9)); };
    WorldInfo a{.world = "simulated: " + std::string(spec.name.view()) + ", " +
                         std::to_string(spec.ranks()) + " GPUs",
                .clock = "virtual",
                .price = {spec.machine.price.count * spec.machines}};
    const std::string precision = std::string(to_string(options.compute)) +
                                  (options.compute == Precision::mixed ? " precision" : "");
    if (options.timed_as || options.timed_batch > 0) {
        a.timed_as = options.timed_as ? std::string(options.timed_as->name.view())
                                      : std::string("the trained network");
        if (options.timed_batch > 0)
            a.timed_as += ", " + std::to_string(options.timed_batch) + " images a GPU and step";
        a.timed_as += ", " + precision + " on " + std::string(spec.machine.gpu.name.view());
    }
    for (const TimedPhase& phase : options.timed_phases) {
        a.timed_as += (a.timed_as.empty() ? "" : "; ") + std::string(phase.graph.name.view()) +
                      " at " + std::to_string(phase.graph.input.height) + " x " +
                      std::to_string(phase.graph.input.width);
        if (phase.batch > 0) a.timed_as += ", " + std::to_string(phase.batch) + " images a GPU";
    }
    if (!options.timed_phases.empty())
        a.timed_as += ", " + precision + " on " + std::string(spec.machine.gpu.name.view());
    a.notes.push_back("Kernels: a roofline of flops and bytes on " +
                      std::string(spec.machine.gpu.name.view()) + ", " + precision +
                      ", with the efficiencies that gx/sim/catalog/gpus.hpp gives and sources.");
    a.notes.push_back(
        "Network: fluid flows with max-min fair shares; " + gbit(spec.machine.nic_line_rate) +
        " Gbit/s a machine, goodput " + std::to_string(spec.goodput).substr(0, 5) + ", at most " +
        (spec.flow_cap.count > 0 ? gbit(spec.flow_cap) + " Gbit/s" : "the line rate") +
        " a flow, latency " + std::to_string(spec.latency.count() / 1000) + " us.");
    a.notes.push_back(
        options.charge_reducer_kernels
            ? "Reducers: casts, scalings, sums and selections are kernels at the memory bandwidth; "
              "sums inside of a collective run as its messages arrive."
            : "Reducers: casts, scalings, sums and selections take no time.");
    if (options.compute_jitter > 0)
        a.notes.push_back("Jitter: every pass takes up to " +
                          std::to_string(options.compute_jitter) +
                          " of its time more or less, uniformly, from the seed.");
    std::string slow;
    for (std::size_t r = 0; r < options.gpu_factors.size(); ++r) {
        const double factor = options.gpu_factors[r].value();
        if (factor == 1) continue;
        std::string times = std::to_string(factor);
        times.erase(times.find_last_not_of('0') + 1);
        if (times.ends_with('.')) times.pop_back();
        slow += (slow.empty() ? "" : ", ") + times + " times as long on rank " + std::to_string(r);
    }
    if (!slow.empty()) a.notes.push_back("Kernels take " + slow + ".");
    Jitter of_gpus = options.variation.gpu;
    if (!options.gpu_factors.empty()) of_gpus = {};  // in its place
    for (const auto& [what, jitter] :
         {std::pair{"GPUs differ", of_gpus}, std::pair{"passes vary", options.variation.pass}})
        if (jitter.kind != Jitter::Kind::none)
            a.notes.push_back("Jitter: " + std::string(what) + " by a " +
                              std::string(to_string(jitter.kind)) + " distribution of " +
                              std::to_string(jitter.amount) + ", from the seed.");
    if (options.overlap_slowdown.share > 0)
        a.notes.push_back("Kernels beside communication take " +
                          std::to_string(std::lround(100 * options.overlap_slowdown.share)) +
                          " % of their time longer.");
    if (!options.faults.empty())
        a.notes.push_back("Faults: a message is waited for " + duration_text(options.deadline) +
                          " at most (deadline); a rank that dies without a word is noticed then.");
    constexpr std::size_t most_faults = 8;
    for (std::string& fault : options.faults.sentences(most_faults))
        a.notes.push_back(std::move(fault));
    return a;
}

}  // namespace gx::sim::detail::cluster
