// AnyReducer: the reducer under test as a value, so that a campaign compiles few Trainers.
#pragma once

#include <algorithm>  // equal
#include <cstdint>    // int64_t
#include <memory>     // unique_ptr
#include <span>       // state
#include <utility>    // move
#include <vector>     // residuals

#include <fuzz/rank_log.hpp>        // RankLog
#include <gx/core/contract.hpp>     // GX_EXPECT
#include <gx/reducer/accuracy.hpp>  // accuracy
#include <gx/reducer/concept.hpp>   // Reducer
#include <gx/sim/world/rank.hpp>    // Endpoint
#include <gx/survival/concept.hpp>  // Recovery
#include <gx/testing/bounds.hpp>    // wire_limits

namespace gx::sim::fuzz {

/// A Reducer on the simulated transport, behind virtual functions.
class ReducerBase {
public:
    ReducerBase() = default;
    ReducerBase(const ReducerBase&) = delete;
    ReducerBase& operator=(const ReducerBase&) = delete;
    virtual ~ReducerBase() = default;
    virtual void reserve(const ReducePlan& plan) = 0;
    virtual ReduceReport all_reduce(Endpoint& link, const Bucket& bucket) = 0;
    virtual void settle(std::uint64_t gradient, bool applied) = 0;
    virtual StateList state() = 0;
    // ---- Of a reducer that owns the update
    [[nodiscard]] virtual std::vector<ChunkRange> updated_by(int rank) const = 0;
    virtual void own_update(int rank, std::span<float> state) = 0;
    virtual ReduceReport updated(Endpoint& link, const OwnedUpdate& made) = 0;
    [[nodiscard]] virtual bool replicas_are_equal() const = 0;
};
template <Reducer R>
class ReducerOf final : public ReducerBase {
public:
    void reserve(const ReducePlan& plan) override { reducer_.reserve(plan); }
    ReduceReport all_reduce(Endpoint& link, const Bucket& bucket) override {
        return reducer_.all_reduce(link, bucket);
    }
    void settle(std::uint64_t gradient, bool applied) override {
        if constexpr (Settles<R>) reducer_.settle(gradient, applied);
    }
    StateList state() override { return reducer_.state(); }
    [[nodiscard]] std::vector<ChunkRange> updated_by([[maybe_unused]] int rank) const override {
        if constexpr (OwnsUpdate<R>) return reducer_.updated_by(rank);
        else return {};
    }
    void own_update([[maybe_unused]] int rank, [[maybe_unused]] std::span<float> state) override {
        if constexpr (OwnsUpdate<R>) reducer_.own_update(rank, state);
    }
    ReduceReport updated([[maybe_unused]] Endpoint& link,
                         [[maybe_unused]] const OwnedUpdate& made) override {
        if constexpr (OwnsUpdate<R>) return reducer_.updated(link, made);
        else return {};
    }
    [[nodiscard]] bool replicas_are_equal() const override {
        if constexpr (requires { reducer_.replicas_are_equal(); })
            return reducer_.replicas_are_equal();
        else return true;
    }

private:
    R reducer_{};
};

/// What a reducer promises beyond its accuracy class and its members.
struct Promise {
    int sent_pct = 0;  ///< error feedback: least share of a bucket's values that is sent, the
                       ///< largest ones; 0: any values
    int levels = 0;    ///< unbiased: steps from 0 to a block's largest magnitude
    int period = 0;    ///< updates apart: from one mean of the parameters to the next
};

/// What a trial must know of a reducer.
struct ReducerKind {
    std::unique_ptr<ReducerBase> (*make)();
    int staleness = 0;
    std::int64_t bucket_elements = 0;  ///< that it asks for; 0: whole gradients
    std::size_t element_bytes = 4;     ///< on the wire
    testing::WireLimits wire{};        ///< of its roundings
    Accuracy accuracy = Accuracy::rounded;
    UpdateOwnership owns{};  ///< neither: nothing
    Promise promise{};

    [[nodiscard]] bool owns_update() const { return owns.in_parts || owns.apart; }
    /// Whether a run survives a lost rank; else it stops at one.
    [[nodiscard]] bool goes_on(Recovery recovery) const {
        return !owns_update() || recovery == Recovery::checkpoint;
    }
};
/// Most channels of a reducer in a campaign.
inline constexpr int most_channels = 16;

template <Reducer R, Promise promise = Promise{}>
[[nodiscard]] ReducerKind kind_of() {
    static_assert(R::channels <= most_channels && R::asynchronous);
    static_assert(accuracy<R>() != Accuracy::unbiased || promise.levels > 0);
    ReducerKind kind{
        .make = []() -> std::unique_ptr<ReducerBase> { return std::make_unique<ReducerOf<R>>(); },
        .staleness = R::staleness,
        .element_bytes = sizeof(typename R::wire_type::storage),
        .wire = testing::wire_limits<typename R::wire_type>(),
        .accuracy = accuracy<R>(),
        .promise = promise};
    if constexpr (requires { R::bucket_elements; }) kind.bucket_elements = R::bucket_elements;
    if constexpr (OwnsUpdate<R>) {
        static_assert(!R::owns_update.apart || promise.period > 0);
        kind.owns = R::owns_update;
    }
    return kind;
}

/// The kind that AnyReducers are made of.
inline const ReducerKind* making = nullptr;

/// A reducer of the kind `*making`, as the Trainer takes it. The size of its buckets is the run's:
/// the Trainer divides `bucket_elements` by the device's wire scale.
template <int Staleness>
class AnyReducer {
public:
    using wire_type = fp32;
    static constexpr int channels = most_channels;
    static constexpr int staleness = Staleness;
    static constexpr bool asynchronous = true;
    static constexpr std::int64_t bucket_elements = std::int64_t{1} << 20;

