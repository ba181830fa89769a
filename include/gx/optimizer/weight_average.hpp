// WeightAverage<O>: optimizer O, and an exponential moving average (EMA) of its weights.
#pragma once

#include <algorithm>    // copy
#include <array>        // names
#include <cstddef>      // size_t
#include <span>         // state
#include <string_view>  // names

#include <gx/core/cold.hpp>              // GX_COLD
#include <gx/core/contract.hpp>          // GX_EXPECT
#include <gx/core/findings.hpp>          // Findings
#include <gx/optimizer/concept.hpp>      // Optimizer
#include <gx/optimizer/update_args.hpp>  // UpdateArgs
#include <gx/optimizer/update_cost.hpp>  // update_cost_of

namespace gx {

/// Updates as O, and keeps the average that the Trainer tests in place of the weights:
///
///     average = w                                       before the first update
///     average = decay * average + (1 - decay) * w       after each
///
///     Trainer<ResNet50, Ring<fp16>, Warmup<Cosine>, WeightAverage<Sgd>>
///
/// Training goes on from the weights, to the bit as with O. The average is a vector of the
/// optimizer's state, 'average': checkpoints keep it, and resumed runs go on with it. Skipped steps
/// leave it. Predictor and read_weights() take it from a checkpoint. Batch norm's running
/// statistics are those of the weights, as in PyTorch's AveragedModel without update_bn.
///
/// Errors: options outside their ranges break the contract.
/// Order:  each product and the sum rounded to float, decay and 1 - decay too.
/// Cost:   O's, and 4 bytes read and 4 written an element, and one more float of state. Sharded
///         does not take it, nor does LocalSgd, whose ranks would each have their own.
/// Source: Polyak and Juditsky 1992; decay as in timm's ModelEmaV2 and Tan and Le 2019,
///         arXiv:1905.11946 (0.9999).
template <class O>
class WeightAverage {
    static_assert(explain_optimizer<O>());

public:
    struct Options {
        float decay = 0.999f;
        typename O::Options optimizer{};
    };

    static constexpr UpdateCost update_cost = [] {
        UpdateCost cost = update_cost_of<O>();
        cost.bytes_per_parameter += 8;
        ++cost.state_vectors;
        return cost;
    }();
    static constexpr auto state_names = [] {
        std::array<std::string_view, state_vectors<O>() + 1> names{};
        if constexpr (state_vectors<O>() > 0)
            std::copy(O::state_names.begin(), O::state_names.end(), names.begin());
        names.back() = "average";
        return names;
    }();
    static constexpr auto scalar_names = [] {
        if constexpr (KeepsScalars<O>) return O::scalar_names;
        else return std::array<std::string_view, 0>{};
    }();
    static constexpr std::size_t average_vector = state_vectors<O>();  ///< of state_names

    explicit WeightAverage(const Options& o) : decay_(o.decay), inner_(o.optimizer) {
        GX_EXPECT(check(o).empty(), check(o).first());
    }

    static constexpr Findings check(const Options& o) {
        Findings found;
        if constexpr (requires { O::check(o.optimizer); }) found = O::check(o.optimizer);
        return found.expect(o.decay >= 0 && o.decay < 1,
                            "WeightAverage: decay must be at least 0 and below 1");
    }

    GX_COLD void reserve(std::size_t elements, std::span<const ParameterSlice> slices,
                         const Graph& graph) {
        inner_.reserve(elements, slices, graph);
    }
    [[nodiscard]] float decay() const { return decay_; }
    [[nodiscard]] const O& optimizer() const { return inner_; }
    [[nodiscard]] std::span<double> scalars()
        requires KeepsScalars<O>
    {
        return inner_.scalars();
    }

    void update(const UpdateArgs& a) {
        GX_EXPECT(
            a.state.size() == state_names.size() * a.parameters.size(),
            "an optimizer's state has a vector as long as was reserved for each of its names");
        UpdateArgs inner = a;
        inner.state = a.state.first(average_vector * a.parameters.size());
        const std::span<float> average = a.state.last(a.parameters.size());
        const float weight = 1 - decay_;
        for (const ParameterSlice& s : a.slices)
            if (a.step == 0)
                std::copy_n(a.parameters.data() + s.offset, s.count, average.data() + s.offset);
        inner_.update(inner);
        for (const ParameterSlice& s : a.slices)
            for (std::size_t i = s.offset; i < s.offset + s.count; ++i) {
                const float kept = decay_ * average[i], added = weight * a.parameters[i];
                average[i] = kept + added;
            }
    }

private:
    float decay_;
    O inner_;
};

}  // namespace gx
