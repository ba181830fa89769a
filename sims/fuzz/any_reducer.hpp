// AnyReducer: the reducer under test as a value, so that a campaign compiles few Trainers.
#pragma once

#include <cstdint>  // int64_t
#include <memory>   // unique_ptr
#include <span>     // bounds
#include <utility>  // move
#include <vector>   // bounds

#include <fuzz/rank_log.hpp>       // RankLog
#include <gx/reducer/concept.hpp>  // Reducer
#include <gx/sim/world/rank.hpp>   // Endpoint
#include <gx/testing/bounds.hpp>   // mean_bounds

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

private:
    R reducer_{};
};

/// What a trial must know of a reducer.
struct ReducerKind {
    std::unique_ptr<ReducerBase> (*make)();
    int staleness = 0;
    std::int64_t bucket_elements = 0;                     ///< that it asks for; 0: whole gradients
    std::size_t element_bytes = 4;                        ///< on the wire
    std::vector<double> (*bounds)(const testing::Rows&);  ///< of its roundings
};
/// Most channels of a reducer in a campaign.
inline constexpr int most_channels = 16;

template <Reducer R>
[[nodiscard]] ReducerKind kind_of() {
    static_assert(R::channels <= most_channels && R::asynchronous);
    ReducerKind kind{
        .make = []() -> std::unique_ptr<ReducerBase> { return std::make_unique<ReducerOf<R>>(); },
        .staleness = R::staleness,
        .element_bytes = sizeof(typename R::wire_type::storage),
        .bounds =
            [](const testing::Rows& rows) {
                return testing::mean_bounds<typename R::wire_type>(rows);
            }};
    if constexpr (requires { R::bucket_elements; }) kind.bucket_elements = R::bucket_elements;
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
        if (!log_->closed)
            log_->resolved.push_back({applied, applied ? log_->mean : std::vector<float>()});
        reducer_->settle(gradient, applied);
    }
    StateList state() { return reducer_->state(); }

    /// The wire scale for buckets of `elements`.
    [[nodiscard]] static double scale_for(std::int64_t elements) {
        return double(bucket_elements) / (double(elements) + 0.5);
    }

private:
    ReduceReport noted(Endpoint& link, const Bucket& bucket) {
        if (log_->first < 0) log_->first = static_cast<std::int64_t>(bucket.gradient);
        return reducer_->all_reduce(link, bucket);
    }
    std::unique_ptr<ReducerBase> reducer_;
    RankLog* log_;
};

}  // namespace gx::sim::fuzz
