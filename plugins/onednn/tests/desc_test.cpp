// Desc: what it says of oneDNN's layouts, by hand, in whichever version it is built with.
#include <gx/onednn/detail/library/desc.hpp>

#include <cstdint>  // int64_t
#include <utility>  // move

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx::onednn::detail;
using gx::ElementType;

RC_GTEST_PROP(Desc, PutsNumbersWhereTheTagSays, ()) {
    const std::int64_t n = *rc::gen::inRange(1, 4), c = 16 * *rc::gen::inRange(1, 4),
                       h = *rc::gen::inRange(1, 5), w = *rc::gen::inRange(1, 5);
    const Desc plain({n, c, h, w}, dnnl_nchw, ElementType::fp32),
        last({n, c, h, w}, dnnl_nhwc, ElementType::bf16),
        blocked({n, c, h, w}, dnnl_nChw16c, ElementType::fp32),
        weights({c, c, h, w}, dnnl_OIhw16i16o, ElementType::fp32);
    RC_ASSERT(plain.bytes() == std::size_t(4 * n * c * h * w));
    RC_ASSERT(last.bytes() == std::size_t(2 * n * c * h * w));
    RC_ASSERT(last.floats() == (n * c * h * w + 1) / 2);
    RC_ASSERT(last.strides().bf16 && !blocked.strides().bf16);
    const std::int64_t a = *rc::gen::inRange<std::int64_t>(0, n),
                       b = *rc::gen::inRange<std::int64_t>(0, c),
                       o = *rc::gen::inRange<std::int64_t>(0, c),
                       y = *rc::gen::inRange<std::int64_t>(0, h),
                       x = *rc::gen::inRange<std::int64_t>(0, w);
    RC_ASSERT(element_offset(plain.strides(), {a, b, y, x}) == ((a * c + b) * h + y) * w + x);
    RC_ASSERT(element_offset(last.strides(), {a, b, y, x}) == ((a * h + y) * w + x) * c + b);
    RC_ASSERT(element_offset(blocked.strides(), {a, b, y, x}) ==
              (((a * (c / 16) + b / 16) * h + y) * w + x) * 16 + b % 16);
    RC_ASSERT(element_offset(weights.strides(), {o, b, y, x}) ==
              ((((o / 16 * (c / 16) + b / 16) * h + y) * w + x) * 16 + b % 16) * 16 + o % 16);
}
TEST(Desc, FirstKeepsTheStrides) {
    const Desc whole({64, 32, 3, 3}, dnnl_OIhw16i16o, ElementType::fp32);
    const Desc part = whole.first(32);
    EXPECT_EQ(part.strides().dims[0], 32);
    EXPECT_EQ(part.strides().dims[1], 32);
    EXPECT_EQ(part.bytes(), whole.bytes() / 2);
    EXPECT_EQ(part, Desc({32, 32, 3, 3}, dnnl_OIhw16i16o, ElementType::fp32));
    EXPECT_EQ(element_offset(part.strides(), {17, 20, 2, 1, 0}),
              element_offset(whole.strides(), {17, 20, 2, 1, 0}));
    EXPECT_EQ(whole.strides().dims[0], 64);
}
TEST(Desc, ACopyIsAnotherOne) {
    Desc a({2, 16, 3, 3}, dnnl_nchw, ElementType::fp32);
    const Desc b = a;
    EXPECT_EQ(a, b);
    a = Desc({2, 16, 3, 3}, dnnl_nhwc, ElementType::fp32);
    EXPECT_FALSE(a == b);
    EXPECT_EQ(b.strides().strides[1], 9);
    EXPECT_EQ(a.strides().strides[1], 1);
    const Desc c = std::move(a);
    EXPECT_EQ(c.strides().strides[1], 1);
    a = b;
    EXPECT_EQ(a, b);
    a = Desc();
    EXPECT_EQ(a.get(), nullptr);
    EXPECT_EQ(Desc(a).get(), nullptr);
}
TEST(Desc, OneWithoutStridesHasRankZero) {
    const Desc any({2, 16, 3, 3}, dnnl_format_tag_any, ElementType::fp32);
    EXPECT_NE(any.get(), nullptr);
    EXPECT_EQ(any.strides().rank, 0);
    EXPECT_EQ(Desc().strides().rank, 0);
}
TEST(Desc, NamesWhatCouldNotBeDescribed) {
    try {
        const Desc wrong({2, 16}, dnnl_nchw, ElementType::fp32);
        FAIL() << "was described";
    } catch (const LibraryError& e) {
        EXPECT_STREQ(e.what(), "could not describe an array");
    }
}

}  // namespace
