// Kernels of gx on a queue: launch() gives the bits of the host's kernels.
#include <gx/cuda/launch.hpp>

#include "device_memory.hpp"

#include <algorithm>  // equal
#include <bit>        // bit_cast
#include <cstdint>    // uint64_t
#include <cstring>    // memcmp
#include <memory>     // unique_ptr
#include <random>     // values
#include <vector>     // the host's memory

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/cuda/emulation/grid.hpp>   // seed
#include <gx/cuda_testing/runtime.hpp>  // reset, counters
#include <gx/model/graph.hpp>           // Graph
#include <gx/optimizer/adam.hpp>        // Adam
#include <gx/optimizer/adamw.hpp>       // AdamW
#include <gx/optimizer/clip_by_global_norm.hpp>
#include <gx/optimizer/lamb.hpp>  // Lamb
#include <gx/optimizer/lars.hpp>  // Lars
#include <gx/optimizer/sgd.hpp>   // Sgd
#include <gx/optimizer/weight_average.hpp>
#include <gx/quantized/reducer.hpp>   // Encode, Average, Decode
#include <gx/top_k/reducer.hpp>       // Choose, AddUp
#include <gx/trainer/loss_scale.hpp>  // DynamicLossScale
#include <gx/trainer/rank/decisions.hpp>
#include <gx/trainer/rank/summed_norms.hpp>

namespace {

using namespace gx;
using Memory = cuda::GpuMemory;
using cuda::Queue;

// ---- A kernel, on the host and on a queue ------------------------------------------------------

/// A vector on both sides.
template <class T>
struct Both {
    Both(Queue& q, std::vector<T> v)
        : queue(q), host(std::move(v)), device(&q.context().memory(), std::ssize(host), "values") {
        queue.copy_in(std::span<const T>(host), view(), {"in"});
    }
    [[nodiscard]] ViewIn<T, Memory> view() { return device.template view<Memory>(); }
    [[nodiscard]] ViewIn<const T, Memory> read() { return view(); }
    [[nodiscard]] std::vector<T> back() {
        std::vector<T> v(host.size());
        queue.copy_out(read(), std::span(v), {"out"});
        if (!queue.wait(queue.record()).complete()) throw Error("the queue stopped");
        return v;
    }
    [[nodiscard]] bool same() {
        const std::vector<T> there = back();
        return there.empty() ||
               std::memcmp(there.data(), host.data(), there.size() * sizeof(T)) == 0;
    }

