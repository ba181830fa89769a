// Sgd: stochastic gradient descent with momentum, plain or Nesterov's, and weight decay.
#pragma once

#include <array>        // names
#include <span>         // span
#include <string_view>  // names
#include <vector>       // decay

#include <gx/core/contract.hpp>          // GX_EXPECT
#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/core/findings.hpp>          // Findings
#include <gx/optimizer/concept.hpp>      // ParameterSlice, Graph
#include <gx/optimizer/finite.hpp>       // all_finite
#include <gx/optimizer/update_args.hpp>  // UpdateArgs

namespace gx {

/// For every element, with v = 0 before the first update:
///
///     g = gradient * unscale + decay * w       decay = weight_decay, or 0 where it does not apply
///
///     v = momentum * v + g                                   gradients in v: PyTorch, MXNet
///     w = w - rate * (nesterov ? g + momentum * v : v)
///
///     v = momentum * v + rate * g                            rate_in_velocity: steps in v
///     w = w - (nesterov ? rate * g + momentum * v : v)
///
/// The two are equal while the rate stays as it is. When it changes, the first changes the steps
/// that v has gathered with it, which is the momentum correction of Goyal et al.; the second keeps
/// them.
/// `nesterov` is Nesterov's accelerated gradient (NAG), with w at the point looked ahead to: the
/// first is that of torch.optim.SGD and MXNet's NAG, the second that of Sutskever et al., as
/// Bengio et al. rewrite it, and of Caffe.
///
/// Weight decay applies to weights, and to biases and to batch norm's gamma and beta on request.
///
/// Units:  rate as the Scheduler returns it; unscale is 1 / loss scale.
/// Errors: lengths and slices other than reserved, or options outside their ranges, break the
///         contract.
/// Order:  element by element in float, each product and sum rounded on its own, so vector width
///         does not show. Where the target has fused multiply-add (-mfma, -march=native), build
///         with -ffp-contract=off to keep these bits; without such options nothing is fused.
/// Cost:   one pass: 12 bytes read and 8 written an element; one float of state an element.
/// Source: Goyal et al. 2017, arXiv:1706.02677, section 3, equations 10 (gradients in v) and 9
///         (steps in v); Sutskever et al. 2013, ICML, equations 1 to 4; Bengio et al. 2012,
///         arXiv:1212.0901, equations 6 and 7; decay of weights only as in Jia et al. 2018,
///         arXiv:1807.11205, section 3.2.
class Sgd {
public:
    struct Options {
        float momentum = 0.9f;
        float weight_decay = 1e-4f;
        bool nesterov = false;
        bool rate_in_velocity = false;
        bool decay_batch_norm = false;
        bool decay_bias = false;
    };

    static constexpr UpdateCost update_cost{.bytes_per_parameter = 20, .state_vectors = 1};
    static constexpr bool elementwise = true;
    static constexpr std::array<std::string_view, 1> state_names{"momentum"};

    explicit Sgd(Options o);

    static constexpr Findings check(const Options& o) {
        return Findings{}
            .expect(o.momentum >= 0 && o.momentum < 1,
                    "Sgd: momentum must be at least 0 and below 1")
            .expect(o.weight_decay >= 0 && o.weight_decay < 1,
                    "Sgd: weight_decay must be at least 0 and below 1")
            .expect(!o.nesterov || o.momentum > 0, "Sgd: nesterov needs a momentum above 0");
    }

    void reserve(std::size_t elements, std::span<const ParameterSlice> slices, const Graph& graph);

    /// What kernels of a device need of it: its options, and the weight decay of each parameter.
    [[nodiscard]] const Options& options() const { return options_; }
    [[nodiscard]] std::span<const float> decays() const { return decay_; }

    GX_DECL void update(const UpdateArgs& a) const;

private:
    Options options_;
    std::vector<float> decay_;  // of each parameter
    std::size_t elements_ = 0;
};
static_assert(explain_optimizer<Sgd>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/optimizer/impl/sgd.ipp>
#endif
