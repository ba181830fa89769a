// SummedNorms<O>: exact norms of all parameters, summed over the ranks that hold their parts.
#pragma once

#include <cstddef>      // size_t
#include <cstdint>      // int64_t
#include <span>         // norms
#include <string_view>  // names
#include <vector>       // offsets

#include <gx/collective/all_gather_bytes.hpp>  // all_gather_bytes
#include <gx/core/error.hpp>                   // Delivery
#include <gx/core/transport.hpp>               // control_channel
#include <gx/memory/buffer.hpp>                // Buffer
#include <gx/memory/kernels.hpp>               // Fill
#include <gx/memory/memory.hpp>                // ViewIn
#include <gx/memory/queue.hpp>                 // launch, Link
#include <gx/optimizer/concept.hpp>            // AddsNorms

namespace gx::detail::trainer {

/// sums[p] = norms of parameter p, of all ranks one after the other.
template <class Norms>
struct SumNorms {
    static constexpr std::string_view name = "sum norms";
    void operator()(std::span<const Norms> all, std::span<Norms> sums) const {
        for (Norms& sum : sums) sum = Norms{};
        for (std::size_t i = 0; i < all.size(); ++i) sums[i % sums.size()].add(all[i]);
    }
};

/// Norms of each parameter of a graph, for an optimizer that AddsNorms.
/// Wire:  the norms of all parameters, n - 1 times, in a ring.
/// Order: norms are exact sums, so it does not show where parameters are cut.
template <AddsNorms O>
class SummedNorms {
    using Norms = typename O::Norms;

public:
    SummedNorms() = default;
    /// In the host's memory where `memory` is nullptr.
    SummedNorms(MemoryResource* memory, std::size_t parameters, int rank, int ranks)
        : all_(memory, static_cast<std::int64_t>(parameters) * ranks, "norms of all ranks"),
          sums_(memory, static_cast<std::int64_t>(parameters), "norms"),
          first_(static_cast<std::size_t>(rank) * parameters) {
        for (int r = 0; r <= ranks; ++r)
            offsets_.push_back(static_cast<std::int64_t>(static_cast<std::size_t>(r) * parameters *
                                                         sizeof(Norms)));
    }

    /// Those of this rank's parts, from zero, to add to.
    template <class Queue, class M = memory_of<Queue>>
    [[nodiscard]] ViewIn<Norms, M> begin(Queue&& queue) {
        launch(queue, kernels::Fill<Norms>{}, mine<M>());
        return mine<M>();
    }
    /// Sums them over the ranks.
    template <class Queue, Link T, class M = memory_of<Queue>>
    Delivery sum(Queue&& queue, T& link) {
        const auto all = all_.template view<M>();
        const auto done =
            collective::all_gather_bytes(link, bytes_of(mine<M>()), writable_bytes_of(all),
                                         std::span(offsets_), control_channel);
        if (done.delivery.complete())
            launch(queue, SumNorms<Norms>{}, ViewIn<const Norms, M>(all), sums_.template view<M>());
        return done.delivery;
    }
    /// Of whole parameters.
    template <class M = HostMemory>
    [[nodiscard]] ViewIn<const Norms, M> sums() {
        return sums_.template view<M>();
    }

private:
    template <class M>
    [[nodiscard]] ViewIn<Norms, M> mine() {
        return all_.template view<M>().subspan(first_, sums_.size());
    }

    Buffer<Norms> all_, sums_;
    std::size_t first_ = 0;
    std::vector<std::int64_t> offsets_{};
};

}  // namespace gx::detail::trainer
