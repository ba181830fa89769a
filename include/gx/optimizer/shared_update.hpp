// shared_update: one update by several threads, each of a share of the elements.
#pragma once

#include <algorithm>  // max, min
#include <atomic>     // a verdict of threads
#include <concepts>   // same_as
#include <cstddef>    // size_t
#include <exception>  // of a share
#include <span>       // flat memory

#include <gx/core/device.hpp>            // HasShares
#include <gx/optimizer/concept.hpp>      // Elementwise
#include <gx/optimizer/finite.hpp>       // all_finite
#include <gx/optimizer/update_args.hpp>  // UpdateArgs, block

namespace gx {

/// An optimizer whose parts may be updated by several threads at once: it looks at one element at a
/// time, and its update changes no member.
template <class O>
concept UpdatesInShares = Elementwise<O> && requires(const O& o, const UpdateArgs& a) {
    { o.update(a) } -> std::same_as<void>;
};

namespace detail::optimizer {

/// Where share `share` of `shares` of `elements` begins: at a whole block.
[[nodiscard]] constexpr std::size_t share_begin(std::size_t elements, int share, int shares) {
    const std::size_t blocks = (elements + block - 1) / block;
    const auto s = static_cast<std::size_t>(share), n = static_cast<std::size_t>(shares);
    return std::min(elements, blocks * s / n * block);
}

/// The update of `a` for a share of the elements in its slices, in their order.
/// Order: the shares' updates together have the bits of a whole one.
template <UpdatesInShares O>
void update_share(const O& optimizer, UpdateArgs a, int share, int shares) {
    std::size_t elements = 0, first = 0;
    for (const ParameterSlice& s : a.slices) elements += s.count;
    const std::size_t begin = share_begin(elements, share, shares),
                      end = share_begin(elements, share + 1, shares);
    for (const ParameterSlice& s : a.slices) {
        const std::size_t from = std::max(begin, first), to = std::min(end, first + s.count);
        if (from < to) {
            const ParameterSlice part{s.offset + (from - first), to - from, s.parameter};
            a.slices = {&part, 1};
            optimizer.update(a);
        }
        first += s.count;
    }
}

}  // namespace detail::optimizer

/// optimizer.update(a), by the threads of `device` where both can.
/// Errors: what an update throws on a thread of the device, here, once all shares are done; of
///         several the first that was thrown.
template <class Device, class O>
void update_in_shares(Device& device, O& optimizer, const UpdateArgs& a) {
    if constexpr (HasShares<Device> && UpdatesInShares<O>) {
        std::atomic<bool> failed{false};
        std::exception_ptr first;  // written by the thread that sets `failed`
        device.in_shares([&](int share, int shares) {
            try {
                detail::optimizer::update_share<O>(optimizer, a, share, shares);
            } catch (...) {
                if (!failed.exchange(true)) first = std::current_exception();
            }
        });
        if (first) std::rethrow_exception(first);
    } else {
        optimizer.update(a);
    }
}

/// all_finite(x), by the threads of `device` where it has them.
template <class Device>
[[nodiscard]] bool all_finite_in_shares(Device& device, std::span<const float> x) {
    if constexpr (!HasShares<Device>) return all_finite(x);
    else {
        std::atomic<bool> finite{true};
        device.in_shares([&](int share, int shares) {
            using detail::optimizer::share_begin;
            const std::size_t begin = share_begin(x.size(), share, shares);
            const std::size_t end = share_begin(x.size(), share + 1, shares);
            if (!all_finite(x.subspan(begin, end - begin)))
                finite.store(false, std::memory_order_relaxed);
        });
        return finite.load(std::memory_order_relaxed);
    }
}

}  // namespace gx
