// Arithmetic that several optimizers share: which roles an option includes, and integer powers.
#pragma once

#include <cstdint>  // int64_t
#include <vector>   // decays

#include <gx/model/graph.hpp>  // Graph, ParameterRole

namespace gx::detail::optimizer {

/// Whether a rule for weights extends to `role`: biases, and gamma and beta of batch norm, on
/// request.
[[nodiscard]] constexpr bool includes(ParameterRole role, bool batch_norm, bool bias) {
    switch (role) {
        case ParameterRole::weight: return true;
        case ParameterRole::bias: return bias;
        case ParameterRole::gamma:
        case ParameterRole::beta: break;
    }
    return batch_norm;
}

/// Weight decay of each parameter. Options: weight_decay, decay_batch_norm, decay_bias.
template <class Options>
[[nodiscard]] std::vector<float> decays_of(const Graph& graph, const Options& o) {
    std::vector<float> decays;
    for (const Parameter& p : graph.parameters)
        decays.push_back(includes(p.role, o.decay_batch_norm, o.decay_bias) ? o.weight_decay
                                                                            : 0.0f);
    return decays;
}

/// base^exponent by repeated squaring: equal bits with every mathematical library.
/// Errors: within 2^-51 * exponent of itself. An exponent below 0 gives 1.
[[nodiscard]] constexpr double power(double base, std::int64_t exponent) {
    double result = 1;
    for (; exponent > 0; exponent /= 2, base *= base)
        if (exponent % 2 != 0) result *= base;
    return result;
}

}  // namespace gx::detail::optimizer
