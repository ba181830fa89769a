// ParameterServer<E>: ranks serve parts of a bucket: sum them, send back the mean.
#pragma once

#include <string>  // name

#include <gx/core/contract.hpp>            // GX_EXPECT
#include <gx/core/element.hpp>             // fp32
#include <gx/core/findings.hpp>            // Findings
#include <gx/reducer/concept.hpp>          // ReduceReport, Bucket
#include <gx/reducer/rank_order_mean.hpp>  // RankOrderMean

namespace gx {

/// Mean over all ranks by synchronous parameter servers, which are the ranks themselves.
///
/// Wire, Order, Cost: RankOrderMean. With one server the bits are those of many.
/// Precision: what a rank contributes is rounded to E, its sum is made in float, and the mean is
///         rounded to E once. One rank: rounded to E once.
/// Errors: incomplete when a rank is missing; a bucket larger than reserved breaks the contract.
/// Source: Li et al. 2014, "Scaling distributed machine learning with the parameter server", OSDI;
///         Chen et al. 2015, "MXNet", arXiv:1512.01274, for synchronous servers beside workers.
template <class E = fp32>
class ParameterServer {
    static_assert(Element<E>,
                  "gx: the wire of a parameter server is not an Element: messages are made of "
                  "fp32, fp16 or bf16. Fix: name one, as in 'ParameterServer<gx::fp16>'.");

public:
    struct Options {
        int servers = 0;  ///< 0, or more than ranks: all ranks; 1: rank 0; else evenly spread
    };
    using wire_type = E;
    static constexpr int channels = 1, staleness = 0;
    static constexpr bool asynchronous = true;
    static constexpr bool repeats_work = true;

    ParameterServer() = default;
    explicit ParameterServer(const Options& o) : options_(o) {
        GX_EXPECT(check(o).empty(), "ParameterServer: options that its check() refuses");
    }
    static constexpr Findings check(const Options& o) {
        return Findings{}.expect(o.servers >= 0,
                                 "ParameterServer: servers must be at least 1, or 0 for all ranks");
    }
    [[nodiscard]] static std::string name() {
        return "ParameterServer<" + std::string(E::name) + ">";
    }

    void reserve(const ReducePlan& plan) { mean_.reserve(plan, options_.servers); }
    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        return mean_.all_reduce(link, bucket.values);
    }
    StateList state() { return {}; }

private:
    Options options_{};
    RankOrderMean<E> mean_;
};

}  // namespace gx
