// launch: queue gx's kernels on a cuda::Queue, by kernels.hpp's functions of the same bits.
#pragma once

#include <concepts>     // same_as
#include <cstddef>      // byte
#include <cstdint>      // int64_t
#include <span>         // span
#include <type_traits>  // is_const_v, conditional_t, bool_constant

#include <gx/core/element.hpp>        // fp32, fp16, bf16
#include <gx/cuda/kernels.hpp>        // encode, accumulate
#include <gx/cuda/queue.hpp>          // Queue
#include <gx/cuda/update_tables.hpp>  // UpdateTables
#include <gx/memory/kernels.hpp>      // EncodeScaled, Accumulate
#include <gx/memory/queue.hpp>        // DeviceKernel, explain_argument

// Kernels of the trainer and of other plugins, which this one does not include.
namespace gx {
class Sgd;
class Adam;
class AdamW;
class Lamb;
class Lars;
template <class O>
class ClipByGlobalNorm;
template <class O>
class WeightAverage;
class StaticLossScale;
class DynamicLossScale;
}  // namespace gx
namespace gx::detail::trainer {
template <class Scale>
struct Decisions;
template <class D>
struct BeginStep;
template <class D>
struct Decide;
template <class O, class D, bool counts_skipped>
struct Update;
struct FindOverflow;
template <class D>
struct DecideTogether;
template <class O, class D>
struct AddNorms;
template <class Norms>
struct SumNorms;
template <class D>
struct RecordOutcome;
struct Outcome;
}  // namespace gx::detail::trainer
namespace gx::detail::top_k {
struct Choose;
struct AddUp;
struct Entry;
}  // namespace gx::detail::top_k
namespace gx::detail::quantized {
template <int Bits>
struct BlockCodec;
template <class Codec>
struct EncodeNumbered;
struct CountGradients;
template <class Codec>
struct Decode;
template <class Codec>
struct Average;
}  // namespace gx::detail::quantized

