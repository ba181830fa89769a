// Updates of parameters, and exact squared norms.
#include <gx/cuda/kernels.hpp>

#include <algorithm>  // min
#include <bit>        // bit_cast
#include <cmath>      // sqrt

#include <gx/core/contract.hpp>    // GX_EXPECT
#include <gx/cuda/kernel.hpp>      // GX_KERNEL, launch
#include <gx/optimizer/roles.hpp>  // power
#include <gx/optimizer/rules.hpp>  // SgdRule, AdamRule, LarsRule

namespace gx::cuda {
namespace {

using gx::detail::optimizer::AdamRule;
using gx::detail::optimizer::LarsRule;
using gx::detail::optimizer::power;
using gx::detail::optimizer::SgdRule;

constexpr int exponents = 254;  // of finite numbers
constexpr int lowest_bit = -298, top_word = norm_words - 2, bad_word = norm_words - 1;

/// Of the update after `updates` others.
GX_DEVICE UpdateStep step_after(std::int64_t updates, float rate, float loss_scale,
                                const UpdateStart& start, bool applied) {
    return {.rate = rate,
            .unscale = 1.0f / loss_scale,
            .correction1 = static_cast<float>(1 - power(double{start.beta1}, updates + 1)),
            .correction2 = static_cast<float>(1 - power(double{start.beta2}, updates + 1)),
            .applied = applied,
            .first = updates == 0};
}
GX_KERNEL begin_update_kernel(DeviceSpan<const bool> applied, DeviceSpan<const float> loss_scale,
                              DeviceSpan<const float> rate, UpdateStart start,
                              DeviceSpan<std::int64_t> updates, DeviceSpan<UpdateStep> step) {
    step[0] = step_after(updates[0], rate[0], loss_scale[0], start, applied[0]);
    if (applied[0] || start.counts_skipped) updates[0] = updates[0] + 1;
}
GX_KERNEL preview_update_kernel(DeviceSpan<const float> loss_scale, UpdateStart start,
                                DeviceSpan<const std::int64_t> updates,
                                DeviceSpan<UpdateStep> step) {
    step[0] = step_after(updates[0], 0, loss_scale[0], start, true);
}

template <bool nesterov, bool rate_in_velocity>
GX_KERNEL sgd_kernel(DeviceSpan<const UpdatePiece> pieces, DeviceSpan<const float> decays,
                     DeviceSpan<const UpdateStep> step, SgdRule of_all, DeviceSpan<float> w,
                     DeviceSpan<const float> g, DeviceSpan<float> v) {
    if (step[0].applied == 0) return;
    of_all.rate = step[0].rate;
    of_all.unscale = step[0].unscale;
    for (std::int64_t p = blockIdx.x; p < pieces.size; p += gridDim.x) {
        const UpdatePiece piece = pieces[p];
        auto rule = of_all;
        rule.decay = decays[piece.parameter];
        for (std::int64_t i = threadIdx.x; i < piece.count; i += blockDim.x) {
            const std::int64_t at = piece.offset + i;
            rule.update<nesterov, rate_in_velocity>(w[at], g[at], v[at]);
        }
    }
}

GX_DEVICE void begin(AdamRule& rule, const UpdateStep& step) {
    rule.rate = step.rate;
    rule.unscale = step.unscale;
    rule.correction1 = step.correction1;
    rule.correction2 = step.correction2;
}
/// rates: of each parameter; none: that of the step.
template <bool coupled, bool has_rates>
GX_KERNEL adam_kernel(DeviceSpan<const UpdatePiece> pieces, DeviceSpan<const float> rates,
                      DeviceSpan<const float> decays, DeviceSpan<const UpdateStep> step,
                      AdamRule of_all, DeviceSpan<float> w, DeviceSpan<const float> g,
                      DeviceSpan<float> m, DeviceSpan<float> v) {
    if (step[0].applied == 0) return;
    begin(of_all, step[0]);
    for (std::int64_t p = blockIdx.x; p < pieces.size; p += gridDim.x) {
        const UpdatePiece piece = pieces[p];
        auto rule = of_all;
        rule.decay = decays[piece.parameter];
        if constexpr (has_rates) rule.rate = rates[piece.parameter];
        for (std::int64_t i = threadIdx.x; i < piece.count; i += blockDim.x) {
            const std::int64_t at = piece.offset + i;
            const float square = rule.moments<coupled>(w[at], g[at], m[at], v[at]);
            rule.move<coupled>(w[at], m[at], __fsqrt_rn(square));
        }
    }
}

GX_KERNEL lars_kernel(DeviceSpan<const UpdatePiece> pieces, DeviceSpan<const float> rates,
                      DeviceSpan<const float> decays, DeviceSpan<const UpdateStep> step,
                      LarsRule of_all, DeviceSpan<float> w, DeviceSpan<const float> g,
                      DeviceSpan<float> v) {
    if (step[0].applied == 0) return;
    of_all.unscale = step[0].unscale;
    for (std::int64_t p = blockIdx.x; p < pieces.size; p += gridDim.x) {
        const UpdatePiece piece = pieces[p];
        auto rule = of_all;
        rule.decay = decays[piece.parameter];
        rule.rate = rates[piece.parameter];
        for (std::int64_t i = threadIdx.x; i < piece.count; i += blockDim.x) {
            const std::int64_t at = piece.offset + i;
            rule.update(w[at], g[at], v[at]);
        }
    }
}

GX_KERNEL begin_average_kernel(DeviceSpan<const UpdatePiece> pieces,
                               DeviceSpan<const UpdateStep> step, DeviceSpan<const float> w,
                               DeviceSpan<float> average) {
    if (step[0].applied == 0 || step[0].first == 0) return;
    for (std::int64_t p = blockIdx.x; p < pieces.size; p += gridDim.x) {
        const UpdatePiece piece = pieces[p];
        for (std::int64_t i = threadIdx.x; i < piece.count; i += blockDim.x)
            average[piece.offset + i] = w[piece.offset + i];
    }
}
GX_KERNEL move_average_kernel(DeviceSpan<const UpdatePiece> pieces,
                              DeviceSpan<const UpdateStep> step, float decay,
                              DeviceSpan<const float> w, DeviceSpan<float> average) {
    if (step[0].applied == 0) return;
    const float weight = 1 - decay;
    for (std::int64_t p = blockIdx.x; p < pieces.size; p += gridDim.x) {
        const UpdatePiece piece = pieces[p];
        for (std::int64_t i = threadIdx.x; i < piece.count; i += blockDim.x) {
            const std::int64_t at = piece.offset + i;
            const float kept = decay * average[at], added = weight * w[at];
            average[at] = kept + added;
        }
    }
}

/// Adds the squares of value(i), for each element i of the pieces, as SquaredSum::add does: sums by
/// exponent, which 64 bits hold for a piece, then words of 32 bits.
/// `one`: to the words of one sum.
template <bool one = false, class Value>
GX_DEVICE void add_squares(DeviceSpan<const UpdatePiece> pieces, const Value& value,
                           DeviceSpan<unsigned long long> words) {
    GX_SHARED(unsigned long long, sums, exponents + 1);  // the last: how many are not finite
    for (std::int64_t p = blockIdx.x; p < pieces.size; p += gridDim.x) {
        for (unsigned e = threadIdx.x; e <= exponents; e += blockDim.x) sums[e] = 0;
        GX_SYNC_BLOCK();
        const UpdatePiece piece = pieces[p];
        for (std::int64_t i = threadIdx.x; i < piece.count; i += blockDim.x) {
            const auto bits = std::bit_cast<std::uint32_t>(value(piece.offset + i));
            const std::uint32_t biased = bits >> 23 & 0xffu, fraction = bits & 0x7fffffu;
            const unsigned long long m = biased == 0 ? fraction : fraction | 0x800000u;
            if (m == 0) continue;
            const unsigned e = biased == 0 ? 0 : biased - 1;
            atomicAdd(&sums[e], e == exponents ? 1ull : m * m);
        }
        GX_SYNC_BLOCK();
        const std::int64_t to = one ? 0 : std::int64_t{piece.parameter} * norm_words;
        for (unsigned e = threadIdx.x; e <= exponents; e += blockDim.x) {
            const unsigned long long part = sums[e];
            if (part == 0) continue;
            if (e == exponents) {
                atomicAdd(&words[to + bad_word], part);
                continue;
            }
            const unsigned word = 2 * e / 32, shift = 2 * e % 32;
            const unsigned long long low = part << shift;
            atomicAdd(&words[to + word], low & 0xffffffffu);
            atomicAdd(&words[to + word + 1], low >> 32);
            if (shift != 0 && part >> (64 - shift) != 0)
                atomicAdd(&words[to + word + 2], part >> (64 - shift));
        }
        GX_SYNC_BLOCK();
    }
}
struct ElementOf {
    DeviceSpan<const float> values;
    GX_DEVICE float operator()(std::int64_t i) const { return values[i]; }
};
GX_KERNEL squared_norms_kernel(DeviceSpan<const UpdatePiece> pieces, DeviceSpan<const float> values,
                               DeviceSpan<unsigned long long> words) {
    add_squares(pieces, ElementOf{values}, words);
}
GX_KERNEL squared_sum_kernel(DeviceSpan<const UpdatePiece> pieces, DeviceSpan<const float> values,
                             DeviceSpan<unsigned long long> words) {
    add_squares<true>(pieces, ElementOf{values}, words);
}
/// Lamb's update of an element, which the step will make.
struct UpdateOf {
    AdamRule rule;
    DeviceSpan<const float> w, g, m, v;
    GX_DEVICE float operator()(std::int64_t i) const {
        float first = m[i], second = v[i];
        const float square = rule.moments(w[i], g[i], first, second);
        return rule.direction(w[i], first, __fsqrt_rn(square));
    }
};
/// Spans are arguments of their own, so that the runtime's double knows what the kernel reads.
GX_KERNEL squared_updates_kernel(DeviceSpan<const UpdatePiece> pieces,
                                 DeviceSpan<const UpdateStep> step, AdamRule rule,
                                 DeviceSpan<const float> w, DeviceSpan<const float> g,
                                 DeviceSpan<const float> m, DeviceSpan<const float> v,
                                 DeviceSpan<unsigned long long> words) {
    if (step[0].applied == 0) return;
    begin(rule, step[0]);
    add_squares(pieces, UpdateOf{rule, w, g, m, v}, words);
}

/// SquaredSum::value.
GX_DEVICE double squared_norm(DeviceSpan<const unsigned long long> words, std::int64_t first) {
    if (words[first + bad_word] != 0) return std::bit_cast<double>(0x7ff8000000000000ull);
    unsigned long long carried[top_word + 1];
    unsigned long long carry = 0;
    for (int k = 0; k <= top_word; ++k) {
        const unsigned long long word = words[first + k] + carry;
        carry = k < top_word ? word >> 32 : 0;
        carried[k] = k < top_word ? word & 0xffffffffu : word;
    }
    double sum = 0;
    for (int k = top_word; k >= 0; --k) {
        const auto exponent = static_cast<std::uint64_t>(1023 + 32 * k + lowest_bit);
        sum += static_cast<double>(carried[k]) * std::bit_cast<double>(exponent << 52);
    }
    return sum;
}

/// Where word 0 of sum i lies: of words, sums of parameters come first; of norms, both of one.
GX_DEVICE std::int64_t in_words(std::int64_t i, std::int64_t parameters) {
    return ((i % 2) * parameters + i / 2) * norm_words;
}
GX_KERNEL store_norms_kernel(DeviceSpan<const Flag> adapts,
                             DeviceSpan<const unsigned long long> words, DeviceSpan<double> norms) {
    const std::int64_t sums = norms.size / norm_words;
    for (std::int64_t i = global_thread(); i < sums; i += all_threads()) {
        const bool one = adapts.size == 0;  // sum of every parameter
        if (!one && adapts[i / 2] == 0) continue;
        const std::int64_t to = i * norm_words, from = one ? to : in_words(i, sums / 2);
        unsigned long long carry = 0;
        for (int k = 0; k <= top_word; ++k) {
            const unsigned long long word = words[from + k] + carry;
            carry = k < top_word ? word >> 32 : 0;
            norms[to + k] += static_cast<double>(k < top_word ? word & 0xffffffffu : word);
        }
        norms[to + bad_word] += static_cast<double>(words[from + bad_word]);
    }
}
GX_KERNEL sum_norms_kernel(DeviceSpan<const double> all, DeviceSpan<double> sums) {
    for (std::int64_t i = global_thread(); i < sums.size; i += all_threads()) {
        double sum = 0;
        for (std::int64_t at = i; at < all.size; at += sums.size) sum += all[at];
        sums[i] = sum;
    }
}
GX_KERNEL load_norms_kernel(DeviceSpan<const double> norms, DeviceSpan<unsigned long long> words) {
    const std::int64_t sums = norms.size / norm_words;
    for (std::int64_t i = global_thread(); i < norms.size; i += all_threads())
        words[in_words(i / norm_words, sums / 2) + i % norm_words] =
            static_cast<unsigned long long>(norms[i]);
}

GX_KERNEL load_sum_kernel(DeviceSpan<const double> norms, DeviceSpan<unsigned long long> words) {
    for (std::int64_t k = global_thread(); k < words.size; k += all_threads()) {
        unsigned long long sum = 0;
        for (std::int64_t at = k; at < norms.size; at += words.size)
            sum += static_cast<unsigned long long>(norms[at]);
        words[k] = sum;
    }
}

GX_KERNEL lars_rates_kernel(DeviceSpan<const Flag> adapts,
                            DeviceSpan<const unsigned long long> parameter_words,
                            DeviceSpan<const unsigned long long> gradient_words,
                            DeviceSpan<const UpdateStep> update, LarsStep step,
                            DeviceSpan<float> rates, DeviceSpan<float> decays) {
    const float signed_unscale = update[0].unscale;
    for (std::int64_t p = global_thread(); p < adapts.size; p += all_threads()) {
        decays[p] = 0;
        rates[p] = update[0].rate;
        if (adapts[p] == 0) continue;
        decays[p] = step.weight_decay;
        const double unscale = signed_unscale < 0 ? -signed_unscale : signed_unscale;
        const double w = sqrt(squared_norm(parameter_words, p * norm_words));
        const double g = sqrt(squared_norm(gradient_words, p * norm_words)) * unscale;
        const double below = g + double{step.weight_decay} * w + double{step.epsilon};
        const double ratio = w == 0 || below == 0 ? 1 : double{step.trust} * w / below;
        rates[p] = static_cast<float>(double{update[0].rate} * ratio);
    }
}

GX_KERNEL lamb_rates_kernel(DeviceSpan<const Flag> adapts,
                            DeviceSpan<const unsigned long long> parameter_words,
                            DeviceSpan<const unsigned long long> update_words,
                            DeviceSpan<const UpdateStep> update, float weight_decay,
                            float max_ratio, DeviceSpan<float> rates, DeviceSpan<float> decays) {
    for (std::int64_t p = global_thread(); p < adapts.size; p += all_threads()) {
        decays[p] = 0;
        rates[p] = update[0].rate;
        if (adapts[p] == 0) continue;
        decays[p] = weight_decay;
        const double w = sqrt(squared_norm(parameter_words, p * norm_words));
        const double u = sqrt(squared_norm(update_words, p * norm_words));
        double ratio = w == 0 || u == 0 ? 1 : w / u;
        if (max_ratio > 0 && double{max_ratio} < ratio) ratio = double{max_ratio};
        rates[p] = static_cast<float>(double{update[0].rate} * ratio);
    }
}

GX_KERNEL clip_kernel(DeviceSpan<const unsigned long long> words, float max_norm,
                      DeviceSpan<UpdateStep> step) {
    const float signed_unscale = step[0].unscale;
    const double unscale = double{signed_unscale};
    const double norm = sqrt(squared_norm(words, 0)) * (unscale < 0 ? -unscale : unscale);
    const double factor = double{max_norm} / (norm + 1e-6);
    if (factor < 1) step[0].unscale = static_cast<float>(unscale * factor);
}

/// A block for each piece.
LaunchShape shape_of_pieces(cudaStream_t stream, std::int64_t pieces) {
    return {static_cast<unsigned>(std::min<std::int64_t>(pieces, grid_blocks_max)), grid_threads,
            stream};
}
void expect_lengths(const UpdateVectors& v, std::int64_t state) {
    GX_EXPECT(v.step.size == 1, "one step of an update");
    GX_EXPECT(v.parameters.size == v.gradients.size && state == v.parameters.size,
              "parameters, gradients and state have one length");
}

}  // namespace

std::vector<UpdatePiece> update_pieces(std::span<const ParameterSlice> slices) {
    std::vector<UpdatePiece> pieces;
    for (const ParameterSlice& s : slices) {
        for (std::size_t done = 0; done < s.count;) {
            const std::size_t count = std::min<std::size_t>(piece_elements_max, s.count - done);
            pieces.push_back({.offset = static_cast<std::int64_t>(s.offset + done),
                              .count = static_cast<std::int32_t>(count),
                              .parameter = s.parameter});
            done += count;
        }
    }
    return pieces;
}

void begin_update(cudaStream_t stream, DeviceSpan<const bool> applied,
                  DeviceSpan<const float> loss_scale, DeviceSpan<const float> rate,
                  const UpdateStart& start, DeviceSpan<std::int64_t> updates,
                  DeviceSpan<UpdateStep> step) {
    GX_EXPECT(applied.size == 1 && loss_scale.size == 1 && rate.size == 1 && updates.size == 1 &&
                  step.size == 1,
              "one decision, loss scale, rate, count and step of an update");
    launch("begin update", {1, 1, stream}, begin_update_kernel, applied, loss_scale, rate, start,
           updates, step);
}

void preview_update(cudaStream_t stream, DeviceSpan<const float> loss_scale,
                    const UpdateStart& start, DeviceSpan<const std::int64_t> updates,
                    DeviceSpan<UpdateStep> step) {
    GX_EXPECT(loss_scale.size == 1 && updates.size == 1 && step.size == 1,
              "one loss scale, count and step of an update");
    launch("preview update", {1, 1, stream}, preview_update_kernel, loss_scale, start, updates,
           step);
}

void sgd(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> momentum,
         DeviceSpan<const float> decays, const SgdStep& step) {
    expect_lengths(vectors, momentum.size);
    const auto run = [&](auto kernel) {
        launch("sgd", shape_of_pieces(stream, vectors.pieces.size), kernel, vectors.pieces, decays,
               vectors.step, SgdRule{1, 0, step.momentum, 0}, vectors.parameters, vectors.gradients,
               momentum);
    };
    if (step.rate_in_velocity)
        run(step.nesterov ? sgd_kernel<true, true> : sgd_kernel<false, true>);
    else run(step.nesterov ? sgd_kernel<true, false> : sgd_kernel<false, false>);
}

namespace {
/// Before the numbers of a step.
AdamRule rule_of(const AdamStep& step) {
    const auto rest = [](float beta) { return static_cast<float>(1 - double{beta}); };
    return {.unscale = 1,
            .rate = 0,
            .beta1 = step.beta1,
            .rest1 = rest(step.beta1),
            .beta2 = step.beta2,
            .rest2 = rest(step.beta2),
            .correction1 = 1,
            .correction2 = 1,
            .epsilon = step.epsilon};
}
void run_adam(const char* name, cudaStream_t stream, const UpdateVectors& vectors,
              DeviceSpan<float> m, DeviceSpan<float> v, DeviceSpan<const float> rates,
              DeviceSpan<const float> decays, const AdamStep& step, auto kernel) {
    expect_lengths(vectors, m.size);
    expect_lengths(vectors, v.size);
    launch(name, shape_of_pieces(stream, vectors.pieces.size), kernel, vectors.pieces, rates,
           decays, vectors.step, rule_of(step), vectors.parameters, vectors.gradients, m, v);
}
}  // namespace

void adam(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> m,
          DeviceSpan<float> v, DeviceSpan<const float> decays, const AdamStep& step) {
    run_adam("adam", stream, vectors, m, v, {}, decays, step, adam_kernel<true, false>);
}
void adamw(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> m,
           DeviceSpan<float> v, DeviceSpan<const float> decays, const AdamStep& step) {
    run_adam("adamw", stream, vectors, m, v, {}, decays, step, adam_kernel<false, false>);
}

void begin_average(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> average) {
    expect_lengths(vectors, average.size);
    launch("begin average", shape_of_pieces(stream, vectors.pieces.size), begin_average_kernel,
           vectors.pieces, vectors.step, DeviceSpan<const float>(vectors.parameters), average);
}
void move_average(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> average,
                  float decay) {
    expect_lengths(vectors, average.size);
    launch("move average", shape_of_pieces(stream, vectors.pieces.size), move_average_kernel,
           vectors.pieces, vectors.step, decay, DeviceSpan<const float>(vectors.parameters),
           average);
}

void add_squared_norms(cudaStream_t stream, DeviceSpan<const UpdatePiece> pieces,
                       DeviceSpan<const float> values, DeviceSpan<unsigned long long> words) {
    launch("squared norms", shape_of_pieces(stream, pieces.size), squared_norms_kernel, pieces,
           values, words);
}

void add_squared_sum(cudaStream_t stream, DeviceSpan<const UpdatePiece> pieces,
                     DeviceSpan<const float> values, DeviceSpan<unsigned long long> words) {
    GX_EXPECT(words.size == norm_words, "the words of one sum");
    launch("squared sum", shape_of_pieces(stream, pieces.size), squared_sum_kernel, pieces, values,
           words);
}

void clip_step(cudaStream_t stream, DeviceSpan<const unsigned long long> words, float max_norm,
               DeviceSpan<UpdateStep> step) {
    GX_EXPECT(words.size == norm_words && step.size == 1, "one sum, and one step of an update");
    launch("clip", {1, 1, stream}, clip_kernel, words, max_norm, step);
}

void store_norms(cudaStream_t stream, DeviceSpan<const Flag> adapts,
                 DeviceSpan<const unsigned long long> words, DeviceSpan<double> norms) {
    GX_EXPECT(words.size == norms.size &&
                  (adapts.size == 0 || norms.size == 2 * norm_words * adapts.size),
              "two sums of each parameter, or one where none adapts");
    launch("store norms", grid_for(stream, norms.size / norm_words), store_norms_kernel, adapts,
           words, norms);
}
void sum_norms(cudaStream_t stream, DeviceSpan<const double> all, DeviceSpan<double> sums) {
    GX_EXPECT(sums.size == 0 || all.size % sums.size == 0, "as many norms of each rank");
    launch("sum norms", grid_for(stream, sums.size), sum_norms_kernel, all, sums);
}
void load_norms(cudaStream_t stream, DeviceSpan<const double> norms,
                DeviceSpan<unsigned long long> words) {
    GX_EXPECT(words.size == norms.size && norms.size % (2 * norm_words) == 0,
              "two sums of each parameter");
    launch("load norms", grid_for(stream, norms.size), load_norms_kernel, norms, words);
}

void load_sum(cudaStream_t stream, DeviceSpan<const double> norms,
              DeviceSpan<unsigned long long> words) {
    GX_EXPECT(words.size == norm_words && norms.size % norm_words == 0, "one sum of whole norms");
    launch("load sum", {1, 32, stream}, load_sum_kernel, norms, words);
}

void lars_rates(cudaStream_t stream, DeviceSpan<const Flag> adapts,
                DeviceSpan<const unsigned long long> parameter_words,
                DeviceSpan<const unsigned long long> gradient_words,
                DeviceSpan<const UpdateStep> update, const LarsStep& step, DeviceSpan<float> rates,
                DeviceSpan<float> decays) {
    GX_EXPECT(update.size == 1, "one step of an update");
    GX_EXPECT(rates.size == adapts.size && decays.size == adapts.size &&
                  parameter_words.size == adapts.size * norm_words &&
                  gradient_words.size == adapts.size * norm_words,
              "norms, rates and decays of every parameter");
    launch("lars rates", grid_for(stream, adapts.size), lars_rates_kernel, adapts, parameter_words,
           gradient_words, update, step, rates, decays);
}

void lars(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> momentum,
          DeviceSpan<const float> rates, DeviceSpan<const float> decays, const LarsStep& step) {
    expect_lengths(vectors, momentum.size);
    launch("lars", shape_of_pieces(stream, vectors.pieces.size), lars_kernel, vectors.pieces, rates,
           decays, vectors.step, LarsRule{1, 0, step.momentum, 0}, vectors.parameters,
           vectors.gradients, momentum);
}

void add_squared_updates(cudaStream_t stream, const UpdateVectors& vectors,
                         DeviceSpan<const float> m, DeviceSpan<const float> v, const LambStep& step,
                         DeviceSpan<unsigned long long> words) {
    expect_lengths(vectors, m.size);
    expect_lengths(vectors, v.size);
    AdamRule rule = rule_of(step.moments);
    rule.decay = step.weight_decay;
    launch("squared updates", shape_of_pieces(stream, vectors.pieces.size), squared_updates_kernel,
           vectors.pieces, vectors.step, rule, DeviceSpan<const float>(vectors.parameters),
           vectors.gradients, m, v, words);
}

void lamb_rates(cudaStream_t stream, DeviceSpan<const Flag> adapts,
                DeviceSpan<const unsigned long long> parameter_words,
                DeviceSpan<const unsigned long long> update_words,
                DeviceSpan<const UpdateStep> update, const LambStep& step, DeviceSpan<float> rates,
                DeviceSpan<float> decays) {
    GX_EXPECT(update.size == 1, "one step of an update");
    GX_EXPECT(rates.size == adapts.size && decays.size == adapts.size &&
                  parameter_words.size == adapts.size * norm_words &&
                  update_words.size == adapts.size * norm_words,
              "norms, rates and decays of every parameter");
    launch("lamb rates", grid_for(stream, adapts.size), lamb_rates_kernel, adapts, parameter_words,
           update_words, update, step.weight_decay, step.max_ratio, rates, decays);
}

void lamb(cudaStream_t stream, const UpdateVectors& vectors, DeviceSpan<float> m,
          DeviceSpan<float> v, DeviceSpan<const float> rates, DeviceSpan<const float> decays,
          const LambStep& step) {
    run_adam("lamb", stream, vectors, m, v, rates, decays, step.moments, adam_kernel<false, true>);
}

}  // namespace gx::cuda
