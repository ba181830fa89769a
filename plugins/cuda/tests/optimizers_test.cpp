// Updates on the device have the bits of the host's optimizers.
#include <gx/cuda/kernels.hpp>

#include "device_memory.hpp"
#include "grid_or_gpu.hpp"  // seed

#include <bit>      // bit_cast
#include <cmath>    // sqrt
#include <cstring>  // memcmp
#include <memory>   // unique_ptr
#include <random>   // values

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/model/graph.hpp>      // Graph
#include <gx/optimizer/adam.hpp>   // Adam
#include <gx/optimizer/adamw.hpp>  // AdamW
#include <gx/optimizer/lamb.hpp>   // Lamb
#include <gx/optimizer/lars.hpp>   // Lars
#include <gx/optimizer/roles.hpp>  // power
#include <gx/optimizer/sgd.hpp>    // Sgd

namespace {

using namespace gx;
using cuda::DeviceSpan;
using cuda_tests::DeviceVector;
using cuda_tests::TestStream;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// A network of four parameters, of all roles, in slices with padding between.
struct Case {
    Graph graph{};
    std::vector<ParameterSlice> slices{};
    std::vector<float> parameters{}, gradients{}, state{};
    float rate = 0.1f, unscale = 0.25f;
    std::int64_t args_step = 3;

    explicit Case(std::uint64_t seed, std::size_t state_vectors) {
        std::mt19937_64 random(seed);
        std::size_t at = 0;
        int index = 0;
        for (const ParameterRole role : {ParameterRole::weight, ParameterRole::bias,
                                         ParameterRole::gamma, ParameterRole::beta}) {
            Parameter p;
            p.role = role;
            graph.parameters.push_back(p);
            const std::size_t count = role == ParameterRole::weight
                                          ? *rc::gen::element<std::size_t>(1, 257, 33'000, 66'001)
                                          : *rc::gen::inRange<std::size_t>(0, 600);
            slices.push_back({.offset = at, .count = count, .parameter = index++});
            at += count + random() % 9;
        }
        const auto fill = [&](std::vector<float>& v, std::size_t count, int spread) {
            v.resize(count);
            for (float& x : v) {
                const auto mantissa = static_cast<float>(static_cast<std::int64_t>(random()));
                const int exponent = static_cast<int>(random() % static_cast<unsigned>(spread));
                x = std::ldexp(mantissa, -63 - exponent);
            }
        };
        fill(parameters, at, 12);
        fill(gradients, at, *rc::gen::element(8, 40, 140));
        fill(state, at * state_vectors, 10);
        for (std::size_t i = (state_vectors - 1) * at; i < state.size(); ++i)
            state[i] = std::abs(state[i]);  // AdamW's v
        cuda::emulation::seed(seed);
    }
    [[nodiscard]] UpdateArgs args() {
        return {.parameters = parameters,
                .gradients = gradients,
                .state = state,
                .slices = slices,
                .rate = rate,
                .unscale = unscale,
                .step = args_step};
    }
    [[nodiscard]] std::vector<float> state_vector(std::size_t k) const {
        const auto n = static_cast<std::ptrdiff_t>(parameters.size());
        const auto from = state.begin() + static_cast<std::ptrdiff_t>(k) * n;
        return {from, from + n};
    }
};

/// The case's vectors on the device.
struct OnDevice {
    explicit OnDevice(const Case& c)
        : pieces(stream, cuda::update_pieces(c.slices)),
          parameters(stream, c.parameters),
          gradients(stream, c.gradients),
          first(stream, c.state_vector(0)),
          step(stream, 1) {}
    [[nodiscard]] cuda::UpdateVectors vectors() const {
        return {pieces, step, parameters, gradients};
    }
    /// Begins the update of the case, as the step of a trainer does.
    void begin(const Case& c, bool applied = true, cuda::UpdateStart start = {}) {
        const DeviceVector<Flag> decision(stream, std::vector{Flag{applied}});
        const DeviceSpan<const Flag> flag = decision;
        const DeviceVector<float> loss_scale(stream, std::vector{1 / c.unscale}),
            rate(stream, std::vector{c.rate});
        updates = std::make_unique<DeviceVector<std::int64_t>>(stream, std::vector{c.args_step});
        cuda::begin_update(stream, {reinterpret_cast<const bool*>(flag.data), 1}, loss_scale, rate,
                           start, *updates, step);
        cuda_tests::must(cudaStreamSynchronize(stream));
    }

