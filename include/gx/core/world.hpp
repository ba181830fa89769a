// World: ranks, each with a device, a transport, a stream and a clock; runs a function on each.
#pragma once

#include <concepts>     // same_as
#include <memory>       // unique_ptr
#include <type_traits>  // remove_cvref_t

#include <gx/core/clock.hpp>         // Clock
#include <gx/core/device.hpp>        // Device
#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/core/stream.hpp>        // Stream
#include <gx/core/transport.hpp>     // Transport

namespace gx {

struct Graph;

/// The device of a world that only communicates; a Trainer asks for a real one.
struct NoDevice {};

/// Argument of a rank's function: blocking interface, the same in every world.
template <class R>
concept RankContext = Clock<R> && requires(R& r, const Graph& graph, DeviceOptions options) {
    typename R::Device;
    { r.rank() } -> std::same_as<int>;
    { r.ranks() } -> std::same_as<int>;
    requires Transport<std::remove_cvref_t<decltype(r.transport())>>;
    requires Stream<std::remove_cvref_t<decltype(r.stream())>>;  ///< the communication stream
};

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
template <class W>
concept World = detail::world::HasRanks<W> && detail::world::RunsAFunction<W>;

/// A world whose ranks can train: they make devices.
template <class W>
concept TrainingWorld = World<W> && Device<typename W::Rank::Device> &&
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
        "nested 'Rank' that models RankContext. Fix: add them as gx/core/world.hpp says.");
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
                  "Fix: name one, as in 'Threads<2, gx::onednn::Device>'.");
    return true;
}

}  // namespace gx
