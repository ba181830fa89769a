// World: ranks with devices, transports, streams and clocks; runs a function on each.
#pragma once

#include <concepts>     // same_as
#include <cstdint>      // int64_t
#include <memory>       // unique_ptr
#include <span>         // lost ranks
#include <type_traits>  // remove_cvref_t
#include <utility>      // declval
#include <vector>       // members

#include <gx/core/clock.hpp>         // Clock
#include <gx/core/device.hpp>        // Device
#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/core/stream.hpp>        // Stream
#include <gx/core/transport.hpp>     // Transport
#include <gx/core/units.hpp>         // Nanoseconds

namespace gx {

struct Graph;

/// The device of a world that only communicates; a Trainer asks for a real one.
struct NoDevice {};

/// A rank, or its device, whose gradients lie in memory of its own (gx/memory). Its transport
/// queues messages, and beside it has
///
///     control()   a Transport of the host's memory, for what is no gradient
///     memory()    the MemoryResource of its buffers
template <class R>
concept HasMemory = requires { typename R::Memory; };

namespace detail::world {
template <class R>
concept BlocksTheHost = requires(R& r) {
    requires Transport<std::remove_cvref_t<decltype(r.transport())>>;
    requires Stream<std::remove_cvref_t<decltype(r.stream())>>;  ///< the communication stream
};
template <class R>
concept QueuesMessages = HasMemory<R> && requires(R& r) {
    r.transport();
    r.memory();
    requires Transport<std::remove_cvref_t<decltype(r.control())>>;
};
}  // namespace detail::world

/// Argument of a rank's function, the same in every world.
template <class R>
concept RankContext = Clock<R> && requires(R& r) {
    typename R::Device;
    { r.rank() } -> std::same_as<int>;
    { r.ranks() } -> std::same_as<int>;
} && (detail::world::BlocksTheHost<R> || detail::world::QueuesMessages<R>);

/// Bytes that the clock is charged for each byte that a rank's reducer sends: 1, unless the rank
/// has `double wire_scale() const`, in a world that trains one model and times another. It is known
/// once the rank has made its device.
template <class R>
[[nodiscard]] constexpr double wire_scale_of([[maybe_unused]] const R& rank) {
    if constexpr (requires { rank.wire_scale(); }) {
        static_assert(std::same_as<decltype(rank.wire_scale()), double>,
                      "gx: a rank's 'wire_scale()' is no 'double wire_scale() const'. Fix: return "
                      "the bytes that are timed for each byte that is sent.");
        return rank.wire_scale();
    } else {
        static_assert(
            !requires(std::remove_const_t<R>& r) { r.wire_scale(); },
            "gx: a rank's 'wire_scale()' is not const, so it would not be used. Fix: "
            "declare it 'double wire_scale() const'.");
        return 1;
    }
}

/// A rank whose clock is charged for work by what it should take, as in a simulation. Known while
/// the rank has a device:
///
///     timed_count(count)        images on the clock for `count` that are trained
///     undisturbed_pass(count)   a forward and a backward pass over these `count` at their nominal
///                               time: without jitter, slowdown or faults
///     undisturbed_update()      an update of all parameters, in the same way
template <class R>
concept TimesItsWork = requires(const R& r, int count) {
    { r.timed_count(count) } -> std::same_as<int>;
    { r.undisturbed_pass(count) } -> std::same_as<Nanoseconds>;
    { r.undisturbed_update() } -> std::same_as<Nanoseconds>;
};

/// Where a rank's control messages go.
template <class R>
[[nodiscard]] constexpr auto& control_of(R& rank) {
    if constexpr (HasMemory<R>) return rank.control();
    else return rank.transport();
}

namespace detail::world {
template <class W>
concept HasRanks = requires(const W& w) {
    { w.ranks() } -> std::same_as<int>;
    { w.placement() } -> std::same_as<Placement>;
} && RankContext<typename W::Rank>;
template <class W>
concept RunsAFunction = requires(W& w, FunctionRef<void(typename W::Rank&)> f) {
    { w.run(f) } -> std::same_as<void>;
};
}  // namespace detail::world

/// Ranks x Device x Transport x Clock.
///
///     run(f)   calls the plain blocking function f(rank) for every rank and returns when all have
///              returned. Work queued on streams is done by then.
///     rank.make_device(graph, options)   a unique_ptr to the rank's device, where R::Device is one
///
/// Errors: when a rank throws, every wait on the other ranks returns `cancelled`, all of them
///         stop, and run() throws the first error. Nothing hangs.
///
/// Ranks may be processes. Either one of them, the root, calls run() and starts the others, as
/// gx::testing::Processes does; then this is all, and what f writes to memory stays in its process
/// (see StartsProcesses for several runs of the same processes).
/// Or each process calls run() for its own, as under mpirun. Such a world defines in addition:
///
///     first_local_rank()   the lowest rank whose function run() calls in this process; ranks()
///                          counts all. The process of rank 0 is the root: it alone writes files.
///     cancel               a rank that throws stops the waits of the other processes too, before
///                          its own run() throws; each run() throws, its own error if it has one
///     a lost rank          a process that ends before its function returned: waits for it return
///                          `lost` at once, by a channel beside the messages if these do not show
///                          it, and the waits of every survivor name it
///
/// and every process calls run() equally often, also where it has nothing to do but to throw. Such
/// worlds are built on gx/coordination, and their ranks model ComparesTerms (world_info.hpp).
template <class W>
concept World = detail::world::HasRanks<W> && detail::world::RunsAFunction<W>;

/// A world that holds a part of the ranks in this process, and where every process calls run().
template <class W>
concept SpansProcesses = World<W> && requires(const W& w) {
    { w.first_local_rank() } -> std::same_as<int>;
};

/// The lowest rank of `world` in this process.
template <World W>
[[nodiscard]] constexpr int first_local_rank([[maybe_unused]] const W& world) {
    if constexpr (SpansProcesses<W>) return world.first_local_rank();
    else return 0;
}
/// Whether this process holds rank 0, which writes the files.
template <World W>
[[nodiscard]] constexpr bool is_root(const W& world) {
    return first_local_rank(world) == 0;
}

/// What is left of a world: a world `W` of some of its ranks.
template <class W>
struct Survivors {
    using World = W;
    std::vector<int> members{};  ///< its rank r was rank members[r] before; ascending
    std::unique_ptr<W> world{};  ///< nullptr where no rank is left
    std::int64_t number = 0;     ///< see Shrinks
};

namespace detail::world {
template <class W>
using Smaller =
    typename decltype(std::declval<W&>().survivors(std::span<const int>(), Nanoseconds()))::World;
template <class W>
concept LeavesSurvivors = requires(W& w, std::span<const int> lost) {
    { w.survivors(lost, Nanoseconds()) } -> std::same_as<Survivors<Smaller<W>>>;
} && World<Smaller<W>> && std::same_as<typename Smaller<W>::Rank, typename W::Rank>;
template <class W>
concept AgreesOnSurvivors = !SpansProcesses<W> || requires(W& w, std::span<const int> lost) {
    { w.survivors(lost, Nanoseconds(), std::int64_t()) } -> std::same_as<Survivors<Smaller<W>>>;
};
template <class W>
concept Shrinks = World<W> && LeavesSurvivors<W> && LeavesSurvivors<Smaller<W>> &&
                  AgreesOnSurvivors<W> && AgreesOnSurvivors<Smaller<W>>;
}  // namespace detail::world

/// A world whose root starts the other processes.
///
///     in_each_process(f)   calls f(here) in every process of it, `here` being the world as this
///                          process has it: it SpansProcesses, and each process may call its run()
///                          several times. Processes that the root has started end behind f.
///
/// Errors: what f throws on the root.
template <class W>
concept StartsProcesses = World<W> && SpansProcesses<typename W::Here> &&
                          requires(W& w, FunctionRef<void(typename W::Here&)> f) {
                              { w.in_each_process(f) } -> std::same_as<void>;
                          };

/// A world that can go on without some of its ranks.
///
///     survivors(lost, restart_time)   after a run that a lost rank has ended: a world of the ranks
///                                     that are left, with ranks of the same type
///
/// `lost`: the ranks that LostRank errors of this process name, and those whose device is lost. The
/// world leaves out these, or those that it knows to be lost, and may leave out more.
/// `restart_time` passes before the next world begins; only a virtual clock needs to be told.
///
/// Where each process calls run() they agree on who is left: survivors() of such a world has a
/// third argument, a number, and returns to all the number that the root gave. In a process that is
/// left out, and in all where the root is, no rank is left, or it throws gx::Error. Where the root
/// StartsProcesses it is the world in each process that shrinks.
template <class W>
concept Shrinks =
    detail::world::Shrinks<W> || (StartsProcesses<W> && detail::world::Shrinks<typename W::Here>);

/// Calls f with the world as each of its processes has it; of other worlds once, with `world`.
template <World W>
void in_each_process(W& world, auto f) {
    if constexpr (StartsProcesses<W>) world.in_each_process(f);
    else f(world);
}

/// A world whose ranks can train: they make devices.
template <class W>
concept TrainingWorld =
    World<W> && (Device<typename W::Rank::Device> || HasMemory<typename W::Rank::Device>) &&
    requires(typename W::Rank& r, const Graph& graph, DeviceOptions options) {
        {
            r.make_device(graph, options)
        } -> std::same_as<std::unique_ptr<typename W::Rank::Device>>;
    };

template <class W>
consteval bool explain_world() {
    static_assert(
        detail::world::HasRanks<W>,
        "gx: not a World: no 'int ranks() const', 'Placement placement() const' or a "
        "nested 'Rank' that models RankContext. Fix: add them as gx/core/world.hpp says; of a "
        "cluster's description make a world first, as sim::Cluster<Device> world(spec).");
    static_assert(detail::world::RunsAFunction<W>,
                  "gx: not a World: no 'void run(FunctionRef<void(Rank&)>)'. "
                  "Fix: add it; it calls the function for every rank.");
    return true;
}

template <class W>
consteval bool explain_training_world() {
    static_assert(explain_world<W>());
    static_assert(TrainingWorld<W>,
                  "gx: this World has no device to train on, it only communicates. "
                  "Fix: name one, as in 'Threads<2, gx::onednn::Device>' or "
                  "'nccl::World<gx::cuda::Device>', and include its header; of sim::Cluster that "
                  "of the simulated GPU, <gx/sim/world/device.hpp>, too.");
    return true;
}

template <class W>
consteval bool explain_shrinking_world() {
    static_assert(explain_world<W>());
    static_assert(Shrinks<W>,
                  "gx: this World can't go on without a rank: no 'gx::Survivors<World> "
                  "survivors(span<const int> lost, Nanoseconds restart_time)'. "
                  "Fix: train on Threads, nccl::World, nccl::LaunchedWorld or a simulated "
                  "cluster, or leave ContinueOnSurvivors out of the Trainer: it then stops, and "
                  "resumes from a checkpoint.");
    return true;
}

}  // namespace gx