    TestStream stream{};
    DeviceVector<cuda::UpdatePiece> pieces;
    DeviceVector<float> parameters, gradients, first;
    DeviceVector<cuda::UpdateStep> step;
    std::unique_ptr<DeviceVector<std::int64_t>> updates{};
};

TEST(UpdatePieces, CoverEverySliceOnce) {
    const std::vector<ParameterSlice> slices{{5, 0, 0}, {5, 32'768, 1}, {40'000, 70'000, 2}};
    const auto pieces = cuda::update_pieces(slices);
    ASSERT_EQ(pieces.size(), 4u);
    EXPECT_EQ(pieces[0].offset, 5);
    EXPECT_EQ(pieces[0].count, 32'768);
    EXPECT_EQ(pieces[3].offset, 40'000 + 2 * 32'768);
    EXPECT_EQ(pieces[3].count, 70'000 - 2 * 32'768);
    EXPECT_EQ(pieces[3].parameter, 2);
}

RC_GTEST_PROP(Optimizers, SgdHasTheBitsOfTheHost,
              (std::uint64_t seed, bool nesterov, bool rate_in_velocity)) {
    Case c(seed, 1);
    const Sgd::Options o{.momentum = 0.9f,
                         .weight_decay = 1e-2f,
                         .nesterov = nesterov,
                         .rate_in_velocity = rate_in_velocity,
                         .decay_bias = true};
    OnDevice d(c);
    Sgd sgd(o);
    sgd.reserve(c.parameters.size(), c.slices, c.graph);
    sgd.update(c.args());
    const DeviceVector<float> decays(d.stream, {o.weight_decay, o.weight_decay, 0.0f, 0.0f});
    d.begin(c);
    cuda::sgd(d.stream, d.vectors(), d.first, decays, {o.momentum, nesterov, rate_in_velocity});
    RC_ASSERT(same_bits(d.parameters.host(), c.parameters));
    RC_ASSERT(same_bits(d.first.host(), c.state_vector(0)));
}

template <class O>
void check_adam(std::uint64_t seed, decltype(cuda::adam) update) {
    Case c(seed, 2);
    const typename O::Options o{.weight_decay = 0.01f};
    OnDevice d(c);
    DeviceVector<float> second(d.stream, c.state_vector(1));
    O optimizer(o);
    optimizer.reserve(c.parameters.size(), c.slices, c.graph);
    optimizer.update(c.args());
    const DeviceVector<float> decays(d.stream, {o.weight_decay, 0.0f, 0.0f, 0.0f});
    d.begin(c, true, {.beta1 = o.beta1, .beta2 = o.beta2});
    update(d.stream, d.vectors(), d.first, second, decays, {o.beta1, o.beta2, o.epsilon});
    RC_ASSERT(same_bits(d.parameters.host(), c.parameters));
    RC_ASSERT(same_bits(d.first.host(), c.state_vector(0)));
    RC_ASSERT(same_bits(second.host(), c.state_vector(1)));
}
RC_GTEST_PROP(Optimizers, AdamHasTheBitsOfTheHost, (std::uint64_t seed)) {
    check_adam<Adam>(seed, cuda::adam);
}
RC_GTEST_PROP(Optimizers, AdamWHasTheBitsOfTheHost, (std::uint64_t seed)) {
    check_adam<AdamW>(seed, cuda::adamw);
}

/// Norms, rates and updates on the device, without the host between.
RC_GTEST_PROP(Optimizers, LarsHasTheBitsOfTheHost, (std::uint64_t seed)) {
    Case c(seed, 1);
    const Lars::Options o{.trust = 0.02f, .epsilon = 1e-9f, .adapt_bias = true};
    if (*rc::gen::inRange(0, 5) == 0)  // ratio 1 where a tensor is zero
        std::fill_n(c.parameters.begin(), c.slices[0].count, 0.0f);
    OnDevice d(c);
    Lars lars(o);
    lars.reserve(c.parameters.size(), c.slices, c.graph);
    lars.update(c.args());

    const std::size_t count = c.slices.size();
    const DeviceVector<Flag> adapts(d.stream, {1, 1, 0, 0});
    const DeviceVector<unsigned long long> of_parameters(d.stream, count * cuda::norm_words),
        of_gradients(d.stream, count * cuda::norm_words);
    const DeviceVector<float> rates(d.stream, count), decays(d.stream, count);
    const cuda::LarsStep step{o.momentum, o.weight_decay, o.trust, o.epsilon};
    d.begin(c);
    cuda::add_squared_norms(d.stream, d.pieces, d.parameters, of_parameters);
    cuda::add_squared_norms(d.stream, d.pieces, d.gradients, of_gradients);
    cuda::lars_rates(d.stream, adapts, of_parameters, of_gradients, d.step, step, rates, decays);
    cuda::lars(d.stream, d.vectors(), d.first, rates, decays, step);
    RC_ASSERT(same_bits(d.parameters.host(), c.parameters));
    RC_ASSERT(same_bits(d.first.host(), c.state_vector(0)));
}

RC_GTEST_PROP(Optimizers, LambHasTheBitsOfTheHost, (std::uint64_t seed, bool is_bounded)) {
    Case c(seed, 2);
    const Lamb::Options o{.max_ratio = is_bounded ? 0.5f : 0, .adapt_bias = true};
    if (*rc::gen::inRange(0, 5) == 0)  // ratio 1 where a tensor is zero
        std::fill_n(c.parameters.begin(), c.slices[0].count, 0.0f);
    OnDevice d(c);
    DeviceVector<float> second(d.stream, c.state_vector(1));
    Lamb lamb(o);
    lamb.reserve(c.parameters.size(), c.slices, c.graph);
    lamb.update(c.args());

    const std::size_t count = c.slices.size();
    const DeviceVector<Flag> adapts(d.stream, {1, 1, 0, 0});
    const DeviceVector<unsigned long long> of_parameters(d.stream, count * cuda::norm_words),
        of_updates(d.stream, count * cuda::norm_words);
    const DeviceVector<float> rates(d.stream, count), decays(d.stream, count);
    const cuda::LambStep step{{o.beta1, o.beta2, o.epsilon}, o.weight_decay, o.max_ratio};
    d.begin(c, true, {.beta1 = o.beta1, .beta2 = o.beta2});
    cuda::add_squared_norms(d.stream, d.pieces, d.parameters, of_parameters);
    cuda::add_squared_updates(d.stream, d.vectors(), d.first, second, step, of_updates);
    cuda::lamb_rates(d.stream, adapts, of_parameters, of_updates, d.step, step, rates, decays);
    cuda::lamb(d.stream, d.vectors(), d.first, second, rates, decays, step);
    RC_ASSERT(same_bits(d.parameters.host(), c.parameters));
    RC_ASSERT(same_bits(d.first.host(), c.state_vector(0)));
    RC_ASSERT(same_bits(second.host(), c.state_vector(1)));
}

/// All finite floats and others: the words are those of SquaredSum once carries are added.
RC_GTEST_PROP(SquaredNorms, AreExact, (std::uint64_t seed)) {
    std::mt19937_64 random(seed);
    cuda::emulation::seed(seed);
    std::vector<float> values(*rc::gen::element<std::size_t>(0, 1, 999, 33'000));
    const int of_size = *rc::gen::inRange(0, 4);  // 1: subnormals, 2: the largest
    for (float& v : values) {
        auto bits = static_cast<std::uint32_t>(random());
        if (of_size == 1) bits &= 0x807fffffu;
        if (of_size == 2) bits = (bits & 0x80ffffffu) | 0x7e800000u;
        if (random() % 500 != 0 && (bits & 0x7f800000u) == 0x7f800000u) bits ^= 0x40000000u;
        v = std::bit_cast<float>(bits);
    }
    const std::vector<ParameterSlice> slices{{0, values.size() / 3, 1},
                                             {values.size() / 3, values.size() / 2, 0}};
    std::vector<SquaredSum> sums(2);
    squared_norms(slices, values, sums);
    const TestStream stream;
    const DeviceVector<cuda::UpdatePiece> pieces(stream, cuda::update_pieces(slices));
    const DeviceVector<float> x(stream, values);
    DeviceVector<unsigned long long> words(stream, std::size_t{2} * cuda::norm_words);
    cuda::add_squared_norms(stream, pieces, x, words);
    const auto got = words.host();
    for (std::size_t s = 0; s < 2; ++s) {
        SquaredSum device;
        for (std::size_t k = 0; k < SquaredSum::word_count; ++k)
            device.words()[k] = static_cast<double>(got[(1 - s) * cuda::norm_words + k]);
        RC_ASSERT(device == sums[s]);
    }
}

/// Words as sums of ranks and of millions of elements may leave them, and of one word alone: rates
/// and norms are those of the host's SquaredSum.
RC_GTEST_PROP(SquaredNorms, AreReadFromWordsWithCarries, (std::uint64_t seed)) {
    std::mt19937_64 random(seed);
    cuda::emulation::seed(seed);
    constexpr std::size_t count = 5, top = SquaredSum::word_count - 2;
    std::vector<unsigned long long> words(count * cuda::norm_words);
    std::vector<SquaredSum> sums(count);
    const auto set = [&](std::size_t sum, std::size_t word) {
        const std::uint64_t value = random() >> (14 + random() % 40);  // below 2^50
        words[sum * cuda::norm_words + word] = value;
        sums[sum].words()[word] = static_cast<double>(value);
    };
    set(0, 0);    // of subnormal numbers alone
    set(1, top);  // of the largest, more than 32 bits of them
    for (std::size_t sum = 2; sum < count; ++sum)
        for (std::size_t k = 0; k <= top; ++k) set(sum, k);
    // Updates whose norms are 1, and 2^60 beside what may be too large for a float.
    std::vector<unsigned long long> of_updates(words.size());
    for (std::size_t s = 0; s < count; ++s)
        of_updates[s * cuda::norm_words + (s == 0 ? 9 : 13)] = s == 0 ? 1 << 10 : 1 << 2;
    const TestStream stream;
    const DeviceVector<unsigned long long> of(stream, words), updates(stream, of_updates);
    const DeviceVector<cuda::UpdateStep> step(stream, std::vector{cuda::UpdateStep{.rate = 1}});
    const DeviceVector<Flag> adapts(stream, std::vector<Flag>(count, Flag{1}));
    DeviceVector<float> rates(stream, count), decays(stream, count);
    cuda::lamb_rates(stream, adapts, of, updates, step, {}, rates, decays);
    DeviceVector<double> norms(stream, words.size());
    cuda::store_norms(stream, {}, of, norms);
    const std::vector<float> got = rates.host();
    const std::vector<double> stored = norms.host();
    for (std::size_t s = 0; s < count; ++s) {
        const double norm = std::sqrt(sums[s].value());
        RC_ASSERT(got[s] == static_cast<float>(s == 0 ? norm : std::ldexp(norm, -60)));
        SquaredSum of_stored;
        for (std::size_t k = 0; k < SquaredSum::word_count; ++k) {
            const double word = stored[s * cuda::norm_words + k];
            RC_ASSERT(k == top || word < 0x1p32);
            of_stored.words()[k] = word;
        }
        RC_ASSERT(of_stored == sums[s]);
    }
}

/// An update that is not applied changes nothing but, where that counts, its number.
RC_GTEST_PROP(Optimizers, SkippedUpdatesChangeNothing, (std::uint64_t seed, bool counts_skipped)) {
    Case c(seed, 1);
    OnDevice d(c);
    const DeviceVector<float> ones(d.stream, std::vector<float>(4, 1.0f));
    d.begin(c, false, {.counts_skipped = counts_skipped});
    cuda::sgd(d.stream, d.vectors(), d.first, ones, {0.9f});
    cuda::adam(d.stream, d.vectors(), d.first, d.first, ones, {0.9f, 0.99f, 1e-8f});
    cuda::adamw(d.stream, d.vectors(), d.first, d.first, ones, {0.9f, 0.99f, 1e-8f});
    cuda::lamb(d.stream, d.vectors(), d.first, d.first, ones, ones, {{0.9f, 0.99f, 1e-8f}, 0, 0});
    cuda::lars(d.stream, d.vectors(), d.first, ones, ones, {});
    RC_ASSERT(same_bits(d.parameters.host(), c.parameters));
    RC_ASSERT(same_bits(d.first.host(), c.state_vector(0)));
    RC_ASSERT(d.updates->host()[0] == c.args_step + (counts_skipped ? 1 : 0));
}
TEST(Optimizers, CountAppliedUpdates) {
    EXPECT_TRUE(rc::check([](std::uint64_t seed, bool counts_skipped) {
        Case c(seed, 1);
        c.args_step = *rc::gen::inRange<std::int64_t>(0, 100'000);
        OnDevice d(c);
        d.begin(c, true, {.beta1 = 0.9f, .beta2 = 0.999f, .counts_skipped = counts_skipped});
        RC_ASSERT(d.updates->host()[0] == c.args_step + 1);
        const cuda::UpdateStep step = d.step.host()[0];
        RC_ASSERT(step.unscale == c.unscale);
        RC_ASSERT(step.rate == c.rate);
        RC_ASSERT(step.applied == 1);
        RC_ASSERT(step.correction2 ==
                  float(1 - detail::optimizer::power(double{0.999f}, c.args_step + 1)));
    }));
}

}  // namespace
