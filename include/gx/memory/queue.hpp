// launch: run a kernel on views of one memory, at once or queued on devices.
#pragma once

#include <concepts>     // convertible_to
#include <cstddef>      // byte
#include <span>         // groups
#include <string_view>  // names
#include <type_traits>  // is_trivially_copyable_v

#include <gx/core/transport.hpp>  // Transport
#include <gx/memory/memory.hpp>   // memory_of

namespace gx {

/// Arithmetic on whole vectors: a small value with a name for reports, and an
/// `operator()(spans and values...) const` that reads and writes nothing else. A device may have
/// code of its own for it, if that gives the same bits.
template <class K>
concept DeviceKernel = std::is_trivially_copyable_v<K> && requires {
    { K::name } -> std::convertible_to<std::string_view>;
};

/// The queue of host memory: a kernel is done when launch returns.
struct HostQueue {
    using Memory = HostMemory;
};

/// What a kernel on memory M may be given: views and scalars of M, and plain values.
template <class T, class M>
consteval bool explain_argument() {
    constexpr bool is_host = requires { [](std::span<typename T::element_type>) {}(T{}); };
    static_assert(!is_host || std::same_as<M, HostMemory>,
                  "gx: a kernel on the memory of a device gets a span of the host's memory. "
                  "Fix: copy it to a Buffer first, by the queue's copy_in().");
    constexpr bool is_device = requires { typename T::Memory; };
    if constexpr (is_device)
        static_assert(std::same_as<typename T::Memory, M>,
                      "gx: a kernel gets a view of another memory than its queue's. "
                      "Fix: launch it on a queue of that memory, or copy the data.");
    return true;
}

/// Runs kernel(arguments...): views of the queue's memory, which the kernel gets as spans, and
/// Scalars and plain values, which it gets as values. On a device's queue it runs later, behind all
/// that was launched there before; the arguments' memory stays until then.
template <DeviceKernel K, class... Arguments>
[[gnu::always_inline]] inline void launch(HostQueue, const K& kernel, Arguments... arguments) {
    static_assert((... && explain_argument<Arguments, HostMemory>()));
    kernel(arguments...);
}

/// A message of a group: a send where `out` is not empty, else a receive. None is empty.
template <class M>
struct QueuedMessage {
    int peer = -1;
    ViewIn<const std::byte, M> out{};
    ViewIn<std::byte, M> in{};
};

/// A transport whose messages are queued work in a device's memory.
///
///     queue()            where its messages, and the sums of what it receives, are queued
///     exchange(messages) queues a group of messages, which progress at once. The k-th send from
///                        rank a to rank b meets the k-th receive of b from a; there are no
///                        channels
///
/// Optional: working_on(operation), as of Transport; optional<Operation> unfinished(), once a wait
/// was incomplete what the first messages are of that were not done.
///
/// Errors: a rank that is missing shows where the host waits for the queue.
template <class T>
concept StreamOrdered =
    !InHostMemory<T> &&
    requires(T& t, const T& c, std::span<const QueuedMessage<memory_of<T>>> messages) {
        { c.rank() } -> std::same_as<int>;
        { c.ranks() } -> std::same_as<int>;
        { c.placement() } -> std::same_as<Placement>;
        { t.exchange(messages) } -> std::same_as<void>;
        requires std::same_as<memory_of<decltype(t.queue())>, memory_of<T>>;
    };

/// What a reducer is given to send over.
template <class T>
concept Link = Transport<T> || StreamOrdered<T>;

/// Where kernels on the data of a transport's messages are launched: its queue(), or the host's. A
/// simulated transport has a queue of host memory, which adds the time of a GPU's kernel.
template <class T>
[[nodiscard]] constexpr decltype(auto) queue_of(T& link) {
    if constexpr (InHostMemory<T> && !requires { link.queue(); }) return HostQueue{};
    else return link.queue();
}

}  // namespace gx
