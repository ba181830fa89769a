// ReducerUnderTest: a reducer behind functions, so that checks are compiled once for all of them.
#pragma once

#include <algorithm>    // max
#include <cstdint>      // int64_t
#include <memory>       // unique_ptr
#include <optional>     // nothing collected
#include <span>         // bucket
#include <string>       // name
#include <type_traits>  // is_void_v

#include <gx/core/function_ref.hpp>           // FunctionRef
#include <gx/reducer/accuracy.hpp>            // accuracy
#include <gx/reducer/collective_reducer.hpp>  // plan_of
#include <gx/reducer/name.hpp>                // reducer_name
#include <gx/reducer/pipeline.hpp>            // Pipeline
#include <gx/testing/bounds.hpp>              // wire_limits
#include <gx/testing/checked_transport.hpp>   // CheckedTransport

namespace gx::testing {

/// One rank's instance of the reducer under test.
class AnyReducer {
public:
    AnyReducer() = default;
    AnyReducer(const AnyReducer&) = delete;
    AnyReducer& operator=(const AnyReducer&) = delete;
    virtual ~AnyReducer() = default;

    virtual void reserve(const ReducePlan& plan) = 0;
    virtual ReduceReport all_reduce(CheckedTransport& link, const Bucket& bucket) = 0;
    virtual void settle(std::uint64_t gradient, bool applied) = 0;
    virtual StateList state() = 0;
    /// What error feedback has not sent yet: R::residual() where there is one, else the first
    /// vector of state() that is laid out as a gradient.
    virtual std::span<const float> residual() = 0;
};

/// What one rank does with a Pipeline of the reducer under test.
struct PipelineRun {
    PipelineOptions options{};
    std::uint64_t steps = 0;
    FunctionRef<void(std::uint64_t step, std::span<float> gradient)> write;
    FunctionRef<void(std::uint64_t step, const std::optional<Reduced>&)> collected;
    FunctionRef<void(const Reduced&)> drained;
};

/// The properties of a reducer type, and functions that make and run it.
struct ReducerUnderTest {
    std::string name{};
    WireLimits wire{};
    int channels = 1, staleness = 0;
    bool overlaps = false;  ///< may have several gradients in flight, as in DoubleBuffered
    Accuracy accuracy = Accuracy::rounded;
    std::int64_t bucket_elements = 0;             ///< that it asks for; 0: any
    int (*scheduled_steps)(Placement) = nullptr;  ///< of a plan, idle ones too; nullptr: none
    std::unique_ptr<AnyReducer> (*make)() = nullptr;
    void (*pipeline)(CheckedTransport&, AnyStream&, const PipelineRun&) = nullptr;
};

namespace detail {

template <Reducer R>
class ReducerOf final : public AnyReducer {
public:
    void reserve(const ReducePlan& plan) override { reducer_.reserve(plan); }
    ReduceReport all_reduce(CheckedTransport& link, const Bucket& bucket) override {
        return reducer_.all_reduce(link, bucket);
    }
    void settle([[maybe_unused]] std::uint64_t gradient, [[maybe_unused]] bool applied) override {
        if constexpr (Settles<R>) reducer_.settle(gradient, applied);
    }
    StateList state() override { return reducer_.state(); }
    std::span<const float> residual() override {
        if constexpr (requires(R& r) { r.residual(); }) return reducer_.residual();
        for (const StateVector& v : reducer_.state())
            if (v.is_gradient) return v.values;
        return {};
    }

private:
    R reducer_{};
};

/// Steps of the longest of P's collectives.
template <class P>
int steps_of_plan(Placement placement) {
    int steps = 0;
    for (int k = 0; k < P::count; ++k) steps = std::max(steps, P::make(placement, k).steps());
    return steps;
}

template <Reducer R>
void run_pipeline(CheckedTransport& link, AnyStream& stream, const PipelineRun& run) {
    Pipeline pipeline(stream, link, run.options, R());
    const auto elements = static_cast<std::size_t>(run.options.elements);
    for (std::uint64_t t = 0; t < run.steps; ++t) {
        run.write(t, pipeline.begin(t));
        for (const std::size_t watermark : {elements - elements / 5, elements / 3, std::size_t{0}})
            pipeline.ready(watermark);
        run.collected(t, pipeline.collect(t));
    }
    while (const auto late = pipeline.drain()) run.drained(*late);
}

}  // namespace detail

/// The properties of R. `Pipelined = false` saves the compiler a Pipeline of it, which
/// check_staleness needs and no other check does.
template <Reducer R, bool Pipelined = true>
[[nodiscard]] ReducerUnderTest under_test() {
    ReducerUnderTest r{.name = reducer_name<R>(),
                       .wire = wire_limits<typename R::wire_type>(),
                       .channels = R::channels,
                       .staleness = R::staleness,
                       .overlaps = R::asynchronous && !OwnsUpdate<R>,
                       .accuracy = accuracy<R>()};
    using P = typename decltype(gx::detail::reducer::plan_of<R>())::type;
    if constexpr (!std::is_void_v<P>) r.scheduled_steps = &detail::steps_of_plan<P>;
    if constexpr (requires { R::bucket_elements; }) r.bucket_elements = R::bucket_elements;
    r.make = []() -> std::unique_ptr<AnyReducer> {
        return std::make_unique<detail::ReducerOf<R>>();
    };
    if constexpr (Pipelined) r.pipeline = &detail::run_pipeline<R>;
    return r;
}

}  // namespace gx::testing
