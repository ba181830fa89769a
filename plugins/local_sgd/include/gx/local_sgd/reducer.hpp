// LocalSgd<R, H>: each rank applies its own gradients; every H updates the parameters are averaged.
#pragma once

#include <algorithm>  // max
#include <concepts>   // same_as
#include <cstddef>    // size_t
#include <cstdint>    // int64_t
#include <span>       // parameters
#include <string>     // names
#include <vector>     // parts

#include <gx/core/contract.hpp>       // GX_EXPECT
#include <gx/memory/buffer.hpp>       // Buffer: state on a device
#include <gx/memory/kernels.hpp>      // Fill
#include <gx/memory/queue.hpp>        // launch, Link
#include <gx/reducer/accuracy.hpp>    // accuracy
#include <gx/reducer/concept.hpp>     // explain_reducer, OwnedUpdate
#include <gx/reducer/name.hpp>        // reducer_name
#include <gx/reflect/options_of.hpp>  // options_of

namespace gx {

/// What becomes of the optimizer's state when the parameters are averaged.
enum class LocalState : unsigned char {
    kept,      ///< of each rank its own
    averaged,  ///< its vectors too, by the same reducer
    reset      ///< its vectors to 0; an optimizer's count of updates goes on
};

namespace detail::local_sgd {

template <class R, int H>
consteval bool explain() {
    static_assert(explain_reducer<R>());
    static_assert(H >= 1,
                  "gx: LocalSgd<R, 0> never averages the parameters: H counts the updates from one "
                  "mean to the next. Fix: LocalSgd<R, 1> or more.");
    static_assert(!reducer::ClaimsTheUpdate<R>,
                  "gx: LocalSgd of a reducer that owns the update already: one of them can own it. "
                  "Fix: use one of the two.");
    static_assert(R::staleness == 0,
                  "gx: LocalSgd of a reducer with stale gradients: the next update would be made "
                  "on parameters "
                  "whose mean has not come. Fix: LocalSgd of the reducer without DoubleBuffered.");
    static_assert(accuracy<R>() == Accuracy::rounded && !Settles<R>,
                  "gx: LocalSgd of a reducer that compresses: it averages parameters, and these "
                  "would lose what a gradient can wait for. Fix: use one that returns the rounded "
                  "mean, such as Ring.");
    return true;
}

}  // namespace detail::local_sgd

/// Local SGD: the ranks' replicas descend apart and are averaged after every H updates. Each goes
/// along its own gradient with an optimizer of its own, and R averages them:
///
///     update u:           parameters = optimizer(parameters, this rank's gradient)
///     u + 1 = H, 2 H ...  parameters = mean over the ranks, rounded as R rounds
///                         optimizer state: LocalState
///
/// H counts from the start of an epoch, and the epoch's last update is followed by a mean too: the
/// replicas that are evaluated, compared and saved are equal. In between a Trainer's loss is that
/// of the ranks' replicas.
///
/// The gradient of a rank is as a Trainer gives it: its images weigh as in the gradient of the
/// whole batch, times the number of ranks. One that is not finite is skipped on that rank alone,
/// where the update keeps its number, so ranks exchange nothing between means; a loss scale that
/// learns is therefore refused. Skipped steps are counted at the end of an epoch and before a
/// checkpoint, which is written behind a mean.
///
/// Without a Trainer it is R.
///
/// Wire:   nothing in an update; for a mean, R's of the parameters, and with `averaged` of each
///         vector of state. They are rounded to R's wire as gradients are: fp32 suits.
/// Order:  as R, of the parameters in the buckets of a gradient. With H = 1 and plain descent the
///         run is that of R within the roundings of mean(w - r g) and w - r mean(g).
/// Errors: as R; a lost rank is named at the next mean. ContinueOnSurvivors goes back to the newest
///         checkpoint.
/// Memory: also that of a device, where R has kernels for it: no step waits for the host.
/// Cost:   no memory beside R's. With `kept` a checkpoint holds the optimizer's state of each rank
///         and resumes on as many; else it is that of a run with R, for any number of them.
/// Source: Stich 2019, "Local SGD converges fast and communicates little", arXiv:1805.09767; Lin et
///         al. 2020, "Don't use large mini-batches, use local SGD", arXiv:1808.07217.
template <class R, int H>
class LocalSgd {
    static_assert(detail::local_sgd::explain<R, H>());

public:
    struct Options {
        LocalState state = LocalState::kept;
        options_of<R> reducer{};
    };
    using wire_type = typename R::wire_type;
    static constexpr UpdateOwnership owns_update{.apart = true};
    static constexpr int period = H;  ///< updates from one mean to the next
    static constexpr int channels = R::channels;
    static constexpr int staleness = 0;
    static constexpr bool asynchronous = R::asynchronous;
    static constexpr bool repeats_work = RepeatsWork<R>;
    static constexpr std::int64_t bucket_elements = [] {  ///< 0: as many as there are
        if constexpr (requires { R::bucket_elements; }) return std::int64_t{R::bucket_elements};
        else return std::int64_t{0};
    }();

    static constexpr auto check(const Options& o)
        requires requires { R::check(o.reducer); }
    {
        return R::check(o.reducer);
    }

