// Choices of reducers that are no plan of collectives: TopK, Quantized<Bits>, LocalSgd<R, H>.
#pragma once

#include <algorithm>    // max, min
#include <cmath>        // ceil
#include <cstdint>      // int64_t
#include <span>         // a collective
#include <string>       // names
#include <string_view>  // wires

#include <fmt/core.h>  // names

#include <gx/collective/pairwise_all_to_all.hpp>  // PairwiseAllToAll
#include <gx/collective/ring_all_gather.hpp>      // RingAllGather
#include <gx/local_sgd/reducer.hpp>               // LocalSgd
#include <gx/quantized/reducer.hpp>               // Quantized
#include <gx/top_k/reducer.hpp>                   // TopK
#include <tools/plan/search.hpp>                  // ReducerChoice

namespace gx::tools::plan {

/// A, then B, over the same chunks.
template <Collective A, Collective B>
class InTurn {
public:
    constexpr explicit InTurn(int ranks) : a_(ranks), b_(ranks) {}
    [[nodiscard]] constexpr int ranks() const { return a_.ranks(); }
    [[nodiscard]] constexpr int chunks() const { return a_.chunks(); }
    [[nodiscard]] constexpr int steps() const { return a_.steps() + b_.steps(); }
    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        return step < a_.steps() ? a_.exchange(rank, step) : b_.exchange(rank, step - a_.steps());
    }

private:
    A a_;
    B b_;
};

/// A gradient's work in units of what is sent: `sent(count)` of a bucket of `count` elements.
/// Buckets become whole when those of the gradient do.
struct SentWork {
    sim::StepWork work{};
    std::int64_t bucket = 0;  ///< units of the longest one

    SentWork(const sim::StepWork& gradient, std::int64_t bucket_elements, auto sent)
        : work(gradient), bucket(sent(bucket_elements)) {
        const std::int64_t whole = gradient.elements / bucket_elements;
        work.elements = whole * bucket + sent(gradient.elements % bucket_elements);
        for (auto& r : work.ready)
            if (r.watermark > 0)
                r.watermark =
                    work.elements - (gradient.elements - r.watermark) / bucket_elements * bucket;
    }
};

/// Traffic of `bytes` over all elements, for each unit sent; rounded up.
[[nodiscard]] constexpr int per_unit(double bytes, std::int64_t units) {
    return units > 0 ? static_cast<int>(std::ceil(bytes / static_cast<double>(units))) : 0;
}

/// Elements of a bucket of so many bytes in fp32; 0: the whole gradient.
[[nodiscard]] constexpr std::int64_t bucket_of(const sim::StepWork& work, Bytes bucket) {
    return bucket.count > 0 ? std::clamp<std::int64_t>(bucket.count / 4, 1, work.elements)
                            : work.elements;
}

/// Step with one collective over what is sent, and the reducer's kernels around it.
template <Collective C>
[[nodiscard]] sim::StepTiming sent_time(const SentWork& sent, const sim::ClusterSpec& spec,
                                        int bytes_a_unit, KernelTraffic kernels,
                                        int more_launches = 0) {
    const C collective(spec.ranks());
    return sim::step_time(
        sent.work, std::span(&collective, 1),
        {0, sent.bucket, bytes_a_unit, {spec.ranks() > 1, kernels, false, more_launches}}, spec, 0,
        sim::Detail::collapsed, 0);
}
/// Messages of it, at most.
template <Collective C>
[[nodiscard]] double sent_messages(const sim::StepWork& work, const sim::ClusterSpec& spec,
                                   Bytes bucket) {
    const double gpus = spec.machine.gpus,
                 buckets = std::ceil(static_cast<double>(work.elements) /
                                     static_cast<double>(bucket_of(work, bucket)));
    return gpus * gpus * gpus / 20 + double(spec.ranks()) * C(spec.ranks()).steps() * buckets * 4;
}

/// TopK that sends `Permille` of each bucket: an all-gather of 8 bytes a value and rank. Its
/// kernels are charged, because no stack's costs have them: a selection (Choose) of 32 bytes a
/// value, and the sum of what all sent, 12 bytes a value and 16 an entry.
template <int Permille>
[[nodiscard]] ReducerChoice top_k_choice() {
    using C = collective::RingAllGather;
    const auto time = [](const sim::StepWork& work, const sim::ClusterSpec& spec, Bytes bucket) {
        const SentWork sent(work, bucket_of(work, bucket), [&](std::int64_t count) {
            return spec.ranks() *
                   static_cast<std::int64_t>(std::ceil(double(count) * Permille / 1e3));
        });
        const double values = static_cast<double>(work.elements);
        return sent_time<C>(sent, spec, 8,
                            {per_unit(32 * values, sent.work.elements),
                             per_unit(12 * values, sent.work.elements) + 16});
    };
    return {.name = fmt::format("TopK, {} %", Permille / 10.0),
            .wire = "fp32",
            .time = time,
            .messages = sent_messages<C>};
}

/// Quantized<Bits>: an all-to-all and an all-gather of a block of 4 + 32 Bits bytes for each 256
/// values. Its kernels are charged after the collectives or before, though one sum stands between:
/// quantise n chunks, 4 bytes read and a code written; average n messages of a chunk, quantise it
/// again, and decode all: n + 3 launches a bucket.
template <int Bits>
[[nodiscard]] ReducerChoice quantized_choice() {
    using C = InTurn<collective::PairwiseAllToAll, collective::RingAllGather>;
    const auto time = [](const sim::StepWork& work, const sim::ClusterSpec& spec, Bytes bucket) {
        const SentWork sent(work, bucket_of(work, bucket), [](std::int64_t count) {
            return (count + 255) / 256 * (4 + 32 * Bits);
        });
        const double values = static_cast<double>(work.elements), n = spec.ranks(),
                     code = Bits / 8.0;
        return sent_time<C>(
            sent, spec, 1,
            {per_unit((4 + code) * values, sent.work.elements),
             per_unit((code + 4 / n + (4 + code) / n + code + 4) * values, sent.work.elements)},
            spec.ranks() + 1);
    };
    return {.name = Quantized<Bits>::name(),
            .wire = fmt::format("int{}", Bits),
            .time = time,
            .messages = sent_messages<C>};
}

/// LocalSgd<R, H>: the computation alone, and after every H updates a mean of the parameters by R
/// that nothing hides, with R's casts.
template <class R, int H>
[[nodiscard]] ReducerChoice local_choice(std::string_view wire, sim::Algorithm algorithm) {
    const auto time = [](const sim::StepWork& work, const sim::ClusterSpec& spec, Bytes bucket) {
        const sim::StepWork mean{.elements = work.elements, .ready = {{Nanoseconds(0), 0}}};
        sim::StepTiming t =
            sim::step_time<R>(mean, spec, {.bucket_bytes = bucket.count, .worth_simulating = 0});
        const Nanoseconds each = t.step / H;
        t.forward = work.forward, t.backward = work.backward, t.update = work.update;
        t.exposed = t.communication = each;
        t.step = work.total() + each;
        t.floor = work.total();
        t.messages /= H;
        t.wire = {t.wire.count / H};
        t.dollars = spec.dollars(t.step);
        return t;
    };
    ReducerChoice c = reducer_choice<R>(wire, algorithm);
    c.name = LocalSgd<R, H>::name();
    c.time = time;
    return c;
}

}  // namespace gx::tools::plan
