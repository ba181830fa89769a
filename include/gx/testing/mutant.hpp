// Mutant<R>: base class of reducers that are R but for one seeded bug.
#pragma once

#include <cstdint>  // int64_t
#include <span>     // state

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
    void reserve(Placement placement, std::int64_t elements) {
        inner_.reserve(placement, elements);
    }
    std::span<float> state() { return inner_.state(); }

protected:
    R inner_;
};

}  // namespace gx::testing
