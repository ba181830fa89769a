#include <gx/memory/kernels.hpp>  // first, so the header is seen to stand alone

#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx;
using Floats = std::vector<float>;

Floats numbers(std::size_t count) {
    return *rc::gen::container<Floats>(
        count, rc::gen::map(rc::gen::inRange(-5000, 5000), [](int i) { return float(i) / 9; }));
}

/// Every kernel does, element by element, what its formula says.
template <class E>
void expect_formulas() {
    const auto count = *rc::gen::inRange<std::size_t>(0, 100);
    const Floats x = numbers(count), y = numbers(count);
    std::vector<typename E::storage> a(count), b(count);
    Floats back(count), scaled = x;
    kernels::EncodeScaled<E>{0.3f}(x, a);
    kernels::EncodeScaled<E>{1}(y, b);
    kernels::DecodeScaled<E>{0.7f}(a, back);
    auto sum = b;
    kernels::Accumulate<E>{}(a, sum);
    kernels::Scale{0.7f}(scaled);
    for (std::size_t i = 0; i < count; ++i) {
        RC_ASSERT(a[i] == E::encode(x[i] * 0.3f));
        RC_ASSERT(back[i] == E::decode(a[i]) * 0.7f);
        RC_ASSERT(sum[i] == E::encode(E::decode(b[i]) + E::decode(a[i])));
        RC_ASSERT(scaled[i] == x[i] * 0.7f);
    }
}
RC_GTEST_PROP(Kernels, FollowTheirFormulasInFp32, ()) { expect_formulas<fp32>(); }
RC_GTEST_PROP(Kernels, FollowTheirFormulasInFp16, ()) { expect_formulas<fp16>(); }
RC_GTEST_PROP(Kernels, FollowTheirFormulasInBf16, ()) { expect_formulas<bf16>(); }

TEST(Kernels, CopyAndFill) {
    const std::vector<int> from{1, 2, 3};
    std::vector<int> to(3);
    kernels::CopyValues<int>{}(from, to);
    EXPECT_EQ(to, from);
    kernels::Fill<int>{7}(to);
    EXPECT_EQ(to, (std::vector<int>{7, 7, 7}));
}

}  // namespace
