// Adam: steps by the moments of each element's gradient; weight decay of the loss.
#pragma once

#include <array>        // names
#include <span>         // span
#include <string_view>  // names
#include <vector>       // decay

#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/core/findings.hpp>          // Findings
#include <gx/optimizer/concept.hpp>      // ParameterSlice, Graph
#include <gx/optimizer/update_args.hpp>  // UpdateArgs

namespace gx {

/// For every element, with m = v = 0 before the first update and t = step + 1:
///
///     g = gradient * unscale + decay * w
///     m = beta1 * m + (1 - beta1) * g
///     v = beta2 * v + (1 - beta2) * g * g
///     w = w - rate * m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
///
/// decay is weight_decay, or 0 where it does not apply: weights decay, biases and batch norm's
/// gamma and beta on request. It is the gradient of decay / 2 * w^2 in the loss, and goes through
/// both moments; AdamW keeps it out of them.
///
/// Units:  rate as the Scheduler returns it; unscale is 1 / loss scale.
/// Errors: lengths and slices other than reserved, or options outside their ranges, break the
///         contract.
/// Order:  element by element in float, each product, quotient and sum rounded on its own; the two
///         powers by repeated squaring in double, so bits depend on no mathematical library. Where
///         the target has fused multiply-add, build with -ffp-contract=off to keep them.
/// Cost:   one pass: 16 bytes read and 12 written an element; two floats of state an element.
/// Source: Kingma and Ba 2015, arXiv:1412.6980, algorithm 1; decay as in torch.optim.Adam.
class Adam {
public:
    struct Options {
        float beta1 = 0.9f;
        float beta2 = 0.999f;
        float epsilon = 1e-8f;
        float weight_decay = 0;
        bool decay_batch_norm = false;
        bool decay_bias = false;
    };

    static constexpr UpdateCost update_cost{.bytes_per_parameter = 28, .state_vectors = 2};
    static constexpr bool elementwise = true;
    static constexpr std::array<std::string_view, 2> state_names{"m", "v"};

    GX_DECL explicit Adam(Options o);

    static constexpr Findings check(const Options& o) {
        return Findings{}
            .expect(o.beta1 >= 0 && o.beta1 < 1, "Adam: beta1 must be at least 0 and below 1")
            .expect(o.beta2 >= 0 && o.beta2 < 1, "Adam: beta2 must be at least 0 and below 1")
            .expect(o.epsilon > 0 && o.epsilon < 1,
                    "Adam: epsilon must be above 0 and below 1; padding would divide 0 by 0")
            .expect(o.weight_decay >= 0 && o.weight_decay < 1,
                    "Adam: weight_decay must be at least 0 and below 1");
    }

    GX_DECL void reserve(std::size_t elements, std::span<const ParameterSlice> slices,
                         const Graph& graph);

    /// What kernels of a device need of it: its options, and the weight decay of each parameter.
    [[nodiscard]] const Options& options() const { return options_; }
    [[nodiscard]] std::span<const float> decays() const { return decay_; }

    GX_DECL void update(const UpdateArgs& a) const;

private:
    Options options_;
    std::vector<float> decay_;  // of each parameter
    std::size_t elements_ = 0;
};
static_assert(explain_optimizer<Adam>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/optimizer/impl/adam.ipp>
#endif
