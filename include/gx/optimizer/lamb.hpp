// Lamb: layer-wise adaptive moments, AdamW with a rate for each parameter tensor.
#pragma once

#include <array>        // names
#include <span>         // norms
#include <string_view>  // names
#include <vector>       // norms

#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/core/findings.hpp>          // Findings
#include <gx/optimizer/concept.hpp>      // ParameterSlice, Graph
#include <gx/optimizer/squared_sum.hpp>  // SquaredSum
#include <gx/optimizer/update_args.hpp>  // UpdateArgs

namespace gx {

/// For every parameter tensor:
///
///     g = gradient * unscale
///     m = beta1 * m + (1 - beta1) * g
///     v = beta2 * v + (1 - beta2) * g * g
///     u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay * w
///     w = w - rate * ratio * u       ratio = ||w|| / ||u||, at most max_ratio
///
/// m and v are 0 before the first update, and t is step + 1. ||.|| is the square root of the sum of
/// squares over the tensor. ratio is 1 where ||w|| or ||u|| is 0. Biases and batch norm's gamma and
/// beta have ratio 1 and no weight decay, unless `adapt_bias` and `adapt_batch_norm` include them.
/// Without `correct_bias` the moments are not divided.
///
/// Norms are exact sums (SquaredSum) of floats, rounded once, so that the device's layout and the
/// number of slices change no bit; parts of tensors on several ranks add up as those of Lars do.
///
/// Units:  rate as the Scheduler returns it; unscale is 1 / loss scale.
/// Errors: lengths, slices and counts of norms other than reserved, or options outside their
///         ranges, break the contract.
/// Order:  u element by element in float, each operation rounded on its own; ratios in double,
///         rate * ratio rounded to float (-ffp-contract=off where the target fuses).
/// Cost:   two passes, in which u is computed twice and not stored: 16 bytes read, then 16 read and
///         12 written an element; two floats of state an element, 304 bytes a tensor.
/// Source: You et al. 2020, arXiv:1904.00962, algorithm 2 with phi(z) = z; exclusions as in its
///         appendix and in MLPerf's BERT reference. What others do otherwise: no division of the
///         moments in the algorithm's first version (correct_bias = false); timm and NVIDIA's
///         FusedLAMB first divide all gradients by max(1, ||all gradients|| / max_norm), here
///         ClipByGlobalNorm<Lamb>; timm bounds the ratio by 1 on request (max_ratio = 1), and has
///         ratio 1 where weight_decay is 0 unless always_adapt is set.
class Lamb {
public:
    struct Options {
        float beta1 = 0.9f;
        float beta2 = 0.999f;
        float epsilon = 1e-6f;
        float weight_decay = 0.01f;
        float max_ratio = 0;  ///< 0: no bound
        bool correct_bias = true;
        bool adapt_batch_norm = false;
        bool adapt_bias = false;
    };
    /// Squared norms of one parameter and of its update u, or of a part of both.
    struct Norms {
        SquaredSum parameter{}, update{};
        /// Adds those of another part.
        void add(const Norms& part) {
            parameter.add(part.parameter);
            update.add(part.update);
        }
    };

    static constexpr UpdateCost update_cost{.bytes_per_parameter = 44, .state_vectors = 2};
    static constexpr std::array<std::string_view, 2> state_names{"m", "v"};

    GX_DECL explicit Lamb(Options o);

    static constexpr Findings check(const Options& o) {
        return Findings{}
            .expect(o.beta1 >= 0 && o.beta1 < 1, "Lamb: beta1 must be at least 0 and below 1")
            .expect(o.beta2 >= 0 && o.beta2 < 1, "Lamb: beta2 must be at least 0 and below 1")
            .expect(o.epsilon > 0 && o.epsilon < 1,
                    "Lamb: epsilon must be above 0 and below 1; padding would divide 0 by 0")
            .expect(o.weight_decay >= 0 && o.weight_decay < 1,
                    "Lamb: weight_decay must be at least 0 and below 1")
            .expect(o.max_ratio >= 0 && o.max_ratio <= 1e6f,
                    "Lamb: max_ratio must be at least 0, which means no bound, and at most 1e6");
    }

    GX_DECL void reserve(std::size_t elements, std::span<const ParameterSlice> slices,
                         const Graph& graph);

    /// What kernels of a device need of it: its options, and whether each parameter has a trust
    /// ratio.
    [[nodiscard]] const Options& options() const { return options_; }
    [[nodiscard]] std::span<const char> adapts() const { return adapts_; }

    void update(const UpdateArgs& a) {
        norms_.assign(norms_.size(), Norms{});
        add_norms(a, norms_);
        update_with(a, norms_);
    }

    /// Adds the squares of the elements in `a.slices`, and of their updates, to the norms of their
    /// parameters; a parameter that the trust ratio excludes has none. `norms` has one entry for
    /// each parameter of the graph.
    GX_DECL void add_norms(const UpdateArgs& a, std::span<Norms> norms) const;

    /// The update, given the norms of whole parameters.
    GX_DECL void update_with(const UpdateArgs& a, std::span<const Norms> norms);

    /// The trust ratio of a parameter that has it, given its norms.
    [[nodiscard]] GX_DECL double ratio(const Norms& norms) const;

private:
    Options options_;
    std::vector<char> adapts_;  // whether each parameter has a trust ratio
    std::vector<Norms> norms_;  // of each parameter
    std::size_t elements_ = 0;
};
static_assert(explain_optimizer<Lamb>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/optimizer/impl/lamb.ipp>
#endif