    AnyReducer() : reducer_(making->make()), log_(building) {}
    void reserve(const ReducePlan& plan) { reducer_->reserve(plan); }
    ReduceReport all_reduce([[maybe_unused]] Transport auto& link,
                            [[maybe_unused]] const Bucket& bucket) {
        if constexpr (std::same_as<std::remove_cvref_t<decltype(link)>, Endpoint>)
            return noted(link, bucket);
        else return {};  // no other world is simulated
    }
    /// Logs what became of a gradient; a survivor learns of some when its world has ended.
    void settle(std::uint64_t gradient, bool applied) {
        RankLog::Resolved r{.applied = applied};
        if (applied) r.mean = log_->mean;
        r.before = residual(gradient);
        reducer_->settle(gradient, applied);
        r.kept = residual(gradient);
        if (!log_->closed) log_->resolved.push_back(std::move(r));
    }
    StateList state() { return reducer_->state(); }

    /// The wire scale for buckets of `elements`.
    [[nodiscard]] static double scale_for(std::int64_t elements) {
        return double(bucket_elements) / (double(elements) + 0.5);
    }

private:
    /// That a gradient works on: of each in flight ErrorFeedbackState has one, and what it leaves.
    [[nodiscard]] std::vector<float> residual(std::uint64_t gradient) const {
        if (making->accuracy != Accuracy::error_feedback) return {};
        const StateList all = reducer_->state();
        const std::size_t each = all.size() > 1 ? 2 : 1;
        const auto values = all[gradient % (all.size() / each) * each].values;
        return {values.begin(), values.end()};
    }
    ReduceReport noted(Endpoint& link, const Bucket& bucket) {
        if (log_->first < 0) log_->first = static_cast<std::int64_t>(bucket.gradient);
        return reducer_->all_reduce(link, bucket);
    }
    std::unique_ptr<ReducerBase> reducer_;
    RankLog* log_;
};

/// The same of a reducer that owns the update: in parts, or apart.
template <bool Apart>
class AnyOwner {
public:
    using wire_type = fp32;
    static constexpr UpdateOwnership owns_update{.in_parts = !Apart, .apart = Apart};
    static constexpr int channels = most_channels, staleness = 0;
    static constexpr bool asynchronous = true;
    static constexpr std::int64_t bucket_elements = AnyReducer<0>::bucket_elements;

    AnyOwner() : reducer_(making->make()), log_(building) {}
    void reserve(const ReducePlan& plan) { reducer_->reserve(plan); }
    ReduceReport all_reduce([[maybe_unused]] Transport auto& link,
                            [[maybe_unused]] const Bucket& bucket) {
        if constexpr (std::same_as<std::remove_cvref_t<decltype(link)>, Endpoint>) {
            if (log_->first < 0) log_->first = static_cast<std::int64_t>(bucket.gradient);
            return reducer_->all_reduce(link, bucket);
        } else return {};
    }
    StateList state() { return reducer_->state(); }
    [[nodiscard]] std::vector<ChunkRange> updated_by(int rank) const {
        return reducer_->updated_by(rank);
    }
    [[nodiscard]] bool replicas_are_equal() const { return reducer_->replicas_are_equal(); }
    void own_update(int rank, std::span<float> state) {
        if (!Apart) log_->parts = reducer_->updated_by(rank);
        reducer_->own_update(rank, state);
    }
    /// Logs the parameters before and after the ranks have exchanged them.
    ReduceReport updated([[maybe_unused]] Transport auto& link, const OwnedUpdate& made) {
        if constexpr (std::same_as<std::remove_cvref_t<decltype(link)>, Endpoint>) {
            const auto into = [&](std::vector<float>& copy) {
                made.change([&](std::span<float> all) { copy.assign(all.begin(), all.end()); });
            };
            RankLog::Resolved r{.applied = made.applied};
            if (Apart) into(r.local);
            const ReduceReport report = reducer_->updated(link, made);
            if (Apart || made.applied) into(r.mean);
            if (report.complete() && !log_->closed) log_->resolved.push_back(std::move(r));
            return report;
        } else return {};
    }

private:
    std::unique_ptr<ReducerBase> reducer_;
    RankLog* log_;
};

}  // namespace gx::sim::fuzz
