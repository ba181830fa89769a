// Lars: layer-wise adaptive rate scaling, momentum with a rate for each parameter tensor.
#pragma once

#include <array>        // names
#include <span>         // span
#include <string_view>  // names
#include <vector>       // norms

#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/core/findings.hpp>          // Findings
#include <gx/optimizer/concept.hpp>      // ParameterSlice, Graph
#include <gx/optimizer/squared_sum.hpp>  // SquaredSum
#include <gx/optimizer/update_args.hpp>  // UpdateArgs, for_each_block

namespace gx {

/// For every parameter tensor, from v = 0 before the first update:
///
///     ratio = trust * ||w|| / (||gradient|| * unscale + weight_decay * ||w|| + epsilon)
///     v = momentum * v + rate * ratio * (gradient * unscale + weight_decay * w)
///     w = w - v
///
/// ||.|| is the square root of the sum of squares over the tensor. ratio is 1 where ||w|| or the
/// denominator is 0: a tensor that starts at zero moves. Biases and batch norm's gamma and beta
/// have ratio 1 and no weight decay, unless `adapt_bias` and `adapt_batch_norm` include them.
///
/// Norms are exact sums (SquaredSum), rounded once: the device's layout and padding, the vector
/// width and the number of slices change no bit. Where a tensor lies on several ranks, each adds
/// its slices with add_norms(), the words are summed over the ranks in any order, and update_with()
/// takes the norms of whole tensors.
///
/// Units:  rate as the Scheduler returns it; unscale is 1 / loss scale.
/// Errors: lengths, slices and counts of norms other than reserved, or options outside their
///         ranges, break the contract.
/// Order:  ratios in double, rate * ratio rounded to float; then element by element in float, each
///         product and sum rounded on its own (-ffp-contract=off where the target fuses).
/// Cost:   two passes: 8 bytes read an element for the norms, then 12 read and 8 written; one float
///         of state an element, 304 bytes a tensor.
/// Source: You, Gitman and Ginsburg 2017, arXiv:1708.03888, algorithm 1 and equation 6, with the
///         rate inside of v; exclusions and ratio 1 at zero as in MLPerf's ResNet-50 reference.
///         What timm does otherwise: the rate is outside of v, w = w - rate * v, which differs
///         where the rate changes; a gradient of zeros has ratio 1, and so has a tensor without
///         weight decay unless always_adapt is set; epsilon is 1e-8; on request the ratio is
///         min(ratio / rate, 1), the LARC of NVIDIA's apex.
class Lars {
public:
    struct Options {
        float momentum = 0.9f;
        float weight_decay = 1e-4f;
        float trust = 0.001f;
        float epsilon = 0;
        bool adapt_batch_norm = false;
        bool adapt_bias = false;
    };
    /// Squared norms of one parameter and of its gradient, or of a part of both.
    struct Norms {
        SquaredSum parameter{}, gradient{};
        /// Adds those of another part.
        void add(const Norms& part) {
            parameter.add(part.parameter);
            gradient.add(part.gradient);
        }
    };

    static constexpr UpdateCost update_cost{.bytes_per_parameter = 28, .state_vectors = 1};
    static constexpr std::array<std::string_view, 1> state_names{"momentum"};

    GX_DECL explicit Lars(Options o);

    static constexpr Findings check(const Options& o) {
        return Findings{}
            .expect(o.momentum >= 0 && o.momentum < 1,
                    "Lars: momentum must be at least 0 and below 1")
            .expect(o.weight_decay >= 0 && o.weight_decay < 1,
                    "Lars: weight_decay must be at least 0 and below 1")
            .expect(o.trust > 0 && o.trust <= 1, "Lars: trust must be above 0 and at most 1")
            .expect(o.epsilon >= 0 && o.epsilon < 1,
                    "Lars: epsilon must be at least 0 and below 1");
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

    /// Adds the squares of the elements in `a.slices` to the norms of their parameters; a parameter
    /// that the trust ratio excludes has none. `norms` has one entry for each parameter of the
    /// graph.
    GX_DECL void add_norms(const UpdateArgs& a, std::span<Norms> norms) const;

    /// The update, given the norms of whole parameters.
    GX_DECL void update_with(const UpdateArgs& a, std::span<const Norms> norms);

    /// The trust ratio of a parameter that has it, given its norms.
    [[nodiscard]] GX_DECL double ratio(const Norms& norms, float unscale) const;

private:
    Options options_;
    std::vector<char> adapts_;  // whether each parameter has a trust ratio
    std::vector<Norms> norms_;  // of each parameter
    std::size_t elements_ = 0;
};
static_assert(explain_optimizer<Lars>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/optimizer/impl/lars.ipp>
#endif
