// OnDevice<R, Rank>: R in a rank's device memory, for checks and mutants of host memory.
#pragma once

#include <algorithm>    // copy, max
#include <concepts>     // same_as
#include <cstdint>      // int64_t
#include <span>         // messages
#include <string>       // name
#include <type_traits>  // remove_reference_t
#include <utility>      // exchange
#include <vector>       // states

#include <gx/core/contract.hpp>              // GX_EXPECT
#include <gx/memory/buffer.hpp>              // Buffer
#include <gx/memory/memory.hpp>              // ViewIn
#include <gx/memory/queue.hpp>               // StreamOrdered, QueuedMessage
#include <gx/memory/queued_device.hpp>       // Abandons
#include <gx/reducer/name.hpp>               // reducer_name
#include <gx/reducer/concept.hpp>            // Reducer, SettlesOn
#include <gx/testing/any_rank.hpp>           // ControlOf
#include <gx/testing/checked_transport.hpp>  // CheckedTransport

namespace gx::testing {

namespace detail {

/// A device's transport whose groups are counted.
template <StreamOrdered T>
class CountedLink {
public:
    using Memory = memory_of<T>;
    CountedLink(T& link, CheckedTransport* counts) : link_(&link), counts_(counts) {}

    [[nodiscard]] int rank() const { return link_->rank(); }
    [[nodiscard]] int ranks() const { return link_->ranks(); }
    [[nodiscard]] Placement placement() const { return link_->placement(); }
    [[nodiscard]] auto& queue() { return link_->queue(); }
    void exchange(std::span<const QueuedMessage<Memory>> group) {
        using Kind = MessageEvent::Kind;
        std::vector<MessageEvent> posted;
        std::int64_t bytes = 0;
        for (const auto& m : group) {
            if (m.out.empty() && m.in.empty()) continue;
            posted.push_back({m.out.empty() ? Kind::received : Kind::sent, m.peer, 0, 0});
            bytes += static_cast<std::int64_t>(m.out.size());
        }
        if (counts_ != nullptr) counts_->count_group(posted, bytes);
        link_->exchange(group);
    }
    /// The transport's own collective: counted as one message of all values.
    template <Element E>
    Delivery all_reduce(ViewIn<typename E::storage, Memory> values)
        requires requires(T& t) { t.template all_reduce<E>(values); }
    {
        using Kind = MessageEvent::Kind;
        const MessageEvent whole[]{{Kind::sent, rank(), 0, 0}, {Kind::received, rank(), 0, 0}};
        if (counts_ != nullptr)
            counts_->count_group(whole, static_cast<std::int64_t>(values.size_bytes()));
        return link_->template all_reduce<E>(values);
    }

private:
    T* link_;
    CheckedTransport* counts_;
};

/// The rank below a transport that wraps ControlOf<Rank>; nullptr: it wraps another.
template <class Rank, class T>
[[nodiscard]] Rank* device_rank_below(T& link) {
    if constexpr (std::derived_from<T, AnyTransport>) {
        const auto* const control = dynamic_cast<ControlOf<Rank>*>(&link);
        return control == nullptr ? nullptr : &control->device_rank();
    } else if constexpr (requires { link.under(); }) {
        return device_rank_below<Rank>(link.under());
    } else {
        return nullptr;
    }
}

}  // namespace detail

/// R on the device of a `Rank`, behind the interface of a reducer of the host's memory: each bucket
/// is copied to the device, reduced there over the rank's own transport, and copied back. So the
/// checks of gx/testing run on worlds with memory of their own, and mutants around it are rejected:
///
///     check<OnDevice<R, World::Rank>>(on)      on(placement, f) runs a World
///
/// Counted are its groups of messages (CheckedTransport). In worlds of the host's memory it is R.
/// Errors: a rank that is missing shows in the report, as the host waits for each bucket.
template <Reducer R, class Rank>
class OnDevice {
    using M = typename Rank::Memory;

public:
    using wrapped = R;
    using wire_type = typename R::wire_type;
    static constexpr int channels = R::channels;
    static constexpr int staleness = R::staleness;
    static constexpr bool asynchronous = R::asynchronous;
    static constexpr std::int64_t bucket_elements = [] {
        if constexpr (requires { R::bucket_elements; }) return std::int64_t{R::bucket_elements};
        else return std::int64_t{0};
    }();

    [[nodiscard]] static std::string name() { return reducer_name<R>(); }

