// Mutant<R>: base class of reducers that are R but for one seeded bug.
#pragma once

#include <cstdint>  // uint64_t
#include <span>     // residual

#include <gx/reducer/concept.hpp>  // Reducer

namespace gx::testing {

/// Base class of mutants: forwards everything but all_reduce to R.
template <Reducer R>
class Mutant {
public:
    using wrapped = R;
    using wire_type = typename R::wire_type;
    static constexpr int channels = R::channels;
    static constexpr int staleness = R::staleness;
    static constexpr bool asynchronous = R::asynchronous;
    void reserve(const ReducePlan& plan) { inner_.reserve(plan); }
    void settle(std::uint64_t gradient, bool applied)
        requires Settles<R>
    {
        inner_.settle(gradient, applied);
    }
    StateList state() { return inner_.state(); }
    std::span<const float> residual()
        requires requires(R& r) { r.residual(); }
    {
        return inner_.residual();
    }

protected:
    R inner_;
};

}  // namespace gx::testing
