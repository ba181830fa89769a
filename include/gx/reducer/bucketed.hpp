// Bucketed<R, Bytes>: gradients go out in buckets of so many bytes on the wire.
#pragma once

#include <algorithm>  // min
#include <cstdint>    // int64_t
#include <span>       // bucket
#include <string>     // name

#include <gx/reducer/accuracy.hpp>  // accuracy
#include <gx/reducer/concept.hpp>   // explain_reducer
#include <gx/reducer/fwd.hpp>       // declared
#include <gx/reducer/name.hpp>      // reducer_name

namespace gx {

/// R, with at most BucketBytes of wire elements at once: a Pipeline cuts the gradient so, and
/// starts each bucket while the rest is still being computed. A longer span is cut from its front.
/// R has no error feedback: all_reduce is not told which bucket it gets, so a residual would be
/// added to the elements of another bucket.
///
/// Order:  as R; where buckets are cut changes the bits.
/// Errors: as R; stops at the first bucket that is incomplete.
template <class R, std::int64_t BucketBytes>
class Bucketed {
    static_assert(explain_reducer<R>());
    static_assert(BucketBytes >= static_cast<std::int64_t>(sizeof(typename R::wire_type::storage)),
                  "gx: a bucket smaller than an element can't carry a gradient: 'Bucketed' counts "
                  "bytes on the wire. Fix: give at least sizeof(wire_type::storage), "
                  "as in 'Bucketed<Ring<>, 4 << 20>'.");
    static_assert(
        accuracy<R>() != Accuracy::error_feedback && !state_is_a_gradient<R>(),
        "gx: 'Bucketed' of a reducer with error feedback, or with a state in the shape of "
        "a gradient: all_reduce is not told which bucket it gets, and would add the "
        "residual of one bucket to another. Fix: leave out 'Bucketed', so that the "
        "gradient is reduced whole.");

public:
    using wrapped = R;
    using wire_type = typename R::wire_type;
    static constexpr int channels = R::channels;
    static constexpr int staleness = R::staleness;
    static constexpr bool asynchronous = R::asynchronous;
    static constexpr std::int64_t bucket_bytes = BucketBytes;  ///< on the wire
    static constexpr std::int64_t bucket_elements =
        BucketBytes / static_cast<std::int64_t>(sizeof(typename R::wire_type::storage));

    Bucketed() = default;
    explicit Bucketed(R inner) : inner_(static_cast<R&&>(inner)) {}

    [[nodiscard]] static std::string name() {
        return "Bucketed<" + reducer_name<R>() + ", " + std::to_string(BucketBytes) + ">";
    }
    void reserve(Placement placement, std::int64_t elements) {
        inner_.reserve(placement, std::min(elements, bucket_elements));
    }
    ReduceReport all_reduce(Transport auto& link, std::span<float> bucket) {
        ReduceReport sum;
        while (!bucket.empty() && sum.complete()) {
            const auto part =
                bucket.first(std::min(bucket.size(), static_cast<std::size_t>(bucket_elements)));
            const ReduceReport done = inner_.all_reduce(link, part);
            sum = {done.delivery, sum.bytes_sent + done.bytes_sent, sum.steps + done.steps};
            bucket = bucket.subspan(part.size());
        }
        return sum;
    }
    std::span<float> state() { return inner_.state(); }

private:
    R inner_;
};

}  // namespace gx