    LocalSgd() = default;
    explicit LocalSgd(const Options& o) : at_mean_(o.state), inner_(make_policy<R>(o.reducer)) {}

    [[nodiscard]] static std::string name() {
        return "LocalSgd<" + reducer_name<R>() + ", " + std::to_string(H) + ">";
    }
    void reserve(const ReducePlan& plan) {
        plan_ = plan;
        inner_.reserve(plan);
    }
    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        if (owns_) return {};  // a rank applies its own
        return inner_.all_reduce(link, bucket);
    }
    /// With `kept`, the optimizer's vectors, which are this rank's own.
    StateList state() {
        StateList list;
        for (std::size_t v = 0; v < names_.size(); ++v) {
            list.push_back({.name = names_[v], .scope = StateScope::per_rank, .is_gradient = true});
            if (on_device_ == nullptr) list.back().values = vector<HostMemory>(v);
            else
                list.back().on_device = on_device_,
                list.back().part = {static_cast<std::int64_t>(v) * plan_.elements,
                                    static_cast<std::int64_t>(v + 1) * plan_.elements};
        }
        return list;
    }

    // ---- The update ------------------------------------------------------------------------
    /// 1: a mean follows the next update.
    [[nodiscard]] int next_work(bool last) const { return since_ + 1 >= H || last ? 1 : 0; }
    /// After a mean. Equal weights are no proof of one: they stay equal at a learning rate of 0,
    /// and in a step that all ranks skip.
    [[nodiscard]] bool replicas_are_equal() const { return since_ == 0; }
    [[nodiscard]] std::vector<ChunkRange> updated_by(int) const { return {{0, plan_.elements}}; }
    void own_update(int, std::span<float> state) {
        state_ = state;
        own(state.size());
    }
    void own_update(int, Buffer<float>& state) {
        on_device_ = &state;
        own(state.size());
    }
    template <Link T>
    ReduceReport updated(T& link, const OwnedUpdateIn<memory_of<T>>& made) {
        using M = memory_of<T>;
        ReduceReport sum;
        const bool is_mean = next_work(made.last) == 1;
        since_ = is_mean ? 0 : since_ + 1;
        if (!is_mean) return sum;
        made.change([&](ViewIn<float, M> parameters) { average(link, parameters, sum); });
        for (std::size_t v = 0; v < vectors_; ++v) {
            if (at_mean_ == LocalState::averaged) average(link, vector<M>(v), sum);
            if (at_mean_ == LocalState::reset)
                launch(own_queue(link), kernels::Fill<float>{}, vector<M>(v));
        }
        return sum;
    }

private:
    void own(std::size_t state) {
        const auto elements = static_cast<std::size_t>(plan_.elements);
        GX_EXPECT(elements > 0 && state % elements == 0, "an optimizer keeps whole vectors");
        owns_ = true;
        vectors_ = state / elements;
        if (at_mean_ != LocalState::kept) return;
        for (std::size_t v = 0; v < vectors_; ++v)
            names_.push_back("optimizer state " + std::to_string(v));
    }
    template <class M>
    [[nodiscard]] ViewIn<float, M> vector(std::size_t v) const {
        const auto elements = static_cast<std::size_t>(plan_.elements);
        if constexpr (std::same_as<M, HostMemory>) return state_.subspan(v * elements, elements);
        else return on_device_->template view<M>().subspan(v * elements, elements);
    }
    /// Of the optimizer's state, whose time is the update's.
    template <Link T>
    [[nodiscard]] static decltype(auto) own_queue(T& link) {
        if constexpr (InHostMemory<T>) return HostQueue{};
        else return link.queue();
    }
    /// In buckets, as a Pipeline cuts a gradient.
    template <Link T>
    void average(T& link, ViewIn<float, memory_of<T>> values, ReduceReport& sum) {
        const std::int64_t most = plan_.bucket_elements;
        BucketOn<T> bucket;
        bucket.count = static_cast<int>((plan_.elements - 1) / most + 1);
        bucket.gradient = means_++;
        for (std::int64_t end = plan_.elements; end > 0 && sum.complete(); end -= most) {
            bucket.offset = std::max<std::int64_t>(0, end - most);
            bucket.values = values.subspan(static_cast<std::size_t>(bucket.offset),
                                           static_cast<std::size_t>(end - bucket.offset));
            bucket.slices = Bucket::slices_in(plan_.slices, bucket.offset, end);
            const ReduceReport done = inner_.all_reduce(link, bucket);
            sum = {done.delivery, sum.bytes_sent + done.bytes_sent, sum.steps + done.steps};
            ++bucket.index;
        }
    }

    LocalState at_mean_ = LocalState::kept;
    R inner_{};
    ReducePlan plan_{.placement = {0, 0}};
    bool owns_ = false;
    int since_ = 0;            ///< updates since the last mean
    std::uint64_t means_ = 0;  ///< vectors that were averaged
    std::size_t vectors_ = 0;  ///< of the optimizer's state
    std::span<float> state_{};
    Buffer<float>* on_device_ = nullptr;  ///< in place of state_
    std::vector<std::string> names_{};
};

}  // namespace gx
