// The run of reference/oracle/optimizer_cases.py: five tensors, 50 updates, and a harness for it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include <rapidcheck.h>

#include <gx/core/device.hpp>        // ParameterSlice
#include <gx/model/graph.hpp>        // Graph
#include <gx/optimizer/concept.hpp>  // Optimizer
#include <gx/reference/rounded.hpp>  // Rounded

namespace testing_support {

using Floats = std::vector<float>;

struct Tensor {
    gx::ParameterRole role;
    std::int64_t count;
};
inline const std::vector<Tensor> tensors{{gx::ParameterRole::weight, 96},
                                         {gx::ParameterRole::weight, 40},
                                         {gx::ParameterRole::bias, 8},
                                         {gx::ParameterRole::gamma, 4},
                                         {gx::ParameterRole::beta, 4}};
inline constexpr int steps_50 = 57;

inline float number(std::int64_t i, int stream) {
    return static_cast<float>((i * 37 + stream * 101 + 11) % 257 - 128) / 64;
}
inline float initial_50(int tensor, std::int64_t i) { return number(i, tensor); }
inline float gradient_50(int tensor, int step, std::int64_t i) {
    return number(i, 1000 + 7 * tensor + 19 * step);
}
inline bool skipped_50(int step) { return step % 8 == 5; }
inline float rate_50(int step, double peak) {
    return static_cast<float>(step < 29 ? peak : peak / 10);
}

inline gx::Graph graph_of(const std::vector<Tensor>& all) {
    gx::Graph graph;
    std::int64_t offset = 0;
    for (const Tensor& t : all) {
        graph.parameters.push_back({.role = t.role, .offset = offset, .count = t.count});
        offset += t.count;
    }
    return graph;
}

/// Where each element of each tensor lies in a device's flat vector of `elements`.
struct Layout {
    std::size_t elements = 0;
    std::vector<gx::ParameterSlice> slices{};
    std::vector<std::size_t> at{};  // of each element, tensor after tensor