    void reserve(const ReducePlan& plan) {
        plan_ = plan;
        host_.reserve(plan);
    }
    template <Transport T>
    ReduceReport all_reduce(T& link, const Bucket& bucket) {
        Rank* const rank = detail::device_rank_below<Rank>(link);
        if (rank == nullptr) return host_.all_reduce(link, bucket);
        begin(*rank);
        auto& queue = rank_->transport().queue();
        const auto values = values_.template view<M>().first(bucket.size());
        const std::span<float> here = bucket.values;
        if (!here.empty()) queue.copy_in(std::span<const float>(here), values, {"bucket"});
        BucketIn<M> there(values);
        there.index = bucket.index;
        there.count = bucket.count;
        there.offset = bucket.offset;
        there.gradient = bucket.gradient;
        there.slices = bucket.slices;
        const float scale[]{bucket.loss_scale};
        queue.copy_in(std::span<const float>(scale), scale_.template view<M>(), {"loss scale"});
        there.loss_scale = {scale_.template view<M>()};
        CheckedTransport* counts = nullptr;
        if constexpr (std::same_as<T, CheckedTransport>) counts = &link;
        detail::CountedLink counted(rank_->transport(), counts);
        ReduceReport report = device_.all_reduce(counted, there);
        if (!here.empty()) queue.copy_out(ViewIn<const float, M>(values), here, {"bucket"});
        if (const Delivery d = wait(); !d.complete()) report.delivery = d;
        return report;
    }
    void settle(std::uint64_t gradient, bool applied)
        requires Settles<R>
    {
        if (rank_ == nullptr) return host_.settle(gradient, applied);
        give_state();
        auto& queue = rank_->transport().queue();
        const Flag flag[]{Flag(applied)};
        const auto view = applied_.template view<M>();
        queue.copy_in(std::span<const Flag>(flag), view, {"applied"});
        device_.settle_on(queue, gradient, ScalarIn<Flag, M>{view});
        (void)wait();
    }
    /// Of the host, copied from the device, and back to it before the next reduction.
    StateList state() {
        StateList list = host_.state();
        if (rank_ == nullptr) return list;
        const StateList there = device_.state();
        GX_EXPECT(there.size() == list.size(), "a reducer's state is the same in every memory");
        for (std::size_t i = 0; i < list.size(); ++i)
            rank_->transport().queue().copy_out(ViewIn<const float, M>(view_of(there[i])),
                                                list[i].values, {"state"});
        (void)wait();
        given_ = false;
        return list;
    }
    std::span<const float> residual()
        requires requires(R& r) { r.residual(); }
    {
        (void)state();  // of which it is made
        return host_.residual();
    }

private:
    void begin(Rank& rank) {
        if (rank_ == nullptr) {
            rank_ = &rank;
            plan_.memory = &rank.memory();
            device_.reserve(plan_);
            const std::int64_t elements = std::max(plan_.elements, plan_.bucket_elements);
            values_ = {&rank.memory(), std::max(elements, std::int64_t{1}), "bucket"};
            scale_ = {&rank.memory(), 1, "loss scale"};
            applied_ = {&rank.memory(), 1, "applied"};
        }
        give_state();
    }
    void give_state() {
        if (std::exchange(given_, true)) return;
        const StateList here = host_.state(), there = device_.state();
        for (std::size_t i = 0; i < here.size(); ++i)
            rank_->transport().queue().copy_in(std::span<const float>(here[i].values),
                                               view_of(there[i]), {"state"});
    }
    [[nodiscard]] static ViewIn<float, M> view_of(const StateVector& v) {
        GX_EXPECT(v.on_device != nullptr, "on a device a reducer's state lies there");
        const auto all = v.on_device->template view<M>();
        return v.part.size() > 0 ? all.subspan(std::size_t(v.part.begin), v.size()) : all;
    }
    [[nodiscard]] Delivery wait() {
        auto& queue = rank_->transport().queue();
        const Delivery d = queue.wait(queue.record());
        if constexpr (Abandons<std::remove_reference_t<decltype(queue)>>)
            if (!d.complete()) {  // no work is left that uses the buffers
                queue.abandon();
                (void)queue.wait(queue.record());
            }
        return d;
    }

    ReducePlan plan_{};
    R host_{}, device_{};  ///< host_: its state is the copy that state() returns
    Rank* rank_ = nullptr;
    Buffer<float> values_{}, scale_{};
    Buffer<Flag> applied_{};
    bool given_ = false;  ///< the device has the state that host_ has
};

}  // namespace gx::testing
