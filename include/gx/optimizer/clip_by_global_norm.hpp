// ClipByGlobalNorm<O>: optimizer O on gradients of which the norm has a bound.
#pragma once

#include <algorithm>    // min
#include <array>        // names
#include <cmath>        // sqrt, abs
#include <span>         // norms
#include <string_view>  // names

#include <gx/core/cold.hpp>              // GX_COLD
#include <gx/core/contract.hpp>          // GX_EXPECT
#include <gx/core/findings.hpp>          // Findings
#include <gx/optimizer/concept.hpp>      // Optimizer
#include <gx/optimizer/squared_sum.hpp>  // SquaredSum
#include <gx/optimizer/update_cost.hpp>  // update_cost_of

namespace gx {

/// Multiplies the gradients of all parameters by one factor where their norm is above max_norm:
///
///     factor = min(1, max_norm / (||all gradients|| * |unscale| + 1e-6))
///     O with gradient * unscale * factor
///
///     Trainer<ResNet50, Bucketed<Ring<fp16>>, Warmup<Cosine>, ClipByGlobalNorm<AdamW>>
///
/// The norm is that of the mean over all ranks, since optimizers are given means. It is an exact
/// sum (SquaredSum), so layout, padding and shards change no bit.
///
/// Errors: options outside their ranges break the contract.
/// Order:  the factor in double; unscale * factor rounded to float, by which O multiplies.
/// Cost:   O's, and 4 bytes read an element. A part of the parameters (Sharded) can be updated
///         where O is elementwise.
/// Source: Pascanu, Mikolov and Bengio 2013, arXiv:1211.5063, algorithm 1; 1e-6 as
///         torch.nn.utils.clip_grad_norm_.
template <class O>
class ClipByGlobalNorm {
    static_assert(explain_optimizer<O>());

public:
    struct Options {
        float max_norm = 1;
        typename O::Options optimizer{};
    };
    /// Squared norm of one parameter's gradient, or of a part of it.
    struct Norms {
        SquaredSum gradient{};
        void add(const Norms& part) { gradient.add(part.gradient); }
    };

    static constexpr UpdateCost update_cost = [] {
        UpdateCost cost = update_cost_of<O>();
        cost.bytes_per_parameter += 4;
        return cost;
    }();

    static constexpr auto state_names = [] {
        if constexpr (state_vectors<O>() > 0) return O::state_names;
        else return std::array<std::string_view, 0>{};
    }();
    static constexpr auto scalar_names = [] {
        if constexpr (KeepsScalars<O>) return O::scalar_names;
        else return std::array<std::string_view, 0>{};
    }();
    /// Of O, if it AveragesWeights; else none.
    static constexpr std::size_t average_vector = [] {
        if constexpr (AveragesWeights<O>) return O::average_vector;
        else return ~std::size_t{0};
    }();

    explicit ClipByGlobalNorm(const Options& o) : max_norm_(o.max_norm), inner_(o.optimizer) {
        GX_EXPECT(check(o).empty(), check(o).first());
    }

    static constexpr Findings check(const Options& o) {
        Findings found;
        if constexpr (requires { O::check(o.optimizer); }) found = O::check(o.optimizer);
        return found.expect(o.max_norm > 0 && o.max_norm < 1e30f,
                            "ClipByGlobalNorm: max_norm must be above 0 and below 1e30");
    }

    GX_COLD void reserve(std::size_t elements, std::span<const ParameterSlice> slices,
                         const Graph& graph) {
        parameters_ = graph.parameters.size();
        inner_.reserve(elements, slices, graph);
    }

    [[nodiscard]] float max_norm() const { return max_norm_; }
    [[nodiscard]] const O& optimizer() const { return inner_; }
    [[nodiscard]] std::span<double> scalars()
        requires KeepsScalars<O>
    {
        return inner_.scalars();
    }

    void update(const UpdateArgs& a) {
        SquaredSum all;
        for (const ParameterSlice& s : a.slices) all.add(a.gradients.subspan(s.offset, s.count));
        inner_.update(clipped(a, all));
    }

    /// Adds the squares of the gradients in `a.slices` to the norms of their parameters. `norms`
    /// has one entry for each parameter of the graph.
    void add_norms(const UpdateArgs& a, std::span<Norms> norms) const
        requires Elementwise<O>
    {
        GX_EXPECT(norms.size() == parameters_, "norms of every parameter of the graph");
        for (const ParameterSlice& s : a.slices)
            norms[static_cast<std::size_t>(s.parameter)].gradient.add(
                a.gradients.subspan(s.offset, s.count));
    }
    /// The update, given the norms of whole parameters.
    void update_with(const UpdateArgs& a, std::span<const Norms> norms)
        requires Elementwise<O>
    {
        GX_EXPECT(norms.size() == parameters_, "norms of every parameter of the graph");
        SquaredSum all;
        for (const Norms& n : norms) all.add(n.gradient);
        inner_.update(clipped(a, all));
    }

    /// What gradients are multiplied by, given the sum of their squares.
    [[nodiscard]] double factor(const SquaredSum& all, float unscale) const {
        const double norm = std::sqrt(all.value()) * double{std::abs(unscale)};
        return std::min(1.0, double{max_norm_} / (norm + 1e-6));
    }

private:
    [[nodiscard]] UpdateArgs clipped(UpdateArgs a, const SquaredSum& all) const {
        a.unscale = static_cast<float>(double{a.unscale} * factor(all, a.unscale));
        return a;
    }

    float max_norm_;
    O inner_;
    std::size_t parameters_ = 0;
};

}  // namespace gx