    Queue& queue;
    std::vector<T> host;
    Buffer<T> device;
};
template <class T>
ScalarIn<T, Memory> scalar(Both<T>& b) {
    return {b.read()};
}

/// Checks `body(queue, random)` for drawn seeds of the grid and of the order of streams.
template <class F>
void check(F body) {
    EXPECT_TRUE(rc::check([&](std::uint64_t seed) {
        cuda_testing::reset({.seed = seed,
                             .progress = *rc::gen::element(cuda_testing::StreamProgress::late,
                                                           cuda_testing::StreamProgress::eager,
                                                           cuda_testing::StreamProgress::random)});
        cuda::emulation::seed(seed);
        std::mt19937_64 random(seed);
        {
            cuda::DeviceContext gpu(0);
            Queue queue(gpu, "compute", {.events = 32});
            body(queue, random);
        }
        cuda_testing::expect_clean();
    }));
}

/// Numbers of many magnitudes, many of them equal; some not finite where `wild`.
std::vector<float> numbers(std::mt19937_64& random, std::size_t count, bool wild = false) {
    std::vector<float> v(count);
    for (float& x : v) {
        const auto exponent = static_cast<int>(random() % 20);
        x = std::ldexp(static_cast<float>(static_cast<int>(random() % 17) - 8), 3 - exponent);
        if (wild && random() % 64 == 0)
            x = std::bit_cast<float>(0x7f800000u | static_cast<std::uint32_t>(random() % 5) << 20);
    }
    return v;
}
std::size_t drawn_count() {
    return *rc::gen::weightedOneOf<std::size_t>(
        {{1, rc::gen::element<std::size_t>(0, 1, 255, 256, 257, 1024, 1025, 3000)},
         {2, rc::gen::inRange<std::size_t>(0, 700)}});
}

// ---- gx/memory/kernels.hpp ---------------------------------------------------------------------

template <class E>
class LaunchedConversions : public ::testing::Test {};
using Elements = ::testing::Types<fp32, fp16, bf16>;
TYPED_TEST_SUITE(LaunchedConversions, Elements);

TYPED_TEST(LaunchedConversions, HaveTheBitsOfTheHost) {
    using E = TypeParam;
    using storage = typename E::storage;
    check([](Queue& q, std::mt19937_64& random) {
        const std::size_t n = drawn_count();
        const float factor = *rc::gen::element(1.0f, 0.5f, 1.0f / 3);
        Both<float> values(q, numbers(random, n, true));
        Both<storage> wire(q, std::vector<storage>(n)), other(q, std::vector<storage>(n));
        const auto on_both = [&](const auto& kernel, auto& from, auto& to) {
            launch(q, kernel, from.read(), to.view());
            kernel(from.host, to.host);
            RC_ASSERT(to.same());
        };
        on_both(kernels::EncodeScaled<E>{factor}, values, wire);
        on_both(kernels::CopyValues<storage>{}, wire, other);
        on_both(kernels::Accumulate<E>{}, wire, other);
        on_both(kernels::DecodeAdd<E>{}, other, values);
        on_both(kernels::DecodeScaled<E>{factor}, wire, values);
        on_both(kernels::Decode<E>{}, other, values);
        launch(q, kernels::Scale{factor}, values.view());
        kernels::Scale{factor}(values.host);
        RC_ASSERT(values.same());
    });
}

TEST(Vectors, AreFilledSwappedAndCopiedAsBytes) {
    check([](Queue& q, std::mt19937_64& random) {
        const std::size_t n = drawn_count();
        Both<float> a(q, numbers(random, n)), b(q, numbers(random, n)), c(q, numbers(random, n));
        Both<Flag> yes(q, {1}), no(q, {0});
        launch(q, kernels::Fill<float>{2}, c.view());
        RC_ASSERT(c.back() == std::vector<float>(n, 2.0f));
        launch(q, kernels::SwapIf{}, scalar(no), a.view(), b.view());
        RC_ASSERT(a.same() && b.same());
        launch(q, kernels::SwapIf{}, scalar(yes), a.view(), b.view());
        kernels::SwapIf{}(1, a.host, b.host);
        RC_ASSERT(a.same() && b.same());
        launch(q, kernels::CopyValues<std::byte>{}, bytes_of(a.view()),
               writable_bytes_of(c.view()));
        RC_ASSERT(c.back() == a.host);
    });
}

// ---- Decisions and updates ---------------------------------------------------------------------

template <class S>
using D = detail::trainer::Decisions<S>;

template <class S>
class Decisions : public ::testing::Test {};
using Scales = ::testing::Types<StaticLossScale, DynamicLossScale>;
TYPED_TEST_SUITE(Decisions, Scales);

/// Steps of a trainer, some of which overflow.
TYPED_TEST(Decisions, AreThoseOfTheHost) {
    using Of = D<TypeParam>;
    namespace trainer = detail::trainer;
    check([](Queue& q, std::mt19937_64& random) {
        typename TypeParam::Options o;
        if constexpr (requires { o.growth_interval; }) o = {.initial = 8, .growth_interval = 2};
        Both<Of> d(q, {Of{TypeParam(o)}});
        const std::size_t n = drawn_count();
        Both<float> scale(q, {0});
        Both<Flag> applied(q, {1});
        std::vector<ForwardReport> reports;  // of micro-batches
        for (std::size_t i = 1 + random() % 4; i > 0; --i)
            reports.push_back({0.1 * double(random() % 100), std::int64_t(random() % 9),
                               random() % 4 > 0, std::int64_t(random() % 9)});
        Both<ForwardReport> report(q, reports);
        Both<trainer::Outcome> outcome(q, std::vector<trainer::Outcome>(1));
        for (int step = 0; step < 6; ++step) {
            const trainer::BeginStep<Of> begin{2, 10};
            launch(q, begin, d.view(), scale.view());
            begin(d.host, scale.host);
            std::vector<float> values = numbers(random, n);
            if (n > 0 && random() % 3 == 0)
                values[random() % n] = std::numeric_limits<float>::infinity();
            Both<float> mean(q, values);
            launch(q, trainer::Decide<Of>{}, mean.read(), d.view(), applied.view());
            trainer::Decide<Of>{}(mean.host, d.host, applied.host);
            launch(q, trainer::RecordOutcome<Of>{}, d.read(), scalar(scale), report.read(),
                   outcome.view());
            trainer::RecordOutcome<Of>{}(d.host, scale.host[0], report.host, outcome.host);
            const trainer::Outcome there = outcome.back()[0], here = outcome.host[0];
            RC_ASSERT(scale.same() && applied.same());
            RC_ASSERT(there.loss_scale == here.loss_scale && there.applied == here.applied);
            RC_ASSERT(there.scale_of_step == here.scale_of_step && there.floor == here.floor);
            RC_ASSERT(there.skipped == here.skipped);
            RC_ASSERT(there.skips_in_a_row == here.skips_in_a_row);
            RC_ASSERT(there.report.loss_sum == here.report.loss_sum);
            RC_ASSERT(there.report.correct == here.report.correct);
            RC_ASSERT(there.report.finite == here.report.finite);
            RC_ASSERT(there.report.top5 == here.report.top5);
            RC_ASSERT(d.back()[0].factor == d.host[0].factor);
        }
    });
}

template <class O>
class Updates : public ::testing::Test {};
using Optimizers =
    ::testing::Types<Sgd, Adam, AdamW, Lars, Lamb, ClipByGlobalNorm<AdamW>, ClipByGlobalNorm<Lars>,
                     WeightAverage<ClipByGlobalNorm<AdamW>>, ClipByGlobalNorm<WeightAverage<Sgd>>>;
TYPED_TEST_SUITE(Updates, Optimizers);

template <class O, bool counts_skipped>
void check_updates() {
    using Of = D<DynamicLossScale>;
    check([](Queue& q, std::mt19937_64& random) {
        Graph graph;
        std::vector<ParameterSlice> slices;
        std::size_t n = 0;
        for (const ParameterRole role : {ParameterRole::weight, ParameterRole::bias}) {
            Parameter p;
            p.role = role;
            graph.parameters.push_back(p);
            const std::size_t count = random() % 400;
            slices.push_back({n, count, static_cast<int>(slices.size())});
            n += count + random() % 5;
        }
        O optimizer{typename O::Options{}};
        optimizer.reserve(n, slices, graph);
        Both<float> parameters(q, numbers(random, n));
        Both<float> state(q, std::vector<float>(state_vectors<O>() * n));
        Both<float> scale(q, {64}), rate(q, {0.1f});
        Both<Of> d(q, {Of{DynamicLossScale()}});
        Both<Flag> applied(q, {1});
        for (int step = 0; step < 4; ++step) {
            std::vector<float> values = numbers(random, n);
            if (n > 0 && random() % 3 == 0) values[0] = std::numeric_limits<float>::infinity();
            Both<float> mean(q, values);
            launch(q, detail::trainer::Decide<Of>{}, mean.read(), d.view(), applied.view());
            detail::trainer::Decide<Of>{}(mean.host, d.host, applied.host);
            const detail::trainer::Update<O, Of, counts_skipped> update{&optimizer, slices.data(),
                                                                        slices.size()};
            launch(q, update, parameters.view(), mean.read(), scalar(scale), scalar(rate),
                   state.view(), d.view());
            update(parameters.host, mean.host, scale.host[0], rate.host[0], state.host, d.host);
            RC_ASSERT(parameters.same() && state.same());
            RC_ASSERT(d.back()[0].updates == d.host[0].updates);
        }
    });
}
TYPED_TEST(Updates, HaveTheBitsOfTheHost) {
    check_updates<TypeParam, false>();
    check_updates<TypeParam, true>();
}

/// Votes of several ranks.
TEST(Shards, DecideAsTheHostDoes) {
    using Of = D<StaticLossScale>;
    namespace trainer = detail::trainer;
    check([](Queue& q, std::mt19937_64& random) {
        const std::size_t n = drawn_count();
        std::vector<float> values = numbers(random, n);
        if (n > 0 && random() % 2 == 0) values[n - 1] = std::numeric_limits<float>::infinity();
        Both<float> part(q, values), against(q, {0});
        Both<Of> d(q, {Of{StaticLossScale()}});
        Both<Flag> applied(q, {1});
        launch(q, trainer::FindOverflow{}, part.read(), against.view());
        trainer::FindOverflow{}(part.host, against.host);
        launch(q, trainer::DecideTogether<Of>{}, against.read(), d.view(), applied.view());
        trainer::DecideTogether<Of>{}(against.host, d.host, applied.host);
        RC_ASSERT(against.same() && applied.same());
    });
}
using Clipped = ClipByGlobalNorm<AdamW>;
const SquaredSum& of_parameter(const auto& n) { return n.parameter; }
const SquaredSum& of_parameter(const Clipped::Norms& n) { return n.gradient; }
const SquaredSum& of_move(const Clipped::Norms& n) { return n.gradient; }
const SquaredSum& of_move(const Lars::Norms& n) { return n.gradient; }
const SquaredSum& of_move(const Lamb::Norms& n) { return n.update; }

template <class O>
class Norms : public ::testing::Test {};
using WithNorms = ::testing::Types<Lars, Lamb, Clipped>;
TYPED_TEST_SUITE(Norms, WithNorms);

/// Norms of several ranks, and the update by them.
TYPED_TEST(Norms, AreThoseOfTheHost) {
    using O = TypeParam;
    using Of = D<StaticLossScale>;
    using NormsOf = typename O::Norms;
    namespace trainer = detail::trainer;
    check([](Queue& q, std::mt19937_64& random) {
        const std::size_t n = drawn_count();
        Graph graph;
        graph.parameters.resize(2);
        for (Parameter& p : graph.parameters) p.role = ParameterRole::weight;
        const std::vector<ParameterSlice> slices{{0, n / 3, 0}, {n / 3, n - n / 3, 1}};
        O optimizer{typename O::Options{}};
        optimizer.reserve(n, slices, graph);
        const int ranks = 1 + static_cast<int>(random() % 3);
        Both<float> loss_scale(q, {4}), rate(q, {0.1f});
        Of begun{StaticLossScale()};
        begun.updates = static_cast<std::int64_t>(random() % 5);
        begun.applied = random() % 2 == 0;  // the step before says nothing of this one
        Both<Of> d(q, {begun});
        Both<NormsOf> all(q, std::vector<NormsOf>(std::size_t(2 * ranks))),
            sums(q, std::vector<NormsOf>(2));
        const trainer::AddNorms<O, Of> add{&optimizer, slices.data(), slices.size()};
        std::vector<float> moments = numbers(random, state_vectors<O>() * n);
        for (float& x : moments) x = std::abs(x);
        Both<float> state(q, moments), parameters(q, numbers(random, n));
        for (int r = 0; r < ranks; ++r) {
            Both<float> mean(q, numbers(random, n));
            const auto mine = all.view().subspan(std::size_t(2 * r), 2);
            launch(q, kernels::Fill<NormsOf>{}, mine);
            launch(q, add, parameters.view(), mean.read(), scalar(loss_scale), state.view(),
                   d.read(), mine);
            add(parameters.host, mean.host, 4, state.host, d.host,
                std::span(all.host).subspan(std::size_t(2 * r), 2));
            RC_ASSERT(mean.same() && parameters.same() && state.same());
        }
        RC_ASSERT(d.back()[0].updates == begun.updates);
        launch(q, trainer::SumNorms<NormsOf>{}, all.read(), sums.view());
        trainer::SumNorms<NormsOf>{}(all.host, sums.host);
        const std::vector<NormsOf> there = sums.back();
        for (std::size_t p = 0; p < 2; ++p) {
            RC_ASSERT(of_parameter(there[p]) == of_parameter(sums.host[p]));
            RC_ASSERT(of_move(there[p]) == of_move(sums.host[p]));
        }
        const trainer::Update<O, Of> update{&optimizer, slices.data(), slices.size()};
        Both<float> mean(q, numbers(random, n));
        launch(q, update, parameters.view(), mean.read(), scalar(loss_scale), scalar(rate),
               state.view(), d.view(), sums.read());
        update(parameters.host, mean.host, 4, 0.1f, state.host, d.host,
               std::span<const NormsOf>(sums.host));
        RC_ASSERT(parameters.same() && state.same());
        RC_ASSERT(d.back()[0].updates == d.host[0].updates);
    });
}

// ---- TopK --------------------------------------------------------------------------------------

TEST(TopK, ChoosesAndAddsAsTheHostDoes) {
    using namespace detail::top_k;
    check([](Queue& q, std::mt19937_64& random) {
        const std::size_t n = drawn_count();
        const auto k = *rc::gen::inRange<std::size_t>(0, n + 1);
        const bool wild = *rc::gen::inRange(0, 4) == 0;
        Both<float> values(q, numbers(random, n, wild)), before(q, numbers(random, n)),
            after(q, std::vector<float>(n));
        Both<float> scale(q, {*rc::gen::element(1.0f, 1024.0f, 3.0f)});
        Both<std::uint32_t> order(q, std::vector<std::uint32_t>(n));
        Both<Entry> mine(q, std::vector<Entry>(k));
        const auto scratch = q.scratch();  // holds what other kernels left
        cuda_tests::must(
            cudaMemsetAsync(scratch.data, 0xab, std::size_t(scratch.size) * 4, q.stream()));
        launch(q, Choose{}, scalar(scale), values.read(), before.read(), after.view(), order.view(),
               mine.view());
        Choose{}(scale.host[0], values.host, before.host, after.host, order.host, mine.host);
        RC_ASSERT(after.same() && mine.same());

        const int ranks = *rc::gen::inRange(1, 5);
        std::vector<Entry> entries;
        for (int r = 0; r < ranks; ++r)
            for (Entry e : mine.host) {
                e.value = std::ldexp(e.value, static_cast<int>(random() % 30) - 15);
                entries.push_back(e);
            }
        if (!entries.empty() && *rc::gen::inRange(0, 8) == 0)  // a corrupted message
            entries[random() % entries.size()].index = static_cast<std::uint32_t>(n);
        Both<Entry> all(q, entries);
        const AddUp add{static_cast<float>(ranks)};
        launch(q, add, scalar(scale), all.read(), values.view());
        add(scale.host[0], all.host, values.host);
        RC_ASSERT(values.same());
    });
}

/// All zeros but the first value of the second block: its place is not that of a zero before it.
TEST(TopK, ChoosesNothingBehindTheEndOfABlock) {
    using namespace detail::top_k;
    for (const std::uint64_t seed : {1, 2, 3, 4}) {
        cuda_testing::reset({});
        cuda::emulation::seed(seed);
        cuda::DeviceContext gpu(0);
        Queue q(gpu, "compute");
        std::vector<float> few(3000);  // three blocks of 1000
        few[1000] = 5;
        Both<float> values(q, few), before(q, std::vector<float>(3000)),
            after(q, std::vector<float>(3000)), scale(q, {1});
        Both<std::uint32_t> order(q, std::vector<std::uint32_t>(3000));
        Both<Entry> mine(q, std::vector<Entry>(2500));
        launch(q, Choose{}, scalar(scale), values.read(), before.read(), after.view(), order.view(),
               mine.view());
        Choose{}(scale.host[0], values.host, before.host, after.host, order.host, mine.host);
        EXPECT_TRUE(after.same());
        EXPECT_TRUE(mine.same());
    }
}
TEST(TopK, RefusesWhatItCannotCount) {
    cuda_testing::reset({});
    cuda::DeviceContext gpu(0);
    Queue q(gpu, "compute");
    Both<float> one(q, {1});
    const auto scale = Memory::open(one.read());
    const cuda::DeviceSpan<float> many{Memory::open(one.view()).data, std::int64_t{1} << 32};
    EXPECT_DEATH(cuda::choose_largest(q.stream(), scale, many, many, many, q.scratch(), {}),
                 "one length, below 2\\^32");
    EXPECT_DEATH(cuda::add_indexed(q.stream(), 0, scale, {}, q.scratch(), Memory::open(one.view())),
                 "a part of equal length from each rank");
    EXPECT_TRUE(q.wait(q.record()).complete());
}

// ---- Quantized ---------------------------------------------------------------------------------

TEST(Quantize, TakesTheMeanOfAtLeastOneRank) {
    const cuda_tests::TestStream stream;
    cuda_tests::DeviceVector<std::byte> messages(stream, std::size_t{64});
    cuda_tests::DeviceVector<float> mean(stream, std::size_t{1});
    EXPECT_DEATH(cuda::average_quantized<8>(stream, messages, 32, 0, mean),
                 "a message of the chunk from each rank");
}

/// A block of the grid takes more than one of a message, and a barrier keeps them apart.
TEST(Quantize, BlocksOfALongMessageAreThoseOfAShortOne) {
    constexpr std::size_t grid = 4096 * 256, block = 256;
    std::vector<float> values(grid + block);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) - 40;
    const cuda_tests::TestStream stream;
    const cuda_tests::DeviceVector<std::uint64_t> number(stream, std::vector<std::uint64_t>{3});
    const cuda_tests::DeviceVector<float> all(stream, values),
        last(stream, std::vector<float>(values.end() - block, values.end()));
    const cuda::GradientDraws draws{Rng(1, "quantize"), 0};
    using Codec = detail::quantized::BlockCodec<8>;
    cuda_tests::DeviceVector<std::byte> whole(stream, Codec::bytes(values.size())),
        part(stream, Codec::bytes(block));
    cuda::quantize<8>(stream, number, all, 0, draws, whole);
    cuda::quantize<8>(stream, number, last, std::int64_t{grid}, draws, part);
    const std::vector<std::byte> end = whole.host(), expected = part.host();
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), end.end() - std::ssize(expected)));
}