    [[nodiscard]] Floats scattered(const Floats& canonical, float elsewhere) const {
        Floats out(elements, elsewhere);
        for (const gx::ParameterSlice& s : slices)  // padding is zero
            std::fill_n(out.begin() + std::ptrdiff_t(s.offset), s.count, 0.0f);
        for (std::size_t i = 0; i < at.size(); ++i) out[at[i]] = canonical[i];
        return out;
    }
    [[nodiscard]] Floats gathered(std::span<const float> mine) const {
        Floats out;
        for (const std::size_t i : at) out.push_back(mine[i]);
        return out;
    }
};
/// Tensor after tensor, one slice each.
inline Layout plain_layout(const gx::Graph& graph) {
    Layout layout{.elements = std::size_t(graph.parameter_elements())};
    for (const gx::Parameter& p : graph.parameters)
        layout.slices.push_back(
            {std::size_t(p.offset), std::size_t(p.count), int(layout.slices.size())});
    for (std::size_t i = 0; i < layout.elements; ++i) layout.at.push_back(i);
    return layout;
}

/// The same with 2 elements of padding behind each, and gaps of 3 around them.
inline Layout gapped_layout(const gx::Graph& graph) {
    Layout layout{.elements = 3};
    for (const gx::Parameter& p : graph.parameters) {
        const auto count = static_cast<std::size_t>(p.count);
        layout.slices.push_back({layout.elements, count + 2, int(layout.slices.size())});
        for (std::size_t i = 0; i < count; ++i) layout.at.push_back(layout.elements + i);
        layout.elements += count + 2 + 3;
    }
    return layout;
}

/// Slices cut at random between `shards` ranks.
inline std::vector<std::vector<gx::ParameterSlice>> shards_of(const Layout& layout, int shards) {
    std::vector<std::vector<gx::ParameterSlice>> out(std::size_t(shards),
                                                     std::vector<gx::ParameterSlice>{});
    for (gx::ParameterSlice s : layout.slices)
        while (s.count > 0) {
            const auto count = *rc::gen::inRange<std::size_t>(1, s.count + 1);
            out[*rc::gen::inRange<std::size_t>(0, out.size())].push_back(
                {s.offset, count, s.parameter});
            s.offset += count;
            s.count -= count;
        }
    return out;
}

/// Tensors in any order and cut anywhere, elements permuted, zeros behind the elements of a slice
/// and gaps between slices.
inline Layout any_layout(const gx::Graph& graph) {
    Layout layout{.at = std::vector<std::size_t>(std::size_t(graph.parameter_elements()))};
    struct Piece {
        int parameter;
        std::vector<std::size_t> elements;  // canonical
    };
    std::vector<Piece> pieces;
    const auto shuffle = [](auto& list) {
        for (std::size_t i = list.size(); i > 1; --i)
            std::swap(list[i - 1], list[*rc::gen::inRange<std::size_t>(0, i)]);
    };
    for (int p = 0; const gx::Parameter& q : graph.parameters) {
        std::vector<std::size_t> elements(static_cast<std::size_t>(q.count));
        std::iota(elements.begin(), elements.end(), static_cast<std::size_t>(q.offset));
        shuffle(elements);
        for (std::size_t from = 0; from < elements.size();) {
            const auto to = *rc::gen::inRange(from + 1, elements.size() + 1);
            pieces.push_back(
                {p,
                 {elements.begin() + std::ptrdiff_t(from), elements.begin() + std::ptrdiff_t(to)}});
            from = to;
        }
        ++p;
    }
    shuffle(pieces);
    for (const Piece& piece : pieces) {
        layout.elements += *rc::gen::inRange<std::size_t>(0, 5);  // a gap
        const std::size_t count = piece.elements.size() + *rc::gen::inRange<std::size_t>(0, 5);
        layout.slices.push_back({layout.elements, count, piece.parameter});
        std::size_t at = layout.elements;
        layout.elements += count;
        for (const std::size_t e : piece.elements) layout.at[e] = at++;
    }
    layout.elements += *rc::gen::inRange<std::size_t>(0, 5);
    return layout;
}

/// A rule under test, right or wrong, with its parameters and state.
template <class O>
struct Descent {
    Descent(typename O::Options o, const gx::Graph& graph, Layout where, float elsewhere = 0)
        : layout(std::move(where)),
          optimizer(o),
          w(layout.elements, elsewhere),
          vectors(gx::state_vectors<O>() * layout.elements),
          elsewhere_(elsewhere) {
        optimizer.reserve(layout.elements, layout.slices, graph);
    }
    void start(const Floats& canonical) { w = layout.scattered(canonical, elsewhere_); }
    void update(const Floats& gradient, float rate, float unscale, std::int64_t step) {
        const Floats g = layout.scattered(gradient, elsewhere_);
        optimizer.update(args(g, layout.slices, rate, unscale, step));
    }
    /// The update as ranks with a part of the slices each make it: the last first.
    void update_in_parts(const Floats& gradient,
                         const std::vector<std::vector<gx::ParameterSlice>>& shards, float rate,
                         std::int64_t step)
        requires gx::AddsNorms<O>
    {
        const Floats g = layout.scattered(gradient, elsewhere_);
        std::vector<typename O::Norms> all(tensors.size());
        for (auto shard = shards.rbegin(); shard != shards.rend(); ++shard) {
            if (shard->empty()) continue;
            std::vector<typename O::Norms> mine(all.size());
            optimizer.add_norms(args(g, *shard, rate, 1, step), mine);
            for (std::size_t p = 0; p < all.size(); ++p) all[p].add(mine[p]);
        }
        for (const auto& shard : shards)
            if (!shard.empty()) optimizer.update_with(args(g, shard, rate, 1, step), all);
    }
    [[nodiscard]] Floats parameters() const { return layout.gathered(w); }
    [[nodiscard]] Floats state() {
        Floats out;
        for (std::span<const float> s = vectors; !s.empty(); s = s.subspan(w.size()))
            for (const float x : layout.gathered(s.first(w.size()))) out.push_back(x);
        return out;
    }
    Layout layout;
    O optimizer;
    Floats w;
    Floats vectors;  ///< of its state

private:
    [[nodiscard]] gx::UpdateArgs args(const Floats& g,
                                      const std::vector<gx::ParameterSlice>& slices, float rate,
                                      float unscale, std::int64_t step) {
        return {.parameters = w,
                .gradients = g,
                .state = vectors,
                .slices = slices,
                .rate = rate,
                .unscale = unscale,
                .step = step};
    }
    float elsewhere_;
};

/// Calls f(tensor, element, flat index) for every element of the run.
template <class F>
void each_50(F&& f) {
    std::size_t flat = 0;
    for (int t = 0; t < std::ssize(tensors); ++t)
        for (std::int64_t i = 0; i < tensors[std::size_t(t)].count; ++i) f(t, i, flat++);
}
inline Floats start_50() {
    Floats out;
    each_50([&](int t, std::int64_t i, std::size_t) { out.push_back(initial_50(t, i)); });
    return out;
}
inline Floats gradients_50(int step, float scale) {
    Floats out;
    each_50([&](int t, std::int64_t i, std::size_t) {
        out.push_back(gradient_50(t, step, i) * scale);
    });
    return out;
}
/// Calls update(step, rate, updates before) for the 50 steps that are not skipped.
template <class F>
void follow_50(double peak, F&& update) {
    std::int64_t updates = 0;
    for (int step = 0; step < steps_50; ++step)
        if (!skipped_50(step)) update(step, rate_50(step, peak), updates++);
}

/// The first element outside of its bound, or -1.
inline std::ptrdiff_t outside(const Floats& mine,
                              const std::vector<gx::reference::Rounded>& bound) {
    for (std::size_t i = 0; i < mine.size(); ++i)
        if (!(std::abs(double{mine[i]} - bound[i].value) <= bound[i].error))
            return std::ptrdiff_t(i);
    return -1;
}
/// The largest distance of the values from what an oracle gave.
template <std::size_t N>
double distance(const std::vector<gx::reference::Rounded>& mine, const double (&theirs)[N]) {
    if (mine.size() != N) return std::numeric_limits<double>::infinity();
    double largest = 0;
    for (std::size_t i = 0; i < N; ++i)
        largest = std::max(largest, std::abs(mine[i].value - theirs[i]));
    return largest;
}

/// Whether updates by three ranks' parts have the bits of the whole.
template <class O>
void expect_parts_make_the_whole(const typename O::Options& o) {
    const gx::Graph graph = graph_of(tensors);
    const Layout layout = plain_layout(graph);
    Descent<O> whole(o, graph, layout), parts(o, graph, layout);
    whole.start(start_50());
    parts.start(start_50());
    const auto shards = shards_of(layout, 3);
    for (int step = 0; step < 3; ++step) {
        whole.update(gradients_50(step, 1), 0.5f, 1, step);
        parts.update_in_parts(gradients_50(step, 1), shards, 0.5f, step);
    }
    RC_ASSERT(parts.w == whole.w);
    RC_ASSERT(parts.state() == whole.state());
}

}  // namespace testing_support