namespace gx::cuda {

// launch_on(queue, kernel, arguments...): a span for each view and for each scalar, values as they
// are. A program gives a kernel of its own such a function in the kernel's namespace. It launches
// by launch() of gx/cuda/kernel.hpp, and makes other calls by queued_call(), so that graphs hold
// them.

template <class E>
concept OnGpu = std::same_as<E, fp32> || std::same_as<E, fp16> || std::same_as<E, bf16>;

// ---- gx/memory/kernels.hpp ---------------------------------------------------------------------

template <OnGpu E>
void launch_on(Queue& q, kernels::EncodeScaled<E> k, DeviceSpan<const float> from,
               DeviceSpan<typename E::storage> to) {
    encode_scaled<E>(q.stream(), from, k.factor, to);
}
template <OnGpu E>
void launch_on(Queue& q, kernels::DecodeScaled<E> k, DeviceSpan<const typename E::storage> from,
               DeviceSpan<float> to) {
    decode_scaled<E>(q.stream(), from, k.factor, to);
}
inline void launch_on(Queue& q, kernels::Scale k, DeviceSpan<float> values) {
    scale(q.stream(), values, k.factor);
}
template <OnGpu E>
void launch_on(Queue& q, kernels::Accumulate<E>, DeviceSpan<const typename E::storage> received,
               DeviceSpan<typename E::storage> mine) {
    accumulate<E>(q.stream(), received, mine);
}
template <OnGpu E>
void launch_on(Queue& q, kernels::Decode<E>, DeviceSpan<const typename E::storage> from,
               DeviceSpan<float> to) {
    decode<E>(q.stream(), from, to);
}
template <OnGpu E>
void launch_on(Queue& q, kernels::DecodeAdd<E>, DeviceSpan<const typename E::storage> received,
               DeviceSpan<float> sum) {
    decode_add<E>(q.stream(), received, sum);
}
template <class T>
void launch_on(Queue& q, kernels::CopyValues<T>, DeviceSpan<const T> from, DeviceSpan<T> to) {
    copy_bytes(q.stream(), from.data, from.size * std::int64_t{sizeof(T)}, to.data,
               to.size * std::int64_t{sizeof(T)});
}
inline void launch_on(Queue& q, kernels::Fill<float> k, DeviceSpan<float> to) {
    fill(q.stream(), to, k.value);
}
inline void launch_on(Queue& q, kernels::SwapIf, DeviceSpan<const Flag> condition,
                      DeviceSpan<float> a, DeviceSpan<float> b) {
    swap_if(q.stream(), condition, a, b);
}

// ---- gx/trainer/rank/decisions.hpp -------------------------------------------------------------

/// Loss scales whose decisions are compiled for GPUs.
template <class S>
concept ScaleOnGpu = std::same_as<S, StaticLossScale> || std::same_as<S, DynamicLossScale>;

template <ScaleOnGpu S>
using DecisionsOf = gx::detail::trainer::Decisions<S>;

template <ScaleOnGpu S>
void launch_on(Queue& q, const gx::detail::trainer::BeginStep<DecisionsOf<S>>& k,
               DeviceSpan<DecisionsOf<S>> decisions, DeviceSpan<float> scale) {
    begin_step(q.stream(), k.ranks, k.of_all, decisions, scale);
}
template <ScaleOnGpu S>
void launch_on(Queue& q, const gx::detail::trainer::Decide<DecisionsOf<S>>&,
               DeviceSpan<const float> mean, DeviceSpan<DecisionsOf<S>> decisions,
               DeviceSpan<Flag> applied) {
    all_finite(q.stream(), mean, q.scratch().subspan(0, reduction_blocks), applied);
    decide(q.stream(), decisions, applied);
}
template <std::same_as<gx::detail::trainer::FindOverflow> K>
void launch_on(Queue& q, const K&, DeviceSpan<const float> part, DeviceSpan<float> against) {
    find_overflow(q.stream(), part, q.scratch().subspan(0, reduction_blocks), against);
}
template <ScaleOnGpu S>
void launch_on(Queue& q, const gx::detail::trainer::DecideTogether<DecisionsOf<S>>&,
               DeviceSpan<const float> against, DeviceSpan<DecisionsOf<S>> decisions,
               DeviceSpan<Flag> applied) {
    is_zero(q.stream(), against, applied);
    decide(q.stream(), decisions, applied);
}
template <ScaleOnGpu S>
void launch_on(Queue& q, const gx::detail::trainer::RecordOutcome<DecisionsOf<S>>&,
               DeviceSpan<const DecisionsOf<S>> decisions, DeviceSpan<const float> scale,
               DeviceSpan<const ForwardReport> report,
               DeviceSpan<gx::detail::trainer::Outcome> out) {
    record_outcome(q.stream(), decisions, scale, report, out);
}

template <class O, class D, bool counts_skipped>
using UpdateBy = gx::detail::trainer::Update<O, D, counts_skipped>;

template <class O>
concept ElementwiseOnGpu = std::same_as<O, Sgd> || std::same_as<O, Adam> || std::same_as<O, AdamW>;
template <class O>
concept HasTrustRatio = std::same_as<O, Lars> || std::same_as<O, Lamb>;

/// What the first update copies to the device.
template <class O>
void prepare_tables(Queue& q, const O& optimizer, std::span<const ParameterSlice> slices) {
    if constexpr (HasTrustRatio<O>) q.update_tables().prepare_norms(q, slices, optimizer.adapts());
    else q.update_tables().prepare(q, slices, optimizer.decays());
}
template <class O>
[[nodiscard]] UpdateStart start_of(const O& optimizer) {
    const auto& o = optimizer.options();
    if constexpr (requires { o.correct_bias; })
        if (!o.correct_bias) return {};
    if constexpr (requires { o.beta1; }) return {.beta1 = o.beta1, .beta2 = o.beta2};
    return {};
}
template <class D, bool counts_skipped>
void begin_update(Queue& q, UpdateStart start, DeviceSpan<D> decisions,
                  DeviceSpan<const float> loss_scale, DeviceSpan<const float> rate) {
    D* const d = decisions.data;
    start.counts_skipped = counts_skipped;
    begin_update(q.stream(), DeviceSpan<const bool>{&d->applied, 1}, loss_scale, rate, start,
                 DeviceSpan<std::int64_t>{&d->updates, 1}, q.update_tables().step());
}

/// Words of the norms of parameters, and of their gradients (Lars) or updates (Lamb).
struct NormWords {
    DeviceSpan<unsigned long long> all, of_parameters, of_moves;
};
inline NormWords norm_words_of(UpdateTables& tables) {
    const auto all = tables.words();
    return {all, all.subspan(0, all.size / 2), all.subspan(all.size / 2, all.size / 2)};
}
template <class O>
[[nodiscard]] AdamStep adam_step_of(const O& optimizer) {
    const auto& o = optimizer.options();
    return {.beta1 = o.beta1, .beta2 = o.beta2, .epsilon = o.epsilon};
}
template <std::same_as<Lars> O>
[[nodiscard]] LarsStep step_of(const O& optimizer) {
    const auto& o = optimizer.options();
    return {.momentum = o.momentum,
            .weight_decay = o.weight_decay,
            .trust = o.trust,
            .epsilon = o.epsilon};
}
template <std::same_as<Lamb> O>
[[nodiscard]] LambStep step_of(const O& optimizer) {
    const auto& o = optimizer.options();
    return {.moments = adam_step_of(optimizer),
            .weight_decay = o.weight_decay,
            .max_ratio = o.max_ratio};
}
/// Squared norms of what the pieces hold, of the step that has begun.
template <HasTrustRatio O>
void find_norms(Queue& q, const O& optimizer, const UpdateVectors& v,
                [[maybe_unused]] DeviceSpan<const float> state) {
    const NormWords words = norm_words_of(q.update_tables());
    const std::int64_t n = v.gradients.size;
    fill(q.stream(), words.all, 0ull);
    add_squared_norms(q.stream(), v.pieces, v.parameters, words.of_parameters);
    if constexpr (std::same_as<O, Lars>)
        add_squared_norms(q.stream(), v.pieces, v.gradients, words.of_moves);
    else
        add_squared_updates(q.stream(), v, state.subspan(0, n), state.subspan(n, n),
                            step_of(optimizer), words.of_moves);
}
/// The update that has begun, by the norms that the tables hold.
template <HasTrustRatio O>
void update_by_norms(Queue& q, const O& optimizer, const UpdateVectors& v,
                     DeviceSpan<float> state) {
    UpdateTables& tables = q.update_tables();
    const NormWords words = norm_words_of(tables);
    const auto step = step_of(optimizer);
    const std::int64_t n = v.gradients.size;
    if constexpr (std::same_as<O, Lars>) {
        lars_rates(q.stream(), tables.adapts(), words.of_parameters, words.of_moves, v.step, step,
                   tables.rates(), tables.decays());
        lars(q.stream(), v, state, tables.rates(), tables.decays(), step);
    } else {
        lamb_rates(q.stream(), tables.adapts(), words.of_parameters, words.of_moves, v.step, step,
                   tables.rates(), tables.decays());
        lamb(q.stream(), v, state.subspan(0, n), state.subspan(n, n), tables.rates(),
             tables.decays(), step);
    }
}
/// The update that has begun.
template <class O>
void apply(Queue& q, const O& optimizer, const UpdateVectors& v, DeviceSpan<float> state) {
    const auto decays = q.update_tables().decays();
    const std::int64_t n = v.gradients.size;
    if constexpr (HasTrustRatio<O>) {
        find_norms(q, optimizer, v, state);
        update_by_norms(q, optimizer, v, state);
    } else if constexpr (std::same_as<O, Sgd>) {
        const auto& o = optimizer.options();
        sgd(q.stream(), v, state, decays,
            {.momentum = o.momentum,
             .nesterov = o.nesterov,
             .rate_in_velocity = o.rate_in_velocity});
    } else {
        const auto update = std::same_as<O, Adam> ? adam : adamw;
        update(q.stream(), v, state.subspan(0, n), state.subspan(n, n), decays,
               adam_step_of(optimizer));
    }
}

/// Bounds the update that has begun by the norm of all gradients, whose words are in the tables.
template <class O>
void clip(Queue& q, const ClipByGlobalNorm<O>& optimizer) {
    UpdateTables& tables = q.update_tables();
    clip_step(q.stream(), tables.sum(), optimizer.max_norm(), tables.step());
}
template <class O>
void apply(Queue& q, const ClipByGlobalNorm<O>& optimizer, const UpdateVectors& v,
           DeviceSpan<float> state) {
    UpdateTables& tables = q.update_tables();
    tables.prepare_sums(q, 1);
    fill(q.stream(), tables.sum(), 0ull);
    add_squared_sum(q.stream(), v.pieces, v.gradients, tables.sum());
    clip(q, optimizer);
    apply(q, optimizer.optimizer(), v, state);
}
template <class O>
void apply(Queue& q, const WeightAverage<O>& optimizer, const UpdateVectors& v,
           DeviceSpan<float> state) {
    const std::int64_t n = v.gradients.size, others = state.size - n;
    const auto average = state.subspan(others, n);
    begin_average(q.stream(), v, average);
    apply(q, optimizer.optimizer(), v, state.subspan(0, others));
    move_average(q.stream(), v, average, optimizer.decay());
}

template <class O>
struct IsOnGpu : std::bool_constant<ElementwiseOnGpu<O> || HasTrustRatio<O>> {};
template <class O>
struct IsOnGpu<ClipByGlobalNorm<O>> : IsOnGpu<O> {};
template <class O>
struct IsOnGpu<WeightAverage<O>> : IsOnGpu<O> {};
template <class O>
concept OptimizerOnGpu = IsOnGpu<O>::value;

/// The optimizer inside of ClipByGlobalNorm and WeightAverage.
template <OptimizerOnGpu O>
[[nodiscard]] const auto& rule_in(const O& optimizer) {
    if constexpr (requires { optimizer.optimizer(); }) return rule_in(optimizer.optimizer());
    else return optimizer;
}
/// What comes before apply().
template <class O, class D, bool counts_skipped>
void begin(Queue& q, const UpdateBy<O, D, counts_skipped>& k, DeviceSpan<const float> loss_scale,
           DeviceSpan<const float> rate, DeviceSpan<D> decisions) {
    const auto& rule = rule_in(*k.optimizer);
    prepare_tables(q, rule, {k.slices, k.slice_count});
    begin_update<D, counts_skipped>(q, start_of(rule), decisions, loss_scale, rate);
}

template <OptimizerOnGpu O, class D, bool counts_skipped>
void launch_on(Queue& q, const UpdateBy<O, D, counts_skipped>& k, DeviceSpan<float> parameters,
               DeviceSpan<const float> mean, DeviceSpan<const float> loss_scale,
               DeviceSpan<const float> rate, DeviceSpan<float> state, DeviceSpan<D> decisions) {
    begin(q, k, loss_scale, rate, decisions);
    UpdateTables& tables = q.update_tables();
    apply(q, *k.optimizer, {tables.pieces(), tables.step(), parameters, mean}, state);
}

// Norms that several ranks add up: SquaredSums of each parameter, one after the other.

template <class Norms>
concept OfSquaredSums =
    requires(Norms n) { n.gradient.words(); } || requires(Norms n) { n.parameter.words(); };

template <class Norms>
[[nodiscard]] auto sums_in(DeviceSpan<Norms> norms) {
    using Word = std::conditional_t<std::is_const_v<Norms>, const double, double>;
    static_assert(sizeof(Norms) % (norm_words * sizeof(double)) == 0);
    return DeviceSpan<Word>{reinterpret_cast<Word*>(norms.data),
                            norms.size * std::int64_t{sizeof(Norms) / sizeof(double)}};
}
template <OfSquaredSums Norms>
void launch_on(Queue& q, const kernels::Fill<Norms>&, DeviceSpan<Norms> to) {  // with zeros
    fill(q.stream(), sums_in(to), 0.0);
}
template <HasTrustRatio O, class D, class Norms>
void launch_on(Queue& q, const gx::detail::trainer::AddNorms<O, D>& k, DeviceSpan<float> parameters,
               DeviceSpan<const float> mean, DeviceSpan<const float> loss_scale,
               DeviceSpan<float> state, DeviceSpan<const D> decisions, DeviceSpan<Norms> norms) {
    if (k.slice_count == 0) return;
    UpdateTables& tables = q.update_tables();
    prepare_tables(q, *k.optimizer, {k.slices, k.slice_count});
    if constexpr (std::same_as<O, Lamb>)
        preview_update(q.stream(), loss_scale, start_of(*k.optimizer),
                       {&decisions.data->updates, 1}, tables.step());
    find_norms(q, *k.optimizer, {tables.pieces(), tables.step(), parameters, mean}, state);
    store_norms(q.stream(), tables.adapts(), tables.words(), sums_in(norms));
}
template <OfSquaredSums Norms>
void launch_on(Queue& q, const gx::detail::trainer::SumNorms<Norms>&, DeviceSpan<const Norms> all,
               DeviceSpan<Norms> sums) {
    sum_norms(q.stream(), sums_in(all), sums_in(sums));
}
template <HasTrustRatio O, class D, bool counts_skipped, class Norms>
void launch_on(Queue& q, const UpdateBy<O, D, counts_skipped>& k, DeviceSpan<float> parameters,
               DeviceSpan<const float> mean, DeviceSpan<const float> loss_scale,
               DeviceSpan<const float> rate, DeviceSpan<float> state, DeviceSpan<D> decisions,
               DeviceSpan<const Norms> norms) {
    begin(q, k, loss_scale, rate, decisions);
    UpdateTables& tables = q.update_tables();
    load_norms(q.stream(), sums_in(norms), tables.words());
    update_by_norms(q, *k.optimizer, {tables.pieces(), tables.step(), parameters, mean}, state);
}

template <ElementwiseOnGpu O, class D, class Norms>
void launch_on(Queue& q, const gx::detail::trainer::AddNorms<ClipByGlobalNorm<O>, D>& k,
               DeviceSpan<float>, DeviceSpan<const float> mean, DeviceSpan<const float>,
               DeviceSpan<float>, DeviceSpan<const D>, DeviceSpan<Norms> norms) {
    if (k.slice_count == 0) return;
    UpdateTables& tables = q.update_tables();
    prepare_tables(q, k.optimizer->optimizer(), {k.slices, k.slice_count});
    tables.prepare_sums(q, norms.size);
    const auto words = tables.sums().subspan(0, norms.size * norm_words);
    fill(q.stream(), words, 0ull);
    add_squared_norms(q.stream(), tables.pieces(), mean, words);
    store_norms(q.stream(), {}, words, sums_in(norms));
}
template <ElementwiseOnGpu O, class D, bool counts_skipped, class Norms>
void launch_on(Queue& q, const UpdateBy<ClipByGlobalNorm<O>, D, counts_skipped>& k,
               DeviceSpan<float> parameters, DeviceSpan<const float> mean,
               DeviceSpan<const float> loss_scale, DeviceSpan<const float> rate,
               DeviceSpan<float> state, DeviceSpan<D> decisions, DeviceSpan<const Norms> norms) {
    begin(q, k, loss_scale, rate, decisions);
    UpdateTables& tables = q.update_tables();
    tables.prepare_sums(q, 1);
    load_sum(q.stream(), sums_in(norms), tables.sum());
    clip(q, *k.optimizer);
    apply(q, k.optimizer->optimizer(), {tables.pieces(), tables.step(), parameters, mean}, state);
}

// ---- plugins/top_k -----------------------------------------------------------------------------

template <std::same_as<gx::detail::top_k::Choose> K, std::same_as<gx::detail::top_k::Entry> Entry>
void launch_on(Queue& q, const K&, DeviceSpan<const float> loss_scale,
               DeviceSpan<const float> values, DeviceSpan<const float> before,
               DeviceSpan<float> after, DeviceSpan<std::uint32_t>, DeviceSpan<Entry> mine) {
    static_assert(sizeof(Entry) == sizeof(IndexedValue));
    choose_largest(q.stream(), loss_scale, values, before, after, q.scratch(),
                   {reinterpret_cast<IndexedValue*>(mine.data), mine.size});
}
template <std::same_as<gx::detail::top_k::AddUp> K, std::same_as<gx::detail::top_k::Entry> Entry>
void launch_on(Queue& q, const K& k, DeviceSpan<const float> loss_scale,
               DeviceSpan<const Entry> all, DeviceSpan<float> bucket) {
    add_indexed(q.stream(), static_cast<int>(k.ranks), loss_scale,
                {reinterpret_cast<const IndexedValue*>(all.data), all.size}, q.scratch(), bucket);
}

// ---- plugins/quantized -------------------------------------------------------------------------

template <int Bits>
using CodecOf = gx::detail::quantized::BlockCodec<Bits>;

template <int Bits>
void launch_on(Queue& q, const gx::detail::quantized::EncodeNumbered<CodecOf<Bits>>& k,
               DeviceSpan<const std::uint64_t> gradient, DeviceSpan<const float> values,
               DeviceSpan<std::byte> out) {
    using Codec = CodecOf<Bits>;
    quantize<Bits>(q.stream(), gradient, values, k.offset,
                   {Codec::stream(k.seed), Codec::substream(k.rank, k.phase)}, out);
}
template <std::same_as<gx::detail::quantized::CountGradients> K>
void launch_on(Queue& q, const K& k, DeviceSpan<std::uint64_t> number) {
    count_gradients(q.stream(), number, k.more);
}
template <int Bits>
void launch_on(Queue& q, const gx::detail::quantized::Decode<CodecOf<Bits>>&,
               DeviceSpan<const std::byte> message, DeviceSpan<float> values) {
    dequantize<Bits>(q.stream(), message, values);
}
template <int Bits>
void launch_on(Queue& q, const gx::detail::quantized::Average<CodecOf<Bits>>& k,
               DeviceSpan<const std::byte> messages, DeviceSpan<float> chunk) {
    average_quantized<Bits>(q.stream(), messages, static_cast<std::int64_t>(k.longest), k.ranks,
                            chunk);
}

// ---- launch ------------------------------------------------------------------------------------

/// A kernel of gx, queued. Errors: gx::Error where CUDA refuses it; other lengths than the kernel
/// asks for break the contract.
template <DeviceKernel K, class... Arguments>
void launch(Queue& queue, const K& kernel, Arguments... arguments) {
    static_assert((... && explain_argument<Arguments, GpuMemory>()));
    static_assert(
        requires { launch_on(queue, kernel, GpuMemory::open(arguments)...); },
        "gx: this DeviceKernel has no CUDA kernel. gx's optimizers, "
        "loss scales StaticLossScale and DynamicLossScale, reducers and elements have "
        "theirs. Fix: use one of these, or give the kernel 'void "
        "launch_on(gx::cuda::Queue&, const Kernel&, gx::cuda::DeviceSpan<...>...)' in "
        "its namespace, which queues a CUDA kernel with the same bits.");
    launch_on(queue, kernel, GpuMemory::open(arguments)...);
}

}  // namespace gx::cuda