template <class Bits>
class Quantization : public ::testing::Test {};
using AllBits = ::testing::Types<std::integral_constant<int, 8>, std::integral_constant<int, 4>>;
TYPED_TEST_SUITE(Quantization, AllBits);

TYPED_TEST(Quantization, HasTheBitsOfTheHost) {
    using Codec = detail::quantized::BlockCodec<TypeParam::value>;
    check([](Queue& q, std::mt19937_64& random) {
        const std::size_t n = drawn_count(), bytes = Codec::bytes(n);
        const auto ranks = *rc::gen::inRange<std::size_t>(1, 4);
        const auto longest = bytes + *rc::gen::inRange<std::size_t>(0, 3);
        const auto offset = *rc::gen::inRange<std::int64_t>(0, 1000);
        Both<std::byte> messages(q, std::vector<std::byte>(ranks * longest));
        for (std::size_t r = 0; r < ranks; ++r) {
            std::vector<float> v = numbers(random, n, random() % 3 == 0);
            if (n > 0 && random() % 4 == 0) v[0] = std::numeric_limits<float>::max();
            if (n > 600 && random() % 2 == 0) std::fill(v.begin(), v.begin() + 300, 0.0f);
            if (random() % 4 == 0)
                for (float& x : v) x *= 1e-38f;
            Both<float> values(q, v);
            Both<std::uint64_t> gradient(q, {r});
            const detail::quantized::CountGradients count{random()};
            launch(q, count, gradient.view());
            count(gradient.host);
            RC_ASSERT(gradient.same());
            const detail::quantized::EncodeNumbered<Codec> encode{
                offset, 7, int(r), detail::quantized::Phase::gradient};
            launch(q, encode, scalar(gradient), values.read(),
                   messages.view().subspan(r * longest, bytes));
            encode(gradient.host[0], values.host,
                   std::span(messages.host).subspan(r * longest, bytes));
            RC_ASSERT(messages.same());
        }
        Both<float> mean(q, std::vector<float>(n)), first(q, std::vector<float>(n));
        const detail::quantized::Average<Codec> average{longest, int(ranks)};
        launch(q, average, messages.read(), mean.view());
        average(messages.host, mean.host);
        RC_ASSERT(mean.same());
        launch(q, detail::quantized::Decode<Codec>{}, messages.read().first(bytes), first.view());
        detail::quantized::Decode<Codec>{}(std::span<const std::byte>(messages.host).first(bytes),
                                           first.host);
        RC_ASSERT(first.same());
    });
}

}  // namespace
